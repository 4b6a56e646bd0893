"""One row at a time: SGD, Pegasos, SGD-QN, FOLOS, online L-BFGS."""
