"""Tables 1 and 2 of Menon (2009)."""

from __future__ import annotations

from typing import NamedTuple


class Solver(NamedTuple):
    """A row of table 1, and what of ours it is."""

    citation: str
    kind: str  # linear, or by a kernel
    optimisation: str
    style: str
    runtime: str
    ours: str  # a name of `maxmargin.solvers` or `maxmargin.solvers.kernel`
    rows: float | None  # the power of the number of rows in the documented time
    bounded_by: str = ""  # what keeps it from any gap


TABLE_1 = {
    "SMO": Solver("Platt, 1999", "kernel", "dual QP", "batch", "Ω(n² d)", "smo", 2.0),
    "SVM-light": Solver("Joachims, 1999", "kernel", "dual QP", "batch", "Ω(n² d)", "svmlight", 2.0),
    "Core vector machine": Solver(
        "Tsang et al., 2005", "kernel", "dual geometry", "batch", "O(s / ρ⁴)", "cvm", 0.0,
        "at a fixed λ, C falls as 1/n and the core set takes in all rows",
    ),
    "SVM-perf": Solver("Joachims, 2006", "linear", "dual QP", "batch", "O(n s / λ ρ²)", "svmperf", 1.0),
    "NORMA": Solver(
        "Kivinen et al., 2004", "kernel", "primal SGD", "online", "Õ(s / ρ²)", "norma", 0.0,
        "steps of 1/√t, no averaging",
    ),
    "SVM-SGD": Solver(
        "Bottou, 2007", "linear", "primal SGD", "online-style", "unknown", "sgd", None,
        "steps of 1/t: the gap falls as 1/t",
    ),
    "Pegasos": Solver(
        "Shalev-Shwartz et al., 2007", "linear", "primal SGD", "online-style", "Õ(s / λ ρ)", "pegasos", 0.0,
        "steps of 1/t: the gap falls as 1/t",
    ),
    "Pegasos, kernel": Solver(
        "Shalev-Shwartz et al., 2007", "kernel", "primal SGD", "online-style", "Õ(s / λ ρ)", "kernel_pegasos", 0.0,
        "steps of 1/t: the gap falls as 1/t",
    ),
    "LIBLINEAR": Solver(
        "Hsieh et al., 2008", "linear", "dual coordinate descent", "batch", "O(n d log 1/ρ)", "dual_cd", 1.0
    ),
    "SGD-QN": Solver(
        "Bordes, Bottou, 2008", "linear", "primal 2SGD", "online-style", "unknown", "sgd_qn", None,
        "steps of 1/t: the gap falls as 1/t",
    ),
    "FOLOS": Solver(
        "Duchi, Singer, 2008", "linear", "primal SGP", "online-style", "Õ(s / λ ρ)", "folos", 0.0,
        "steps of 1/t: the gap falls as 1/t",
    ),
    "BMRM": Solver("Smola et al., 2007", "linear", "dual QP", "batch", "O(n d / λ ρ)", "bmrm", 1.0),
    "OCAS": Solver("Franc, Sonnenburg, 2008", "linear", "primal QP", "batch", "O(n d)", "ocas", 1.0),
}  # fmt: skip

TABLE_2 = {  # time to an accuracy rho, and its power of 1 / rho (0: a logarithm)
    "gd": ("O(n d log 1/ρ)", 0.0),
    "sgd_plain": ("O(d / ρ)", 1.0),
    "2gd": ("O((d² + n d) log log 1/ρ)", 0.0),
    "2sgd": ("O(d² / ρ)", 1.0),
}
BOUNDS_2 = {  # time to a test error that is E above the best
    "gd": "O(d²/E log² 1/E)",
    "sgd_plain": "O(d/E)",
    "2gd": "O(d²/E log 1/E log log 1/E)",
    "2sgd": "O(d²/E)",
}
RECURSION = "the survey's recursion"
NAMES_2 = {"gd": "GD", "sgd_plain": "SGD", "2gd": "2GD", "2sgd": "2SGD"}
