"""Parsing the text of LIBLINEAR's model files, described in `liblinear.py`.

No number in a header makes anything be allocated: it is compared with what is really there.
"""

from __future__ import annotations

import io
import math
import re
from typing import NamedTuple, NoReturn

import numpy as np

CLASSIFIERS = (
    "L2R_LR",
    "L2R_L2LOSS_SVC_DUAL",
    "L2R_L2LOSS_SVC",
    "L2R_L1LOSS_SVC_DUAL",
    "MCSVM_CS",
    "L1R_L2LOSS_SVC",
    "L1R_LR",
    "L2R_LR_DUAL",
)
REGRESSORS = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")

INT_MAX = 2**31 - 1  # of LIBLINEAR's int

_Fields = dict[str, tuple[int, bytes]]  # keyword -> its line and value
_KEYWORDS = ("solver_type", "nr_class", "label", "nr_feature", "bias")


class Refused(Exception):
    """What is wrong with a file, and in which line."""

    def __init__(self, line: int, message: str):
        super().__init__(message)
        self.line = line


class LiblinearModel(NamedTuple):
    """A linear model in scikit-learn's convention.

    Attributes
    ----------
    solver_type : str
        LIBLINEAR's name of the solver, such as ``"L2R_L2LOSS_SVC_DUAL"``.
    classes : ndarray of int64 of shape (n_classes,), or None
        The labels; None for regression.
    coef : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes and for regression
        The weights. Of two classes, a positive decision means ``classes[1]``.
    intercept : ndarray of shape (n_classes,) or (1,)
        The intercepts; zeros if the model has none.
    bias : float
        The value of the added feature whose weights are ``intercept / bias``, or negative if there is none.
    """

    solver_type: str
    classes: np.ndarray | None
    coef: np.ndarray
    intercept: np.ndarray
    bias: float


def parse(text: bytes) -> LiblinearModel:
    """Parse and check the text of a model file; the classes stay in its order, but that two of them are swapped."""
    fields, w_line, body = _split(text)
    solver_type = _choice(fields, "solver_type", CLASSIFIERS + REGRESSORS)
    n_classes = _integer(fields, "nr_class", 1)
    n_features = _integer(fields, "nr_feature", 1)
    bias = _number(fields, "bias")
    labels = None
    if solver_type in CLASSIFIERS:
        labels = _labels(fields, n_classes)
    elif n_classes != 2 or "label" in fields:
        raise Refused(fields["nr_class"][0], "a regression model has nr_class 2 and no label")

    has_one_column = n_classes == 2 and solver_type != "MCSVM_CS"
    w = _numbers(body, w_line, n_features + (bias >= 0), 1 if has_one_column else n_classes)
    if n_classes == 2:
        w = w[:, :1]  # LIBLINEAR decides by the first column, even where there is a second
        labels = None if labels is None else labels[::-1]
    with np.errstate(over="ignore"):
        intercept = bias * w[n_features] if bias >= 0 else np.zeros(w.shape[1])
    if not np.isfinite(intercept).all():
        raise Refused(fields["bias"][0], "the bias times its weight is not finite")
    return LiblinearModel(solver_type, labels, np.ascontiguousarray(w[:n_features].T), intercept, bias)


def _split(text: bytes) -> tuple[_Fields, int, bytes]:
    """The fields of the header, the line of its last word ``w``, and what follows."""
    fields: _Fields = {}
    start, line = 0, 0
    while True:
        end = text.find(b"\n", start)
        line += 1
        if end < 0:
            raise Refused(line, "the file ends before the line 'w'" if fields else "not a model file of LIBLINEAR")
        keyword, value = [*text[start:end].split(None, 1), b"", b""][:2]
        name, start = keyword.decode("latin-1"), end + 1
        if name == "w" and not value:
            return fields, line, text[start:]
        if name not in _KEYWORDS:
            raise Refused(line, f"{name!r:.30} is none of LIBLINEAR's keywords {', '.join(_KEYWORDS)} and w")
        if name in fields:
            raise Refused(line, f"{name} occurs a second time")
        fields[name] = line, value.strip()


