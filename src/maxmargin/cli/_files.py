"""Files of the command line: data in, models in and out, checked before the work begins."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from maxmargin.cli._console import complain, counted, working

# ---------------------------------------------------------------- data


def read_data(paths: str | Sequence[str], arguments: argparse.Namespace, **options: Any) -> tuple[Any, Any]:
    """The rows and labels of svmlight files, or of stdin for ``-``."""
    from maxmargin.data.svmlight import load_svmlight

    names = [paths] if isinstance(paths, str) else list(paths)
    if "-" in names and sys.stdin is None:
        raise ValueError("there is no stdin to read from")
    zero_based: bool | Literal["auto"] = "auto" if arguments.first_index is None else arguments.first_index == 0
    with working(f"reading {', '.join(map(data_name, names))}", quiet=getattr(arguments, "quiet", False)):
        try:
            X, y = load_svmlight(names, zero_based=zero_based, n_jobs=arguments.jobs, **options)[:2]
        except ImportError as error:  # of what unpacks .zst
            raise ValueError(str(error)) from error
    return X, y


def data_name(path: str) -> str:
    """What to call a data file."""
    return "<stdin>" if path == "-" else path


def read_data_for(model: Any, path: str, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Data with as many features as a model has; features beyond have no weight and are left out, as in LIBLINEAR."""
    X, y = read_data(path, arguments)
    n_features = model.n_features_in_
    if X.shape[1] > n_features:
        what = f"{data_name(path)}: the model has {counted(n_features, 'feature')} and the data {X.shape[1]:,}"
        complain(f"{what}; those beyond are ignored", kind="warning: ")
        X = X[:, :n_features]
    elif X.shape[1] < n_features:
        X.resize((X.shape[0], n_features))  # what is never named is zero
    return X, y


# ---------------------------------------------------------------- models


def read_model(path: str) -> Any:
    """The estimator in a model file of ours or of LIBLINEAR."""
    from maxmargin.models.estimator import load

    if not is_model(path):
        raise ValueError(f"{path}: not a model file; train one with: maxmargin train DATA {path}")
    return load(path)


def is_model(path: str) -> bool:
    """Whether a file looks like a model of ours or of LIBLINEAR, sound or not, rather than like data."""
    from maxmargin.models import is_liblinear
    from maxmargin.models._header import MAX_HEADER

    if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):
        return False
    with open(path, "rb") as file:
        start = file.read(9)
    # Ours begins with the length of the header that follows. As such a number, 8 bytes of text are far too large.
    is_ours = len(start) == 9 and int.from_bytes(start[:8], "little") <= MAX_HEADER and start[8:] == b"{"
    return is_ours or is_liblinear(path)


LIBLINEAR_TYPES = {
    ("squared_hinge", "l2"): "L2R_L2LOSS_SVC_DUAL",
    ("hinge", "l2"): "L2R_L1LOSS_SVC_DUAL",
    ("logistic", "l2"): "L2R_LR",
    ("squared_hinge", "l1"): "L1R_L2LOSS_SVC",
    ("logistic", "l1"): "L1R_LR",
    ("epsilon_insensitive", "l2"): "L2R_L1LOSS_SVR_DUAL",
    ("squared_epsilon_insensitive", "l2"): "L2R_L2LOSS_SVR",
}


def write_liblinear_model(estimator: Any, path: str) -> None:
    """Write a classifier or a regressor for LIBLINEAR's own ``predict``."""
    import numpy as np

    from maxmargin import losses
    from maxmargin.models import write_liblinear

    if not hasattr(estimator, "coef_"):
        raise ValueError(f"LIBLINEAR's models are linear; a {type(estimator).__name__} is not")
    loss, penalty = losses.name_of(losses.get(estimator.loss)), getattr(estimator, "penalty", "l2")
    if (loss, penalty) not in LIBLINEAR_TYPES:
        raise ValueError(f"LIBLINEAR has no loss {loss!r}; it has {', '.join(sorted({k[0] for k in LIBLINEAR_TYPES}))}")
    write_liblinear(
        path,
        np.atleast_2d(estimator.coef_),
        estimator.intercept_,
        getattr(estimator, "classes_", None),
        solver_type=LIBLINEAR_TYPES[loss, penalty],
        bias=estimator.intercept_scaling if estimator.fit_intercept else -1.0,
    )


def check_writable(path: str, *, over_models_only: bool = False) -> None:
    """Find out before a long computation that its result could not be written.

    Parameters
    ----------
    path : str
        The file to write.
    over_models_only : bool
        Refuse to replace what is not a model: ``train a.svm b.svm`` is a likely slip.
    """
    directory = Path(os.path.realpath(path)).parent
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not directory.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"cannot be written: there is no directory {directory}", path)
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if os.path.isfile(path) or not os.path.exists(path):
        try:
            tempfile.TemporaryFile(dir=directory).close()  # permissions do not tell all: file systems can be read-only
        except OSError as error:
            raise OSError(error.errno, f"cannot be written: {error.strerror}", path) from error
    if over_models_only and os.path.isfile(path) and os.path.getsize(path) and not is_model(path):
        raise ValueError(f"{path}: exists and is not a model; delete it, or name another file for the model")
