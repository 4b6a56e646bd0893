"""``train --stream``: one pass, or a few, over data that need not fit into memory."""

from __future__ import annotations

import argparse
import io
import sys
from typing import TYPE_CHECKING, Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import (
    DONE,
    INTERRUPTED,
    UsageError,
    announced_compilation,
    complain,
    counted,
    label_value,
    tell,
    timed_fit,
)
from maxmargin.cli._estimators import class_weight_of, intercept_parameters
from maxmargin.cli._files import LIBLINEAR_TYPES, check_writable, data_name, write_trained, zero_based
from maxmargin.cli._report import listed

if TYPE_CHECKING:
    from maxmargin import OnlineSVC

# What only makes sense for data in memory, and what there is instead.
_IN_MEMORY = {
    "C": "the number of rows is not known; give --alpha, which is 1 / (C x rows)",
    "solver": "streams are learnt by averaged stochastic gradient descent",
    "tol": "no certificate is made; --holdout stops early",
    "epsilon": "a stream trains a classifier",
    "free_intercept": "a larger -B makes the intercept's penalty small",
    "max_iter": "give --passes",
    "seed": "a stream has an order of its own",
    "plot": "nothing is certified",
    "folds": "cross validation needs the data in memory; --holdout tells the loss on rows that are not learnt from",
    **dict.fromkeys(("penalty", "checkpoint", "scheduler"), "it is for data in memory"),
}
_OF_STREAMS = ("alpha", "passes", "holdout", "progress")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of streams, for ``train``."""
    stream = parser.add_argument_group(
        "data larger than memory",
        "They are learnt from as they are read, in memory that does not grow with them.\nTheir order should be "
        "random: shuffle DATA if they are sorted by label.",
    )
    stream.add_argument("--stream", action="store_true", help="pass over DATA once, row by row, without a certificate")
    stream.add_argument(
        "--alpha", type=options.positive, metavar="ALPHA", help="weight of the penalty, 1 / (C x rows) (1e-4)"
    )
    stream.add_argument("--passes", type=options.count, metavar="N", help="pass over DATA N times (1)")
    stream.add_argument(
        "--holdout",
        type=options.folds,
        metavar="N",
        help="hold every N-th row out, up to 10,000 rows, and stop when the loss on them no longer falls",
    )
    stream.add_argument(
        "--progress", action="store_true", help="at 1, 2, 4, 8 ... rows, tell the loss before they were learnt from"
    )


def check_options(arguments: argparse.Namespace, parser: argparse.ArgumentParser, penalty: str) -> None:
    """Refuse options of the other way to train; the parser knows their defaults."""
    if arguments.stream:
        for name, instead in _IN_MEMORY.items():
            if getattr(arguments, name) != parser.get_default(name):
                raise UsageError(f"--stream does not go with {options.spelled(name)}: {instead}")
        if arguments.type == "4":
            raise UsageError("--stream does not go with -s 4: each class is learnt against the rest")
        if arguments.format == "csv" or arguments.label:
            raise UsageError("--stream reads svmlight text, not tables")
        if penalty != "l2":
            raise UsageError(f"--stream does not go with the {penalty.upper()} penalty of -s {arguments.type}")
        return
    for name in _OF_STREAMS:
        if getattr(arguments, name):
            raise UsageError(f"{options.spelled(name)} is for data that are streamed: add --stream")


def train(arguments: argparse.Namespace, loss: str | None, data_paths: list[str], model_path: str) -> int:
    """Train, write the model, and tell what came out; the exit code."""
    from maxmargin.solvers.interrupts import catch_interrupt

    check_writable(model_path, over_models_only=True)
    estimator = _estimator(arguments, loss)
    with announced_compilation(arguments.quiet) as compiled, catch_interrupt():
        try:
            seconds, interrupted = timed_fit(estimator, _stream(data_paths, arguments))
        except ImportError as error:  # of what unpacks .zst
            raise ValueError(str(error)) from error
        estimator.set_params(n_jobs=None, verbose=0, max_time=None)  # they are of this run, not of the model
        write_trained(estimator, model_path, arguments)
        if interrupted:
            complain(f"interrupted; the model found so far is in {model_path}", kind="")
        data = ", ".join(map(data_name, data_paths))
        report = {"data": data, "model": model_path, "seconds": seconds, "compiled": bool(compiled)}
    tell(report | _describe(estimator), _in_words, arguments)
    return INTERRUPTED if interrupted else DONE


def _estimator(arguments: argparse.Namespace, loss: str | None) -> OnlineSVC:
    from maxmargin import OnlineSVC

    estimator = OnlineSVC(
        loss=loss or "hinge",
        max_iter=arguments.passes or 1,
        early_stopping=arguments.holdout is not None,
        validation_fraction=1.0 / (arguments.holdout or 10),
        class_weight=class_weight_of(arguments),
        n_jobs=arguments.jobs,
        verbose=int(arguments.progress),
        max_time=arguments.max_time,
        **intercept_parameters(arguments),
    )
    if arguments.alpha is not None:
        estimator.set_params(alpha=arguments.alpha)
    try:
        estimator._check_parameters()
    except ValueError as error:  # it lists the choices
        raise UsageError(error) from error
    if arguments.liblinear and (estimator.loss, "l2") not in LIBLINEAR_TYPES:
        raise UsageError(f"LIBLINEAR has no loss {estimator.loss!r}: leave out --liblinear or take another loss")
    return estimator


def _stream(paths: list[str], arguments: argparse.Namespace) -> Any:
    from maxmargin import stream_svmlight

    if "-" in paths and sys.stdin is None:
        raise ValueError("there is no stdin to read from")
    if "-" in paths and (arguments.passes or 1) != 1:
        raise UsageError("stdin can be passed over only once: leave out --passes")
    return stream_svmlight(
        [_unbuffered_stdin() if path == "-" else path for path in paths],
        n_features=arguments.n_features,
        dtype=arguments.dtype,
        zero_based=zero_based(arguments),
        n_jobs=arguments.jobs,
        labels="auto",
    )


class _Stdin(io.FileIO):
    """Standard input without a lock: a thread that waits for it must not keep Python from ending."""

    name = "<stdin>"


def _unbuffered_stdin() -> Any:
    try:
        return _Stdin(sys.stdin.fileno(), closefd=False)
    except (OSError, AttributeError):  # not a file, as in tests
        return sys.stdin.buffer


def _describe(estimator: OnlineSVC) -> dict[str, Any]:
    """What there is to know of a fit; bounds on the optimum are not."""
    history = estimator.history_
    return {
        "rows": estimator.t_,
        "features": estimator.n_features_in_,
        "labels": [label_value(label) for label in estimator.classes_],
        "loss": estimator.loss,
        "penalty": "l2",
        "alpha": estimator.alpha,
        "bias": estimator.intercept_scaling if estimator.fit_intercept else None,
        "solver": "sgd",
        "stop_reason": estimator.stop_reason_,
        "passes": estimator.n_iter_,
        "held_out_loss": float(history["held_out_loss"][-1]) if len(history["rows"]) else None,
        "primal": None,
        "dual": None,
        "relative_gap": None,
    }


def _in_words(report: dict[str, Any]) -> dict[str, str]:
    speed = report["rows"] / max(report["seconds"], 1e-9)
    words = {
        "data": f"{report['data']}: {counted(report['features'], 'feature')}, classes {listed(report['labels'])}",
        "problem": f"{report['loss']}, alpha = {report['alpha']:g}, "
        + ("intercept" if report["bias"] else "no intercept"),
        "solver": f"averaged SGD: {counted(report['rows'], 'row')} in {counted(report['passes'], 'pass')}, "
        f"{report['seconds']:.2f} s ({speed:,.0f} rows/s{', compiling included' if report['compiled'] else ''})",
        "stopped": report["stop_reason"],
        "model": report["model"],
    }
    if report["held_out_loss"] == report["held_out_loss"] and report["held_out_loss"] is not None:  # not nan
        words["held out"] = f"loss {report['held_out_loss']:.6g}"
    return words
