"""What the table of methods says of each solver: family, paper and test."""

from __future__ import annotations

import importlib
import pkgutil

# Solver: where it comes from.
PAPERS = {
    "dual_cd": "Hsieh, Chang, Lin, Keerthi, Sundararajan (ICML 2008)",
    "primal_cd": "Chang, Hsieh, Lin (JMLR 2008); L1: Yuan, Chang, Hsieh, Lin (JMLR 2010)",
    "interior_point": "Mehrotra (SIAM J. Optim. 1992); Ferris, Munson (SIAM J. Optim. 2002)",
    "augmented_lagrangian": "Yan, Li (2020); Li, Sun, Toh (SIAM J. Optim. 2018)",
    "tron": "Lin, Weng, Keerthi (JMLR 2008); Galli, Lin (IEEE TNNLS 2022)",
    "lbfgs": "Liu, Nocedal (Math. Programming 1989)",
    "sub_lbfgs": "Yu, Vishwanathan, Guenter, Schraudolph (JMLR 2010)",
    "olbfgs": "Schraudolph, Yu, Guenter (AISTATS 2007)",
    "ocas": "Franc, Sonnenburg (ICML 2008)",
    "cutting_plane": "Joachims (KDD 2006); Franc, Sonnenburg (ICML 2008), section 2",
    "bmrm": "Teo, Smola, Vishwanathan, Le (KDD 2007; JMLR 2010)",
    "svmperf": "Joachims (ICML 2005; KDD 2006)",
    "sgd": "Bottou (COMPSTAT 2010); Xu (2011); Shamir, Zhang (ICML 2013)",
    "pegasos": "Shalev-Shwartz, Singer, Srebro (ICML 2007), with Cotter (Math. Programming 2011)",
    "sgd_qn": "Bordes, Bottou, Gallinari (JMLR 2009), with Chang, Smith (JMLR 2010)",
    "block_cd": "Yu, Hsieh, Chang, Lin (KDD 2010)",
    "kernel_larank": "Bordes, Bottou, Gallinari, Weston (ICML 2007)",
    "larank": "Bordes, Bottou, Gallinari, Weston (ICML 2007)",
    "sub_olbfgs": "proposed by Menon (2009), sections 4.3.3 and 6",
    "folos": "Duchi, Singer (JMLR 2009)",
    "folos_batch": "Duchi, Singer (JMLR 2009)",
    "gd": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "2gd": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "sgd_plain": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "2sgd": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "block_smo": "Osuna, Freund, Girosi (1997); Joachims (1998)",
    "smo": "Fan, Chen, Lin (JMLR 2005); Chang, Lin (2011)",
    "svmlight": "Joachims (1998)",
    "cvm": "Tsang, Kwok, Cheung (JMLR 2005)",
    "bvm": "Tsang, Kocsor, Kwok (ICML 2007)",
    "kernel_pegasos": "Shalev-Shwartz, Singer, Srebro (ICML 2007), section 4",
    "nystroem": "Williams, Seeger (NIPS 2001)",
    "fourier": "Rahimi, Recht (NIPS 2007)",
    "online_sgd": "Bottou (COMPSTAT 2010); Xu (2011); Shamir, Zhang (ICML 2013)",
    "norma": "Kivinen, Smola, Williamson (IEEE Trans. Signal Processing 2004)",
    "budget_sgd": "Wang, Crammer, Vucetic (JMLR 2012); Glasmachers, Qaadan (2018)",
}

# Solver: its test file, where that is not called after the solver's module.
TESTS = {
    "block_smo": "tests/kernel/test_kernel_solvers.py",
    "smo": "tests/kernel/test_kernel_solvers.py",
    "svmlight": "tests/kernel/test_other_kernel_solvers.py",
    "cvm": "tests/kernel/test_other_kernel_solvers.py",
    "bvm": "tests/kernel/test_other_kernel_solvers.py",
    "kernel_pegasos": "tests/kernel/test_other_kernel_solvers.py",
    "norma": "tests/kernel/test_other_kernel_solvers.py",
    "nystroem": "tests/kernel/test_other_kernel_solvers.py",
    "fourier": "tests/kernel/test_other_kernel_solvers.py",
    "online_sgd": "tests/test_online_svc.py",
    "sgd_plain": "tests/solvers/test_gradient_descent.py",
    "2sgd": "tests/solvers/test_gradient_descent.py",
}

FAMILIES = ("coordinate", "newton", "planes", "stochastic", "kernel", "budget", "textbook")


def solver_rows():
    """Name, class and family of every solver of the package, the families in our order."""
    import maxmargin.solvers
    from maxmargin.solvers.base import Solver

    found = {}
    for module in pkgutil.walk_packages(maxmargin.solvers.__path__, "maxmargin.solvers."):
        family = module.name.split(".")[2]
        for cls in vars(importlib.import_module(module.name)).values():
            is_solver = isinstance(cls, type) and issubclass(cls, Solver) and cls.__module__ == module.name
            if is_solver and isinstance(vars(cls).get("name"), str) and not cls.__name__.startswith("_"):
                found[cls.name] = (cls.name, cls, family)
    return sorted(found.values(), key=lambda row: FAMILIES.index(row[2]) if row[2] in FAMILIES else len(FAMILIES))


def test_of(name: str, cls: type) -> str:
    """The test file of a solver."""
    return TESTS.get(name) or f"tests/solvers/test_{cls.__module__.rpartition('.')[2]}.py"
