"""``maxmargin train -t KERNEL`` and ``maxmargin select -t KERNEL``: kernel machines, with LIBSVM's options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from maxmargin._names import suggestion
from maxmargin.cli import _options as options
from maxmargin.cli._console import UsageError, label_value
from maxmargin.cli._estimators import class_weight_of, run_parameters
from maxmargin.cli._report import certified, extent_of, listed, size

_KERNELS = {"0": "linear", "1": "poly", "2": "rbf", "3": "sigmoid"}
_TYPES = {"0": "SVC", "2": "OneClassSVM", "3": "SVR"}  # LIBSVM's numbers, option -s
_OTHER_TYPES = {"1": "nu-SVC", "4": "nu-SVR"}
_OF_OTHERS = ("loss", "penalty", "free_intercept", "liblinear", "stream", "budget", "measure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options, in LIBSVM's letters where these are free; those of kernels are `_machines`'s."""
    group = parser.add_argument_group("exact kernel machines", "With -t, objective, intercept and -s are LIBSVM's.")
    _add_shared(group, "0 SVC (the default), 2 one-class, 3 epsilon-SVR, and gamma by default auto: 1 / features")
    group.add_argument("--nu", type=options.positive, default=0.5, metavar="NU", help="of one-class (0.5)")


def add_search_arguments(parser: argparse.ArgumentParser, grid: Callable[[str], Any]) -> None:
    """The options of ``maxmargin select``; `grid` is the type of values to choose from."""
    group = parser.add_argument_group("exact kernel machines", "With -t, objective, intercept and -s are LIBSVM's.")
    _add_shared(group, "0 SVC (the default) or 3 epsilon-SVR")
    group.add_argument("-s", dest="type", choices=("0", "3"), help="LIBSVM's number of the machine")
    group.add_argument(
        "-g", "--gammas", type=grid, metavar="GRID", help="values of gamma to choose from (5: 1/4, 1, 4, ... x scale)"
    )
    group.add_argument("-d", "--degree", type=options.count, metavar="D", help="of the polynomial (3)")
    group.add_argument("-r", "--coef0", type=options.number, metavar="R", help="of polynomial and sigmoid (0)")
    group.add_argument("-p", "--epsilon", type=options.not_negative, metavar="EPSILON", help="of epsilon-SVR (0.1)")


def _add_shared(group: argparse._ArgumentGroup, types: str) -> None:
    group.add_argument(
        "-t",
        dest="kernel_type",
        choices=(*_KERNELS, *_KERNELS.values()),
        help=f"0 linear, 1 polynomial, 2 rbf, 3 sigmoid; then -s is {types}",
    )
    group.add_argument("-m", "--cache-size", type=options.positive, default=500.0, metavar="MB", help="memory (500)")
    group.add_argument("--libsvm", action="store_true", help="write MODEL as LIBSVM does, for its svm-predict")


# ---------------------------------------------------------------- machines


def estimator_for(arguments: argparse.Namespace) -> Any:
    """The machine that is asked for."""
    import maxmargin

    class_weight, kind = class_weight_of(arguments), _kind(arguments)
    if arguments.folds is not None and kind == "OneClassSVM":
        raise UsageError("a one-class machine has no labels to be right about: leave out -v")
    own: dict[str, Any] = {
        "SVC": {"C": arguments.C, "class_weight": class_weight},
        "SVR": {"C": arguments.C, "epsilon": arguments.epsilon},
        "OneClassSVM": {"nu": arguments.nu},
    }[kind]
    gamma = "auto" if arguments.gamma is None else arguments.gamma
    return getattr(maxmargin, kind)(gamma=gamma, **own, **_parameters(arguments))


