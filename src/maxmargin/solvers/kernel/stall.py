"""When block SMO gives up: rounding errors, or a C that is out of reach, leave no way down."""

from __future__ import annotations

from typing import Any

from maxmargin.solvers.base import GaveUp

_RISE = 1e-2  # of the gap, by which the dual value must rise
_PATIENCE = 500  # looks at the gap within which it must
_VAIN = 12  # gaps of outputs in float64 that may be no better than the best


def note_exact_gap(state: Any, gap: float) -> Any:
    """Remember the least gap of all rows in float64; give up if it does not fall any more."""
    if gap < 0.7 * state.exact_gap:
        return state._replace(exact_gap=gap, n_vain=0)
    if state.n_vain >= _VAIN:
        raise GaveUp("the gap does not fall any more: it is as small as rounding errors allow", state)
    return state._replace(n_vain=state.n_vain + 1)


def note_progress(state: Any, dual: float, gap: float) -> Any:
    """Remember the best dual value; give up if it has not risen by a share of the gap for very long."""
    if dual > state.best_dual + _RISE * gap:
        return state._replace(best_dual=dual, n_idle=0)
    if state.n_idle >= _PATIENCE:
        raise GaveUp("the objective has not changed for thousands of blocks: it may be that C is too large", state)
    return state._replace(n_idle=state.n_idle + 1)
