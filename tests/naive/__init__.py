"""Slow, obvious versions of what the package does fast: the oracles of the tests.

They take a dense X, and share nothing with the code under test but the tags that name the losses.
"""

from functools import partial

from naive.augmented_lagrangian import augmented_lagrangian
from naive.block_cd import block_cd
from naive.cutting_plane import bmrm, cutting_plane
from naive.dual_cd import dual_cd
from naive.folos import folos
from naive.folos_batch import folos_batch
from naive.gradient_descent import gd, newton, second_order_sgd, sgd_plain
from naive.interior_point import interior_point
from naive.lbfgs import lbfgs
from naive.objectives import *  # noqa: F403
from naive.ocas import ocas
from naive.online_lbfgs import online_lbfgs
from naive.optimum import Optimum, optimum  # noqa: F401
from naive.pegasos import pegasos
from naive.primal_cd import primal_cd
from naive.random import Xorshift  # noqa: F401
from naive.sgd import sgd
from naive.sgd_qn import sgd_qn
from naive.sub_lbfgs import sub_lbfgs
from naive.svmperf import svmperf
from naive.tron import tron

# Every solver needs an entry here: (X, y, cost, loss, seed) -> iterator over (w, ...) after each pass.
STEP_BY_STEP = {
    "dual_cd": partial(dual_cd, threshold=0.5),  # our own default shrinks sooner than the paper
    "block_cd": block_cd,
    "primal_cd": primal_cd,
    "olbfgs": online_lbfgs,
    "sgd": sgd,
    "pegasos": pegasos,
    "sgd_qn": sgd_qn,
    "folos": folos,
    "sgd_plain": sgd_plain,
    "2sgd": second_order_sgd,
}

# Solvers that make passes: (X, y, cost, loss, seed) -> iterator over (passes, w) after each iteration, the start first.
ITERATIONS = {
    "interior_point": interior_point,
    "augmented_lagrangian": augmented_lagrangian,
    "tron": tron,
    "lbfgs": lbfgs,
    "ocas": ocas,
    "cutting_plane": cutting_plane,
    "bmrm": bmrm,
    "svmperf": svmperf,
    "sub_lbfgs": sub_lbfgs,
    "sub_olbfgs": sub_lbfgs,  # as long as a batch has all rows; of smaller ones, see its own tests
    "folos_batch": folos_batch,
    "gd": gd,
    "2gd": newton,
}
