"""The cutting planes of a risk: a store of them, their Gram matrix, and the reduced problem that they make.

    R(w) >= a_k'w + b_k  for all w and k,        F_t(w) = 1/2 |w|^2 + max_k (a_k'w + b_k)  <=  1/2 |w|^2 + R(w)

The least value of F_t bounds the optimum from below. It never falls when planes are added, nor when planes are dropped
that its solution does without: that is what convergence proofs of cutting-plane methods rest on, so a plane that was
not needed for long gives its place to a new one. Memory, and the work for a row of the Gram matrix, stay in proportion
to the planes that matter.

Planes of c R are planes of R times c: `scaled` makes those of one C serve another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled
from maxmargin.data.rows import Array
from maxmargin.parallel import map_blocks
from maxmargin.solvers.planes.reduced import solve_reduced
from maxmargin.vectors import dot

_PATIENCE = 30  # reduced problems in a row that do without a plane before it is dropped
_CAPACITY = 16  # to begin with
_VALUES = 1 << 17  # of the planes, that are worth a thread
_COLUMNS = 1 << 11  # summed over the planes at once: they stay in the first-level cache


class Planes(NamedTuple):
    """Planes in places 0 to n - 1 of its arrays, and the solution of their reduced problem."""

    n: int
    a: Array  # a plane a row
    b: Array
    gram: Array  # a_j'a_k
    alpha: Array  # of the last reduced problem; zero for planes that came later
    idle: Array  # reduced problems since the plane's alpha was positive
    order: Array  # the planes of the working set, and the Cholesky factor of their matrix: see `_reduced`
    factor: Array
    n_working: int
    shift: float

    @property
    def grows(self) -> bool:
        """Its arrays do, with the planes."""
        return True


def no_planes(n_weights: int, *, nonnegative: bool = True) -> Planes:
    """A store without planes, or with the plane zero, for a risk that is never negative."""
    numbers, square = np.zeros(_CAPACITY), np.zeros((_CAPACITY, _CAPACITY))
    whole = np.zeros(_CAPACITY, dtype=np.int64)
    a = np.zeros((_CAPACITY, n_weights))
    planes = Planes(0, a, numbers, square, numbers.copy(), whole, whole.copy(), square.copy(), 0, 0.0)
    return add_plane(planes, np.zeros(n_weights), 0.0) if nonnegative else planes


def add_plane(planes: Planes, a: Array, b: float, n_jobs: int = 1) -> Planes:
    """The store with one plane more; its arrays are changed in place while there is room."""
    place = int(np.argmax(planes.idle[: planes.n])) if planes.n else 0
    if planes.n == 0 or planes.idle[place] <= _PATIENCE:
        place = planes.n
        planes = _with_room(planes)._replace(n=place + 1)
    planes.a[place], planes.b[place], planes.idle[place] = a, b, 0
    _fill_gram(planes, place, n_jobs)
    if planes.shift == 0.0:
        planes = _begin(planes)
    return planes


def _with_room(planes: Planes) -> Planes:
    """The store with a free place; twice as large if there was none."""
    n = planes.n
    if n < len(planes.b):
        return planes
    grown: dict[str, Any] = {}
    for name in ("a", "b", "gram", "alpha", "idle", "order", "factor"):
        old = getattr(planes, name)
        is_square = name in ("gram", "factor")
        grown[name] = np.zeros((2 * n, 2 * n) if is_square else (2 * n, *old.shape[1:]), dtype=old.dtype)
        grown[name][(slice(n), slice(n)) if is_square else slice(n)] = old
    return planes._replace(**grown)


def _begin(planes: Planes) -> Planes:
    """All weight on the first plane. The shift is of the size of the Gram matrix, as soon as there is one."""
    planes.alpha[: planes.n] = 0.0
    planes.alpha[0], planes.order[0] = 1.0, 0
    size = planes.gram[planes.n - 1, planes.n - 1]
    shift = size if size > 0.0 else 1.0
    planes.factor[0, 0] = np.sqrt(planes.gram[0, 0] + shift)
    return planes._replace(n_working=1, shift=shift if size > 0.0 else 0.0)


def scaled(planes: Planes, factor: float) -> Planes:
    """Copies of the planes of R, for factor times R; alpha stays feasible."""
    square = factor * factor
    return planes._replace(
        a=factor * planes.a,
        b=factor * planes.b,
        gram=square * planes.gram,
        factor=factor * planes.factor,
        shift=square * planes.shift,
        alpha=planes.alpha.copy(),
        idle=planes.idle.copy(),
        order=planes.order.copy(),
    )


def reduce(planes: Planes, n_jobs: int = 1) -> tuple[Planes, Array, float]:
    """Solve the reduced problem: the planes with their new alpha, its solution w_t, and F_t(w_t).

    The bound is that of w_t as it is, so that what rounding did to alpha or to the Gram matrix cannot make it wrong.
    """
    n, alpha = planes.n, planes.alpha
    n_working, _ = solve_reduced(
        planes.gram, planes.b, n, alpha, planes.order, planes.factor, planes.n_working, planes.shift or 1.0
    )
    planes.idle[:n] += 1
    planes.idle[planes.order[:n_working]] = 0
    w = np.zeros(planes.a.shape[1])
    map_blocks(
        lambda lo, hi: _combine(planes.a, alpha, planes.order, n_working, w, lo, hi),
        _borders(len(w), n_working),
        n_jobs,
    )
    bound = dot(planes.b[:n], alpha[:n]) - 0.5 * dot(w, w)
    return planes._replace(n_working=n_working), w, bound


def _fill_gram(planes: Planes, place: int, n_jobs: int) -> None:
    """The row and column of the Gram matrix that belong to the plane at this place."""
    n, a, gram = planes.n, planes.a, planes.gram
    map_blocks(lambda lo, hi: _dots(a, place, gram[place], lo, hi), _borders(n, a.shape[1]), n_jobs)
    gram[:n, place] = gram[place, :n]


def _borders(length: int, depth: int) -> Array:
    """Blocks of 0 to length, where each place takes `depth` multiplications. No sum goes over places."""
    return np.linspace(0, length, max(1, min(16, length, length * depth // _VALUES)) + 1).astype(np.int64)


@compiled(fastmath=DENSE_MATH)
def _dots(a, place, out, lo, hi):
    for k in range(lo, hi):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[k, j] * a[place, j]
        out[k] = total


@compiled(fastmath=DENSE_MATH)
def _combine(a, alpha, order, n_working, w, lo, hi):
    """w = -sum_k alpha_k a_k, columns lo to hi."""
    for begin in range(lo, hi, _COLUMNS):
        end = min(begin + _COLUMNS, hi)
        for i in range(n_working):
            weight = alpha[order[i]]
            for j in range(begin, end):
                w[j] -= weight * a[order[i], j]
