"""One-vs-rest models that learn from rows as they come, classes that nobody has announced included.

`learn` takes rows one after the other, in whatever pieces they are given: the models after it do not depend on where
one piece ends and the next begins. So every row is treated by what is known when it comes, and by nothing that follows:

* Its class, if it is new, gets a model of its own, which begins at zero, with a clock of its own: rows before this one
  are not there any more, and making believe that it had seen them as negatives would be a guess. With many classes
  to discover, their first models have therefore seen fewer negatives than they would have, had they been announced.
  Nothing has to be guessed for the first two classes. As long as there is a single one, its model is that of the class
  against the rest, which is empty; a second class makes of it the model of the one against the other (with its sign
  changed, if the new class comes later in the order of labels); and when a third one is found, the two classes have
  that model and its negative to go on from, which are what one-vs-rest would have learnt (without class weights).
* Its "balanced" weight is  total / (n_classes x weight of its class),  of the rows up to this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.rows import Array, Rows, matvec, n_features, n_rows, n_weights
from maxmargin.losses import Loss, argument, value
from maxmargin.parallel import map_ordered
from maxmargin.solvers.stochastic.online import OnlineState, learn, learn_rows, new_online_state, widened_state
from maxmargin.solvers.stochastic.row_order import Reordered, rows_between
from maxmargin.solvers.stochastic.weights import Average, ScaledVector, copied, widened
from maxmargin.solvers.visits import Examples


class StreamModels:
    """The models, and what is known of the stream so far.

    Parameters
    ----------
    loss : loss object
    alpha : float
        lambda of the objective, lambda/2 |w|^2 + mean loss.
    bias : float
        Value of the constant feature; 0: no intercept.
    n_features : int
    classes : ndarray or None
        The announced classes, sorted; None: they are discovered.
    n_jobs : int
        Threads over the models.

    Attributes
    ----------
    classes : ndarray
        Those known so far, sorted.
    class_totals : ndarray
        The weight of the rows of each.
    states : list of OnlineState
        One for each class, or a single one if there are two: that of the second class against the first.
    total : float
        The weight of all rows.
    n_seen : int
        Rows learnt from.
    scales : ndarray or None
        For each model a factor of all weights, if there are any: `fit` on arrays makes their mean one.
    """

    def __init__(
        self, loss: Loss, alpha: float, bias: float, n_features: int, classes: Array | None = None, n_jobs: int = 1
    ):
        self.loss, self.alpha, self.bias, self.n_jobs = loss, alpha, bias, n_jobs
        self.n_features = n_features
        self.is_announced = classes is not None
        self.classes: Array = np.empty(0) if classes is None else classes
        self.class_totals: Array = np.zeros(len(self.classes))
        self.states: list[OnlineState] = [self._new() for _ in range(n_problems(self.classes))]
        self.total = 0.0
        self.n_seen = 0
        self.scales: Array | None = None
        self._answer: tuple[bool, Array] | None = None  # the weights, since they were last asked for

    def fresh(self) -> StreamModels:
        """Models of the same kind that know nothing."""
        classes = self.classes if self.is_announced else None
        models = StreamModels(self.loss, self.alpha, self.bias, self.n_features, classes, self.n_jobs)
        models.scales = self.scales
        return models

    def kept(self) -> dict[str, Any]:
        """All that learning changes, as arrays: those of the models one after the other."""
        states = {name: np.stack(column) for name, column in zip(PARTS, zip(*map(_parts, self.states)))}
        totals = {"class_totals": self.class_totals, "total": np.array([self.total]), "n_seen": int(self.n_seen)}
        return {"states": states, **totals}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what was kept; what does not fit these classes and features raises."""
        parts = [np.array(kept["states"][name]) for name in PARTS]  # not mapped: learning changes them
        n_models, n_weights = n_problems(self.classes), self.n_features + (self.bias != 0.0)
        for name, part, one in zip(PARTS, parts, _parts(self._new())):
            if part.shape != (n_models, *one.shape) or part.dtype != np.float64:
                raise ValueError(f"{name} of shape {part.shape} does not fit {n_models} models of {n_weights} weights")
            if not np.isfinite(part).all():
                raise ValueError(f"{name} is not finite")
        totals, n_seen = np.array(kept["class_totals"]), int(kept["n_seen"])
        if totals.shape != self.classes.shape or kept["total"].shape != (1,) or not np.isfinite(totals).all():
            raise ValueError("the weights of the classes do not fit them")
        if n_seen < 0:
            raise ValueError(f"{n_seen} rows")
        self.states, self.class_totals = [state_of(*part) for part in zip(*parts)], totals
        self.total, self.n_seen, self._answer = float(kept["total"][0]), n_seen, None

    def _new(self) -> OnlineState:
        return new_online_state(self.n_features + (self.bias != 0.0))

    # ------------------------------------------------------------ rows as they come

    def learn(self, rows: Rows | Reordered, norms2: Array, y: Array, weight: Array, class_weight: Any) -> None:
        """Learn from rows of positive weight, in their order.

        Parameters
        ----------
        rows : Dense, CSR or Reordered
            Of as many features as the models have; see `widen`.
        norms2 : ndarray
        y : ndarray
            Labels.
        weight : ndarray of float64
        class_weight : dict, "balanced" or None
        """
        begin, n = 0, len(y)
        while begin < n:
            codes, is_known = self.codes(y[begin:])
            end = n if is_known.all() else begin + int(np.argmin(is_known))
            if end == begin:  # a new class
                self._discover(y[begin : begin + 1])
                continue
            part = slice(begin, end)
            codes = codes[: end - begin]
            factors = self.class_factors(codes, weight[part], class_weight)
            self.step(rows_between(rows, begin, end), norms2[part], codes, weight[part], factors)
            begin = end

    def codes(self, y: Array) -> tuple[Array, Array]:
        """The number of each label's class, and whether the class is known."""
        if not len(self.classes):
            return np.zeros(len(y), dtype=np.int64), np.zeros(len(y), dtype=bool)
        codes = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)
        return codes, self.classes[codes] == y

    def step(self, rows: Rows | Reordered, norms2: Array, codes: Array, weight: Array, factors: Array | None) -> None:
        """Let every model learn from rows whose classes are known, with a factor of the weight by class."""

        def learn_one(k: int) -> OnlineState:
            two = len(self.classes) == 2
            is_own = codes == (1 if two else k)
            own = weight if factors is None else weight * (factors if two else np.where(is_own, factors, 1.0))
            own = own if self.scales is None else self.scales[k] * own
            signs = np.where(is_own, 1.0, -1.0)
            if isinstance(rows, Reordered):  # not a storage that `learn` would let pass
                learn_rows(Examples(rows, signs, own, norms2, self.loss), self.states[k], self.alpha)
                return self.states[k]
            return learn(rows, signs, own, self.loss, self.states[k], self.alpha, norms2)

        self.states = map_ordered(learn_one, range(len(self.states)), self.n_jobs)
        self.n_seen += len(codes)
        self._answer = None

    def class_factors(self, codes: Array, weight: Array, class_weight: Any) -> Array | None:
        """Factor of each row's weight, by what is known when it comes; the rows are counted."""
        balanced = np.empty(len(codes))
        self.total = _count(codes, weight, self.total, self.class_totals, balanced)
        if class_weight is None:
            return None
        if isinstance(class_weight, Mapping):
            return np.array([float(class_weight.get(label, 1.0)) for label in self.classes.tolist()])[codes]
        return balanced

    # ------------------------------------------------------------ what grows

    def _discover(self, label: Array) -> None:
        """Give a new class, that of a single label, its model."""
        known, states = self.classes, self.states
        self._answer = None
        if len(known) and (known.dtype.kind in "OUST") != (label.dtype.kind in "OUST"):
            raise ValueError(f"the label {label[0]!r} is not of the same kind as the classes so far, {known.tolist()}")
        place = int(np.searchsorted(known, label[0])) if len(known) else 0
        self.classes = np.concatenate((known[:place], label, known[place:])) if len(known) else label.copy()
        self.class_totals = np.insert(self.class_totals, place, 0.0)
        if len(known) == 1:
            self.states = [negated(states[0])] if place == 1 else states
            return
        if len(known) == 2:
            states = [negated(states[0]), states[0]]
        self.states = [*states[:place], self._new(), *states[place:]]

    def widen(self, n_features: int) -> None:
        """Make room for more features."""
        if n_features > self.n_features:
            n, keep_last = n_features + (self.bias != 0.0), self.bias != 0.0
            self.states = [widened_state(state, n, keep_last=keep_last) for state in self.states]
            self.n_features, self._answer = n_features, None

    # ------------------------------------------------------------ answers

    def weights(self, average: bool) -> Array:
        """The weight vectors, one a model, intercept's weight last."""
        if self.states and (self._answer is None or self._answer[0] != average):
            self._answer = average, np.stack([state.w if average else state.last for state in self.states])
        return np.zeros((0, 0)) if self._answer is None else self._answer[1]

    def as_now(self, average: bool) -> StreamModels:
        """Models that answer as these do now, whatever these learn later; they cannot learn themselves."""
        snapshot = copy(self)
        snapshot.weights(average)
        return snapshot

    def outputs(self, rows: Rows, average: bool) -> Array:
        """The output of every model for every row, of shape (n_rows, n_models); more features have no weights."""
        if not self.states:
            return np.zeros((n_rows(rows), 1))
        keep_last = self.bias != 0.0
        weights = [widened(w, n_weights(rows), keep_last=keep_last) for w in self.weights(average)]
        return np.stack([matvec(rows, w) for w in weights], axis=1)

    def losses(self, outputs: Array, codes: Array) -> Array:
        """For every row the sum of the models' losses; a code of -1 is of none of the classes."""
        total = np.zeros(len(outputs))
        for k in range(outputs.shape[1]):
            signs = np.where(codes == (1 if len(self.classes) == 2 else k), 1.0, -1.0)
            _add_losses(self.loss, np.ascontiguousarray(outputs[:, k]), signs, total)
        return total


