"""What solvers ask of a problem: each question is one pass over the rows, or over their labels alone.

    P(w) = R(w) + sum_i C_i phi(t_i)      gradient  w + sum_i C_i phi'(t_i) sign_i x_i
                                          Hessian   I + sum_i D_i x_i x_i',   D_i = C_i phi''(t_i)

A solver that asks nothing else works wherever the rows are: in memory, on disk, in many processes. It knows of them
their outputs z_i = x_i'w, in vectors that it hands back with its questions; what such a vector is, it leaves to the
source. Steps are functions of this module, and look at every row once.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxmargin import penalties
from maxmargin._jit import compiled_lean
from maxmargin.data.entries import entry, places
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import Array, add_row, prefetch_in_order, prefetch_row, row_dot, row_norm2, row_size
from maxmargin.data.source import Block, Labels, Pass, RowVector
from maxmargin.losses import Loss, argument, derivative, second_derivative, sign, value
from maxmargin.penalties import Penalty
from maxmargin.problem.gram import gram_effort, gram_shape, gram_step
from maxmargin.problem.risks import Linearization, Risk, add_rows
from maxmargin.problem.rounding import pieces

_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them
_FEW = 64  # rows by which it is judged what the next ones will be like
_SHORT = 64  # values of a row that are added in the time of a wrong guess


class Evaluation(NamedTuple):
    """A point, and what one pass tells of it."""

    w: Array
    outputs: RowVector  # x_i'w; of rows without a cost, zero
    value: float  # P(w)
    gradient: Array  # of P; where the penalty is a norm, of the sum of losses alone


class Curvatures(NamedTuple):
    """The second derivatives of the losses, C_i phi''(t_i)."""

    D: RowVector
    total: float
    n_curved: int  # rows whose D_i is not zero


class Questions:
    """The questions that passes answer; see `maxmargin.problem.Problem`, which has what they are about."""

    source: InMemory
    y: RowVector
    cost: RowVector
    loss: Loss
    risk: Risk
    penalty: Penalty
    penalize_intercept: bool

    @cached_property
    def labels(self) -> Labels:
        """What is known of each row but the row itself."""
        return Labels(self.y, self.cost, self.loss)

    @cached_property
    def n_weights(self) -> int:
        """Length of w: the features, and one more if there is an intercept, for each output."""
        return self.risk.n_outputs * self.source.n_weights

    @cached_property
    def has_free_intercept(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return self.source.bias != 0.0 and not self.penalize_intercept

    @cached_property
    def n_penalized(self) -> int:
        """How many weights, the first ones, the penalty is over: all, or all but the intercept's."""
        return self.source.n_features if self.has_free_intercept else self.n_weights

    @cached_property
    def n_weighted(self) -> int:
        """Number of rows that have a cost: a pass visits so many."""
        return sum(int(np.count_nonzero(cost)) for (cost,) in pieces(self.source, self.cost))

    @cached_property
    def total_cost(self) -> float:
        """sum_i C_i."""
        return float(self.cost.sum())

    def over_rows(self, step: Any, **arguments: Any) -> Pass:
        """A pass over the rows; see `maxmargin.data.source`."""
        return self.source.make_pass(step, self.labels, **arguments)

    def over_labels(self, step: Any, **arguments: Any) -> Pass:
        """A pass over what is known of each row but the row itself."""
        return self.source.make_pass(step, self.labels, looks_at_rows=False, **arguments)

    def regularizer(self, w: Array) -> float:
        """What the penalty adds to P(w)."""
        return penalties.value(self.penalty, w[: self.n_penalized])

    # ------------------------------------------------------------ at a point

    def outputs(self, w: Array) -> RowVector:
        """x_i'w of every row; of a risk that has several outputs a row, a line of them."""
        return self.risk.outputs(self, w)

    def evaluate(self, w: Array) -> Evaluation:
        """P(w), its gradient, and the outputs x_i'w, in one pass."""
        done = self.over_rows(evaluate_rows, shared=[w], writes=[np.float64], sums=[self.n_weights], effort=2.0)
        gradient = done.sums[0]
        if not penalties.is_norm(self.penalty):
            gradient[: self.n_penalized] += w[: self.n_penalized]
        return Evaluation(w, done.vectors[0], self.regularizer(w) + done.total, gradient)

    def combine(self, p: RowVector) -> Array:
        """sum_i p_i x_i: what a cutting plane, a subgradient and a change of the dual variables are to w."""
        return self.risk.combine(self, p)

    def column_squares(self) -> Array:
        """sum_i C_i x_ij^2 of every column j."""
        return self.over_rows(_add_column_squares, sums=[self.n_weights]).sums[0]

    # ------------------------------------------------------------ second derivatives

    def curvatures(self, z: RowVector) -> Curvatures:
        """D_i of every row where outputs are z."""
        done = self.over_labels(write_curvatures, reads=[z], writes=[np.float64])
        return Curvatures(done.vectors[0], *done.total)

    def hessian_product(self, D: RowVector, v: Array) -> Array:
        """sum_i D_i (x_i'v) x_i; rows whose D_i is zero are not looked at."""
        return self.over_rows(_add_hessian_product, shared=[v], reads=[D], sums=[self.n_weights], effort=2.0).sums[0]

    def gram(self, D: RowVector, onto: Array | None = None) -> Array:
        """sum_i D_i x_i x_i', in the upper triangle of a matrix; what is below it means nothing.

        Parameters
        ----------
        D : vector with an entry for each row
            Weights of any sign; rows whose weight is zero are not looked at.
        onto : ndarray, optional
            A matrix of this method, which is left as it is, to add the sum to.
        """
        out: Any = gram_shape(self.n_weights)
        if onto is not None:
            if onto.shape != out:
                raise ValueError(f"the matrix to add to has shape {onto.shape}; for these rows it is {out}")
            out = onto.copy()
        return self.over_rows(gram_step, reads=[D], sums=[out], effort=gram_effort(self.source, D)).sums[0]

    def normal_equations(self, D: RowVector, c: RowVector) -> tuple[Array, Array]:
        """The matrix sum_i D_i x_i x_i', as from `gram`, and the vector sum_i c_i x_i, in one pass."""
        sums = [gram_shape(self.n_weights), self.n_weights]
        matrix, moment = self.over_rows(
            _add_normal_equations, reads=[D, c], sums=sums, effort=1.0 + gram_effort(self.source, D)
        ).sums
        return matrix, moment

    @cached_property
    def gram_work(self) -> float:
        """Multiplications that the matrix of all rows takes."""
        if self.source.is_dense:
            return self.source.n_rows * self.n_weights * (self.n_weights + 1) / 2.0
        return self.over_rows(_count_products).total / 2.0

    # ------------------------------------------------------------ along a line; from outputs alone

    def along(self, z: RowVector, dz: RowVector, step: float) -> tuple[float, float]:
        """First and second derivative of sum_i C_i phi(t_i) by the step, at outputs z + step dz."""
        return self.over_labels(_slope, shared=[step], reads=[z, dz]).total

    def moved(self, z: RowVector, dz: RowVector, step: float) -> RowVector:
        """The outputs z + step dz, made as vectors are that may find no room in memory."""
        return self.over_labels(_write_moved, shared=[step], reads=[z, dz], writes=[np.float64]).vectors[0]

    def risk_between(self, z: RowVector, z_t: RowVector, k: float) -> tuple[RowVector, float]:
        """The outputs z + k (z_t - z), and the risk there."""
        return self.risk.between(self, z, z_t, k)

    def linearize(self, z: RowVector, z_t: RowVector, k: float) -> Linearization:
        """The plane  a'w + b  under the risk that touches it where outputs are z + k (z_t - z), a = combine(p)."""
        return self.risk.linearize(self, z, z_t, k)


