"""Choose C by cross validation; train with it on all rows and write MODEL, if it is named.

Every fold solves the problem for all C of the grid, one after the other and each to a proven gap of TOL, from where the
one before has ended: that takes little more time than the largest C alone. With -t the machine has a kernel, and gamma
is chosen, too. Ctrl-C ends this early, with exit code 130.
"""

from __future__ import annotations

import argparse
from typing import Any

from maxmargin.cli import _kernel as kernel_machines
from maxmargin.cli import _options as options
from maxmargin.cli._console import (
    DONE,
    INTERRUPTED,
    UsageError,
    announced_compilation,
    complain,
    print_json,
    print_table,
    timed_fit,
)
from maxmargin.cli._estimators import class_weight_of, intercept_parameters, run_parameters
from maxmargin.cli._files import LIBLINEAR_TYPES, check_plot, check_writable, data_name, read_data, write_trained
from maxmargin.cli._report import describe

_STEPS = 8  # of a grid that does not say
_SCORES = {"roc_auc": "ROC AUC", "r2": "R^2"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options; those that `train` has too have its names."""
    options.add_paths(parser, "select", default="none")

    choice = parser.add_argument_group("the choice")
    choice.add_argument(
        "-c",
        "--Cs",
        type=grid,
        metavar="GRID",
        help="values of C, 0.1,1,10, or a range LOW:HIGH or LOW:HIGH:HOW_MANY, evenly spaced on a logarithmic scale "
        f"(0.0001:1000:{_STEPS}; with -t 0.1:1000:5)",
    )
    choice.add_argument("-v", dest="folds", type=options.folds, default=5, metavar="FOLDS", help="number of folds (5)")
    choice.add_argument(
        "--scoring",
        metavar="NAME",
        help="one of scikit-learn's: roc_auc (the default for two classes), accuracy (for more, and with -t), f1, ...",
    )

    problem = parser.add_argument_group("the problem")
    problem.add_argument("--loss", metavar="LOSS", help="of a classifier (squared_hinge)")
    problem.add_argument("--penalty", choices=("l2", "l1"), help="1/2 |w|^2 (the default) or |w|_1")
    options.add_problem_options(problem)

    way = parser.add_argument_group("the way to the solution")
    options.add_solver_options(way, each=" for a C and a fold", order="folds")

    data = parser.add_argument_group("data and output")
    options.add_output_options(data, picture="the scores over C")
    kernel_machines.add_search_arguments(parser, grid)


def grid(text: str) -> list[float]:
    """``0.1,1,10``, ``LOW:HIGH`` or ``LOW:HIGH:HOW_MANY``."""
    if ":" not in text:
        return [options.positive(part) for part in text.split(",")]
    low, high, *rest = text.split(":")
    if len(rest) > 1:
        raise argparse.ArgumentTypeError(f"expected LOW:HIGH or LOW:HIGH:HOW_MANY, got {text!r}")
    first, last, n = options.positive(low), options.positive(high), options.count(rest[0]) if rest else _STEPS
    if n == 1 and first != last:
        raise argparse.ArgumentTypeError(f"a range takes two values or more, got {text!r}")
    # Rounded to 12 digits: 0.1 rather than 0.10000000000000002.
    return [float(f"{first * (last / first) ** (k / max(n - 1, 1)):.12g}") for k in range(n)]


def run(arguments: argparse.Namespace) -> int:
    """Choose, train, and tell."""
    data_paths, model_path = _paths(arguments)
    if model_path is not None:
        check_writable(model_path, over_models_only=True)
    if arguments.plot is not None:
        check_plot(arguments.plot)
    _check_choices(arguments)

    with announced_compilation(arguments.quiet):
        X, y = read_data(data_paths, arguments, n_features=arguments.n_features, dtype=arguments.dtype)
        if arguments.kernel_type is None:
            _check_classes(y, data_paths)
            estimator = _estimator(arguments, _folds(y, arguments))
        else:
            regression = kernel_machines.is_regression(arguments)
            if not regression:
                _check_classes(y, data_paths)
            estimator = kernel_machines.search_for(arguments, _folds(0.0 * y if regression else y, arguments))
        report, code = _select(estimator, X, y, model_path, arguments)
    if arguments.json:
        print_json({"data": ", ".join(map(data_name, data_paths)), **report})
    elif not arguments.quiet:
        _print_report(report)
    return code


# ---------------------------------------------------------------- what was asked for


def _paths(arguments: argparse.Namespace) -> tuple[list[str], str | None]:
    """The data files, and the model file if there shall be one."""
    paths, output = arguments.paths, arguments.output
    if output is None and len(paths) > 2:
        raise UsageError("several DATA files need -o MODEL")
    if output is None and len(paths) == 2:
        paths, output = paths[:1], paths[1]
    if output == "-":
        raise UsageError("a model is written to a file, not to stdout: name one")
    return paths, output


def _check_choices(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before the data are read."""
    from maxmargin.estimators._parameters import classifier_loss, solver_for
    from maxmargin.selection.scoring import scorer_for

    class_weight_of(arguments)
    try:
        scorer_for(arguments.scoring, 2)
    except ValueError as error:
        raise UsageError(f"--scoring {arguments.scoring}: scikit-learn has no such score") from error
    if arguments.kernel_type is not None:
        if arguments.plot:
            raise UsageError("--plot does not go with -t: there is no one line of scores over C")
        kernel_machines.check_search(arguments)
        return
    kernel_machines.refuse_without_kernel(arguments)
    loss, penalty = _objective(arguments)
    try:
        solver_for(arguments.solver, classifier_loss(loss, penalty), penalty)
    except ValueError as error:  # it lists the choices
        raise UsageError(error) from error
    if arguments.liblinear and (loss, penalty) not in LIBLINEAR_TYPES:
        raise UsageError(f"LIBLINEAR has no loss {loss!r}: leave out --liblinear or take another loss")


def _objective(arguments: argparse.Namespace) -> tuple[str, str]:
    return arguments.loss or "squared_hinge", arguments.penalty or "l2"


def _check_classes(y: Any, paths: list[str]) -> None:
    import numpy as np

    if len(np.unique(y)) < 2:
        name = ", ".join(map(data_name, paths))
        raise ValueError(f"{name}: all rows have the same label; training needs two classes or more")


def _folds(y: Any, arguments: argparse.Namespace) -> list[tuple[Any, Any]]:
    """The folds of ``train -v``: training and held-out rows."""
    import numpy as np

    from maxmargin.cli._folds import stratified_folds

    fold_of_row = stratified_folds(y, arguments.folds, arguments.seed)
    return [(np.flatnonzero(fold_of_row != k), np.flatnonzero(fold_of_row == k)) for k in range(arguments.folds)]


def _estimator(arguments: argparse.Namespace, folds: list[tuple[Any, Any]]) -> Any:
    from maxmargin import LinearSVCCV

    loss, penalty = _objective(arguments)
    shared = run_parameters(arguments) | intercept_parameters(arguments)
    values = _STEPS if arguments.Cs is None else arguments.Cs
    return LinearSVCCV(
        values, folds, arguments.scoring, loss=loss, penalty=penalty, class_weight=class_weight_of(arguments), **shared
    )


# ---------------------------------------------------------------- the work


def _select(
    estimator: Any, X: Any, y: Any, model_path: str | None, arguments: argparse.Namespace
) -> tuple[dict[str, Any], int]:
    """Choose and train, write what is to be written, and tell what came out, with the exit code."""
    from maxmargin.selection.scoring import scoring_name
    from maxmargin.solvers.interrupts import catch_interrupt

    is_linear = arguments.kernel_type is None
    with catch_interrupt():  # from here on Ctrl-C ends the training, not the writing
        seconds, is_interrupted = timed_fit(estimator, X, y)
        model = estimator.to_linear_svc() if is_linear else kernel_machines.chosen(estimator)
        model.set_params(n_jobs=None, verbose=0)  # they are of this run, not of the model
        if model_path is not None:
            write_trained(model, model_path, arguments)
        if arguments.plot is not None:
            estimator.plot().savefig(arguments.plot, dpi=144)
        if is_interrupted:
            done = f"{len(estimator.scores_)} of {arguments.folds} folds were complete"
            complain(f"interrupted; the cross validation is not: {done}, and C is the choice of these", kind="")
    default = None if is_linear else estimator.default_scoring
    report = {
        "model": model_path,
        "plot": arguments.plot,
        "seconds": seconds,
        "scoring": scoring_name(arguments.scoring or default, len(getattr(estimator, "classes_", ()))),
        "score": estimator.best_score_,
        "folds": len(estimator.scores_),
        "grid": _candidates(estimator),
        **(describe if is_linear else kernel_machines.describe)(model, X),
    }
    if not is_linear:
        report["gamma"] = estimator.gamma_
    return report, INTERRUPTED if is_interrupted else DONE


def _candidates(estimator: Any) -> list[dict[str, Any]]:
    """The table of the grid; seconds and passes of all folds."""
    table, n_folds = estimator.cv_results_, len(estimator.scores_)
    columns = {"C": "param_C", "mean": "mean_test_score", "deviation": "std_test_score", "relative_gap": "relative_gap"}
    columns |= {"gamma": "param_gamma"} if "param_gamma" in table else {}
    sums = {"seconds": "mean_fit_time", "passes": "mean_passes"}
    return [
        {name: _plain(table[key][k]) for name, key in columns.items()}
        | {name: n_folds * float(table[key][k]) for name, key in sums.items() if key in table}
        for k in range(len(table["param_C"]))
    ]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)


def _print_report(report: dict[str, Any]) -> None:
    """A table of the grid, and the choice."""
    score = _SCORES.get(report["scoring"], report["scoring"].replace("_", " "))
    chosen = [name for name in ("C", "gamma") if name in report]
    lines = [
        [
            *(_figure(each[name]) for name in chosen),
            *("-" if each[name] != each[name] else f"{each[name]:.5f}" for name in ("mean", "deviation")),
            f"{each['relative_gap']:.1e}",
            f"{each['seconds']:.2f}",
            "<- best" if all(each[name] == report[name] for name in chosen) else "",
        ]
        for each in sorted(report["grid"], key=lambda each: each["C"])
    ]
    print_table([*chosen, score, "deviation", "gap", "seconds", ""], lines)
    best = ", ".join(f"{name} = {_figure(report[name])}" for name in chosen)
    print(f"\n{best}: {score} {report['score']:.5f} in {report['folds']} folds, {report['seconds']:.2f} s")
    what = report.get("loss", report.get("kernel"))
    print(f"on all rows: {what}, {report['solver']}, relative gap {report['relative_gap']:.1e} certified")
    for name in ("model", "plot"):
        if report[name] is not None:
            print(f"{name}: {report[name]}")


def _figure(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
