"""Table 2 of Hsieh et al. (2008): seconds to within 1 % of the optimum, C = 1, no intercept."""

from __future__ import annotations

SOLVERS = ("DCDL1", "Pegasos", "SVMperf", "DCDL2", "PCD", "TRON")
TABLE_2 = {
    "a9a": (0.2, 1.1, 6.0, 0.4, 0.1, 0.1),
    "astro": (0.2, 2.8, 2.6, 0.2, 0.5, 1.2),
    "real-sim": (0.2, 2.4, 2.4, 0.1, 0.2, 0.9),
    "news20": (0.5, 10.3, 20.0, 0.2, 2.4, 5.2),
    "yahoo-japan": (1.1, 12.7, 69.4, 1.0, 2.9, 38.2),
    "rcv1": (2.6, 21.9, 72.0, 2.7, 5.1, 18.6),
    "yahoo-korea": (8.3, 79.7, 656.8, 7.1, 18.4, 286.1),
}
