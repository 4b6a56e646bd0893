"""Things to do while a solver runs. A callback is any callable; it is given a `Progress` and returns True to stop.

>>> from maxmargin import Problem, solve
>>> gaps = []
>>> problem = Problem([[1.0, 0.5], [-1.0, 0.2], [0.3, -1.0]], [1, -1, 1], loss="hinge")
>>> result = solve(problem, tol=1e-6, callbacks=[lambda progress: gaps.append(progress.relative_gap)])
>>> gaps[-1] < 1e-3
True
"""

from __future__ import annotations

import html
import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from maxmargin.solvers.base import Progress


class ProgressBar:
    """A bar on the terminal, or in a notebook, with passes, relative gap and the time that is left.

    A linearly convergent method gains digits at a steady rate, so the bar runs over the logarithm of the gap. Runs in
    several threads may share it.

    Parameters
    ----------
    description : str
    console : rich.console.Console, optional
        Where to draw; the default is stderr, and nothing is drawn if that is neither a terminal nor a notebook.
    n_models : int, default=1
        The runs that the bar is over, if several: each ends with a call of `end_of_model`.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[1.0, 0.5], [-1.0, 0.2]], [1, -1])
    >>> with ProgressBar() as bar:
    ...     result = solve(problem, callbacks=[bar])
    """

    def __init__(self, description: str = "training", console: Any = None, n_models: int = 1):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        where = console or Console(stderr=True)
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            console=where,
            transient=True,
            disable=not where.is_terminal,
        )
        self._cell = _NotebookBar(description) if where.is_jupyter else None
        self._task = self._bars.add_task(description, total=1.0, status="")
        self.n_models = n_models
        self._n_ended, self._started = 0, time.monotonic()
        self._runs: dict[int, _Run] = {}  # of each thread, the one it is at
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressBar:
        self._bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._cell is not None:
            self._cell.clear()
        if not self._bars.disable:  # Rich before 15 ends even a bar that was never drawn with an empty line
            self._bars.stop()

    def __call__(self, progress: Progress) -> bool:
        """Draw the present state; never stops a run."""
        with self._lock:
            run = self._runs.setdefault(threading.get_ident(), _Run())
            now, gap = run.share_at(progress), progress.relative_gap
            run.share = max(run.share, now)
            status = f"{progress.passes:.1f} passes"
            if math.isfinite(gap):
                status += f", gap {gap:.1e} (goal {progress.goal.tol:.0e})"
            if self.n_models > 1:
                self._draw_all(f", {status}")
            else:
                spent = 0.0 if run.first is None else progress.seconds - run.first[0]
                self._draw(now, status, progress.seconds, spent)
        return False

    def end_of_model(self) -> None:
        """The present run of this thread is over; the next one is another model's."""
        with self._lock:
            self._n_ended += 1
            self._runs.pop(threading.get_ident(), None)
            if self.n_models > 1:
                self._draw_all()

    def _draw_all(self, status: str = "") -> None:
        """Draw how many of the models are there, with the parts of those in work."""
        share = (self._n_ended + sum(run.share for run in self._runs.values())) / self.n_models
        seconds = time.monotonic() - self._started
        self._draw(min(1.0, share), f"{self._n_ended} of {self.n_models} models{status}", seconds, seconds)

    def _draw(self, share: float, status: str, seconds: float, spent: float) -> None:
        """Draw the bar; with the time left, if what was spent on this share is known."""
        if spent > 0.0 and 0.02 < share < 1.0:
            status += f", {spent * (1.0 - share) / share:.0f} s left"
        self._bars.update(self._task, completed=share, status=status)
        if self._cell is not None:
            self._cell.draw(share, f"{status}, {seconds:.1f} s")


class _Run:
    """How far a run has come."""

    def __init__(self) -> None:
        self.share = 0.0
        self.first: tuple[float, float] | None = None  # seconds and gap when a gap was first known

    def share_at(self, progress: Progress) -> float:
        """How much of the way is done: digits gained over digits wanted, or of a limit that comes earlier."""
        limits = max(progress.passes / progress.goal.max_passes, progress.seconds / progress.max_time)
        gap, tol = progress.relative_gap, max(progress.goal.tol, 1e-16)
        if not gap > 0.0 or not math.isfinite(gap):
            return min(1.0, limits)
        if self.first is None:
            self.first = (progress.seconds, max(gap, 2.0 * tol))
        start = self.first[1]
        return min(1.0, max(limits, math.log(start / max(gap, tol)) / math.log(start / tol)))


class _NotebookBar:
    """A bar below a cell of a notebook; it needs IPython alone, no widgets, and is gone at the end."""

    def __init__(self, description: str):
        self._description, self._next = description, -math.inf
        self._shown: Any = None  # IPython's handle of what is displayed

    def draw(self, share: float, status: str) -> None:
        """Draw the bar anew, ten times a second at most."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.1
        text = html.escape(f"{self._description} {status}")
        self._show(f'<progress value="{share:.3f}" max="1"></progress> <code>{text}</code>')

    def clear(self) -> None:
        """Leave an empty line."""
        if self._shown is not None:
            self._show("")

    def _show(self, content: str) -> None:
        from IPython.display import HTML, display

        if self._shown is None:
            self._shown = display(HTML(content), display_id=True)
        else:
            self._shown.update(HTML(content))


class EarlyStopping:
    """Stop when a score of the present weights has not improved for some passes.

    Parameters
    ----------
    score : callable
        Given the weight vector w (the last entry belongs to the intercept column if there is one), returns a number
        that should be large, such as the accuracy on held-out rows.
    patience : float
        Passes without improvement before the run is stopped.
    every : float
        Passes between evaluations.

    Attributes
    ----------
    best_score, best_w :
        The best evaluation so far.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import Problem, solve
    >>> X, y = np.array([[1.0, 0.5], [-1.0, 0.2], [0.3, -1.0]]), np.array([1.0, -1.0, 1.0])
    >>> watch = EarlyStopping(lambda w: np.mean(np.sign(X @ w) == y), patience=2)
    >>> solve(Problem(X, y, loss="hinge"), "pegasos", tol=1e-9, callbacks=[watch]).stop_reason
    'callback'
    """

    def __init__(self, score: Callable[[Any], float], patience: float = 5.0, every: float = 1.0):
        self.score, self.patience, self.every = score, patience, every
        self.best_score = -math.inf
        self.best_w: Any = None
        self._best_passes = 0.0
        self._next = 0.0

    def __call__(self, progress: Progress) -> bool:
        """Evaluate if it is time to; True when patience is at its end."""
        if progress.passes < self._next:
            return False
        self._next = progress.passes + self.every
        score = self.score(progress.state.w)
        if score > self.best_score:
            self.best_score, self.best_w, self._best_passes = score, progress.state.w.copy(), progress.passes
        return progress.passes - self._best_passes >= self.patience
