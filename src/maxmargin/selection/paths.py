"""Models for a grid of C, each with its certificate, for about the price of one of them.

    min_w  F(w) = 1/2 |w|^2 + C R(w),        R(w) = sum_i weight_i phi(t_i)

R does not depend on C, and a plane that bounds R from below bounds C R once it is multiplied by C. So the cutting
planes of one C serve all of them (Franc, Sonnenburg: Optimized cutting plane algorithm for support vector machines,
ICML 2008, chooses C by a validation set in its third experiment; there each C begins anew). What is carried from one
C to the next:

* cutting planes, by the solvers that have them: `solvers._bundle` scales them;
* dual variables, times the quotient of the two C: their bounds grow so, and for the squared hinge loss, whose dual
  variables are C times the slack, they do themselves as long as w stands still;
* w, by solvers that know nothing else.

The grid is walked from small to large C. A small C needs few planes, and each C refines what the last one left: eight
values from 0.001 to 100 took 0.2 to 0.7 times as long as the largest of them alone takes from a cold start (hinge
loss, relative gap 1e-3; a9a, covtype and 200,000 dense rows), and 1.0 to 1.4 times as long from large to small.

The module is not called `path`: `maxmargin.path` is the function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array
from maxmargin.estimators._parameters import seed_of, share_of_time
from maxmargin.problem import Problem
from maxmargin.selection.regularization_path import RegularizationPath
from maxmargin.solvers import solve
from maxmargin.solvers.base import Callback, Result, Solver
from maxmargin.solvers.interrupts import catch_interrupt
from maxmargin.solvers.schedule import Schedule

if TYPE_CHECKING:
    from maxmargin.callbacks import ProgressBar


class PathInterrupted(Exception):
    """A path that was wanted whole has been interrupted."""


class Start(NamedTuple):
    """What a solver may begin at, and all of a state that a path keeps of each C."""

    w: Array
    alpha: Array | None = None


# ---------------------------------------------------------------- the grid


def grid(Cs: Any) -> Array:
    """The values of C: those given, or so many from 0.0001 to 1000, spaced evenly on a logarithmic scale.

    Examples
    --------
    >>> grid([1.0, 10.0])
    array([ 1., 10.])
    >>> grid(8)
    array([1.e-04, 1.e-03, 1.e-02, 1.e-01, 1.e+00, 1.e+01, 1.e+02, 1.e+03])
    """
    if isinstance(Cs, (int, np.integer)) and not isinstance(Cs, bool):
        if Cs < 1:
            raise ValueError(f"Cs must be at least one value of C, or how many, got {Cs!r}")
        return np.logspace(-4.0, 3.0, int(Cs))
    try:
        values = np.array(Cs, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"Cs must be numbers, or how many of them, got {Cs!r}") from None
    if values.ndim != 1 or not len(values):
        raise ValueError(f"Cs must be a list of numbers, or how many of them, got {Cs!r}")
    wrong = np.flatnonzero(~((values > 0.0) & np.isfinite(values)))
    if len(wrong):
        raise ValueError(f"Cs[{wrong[0]}] is {values[wrong[0]]:g}; every C must be positive and finite")
    return values


# ---------------------------------------------------------------- solving


def solve_path(
    problem: Problem,
    Cs: Sequence[float] | Array,
    solver: str | Solver = "ocas",
    *,
    tol: float = 1e-3,
    max_time: float | None = None,
    start: Any = None,
    whole: bool = False,
    callbacks: Iterable[Callback] = (),
    bars: Sequence[ProgressBar] = (),
    **options: Any,
) -> list[Result]:
    """Solve a problem for several C, from the smallest on, each with what was learnt from the one before.

    Parameters
    ----------
    problem : Problem
        With the costs of C = 1.
    Cs : sequence of float
    solver : str or Solver
    tol : float
        Relative duality gap to reach for every C.
    max_time : float, optional
        Seconds for all of them. Each C may use its share of what is left.
    start : state or Result, optional
        Where the smallest C begins.
    whole : bool
        Whether to raise `PathInterrupted` when the event `interrupt` is set, rather than certify what there is.
    callbacks : iterable of callable
    bars : sequence of ProgressBar
        Callbacks, too, which are told the end of every model.
    **options
        Of `maxmargin.solve`, for every C.

    Returns
    -------
    list of Result
        In the order of `Cs`, with the same bits in whatever order they are. Of the states only w is kept.
    """
    values, places = np.unique(np.asarray(Cs, dtype=np.float64), return_inverse=True)
    started = working_time()
    found: list[Result] = []
    last: Result | None = None
    for k, C in enumerate(values):
        limit = share_of_time(started, max_time, len(values) - k)
        start = start if last is None else _carried(last, C / values[k - 1])
        at_C = problem.with_labels(problem.y, C * problem.cost)
        last = solve(at_C, solver, tol=tol, max_time=limit, start=start, callbacks=[*bars, *callbacks], **options)
        for bar in bars:
            bar.end_of_model()
        if whole and last.stop_reason == "interrupted":
            raise PathInterrupted
        # A state may be as large as the data: no more than one at a time.
        found.append(replace(last, w=last.w.copy(), alpha=None, state=Start(last.w.copy())))
    return [found[place] for place in places]


def _carried(result: Result, ratio: float) -> Any:
    """Where to begin for a C that is `ratio` times that of the result."""
    alpha = getattr(result.state, "alpha", None)
    return result if alpha is None else Start(result.w, ratio * alpha)


def solve_paths(
    problems: Sequence[Problem],
    Cs: Sequence[float] | Array,
    solver: str | Solver,
    *,
    n_jobs: int = 1,
    max_time: float | None = None,
    starts: Sequence[Any] | None = None,
    **options: Any,
) -> list[list[Result]]:
    """`solve_path` for each of several problems, as the classes make them: a list over the problems of lists over C."""
    started, schedule = working_time(), Schedule(problems, solver, n_jobs)

    def one(k: int, problem: Problem) -> list[Result]:
        seconds = share_of_time(started, max_time, len(problems) - k, schedule.at_once)
        start = None if starts is None else starts[k]
        return solve_path(problem, Cs, solver, max_time=seconds, start=start, **options)

    return schedule.map(one)


# ---------------------------------------------------------------- the function


def path(
    X: Any,
    y: Any = None,
    Cs: Any = 8,
    *,
    sample_weight: Any = None,
    callbacks: Iterable[Callback] = (),
    **parameters: Any,
) -> RegularizationPath:
    """Solve a classification for a grid of C, each to a certified gap, for about the price of the largest alone.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or a store (`maxmargin.open_store`),
        which has its labels with it.
    y : array-like of shape (n_samples,)
        Labels of any kind. More than two classes are told apart one against the rest.
    Cs : array-like of float or int, default=8
        The values of C, in any order, or how many of them between 0.0001 and 1000.
    sample_weight : array-like of shape (n_samples,), optional
    callbacks : iterable of callable
        Called with a `Progress` after every update; one that returns True ends the run of that C.
    **parameters
        Of `LinearSVC`, but for `C`, `warm_start` and `multi_class`: `loss`, `solver`, `tol`, `class_weight` and so on.
        Cutting-plane solvers, such as "ocas", share their planes over all C, which pays for the hinge loss and many
        more rows than features; every other solver begins at the solution of the C before. `max_time` is for all of
        it: what was found by then is returned, with its certificates; see `stop_reason`.

    Returns
    -------
    RegularizationPath
        A sequence of `Result`, with `Cs`, `relative_gap`, `model(k)`, `score(X, y)` and `plot()`.

    See Also
    --------
    maxmargin.LinearSVCCV : Chooses C by cross validation.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=500, random_state=0)
    >>> results = path(X, y, Cs=[0.01, 0.1, 1.0], tol=1e-4)
    >>> bool((results.relative_gap <= 1e-4).all())
    True
    >>> results.model(2).C
    1.0
    """
    from maxmargin.estimators.linear import LinearSVC

    for name in ("C", "warm_start", "multi_class"):
        if name in parameters:
            raise TypeError(f"path has no parameter {name!r}: it solves for all C, each from the one before")
    values, template = grid(Cs), LinearSVC(**parameters)
    _, y, problem = template._unlabelled(X, y, sample_weight)
    chosen, problems = template._chosen_solver(problem), template._problems(problem, y)
    options: dict[str, Any] = {name: getattr(template, name) for name in ("tol", "max_iter", "max_time")}
    options |= {"n_jobs": problem.n_jobs, "callbacks": list(callbacks), "seed": seed_of(template.random_state)}
    with catch_interrupt() as interrupt:
        by_class = solve_paths(problems, values, chosen, interrupt=interrupt, **options)
    return RegularizationPath(values, problems.classes, [list(each) for each in zip(*by_class)], template)
