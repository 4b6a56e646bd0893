"""The estimator that the options of ``maxmargin train`` describe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from maxmargin.cli import _machines as machines
from maxmargin.cli._console import UsageError, on_a_terminal

if TYPE_CHECKING:
    from maxmargin import LinearSVC, LinearSVR


def is_regression(loss: str) -> bool:
    """Whether a loss is of a regressor."""
    from maxmargin import losses

    return loss in losses.names() and not losses.is_margin_loss(losses.get(loss))


def estimator_for(arguments: argparse.Namespace, machine: str | None, loss: str, penalty: str) -> Any:
    """What is to be trained."""
    if machine is not None:
        return machines.make(machine, arguments, _parameters(arguments), class_weight_of(arguments.class_weight))
    return _regressor(arguments, loss) if is_regression(loss) else _classifier(arguments, loss, penalty)


def _classifier(arguments: argparse.Namespace, loss: str, penalty: str) -> LinearSVC:
    from maxmargin import LinearSVC

    class_weight = class_weight_of(arguments.class_weight)
    if arguments.type == "4" and arguments.free_intercept:
        raise UsageError("-s 4 penalises the intercept: leave out --free-intercept")
    together = "crammer_singer" if arguments.type == "4" else "ovr"
    options = {"class_weight": class_weight, "multi_class": together, **_parameters(arguments)}
    return LinearSVC(loss=loss, penalty=penalty, **options)


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


def class_weight_of(given: list[Any]) -> dict[float, float] | str | None:
    """What is given of class weights, as estimators take it."""
    if "balanced" not in given:
        return dict(given) or None
    if len(given) > 1:
        raise UsageError("class weights are either balanced or given one by one")
    return "balanced"
