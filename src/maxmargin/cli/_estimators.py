"""From options to estimators: the parameters that several of them share, and linear classifiers and regressors."""

from __future__ import annotations

import argparse
from typing import Any

from maxmargin.cli._console import UsageError, on_a_terminal


def is_regression(loss: str) -> bool:
    """Whether a loss is of a regressor."""
    from maxmargin import losses

    return loss in losses.names() and not losses.is_margin_loss(losses.get(loss))


def linear_model(arguments: argparse.Namespace, loss: str, penalty: str) -> Any:
    """The linear classifier or regressor that is to be trained."""
    from maxmargin import LinearSVC, LinearSVR

    shared = {"loss": loss, "C": arguments.C, "penalize_intercept": not arguments.free_intercept}
    shared |= run_parameters(arguments) | intercept_parameters(arguments)
    if is_regression(loss):
        return LinearSVR(epsilon=arguments.epsilon, **shared)
    if arguments.type == "4" and arguments.free_intercept:
        raise UsageError("-s 4 penalises the intercept: leave out --free-intercept")
    together = "crammer_singer" if arguments.type == "4" else "ovr"
    return LinearSVC(penalty, class_weight=class_weight_of(arguments), multi_class=together, **shared)


def run_parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of everything that a solver trains."""
    return {
        **{name: getattr(arguments, name) for name in ("solver", "tol", "max_iter", "max_time")},
        "n_jobs": arguments.jobs,
        "random_state": arguments.seed,
        "verbose": int(on_a_terminal() and not arguments.quiet),
    }


def intercept_parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """What LIBLINEAR's bias says of the intercept."""
    with_intercept = arguments.bias > 0.0
    return {"fit_intercept": with_intercept, "intercept_scaling": arguments.bias if with_intercept else 1.0}


def class_weight_of(arguments: argparse.Namespace) -> dict[float, float] | str | None:
    """What is given of class weights, as estimators take it."""
    given = arguments.class_weight
    if "balanced" not in given:
        return dict(given) or None
    if len(given) > 1:
        raise UsageError("class weights are either balanced or given one by one")
    return "balanced"
