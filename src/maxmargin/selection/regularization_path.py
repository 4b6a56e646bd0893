"""The models of a path over C, with their certificates: what `path` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.selection.scoring import scorer_for
from maxmargin.solvers.base import Result

if TYPE_CHECKING:
    from maxmargin.estimators.linear import LinearSVC


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

    Examples
    --------
    >>> from maxmargin import path
    >>> models = path([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], Cs=[0.1, 1.0])
    >>> len(models), models.model(1).C
    (2, 1.0)
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
        from maxmargin.displays import PathDisplay

        return PathDisplay.of_path(self, X, y, scoring=scoring).stacked()


def fitted(template: LinearSVC, C: float, classes: Array, results: list[Result]) -> LinearSVC:
    """A classifier with the parameters and features of `template`, as if fitted to these results."""
    from sklearn.base import clone

    from maxmargin.estimators._base import coefficients_of
    from maxmargin.estimators._parameters import bias_of

    model = clone(template).set_params(C=C)
    model.classes_ = classes
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(template, name):
            setattr(model, name, getattr(template, name))
    weights = [result.w for result in results]
    model.coef_, model.intercept_ = coefficients_of(weights, template.n_features_in_, bias_of(template))
    model._keep_training(results)
    return model