def _kind(arguments: argparse.Namespace) -> str:
    """The name of the machine; what does not go with it is refused."""
    from maxmargin.solvers import kernel as kernel_solvers

    for name in _OF_OTHERS:
        if getattr(arguments, name, None):
            raise UsageError(f"{options.spelled(name)} does not go with -t: it is of other models")
    kind = _TYPES.get(arguments.type or "0")
    if kind is None:
        what = f"{_OTHER_TYPES[arguments.type]} is not offered" if arguments.type in _OTHER_TYPES else "no such type"
        raise UsageError(f"-s {arguments.type}: {what}; with -t there are {', '.join(_TYPES)}")
    if arguments.solver not in kernel_solvers.names():
        able = kernel_solvers.names()
        meant = suggestion(arguments.solver, able)
        raise UsageError(f"unknown solver {arguments.solver!r}{meant}; with -t there are {', '.join(able)}")
    if arguments.class_weight and kind != "SVC":
        raise UsageError(f"a {kind} has no classes: leave out their weights")
    return kind


def _parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of all kernel machines."""
    shared = run_parameters(arguments) | {"cache_size": arguments.cache_size}
    shared["kernel"] = _KERNELS.get(arguments.kernel_type, arguments.kernel_type)
    given = {name: getattr(arguments, name) for name in ("degree", "coef0", "max_iter")}
    return shared | {name: value for name, value in given.items() if value is not None}


# ---------------------------------------------------------------- the search for C and gamma


def refuse_without_kernel(arguments: argparse.Namespace) -> None:
    """Refuse options that ask for a kernel without naming it."""
    for name in ("type", "gammas", "degree", "coef0", "epsilon", "libsvm"):
        if getattr(arguments, name):
            raise UsageError(f"{options.spelled(name)} is of kernel machines: choose a kernel with -t")


def check_search(arguments: argparse.Namespace) -> None:
    """Refuse what does not go with a kernel before the data are read."""
    _kind(arguments)


def is_regression(arguments: argparse.Namespace) -> bool:
    """Whether numbers are to be predicted."""
    return _kind(arguments) == "SVR"


def search_for(arguments: argparse.Namespace, folds: Any) -> Any:
    """The estimator that chooses C and gamma of the machine that is asked for."""
    from maxmargin import SVCCV, SVRCV

    given = {"Cs": arguments.Cs, "gammas": arguments.gammas, "epsilon": arguments.epsilon}
    shared = _parameters(arguments) | {name: value for name, value in given.items() if value is not None}
    shared |= {"cv": folds, "scoring": arguments.scoring}
    if is_regression(arguments):
        return SVRCV(**shared)
    shared.pop("epsilon", None)
    return SVCCV(class_weight=class_weight_of(arguments), **shared)


def chosen(search: Any) -> Any:
    """The machine that a search has chosen."""
    return search.to_svc() if hasattr(search, "to_svc") else search.to_svr()


# ---------------------------------------------------------------- reports


def describe(estimator: Any, X: Any) -> dict[str, Any]:
    """What there is to know of a fit."""
    classes = getattr(estimator, "classes_", None)
    return {
        "kind": type(estimator).__name__,
        **extent_of(X),
        "labels": None if classes is None else [label_value(label) for label in classes],
        "kernel": repr(estimator.kernel_),
        "C": getattr(estimator, "C", None),
        "nu": getattr(estimator, "nu", None),
        "support_vectors": len(estimator.support_),
        "solver": estimator.solver_.name,
        "tol": estimator.tol,
        "stop_reason": estimator.stop_reason_,
        **certified(estimator),
        "passes": max(float(each["passes"][-1]) for each in estimator.histories_),
    }


def in_words(report: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    several = len(report["labels"] or []) > 2
    cost = f"nu = {report['nu']:g}" if report["C"] is None else f"C = {report['C']:g}"
    classes = "" if report["labels"] is None else f", classes {listed(report['labels'])}"
    return {
        "data": f"{report['data']}: {size(report)}{classes}",
        "problem": f"{report['kind']}, {report['kernel']}, {cost}",
        "solver": f"{report['solver']}: {report['passes']:.1f} passes in {report['seconds']:.2f} s"
        + (", compiling included" if report["compiled"] else ""),
        "support": f"{report['support_vectors']:,} vectors",
        "objective": f"{report['primal']:.10g}, the optimum is above {report['dual']:.10g}"
        + (" (sums over the pairs of classes)" if several else ""),
        "gap": f"{report['relative_gap']:.1e}{' for the worst pair' if several else ''}, certified "
        f"(goal {report['tol']:.0e}): {report['stop_reason']}",
        "model": report["model"],
    }
