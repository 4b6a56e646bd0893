"""Online learning as a solver: averaged SGD over rows as they come, for all classes at once.

The step is that of `online`, the models are those of `stream_models`. What differs from the other solvers is where rows
come from, which is the problem's matter: `ShuffledRows` lie in memory and are visited in a new random order in each
pass; `RowsAsTheyCome` are chunks that somebody reads, parses or receives, and nobody knows how many there will be.

It proves nothing: a bound would take a pass over rows that are no longer there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array, n_features, take
from maxmargin.losses import MARGIN_LOSSES
from maxmargin.penalties import L2, Penalty
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.stochastic.row_order import Reordered, rows_between
from maxmargin.solvers.stochastic.stream_models import StreamModels, with_features

_BLOCK = 1 << 16  # rows of an update, at most


class Some(NamedTuple):
    """Rows to learn from, of positive weight, and what is known of them."""

    rows: Any  # Dense, CSR or Reordered
    norms2: Array
    y: Array  # labels
    weight: Array


class OnlineRun(NamedTuple):
    """What moves: the models, which learn in place, and how far the passes are."""

    models: StreamModels
    order: Array  # of rows in memory, in this pass; empty where rows come as they come
    rng: Array  # random state
    position: int  # rows of this pass so far
    passes: int  # that are over

    def packed(self) -> dict[str, Any]:
        """The state as a checkpoint keeps it."""
        return {**self._asdict(), "models": self.models.kept()}

    def restored(self, kept: Mapping[str, Any]) -> OnlineRun:
        """The state that was kept, in the form of this one."""
        order, rng = np.array(kept["order"]), np.array(kept["rng"])
        if not np.array_equal(np.sort(order), np.sort(self.order)) or rng.dtype != np.uint64 or rng.shape != (1,):
            raise ValueError("the order of the rows is not one of these rows")
        position, passes = int(kept["position"]), int(kept["passes"])
        if not 0 <= position < len(order) or passes < 0:
            raise ValueError(f"row {position} of pass {passes}")
        self.models.restore(kept["models"])
        return OnlineRun(self.models, order, rng, position, passes)


@dataclass(frozen=True)
class OnlineSGD(Solver):
    """Averaged stochastic gradient descent over rows in memory or rows as they come; see `maxmargin.OnlineSVC`.

    Parameters
    ----------
    alpha : float
        lambda of the objective, lambda/2 |w|^2 + mean loss.

    Examples
    --------
    >>> from maxmargin import OnlineSVC
    >>> OnlineSVC(alpha=1e-3).fit([[0.0], [1.0]], [0, 1]).solver_
    OnlineSGD(alpha=0.001)
    """

    alpha: float = 1e-4

    name: ClassVar[str] = "online_sgd"
    access: ClassVar[str] = "stream"
    losses: ClassVar[tuple[type, ...]] = MARGIN_LOSSES
    proves: ClassVar[bool] = False
    max_passes: ClassVar[float] = 1.0
    check_every: ClassVar[float] = 1.0

    def init_state(self, problem: Any, seed: int | None = 0, start: OnlineRun | None = None) -> OnlineRun:
        """Models that know nothing, or those of another state, before the first row."""
        models = problem.models.fresh() if start is None else start.models
        models.alpha = self.alpha
        return OnlineRun(models, problem.chosen.copy(), new_rng(seed), 0, 0)

    def update(self, problem: Any, state: OnlineRun, goal: Goal) -> OnlineRun:
        """Learn from the next rows, at most to the end of the pass."""
        some = problem.next_rows(state, problem.most_rows(state.models))
        if some is not None:
            rows, norms2, y, weight = some
            if problem.table is not None:
                problem.table.watch(state.models, rows, y, weight)
            state.models.learn(rows, norms2, y, weight, problem.class_weight)
            state = state._replace(position=state.position + len(some.y))
        if problem.is_over(state):
            return state._replace(position=0, passes=state.passes + 1)
        return state

    def report(self, problem: Any, state: OnlineRun, goal: Goal) -> Report:
        """Passes so far; of the first one over rows as they come, nobody knows how much is done."""
        passes, counters = state.passes + problem.share_of_pass(state.position), {"rows": float(state.models.n_seen)}
        return Report(passes, math.nan, math.nan, False, counters)


# ---------------------------------------------------------------- where rows come from


class _Rows:
    """What both kinds of problems tell a solver and the loop."""

    accesses: ClassVar[tuple[str, ...]] = ("stream",)
    penalty: ClassVar[Penalty] = L2()
    has_free_intercept: ClassVar[bool] = False

    chosen: Array  # the rows to visit, before they are shuffled

    def __init__(self, models: StreamModels, class_weight: Any, table: Any, held_out: Any):
        self.models, self.class_weight, self.loss = models, class_weight, models.loss
        self.table, self.held_out = table, held_out

    def most_rows(self, models: StreamModels) -> int:
        """Rows of an update: to where somebody wants to look at the models."""
        to_next = [other.rows_to_next(models.n_seen) for other in (self.table, self.held_out) if other is not None]
        return min([_BLOCK, *to_next])


class ShuffledRows(_Rows):
    """Rows in memory, in a new random order in each pass.

    Parameters
    ----------
    given : Some
        All rows; those that are visited have a positive weight.
    chosen : ndarray of int64
        The rows to visit.
    models : StreamModels
        Of these classes and features: what to begin with a copy of.
    class_weight : dict or None
        Factors by label.
    table : object, optional
        Sees rows before they are learnt from: `watch`. Says how many at most, as does
    held_out : object, optional
        `rows_to_next`.
    """

    def __init__(
        self,
        given: Some,
        chosen: Array,
        models: StreamModels,
        class_weight: Any,
        table: Any = None,
        held_out: Any = None,
    ):
        super().__init__(models, class_weight, table, held_out)
        self.given, self.chosen = given, chosen

    # What a checkpoint asks for.
    rows = property(lambda self: self.given.rows)
    cost = property(lambda self: self.given.weight)
    n_rows = property(lambda self: len(self.given.y))
    n_weights = property(lambda self: self.models.n_features)

    @property
    def y(self) -> Array:
        """The number of each row's class."""
        return self.models.codes(self.given.y)[0]

    def next_rows(self, state: OnlineRun, most: int) -> Some:
        """Rows of this pass that follow, as many at most."""
        if state.position == 0:
            shuffle(state.order, len(state.order), state.rng)
        which = state.order[state.position : state.position + most]
        rows, *known = self.given
        return Some(Reordered(rows, which), *(vector[which] for vector in known))

    def is_over(self, state: OnlineRun) -> bool:
        """Whether all rows of this pass have been visited."""
        return state.position >= len(self.chosen)

    def share_of_pass(self, position: int) -> float:
        """How much of a pass so many rows are."""
        return position / len(self.chosen)


