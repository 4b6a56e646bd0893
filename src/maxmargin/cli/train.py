"""Train a linear classifier, or a regressor, and write it to MODEL.

Minimises 1/2 |w|^2 + C sum_i loss(y_i (x_i'w + b)), LIBLINEAR's objective, until it is proven that the objective is
within TOL of the optimum. The loss decides what is trained: epsilon_insensitive, say, is that of a regressor. Ctrl-C
ends the training early: the model found so far is written, and the exit code is 130.

Data larger than memory: pack them first (maxmargin pack), and DATA is the store; the answer is as exact as in memory.
With --scheduler the rows of the store are trained on by the workers of a Dask cluster.
Or, with --stream, a classifier learns from the rows of DATA as they are read.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from maxmargin.cli import _cluster as clusters
from maxmargin.cli import _kernel as kernel_machines
from maxmargin.cli import _machines as machines
from maxmargin.cli import _options as options
from maxmargin.cli import _stream as streams
from maxmargin.cli._console import (
    DONE,
    INTERRUPTED,
    UsageError,
    announced_compilation,
    complain,
    label_text,
    tell,
    timed_fit,
)
from maxmargin.cli._estimators import is_regression, linear_model
from maxmargin.cli._files import (
    LIBLINEAR_TYPES,
    check_plot,
    check_writable,
    data_name,
    read_data,
    read_store,
    write_trained,
)
from maxmargin.cli._report import describe, draw, in_words

_TYPES = {  # LIBLINEAR's numbers, option -s: loss and penalty
    "0": ("logistic", "l2"),
    "1": ("squared_hinge", "l2"),
    "2": ("squared_hinge", "l2"),
    "3": ("hinge", "l2"),
    "4": ("hinge", "l2"),  # all classes in one problem, of Crammer and Singer
    "5": ("squared_hinge", "l1"),
    "6": ("logistic", "l1"),
    "7": ("logistic", "l2"),
    "11": ("squared_epsilon_insensitive", "l2"),
    "12": ("squared_epsilon_insensitive", "l2"),
    "13": ("epsilon_insensitive", "l2"),
}
_OTHER_TYPES = {"21": "a one-class model"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options; LIBLINEAR's keep their letters."""
    options.add_paths(parser, "train", default="DATA's name with .model, in the current directory")

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
        help="LIBLINEAR's number: 0 logistic, 1 or 2 squared hinge, 3 hinge, 4 hinge with all classes in one "
        "problem (Crammer and Singer), 5 squared hinge and 6 logistic with an L1 penalty, 11 or 12 squared "
        "epsilon-insensitive, 13 epsilon-insensitive",
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
        "--free-intercept", action="store_true", help="leave the intercept out of the penalty, as LIBSVM does"
    )
    options.add_problem_options(problem)

    way = parser.add_argument_group("the way to the solution")
    options.add_solver_options(way, each="", order="order of the rows")
    way.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the state there now and then (of several classes, in FILE.0, FILE.1, ...); if it exists, go on",
    )
    way.add_argument(
        "--checkpoint-every", type=options.positive, default=60.0, metavar="S", help="seconds between two saves (60)"
    )
    way.add_argument("-v", dest="folds", type=options.folds, metavar="FOLDS", help="cross validation; writes no model")

    data = parser.add_argument_group("data and output")
    options.add_output_options(data, picture="the gap over time")
    options.add_memory_option(data)
    clusters.add_argument(data)
    machines.add_arguments(parser)
    kernel_machines.add_arguments(parser)
    streams.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train, or cross-validate."""
    data_paths, model_path = _paths(arguments)
    if arguments.kernel_type is not None:
        return _run(kernel_machines.estimator_for(arguments), arguments, data_paths, model_path)
    if arguments.libsvm:
        raise UsageError("--libsvm is of kernel machines: choose a kernel with -t")
    loss, penalty = _objective(arguments)
    blank = argparse.ArgumentParser()
    add_arguments(blank)
    machine = machines.chosen(arguments, blank)
    streams.check_options(arguments, blank, penalty)
    if arguments.stream:
        return streams.train(arguments, loss if arguments.loss or arguments.type else None, data_paths, model_path)
    _check_choices(loss, penalty, arguments)
    estimator = linear_model(arguments, loss, penalty) if machine is None else machines.make(machine, arguments)
    if arguments.scheduler is not None:
        estimator = clusters.for_cluster(estimator)
    return _run(estimator, arguments, data_paths, model_path)


def _run(estimator: Any, arguments: argparse.Namespace, data_paths: list[str], model_path: str) -> int:
    """Read the data, train, write and tell."""
    from sklearn.base import is_classifier

    if arguments.folds is None:
        for path in filter(None, (model_path, arguments.checkpoint)):
            check_writable(path, over_models_only=True)
    if arguments.plot is not None:
        check_plot(arguments.plot)
    with announced_compilation(arguments.quiet) as compiled:
        started = time.perf_counter()
        X, y = _read(data_paths, arguments)
        seconds_reading = time.perf_counter() - started
        if is_classifier(estimator):
            _check_labels(X.classes if y is None else y, data_paths, arguments)
        if arguments.folds is not None:
            from maxmargin.cli._folds import cross_validate

            return cross_validate(estimator, X, y, arguments)
        n_compiled = len(compiled)
        with clusters.connected(arguments):
            report, code = _train(estimator, X, y, model_path, arguments)
        report |= {
            "data": ", ".join(map(data_name, data_paths)),
            "seconds_reading": seconds_reading,
            "compiled": len(compiled) > n_compiled,
        }
    tell(report, in_words if arguments.kernel_type is None else kernel_machines.in_words, arguments)
    return code


def _read(paths: list[str], arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The rows and labels; a store has its labels with it."""
    store = read_store(paths, arguments)
    if arguments.kernel_type is not None and (store is not None or arguments.scheduler is not None):
        raise UsageError("-t takes rows in memory: name svmlight text, not a store or a cluster")
    if store is not None:
        return _checked_store(store, arguments), None
    if arguments.scheduler is not None:
        raise UsageError("--scheduler takes a store: maxmargin pack makes one")
    return read_data(paths, arguments, n_features=arguments.n_features, dtype=arguments.dtype)


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
    if arguments.plot and arguments.folds is not None:
        raise UsageError("cross validation draws no picture: leave out --plot or -v, or take maxmargin select --plot")
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


