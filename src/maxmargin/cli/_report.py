"""What is said of a trained estimator: as numbers for programs, in words for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from maxmargin.cli._console import counted, label_text, label_value

if TYPE_CHECKING:
    from maxmargin.estimators._base import LinearEstimator

_CLASSES_SHOWN = 8


def describe(estimator: LinearEstimator, X: Any) -> dict[str, Any]:
    """Everything there is to know of a fit.

    With more than two classes the objectives are sums, passes and the relative gap those of the worst class, and
    `classes` has the numbers of each.
    """
    from maxmargin import losses

    certificates, histories = estimator.certificates_, estimator.histories_
    loss, classes = losses.get(getattr(estimator, "loss", "hinge")), getattr(estimator, "classes_", None)
    report = {
        **extent_of(X),
        "labels": None if classes is None else [label_value(label) for label in classes],
        "loss": losses.name_of(loss),
        "penalty": getattr(estimator, "penalty", "l2"),
        "epsilon": getattr(estimator, "epsilon", None),
        "C": estimator.C,
        "bias": getattr(estimator, "intercept_scaling", 1.0) if estimator.fit_intercept else None,
        "solver": estimator.solver_.name,
        "tol": estimator.tol,
        "stop_reason": estimator.stop_reason_,
        **certified(estimator),
        "passes": max(float(each["passes"][-1]) for each in histories),
    }
    if hasattr(estimator, "support_vectors_"):
        report["support_vectors"] = len(estimator.support_vectors_)
    elif len(certificates) > 1:
        report["classes"] = [
            {
                "label": label,
                "primal": certificate.primal,
                "dual": certificate.dual,
                "relative_gap": certificate.relative_gap,
                "passes": float(history["passes"][-1]),
                "seconds": float(history["seconds"][-1]),
            }
            for label, certificate, history in zip(report["labels"], certificates, histories)
        ]
    return report


def extent_of(X: Any) -> dict[str, int]:
    """Rows, features and values that are not zero, of a store, a sparse or a dense matrix."""
    if hasattr(X, "n_stored"):
        return {"rows": X.n_rows, "features": X.n_features, "nonzeros": X.n_stored}
    n_nonzeros = int(X.nnz) if hasattr(X, "nnz") else int((X != 0).sum())
    return {"rows": X.shape[0], "features": X.shape[1], "nonzeros": n_nonzeros}


def certified(estimator: LinearEstimator) -> dict[str, float]:
    """The bounds on the optimum: with more than two classes their sums, and the worst relative gap."""
    certificates = estimator.certificates_
    if not certificates:
        return {"primal": math.nan, "dual": math.nan, "relative_gap": math.nan}
    return {
        "primal": sum(each.primal for each in certificates),
        "dual": sum(each.dual for each in certificates),
        "relative_gap": max(each.relative_gap for each in certificates),
    }


def in_words(report: dict[str, Any]) -> dict[str, str]:
    """The same for people, a few lines."""
    several = len(report["labels"] or []) > 2
    kind = "numbers to predict" if report["labels"] is None else f"classes {listed(report['labels'])}"
    epsilon = "" if report["epsilon"] is None else f", epsilon = {report['epsilon']:g}"
    penalty = ", L1 penalty" if report["penalty"] == "l1" else ""
    goal = f"certified (goal {report['tol']:.0e}): {report['stop_reason']}"
    words = {
        "data": f"{report['data']}: {size(report)}, {kind}",
        "problem": f"{report['loss']}{epsilon}{penalty}, C = {report['C']:g}, "
        + ("intercept" if report["bias"] else "no intercept"),
        "solver": f"{report['solver']}: {report['passes']:.1f} passes in {report['seconds']:.2f} s"
        + (", compiling included" if report["compiled"] else ""),
    }
    if "support_vectors" in report:
        words["support"] = counted(report["support_vectors"], "vector")
    if math.isnan(report["primal"]):
        return words | {"stopped": report["stop_reason"], "model": report["model"]}
    return words | {
        "objective": f"{report['primal']:.10g}, the optimum is above {report['dual']:.10g}"
        + (" (sums over the classes)" if several else ""),
        "gap": f"{report['relative_gap']:.1e}{' for the worst class' if several else ''}, {goal}",
        "model": report["model"],
    }


def size(report: dict[str, Any]) -> str:
    """Rows, features and nonzeros."""
    return ", ".join(counted(report[noun + "s"], noun) for noun in ("row", "feature", "nonzero"))


def listed(labels: list[Any]) -> str:
    """The classes, or the first of them and how many there are."""
    shown = ", ".join(map(label_text, labels[:_CLASSES_SHOWN]))
    return shown if len(labels) <= _CLASSES_SHOWN else f"{shown}, ... ({len(labels):,} of them)"


def draw(estimator: Any, path: str) -> None:
    """The certified gap over seconds."""
    from matplotlib.figure import Figure

    from maxmargin.displays import ConvergenceDisplay

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ConvergenceDisplay.from_estimator(estimator, ax=figure.subplots())
    figure.savefig(path, dpi=144)
