"""Linear classifiers that learn from streams, with scikit-learn's interface."""

from __future__ import annotations

import math
import threading
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxmargin._random import new_rng
from maxmargin.data.indices import check_same_base
from maxmargin.data.outputs import linear_outputs
from maxmargin.data.rows import Array, as_rows, take
from maxmargin.data.stream import is_stream
from maxmargin.estimators._callbacks import FitTask, with_callbacks
from maxmargin.estimators._docs import documented
from maxmargin.estimators._estimator import Classifier, Estimator
from maxmargin.estimators._held_out import HeldOut, columns
from maxmargin.estimators._one_vs_rest import check_labels, class_factors, observed_classes
from maxmargin.estimators._parameters import bias_of, classifier_loss, seed_of, validated
from maxmargin.estimators._progress_table import ProgressTable
from maxmargin.estimators._shared_parameters import Intercept, Seeded
from maxmargin.estimators._stream_checks import (
    announced,
    check_classes,
    check_known,
    check_parameters,
    check_passes,
    check_settings,
    checked_chunks,
)
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import check_weights
from maxmargin.solvers.base import Result, run
from maxmargin.solvers.interrupts import catch_interrupt, end_of_fit
from maxmargin.solvers.stochastic.online_sgd import OnlineRun, OnlineSGD, RowsAsTheyCome, ShuffledRows, Some
from maxmargin.solvers.stochastic.row_order import distinct_rows
from maxmargin.solvers.stochastic.stream_models import StreamModels, mean_one

_STEPS = 10**6  # that a fit makes if not told how many passes: enough for most data, and a second's work
_FEWEST_PASSES, _MOST_PASSES = 5, 100


