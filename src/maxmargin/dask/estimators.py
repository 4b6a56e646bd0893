"""`LinearSVC`, `LinearSVR`, `LinearSVCCV` and `path` for rows on a Dask cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted, column_or_1d

from maxmargin.dask.partitions import as_dask_array, make_source
from maxmargin.estimators import linear, selection
from maxmargin.estimators._docs import documented
from maxmargin.estimators._parameters import bias_of
from maxmargin.selection import paths
from maxmargin.selection.regularization_path import RegularizationPath


@documented
class _OnDask:
    """What all share: rows become a source, predictions are lazy."""

    _local: Any  # the same estimator for rows in memory

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
        checkpoint: Any = None,
        checkpoint_every: float = 60.0,
    ) -> Any:
        """Train on rows that are on the workers of a cluster.

        Ctrl-C ends the training within a second and keeps the model found so far, as in memory.

        Parameters
        ----------
        X : dask array or dataframe, list of delayed or futures, or Store
            Partitions are its chunks of rows; some may be empty, and of unknown size. Chunks may be sparse (CSR). Those
            of a list are ``(X, y)`` or ``(X, y, sample_weight)``. A store must lie on a disk that all workers read.
        y : dask array, series or array-like of shape (n_samples,), optional
            Labels, if they do not come with X.
        sample_weight : dask array, series or array-like of shape (n_samples,), optional
        client : distributed.Client, optional
            By default the one that `distributed.get_client` finds.
        checkpoint : path, optional
            A file of the driver to save the state to, now and then and when a pass fails, as it does when the scheduler
            is lost. If it exists, training goes on from it, with any cluster, to the same bits. Of several classes
            there is a file for each, with its number added to the name.
        checkpoint_every : float, default=60.0
            Seconds between two saves.

        Returns
        -------
        self
        """
        this: Any = self
        data = _data_on_cluster(client, X, y, sample_weight, bias_of(this))
        if checkpoint is None:
            return super().fit(*data)  # type: ignore[misc]
        this._run_options = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every}
        try:
            return super().fit(*data)  # type: ignore[misc]
        finally:
            del this._run_options

    def to_local(self) -> Any:
        """The same model as an estimator for rows in memory, to keep, save or send around."""
        local = self._local(**self.get_params())  # type: ignore[attr-defined]
        local.__dict__.update({name: value for name, value in vars(self).items() if name.endswith("_")})
        return local

    def save(self, path: Any) -> None:
        """Write the model to a file that ``maxmargin.load`` reads, as one for rows in memory.

        Parameters
        ----------
        path : path
        """
        self.to_local().save(path)

    def predict(self, X: Any) -> Any:
        """Class of each row, or value of a regression, lazily if X is a dask collection.

        Parameters
        ----------
        X : dask array or dataframe, or as in memory

        Returns
        -------
        dask array or ndarray of shape (n_samples,)
        """
        check_is_fitted(self, "coef_")
        return self._lazily("predict", X, self.classes_.dtype if is_classifier(self) else np.float64)  # type: ignore

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose class is predicted rightly, or R^2 of a regression.

        Parameters
        ----------
        X : dask array or dataframe, or as in memory
        y : dask array or array-like of shape (n_samples,)

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score, r2_score

        metric = accuracy_score if is_classifier(self) else r2_score
        weight = None if sample_weight is None else np.asarray(sample_weight)
        return float(metric(np.asarray(y), np.asarray(self.predict(X)), sample_weight=weight))

    def _lazily(self, method: str, X: Any, dtype: Any, width: int | None = None) -> Any:
        """A method of the local model for each chunk of a dask collection, when that is computed."""
        check_is_fitted(self, "coef_")
        local = self.to_local()
        X = as_dask_array(X, local.n_features_in_)
        if not hasattr(X, "map_blocks"):
            return getattr(local, method)(X)
        shape: dict[str, Any] = {"drop_axis": 1} if width is None else {"chunks": (X.chunks[0], (width,))}
        meta = np.empty((0,) if width is None else (0, 0), dtype=dtype)
        return X.map_blocks(_call, local, method, dtype=dtype, meta=meta, **shape)


def _data_on_cluster(client: Any, X: Any, y: Any, sample_weight: Any, bias: float) -> tuple[Any, Any, Any]:
    """The rows as a source, labels and weights."""
    from distributed import get_client

    source, labels, weight = make_source(client or get_client(), X, y, sample_weight, float(bias))
    return source, column_or_1d(labels), weight


def _call(X: Any, model: Any, method: str) -> Any:
    return getattr(model, method)(X)


@documented
class _Classifier(_OnDask):
    """Decision functions of classes."""

    classes_: Any

    def decision_function(self, X: Any) -> Any:
        """Values of the decision functions, lazily if X is a dask collection.

        Parameters
        ----------
        X : dask array or dataframe, or as in memory

        Returns
        -------
        dask array or ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        check_is_fitted(self, "coef_")
        return self._lazily("decision_function", X, np.float64, None if len(self.classes_) == 2 else len(self.classes_))


