"""scikit-learn's callback API (1.9 and later), and nothing in its place where it is not there.

An estimator that was given callbacks with `set_callbacks` reports each pass over the data as a task of its fit; with
several classes, each class is a task and its passes are tasks below it. A callback that returns True stops the fit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from maxmargin.solvers.base import Callback, Progress

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # an older scikit-learn

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for scikit-learn's."""
        return method


class FitTask:
    """The root task of one `fit`.

    Parameters
    ----------
    estimator : estimator
    X, y : the training data, as callbacks may want them
    n_problems : int
        Binary problems to be solved; more than one get a task each.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, n_problems: int):
        self.estimator, self.data, self.n_problems = estimator, {"X": X, "y": y}, n_problems
        self.lock = threading.Lock()
        self.root = None
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            several = n_problems > 1
            self.root = estimator._init_callback_context(
                max_subtasks=n_problems if several else None, sequential_subtasks=not several
            )

    def callbacks(self, k: int) -> list[Callback]:
        """Callbacks for the run of binary problem k."""
        if self.root is None:
            return []
        task = self.root
        if self.n_problems > 1:
            task = self.root.subcontext(task_name=f"class {k}", task_id=k, max_subtasks=None)
        return [_PassReporter(self, task)]


class _PassReporter:
    """Turns the loop's updates into one task per pass over the data."""

    def __init__(self, fit: FitTask, task: Any):
        self.fit, self.task = fit, task
        self.n_reported = 0

    def __call__(self, progress: Progress) -> bool:
        stop = False
        while self.n_reported < int(progress.passes):
            self.n_reported += 1
            with self.fit.lock:
                step = self.task.subcontext(task_name="pass")
                step.call_on_fit_task_begin(estimator=self.fit.estimator, **self.fit.data)
                stop |= step.call_on_fit_task_end(
                    estimator=self.fit.estimator,
                    **self.fit.data,
                    reconstruction_attributes=lambda: self._fitted(progress),
                )
        return stop

    def _fitted(self, progress: Progress) -> dict[str, Any] | None:
        """What makes a usable estimator of the present weights (of a two-class problem)."""
        from maxmargin.estimators.linear import _coefficients

        if self.fit.n_problems > 1:
            return None
        problem = progress.problem
        coef, intercept = _coefficients([progress.state.w.copy()], problem.n_features, problem.rows.bias)
        return {
            "coef_": coef,
            "intercept_": intercept,
            "classes_": self.fit.estimator.classes_,
            "n_features_in_": self.fit.estimator.n_features_in_,
        }
