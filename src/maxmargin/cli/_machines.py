"""What `train` trains beside linear classifiers and regressors: kernel machines on a budget, and models for a measure.

A machine is chosen by its own options; what belongs to another one is refused by name.
"""

from __future__ import annotations

import argparse
from typing import Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import UsageError
from maxmargin.cli._estimators import class_weight_of, intercept_parameters, run_parameters

_LINEAR = (  # options of linear models that machines have no use for
    *("loss", "type", "penalty", "solver", "free_intercept", "liblinear", "checkpoint", "scheduler", "plot", "folds"),
    "stream",
)
_OF_KERNELS = ("kernel", "gamma", "degree", "coef0")


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
    given = [options.spelled(name) for name in _OF_KERNELS if getattr(arguments, name) is not None]
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
    for name in _LINEAR if kind == "budget" else (*_LINEAR, "class_weight"):
        if getattr(arguments, name) != parser.get_default(name):
            raise UsageError(f"{options.spelled(name)} does not go with --{kind}")
    return kind


def make(kind: str, arguments: argparse.Namespace) -> Any:
    """The estimator."""
    shared = {"C": arguments.C, **run_parameters(arguments)}
    del shared["solver"]
    try:
        return (_for_measure if kind == "measure" else _with_kernel)(arguments, shared)
    except ValueError as error:  # it lists the choices
        raise UsageError(error) from error


def _for_measure(arguments: argparse.Namespace, shared: dict[str, Any]) -> Any:
    from maxmargin import StructuralSVC, measures

    measures.get(arguments.measure, arguments.at)
    del shared["random_state"]
    scaling = intercept_parameters(arguments)["intercept_scaling"]
    return StructuralSVC(arguments.measure, arguments.at, intercept_scaling=scaling, **shared)


def _with_kernel(arguments: argparse.Namespace, shared: dict[str, Any]) -> Any:
    from maxmargin import BudgetSVC

    own = {name: getattr(arguments, name) for name in _OF_KERNELS} | {"max_iter": shared.pop("max_iter")}
    if arguments.kernel not in (None, "rbf"):
        own["maintenance"] = "remove"  # merging needs the kernel rbf
    given = {name: value for name, value in own.items() if value is not None}
    with_intercept, class_weight = arguments.bias > 0.0, class_weight_of(arguments)
    estimator = BudgetSVC(
        budget=arguments.budget, fit_intercept=with_intercept, class_weight=class_weight, **shared, **given
    )
    estimator._check_parameters()
    return estimator
