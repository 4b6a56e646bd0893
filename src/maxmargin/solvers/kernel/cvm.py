"""Core vector machine and ball vector machine: the squared-loss SVM as a ball around points.

    min_beta  1/2 beta'(K + 1 + D)beta - y'beta,   y_i beta_i >= 0,   D_i = 1 / (2 C_i)         (squared hinge)

Tsang, Kwok, Cheung: Core vector machines: fast SVM training on very large data sets, JMLR 2005 (CVM).
Tsang, Kocsor, Kwok: Simpler core vector machines with enclosing balls, ICML 2007 (BVM).

With beta = s y u, u on the simplex, the best scale is s = 1 / u'Qu, Q = yy' o (K + 1 + D), and what remains is

    min_u  u'Qu,   u >= 0,   sum_i u_i = 1,

the dual of the smallest ball that encloses the points phi_i with inner products Q_ij, if all Q_ii are equal (k(x, x)
constant, as of RBF, and no weights): u'Qu = |c|^2 of its centre c = sum_i u_i phi_i. The point furthest from c has
the least (Qu)_i. The core set, rows with u_i > 0, grows by the furthest of 59 random rows (with probability 0.95 it is
among the furthest 5 %), as long as it lies outside (1 + eps) times the ball; eps is halved when none does and the gap
is not small enough yet (the paper's multi-scale variant). If Q_ii are not equal, the same steps solve the same problem,
but there is no ball and no guarantee that the core set does not depend on the number of rows.

CVM solves the problem of the core set after each new row; BVM only moves the centre towards it, by the best step, and
needs no solver of quadratic programs (the 2007 paper fixes the ball's radius; here the step is the best one for the
present ball, that of Badoiu and Clarkson). It suits small C and loose gaps: it converges as 1/eps. CVM keeps the
kernel matrix of the core set.

What differs: the run ends at a certified relative gap of the SVM rather than at an eps of the ball, which is where the
erratic behaviour in C that Loosli and Canu (2007) saw comes from: a ball that is good to eps = 1e-6 says little about
the SVM if C is large, since then u'Qu is small beside Q_ii and the gap is eps Q_ii / u'Qu. When 59 rows show no
violation, all rows are looked at, and the worst of them join the core set together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.base import Goal, Report
from maxmargin.solvers.kernel.block import LARGEST, solve_block
from maxmargin.solvers.kernel.expansion import ExpansionSolver, PenalizedExpansion, counters_of
from maxmargin.solvers.kernel.start import starting_point

_CANDIDATES = 59  # with probability 1 - 0.95^59 = 0.95 one of them is among the furthest 5 %
_STEPS = 20  # of an update
_TRIES = 3  # draws without a violation before all rows are looked at
_CORE_TOL = 0.05  # of eps, to which the problem of the core set is solved
_JOIN_AT_MOST = 64  # rows after a look at all


class _Fields(NamedTuple):
    u: Array
    eps: float  # how far outside the ball a row must be to join, relative to its radius
    n_quiet: int  # draws without a violation
    n_steps: int
    n_visits: int
    primal: float
    dual: float
    believes: bool
    scale: float  # beta = scale y u
    rng: Array  # of two integers: seed and number of draws

    y: Array


class CoreState(PenalizedExpansion, _Fields):
    """A point of the simplex, and what is known of its gap."""

    __slots__ = ()

    @property
    def beta(self) -> Array:  # type: ignore[override]
        """The coefficients."""
        return self.scale * self.u * self.y


@dataclass(frozen=True)
class CVM(ExpansionSolver):
    """Core sets: the furthest of 59 random rows joins, and the problem of the core set is solved.

    Examples
    --------
    >>> from maxmargin.problem.kernel_problem import KernelProblem
    >>> from maxmargin.solvers.kernel import solve
    >>> problem = KernelProblem([[0.0], [1.0], [2.0]], [-1, 1, 1], loss="squared_hinge", penalize_intercept=True)
    >>> solve(problem, CVM(), tol=0.01).stop_reason
    'converged'
    """

    name: ClassVar[str] = "cvm"
    losses: ClassVar[tuple[type, ...]] = (losses.SquaredHinge,)
    takes_free_intercept: ClassVar[bool] = False
    max_passes: ClassVar[float] = 1e4
    check_every: ClassVar[float] = 1e4

    def init_state(self, problem: KernelProblem, seed: int | None = 0, start: Any = None) -> CoreState:  # type: ignore[override]
        """One row of each class, or the coefficients of another state."""
        u = np.abs(starting_point(problem, start))
        usable = np.flatnonzero(problem.cost > 0.0)
        if not u.any():
            for label in (-1.0, 1.0):
                u[usable[problem.y[usable] == label][:1]] = 1.0
        u /= u.sum()
        rng = np.array([0 if seed is None else seed, 0])
        state = CoreState(u, 0.5, 0, 0, 0, np.inf, -np.inf, False, 0.0, rng, problem.y)
        return state._replace(scale=self._scale(problem, state))

    def update(self, problem: KernelProblem, state: CoreState, goal: Goal) -> CoreState:  # type: ignore[override]
        """Some rows for the core set; a look at all rows when random ones show no violation."""
        for _ in range(_STEPS):
            if state.n_quiet >= _TRIES:
                return self._look_at_all(problem, state, goal)
            state = self._step(problem, state)
        return state._replace(scale=self._scale(problem, state))

    def report(self, problem: KernelProblem, state: CoreState, goal: Goal) -> Report:  # type: ignore[override]
        """Passes are rows looked at, per row."""
        counters = counters_of(problem, state) | {"eps": state.eps}
        return Report(state.n_visits / problem.n_rows, state.primal, state.dual, state.believes, counters)

    # ------------------------------------------------------------ steps

    def _step(self, problem: KernelProblem, state: CoreState) -> CoreState:
        """Draw candidates; let the furthest join if it lies outside."""
        usable = np.flatnonzero(problem.cost > 0.0)
        state.rng[1] += 1
        candidates = np.random.default_rng(state.rng).choice(usable, min(len(usable), _CANDIDATES), replace=False)
        core = np.flatnonzero(state.u)
        outputs = self._outputs(problem, state.u, np.append(candidates, core))
        size2 = float(state.u[core] @ outputs[len(candidates) :])  # |c|^2 = u'Qu
        state = state._replace(n_steps=state.n_steps + 1, n_visits=state.n_visits + len(candidates))
        furthest = int(np.argmin(outputs[: len(candidates)]))
        row, output = int(candidates[furthest]), float(outputs[furthest])
        if not self._is_outside(problem, row, output, size2, state.eps):
            return state._replace(n_quiet=state.n_quiet + 1)
        self._join(problem, state, np.array([row]))
        return state._replace(n_quiet=0)

    def _is_outside(self, problem: KernelProblem, row: int, output: float, size2: float, eps: float) -> bool:
        """Whether |phi - c| > (1 + eps) R, with R^2 = kappa - |c|^2."""
        kappa = self._own(problem, row)
        radius2 = max(kappa - size2, 0.0)
        return kappa - 2.0 * output + size2 > (1.0 + eps) ** 2 * radius2 and output < size2

    def _look_at_all(self, problem: KernelProblem, state: CoreState, goal: Goal) -> CoreState:
        """The gap over all rows; if it is too large, a smaller eps and the worst rows."""
        state = state._replace(scale=self._scale(problem, state), n_quiet=0)
        usable = np.flatnonzero(problem.cost > 0.0)
        core = np.flatnonzero(state.u)
        f = problem.decision(state.beta, problem.values.dtype)
        rough = problem.certificate(state.beta, 0.0, f)
        state = state._replace(primal=rough.primal, dual=rough.dual, n_visits=state.n_visits + len(usable))
        if rough.gap <= goal.tol * rough.primal:
            return state._replace(believes=True)
        outputs = problem.y * f / state.scale + problem.diagonal * state.u
        size2 = float(state.u[core] @ outputs[core])
        outside = usable[outputs[usable] < size2]
        worst = outside[np.argsort(outputs[outside], kind="stable")[:_JOIN_AT_MOST]]
        self._join(problem, state, worst)
        return state._replace(eps=0.5 * state.eps, believes=False)

    def _join(self, problem: KernelProblem, state: CoreState, rows: Array) -> None:
        """Let rows join the core set, and solve its problem."""
        core = np.union1d(np.flatnonzero(state.u), rows)
        if len(core) > LARGEST:
            raise ValueError(f"the core set has more than {LARGEST} rows: use a larger tol or another solver")
        Q = _core_matrix(problem, core)
        u, D, y = state.u[core], problem.diagonal[core], problem.y[core]
        zero, none = np.zeros(len(core)), np.full(len(core), np.inf)
        signed = Q * np.outer(y, y).astype(np.float32)
        for _ in range(3):  # with outputs computed anew, since blocks are solved in float32
            outputs = signed @ u + D * u
            level = float(u @ outputs)
            violation = level - float(outputs.min())
            if violation <= _CORE_TOL * state.eps * level:
                break
            e = (level - outputs).astype(np.float32)
            tol = np.float32(0.1 * violation)
            solve_block(signed, e, zero, u, zero, none, zero, D, tol, 3 * len(core))
        state.u[core] = u

    def _outputs(self, problem: KernelProblem, u: Array, rows: Array) -> Array:
        """(Qu)_i of some rows."""
        core = np.flatnonzero(u)
        signed = problem.y[core] * u[core]
        f = problem.values.apply(rows, core, signed) + signed.sum()
        return problem.y[rows] * f + problem.diagonal[rows] * u[rows]

    def _own(self, problem: KernelProblem, row: int) -> float:
        """Q_ii."""
        return float(problem.values.diagonal_of(np.array([row]))[0] + 1.0 + problem.diagonal[row])

    def _scale(self, problem: KernelProblem, state: CoreState) -> float:
        core = np.flatnonzero(state.u)
        return 1.0 / float(state.u[core] @ self._outputs(problem, state.u, core))


@dataclass(frozen=True)
class BVM(CVM):
    """Enclosing balls without a quadratic program: the centre moves towards the furthest row, by the best step.

    Examples
    --------
    >>> from maxmargin.problem.kernel_problem import KernelProblem
    >>> from maxmargin.solvers.kernel import solve
    >>> problem = KernelProblem([[0.0], [1.0], [2.0]], [-1, 1, 1], loss="squared_hinge", penalize_intercept=True)
    >>> solve(problem, BVM(), tol=0.01).stop_reason
    'converged'
    """

    name: ClassVar[str] = "bvm"

    def _join(self, problem: KernelProblem, state: CoreState, rows: Array) -> None:
        for row in rows:
            core = np.flatnonzero(state.u)
            outputs = self._outputs(problem, state.u, np.append(core, row))
            size2, output = float(state.u[core] @ outputs[:-1]), float(outputs[-1])
            if output >= size2:
                continue
            step = (size2 - output) / (size2 - 2.0 * output + self._own(problem, int(row)))
            state.u[:] *= 1.0 - step
            state.u[row] += step


def _core_matrix(problem: KernelProblem, core: Array) -> Array:
    """k + 1 between the rows of the core set; what is known from before is not computed again."""
    held = problem.__dict__.setdefault("core_matrix", [np.zeros(0, np.int64), np.zeros((0, 0), np.float32)])
    before, matrix = held
    places = np.searchsorted(core, before)
    is_kept = (places < len(core)) & (core[np.minimum(places, len(core) - 1)] == before)
    kept, at = np.flatnonzero(is_kept), places[is_kept]
    new = np.setdiff1d(np.arange(len(core)), at, assume_unique=True)
    out = np.empty((len(core), len(core)), np.float32)
    out[np.ix_(at, at)] = matrix[np.ix_(kept, kept)]
    if len(new):
        rows = np.empty((len(new), len(core)), np.float32)
        problem.values.block(core[new], problem.values.columns(core), rows, np.arange(len(new)))
        out[new] = rows + np.float32(1.0)
        out[:, new] = out[new].T
    held[:] = core, out
    return out
