"""Parsing the text of LIBSVM's model files, described in `libsvm.py`.

No number in a header makes anything be allocated: it is compared with what is really there. Support vectors are
sparse in the text and dense in memory, so that a file of few numbers could ask for a matrix of many: such are refused.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin.models._liblinear_text import INT_MAX, Refused

_CLASSIFIERS = ("c_svc", "nu_svc")
_OTHERS = ("epsilon_svr", "nu_svr", "one_class")
_KERNELS = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid"}
_KEYWORDS = (
    "svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label", "nr_sv", "probA",
    "probB", "prob_density_marks",
)  # fmt: skip
_FREE, _SPARSEST = 1 << 22, 256  # numbers of a dense matrix that are always granted; and so many for each byte of text


class LibsvmModel(NamedTuple):
    """A kernel machine in LIBSVM's convention.

    Attributes
    ----------
    svm_type : str
    kernel : Kernel
    classes : ndarray of int64, or None
        In the file's order; None for regression and one-class models.
    n_support : ndarray of int64, or None
        Support vectors of each class, which come in this order.
    rho : ndarray
        What is subtracted from each decision: one for each pair of classes.
    coefficients : ndarray of shape (n_classes - 1, n_support_vectors)
    vectors : ndarray of shape (n_support_vectors, n_features)
    """

    svm_type: str
    kernel: Any
    classes: np.ndarray | None
    n_support: np.ndarray | None
    rho: np.ndarray
    coefficients: np.ndarray
    vectors: np.ndarray


def parse(text: bytes) -> LibsvmModel:
    """Parse and check the text of a model file."""
    fields, lines, first = _split(text)
    svm_type = _word(fields, "svm_type", _CLASSIFIERS + _OTHERS)
    kernel = _kernel(fields)
    classes = n_support = None
    n_classes = 2
    if svm_type in _CLASSIFIERS:
        labels = _numbers(fields, "label", integer=True)
        n_classes = len(labels)
        if n_classes < 2 or len(set(labels)) != n_classes:
            raise Refused(fields["label"][0], "a classifier has two labels or more, all different")
        counts = _numbers(fields, "nr_sv", integer=True)
        if len(counts) != n_classes or min(counts) < 0 or sum(counts) != len(lines):
            line = fields["nr_sv"][0]
            raise Refused(line, f"nr_sv {counts} does not divide {len(lines)} support vectors among {n_classes}")
        classes, n_support = np.array(labels), np.array(counts)
    _expect(fields, "nr_class", n_classes)
    _expect(fields, "total_sv", len(lines))
    rho = _numbers(fields, "rho")
    if len(rho) != n_classes * (n_classes - 1) // 2:
        raise Refused(fields["rho"][0], f"{len(rho)} numbers rho of {n_classes} classes")
    coefficients, vectors = _support(lines, first, n_classes - 1, len(text))
    return LibsvmModel(svm_type, kernel, classes, n_support, np.array(rho), coefficients, vectors)


def _split(text: bytes) -> tuple[dict[str, tuple[int, list[bytes]]], list[bytes], int]:
    """The fields of the header, each with its line; the lines of the support vectors, and the number of their first."""
    fields: dict[str, tuple[int, list[bytes]]] = {}
    lines = text.split(b"\n")
    for k, line in enumerate(lines):
        words = line.split()
        if words == [b"SV"]:
            rows = lines[k + 1 :]
            while rows and not rows[-1].strip():
                rows.pop()
            return fields, rows, k + 2
        name = words[0].decode("ascii", "replace") if words else ""
        if name not in _KEYWORDS:
            raise Refused(k + 1, f"{name[:40]!r} where a keyword of LIBSVM's model files was expected")
        if name in fields:
            raise Refused(k + 1, f"{name} for the second time")
        fields[name] = k + 1, words[1:]
    raise Refused(len(lines), "the file ends before SV, the support vectors")


def _word(fields: dict[str, tuple[int, list[bytes]]], name: str, known: tuple[str, ...]) -> str:
    line, words = _field(fields, name)
    word = b" ".join(words).decode("ascii", "replace")
    if word not in known:
        raise Refused(line, f"{name} {word[:40]!r}; known are {', '.join(known)}")
    return word


def _field(fields: dict[str, tuple[int, list[bytes]]], name: str) -> tuple[int, list[bytes]]:
    if name not in fields:
        raise Refused(1, f"there is no {name}")
    return fields[name]


def _numbers(fields: dict[str, tuple[int, list[bytes]]], name: str, *, integer: bool = False) -> list[Any]:
    line, words = _field(fields, name)
    numbers = [_number(word, line, name) for word in words]
    if integer and not all(number.is_integer() and abs(number) <= INT_MAX for number in numbers):
        raise Refused(line, f"{name} has something other than integers of 32 bits")
    return [int(number) for number in numbers] if integer else numbers


def _number(word: bytes, line: int, name: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Refused(line, f"{name}: {word[:40].decode('ascii', 'replace')!r} is not a finite number")
    return number


def _expect(fields: dict[str, tuple[int, list[bytes]]], name: str, count: int) -> None:
    if _numbers(fields, name, integer=True) != [count]:
        raise Refused(fields[name][0], f"{name} is not {count}, which the rest of the file says")


def _kernel(fields: dict[str, tuple[int, list[bytes]]]) -> Any:
    from maxmargin import kernels

    name = _word(fields, "kernel_type", tuple(_KERNELS))
    given: dict[str, Any] = {}
    for parameter in ("gamma", "degree", "coef0"):
        if parameter in fields:
            numbers = _numbers(fields, parameter, integer=parameter == "degree")
            if len(numbers) != 1:
                raise Refused(fields[parameter][0], f"{parameter} is one number")
            given[parameter] = numbers[0]
    try:
        return kernels.get(_KERNELS[name], **given)
    except ValueError as error:
        raise Refused(fields["kernel_type"][0], str(error)) from None


def _support(lines: list[bytes], first: int, n_coefficients: int, n_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and support vectors."""
    coefficients = np.empty((n_coefficients, len(lines)))
    rows: list[tuple[list[int], list[float]]] = []
    for k, line in enumerate(lines):
        words = line.split()
        if len(words) < n_coefficients:
            raise Refused(first + k, f"a support vector needs {n_coefficients} coefficients")
        for c in range(n_coefficients):
            coefficients[c, k] = _number(words[c], first + k, "coefficient")
        rows.append(_features(words[n_coefficients:], first + k))
    if not rows:
        raise Refused(first, "there is no support vector")
    n_features = max(1, *(indices[-1] for indices, _ in rows if indices), 1)
    if len(rows) * n_features > max(_FREE, _SPARSEST * n_bytes):
        raise Refused(first, f"{len(rows)} support vectors of {n_features} features are too sparse to be held densely")
    vectors = np.zeros((len(rows), n_features))
    for k, (indices, values) in enumerate(rows):
        vectors[k, np.array(indices, dtype=np.int64) - 1] = values
    return coefficients, vectors


def _features(words: list[bytes], line: int) -> tuple[list[int], list[float]]:
    indices: list[int] = []
    values = []
    for word in words:
        index, colon, value = word.partition(b":")
        if not (colon and index.isdigit() and 1 <= len(index) <= 10):
            raise Refused(line, f"{word[:40].decode('ascii', 'replace')!r} is not index:value, counted from 1")
        indices.append(int(index))
        values.append(_number(value, line, "value"))
        if indices[-1] < 1 or indices[-1] > INT_MAX or (len(indices) > 1 and indices[-1] <= indices[-2]):
            raise Refused(line, f"index {int(index)}: indices begin at 1 and ascend")
    return indices, values
