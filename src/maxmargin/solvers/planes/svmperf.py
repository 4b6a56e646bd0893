"""SVM-perf: the structural form of the SVM, with one slack variable for all rows, by cutting planes.

    (OP)  min_{w, xi >= 0}  1/2 |w|^2 + xi     s.t.  for all labellings y' of the rows
                                               1/2 sum_i C_i (y_i - y'_i) x_i'w  >=  S loss(y', y) - xi

    W = {};  repeat:
        w, xi = the solution of (OP) over the labellings in W
        y'    = the labelling whose constraint is violated most, of all that there are
        stop if it is violated by at most S epsilon, else add it to W

`loss` is the error rate, or 1 - F1, 1 - ROC area, ...: any measure of `maxmargin.measures`, which says how its
most violated labelling is found. With the error rate (OP) is the problem of the hinge loss: y' has the wrong label
wherever
the margin is below one, and a constraint is a plane of the cutting plane algorithm.

Joachims: A support vector method for multivariate performance measures, ICML 2005 (the measures; algorithms 1 to 3).
Joachims: Training linear SVMs in linear time, KDD 2006 (one slack variable, linear time; algorithm 1).

Paper -> code: xi -> R_t(w_t), C -> S = sum_i C_i (for losses from 0 to 1), Psi(x, y') -> sum_i y'_i x_i, W -> planes,
Delta -> `measure.loss`, argmax_y' {Delta(y', y) + w'Psi(x, y')} -> `measure.most_violated`, epsilon as it is.

How the two stopping rules belong together: at the solution w_t of the reduced problem the value of the most violated
constraint is R(w_t), and xi is R_t(w_t), so that the violation is P(w_t) - F_t(w_t): the duality gap, not relative to
the objective but to S. It is in the history as `violation`, of the best w_t so far.

What differs from the papers, and why:

* The answer is the best of the w_t, by P; its violation is never more than that of the last one.
* Constraints that were not active for long are dropped; (OP) over W is solved exactly. See `store` and `reduced`.
* The F1 labelling is found in O(n log n), not O(n^2). See `measures`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from maxmargin import losses, measures
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.risks import Structural, SumOfLosses
from maxmargin.solvers.base import Goal, Progress, Report
from maxmargin.solvers.checks import check_number
from maxmargin.solvers.planes.bundle import Bundle, BundleState


@dataclass(frozen=True)
class SVMPerf(Bundle):
    """Cutting planes for the hinge loss, or for a measure of all predictions together: F1, ROC area, ...

    The iteration is that of `Bundle.update`: the most violated constraint at w_t is the plane that touches R there.

    Parameters
    ----------
    measure : str or measure object
        A name from ``measures.names()`` or an object such as ``measures.PrecisionAtK(10)``. "error_rate" leaves a
        problem its own risk: the sum of hinge losses, which is that of the error rate, or ``risks.Structural(...)``.
        With another measure it is the structural hinge loss of that measure that is minimised, and that the
        certificate speaks of.
    k : int
        Of precision and recall at k, if given by name; 0: as many as there are positive rows.
    epsilon : float
        Joachims' own stopping rule, for those who want it: no constraint is violated by more than epsilon, as a share
        of the sum of all costs. Give ``callbacks=[solver.is_satisfied]`` to `solve` for the run to end there.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0], [1.0, 0.0]], [1, -1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=SVMPerf("roc_area"), tol=1e-6)
    >>> result.certificate.relative_gap <= 1e-6
    True
    >>> solver = SVMPerf(epsilon=0.1)
    >>> solve(problem, solver, tol=0.0, callbacks=[solver.is_satisfied]).stop_reason
    'callback'
    """

    measure: Any = "error_rate"
    k: int = 0
    epsilon: float = 0.0

    name: ClassVar[str] = "svmperf"
    losses: ClassVar[tuple[type, ...]] = (losses.Hinge,)
    risks: ClassVar[tuple[type, ...]] = (SumOfLosses, Structural)

    def __post_init__(self) -> None:
        measure = measures.get(self.measure, self.k)  # as plain values, that files can hold
        object.__setattr__(self, "measure", measures.name_of(measure))
        object.__setattr__(self, "k", int(getattr(measure, "k", 0)))
        check_number(self, "epsilon")

    def _posed(self, problem: Problem) -> Problem:
        """The problem with the risk of the measure; that of the error rate is the sum of hinge losses."""
        if self.measure == "error_rate":
            return problem
        return problem.with_risk(Structural(measures.get(self.measure, self.k)))

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> BundleState:
        """Start at w = 0 without constraints, or at another state's w, with constraints from what it knows."""
        return super().init_state(self._posed(problem), seed, start)

    def update(self, problem: Problem, state: BundleState, goal: Goal) -> BundleState:
        """One iteration: outputs of w_t, the most violated constraint, (OP) with it."""
        tol = max(goal.tol, self.epsilon * state.cost / state.best.primal)  # either rule ends it
        return super().update(self._posed(problem), state, goal._replace(tol=tol))

    def report(self, problem: Problem, state: BundleState, goal: Goal) -> Report:
        """As all cutting-plane methods, and the violation."""
        report = super().report(problem, state, goal)
        violation = _violation(report, state)
        return report._replace(
            believes=report.believes or violation <= self.epsilon,
            counters=report.counters | {"violation": violation},
        )

    def is_satisfied(self, progress: Progress) -> bool:
        """A callback that ends a run when no constraint is violated by more than epsilon."""
        return _violation(progress.report, progress.state) <= self.epsilon

    def certificate(self, problem: Problem, state: BundleState) -> Certificate:
        """One pass, for P(w)."""
        return super().certificate(self._posed(problem), state)


def _violation(report: Report, state: BundleState) -> float:
    """Of the most violated constraint, as a share of the sum of all costs."""
    return max(0.0, state.best.primal - state.bound) / state.cost
