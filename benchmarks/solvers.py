"""What a solver is to the harness, and our own ones.

A solver is a small frozen object that a worker process receives, so its class must be importable. It is run rung
by rung, from loose to tight; a rung is whatever the solver takes for its accuracy (a tolerance, a number of passes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .objectives import LOSSES, Objective

# To measure another of our solvers, add its name here.
OUR_SOLVERS = ("auto", "dual_cd", "tron", "interior_point", "ocas")


def decades(loose: float, tight: float) -> tuple[float, ...]:
    """Tolerances from loose to tight, each a tenth of the one before."""
    first, last = round(math.log10(loose)), round(math.log10(tight))
    return tuple(10.0**k for k in range(first, last - 1, -1))


def doublings(first: int, last: int) -> tuple[int, ...]:
    """Numbers of passes, each twice the one before."""
    return tuple(first * 2**k for k in range(int(math.log2(last / first)) + 1))


@dataclass(frozen=True)
class Solver:
    """Base of all entries."""

    threads: int = 1

    package: ClassVar[str]  # the distribution, for its version
    rungs: ClassVar[tuple[float, ...]]
    losses: ClassVar[tuple[str, ...]] = LOSSES
    ours: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name in tables and on the command line."""
        raise NotImplementedError

    def load(self) -> None:
        """Import what is needed; an ImportError means that this solver is skipped."""

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        """Bring the data into the solver's own form, where users have to do that themselves; timed apart."""
        return X, y

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        """Solve: what is timed. Returns whatever `weights` understands."""
        raise NotImplementedError

    def rehearse(self, few: Any, objective: Objective) -> None:
        """Fit a few rows, to compile and load what later fits need."""
        self.weights(self.fit(few, objective, self.rungs[0]))

    def weights(self, fitted: Any) -> np.ndarray:
        """The weights w of a fitted model, oriented so that x'w > 0 means +1; not timed."""
        return np.asarray(fitted.coef_, dtype=np.float64).ravel()


@dataclass(frozen=True)
class Maxmargin(Solver):
    """One of ours; a rung is the certified relative duality gap to reach."""

    solver: str = "dual_cd"

    package = "maxmargin"
    rungs = decades(1e-1, 1e-8)
    ours = True

    @property
    def name(self) -> str:
        return f"maxmargin-{self.solver}-{self.threads}t"

    @property
    def losses(self) -> tuple[str, ...]:  # type: ignore[override]
        from maxmargin import losses, solvers

        return tuple(loss for loss in LOSSES if self.solver in ("auto", *solvers.supporting(losses.get(loss))))

    def load(self) -> None:
        from maxmargin import Problem, solve  # noqa: F401

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        from maxmargin import Problem, solve

        X, y = prepared
        problem = Problem(X, y, C=objective.C, loss=objective.loss, n_jobs=self.threads)
        return solve(problem, solver=self.solver, tol=rung, seed=0)

    def rehearse(self, few: Any, objective: Objective) -> None:
        from maxmargin import Problem, solve
        from maxmargin.solvers.auto import plan

        problem = Problem(*few, C=objective.C, loss=objective.loss, n_jobs=self.threads)
        for solver in plan(problem) if self.solver == "auto" else [self.solver]:
            solve(problem, solver=solver, tol=self.rungs[0], seed=0)

    def weights(self, fitted: Any) -> np.ndarray:
        return np.asarray(fitted.w)


def our_solvers() -> list[Solver]:
    """Ours, each on one and on two threads."""
    return [Maxmargin(threads=threads, solver=name) for name in OUR_SOLVERS for threads in (1, 2)]