# ---------------------------------------------------------------- steps over rows


@compiled_lean
def evaluate_rows(block, w, z, gradient):
    """Write the outputs, add up the gradient, and return the sum of losses.

    Rows without a slope are left out, but where short rows with and without one follow each other at random: to guess
    wrong which it is takes the processor as long as to add nothing.
    """
    rows, y, cost, loss = block
    risk, n_sloped, is_mixed = 0.0, 0, False
    for i in range(len(z)):
        prefetch_in_order(rows, i + _LOOKAHEAD)
        z[i] = 0.0
        if cost[i] > 0.0:
            z[i] = row_dot(rows, i, w)
            t = argument(loss, z[i], y[i])
            risk += cost[i] * value(loss, t)
            slope = cost[i] * derivative(loss, t)
            n_sloped += slope != 0.0
            if is_mixed or slope != 0.0:
                add_row(rows, i, slope * sign(loss, y[i]), gradient)
        if i % _FEW == _FEW - 1:
            is_mixed, n_sloped = n_sloped >= _FEW // 8 and row_size(rows, i) <= _SHORT, 0
    return risk


def _add_hessian_product(block: Block, v: Array, D: Array, out: Array) -> None:
    which = np.flatnonzero(D)
    _add_products(block.rows, which, D, v, out)


@compiled_lean
def _add_products(rows, which, D, v, out):
    for k in range(len(which)):
        if k + _LOOKAHEAD < len(which):
            prefetch_row(rows, which[k + _LOOKAHEAD])
        i = which[k]
        add_row(rows, i, D[i] * row_dot(rows, i, v), out)


def _add_normal_equations(block: Block, D: Array, c: Array, matrix: Array, moment: Array) -> None:
    gram_step(block, D, matrix)
    add_rows(block, c, moment)


@compiled_lean
def _add_column_squares(block, out):
    rows, _, cost, _ = block
    for i in range(len(cost)):
        begin, end = places(rows, i)
        for place in range(begin, end):
            j, x = entry(rows, i, place)
            out[j] += cost[i] * x * x
        out[len(out) - 1] += cost[i] * rows.bias * rows.bias


@compiled_lean
def _count_products(block):
    """Pairs of stored values, each counted twice."""
    total = 0.0
    for i in range(len(block.y)):
        size = row_size(block.rows, i) + (block.rows.bias != 0.0)
        total += size * (size + 1.0)
    return total


@compiled_lean
def write_norms2(block, out):
    """Squared length of every row."""
    for i in range(len(out)):
        out[i] = row_norm2(block.rows, i)


# ---------------------------------------------------------------- steps over labels


@compiled_lean
def write_curvatures(labels, z, D):
    """Write every D_i; return their sum and how many are not zero."""
    y, cost, loss = labels
    total, n_curved = 0.0, 0
    for i in range(len(z)):
        D[i] = cost[i] * second_derivative(loss, argument(loss, z[i], y[i]))
        total += D[i]
        n_curved += D[i] != 0.0
    return total, n_curved


@compiled_lean
def _write_moved(labels, step, z, dz, out):
    for i in range(len(z)):
        out[i] = z[i] + step * dz[i]


@compiled_lean
def _slope(labels, step, z, dz):
    y, cost, loss = labels
    first, second = 0.0, 0.0
    for i in range(len(z)):
        if cost[i] > 0.0:
            t, dt = argument(loss, z[i] + step * dz[i], y[i]), sign(loss, y[i]) * dz[i]
            first += cost[i] * derivative(loss, t) * dt
            second += cost[i] * second_derivative(loss, t) * dt * dt
    return first, second
