"""Small problems by SMO on a whole kernel matrix: one compiled call solves many of them, and proves what it says.

The steps are those of `smo` (WSS 2 of Fan, Chen, Lin 2005) without shrinking and without a cache of rows. The last
digits come from Newton steps on the free coefficients, as in `polish`, between which SMO mends the active set. A pair
of classes of fifty rows each takes ten microseconds or so. To be looked after by `base.run` (a state, a history, a
certificate made of twenty calls) takes ten times as long, and there may be hundreds of such pairs. So what nobody
watches, and what would be over between two looks of the loop, does without: a call has bounded work, between calls
Ctrl-C and the limit of time are seen to, and a problem that does not end here goes on in the loop from where it is.

What differs from `smo`: e_i = t_i - f_i is kept rather than f, and beside it what has to be taken off it where beta_i
shall grow or fall (the kink; infinity where it may not), so that sweeps have no branches and become vector
instructions. The certificate is that of `KernelProblem.certificate`, by the same functions; the intercept is the middle
of what the steps leave open, which at the optimum is the best one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin._code_cache import working_time
from maxmargin._jit import compiled, compiled_lean
from maxmargin.data.rows import Array
from maxmargin.kernels import is_positive
from maxmargin.kernels.kept import KeptValues
from maxmargin.kernels.rounding import UNIT_DOUBLE, Digits
from maxmargin.parallel import map_ordered
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.kernel_program import KernelCertificate, Program, program_of_losses, risk_and_gap
from maxmargin.problem.kernel_rounding import cost_of_moving, digits_of, sum_errors
from maxmargin.solvers.base import Result
from maxmargin.solvers.kernel.registry import get
from maxmargin.solvers.kernel.small_steps import (
    DIAGONAL,
    FALL,
    GAP,
    IS_KEPT,
    N_FIGURES,
    N_VECTORS,
    PRIMAL,
    RISE,
    ROUNDING,
    STEPS_TAKEN,
    SUPPORT,
    VIOLATION,
    B,
    F,
    Work,
    newton_step,
    smo_steps,
    write_outputs,
)
from maxmargin.solvers.kernel.start import Solution

MOST_ROWS = 640  # of a problem: beyond that, block SMO is as fast
_MATRICES = 3  # of a problem's rows: all kernel values, those that steps have asked for, and a factor
ALWAYS_SMALL = 512  # rows whose matrices are small beside any cache
_FIRST_LEVEL = 1e-2  # violation after which Newton steps are tried, relative to the largest target
_LEVEL = 2e-10  # at which all steps end
_LEAST_LEVEL = 1e-13
ALL_DIGITS = 1e-10  # relative gap of an answer that needs no more
_STEPS = 30  # a row, after which a problem is for others
_WORK = 3e7  # of rows times steps in a call, at most: some 50 ms


class Together(NamedTuple):
    """Problems among rows that share a kernel matrix."""

    matrix: Array  # kernel values of all rows
    digits: Digits  # of these
    rows: Array  # of the matrix: those of one problem after the other
    ends: Array  # where in `rows` each problem begins; and the end
    program: Program  # of `rows`
    total: float  # sum of the coefficients of each problem


_HISTORY = ("seconds", "passes", "primal", "dual", "relative_gap", "n_support")


def is_small(problem: KernelProblem) -> bool:
    """Whether a problem is one for this file."""
    n, room = problem.n_rows, problem.cache_size
    fits = n <= ALWAYS_SMALL or (n <= MOST_ROWS and _MATRICES * KeptValues.megabytes(n) <= room)
    return fits and not problem.penalize_intercept and not problem.diagonal.any()


def alone(problem: KernelProblem) -> Together:
    """A problem by itself."""
    kept, n = problem.with_kept_values(), problem.n_rows
    return Together(kept.values.matrix, digits_of(kept), np.arange(n), np.array([0, n]), problem.program, problem.total)


def together(problem: KernelProblem, rows: Array, ends: Array, y: Array, cost: Array) -> Together:
    """Problems among the rows of another one, whose kernel values are kept; of labels and costs of their own."""
    program = Program(
        **{name: part for name, part in program_of_losses(y, cost, problem.loss).items() if name in Program._fields}
    )
    return Together(problem.values.matrix, digits_of(problem), rows, ends, program, 0.0)


def solve_together(
    problems: Together,
    kernel: Any,
    *,
    start: Array | None = None,
    scale: float = 0.0,
    steps: int = _STEPS,
    n_jobs: int = 1,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[Result | None]:
    """Solve problems as far as some steps go.

    Parameters
    ----------
    problems : Together
    kernel : Kernel, "precomputed" or callable
    start : ndarray, optional
        Feasible coefficients of all problems to begin at.
    scale : float
        What stands in for a primal near zero: see `KernelCertificate`.
    steps : int
        Limit, for each row.
    n_jobs : int
        Threads. Results do not depend on it.
    goes_on : callable
        Asked between calls whether there is time to go on.

    Returns
    -------
    list of Result or None
        "converged" where all digits are there, else "max_iter"; None of what was not begun.
    """
    began = working_time()
    beta = np.zeros(len(problems.rows)) if start is None else np.array(start, np.float64)
    figures = np.full((len(problems.ends) - 1, N_FIGURES), np.nan)

    def some(part: tuple[int, int]) -> None:
        if goes_on():
            most = int(np.diff(problems.ends[part[0] : part[1] + 1]).max())
            square = most, most
            work = Work(np.empty((N_VECTORS, most)), np.empty(square), np.empty(square), np.empty(most, np.int64))
            _solve_some(problems, *part, steps, work, beta, figures)

    map_ordered(some, itertools.pairwise(_parts(problems.ends, steps)), n_jobs)
    common = get("smo"), working_time() - began, scale, is_positive(kernel)
    places = itertools.pairwise(problems.ends.tolist())
    return [
        _result(beta[lo:hi], own, common) if own[STEPS_TAKEN] >= 0.0 else None
        for (lo, hi), own in zip(places, figures.tolist())
    ]


def _parts(ends: Array, steps: int) -> list[int]:
    """Where the problems are cut into calls: by their work, so the same for any number of threads."""
    if len(ends) == 2:
        return [0, 1]
    work = np.cumsum(steps * np.diff(ends).astype(np.float64) ** 2 / _WORK)
    return [0, *(np.flatnonzero(np.diff(np.floor(work))) + 1).tolist(), len(work)]


def _result(own: Array, figures: list[float], common: tuple[Any, float, float, bool]) -> Result:
    (b, primal, gap, rounding, n_steps, n_support, _), (solver, seconds, scale, is_bounded) = figures, common
    if is_bounded and scale == 0.0 < primal < gap:
        gap = primal  # no loss is negative, so zero bounds the optimum as well
    certificate = KernelCertificate(primal, primal - gap, gap)
    certificate.scale, certificate.rounding = scale, rounding
    passes = 2.0 * n_steps / len(own)
    entry = np.array([seconds, passes, primal, primal - gap, certificate.relative_gap, n_support])
    return Result(
        w=own,
        alpha=own,
        certificate=certificate,
        history={name: entry[k : k + 1] for k, name in enumerate(_HISTORY)},
        stop_reason="converged" if gap - rounding <= ALL_DIGITS * max(abs(primal), scale) else "max_iter",
        passes=passes,
        seconds=seconds,
        solver=solver,
        state=Solution(own, b),
    )


# ---------------------------------------------------------------- compiled


@compiled
def _solve_some(problems, begin, end, steps, work, beta, figures):
    """Solve the problems from `begin` to `end`: coefficients in `beta`, what is proven of them in `figures`."""
    p, ends = problems.program, problems.ends
    for k in range(begin, end):
        lo, hi = ends[k], ends[k + 1]
        program = Program(p.target[lo:hi], p.kink[lo:hi], p.lower[lo:hi], p.upper[lo:hi], p.diagonal[lo:hi])
        _solve(problems, program, problems.rows[lo:hi], steps, work, beta[lo:hi], figures[k])


@compiled_lean
def _solve(problems, program, rows, steps, work, beta, out):
    matrix, v, n, size = problems.matrix, work.vectors, len(rows), 1.0
    for i in range(n):
        v[IS_KEPT, i], v[DIAGONAL, i] = 0.0, matrix[rows[i], rows[i]]
        size = max(size, abs(program.target[i]))
    level, last_level = _FIRST_LEVEL * size, _LEVEL * size
    out[STEPS_TAKEN] = 0.0
    while True:
        is_solved = smo_steps(matrix, rows, program, beta, work, level, steps * n, out)
        if is_solved and out[VIOLATION] > last_level:
            newton_step(program, beta, work, n)
            level = max(0.1 * level, last_level)
            continue
        write_outputs(matrix, rows, beta, work)
        f, b = v[F], out[B]
        risk, gap = risk_and_gap(program, beta, f, b)
        primal = risk + problems.total * b
        for i in range(n):
            primal += 0.5 * beta[i] * f[i]
        last_level *= 0.05
        level = last_level
        if not is_solved or not gap > 0.5 * ALL_DIGITS * abs(primal) or level < _LEAST_LEVEL * size:
            break
    in_primal, in_gap = _rounding(problems, rows, program, beta, v, b, (risk, gap))
    out[PRIMAL], out[GAP], out[ROUNDING], out[SUPPORT] = primal + in_primal, gap + in_gap, in_gap, 0.0
    for i in range(n):
        out[SUPPORT] += beta[i] != 0.0


@compiled_lean
def _rounding(problems, rows, program, beta, v, b, sums):
    """What rounding can do to the primal objective, and to the gap; see `kernel_rounding`."""
    size, error, n = problems.digits.size, problems.digits.error, len(rows)
    risk, gap = sums
    f, own, shared = v[F], v[RISE], v[FALL]
    shared[:] = 0.0
    total, wrong, n_support, missing, rest = 0.0, 0.0, 0, problems.total, 0.0
    for i in range(n):
        total += abs(beta[i]) * size[rows[i]]
        wrong += abs(beta[i]) * size[rows[i]] * error[rows[i]]
        n_support += beta[i] != 0.0
        new = missing - beta[i]  # with what each difference loses, in `rest`
        part = new - missing
        rest += (missing - (new - part)) - (beta[i] + part)
        missing = new
    moved = UNIT_DOUBLE * (n_support + 8)
    for i in range(n):
        own[i] = size[rows[i]] * ((error[rows[i]] + moved) * total + wrong)
    in_primal, in_gap = sum_errors(program, beta, f, b, own, shared)
    in_sums = UNIT_DOUBLE * (n + 8)
    for i in range(n):
        in_primal += in_sums * abs(beta[i] * f[i])
    in_primal += in_sums * (risk + abs(problems.total * b))
    if total == 0.0 and risk == 0.0:
        in_primal, in_gap = 0.0, 0.0
    missing += rest
    cost, j = cost_of_moving(program, beta, f, b, missing)
    if missing != 0.0:
        cost += 0.5 * missing * missing * (size[rows[j]] * size[rows[j]] + program.diagonal[j])
    return in_primal, in_gap + in_sums * gap + 2.0 * in_primal + cost
