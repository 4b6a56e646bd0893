"""Choose C by cross validation; train with it on all rows and write MODEL, if it is named.

Every fold solves the problem for all C of the grid, one after the other and each to a proven gap of TOL, from where the
one before has ended: that takes little more time than the largest C alone. Ctrl-C ends this early, with exit code 130.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import (
    DONE,
    INTERRUPTED,
    UsageError,
    announced_compilation,
    complain,
    on_a_terminal,
    print_json,
    print_table,
    told_warnings,
)
from maxmargin.cli._files import (
    LIBLINEAR_TYPES,
    check_plot,
    check_writable,
    data_name,
    read_data,
    write_liblinear_model,
)
from maxmargin.cli._report import describe

if TYPE_CHECKING:
    from maxmargin.estimators.selection import LinearSVCCV

_STEPS = 8  # of a grid that does not say
_SCORES = {"roc_auc": "ROC AUC"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options; those that `train` has too have its names."""
    parser.usage = "maxmargin select [options] DATA [MODEL]\n       maxmargin select [options] -o MODEL DATA [DATA ...]"
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="DATA [MODEL]",
        help="svmlight text, plain or .gz .bz2 .xz .zst, - for stdin; and the file to write (default: none)",
    )
    parser.add_argument("-o", "--output", metavar="MODEL", help="the file to write; then every path is DATA")

    choice = parser.add_argument_group("the choice")
    choice.add_argument(
        "-c",
        "--Cs",
        type=grid,
        metavar="GRID",
        help="values of C, 0.1,1,10, or a range LOW:HIGH or LOW:HIGH:HOW_MANY, evenly spaced on a logarithmic scale "
        f"(0.0001:1000:{_STEPS})",
    )
    choice.add_argument("-v", dest="folds", type=options.folds, default=5, metavar="FOLDS", help="number of folds (5)")
    choice.add_argument(
        "--scoring",
        metavar="NAME",
        help="one of scikit-learn's: roc_auc (the default for two classes), accuracy (for more), f1, ...",
    )

    problem = parser.add_argument_group("the problem")
    problem.add_argument("--loss", default="squared_hinge", metavar="LOSS", help="of a classifier (squared_hinge)")
    problem.add_argument("--penalty", choices=("l2", "l1"), default="l2", help="1/2 |w|^2 (the default) or |w|_1")
    problem.add_argument(
        "-B",
        "--bias",
        type=options.number,
        default=1.0,
        metavar="BIAS",
        help="value of a constant feature, whose weight makes the intercept (1); -1: no intercept",
    )
    problem.add_argument(
        "--class-weight",
        type=options.class_weight,
        action="append",
        default=[],
        metavar="LABEL=WEIGHT",
        help="factor of C for the rows of a class, once for each class (or -w1 5 -w-1 2); balanced: as if every class "
        "had as many rows",
    )

    way = parser.add_argument_group("the way to the solution")
    way.add_argument("--solver", default="auto", metavar="NAME", help='see "maxmargin solvers" (auto)')
    way.add_argument(
        "-e",
        "--tol",
        type=options.not_negative,
        default=1e-3,
        metavar="TOL",
        help="relative duality gap to reach (1e-3)",
    )
    way.add_argument("--max-time", type=options.positive, metavar="S", help="stop after S seconds in all")
    way.add_argument("--max-iter", type=options.positive, metavar="N", help="passes over the data for a C and a fold")
    way.add_argument("--seed", type=options.seed, default=0, metavar="N", help="of the folds (0)")

    data = parser.add_argument_group("data and output")
    options.add_data_options(data)
    data.add_argument("--n-features", type=options.count, metavar="N", help="if the data do not name the last ones")
    data.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of the values in memory")
    data.add_argument("--liblinear", action="store_true", help="write MODEL as LIBLINEAR does, for its predict")
    data.add_argument("--plot", metavar="FILE", help="draw the scores over C: .png, .svg, .pdf (takes matplotlib)")
    data.add_argument("-q", "--quiet", action="store_true", help="say nothing but warnings and errors")
    options.add_json_option(data)


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
        estimator = _estimator(arguments, _folds(y, data_paths, arguments))
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

    try:
        solver_for(arguments.solver, classifier_loss(arguments.loss, arguments.penalty), arguments.penalty)
    except ValueError as error:  # it lists the choices
        raise UsageError(error) from error
    try:
        scorer_for(arguments.scoring, 2)
    except ValueError as error:
        raise UsageError(f"--scoring {arguments.scoring}: scikit-learn has no such score") from error
    if arguments.liblinear and (arguments.loss, arguments.penalty) not in LIBLINEAR_TYPES:
        raise UsageError(f"LIBLINEAR has no loss {arguments.loss!r}: leave out --liblinear or take another loss")
    if "balanced" in arguments.class_weight and len(arguments.class_weight) > 1:
        raise UsageError("class weights are either balanced or given one by one")


