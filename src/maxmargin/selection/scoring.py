"""Scores of models: what they are called, and one way to ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def scoring_name(scoring: Any, n_classes: int) -> str:
    """What a score is called."""
    if scoring is None:
        return "roc_auc" if n_classes == 2 else "accuracy"
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")


def scorer_for(scoring: Any, n_classes: int) -> Callable[[Any, Any, Any, Any], float]:
    """A function of (model, X, y, sample_weight); a scorer that knows no weights is not given any."""
    from inspect import signature

    from sklearn.metrics import get_scorer

    name = scoring_name(scoring, n_classes) if scoring is None else scoring
    scorer = get_scorer(name)  # names become scorers, callables stay
    if not callable(scorer):
        raise ValueError(f"scoring must be a name of scikit-learn's, a callable or None, got {scoring!r}")
    takes_weights = "sample_weight" in signature(getattr(scorer, "_score_func", scorer)).parameters

    def score(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
        weights = {"sample_weight": sample_weight} if takes_weights and sample_weight is not None else {}
        return float(scorer(model, X, y, **weights))

    return score