class RowsAsTheyCome(_Rows):
    """Rows that come in chunks, in their order.

    Parameters
    ----------
    read : callable
        Begins a pass: an iterator of `Some`, checked. Rows of weight zero are not there; sparse ones may have more
        features than those before.
    models : StreamModels
        To begin with a copy of; it is made wider as chunks are.
    class_weight : dict, "balanced" or None
    table, held_out : object, optional
        As of `ShuffledRows`. Some rows of each chunk are kept by the latter, not learnt from: `choose` and `keep`.
    """

    chosen = np.empty(0, np.int64)

    def __init__(
        self,
        read: Callable[[], Iterator[Some]],
        models: StreamModels,
        class_weight: Any,
        table: Any = None,
        held_out: Any = None,
    ):
        super().__init__(models, class_weight, table, held_out)
        self.read = read
        self._chunks: Iterator[Some] | None = None  # of this pass
        self._chunk: Some | None = None  # what is being learnt from,
        self._left = self._out = np.empty(0, np.int64)  # of it: rows to learn from, and rows to hold out,
        self._begin = 0  # from here on
        self._n_read = 0  # rows of positive weight in this pass

    @property
    def n_rows(self) -> int:
        """Nobody knows."""
        raise ValueError("rows that come as they come cannot be gone back to: save the model instead of a checkpoint")

    def next_rows(self, state: OnlineRun, most: int) -> Some | None:
        """The rows that follow, as many at most; None at the end of the pass."""
        while not len(self._left):
            self._hold_out(state, None)
            if not self._read_chunk(state):
                return None
        now, self._left = self._left[:most], self._left[most:]
        self._hold_out(state, int(now[-1]) + 1)
        assert self._chunk is not None
        rows, *known = self._chunk
        rows = with_features(rows, state.models.n_features)
        if now[-1] + 1 - now[0] == len(now):
            part = slice(int(now[0]), int(now[-1]) + 1)
            return Some(rows_between(rows, part.start, part.stop), *(vector[part] for vector in known))
        return Some(take(rows, now), *(vector[now] for vector in known))

    def _read_chunk(self, state: OnlineRun) -> bool:
        """Go on to the next chunk, if there is one."""
        if self._chunks is None:
            self._chunks = self.read()
        self._chunk = next(self._chunks, None)
        if self._chunk is None:
            return False
        state.models.widen(n_features(self._chunk.rows))
        present = np.flatnonzero(self._chunk.weight > 0.0)
        is_left = np.ones(len(present), bool)
        if self.held_out is not None:
            is_left[self.held_out.choose(self._n_read, len(present))] = False
        self._left, self._out, self._begin = present[is_left], present[~is_left], 0
        self._n_read += len(present)
        return True

    def _hold_out(self, state: OnlineRun, end: int | None) -> None:
        """Keep the rows to be held out up to this one, or the last: nobody must know of those that come later."""
        n = len(self._out) if end is None else int(np.searchsorted(self._out, end))
        now, self._out = self._out[:n], self._out[n:]
        if n and state.passes == 0 and self._chunk is not None:  # later passes hold the same rows out
            rows, _, y, weight = self._chunk
            self.held_out.keep(take(rows, now), y[now], weight[now])

    def is_over(self, state: OnlineRun) -> bool:
        """Whether the pass has come to its end."""
        if self._chunks is None or self._chunk is not None:
            return False
        self._chunks, self._n_read = None, 0
        return True

    def share_of_pass(self, position: int) -> float:
        """Less than one, whatever comes."""
        return position / (position + _BLOCK)

    def close(self) -> None:
        """Give up what is being read."""
        if self._chunks is not None and hasattr(self._chunks, "close"):
            self._chunks.close()