@compiled
def _count(codes, weight, total, class_totals, balanced):
    """Count rows one after the other; what each one's weight would have to be multiplied by for balance."""
    for i in range(len(codes)):
        total += weight[i]
        class_totals[codes[i]] += weight[i]
        balanced[i] = total / (len(class_totals) * class_totals[codes[i]])
    return total


@compiled
def _add_losses(loss, z, y, out):
    for i in range(len(z)):
        out[i] += value(loss, argument(loss, z[i], y[i]))


def mean_one(codes: Array, weight: Array, factors: Array) -> Array:
    """For each model the factor that makes one the mean of its weights, those of rows times those of classes."""
    totals = np.bincount(codes, weight, minlength=len(factors))
    weighed = factors * totals
    sums = np.array([weighed.sum()]) if len(factors) == 2 else weighed + (totals.sum() - totals)
    return len(codes) / sums


def n_problems(classes: Array) -> int:
    """How many models that many classes need."""
    return 1 if len(classes) == 2 else len(classes)


def negated(state: OnlineState) -> OnlineState:
    """The model that would have been learnt with the classes exchanged."""
    x, average, *numbers = state
    x, average = copied(x)._replace(v=-x.v), copied(average)._replace(u=-average.u, before=-average.before)
    return OnlineState(x, average, *(number.copy() for number in numbers))


PARTS = ("v", "v_numbers", "u", "before", "u_numbers", "numbers")  # the arrays of a state


def _parts(state: OnlineState) -> list[Array]:
    """The arrays of a state; those of one number each are joined."""
    (v, *of_v), (u, before, *of_u), *numbers = state
    return [v, np.concatenate(of_v), u, before, np.concatenate(of_u), np.concatenate(numbers)]


def state_of(v: Array, of_v: Array, u: Array, before: Array, of_u: Array, numbers: Array) -> OnlineState:
    """The state that has these parts."""
    x, average = ScaledVector(v, *np.split(of_v, 2)), Average(u, before, *np.split(of_u, 3))
    return OnlineState(x, average, *np.split(numbers, 4))


def with_features(rows: Rows, n: int) -> Rows:
    """Sparse rows as rows of n features; those that a narrower chunk does not name are zero."""
    return rows._replace(n_features=n) if n != n_features(rows) else rows  # type: ignore[call-arg]
