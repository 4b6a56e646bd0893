"""Estimators with scikit-learn's interface, thin layers over `Problem` and the solvers."""
