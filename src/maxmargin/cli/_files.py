"""Files of the command line: data in, models in and out, checked before the work begins."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from maxmargin.cli._console import UsageError, complain, counted, working

if TYPE_CHECKING:
    from maxmargin.data.table import Table
    from maxmargin.models.predictor import Predictor

# ---------------------------------------------------------------- data


def read_store(paths: str | Sequence[str], arguments: argparse.Namespace) -> Any:
    """The store that is named, opened; None if it is no store."""
    names = [paths] if isinstance(paths, str) else list(paths)
    if not any(name != "-" and os.path.isdir(name) for name in names):
        return None
    if len(names) > 1:
        raise ValueError("a store is a data set of its own: name it alone")
    from maxmargin.data.store import open_store

    return open_store(names[0], memory=arguments.memory)


def read_store_for(model: Any, path: str, arguments: argparse.Namespace) -> Any:
    """The store that is named, for a model; None if it is no store. Indices that count otherwise are told of."""
    store = read_store(path, arguments)
    base = None if store is None else store.index.index_base
    if base is not None and model.first_index not in (None, base):
        what = f"{path}: its indices were taken as counted from {base}, those of the model's training from"
        advice = f"pack it with --first-index {model.first_index} if they mean the same features"
        complain(f"{what} {model.first_index}: {advice}", kind="warning: ")
    return store


def read_data(paths: str | Sequence[str], arguments: argparse.Namespace, **options: Any) -> tuple[Any, Any]:
    """The rows and labels of svmlight files or of a table, or of stdin for ``-``; labels may be words."""
    names = [paths] if isinstance(paths, str) else list(paths)
    if "-" in names and sys.stdin is None:
        raise ValueError("there is no stdin to read from")
    with working(f"reading {', '.join(map(data_name, names))}", quiet=getattr(arguments, "quiet", False)):
        try:
            if _are_tables(names, arguments):
                table = read_table(names, arguments, dtype=options.get("dtype", "float64"))
                if table.y is None:
                    raise ValueError(f"{data_name(names[0])}: has no labels")
                arguments.feature_names = table.names  # for the model
                return table.X, table.y
            from maxmargin.data.svmlight import load_svmlight

            given: Any = {"zero_based": zero_based(arguments), "n_jobs": arguments.jobs, "labels": "auto"} | options
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # it speaks of Python's parameters
                X, y = load_svmlight(names, **given)[:2]
        except ImportError as error:  # of what unpacks .zst
            raise ValueError(str(error)) from error
    return X, y


def zero_based(arguments: argparse.Namespace) -> bool | Literal["auto"]:
    """What indices count from, as readers take it."""
    return "auto" if arguments.first_index is None else arguments.first_index == 0


def _are_tables(names: list[str], arguments: argparse.Namespace) -> bool:
    from maxmargin.data.table import is_table

    form = getattr(arguments, "format", None)
    return form == "csv" if form is not None else all(map(is_table, names))


def read_table(paths: str | Sequence[str], arguments: argparse.Namespace, **options: Any) -> Table:
    """A dense table."""
    from maxmargin.data.table import load_table

    names = [paths] if isinstance(paths, str) else list(paths)
    if len(names) > 1:
        raise ValueError("tables are read one at a time: join them, or pack them into a store")
    return load_table(names[0], label=getattr(arguments, "label", None), **options)


def data_name(path: str) -> str:
    """What to call a data file."""
    return "<stdin>" if path == "-" else path


def check_roles(data: str, model: str) -> None:
    """Refuse a model in the place of the data before anything is made of it."""
    if data == "-" or not os.path.isfile(data) or not is_model(data):
        return
    advice = "name the data first, and then the model"
    if model != "-" and os.path.isfile(model) and not is_model(model):
        advice = f"the other way round? DATA comes first: {model} {data}"
    raise ValueError(f"{data}: is a model, where data were expected; {advice}")


def read_data_for(model: Any, path: str, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Data with as many features as a model has, read as its training data were.

    Features beyond have no weight and are left out, as in LIBLINEAR. Labels are None if there are none.
    """
    if _are_tables([path], arguments):
        return _table_for(model, path, arguments)
    options: dict[str, Any] = {"labels": "number"}
    if hasattr(model, "classes_") and model.classes_.dtype.kind in "UO":
        options["labels"] = "text"
    if arguments.first_index is None and model.first_index is not None:
        options["zero_based"] = model.first_index == 0
    try:
        X, y = read_data(path, arguments, **options)
    except ValueError as error:
        if "feature index 0, but" not in str(error) or "zero_based" not in options:
            raise
        where = str(error).partition(" feature index 0")[0]
        raise ValueError(
            f"{where} feature index 0, but the model was trained on indices that count from 1: give --first-index 0 if "
            "those of these data count from 0"
        ) from None
    n_features = model.n_features_in_
    if X.shape[1] > n_features:
        what = f"{data_name(path)}: the model has {counted(n_features, 'feature')} and the data {X.shape[1]:,}"
        complain(f"{what}; those beyond are ignored", kind="warning: ")
        X = X[:, :n_features]
    elif X.shape[1] < n_features:
        _warn_if_ambiguous(X, path, n_features)
        X.resize((X.shape[0], n_features))  # what is never named is zero
    return X, y


