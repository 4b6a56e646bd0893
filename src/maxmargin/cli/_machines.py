"""What `train` trains beside linear classifiers and regressors: kernel machines on a budget, and models for a measure.

A machine is chosen by its own options; what belongs to another one is refused by name.
"""

from __future__ import annotations

import argparse
from typing import Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import UsageError

# Options of linear models that machines have no use for: attribute and how it is written.
_LINEAR = {
    "loss": "--loss",
    "type": "-s",
    "penalty": "--penalty",
    "solver": "--solver",
    "free_intercept": "--free-intercept",
    "liblinear": "--liblinear",
    "checkpoint": "--checkpoint",
    "scheduler": "--scheduler",
    "plot": "--plot",
    "folds": "-v",
    "stream": "--stream",
}
_OF_KERNELS = {"kernel": "--kernel", "gamma": "--gamma", "degree": "--degree", "coef0": "--coef0"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of machines, for ``train``."""
    kernels = parser.add_argument_group(
        "kernel machines of fixed size", "Gradient descent that merges support vectors."
    )
    kernels.add_argument("--budget", type=budget, metavar="N", help="at most N support vectors, or auto")
    kernels.add_argument("--kernel", choices=("rbf", "linear", "poly", "sigmoid"), help="with --budget (rbf)")
    kernels.add_argument("-g", "--gamma", type=gamma, metavar="G", help="of the kernel: a number, scale, auto (scale)")
    kernels.add_argument("-d", "--degree", type=options.count, metavar="D", help="of poly (3)")
    kernels.add_argument("-r", "--coef0", type=options.number, metavar="R", help="of poly and sigmoid (0)")
    measures = parser.add_argument_group("linear classifiers for a measure", "SVM-perf, for two classes.")
    measures.add_argument(
        "--measure", metavar="NAME", help="f1, roc_area, precision_at_k, recall_at_k, error_rate, ..."
    )
    measures.add_argument("--at", type=options.count, default=0, metavar="K", help="of precision and recall at K")


def budget(text: str) -> int | str:
    """A number of support vectors, or auto."""
    return text if text == "auto" else options.count(text)


def gamma(text: str) -> float | str:
    """A number, or a rule."""
    return text if text in ("scale", "auto") else options.positive(text)


def chosen(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> str | None:
    """The kind of machine that the options ask for; None for a linear model. What does not go with it is refused."""
    given = [option for name, option in _OF_KERNELS.items() if getattr(arguments, name) is not None]
    if arguments.budget is not None and arguments.measure is not None:
        raise UsageError("--budget makes a kernel machine and --measure a linear model: leave one out")
    if arguments.budget is None and given:
        raise UsageError(
            f"{given[0]} is of a kernel machine: add --budget N for N support vectors, or -t for an exact one"
        )
    if arguments.at and arguments.measure is None:
        raise UsageError("--at goes with --measure")
    kind = "budget" if arguments.budget is not None else "measure" if arguments.measure is not None else None
    if kind is None:
        return None
    unused = _LINEAR if kind == "budget" else _LINEAR | {"class_weight": "--class-weight"}
    for name, option in unused.items():
        if getattr(arguments, name) != parser.get_default(name):
            raise UsageError(f"{option} does not go with --{kind}")
    return kind


def make(kind: str, arguments: argparse.Namespace, shared: dict[str, Any], class_weight: Any) -> Any:
    """The estimator; `shared` has the parameters of linear models."""
    common = {name: shared[name] for name in ("C", "tol", "max_time", "n_jobs", "verbose")}
    try:
        if kind == "measure":
            return _for_measure(arguments, shared, common)
        return _with_kernel(arguments, shared, common, class_weight)
    except ValueError as error:  # it lists the choices
        raise UsageError(error) from error


def _for_measure(arguments: argparse.Namespace, shared: dict[str, Any], common: dict[str, Any]) -> Any:
    from maxmargin import StructuralSVC, measures

    measures.get(arguments.measure, arguments.at)
    scaling = shared["intercept_scaling"]
    return StructuralSVC(
        arguments.measure, arguments.at, intercept_scaling=scaling, max_iter=shared["max_iter"], **common
    )


def _with_kernel(
    arguments: argparse.Namespace, shared: dict[str, Any], common: dict[str, Any], class_weight: Any
) -> Any:
    from maxmargin import BudgetSVC

    own = {"kernel": arguments.kernel, "gamma": arguments.gamma, "degree": arguments.degree, "coef0": arguments.coef0}
    own["max_iter"] = shared["max_iter"]
    if arguments.kernel not in (None, "rbf"):
        own["maintenance"] = "remove"  # merging needs the kernel rbf
    estimator = BudgetSVC(
        budget=arguments.budget,
        fit_intercept=shared["fit_intercept"],
        class_weight=class_weight,
        random_state=shared["random_state"],
        **common,
    )
    estimator.set_params(**{name: value for name, value in own.items() if value is not None})
    estimator._check_parameters()
    return estimator