def _checked_store(store: Any, arguments: argparse.Namespace) -> Any:
    """Refuse options that are of text."""
    given = [name for name in ("folds", "n_features", "first_index") if getattr(arguments, name) is not None]
    if given:
        option = {"folds": "-v", "n_features": "--n-features", "first_index": "--first-index"}[given[0]]
        raise UsageError(f"{option} does not go with a store")
    return store


def _check_labels(y: Any, paths: list[str], arguments: argparse.Namespace) -> None:
    """Refuse labels that cannot work before the training begins."""
    import numpy as np

    name = ", ".join(map(data_name, paths))
    if y is None:
        raise ValueError(f"{name}: has too many labels for classes; a loss of regression may be meant")
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(f"{name}: all rows have the label {label_text(labels[0])}; training needs two classes or more")
    if arguments.measure is not None and len(labels) > 2:
        raise ValueError(f"--measure works for two classes, and {name} has {len(labels)}")
    if arguments.liblinear and not all(_is_small_integer(label) for label in labels.tolist()):
        raise ValueError(f"{name}: LIBLINEAR's labels are integers; leave out --liblinear")


def _is_small_integer(label: Any) -> bool:
    return not isinstance(label, str) and float(label).is_integer() and abs(label) < 2**31


# ---------------------------------------------------------------- training


def _train(
    estimator: Any, X: Any, y: Any, model_path: str, arguments: argparse.Namespace
) -> tuple[dict[str, Any], int]:
    """Train, write the model, and tell what came out, with the exit code."""
    from maxmargin.solvers.interrupts import catch_interrupt

    if arguments.checkpoint:
        estimator._run_options = {"checkpoint": arguments.checkpoint, "checkpoint_every": arguments.checkpoint_every}
        if any(map(os.path.exists, (arguments.checkpoint, f"{arguments.checkpoint}.0"))) and not arguments.quiet:
            complain(f"going on from {arguments.checkpoint}", kind="")
    with catch_interrupt():  # from here on Ctrl-C loses nothing: it ends the training, not the writing
        seconds, interrupted = timed_fit(estimator, X, y)
        estimator.set_params(n_jobs=None, verbose=0)  # they are of this run, not of the model
        names = getattr(arguments, "feature_names", None)
        if names is not None and len(set(names)) == len(names):
            import numpy as np

            estimator.feature_names_in_ = np.array(names, dtype=object)
        write_trained(estimator, model_path, arguments)
        if arguments.plot is not None:
            draw(estimator, arguments.plot)
        if interrupted:
            complain(f"interrupted; the model found so far is in {model_path}", kind="")
    told = describe if arguments.kernel_type is None else kernel_machines.describe
    report = {"model": model_path, "seconds": seconds, **told(estimator, X)}
    return report, INTERRUPTED if interrupted else DONE
