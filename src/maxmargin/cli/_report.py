"""What is said of a trained classifier: as numbers for programs, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxmargin.cli._console import counted, label_text, label_value

if TYPE_CHECKING:
    from maxmargin import LinearSVC

_CLASSES_SHOWN = 8


def describe(classifier: LinearSVC, X: Any) -> dict[str, Any]:
    """Everything there is to know of a fit.

    With more than two classes the objectives are sums, passes and the relative gap those of the worst class, and
    `classes` has the numbers of each.
    """
    from maxmargin import losses

    certificates, histories = as_list(classifier.certificate_), as_list(classifier.history_)
    report = {
        "rows": X.shape[0],
        "features": X.shape[1],
        "nonzeros": int(X.nnz),
        "labels": [label_value(label) for label in classifier.classes_],
        "loss": losses.name_of(losses.get(classifier.loss)),
        "C": classifier.C,
        "bias": classifier.intercept_scaling if classifier.fit_intercept else None,
        "solver": classifier.solver_.name,
        "tol": classifier.tol,
        "stop_reason": classifier.stop_reason_,
        **certified(classifier),
        "passes": max(float(each["passes"][-1]) for each in histories),
    }
    if len(certificates) > 1:
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


def certified(classifier: LinearSVC) -> dict[str, float]:
    """The bounds on the optimum: with more than two classes their sums, and the worst relative gap."""
    certificates = as_list(classifier.certificate_)
    return {
        "primal": sum(each.primal for each in certificates),
        "dual": sum(each.dual for each in certificates),
        "relative_gap": max(each.relative_gap for each in certificates),
    }


def as_list(content: Any) -> list[Any]:
    """What an estimator has one of for two classes, and a list of for more."""
    return content if isinstance(content, list) else [content]


def in_words(report: dict[str, Any]) -> dict[str, str]:
    """The same for people, a few lines."""
    several = len(report["labels"]) > 2
    goal = f"certified (goal {report['tol']:.0e}): {report['stop_reason']}"
    return {
        "data": f"{report['data']}: {size(report)}, classes {listed(report['labels'])}",
        "problem": f"{report['loss']}, C = {report['C']:g}, " + ("intercept" if report["bias"] else "no intercept"),
        "solver": f"{report['solver']}: {report['passes']:.1f} passes in {report['seconds']:.2f} s"
        + (", compiling included" if report["compiled"] else ""),
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
