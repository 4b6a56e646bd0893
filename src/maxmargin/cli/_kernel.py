"""``maxmargin train -t KERNEL``: kernel machines, with LIBSVM's options."""

from __future__ import annotations

import argparse
from typing import Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import UsageError, label_value, on_a_terminal

_KERNELS = {"0": "linear", "1": "poly", "2": "rbf", "3": "sigmoid"}
_TYPES = {"0": "SVC", "2": "OneClassSVM", "3": "SVR"}  # LIBSVM's numbers, option -s
_OTHER_TYPES = {"1": "nu-SVC", "4": "nu-SVR"}
_OF_OTHERS = ("loss", "penalty", "free_intercept", "liblinear", "stream", "budget", "measure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options, in LIBSVM's letters where these are free; those of kernels are `_machines`'s."""
    group = parser.add_argument_group("exact kernel machines", "With -t, objective, intercept and -s are LIBSVM's.")
    group.add_argument(
        "-t",
        dest="kernel_type",
        choices=(*_KERNELS, *_KERNELS.values()),
        help="0 linear, 1 polynomial, 2 rbf, 3 sigmoid; then -s is 0 SVC (the default), 2 one-class, 3 epsilon-SVR, "
        "and gamma by default auto: 1 / features",
    )
    group.add_argument("--nu", type=options.positive, default=0.5, metavar="NU", help="of one-class (0.5)")
    group.add_argument("-m", "--cache-size", type=options.positive, default=500.0, metavar="MB", help="memory (500)")
    group.add_argument("--libsvm", action="store_true", help="write MODEL as LIBSVM does, for its svm-predict")


def estimator_for(arguments: argparse.Namespace, class_weight: Any) -> Any:
    """The machine that is asked for."""
    import maxmargin
    from maxmargin.solvers import kernel as kernel_solvers

    for name in _OF_OTHERS:
        if getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')} does not go with -t: it is of other models")
    kind = _TYPES.get(arguments.type or "0")
    if kind is None:
        what = f"{_OTHER_TYPES[arguments.type]} is not offered" if arguments.type in _OTHER_TYPES else "no such type"
        raise UsageError(f"-s {arguments.type}: {what}; with -t there are {', '.join(_TYPES)}")
    if arguments.solver not in kernel_solvers.names():
        raise UsageError(f"unknown solver {arguments.solver!r}; with -t there are {', '.join(kernel_solvers.names())}")
    if class_weight is not None and kind != "SVC":
        raise UsageError(f"a {kind} has no classes: leave out their weights")
    if arguments.folds is not None and kind == "OneClassSVM":
        raise UsageError("a one-class machine has no labels to be right about: leave out -v")
    own: dict[str, Any] = {
        "SVC": {"C": arguments.C, "class_weight": class_weight},
        "SVR": {"C": arguments.C, "epsilon": arguments.epsilon},
        "OneClassSVM": {"nu": arguments.nu},
    }[kind]
    return getattr(maxmargin, kind)(
        kernel=_KERNELS.get(arguments.kernel_type, arguments.kernel_type),
        degree=3 if arguments.degree is None else arguments.degree,
        gamma="auto" if arguments.gamma is None else arguments.gamma,
        coef0=0.0 if arguments.coef0 is None else arguments.coef0,
        tol=arguments.tol,
        cache_size=arguments.cache_size,
        max_iter=-1 if arguments.max_iter is None else arguments.max_iter,
        max_time=arguments.max_time,
        solver=arguments.solver,
        n_jobs=arguments.jobs,
        random_state=arguments.seed,
        verbose=int(on_a_terminal() and not arguments.quiet),
        **own,
    )


def describe(estimator: Any, X: Any) -> dict[str, Any]:
    """What there is to know of a fit."""
    from maxmargin.cli._report import as_list, certified

    classes = getattr(estimator, "classes_", None)
    return {
        "kind": type(estimator).__name__,
        "rows": X.shape[0],
        "features": X.shape[1],
        "nonzeros": int(X.nnz),
        "labels": None if classes is None else [label_value(label) for label in classes],
        "kernel": repr(estimator.kernel_),
        "C": getattr(estimator, "C", None),
        "nu": getattr(estimator, "nu", None),
        "support_vectors": len(estimator.support_),
        "solver": estimator.solver_.name,
        "tol": estimator.tol,
        "stop_reason": estimator.stop_reason_,
        **certified(estimator),
        "passes": max(float(each["passes"][-1]) for each in as_list(estimator.history_)),
    }


def in_words(report: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    from maxmargin.cli._report import listed, size

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
