"""Benchmarks: objective x dataset x solver, our solvers beside their peers. See README.md."""

import os

# The harness itself stays on one thread: idle BLAS threads that spin would disturb the solver being timed. Each
# solver's own process sets its own number of threads (worker.py).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