def _field(fields: _Fields, name: str) -> tuple[int, bytes]:
    if name not in fields:
        raise Refused(len(fields) + 1, f"{name} is missing before the line 'w'")
    return fields[name]


def _choice(fields: _Fields, name: str, known: tuple[str, ...]) -> str:
    line, value = _field(fields, name)
    text = value.decode("latin-1")
    if text == "ONECLASS_SVM":
        raise Refused(line, "this is a one-class model, which is neither a classifier nor a regressor")
    if text not in known:
        raise Refused(line, f"{name} is {text!r:.30}; known are {', '.join(known)}")
    return text


def _integer(fields: _Fields, name: str, least: int) -> int:
    line, value = _field(fields, name)
    number = _as_int(value)
    if number is None or not least <= number < INT_MAX:
        raise Refused(line, f"{name} is {_quoted(value)}; it must be an integer from {least} to {INT_MAX - 1}")
    return number


def _number(fields: _Fields, name: str) -> float:
    line, value = _field(fields, name)
    number = _as_float(value)
    if number is None:
        raise Refused(line, f"{name} is {_quoted(value)}; it must be a finite number")
    return number


def _labels(fields: _Fields, n_classes: int) -> np.ndarray:
    line, value = _field(fields, "label")
    tokens = value.split()
    if len(tokens) != n_classes:
        raise Refused(line, f"there are {len(tokens)} labels, but nr_class is {n_classes}")
    labels = [_as_int(token) for token in tokens]
    for label, token in zip(labels, tokens):
        if label is None:
            raise Refused(line, f"the label {_quoted(token)} is not an integer of 32 bits")
    if len(set(labels)) != n_classes:
        raise Refused(line, "a label occurs twice")
    return np.array(labels, dtype=np.int64)


def _numbers(body: bytes, w_line: int, n_rows: int, n_columns: int) -> np.ndarray:
    """The matrix of the weights, its shape checked against the text before anything is made of it."""
    if 2 * n_rows * n_columns - 1 <= len(body) and body.isascii() and not body.isspace():
        try:
            w = np.loadtxt(io.BytesIO(body), dtype=np.float64, comments=None, ndmin=2)
        except ValueError:
            pass
        else:
            if w.shape == (n_rows, n_columns) and np.isfinite(w).all():
                return w
    _explain(body, w_line, n_rows, n_columns)


def _explain(body: bytes, w_line: int, n_rows: int, n_columns: int) -> NoReturn:
    """Find the line where the weights go wrong: slow, but only ever done for a file that is refused."""
    line, rows = w_line, 0
    for line, text in enumerate(body.split(b"\n"), w_line + 1):
        tokens = text.split()
        if not tokens:
            continue
        rows += 1
        if rows > n_rows:
            raise Refused(line, f"there are more than the {n_rows} rows of weights that nr_feature and bias announce")
        for token in tokens:
            if _as_float(token) is None:
                raise Refused(line, f"the weight {_quoted(token)} is not a finite number")
        if len(tokens) != n_columns:
            raise Refused(line, f"there are {len(tokens)} weights in a row, where nr_class asks for {n_columns}")
    if rows < n_rows:
        raise Refused(line, f"the weights end after {rows} rows; nr_feature and bias announce {n_rows}")
    raise Refused(w_line, "the weights that follow are not in lines of text")


def _as_int(token: bytes) -> int | None:
    if not re.fullmatch(rb"[+-]?[0-9]{1,10}", token) or not -INT_MAX <= int(token) <= INT_MAX:
        return None
    return int(token)


def _as_float(token: bytes) -> float | None:
    try:
        number = float(token)
    except ValueError:
        return None
    return number if math.isfinite(number) and b"_" not in token else None


def _quoted(token: bytes) -> str:
    return f"{token.decode('latin-1')!r:.30}"