@documented
class LinearSVC(_Classifier, linear.LinearSVC):
    """`maxmargin.LinearSVC` for rows on a Dask cluster; parameters, attributes and answers are the same.

    Examples
    --------
    >>> from maxmargin.dask import LinearSVC
    >>> LinearSVC(C=0.1, loss="logistic")
    LinearSVC(C=0.1, loss='logistic')
    """

    _local = linear.LinearSVC


@documented
class LinearSVCCV(_Classifier, selection.LinearSVCCV):
    """`maxmargin.LinearSVCCV` for rows on a Dask cluster; parameters, attributes and answers are the same.

    Rows that a fold holds out have weight zero there, so that no fold moves any rows.

    Examples
    --------
    >>> from maxmargin.dask import LinearSVCCV
    >>> LinearSVCCV(Cs=[0.1, 1.0], cv=3)
    LinearSVCCV(Cs=[0.1, 1.0], cv=3)
    """

    _local = selection.LinearSVCCV

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None) -> Any:  # type: ignore[override]
        """Choose C by cross validation, and train on all rows with it.

        Parameters
        ----------
        X, y, sample_weight, client :
            As of `maxmargin.dask.LinearSVC.fit`.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight, client=client)

    def to_linear_svc(self) -> Any:
        """The chosen model, as a fitted `maxmargin.LinearSVC`."""
        return self.to_local().to_linear_svc()


@documented
class LinearSVR(_OnDask, linear.LinearSVR):
    """`maxmargin.LinearSVR` for rows on a Dask cluster; parameters, attributes and answers are the same.

    Examples
    --------
    >>> from maxmargin.dask import LinearSVR
    >>> LinearSVR(C=0.1)
    LinearSVR(C=0.1)
    """

    _local = linear.LinearSVR


def path(
    X: Any, y: Any = None, Cs: Any = 8, *, sample_weight: Any = None, client: Any = None, **options: Any
) -> RegularizationPath:
    """`maxmargin.path` for rows on a Dask cluster: a grid of C, each to a certified gap.

    Parameters
    ----------
    X : dask array or dataframe, list of delayed or futures, or Store
        See `LinearSVC.fit`.
    y : dask array, series or array-like of shape (n_samples,), optional
    Cs : array-like of float or int, default=8
        The values of C, in any order, or how many of them between 0.0001 and 1000.
    sample_weight : dask array, series or array-like of shape (n_samples,), optional
    client : distributed.Client, optional
        By default the one that `distributed.get_client` finds.
    **options
        As of `maxmargin.path`.

    Returns
    -------
    RegularizationPath
        Its models are for rows in memory.

    Examples
    --------
    >>> from maxmargin.dask import path
    >>> best = path(X, y, Cs=[0.01, 1.0, 100.0])  # dask arrays, on the default client    # doctest: +SKIP
    """
    bias = options.get("intercept_scaling", 1.0) if options.get("fit_intercept", True) else 0.0
    source, labels, weight = _data_on_cluster(client, X, y, sample_weight, bias)
    return paths.path(source, labels, Cs, sample_weight=weight, **options)
