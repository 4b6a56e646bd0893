"""Second-order methods over whole passes: Newton, L-BFGS, interior point, augmented Lagrangian."""