@documented
@dataclass(eq=False, repr=False)
class OnlineSVC(Classifier, Intercept, Seeded, Estimator):
    """Linear classifier that learns from rows as they come, in memory that does not grow with them.

    Averaged stochastic gradient descent on ``alpha/2 |w|^2 + mean_i weight_i loss(y_i (x_i'w + b))``: with
    ``C = 1 / (alpha * n_rows)`` (with weights, their sum) the objective of `LinearSVC`. A row costs its nonzeros, once
    a pass. One pass over very many rows predicts about as well as the optimum does, but no certificate says how near it
    is: if the data fit into memory and the optimum matters, take `LinearSVC`.

    `fit` takes arrays, files larger than memory or any iterable of chunks; `partial_fit` takes a part of a stream, and
    gives the same bits whether rows come one by one or all at once.

    Parameters
    ----------
    alpha : float, default=1e-4
        Weight of the penalty, lambda; as in scikit-learn's SGDClassifier.
    loss : {"hinge", "squared_hinge", "huber", "logistic"} or loss object, default="hinge"
        The default is that of scikit-learn's SGDClassifier; `LinearSVC` has its LinearSVC's, "squared_hinge".
    average : bool, default=True
        Answer with the mean of the last half, or so, of all iterates, rather than with the last one.
    max_iter : int, default=None
        Passes over the data. None: one over a stream; over arrays as many as make a million steps, but 5 to 100.
    early_stopping : bool, default=False
        Whether to hold rows out and to stop when the loss on them no longer falls.
    validation_fraction : float, default=0.1
        Share of the rows to hold out: every tenth one, say; of a stream at most 10,000 rows, the first of these.
    n_iter_no_change : int, default=5
        Looks at the rows held out, without a better loss, before the end. There is one after each pass, and within
        the passes over a stream one every 100,000 rows.
    tol : float, default=1e-3
        By which share a loss must be smaller to be better.
    class_weight : dict, "balanced" or None, default=None
        Factors of the rows' weights by class; 1 for a class that a dict does not name. "balanced" counts the rows of
        arrays beforehand; in a stream every row is weighted by the counts up to it. With more than two classes a
        class's factor applies in the problem that separates it from the rest.
    n_jobs : int, default=None
        Threads over the classes, and for parsing text; -1: all cores. The result is the same for any number.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the order in which `fit` visits the rows of arrays. None is a fixed seed. A stream has its own order.
    verbose : int, default=0
        1: print a line at 1, 2, 4, 8, ... rows, as Vowpal Wabbit does: the mean loss of predictions that were made
        before learning from a row, since the start and since the last line.
    max_time : float, default=None
        Seconds for `fit`, after which it ends with what it has learnt and a warning.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Of a stream whose classes were not announced: those found so far, which can be a single one.
    t_ : int
        Rows learnt from, each as often as it was visited.
    n_iter_ : int
        Passes over the data; the last may be unfinished.
    stop_reason_ : str
        "max_iter" (all passes were made), "early_stopping", "max_time", "interrupted" or "callback".
    solver_ : Solver
    history_ : dict of str to ndarray
        Seconds, passes, rows and held_out_loss after each pass of `fit`, and at each look at the rows held out.

    Notes
    -----
    `fit` on arrays visits them in an order that the rows' content and the seed decide, and takes equal rows together:
    neither the order in which they are given nor whether one is given twice or with weight 2 changes a bit. Weights of
    classes and of rows multiply. The mean of the objective is weighted by these products: only their ratios matter. In
    a stream a product multiplies the loss of its row.

    A stream is learnt from in its own order, which should be random: where rows are sorted by class, or drift, one pass
    ends with what came last. Shuffle such a file (``shuf``) or its shards, or let `fit` shuffle arrays.

    Classes that nobody announces are discovered. A new class begins with a model that has seen no rows; all rows before
    it have been negatives which that model has missed. Announce classes in `partial_fit` if they are known.

    References
    ----------
    Bottou: Stochastic gradient descent tricks, 2012. Xu: Towards optimal one pass large scale learning with averaged
    stochastic gradient descent, 2011.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=2000, random_state=0)
    >>> clf = OnlineSVC(alpha=1e-3)
    >>> for begin in range(0, 2000, 100):
    ...     clf = clf.partial_fit(X[begin : begin + 100], y[begin : begin + 100])
    >>> clf.t_, bool(clf.score(X, y) > 0.85)
    (2000, True)
    """

    alpha: float = 1e-4
    loss: Any = "hinge"
    _: KW_ONLY
    max_iter: Any = None
    class_weight: Any = None
    average: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineSVC:
        """Train on rows X with labels y, or on a stream.

        Ctrl-C ends it within a second with KeyboardInterrupt; the model found so far is kept.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), path, list of paths, or iterable of chunks
            Paths are of svmlight text, compressed or not, ``"-"`` is standard input; the next chunks are read and
            parsed while the last one is learnt from. Chunks are ``(X, y)`` or ``(X, y, sample_weight)``; those of a
            generator make one pass, those of a list, of `maxmargin.stream_svmlight`, or of anything else that can be
            iterated over again, `max_iter` passes. Later sparse chunks may have more features.
        y : array-like of shape (n_samples,)
            Labels, if X is an array or a matrix.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._train(X, y, sample_weight)
        if self.stop_reason_ in ("interrupted", "max_time"):
            how = "was interrupted" if self.stop_reason_ == "interrupted" else f"ran for max_time={self.max_time:g} s"
            message = f"OnlineSVC {how} in pass {self.n_iter_}, and the model found so far is kept."
            end_of_fit(self.stop_reason_, message, ConvergenceWarning, stacklevel=2)
        return self

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> None:
        """All of `fit` but what follows an interrupt."""
        for_arrays = not (y is None and is_stream(X))
        if sample_weight is not None and not for_arrays:
            raise ValueError("the weights of a stream come with its chunks: (X, y, sample_weight)")
        with catch_interrupt() as interrupt:
            problem: Any = self._shuffled(X, y, sample_weight) if for_arrays else self._streamed(X, interrupt)
            n_passes, seed = self.max_iter or 1, 0
            if for_arrays:
                some = min(max(_FEWEST_PASSES, math.ceil(_STEPS / len(problem.chosen))), _MOST_PASSES)
                n_passes, seed = self.max_iter or some, seed_of(self.random_state)
            task = FitTask(self, 1, self._usable, X, y, sample_weight)
            looks = [] if problem.held_out is None else [problem.held_out]
            with task.callbacks(0) as callbacks:
                limits: dict[str, Any] = {"max_iter": n_passes, "max_time": self.max_time, "interrupt": interrupt}
                limits |= {"callbacks": [*looks, *callbacks], "seed": seed}
                result = run(self._solver(), problem, **{**limits, **self._run_options})
        self._keep(problem, result)
        task.end()

    def _shuffled(self, X: Any, y: Any, sample_weight: Any) -> ShuffledRows:
        """Arrays, each different row once."""
        X, y = validated(self, X, y)
        check_labels(y)
        rows, norms2 = as_rows(X, bias_of(self))
        weight = check_weights(sample_weight, len(y))
        classes = observed_classes(y, weight)
        factors = class_factors(self.class_weight, classes, y, weight)
        codes = np.searchsorted(classes, y).clip(max=len(classes) - 1)  # rows without weight: any will do
        models = self._models(X.shape[1], classes)
        chosen, merged = distinct_rows(rows, codes, weight, models.n_jobs)
        held_out = None
        if self.early_stopping:
            held_out = self._held_out(most=None)
            out = held_out.choose(0, len(chosen))
            if not len(out):
                raise ValueError(f"validation_fraction={self.validation_fraction} of {len(chosen)} rows is no row")
            held_out.keep(take(rows, chosen[out]), y[chosen[out]], merged[out])
            chosen, merged = np.delete(chosen, out), np.delete(merged, out)
        weights = np.zeros(len(y))
        weights[chosen] = merged
        models.scales = mean_one(codes[chosen], merged, factors)
        by_label = None if self.class_weight is None else dict(zip(classes.tolist(), factors.tolist()))
        return ShuffledRows(Some(rows, norms2, y, weights), chosen, models, by_label, self._table(), held_out)

    def _streamed(self, data: Any, interrupt: Any) -> RowsAsTheyCome:
        """The chunks of a stream, checked one by one."""
        check_passes(data, self.max_iter or 1)
        self._first_index: int | None = None  # that the indices of text count from, as soon as that is known
        held_out = self._held_out() if self.early_stopping else None
        read = partial(checked_chunks, self, data, interrupt)
        return RowsAsTheyCome(read, self._models(0), self.class_weight, self._table(), held_out)

    def _usable(self, states: list[Any]) -> dict[str, Any]:
        """What makes a copy of this estimator ready to predict during a fit."""
        models = deepcopy(states[0].models)
        return {"_learnt": models, "classes_": models.classes, "n_features_in_": models.n_features}

    def _keep(self, problem: Any, result: Result) -> None:
        """Turn what was learnt into fitted attributes."""
        models = result.state.models
        if isinstance(problem, RowsAsTheyCome):
            problem.close()
            if result.stop_reason == "interrupted" and len(models.classes) < 2:
                raise KeyboardInterrupt  # before there was a model
            check_classes(models.classes)
            for name in ("feature_names_in_", "first_index_"):
                self.__dict__.pop(name, None)
            self.n_features_in_, first_index = models.n_features, self.__dict__.pop("_first_index")
            if first_index is not None:
                self.first_index_ = first_index
        models.scales = None  # what a stream brings later is taken as it is
        if problem.table is not None:
            problem.table.end()
        self._learnt = models
        self._progress: ProgressTable | None = None  # of the parts of a stream that follow
        self.classes_, self.t_ = models.classes, models.n_seen
        self.n_iter_, self.solver_ = math.ceil(result.passes), result.solver
        if problem.held_out is None:
            self.stop_reason_, self.history_ = result.stop_reason, dict(result.history)
            self.history_["held_out_loss"] = np.full(len(result.history["rows"]), np.nan)
        else:
            self.stop_reason_ = "early_stopping" if problem.held_out.is_done else result.stop_reason
            self.history_ = columns(problem.held_out.history)

    # ------------------------------------------------------------ parts of a stream

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> OnlineSVC:
        """Learn from a part of a stream, once from each row, in their order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            A sparse matrix may have more features than those before it.
        classes : array-like of shape (n_classes,), optional
            All classes that may occur, in the first call; any other is then refused. Without it classes are discovered.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the rows' losses. A row of weight 0 is as good as absent.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.early_stopping:
            raise ValueError("early_stopping is for fit: partial_fit learns from every row that it is given")
        learnt: StreamModels | None = getattr(self, "_learnt", None)
        grows = learnt is not None and hasattr(X, "tocsr") and X.shape[1] > learnt.n_features
        first_index = getattr(self, "first_index_", None)
        if learnt is not None:
            check_same_base(X, first_index)
        X, y = validated(self, X, y, reset=learnt is None or grows)
        if first_index is not None and grows:
            self.first_index_ = first_index
        try:
            check_labels(y)
            weight = check_weights(sample_weight, len(y), may_be_zero=True)
            rows, norms2 = as_rows(X, bias_of(self))
            if learnt is None:
                learnt = self._models(X.shape[1], None if classes is None else announced(classes))
            elif classes is not None and not np.array_equal(np.unique(classes), learnt.classes):
                raise ValueError(f"classes={classes!r} is not the same as before: {learnt.classes!r}")
            check_settings(self, learnt)
            if learnt.is_announced:
                check_known(learnt, y[weight > 0.0])
        except ValueError:
            if learnt is not None and hasattr(self, "_learnt"):
                self.n_features_in_ = learnt.n_features
            raise
        table: ProgressTable | None = getattr(self, "_progress", None)
        if self.verbose and table is None:
            self._progress = table = self._table()
        part = RowsAsTheyCome(
            lambda: iter([Some(rows, norms2, y, weight)]), learnt, self.class_weight, table if self.verbose else None
        )
        solver = self._solver()
        start = OnlineRun(learnt, part.chosen, new_rng(0), 0, 0)
        run(solver, part, max_iter=1, start=start, interrupt=threading.Event())  # type: ignore[arg-type]
        self._learnt, self.solver_ = learnt, solver
        self.classes_, self.t_ = learnt.classes, learnt.n_seen
        if not hasattr(self, "history_"):
            self.n_iter_, self.stop_reason_, self.history_ = 1, "max_iter", columns([])
        return self

    def _solver(self) -> OnlineSGD:
        return OnlineSGD(float(self.alpha))

    def _models(self, n_features: int, classes: Array | None = None) -> StreamModels:
        loss, n_jobs = classifier_loss(self.loss), effective_n_jobs(self.n_jobs)
        return StreamModels(loss, float(self.alpha), bias_of(self), n_features, classes, n_jobs)

    def _table(self) -> ProgressTable | None:
        return ProgressTable(self.average) if self.verbose else None

    def _held_out(self, **options: Any) -> HeldOut:
        every, patience = round(1.0 / self.validation_fraction), int(self.n_iter_no_change)
        return HeldOut(every, float(self.tol), patience, self.average, **options)

    def _check_parameters(self) -> None:
        check_parameters(self)

    @property
    def coef_(self) -> Array:
        """Weights of the features, made when they are asked for: it takes a walk over all of them."""
        return self._weights()[:, : self._learnt.n_features]

    @property
    def intercept_(self) -> Array:
        """Intercepts."""
        weights, learnt = self._weights(), self._learnt
        return learnt.bias * weights[:, -1] if learnt.bias else np.zeros(len(weights))

    def _weights(self) -> Array:
        if "_learnt" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} instance is not fitted yet: it has no coefficients")
        return self._learnt.weights(self.average)

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self, "classes_")
        X = validated(self, X, reset=False)
        return linear_outputs(X, np.ascontiguousarray(self.coef_), self.intercept_)
