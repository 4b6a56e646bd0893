"""Linear classifiers that learn from streams, with scikit-learn's interface."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxmargin._random import new_rng, shuffle
from maxmargin.data.indices import check_same_base, index_base
from maxmargin.data.outputs import linear_outputs
from maxmargin.data.rows import Array, as_rows
from maxmargin.data.stream import as_chunks, is_repeatable, is_stream
from maxmargin.estimators._estimator import Classifier, Estimator
from maxmargin.estimators._one_vs_rest import check_labels, class_factors, observed_classes
from maxmargin.estimators._parameters import classifier_loss, seed_of, validated
from maxmargin.estimators._passes import HeldOut, Passes
from maxmargin.estimators._progress_table import ProgressTable
from maxmargin.estimators._row_order import Reordered, distinct_rows, take_rows
from maxmargin.estimators._stream_checks import (
    announced,
    check_classes,
    check_known,
    check_parameters,
    check_settings,
    checked_chunk,
    fitting_rows,
)
from maxmargin.estimators._stream_models import StreamModels, mean_one
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import check_weights
from maxmargin.solvers.interrupts import catch_interrupt, end_of_fit

_STEPS = 10**6  # that a fit makes if not told how many passes: enough for most data, and a second's work
_FEWEST_PASSES, _MOST_PASSES = 5, 100


class OnlineSVC(Classifier, Estimator):
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
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is penalised like the other weights; larger `intercept_scaling` makes that
        penalty smaller.
    intercept_scaling : float, default=1.0
        Value of the constant feature whose weight makes the intercept.
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
        "max_iter" (all passes were made), "early_stopping" or "interrupted".
    history_ : dict of str to ndarray
        Seconds, passes, rows and held_out_loss after each pass of `fit`, and at each look at the rows held out.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had names

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

    def __init__(
        self,
        alpha: float = 1e-4,
        loss: Any = "hinge",
        average: bool = True,
        max_iter: int | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.loss = loss
        self.average = average
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineSVC:
        """Train on rows X with labels y, or on a stream.

        Ctrl-C ends the training within a second; the model found so far is kept, and KeyboardInterrupt raised (unless
        a `maxmargin.catch_interrupt` is around it).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), path, list of paths, or iterable of chunks
            Paths are of svmlight text, compressed or not, ``"-"`` is standard input; the next chunks are read and
            parsed while the last one is learnt from. Chunks are ``(X, y)`` or ``(X, y, sample_weight)``; those of a
            generator make one pass, those of a list, of `maxmargin.stream_svmlight`, or of anything else that can be
            iterated over again, `max_iter` passes. Later sparse chunks may have more features.
        y : array-like of shape (n_samples,)
            Labels, if X is an array or a matrix.
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 is a row given twice, weight 0 a row left out.

        Returns
        -------
        self
        """
        self._check_parameters()
        if y is None and is_stream(X):
            if sample_weight is not None:
                raise ValueError("the weights of a stream come with its chunks: (X, y, sample_weight)")
            self._fit_stream(X)
        else:
            self._fit_arrays(X, y, sample_weight)
        if self.stop_reason_ == "interrupted":
            message = "OnlineSVC was interrupted, and the model found so far is kept."
            end_of_fit(self.stop_reason_, message, ConvergenceWarning, stacklevel=2)
        return self

    def _fit_arrays(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = validated(self, X, y)
        check_labels(y)
        rows, norms2 = as_rows(X, self._bias)
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
            held_out.keep(take_rows(rows, chosen[out]), y[chosen[out]], merged[out])
            chosen, merged = np.delete(chosen, out), np.delete(merged, out)
        weights = np.zeros(len(y))
        weights[chosen] = merged
        models.scales = mean_one(codes[chosen], merged, factors)
        by_label = None if self.class_weight is None else dict(zip(classes.tolist(), factors.tolist()))

        n_passes = self.max_iter or min(max(_FEWEST_PASSES, math.ceil(_STEPS / len(chosen))), _MOST_PASSES)
        rng = new_rng(seed_of(self.random_state))
        with catch_interrupt() as interrupt:
            passes = Passes(models, by_label, self.average, self._table(), held_out, interrupt)
            while passes.stop_reason is None and passes.n_passes < n_passes:
                shuffle(chosen, len(chosen), rng)
                passes.visit(Reordered(rows, chosen), norms2[chosen], y[chosen], weights[chosen])
                passes.end_pass()
        models.scales = None  # what a stream brings later is taken as it is
        self._keep(passes)

    def _fit_stream(self, data: Any) -> None:
        n_passes = self.max_iter or 1
        if n_passes > 1 and not is_repeatable(data):
            raise ValueError(
                f"max_iter={n_passes} passes were asked for, but a pipe or an iterator can be passed over only once: "
                "give paths, or an object whose __iter__ begins anew"
            )
        first_index = None  # that the indices of text count from
        models = self._models(0)  # made wider by the first chunk
        held_out = self._held_out() if self.early_stopping else None
        with catch_interrupt() as interrupt:
            passes = Passes(models, self.class_weight, self.average, self._table(), held_out, interrupt)
            while passes.stop_reason is None and passes.n_passes < n_passes:
                for number, chunk in enumerate(as_chunks(data, interrupt, self.n_jobs)):
                    base = index_base(chunk.X)
                    if base is not None:
                        first_index = base.first_index
                    X, y, weight = checked_chunk(chunk, number)
                    rows, norms2 = fitting_rows(X, models, number)
                    passes.visit_chunk(rows, norms2, y, weight)
                    if passes.stop_reason is not None:
                        break
                if interrupt.is_set():
                    passes.stop_reason = "interrupted"
                    if len(models.classes) < 2:
                        raise KeyboardInterrupt  # before there was a model
                passes.end_pass()
                check_classes(models.classes)
        self.n_features_in_ = models.n_features
        for name in ("feature_names_in_", "first_index_"):
            if hasattr(self, name):
                delattr(self, name)
        if first_index is not None:
            self.first_index_ = first_index
        self._keep(passes)

    def _keep(self, passes: Passes) -> None:
        """Turn what was learnt into fitted attributes."""
        if passes.table is not None:
            passes.table.end()
        self._learnt = passes.models
        self._progress: ProgressTable | None = None  # of the parts of a stream that follow
        self.classes_ = passes.models.classes
        self.t_ = passes.models.n_seen
        self.n_iter_ = passes.n_passes
        self.stop_reason_ = passes.stop_reason or "max_iter"
        self.history_ = passes.columns()

    # ------------------------------------------------------------ parts of a stream

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> OnlineSVC:
        """Learn from a part of a stream, once from each row, in their order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            A sparse matrix may have more features than those before it.
        y : array-like of shape (n_samples,)
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
            rows, norms2 = as_rows(X, self._bias)
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
        learnt.widen(X.shape[1])
        table: ProgressTable | None = getattr(self, "_progress", None)
        if self.verbose and table is None:
            self._progress = table = self._table()
        passes = Passes(learnt, self.class_weight, self.average, table if self.verbose else None)
        passes.visit_chunk(rows, norms2, y, weight)
        self._learnt = learnt
        self.classes_, self.t_ = learnt.classes, learnt.n_seen
        if not hasattr(self, "history_"):
            self.n_iter_, self.stop_reason_, self.history_ = 1, "max_iter", passes.columns()
        return self

    # ------------------------------------------------------------ parameters

    @property
    def _bias(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _models(self, n_features: int, classes: Array | None = None) -> StreamModels:
        loss, n_jobs = classifier_loss(self.loss), effective_n_jobs(self.n_jobs)
        return StreamModels(loss, float(self.alpha), self._bias, n_features, classes, n_jobs)

    def _table(self) -> ProgressTable | None:
        return ProgressTable(self.average) if self.verbose else None

    def _held_out(self, **options: Any) -> HeldOut:
        return HeldOut(round(1.0 / self.validation_fraction), float(self.tol), int(self.n_iter_no_change), **options)

    def _check_parameters(self) -> None:
        check_parameters(self)

    # ------------------------------------------------------------ use

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
