"""The peers. Each is skipped, and named as skipped, where it is not installed.

All minimise 1/2 |w|^2 + C sum_i loss_i without intercept; where a peer scales it differently, `fit` says how.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .datasets import CACHE
from .objectives import Objective
from .solvers import Solver, decades, doublings

_NO_LIMIT = 1_000_000  # passes: the harness stops what takes too long
_MULTICORE = CACHE / "liblinear-multicore"


@dataclass(frozen=True)
class SklearnLinearSVC(Solver):
    """scikit-learn's LIBLINEAR; converting the data is part of its fit."""

    package = "scikit-learn"
    rungs = decades(1e0, 1e-6)
    dual = True

    @property
    def name(self) -> str:
        return f"sklearn-LinearSVC-{'dual' if self.dual else 'primal'}"

    def load(self) -> None:
        import sklearn.svm  # noqa: F401

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        from sklearn.svm import LinearSVC

        X, y = prepared
        model = LinearSVC(
            C=objective.C,
            loss=objective.loss,
            dual=self.dual,
            fit_intercept=False,
            tol=rung,
            max_iter=_NO_LIMIT,
            random_state=0,
        )
        return model.fit(X, y)


@dataclass(frozen=True)
class SklearnLinearSVCPrimal(SklearnLinearSVC):
    """The same, by Newton's method on the primal."""

    rungs = decades(1e-1, 1e-8)
    losses = ("squared_hinge",)
    dual = False


@dataclass(frozen=True)
class SklearnSGD(Solver):
    """scikit-learn's SGD, a rung being the number of passes; its own stop is not reliable on sparse rows."""

    package = "scikit-learn"
    rungs = doublings(1, 4096)
    losses = ("hinge",)  # it diverges on squared hinge: 1e18 times the optimum

    @property
    def name(self) -> str:
        return "sklearn-SGD"

    def load(self) -> None:
        import sklearn.linear_model  # noqa: F401

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        from sklearn.linear_model import SGDClassifier

        X, y = prepared
        alpha = 1.0 / (objective.C * len(y))  # its objective is ours divided by C times the number of rows
        model = SGDClassifier(
            loss=objective.loss, alpha=alpha, fit_intercept=False, tol=None, max_iter=int(rung), random_state=0
        )
        return model.fit(X, y)


@dataclass(frozen=True)
class Liblinear(Solver):
    """LIBLINEAR's own Python package. Its users convert the data first, so that is timed apart."""

    package = "liblinear-official"
    rungs = decades(1e0, 1e-6)

    @property
    def name(self) -> str:
        return "liblinear-dual"

    def type_code(self, loss: str) -> int:
        """LIBLINEAR's number of the method."""
        return {"hinge": 3, "squared_hinge": 1}[loss]

    def load(self) -> None:
        import liblinear.liblinearutil  # noqa: F401

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from liblinear.liblinear import problem
        from scipy.sparse import csr_matrix

        return problem(y, csr_matrix(X))  # dense rows would be converted in Python, one by one

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        from liblinear.liblinearutil import train

        return train(prepared, f"-s {self.type_code(objective.loss)} -c {objective.C!r} -e {rung!r} -B -1 -q")

    def weights(self, fitted: Any) -> np.ndarray:
        w = np.ctypeslib.as_array(fitted.w, (fitted.nr_feature,)).copy()
        return w * fitted.label[0]  # oriented towards the class seen first


@dataclass(frozen=True)
class LiblinearPrimal(Liblinear):
    """The same, by Newton's method on the primal."""

    rungs = decades(1e-1, 1e-8)
    losses = ("squared_hinge",)

    @property
    def name(self) -> str:
        return "liblinear-primal"

    def type_code(self, loss: str) -> int:
        return 2


@dataclass(frozen=True)
class LiblinearMulticore(LiblinearPrimal):
    """LIBLINEAR's version with threads. Its module has the other one's name, so it lives in a folder of its own."""

    package = "liblinear-multicore"

    @property
    def name(self) -> str:
        return f"liblinear-multicore-primal-{self.threads}t"

    def load(self) -> None:
        if not _MULTICORE.is_dir():
            raise ImportError(f"pip install --no-deps --target {_MULTICORE} liblinear-multicore")
        sys.path.insert(0, str(_MULTICORE))  # of a worker process, where nothing else is imported by this name
        super().load()

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        from liblinear.liblinearutil import train

        return train(prepared, f"-s 2 -c {objective.C!r} -e {rung!r} -B -1 -q -m {self.threads}")


@dataclass(frozen=True)
class SnapML(Solver):
    """IBM's Snap ML: parallel dual coordinate descent. It stops when the coefficients hardly change."""

    package = "snapml"
    rungs = decades(1e-1, 1e-12)

    @property
    def name(self) -> str:
        return f"snapml-{self.threads}t"

    def load(self) -> None:
        import snapml  # noqa: F401

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        from snapml import SupportVectorMachine

        X, y = prepared
        model = SupportVectorMachine(
            loss=objective.loss,
            regularizer=1.0 / objective.C,
            tol=rung,
            max_iter=_NO_LIMIT,
            n_jobs=self.threads,
            random_state=0,
        )
        return model.fit(X, y)


@dataclass(frozen=True)
class LightningSDCA(Solver):
    """sklearn-contrib-lightning's dual coordinate ascent, a rung being the number of passes. Needs numpy < 2."""

    package = "sklearn-contrib-lightning"
    rungs = doublings(1, 4096)

    @property
    def name(self) -> str:
        return "lightning-SDCA"

    def load(self) -> None:
        import lightning.classification  # noqa: F401

    def fit(self, prepared: Any, objective: Objective, rung: float) -> Any:
        from lightning.classification import SDCAClassifier

        X, y = prepared
        alpha = 1.0 / (objective.C * len(y))
        return SDCAClassifier(loss=objective.loss, alpha=alpha, tol=0, max_iter=int(rung), random_state=0).fit(X, y)


def peers() -> list[Solver]:
    """All of them, installed or not."""
    return [
        SklearnLinearSVC(),
        SklearnLinearSVCPrimal(),
        SklearnSGD(),
        Liblinear(),
        LiblinearPrimal(),
        LiblinearMulticore(threads=1),
        LiblinearMulticore(threads=2),
        SnapML(threads=1),
        SnapML(threads=2),
        LightningSDCA(),
    ]


def quiet() -> None:
    """Silence the warnings that a loose rung rightly draws."""
    warnings.simplefilter("ignore")
