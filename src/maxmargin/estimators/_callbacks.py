"""scikit-learn's callback API (1.9 and later), and nothing in its place where it is not there.

An estimator that was given callbacks with `set_callbacks` reports each pass over the data as a task of its fit; with
several classes, each class is a task and its passes are tasks below it. A callback that returns True at the end of a
pass stops the passes of that level: the fit, or that of its class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """The root task of one `fit`, begun when it is made.

    Parameters
    ----------
    estimator : estimator
    n_problems : int
        Binary problems to be solved; more than one get a task each.
    usable : callable
        Given the states of all problems, returns the attributes that make a copy of the estimator ready to predict.
    X, y, sample_weight :
        The arguments of `fit`, for which callbacks may ask.
    """

    def __init__(
        self,
        estimator: Any,
        n_problems: int,
        usable: Callable[[list[Any]], dict[str, Any] | None],
        X: Any,
        y: Any,
        sample_weight: Any,
    ):
        self.n_problems, self.usable = n_problems, usable
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.hook_arguments = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self.is_watched = bool(getattr(estimator, "_skl_callbacks", None))
        self.lock = threading.Lock()  # callbacks need not expect the threads of several classes
        self.root = None
        if self.is_watched:
            several = n_problems > 1
            self.root = estimator._init_callback_context(
                max_subtasks=n_problems if several else None, sequential_subtasks=not several
            )
            self.root.call_on_fit_task_begin(**self.hook_arguments)

    def end(self) -> None:
        """Report the end; the estimator must be fitted by now."""
        if self.root is not None:
            self.root.call_on_fit_task_end(**self.hook_arguments, reconstruction_attributes={})

    @contextmanager
    def callbacks(self, k: int) -> Iterator[list[Callback]]:
        """Callbacks for the run of binary problem k, whose task lasts as long as the context."""
        if self.root is None:
            yield []
        elif self.n_problems == 1:
            yield [_PassReporter(self, self.root, lambda state: self.usable([state]))]
        else:
            with self.lock:
                task = self.root.subcontext(task_name=f"class {k}", task_id=k, max_subtasks=None)
                task.call_on_fit_task_begin(**self.hook_arguments)
            yield [_PassReporter(self, task, lambda state: None)]  # the other classes' weights are not there yet
            with self.lock:
                task.call_on_fit_task_end(**self.hook_arguments)


class _PassReporter:
    """Turns the loop's updates into one task per pass over the data."""

    def __init__(self, fit: FitTask, task: Any, usable: Callable[[Any], dict[str, Any] | None]):
        self.fit, self.task, self.usable = fit, task, usable
        self.n_reported = 0

    def __call__(self, progress: Progress) -> bool:
        stop = False
        while self.n_reported < int(progress.passes):
            self.n_reported += 1
            with self.fit.lock:
                step = self.task.subcontext(task_name="pass")
                step.call_on_fit_task_begin(**self.fit.hook_arguments)
                stop |= step.call_on_fit_task_end(
                    **self.fit.hook_arguments, reconstruction_attributes=lambda: self.usable(progress.state)
                )
        return stop