def _folds(y: Any, paths: list[str], arguments: argparse.Namespace) -> list[tuple[Any, Any]]:
    """The folds of ``train -v``: training and held-out rows."""
    import numpy as np

    from maxmargin.cli._folds import stratified_folds

    if len(np.unique(y)) < 2:
        name = ", ".join(map(data_name, paths))
        raise ValueError(f"{name}: all rows have the same label; training needs two classes or more")
    fold_of_row = stratified_folds(y, arguments.folds, arguments.seed)
    return [(np.flatnonzero(fold_of_row != k), np.flatnonzero(fold_of_row == k)) for k in range(arguments.folds)]


def _estimator(arguments: argparse.Namespace, folds: list[tuple[Any, Any]]) -> LinearSVCCV:
    from maxmargin.estimators.selection import LinearSVCCV

    weights, with_intercept = arguments.class_weight, arguments.bias > 0.0
    return LinearSVCCV(
        Cs=_STEPS if arguments.Cs is None else arguments.Cs,
        cv=folds,
        scoring=arguments.scoring,
        loss=arguments.loss,
        penalty=arguments.penalty,
        solver=arguments.solver,
        tol=arguments.tol,
        max_iter=arguments.max_iter,
        max_time=arguments.max_time,
        fit_intercept=with_intercept,
        intercept_scaling=arguments.bias if with_intercept else 1.0,
        class_weight="balanced" if "balanced" in weights else dict(weights) or None,
        n_jobs=arguments.jobs,
        random_state=arguments.seed,
        verbose=int(on_a_terminal() and not arguments.quiet),
    )


# ---------------------------------------------------------------- the work


def _select(
    estimator: LinearSVCCV, X: Any, y: Any, model_path: str | None, arguments: argparse.Namespace
) -> tuple[dict[str, Any], int]:
    """Choose and train, write what is to be written, and tell what came out, with the exit code."""
    from maxmargin.selection.scoring import scoring_name
    from maxmargin.solvers.interrupts import catch_interrupt

    with catch_interrupt():  # from here on Ctrl-C ends the training, not the writing
        with told_warnings() as warnings:
            started = time.perf_counter()
            estimator.fit(X, y)
            seconds = time.perf_counter() - started
            is_interrupted = estimator.stop_reason_ == "interrupted"
            if is_interrupted:
                warnings.clear()
        model = estimator.to_linear_svc().set_params(n_jobs=None)  # that is of this run, not of the model
        if model_path is not None and arguments.liblinear:
            write_liblinear_model(model, model_path)
        elif model_path is not None:
            model.save(model_path)
        if arguments.plot is not None:
            estimator.plot().savefig(arguments.plot, dpi=144)
        if is_interrupted:
            done = f"{len(estimator.scores_)} of {arguments.folds} folds were complete"
            complain(f"interrupted; the cross validation is not: {done}, and C is the choice of these", kind="")
    table, n_folds = estimator.cv_results_, len(estimator.scores_)
    columns = {"C": "param_C", "mean": "mean_test_score", "deviation": "std_test_score", "relative_gap": "relative_gap"}
    candidates = [{name: float(table[key][k]) for name, key in columns.items()} for k in range(len(estimator.Cs_))]
    for each, seconds_of_fold, passes in zip(candidates, table["mean_fit_time"], table["mean_passes"]):
        each |= {"seconds": n_folds * float(seconds_of_fold), "passes": n_folds * float(passes)}
    report = {
        "model": model_path,
        "plot": arguments.plot,
        "seconds": seconds,
        "scoring": scoring_name(arguments.scoring, len(estimator.classes_)),
        "score": estimator.best_score_,
        "folds": n_folds,
        "grid": candidates,
        **describe(model, X),
    }
    return report, INTERRUPTED if is_interrupted else DONE


def _print_report(report: dict[str, Any]) -> None:
    """A table of the grid, and the choice."""
    score = _SCORES.get(report["scoring"], report["scoring"].replace("_", " "))
    lines = [
        [
            f"{each['C']:.4g}",
            "-" if each["mean"] != each["mean"] else f"{each['mean']:.5f}",
            "-" if each["deviation"] != each["deviation"] else f"{each['deviation']:.5f}",
            f"{each['relative_gap']:.1e}",
            f"{each['seconds']:.2f}",
            "<- best" if each["C"] == report["C"] else "",
        ]
        for each in sorted(report["grid"], key=lambda each: each["C"])
    ]
    print_table(["C", score, "deviation", "gap", "seconds", ""], lines)
    print(f"\nC = {report['C']:g}: {score} {report['score']:.5f} in {report['folds']} folds, {report['seconds']:.2f} s")
    print(f"on all rows: {report['loss']}, {report['solver']}, relative gap {report['relative_gap']:.1e} certified")
    for what in ("model", "plot"):
        if report[what] is not None:
            print(f"{what}: {report[what]}")
