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

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.problem import Problem
from maxmargin.rows import Array
from maxmargin.solvers import solve
from maxmargin.solvers.base import Callback, Result, Solver, catch_interrupt

if TYPE_CHECKING:
    from maxmargin.estimators.linear import LinearSVC

_LEAST_SECONDS = 1e-9  # where no time is left: the start of each C still gets its certificate


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
    **options
        Of `maxmargin.solve`, for every C.

    Returns
    -------
    list of Result
        In the order of `Cs`, with the same bits in whatever order they are. Of the states only w is kept.
    """
    values, places = np.unique(np.asarray(Cs, dtype=np.float64), return_inverse=True)
    started = time.perf_counter()
    found: list[Result] = []
    last: Result | None = None
    for k, C in enumerate(values):
        limit = None
        if max_time is not None:
            left = started + max_time - time.perf_counter()
            limit = max(left / (len(values) - k), _LEAST_SECONDS)
        start = start if last is None else _carried(last, C / values[k - 1])
        at_C = problem.with_labels(problem.y, C * problem.cost)
        last = solve(at_C, solver, tol=tol, max_time=limit, start=start, **options)
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
    started, at_once = time.perf_counter(), min(n_jobs, len(problems))

    def one(k: int) -> list[Result]:
        problem = problems[k].with_jobs(1 if at_once > 1 else n_jobs)
        seconds = share_of_time(started, max_time, len(problems) - k, at_once)
        start = None if starts is None else starts[k]
        return solve_path(problem, Cs, solver, max_time=seconds, start=start, **options)

    return map_ordered(one, range(len(problems)), at_once)


def share_of_time(started: float, max_time: float | None, n_left: int, at_once: int) -> float | None:
    """Seconds for the next of `n_left` pieces of work: a fair share of what is left."""
    if max_time is None:
        return None
    return max(started + max_time - time.perf_counter(), _LEAST_SECONDS) / math.ceil(n_left / at_once)


# ---------------------------------------------------------------- what a path is


@dataclass(frozen=True, eq=False, repr=False)
class RegularizationPath(Sequence[Any]):
    """Certified solutions for several C: a sequence, in the order in which the C were given.

    An entry is a `Result` for two classes, or a list with a `Result` for each class if there are more.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
    classes : ndarray of shape (n_classes,)
    results : list of list of Result
        Over the C, and then over the binary problems: one for two classes, else one for each class.
    """

    Cs: Array
    classes: Array
    results: list[list[Result]]
    template: LinearSVC  # the parameters of the models, and what they know of X

    def __len__(self) -> int:
        return len(self.Cs)

    def __getitem__(self, k: Any) -> Any:
        return [each[0] if len(each) == 1 else each for each in self.results][k]

    def __repr__(self) -> str:
        ends = f"C = {self.Cs.min():g} to {self.Cs.max():g}"
        proof = f"relative gaps up to {self.relative_gap.max():.1e}"
        return f"<RegularizationPath of {len(self)} models, {ends}: {proof}, {self.seconds.sum():.2g} s>"

    @property
    def objective(self) -> Array:
        """P(w) for each C; of several classes the sum."""
        return self._over_C(lambda each: sum(result.certificate.primal for result in each))

    @property
    def relative_gap(self) -> Array:
        """Certified relative gap for each C; of several classes the largest."""
        return self._over_C(lambda each: max(result.certificate.relative_gap for result in each))

    @property
    def seconds(self) -> Array:
        """Seconds that each C took; of several classes the sum."""
        return self._over_C(lambda each: sum(result.seconds for result in each))

    @property
    def passes(self) -> Array:
        """Passes over the data for each C; of several classes the sum."""
        return self._over_C(lambda each: sum(result.passes for result in each))

    def _over_C(self, number: Callable[[list[Result]], float]) -> Array:
        return np.array([number(each) for each in self.results], dtype=np.float64)

    def model(self, k: int) -> LinearSVC:
        """The fitted `LinearSVC` of entry k, to predict with or to save.

        Parameters
        ----------
        k : int
            Place in `Cs`.
        """
        return fitted(self.template, float(self.Cs[k]), self.classes, self.results[k])

    def score(self, X: Any, y: Any, scoring: Any = None, sample_weight: Any = None) -> Array:
        """How well the model of each C does on other rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        scoring : str or callable, optional
            As in scikit-learn; by default the area under the ROC curve for two classes, else accuracy.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        ndarray of shape (n_Cs,)
        """
        score = scorer_for(scoring, len(self.classes))
        return np.array([score(self.model(k), X, y, sample_weight) for k in range(len(self))])

    def plot(self, X: Any = None, y: Any = None, scoring: Any = None) -> Any:
        """Draw objective and certified gap over C, and above them the score on other rows if they are given.

        Parameters
        ----------
        X, y : array-like, optional
            Rows to score the models on.
        scoring : str or callable, optional
            See `score`.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by a notebook; ``figure.savefig("path.png")`` writes it.
        """
        from maxmargin._path_plot import draw_path

        scores = None if X is None else self.score(X, y, scoring)
        return draw_path(self, scores, scoring_name(scoring, len(self.classes)))


def fitted(template: LinearSVC, C: float, classes: Array, results: list[Result]) -> LinearSVC:
    """A classifier with the parameters and features of `template`, as if fitted to these results."""
    from sklearn.base import clone

    from maxmargin.estimators._base import _coefficients

    model = clone(template).set_params(C=C)
    model.classes_ = classes
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(template, name):
            setattr(model, name, getattr(template, name))
    bias = float(template.intercept_scaling) if template.fit_intercept else 0.0
    model.coef_, model.intercept_ = _coefficients([result.w for result in results], template.n_features_in_, bias)
    model._keep(results)
    return model


# ---------------------------------------------------------------- scores


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


# ---------------------------------------------------------------- the function


def path(
    X: Any,
    y: Any,
    Cs: Any = 8,
    *,
    loss: Any = "hinge",
    solver: Any = "ocas",
    tol: float = 1e-3,
    sample_weight: Any = None,
    class_weight: Any = None,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    penalty: str = "l2",
    max_iter: float | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
    callbacks: Iterable[Callback] = (),
    random_state: Any = None,
) -> RegularizationPath:
    """Solve a classification for a grid of C, each to a certified gap, for about the price of the largest alone.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        C-ordered arrays and CSR matrices of float32 or float64 are not copied.
    y : array-like of shape (n_samples,)
        Labels of any kind. More than two classes are told apart one against the rest.
    Cs : array-like of float or int, default=8
        The values of C, in any order, or how many of them between 0.0001 and 1000.
    loss : str or loss object, default="hinge"
    solver : str or Solver, default="ocas"
        Cutting-plane solvers share their planes over all C; every other solver begins at the solution of the C before.
        With more features than rows, as in text, take "dual_cd": a plane is as long as w, and many are needed.
    tol : float, default=1e-3
        Relative duality gap to reach for every C.
    sample_weight : array-like of shape (n_samples,), optional
    class_weight : dict, "balanced" or None, default=None
    fit_intercept, intercept_scaling, penalty, random_state :
        As in `LinearSVC`.
    max_iter : float, optional
        Limit on passes over the data, for each C and class.
    max_time : float, optional
        Limit in seconds on all of it. What was found by then is returned, with its certificates; see `stop_reason`.
    n_jobs : int, optional
        Threads, over classes and inside passes over the data. Results do not depend on it.
    callbacks : iterable of callable
        Called with a `Progress` after every update; one that returns True ends the run of that C.

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
    from maxmargin.estimators._parameters import seed_of
    from maxmargin.estimators.linear import LinearSVC

    values = grid(Cs)
    template = LinearSVC(
        loss=loss,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        fit_intercept=fit_intercept,
        intercept_scaling=intercept_scaling,
        class_weight=class_weight,
        n_jobs=n_jobs,
        random_state=random_state,
        penalty=penalty,
    )
    _, y, problem, chosen = prepared(template, template, X, y, sample_weight)
    problems = template._problems(problem, y)
    with catch_interrupt() as interrupt:
        by_class = solve_paths(
            problems,
            values,
            chosen,
            tol=tol,
            n_jobs=problem.n_jobs,
            max_iter=max_iter,
            max_time=max_time,
            callbacks=list(callbacks),
            seed=seed_of(random_state),
            interrupt=interrupt,
        )
    return RegularizationPath(values, problems.classes, [list(each) for each in zip(*by_class)], template)


def prepared(estimator: Any, template: LinearSVC, X: Any, y: Any, sample_weight: Any) -> Any:
    """Validate as `estimator`; X and y as arrays, the problem at C = 1, without labels yet, and the solver."""
    from sklearn.utils.validation import validate_data

    from maxmargin.estimators._parameters import ROWS, check_numbers, solver_for

    check_numbers(template)
    loss = template._checked_loss()
    X, y = validate_data(estimator, X, y, **ROWS)
    if hasattr(X, "tocsr"):
        X = X.tocsr()  # not every sparse format has rows to choose from
    problem = Problem(
        X,
        np.ones(len(y)),
        1.0,
        loss,
        sample_weight=sample_weight,
        bias=float(template.intercept_scaling) if template.fit_intercept else 0.0,
        penalty=template.penalty,
        n_jobs=effective_n_jobs(template.n_jobs),
    )
    return X, y, problem, solver_for(template.solver, loss, template.penalty)
