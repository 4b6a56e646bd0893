"""The measurements behind dual coordinate descent's table and figures: C = 1, no intercept, 4/5 of the rows train."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from maxmargin import Problem, solvers
from papers.frame.data import load
from papers.frame.experiment import Settings
from papers.frame.measure import accuracy, compile_for, follow, optimum, solve_within

LOSS = {"DCDL1": "hinge", "DCDL1-S": "hinge", "Pegasos": "hinge", "SVMperf": "hinge", "LIBLINEAR L1": "hinge"}
LOSS |= dict.fromkeys(("DCDL2", "DCDL2-S", "PCD", "TRON", "LIBLINEAR L2"), "squared_hinge")
SMALL = 1e-3  # violation (17) of a smaller problem (15) at which all rows come back
NAMES = {"Pegasos": "pegasos", "SVMperf": "svmperf", "PCD": "primal_cd", "TRON": "tron"}


def solver_of(name: str) -> Any:
    """Our solver for a name of the paper's; -S is with its shrinking."""
    from maxmargin.solvers.coordinate.dual_cd import DualCD

    if name.endswith("-S"):
        return DualCD(threshold=1.0, epsilon=SMALL)
    return DualCD(shrinking=False) if name.startswith("DCD") else solvers.get(NAMES[name])


def run(settings: Settings) -> dict[str, Any]:
    """One solver on one set: (20), and the difference of test accuracy from the reference model's, on its way."""
    data, name, cap = load(settings["set"], settings["rows"]), settings["solver"], settings["cap"]
    problem = Problem(data.X, data.y, C=1.0, loss=LOSS[name])
    upper, lower, best = optimum(problem, settings["reference"], 10.0 * cap)
    reference = accuracy(data.X_test, data.y_test, best)
    points = []

    def look(seconds: float, passes: float | None, w: np.ndarray) -> float:
        above = max(problem.primal(w) - lower, 0.0) / upper
        points.append([seconds, passes, above, accuracy(data.X_test, data.y_test, w) - reference])
        return above

    if name.startswith("LIBLINEAR"):
        for tol in (1.0, 0.3, 0.1, 0.03, 0.01, 0.001, 0.0001):
            if look(*_liblinear(data.X, data.y, LOSS[name], tol)) <= settings["accuracy"] or points[-1][0] > cap:
                break
    else:
        compile_for(data.X, data.y, LOSS[name], solver_of(name))
        for point in follow(problem, solver_of(name), cap):
            if look(*point) <= settings["accuracy"]:
                break
    there = next((p for p in points if p[2] <= 0.01), None)
    return {"points": points, "seconds": there[0] if there else None, "reference": reference, "cap": cap}


def _liblinear(X: Any, y: np.ndarray, loss: str, tol: float) -> tuple[float, None, np.ndarray]:
    """Dual coordinate descent with shrinking as scikit-learn's copy of LIBLINEAR has it, to its own stop."""
    import warnings

    from sklearn.svm import LinearSVC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        model = LinearSVC(C=1.0, loss=loss, dual=True, fit_intercept=False, tol=tol, random_state=0).fit(X, y)
    return time.process_time() - started, None, model.coef_[0]


def stop_17(settings: Settings) -> dict[str, Any]:
    """Where the paper's stop (17) ends: passes, and the certified relative gap that it leaves."""
    from maxmargin.solvers.coordinate.dual_cd import DualCD

    data = load(settings["set"], settings["rows"])
    problem, solver = (
        Problem(data.X, data.y, C=1.0, loss=settings["loss"]),
        DualCD(threshold=1.0, epsilon=settings["epsilon"]),
    )
    compile_for(data.X, data.y, settings["loss"], solver)
    result, seconds, is_done = solve_within(problem, solver, 0.0, settings["cap"], solver.is_satisfied)
    gap = result.certificate.relative_gap
    return {"seconds": seconds, "passes": result.passes, "gap": gap, "is_done": is_done}


def section_3(settings: Settings) -> dict[str, Any]:
    """Passes and seconds of a variant to certified relative gaps of 1e-2, 1e-3 and 1e-5."""
    from maxmargin.solvers.coordinate.dual_cd import DualCD

    data = load(settings["set"], settings["rows"])
    problem = Problem(data.X, data.y, C=1.0, loss=settings["loss"])
    variants = {
        "cyclic (algorithm 1)": DualCD(shrinking=False, order="cyclic"),
        "permutation (3.1)": DualCD(shrinking=False),
        "online (3.3)": DualCD(shrinking=False, order="online"),
        "shrinking (3.2)": DualCD(threshold=1.0, epsilon=SMALL),
        "shrinking, ours": DualCD(),
    }
    solver = variants[settings["variant"]]
    compile_for(data.X, data.y, settings["loss"], solver)
    found = {}
    for tol in (1e-2, 1e-3, 1e-5):
        result, seconds, is_there = solve_within(problem, solver, tol, settings["cap"])
        found[f"passes {tol:g}"] = result.passes if is_there else None
        found[f"seconds {tol:g}"] = seconds if is_there else None
    return found
