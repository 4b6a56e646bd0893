"""What Franc and Sonnenburg (2008) print.

Their C is that of SVM-light, which is ours; which one table 2 was made with is not said, but Pegasos' steps are 100 /
lambda = 100 C m: 2,689K, 70M, 470M, 270M, 82M and 25K steps on 43 % of 62,369 rows and 87, 81, 77, 80 and 33 % of the
others make C = 1, 1, 10, 50, 1 and 0.005.
"""

from __future__ import annotations

from typing import NamedTuple

SETS = ("astro", "ccat", "cov1", "mnist", "worm", "artificial")
SPLITS = {
    "mnist": (0.77, 0.09, 0.14),
    "astro": (0.43, 0.05, 0.52),
    "artificial": (0.33, 0.33, 0.33),
    "cov1": (0.81, 0.09, 0.10),
    "ccat": (0.87, 0.10, 0.03),
    "worm": (0.80, 0.05, 0.15),
    "human": (1.0, 0.0, 0.0),
}
SPARSITY = {
    "mnist": 19,
    "astro": 0.08,
    "artificial": 100,
    "cov1": 22,
    "ccat": 0.16,
    "worm": 25,
    "human": 25,
}  # per cent
C = {"astro": 1.0, "ccat": 1.0, "cov1": 10.0, "mnist": 50.0, "worm": 1.0, "artificial": 0.005}
GRIDS = {
    "worm": (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
    "artificial": (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
    "ccat": (0.1, 0.5, 1.0, 5.0, 10.0),
    "astro": (0.1, 0.5, 1.0, 5.0, 10.0),
    "cov1": (0.1, 0.5, 1.0, 5.0, 10.0),
    "mnist": (1.0, 5.0, 10.0, 50.0, 100.0),
}


class Run(NamedTuple):
    """A cell of table 2."""

    objective: float | None
    iterations: float | None
    seconds: float | None


_NONE = Run(None, None, None)
TABLE_2 = {
    "svmlight": (
        Run(2.0939e3, 2972, 22), Run(8.1235e4, 77429, 5295), Run(2.5044e6, 1027310, 41531), Run(6.7118e5, 622391, 2719),
        _NONE, _NONE,
    ),
    "svmperf": (
        Run(2.1180e3, 38, 2), Run(8.1744e4, 228, 228), Run(2.5063e6, 520, 152), Run(6.7245e5, 1295, 228),
        Run(3.2224e4, 2029, 4436), Run(1.3186e2, 709, 162),
    ),
    "bmrm": (
        Run(2.1152e3, 42, 2), Run(8.1682e4, 327, 248), Run(2.5060e6, 678, 225), Run(6.7250e5, 2318, 4327), _NONE, _NONE,
    ),
    "ocas": (
        Run(2.1103e3, 21, 1), Run(8.1462e4, 48, 25), Run(2.5045e6, 80, 10), Run(6.7158e5, 137, 10),
        Run(3.1920e4, 125, 258), Run(1.3172e2, 76, 13),
    ),
    "pegasos": (
        Run(2.1090e3, 2.689e6, 4), Run(8.1564e4, 70e6, 127), Run(2.5060e6, 470e6, 460), Run(None, 270e6, 647),
        Run(4.6212e4, 82e6, 213), Run(1.3120e3, 25e3, 1),
    ),
    "sgd": (
        Run(2.2377e3, 10, 1), Run(8.2963e4, 10, 4), Run(2.6490e6, 10, 1), Run(1.3254e6, 10, 1), Run(2.1299e5, 10, 9),
        Run(1.8097e2, 10, 2),
    ),
}  # fmt: skip

# Table 3: (area under the ROC curve in per cent, best C, seconds of the whole selection)
_ACCURATE = (98.15, 98.51, 83.92, 95.86, 99.45, 86.38)
TABLE_3: dict[str, tuple[tuple[float | None, float | None, float | None], ...]] = {
    "svmperf": tuple(zip(_ACCURATE, (1, 1, 5, 10, 1, 0.005), (13, 1750, 781, 887, 22983, 24520))),
    "bmrm": tuple(zip(_ACCURATE, (1, 1, 10, 10, None, None), (17, 2735, 1562, 20278, None, None))),
    "ocas": tuple(zip(_ACCURATE, (1, 1, 50, 10, 0.1, 0.005), (4, 163, 51, 35, 1438, 6740))),
    "pegasos": tuple(
        zip((98.15, 98.51, 83.89, 95.84, 99.27, 78.35), (1, 1, 5, 5, 5, 5), (59, 2031, 731, 2125, 1438, 201))
    ),
    "sgd": tuple(zip((98.13, 98.52, 83.88, 95.71, 99.43, 80.88), (0.5, 1, 1, 1, 0.005, 0.005), (1, 20, 5, 3, 69, 7))),
}  # fmt: skip

TABLE_4 = {  # CPUs: (speed-up, line search, plane, output, total), seconds
    1: (1.0, 238, 270, 2476, 3087),
    2: (1.77, 184, 155, 1300, 1742),
    4: (3.09, 178, 80, 640, 998),
    8: (4.5, 139, 49, 397, 684),
    16: (4.6, 117, 45, 410, 671),
}