def _warn_if_ambiguous(X: Any, path: str, n_features: int) -> None:
    """Name a text that fits a model, which does not know better, in both ways."""
    from maxmargin.data.indices import index_base

    base = index_base(X)
    if base is not None and not base.is_certain and X.nnz:
        what = f"{data_name(path)}: no index is 0 and none is {n_features}, and the model does not say what indices"
        complain(f"{what} count from; taken as from 1: give --first-index", kind="warning: ")


def _table_for(model: Any, path: str, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A table whose columns are those of a model: by name, if both have names, else in their order."""
    import numpy as np

    wanted = getattr(model, "feature_names_in_", None)
    features = model.n_features_in_ if wanted is None else wanted.tolist()
    X, y, names = read_table(path, arguments, features=features)
    if names is not None and wanted is not None:
        place = {name: j for j, name in enumerate(names)}
        missing = [name for name in wanted.tolist() if name not in place]
        if missing:
            raise ValueError(f"{data_name(path)}: has no column {missing[0]!r}, which the model was trained with")
        X = np.ascontiguousarray(X[:, [place[name] for name in wanted.tolist()]])
    if X.shape[1] != model.n_features_in_:
        have = counted(X.shape[1], "column")
        raise ValueError(f"{data_name(path)}: has {have} of features, and the model {model.n_features_in_:,}")
    if y is not None and hasattr(model, "classes_") and model.classes_.dtype.kind in "UO":
        y = y.astype(str)
    return X, y


# ---------------------------------------------------------------- models


def read_model(path: str) -> Predictor:
    """The model in a file of ours, of LIBLINEAR or of LIBSVM: one that predicts, without scikit-learn."""
    from maxmargin.models.predictor import open_model

    _check_model(path)
    return open_model(path)


def read_estimator(path: str) -> Any:
    """The same as an estimator."""
    from maxmargin.models.estimator import load

    _check_model(path)
    return load(path)


def _check_model(path: str) -> None:
    if not is_model(path):
        raise ValueError(f"{path}: not a model file; train one with: maxmargin train DATA {path}")


def is_model(path: str) -> bool:
    """Whether a file looks like a model of ours, of LIBLINEAR or LIBSVM, sound or not, rather than like data."""
    from maxmargin.models import is_liblinear, is_libsvm
    from maxmargin.models._header import MAX_HEADER

    if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):
        return False
    with open(path, "rb") as file:
        start = file.read(9)
    # Ours begins with the length of the header that follows. As such a number, 8 bytes of text are far too large.
    is_ours = len(start) == 9 and int.from_bytes(start[:8], "little") <= MAX_HEADER and start[8:] == b"{"
    return is_ours or is_liblinear(path) or is_libsvm(path)


LIBLINEAR_TYPES = {
    ("squared_hinge", "l2"): "L2R_L2LOSS_SVC_DUAL",
    ("hinge", "l2"): "L2R_L1LOSS_SVC_DUAL",
    ("logistic", "l2"): "L2R_LR",
    ("squared_hinge", "l1"): "L1R_L2LOSS_SVC",
    ("logistic", "l1"): "L1R_LR",
    ("epsilon_insensitive", "l2"): "L2R_L1LOSS_SVR_DUAL",
    ("squared_epsilon_insensitive", "l2"): "L2R_L2LOSS_SVR",
}


def write_liblinear_model(model: Any, path: str) -> None:
    """Write a classifier or a regressor for LIBLINEAR's own ``predict``."""
    import numpy as np

    from maxmargin.models import write_liblinear

    params = model.tree["params"] if hasattr(model, "tree") else model.get_params(deep=False)
    kind = getattr(model, "kind", type(model).__name__)
    if not hasattr(model, "coef_"):
        raise ValueError(f"LIBLINEAR's models are linear; a {kind} is not")
    loss, penalty = loss_name(params.get("loss", "hinge")), params.get("penalty", "l2")
    if (loss, penalty) not in LIBLINEAR_TYPES:
        raise ValueError(f"LIBLINEAR has no loss {loss!r}; it has {', '.join(sorted({k[0] for k in LIBLINEAR_TYPES}))}")
    is_joint = params.get("multi_class", "ovr") == "crammer_singer"
    with_intercept = params.get("fit_intercept", bool(np.any(model.intercept_)))
    write_liblinear(
        path,
        np.atleast_2d(model.coef_),
        model.intercept_,
        getattr(model, "classes_", None),
        solver_type="MCSVM_CS" if is_joint else LIBLINEAR_TYPES[loss, penalty],
        bias=params.get("intercept_scaling", 1.0) if with_intercept else -1.0,
    )


def write_trained(model: Any, path: str, arguments: argparse.Namespace) -> None:
    """Write what was trained, in the format that was asked for."""
    if arguments.liblinear:
        write_liblinear_model(model, path)
    elif getattr(arguments, "libsvm", False):
        model.export_libsvm(path)
    else:
        model.save(path)


def loss_name(loss: Any) -> str:
    """The name of a loss that may be an object."""
    if isinstance(loss, str):
        return loss
    from maxmargin import losses

    return losses.name_of(losses.get(loss))


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


def check_plot(path: str) -> None:
    """Find out before the work that its picture could not be drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("--plot takes matplotlib: pip install maxmargin[plot]") from error
    kinds = Figure().canvas.get_supported_filetypes()
    if path.rpartition(".")[2].lower() not in kinds:
        raise UsageError(f"--plot {path}: the name must end in one of .{', .'.join(sorted(kinds))}")
    check_writable(path)
