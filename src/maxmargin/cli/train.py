"""Train a linear classifier, or a regressor, and write it to MODEL.

Minimises 1/2 |w|^2 + C sum_i loss(y_i (x_i'w + b)), LIBLINEAR's objective, until it is proven that the objective is
within TOL of the optimum. The loss decides what is trained: epsilon_insensitive, say, is that of a regressor. Ctrl-C
ends the training early: the model found so far is written, and the exit code is 130. With --stream, DATA may be larger
than memory: a classifier learns from its rows as they are read.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from maxmargin.cli import _options as options
from maxmargin.cli import _stream as streams
from maxmargin.cli._console import (
    DONE,
    INTERRUPTED,
    UsageError,
    announced_compilation,
    complain,
    label_text,
    on_a_terminal,
    print_facts,
    print_json,
    told_warnings,
)
from maxmargin.cli._files import LIBLINEAR_TYPES, check_writable, data_name, read_data, write_liblinear_model
from maxmargin.cli._report import describe, in_words

if TYPE_CHECKING:
    from maxmargin import LinearSVC, LinearSVR

_TYPES = {  # LIBLINEAR's numbers, option -s: loss and penalty
    "0": ("logistic", "l2"),
    "1": ("squared_hinge", "l2"),
    "2": ("squared_hinge", "l2"),
    "3": ("hinge", "l2"),
    "5": ("squared_hinge", "l1"),
    "6": ("logistic", "l1"),
    "7": ("logistic", "l2"),
    "11": ("squared_epsilon_insensitive", "l2"),
    "12": ("squared_epsilon_insensitive", "l2"),
    "13": ("epsilon_insensitive", "l2"),
}
_OTHER_TYPES = {"4": "the multi-class method of Crammer and Singer", "21": "a one-class model"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options; LIBLINEAR's keep their letters."""
    parser.usage = "maxmargin train [options] DATA [MODEL]\n       maxmargin train [options] -o MODEL DATA [DATA ...]"
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="DATA [MODEL]",
        help="svmlight text, plain or .gz .bz2 .xz .zst, - for stdin; and the file to write (default: DATA's name "
        "with .model, in the current directory)",
    )
    parser.add_argument("-o", "--output", metavar="MODEL", help="the file to write; then every path is DATA")

    problem = parser.add_argument_group("the problem")
    problem.add_argument("-c", "--C", type=options.positive, default=1.0, metavar="C", help="weight of the loss (1)")
    which = problem.add_mutually_exclusive_group()
    which.add_argument(
        "--loss", metavar="LOSS", help='squared_hinge (the default), hinge, ...: see "maxmargin solvers"'
    )
    which.add_argument(
        "-s",
        dest="type",
        metavar="TYPE",
        help="LIBLINEAR's number: 0 logistic, 1 or 2 squared hinge, 3 hinge, 5 squared hinge and 6 logistic with an "
        "L1 penalty, 11 or 12 squared epsilon-insensitive, 13 epsilon-insensitive",
    )
    problem.add_argument("--penalty", choices=("l2", "l1"), help="1/2 |w|^2 (the default) or |w|_1")
    problem.add_argument(
        "-p",
        "--epsilon",
        type=options.not_negative,
        default=0.1,
        metavar="EPSILON",
        help="of regression: errors up to it cost nothing (0.1)",
    )
    problem.add_argument(
        "-B",
        "--bias",
        type=options.number,
        default=1.0,
        metavar="BIAS",
        help="value of a constant feature, whose weight makes the intercept (1); -1: no intercept, LIBLINEAR's default",
    )
    problem.add_argument(
        "--free-intercept", action="store_true", help="leave the intercept out of the penalty, as LIBSVM does"
    )
    problem.add_argument(
        "--class-weight",
        type=options.class_weight,
        action="append",
        default=[],
        metavar="LABEL=WEIGHT",
        help="factor of C for the rows of a class, once for each class; -w1 5 -w-1 2 works as in LIBLINEAR; "
        "balanced: as if every class had as many rows",
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
    way.add_argument("--max-time", type=options.positive, metavar="S", help="stop after S seconds of training")
    way.add_argument("--max-iter", type=options.positive, metavar="N", help="stop after N passes over the data")
    way.add_argument("--seed", type=options.seed, default=0, metavar="N", help="of the order of the rows (0)")
    way.add_argument(
        "--checkpoint", metavar="FILE", help="save the state there now and then; if FILE exists, go on from it"
    )
    way.add_argument(
        "--checkpoint-every", type=options.positive, default=60.0, metavar="S", help="seconds between two saves (60)"
    )
    way.add_argument("-v", dest="folds", type=options.folds, metavar="FOLDS", help="cross validation; writes no model")

    data = parser.add_argument_group("data and output")
    options.add_data_options(data)
    data.add_argument("--n-features", type=options.count, metavar="N", help="if the data do not name the last ones")
    data.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of the values in memory")
    data.add_argument("--liblinear", action="store_true", help="write MODEL as LIBLINEAR does, for its predict")
    data.add_argument("-q", "--quiet", action="store_true", help="say nothing but warnings and errors")
    options.add_json_option(data)
    streams.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train, or cross-validate."""
    data_paths, model_path = _paths(arguments)
    loss, penalty = _objective(arguments)
    blank = argparse.ArgumentParser()
    add_arguments(blank)
    streams.check_options(arguments, blank, penalty)
    if arguments.stream:
        chosen = loss if arguments.loss or arguments.type else None
        return streams.train(arguments, chosen, _class_weight(arguments.class_weight), data_paths, model_path)
    if arguments.folds is None:
        for path in filter(None, (model_path, arguments.checkpoint)):
            check_writable(path, over_models_only=True)
    _check_choices(loss, penalty, arguments)

    with announced_compilation(arguments.quiet) as compiled:
        started = time.perf_counter()
        X, y = read_data(data_paths, arguments, n_features=arguments.n_features, dtype=arguments.dtype)
        seconds_reading = time.perf_counter() - started
        estimator = _regressor(arguments, loss) if is_regression(loss) else _classifier(arguments, loss, penalty)
        if not is_regression(loss):
            _check_labels(y, data_paths, arguments)
        if arguments.folds is not None:
            from maxmargin.cli._folds import cross_validate

            return cross_validate(estimator, X, y, arguments)
        n_compiled = len(compiled)
        report, code = _train(estimator, X, y, model_path, arguments)
        report |= {
            "data": ", ".join(map(data_name, data_paths)),
            "seconds_reading": seconds_reading,
            "compiled": len(compiled) > n_compiled,
        }
    if arguments.json:
        print_json(report)
    elif not arguments.quiet:
        print_facts(in_words(report))
    return code


# ---------------------------------------------------------------- what was asked for


def _paths(arguments: argparse.Namespace) -> tuple[list[str], str]:
    """The data files and the model file."""
    paths, output = arguments.paths, arguments.output
    if output is None:
        if len(paths) > 2:
            raise UsageError("several DATA files need -o MODEL")
        if len(paths) == 2:
            paths, output = paths[:1], paths[1]
        elif paths == ["-"] and arguments.folds is None:
            raise UsageError("data from stdin have no name: add one for the model, maxmargin train - MODEL")
        else:
            output = f"{os.path.basename(paths[0])}.model"
    if arguments.checkpoint and arguments.folds is not None:
        raise UsageError("cross validation keeps no checkpoint: leave out --checkpoint or -v")
    if arguments.checkpoint and os.path.realpath(arguments.checkpoint) == os.path.realpath(output):
        raise UsageError("the model and the checkpoint need a file each")
    if output == "-":
        raise UsageError("a model is written to a file, not to stdout: name one")
    return paths, output


def _objective(arguments: argparse.Namespace) -> tuple[str, str]:
    """The names of the loss and the penalty."""
    if arguments.type is None:
        return arguments.loss or "squared_hinge", arguments.penalty or "l2"
    if arguments.type not in _TYPES:
        meaning = _OTHER_TYPES.get(arguments.type)
        what = f"{meaning}, is not offered" if meaning else "no such type"
        raise UsageError(f"-s {arguments.type}: {what}; there are {', '.join(_TYPES)}")
    loss, penalty = _TYPES[arguments.type]
    if arguments.penalty not in (None, penalty):
        raise UsageError(f"-s {arguments.type} has the penalty {penalty}: leave out --penalty {arguments.penalty}")
    return loss, penalty


def is_regression(loss: str) -> bool:
    """Whether a loss is of a regressor."""
    from maxmargin import losses

    return loss in losses.names() and not losses.is_margin_loss(losses.get(loss))


def _check_choices(loss_name: str, penalty: str, arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before the data are read."""
    from maxmargin.estimators._parameters import classifier_loss, regressor_loss, solver_for

    try:
        regression = is_regression(loss_name)
        loss = regressor_loss(loss_name, arguments.epsilon) if regression else classifier_loss(loss_name, penalty)
        solver_for(arguments.solver, loss, penalty, arguments.free_intercept)
    except ValueError as error:  # it lists the choices
        raise UsageError(error) from error
    if arguments.liblinear and (loss_name, penalty) not in LIBLINEAR_TYPES:
        raise UsageError(f"LIBLINEAR has no loss {loss_name!r}: leave out --liblinear or take another loss")
    if regression and arguments.class_weight:
        raise UsageError(f"loss {loss_name!r} is of a regressor, which has no classes: leave out their weights")


def _check_labels(y: Any, paths: list[str], arguments: argparse.Namespace) -> None:
    """Refuse labels that cannot work before the training begins."""
    import numpy as np

    labels, name = np.unique(y), ", ".join(map(data_name, paths))
    if len(labels) < 2:
        raise ValueError(f"{name}: all rows have the label {label_text(labels[0])}; training needs two classes or more")
    if arguments.checkpoint and len(labels) > 2:
        raise ValueError(f"--checkpoint works for two classes, and {name} has {len(labels)}")
    if arguments.liblinear and not all(label.is_integer() and abs(label) < 2**31 for label in labels.tolist()):
        raise ValueError(f"{name}: LIBLINEAR's labels are integers; leave out --liblinear")


def _classifier(arguments: argparse.Namespace, loss: str, penalty: str) -> LinearSVC:
    from maxmargin import LinearSVC

    class_weight = _class_weight(arguments.class_weight)
    return LinearSVC(loss=loss, penalty=penalty, class_weight=class_weight, **_parameters(arguments))


def _regressor(arguments: argparse.Namespace, loss: str) -> LinearSVR:
    from maxmargin import LinearSVR

    return LinearSVR(loss=loss, epsilon=arguments.epsilon, **_parameters(arguments))


def _parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those that classifiers and regressors share."""
    with_intercept = arguments.bias > 0.0
    return {
        "C": arguments.C,
        "solver": arguments.solver,
        "tol": arguments.tol,
        "max_iter": arguments.max_iter,
        "max_time": arguments.max_time,
        "fit_intercept": with_intercept,
        "intercept_scaling": arguments.bias if with_intercept else 1.0,
        "penalize_intercept": not arguments.free_intercept,
        "n_jobs": arguments.jobs,
        "random_state": arguments.seed,
        "verbose": int(on_a_terminal() and not arguments.quiet),
    }


def _class_weight(given: list[Any]) -> dict[float, float] | str | None:
    if "balanced" not in given:
        return dict(given) or None
    if len(given) > 1:
        raise UsageError("class weights are either balanced or given one by one")
    return "balanced"


# ---------------------------------------------------------------- training


def _train(
    estimator: LinearSVC | LinearSVR, X: Any, y: Any, model_path: str, arguments: argparse.Namespace
) -> tuple[dict[str, Any], int]:
    """Train, write the model, and tell what came out, with the exit code."""
    from maxmargin.solvers.base import catch_interrupt

    if arguments.checkpoint:
        estimator._run_options = {"checkpoint": arguments.checkpoint, "checkpoint_every": arguments.checkpoint_every}
        if os.path.exists(arguments.checkpoint) and not arguments.quiet:
            complain(f"going on from {arguments.checkpoint}", kind="")
    with catch_interrupt():  # from here on Ctrl-C loses nothing: it ends the training, not the writing
        with told_warnings() as warnings:
            started = time.perf_counter()
            estimator.fit(X, y)
            seconds = time.perf_counter() - started
            interrupted = estimator.stop_reason_ == "interrupted"
            if interrupted:
                warnings.clear()
        estimator.set_params(n_jobs=None, verbose=0)  # they are of this run, not of the model
        if arguments.liblinear:
            write_liblinear_model(estimator, model_path)
        else:
            estimator.save(model_path)
        if interrupted:
            complain(f"interrupted; the model found so far is in {model_path}", kind="")
    report = {"model": model_path, "seconds": seconds, **describe(estimator, X)}
    return report, INTERRUPTED if interrupted else DONE
