"""Fitted models as C source: one file of C99 without dependencies, to be compiled into anything.

    void   model_decision(const double *x, double *out)       all outputs
    int    model_class(const double *x)                       classifiers: place of the class in model_labels; outputs
                                                              one against one are of pairs (0, 1), (0, 2), ...
    void   model_probabilities(const double *x, double *out)  classifiers with the logistic loss
    double model_value(const double *x)                       regressors

Linear models also take sparse rows: model_decision_sparse(n, index, value, out), features counted from 0. Compiled with
-DMODEL_MAIN the file is a program that reads rows of numbers from stdin and prints labels (or values) and outputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from maxmargin._files import atomic_write
from maxmargin.data.rows import Array
from maxmargin.export.machine import Machine, machine_of

_WIDTH = 100
# In the texts below @ stands for the name and an underscore, @@ for the same in capitals.


def to_c(estimator: Any, path: str | PathLike[str] | None = None, *, name: str = "model") -> str:
    """A fitted model as C source.

    Parameters
    ----------
    estimator : estimator
        Fitted, of this package.
    path : path, optional
        File to write it to.
    name : str, default="model"
        What all names of the file begin with.

    Returns
    -------
    str

    Examples
    --------
    >>> from maxmargin import LinearSVC
    >>> source = to_c(LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]), name="tiny")
    >>> "int tiny_class(const double *x)" in source
    True
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be one that C allows, letters, digits and underscores, got {name!r}")
    machine = machine_of(estimator)
    finite = (machine.coefficients, machine.intercepts, 0.0 if machine.vectors is None else machine.vectors)
    if not all(np.isfinite(values).all() for values in finite):
        raise ValueError("the coefficients of the model are not finite")
    source = "\n".join(_lines(machine)).replace("@@", f"{name.upper()}_").replace("@", f"{name}_") + "\n"
    if path is not None:
        with atomic_write(path) as file:
            file.write(source.encode())
    return source


def _lines(machine: Machine) -> Iterator[str]:
    from maxmargin import __version__

    n_outputs, n_terms = machine.coefficients.shape
    yield f"/* A {machine.kind} of maxmargin {__version__}: {_outline(machine)}."
    yield "   Generated; C99, no dependencies but the mathematical library (-lm)."
    yield "   A program that reads rows of numbers:  cc -O2 -D@@MAIN THIS.c -lm */"
    yield "#include <math.h>"
    yield f"#define @@FEATURES {machine.n_features}"
    yield f"#define @@OUTPUTS {n_outputs}"
    yield f"#define @@TERMS {n_terms}"
    yield from _labels(machine.classes)
    yield from _array("static const double @coefficients[@@OUTPUTS * @@TERMS]", machine.coefficients)
    yield from _array("static const double @intercepts[@@OUTPUTS]", machine.intercepts)
    if machine.vectors is None:
        yield from _LINEAR.splitlines()
    else:
        number = "float" if machine.vectors.dtype == np.float32 else "double"
        yield from _array(f"static const {number} @vectors[@@TERMS * @@FEATURES]", machine.vectors)
        yield from (_KERNEL % _kernel(machine.kernel)).splitlines()
    one_vs_one = _PAIRS % {"score": _MARGINS if machine.breaks_ties else ""}
    pick = _VALUE if machine.classes is None else one_vs_one if machine.is_one_vs_one else _CLASS
    yield from pick.splitlines()
    if machine.has_probabilities:
        yield from _PROBABILITIES.splitlines()
    yield from (_MAIN % (_PRINT_VALUE if machine.classes is None else _PRINT_CLASS)).splitlines()


def _outline(machine: Machine) -> str:
    what = f"{machine.n_features} features"
    if machine.vectors is not None:
        what += f", {len(machine.vectors)} support vectors, {machine.kernel}"
    return what + ("" if machine.classes is None else f", {len(machine.classes)} classes")


def _labels(classes: Array | None) -> Iterator[str]:
    if classes is None:
        return
    yield f"#define @@CLASSES {len(classes)}"
    if classes.dtype.kind in "biuf":
        is_whole = classes.dtype.kind != "f" or bool(np.all(classes == np.round(classes)))
        kind, pattern = ("long long", "%lld") if is_whole else ("double", "%.17g")
        texts = [f"{int(label)}LL" if is_whole else repr(float(label)) for label in classes.tolist()]
    else:
        kind, pattern = "char *const", "%s"
        texts = [_quoted(str(label)) for label in classes]
    yield f'#define @@LABEL_FORMAT "{pattern}"'
    yield from _filled(f"const {kind} @labels[@@CLASSES]", texts)


def _quoted(text: str) -> str:
    """A string of C; what is not plain ASCII, or has a meaning in C or here, as octal bytes."""
    plain = set(range(32, 127)) - set(b'"\\?@')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _array(declaration: str, values: Array) -> Iterator[str]:
    if values.dtype == np.float32:
        texts = [f"{np.format_float_scientific(value, unique=True)}f" for value in values.ravel()]
    else:
        texts = [repr(value) for value in values.ravel().tolist()]
    return _filled(declaration, texts)


def _filled(declaration: str, texts: list[str]) -> Iterator[str]:
    """The declaration of an array, in lines of a readable length."""
    yield f"{declaration} = {{"
    line = "   "
    for text in texts:
        if len(line) + len(text) > _WIDTH:
            yield line
            line = "   "
        line += f" {text},"
    yield line
    yield "};"


def _kernel(function: Any) -> dict[str, str]:
    """What a term adds for each feature, and what the kernel makes of the sum."""
    from maxmargin import kernels

    product = "sum += x[f] * z;"
    if isinstance(function, kernels.RBF):
        difference = "const double d = x[f] - z;\n            sum += d * d;"
        return {"add": difference, "value": f"exp(-{float(function.gamma)!r} * sum)"}
    if isinstance(function, kernels.Linear):
        return {"add": product, "value": "sum"}
    inside = f"{float(function.gamma)!r} * sum + {float(function.coef0)!r}"
    if isinstance(function, kernels.Sigmoid):
        return {"add": product, "value": f"tanh({inside})"}
    if isinstance(function, kernels.Polynomial):
        return {"add": product, "value": f"pow({inside}, {function.degree})"}
    raise ValueError(f"a model with the kernel {function!r} cannot be exported")


_LINEAR = """
void @decision(const double *x, double *out) {
    for (int c = 0; c < @@OUTPUTS; c++) {
        double sum = 0.0;
        for (int f = 0; f < @@FEATURES; f++) sum += @coefficients[c * @@TERMS + f] * x[f];
        out[c] = sum + @intercepts[c];
    }
}

void @decision_sparse(int n, const int *index, const double *value, double *out) {
    for (int c = 0; c < @@OUTPUTS; c++) {
        double sum = 0.0;
        for (int k = 0; k < n; k++) sum += @coefficients[c * @@TERMS + index[k]] * value[k];
        out[c] = sum + @intercepts[c];
    }
}"""

_KERNEL = """
void @decision(const double *x, double *out) {
    for (int c = 0; c < @@OUTPUTS; c++) out[c] = @intercepts[c];
    for (int j = 0; j < @@TERMS; j++) {
        double sum = 0.0;
        for (int f = 0; f < @@FEATURES; f++) {
            const double z = @vectors[j * @@FEATURES + f];
            %(add)s
        }
        const double k = %(value)s;
        for (int c = 0; c < @@OUTPUTS; c++) out[c] += @coefficients[c * @@TERMS + j] * k;
    }
}"""

_CLASS = """
int @class(const double *x) {
    double out[@@OUTPUTS];
    int best = 0;
    @decision(x, out);
    if (@@OUTPUTS == 1) return out[0] > 0.0;
    for (int c = 1; c < @@OUTPUTS; c++) if (out[c] > out[best]) best = c;
    return best;
}"""

_PAIRS = """
int @class(const double *x) {
    double out[@@OUTPUTS], votes[@@CLASSES] = {0.0}, margins[@@CLASSES] = {0.0};
    int best = 0, k = 0;
    @decision(x, out);
    for (int i = 0; i < @@CLASSES; i++) {
        for (int j = i + 1; j < @@CLASSES; j++, k++) {
            votes[out[k] > 0.0 ? i : j] += 1.0;
            margins[i] += out[k];
            margins[j] -= out[k];
        }
    }
    for (int c = 0; c < @@CLASSES; c++) {
        (void)margins[c];%(score)s
        if (votes[c] > votes[best]) best = c;
    }
    return best;
}"""
_MARGINS = """
        votes[c] += margins[c] / (3.0 * (fabs(margins[c]) + 1.0));"""

_VALUE = """
double @value(const double *x) {
    double out[@@OUTPUTS];
    @decision(x, out);
    return out[0];
}"""

_PROBABILITIES = """
void @probabilities(const double *x, double *out) {
    double f[@@OUTPUTS], sum = 0.0;
    @decision(x, f);
    for (int c = 0; c < @@CLASSES; c++) {
        const double margin = @@OUTPUTS > 1 ? f[@@OUTPUTS > 1 ? c : 0] : c == 1 ? f[0] : -f[0];
        out[c] = 1.0 / (1.0 + exp(-margin));
        sum += out[c];
    }
    for (int c = 0; c < @@CLASSES; c++) out[c] = sum > 0.0 ? out[c] / sum : 1.0 / @@CLASSES;
}"""

_MAIN = """
#ifdef @@MAIN
#include <stdio.h>
int main(void) {
    static double x[@@FEATURES], out[@@OUTPUTS];
    for (;;) {
        for (int f = 0; f < @@FEATURES; f++) if (scanf("%%lf", &x[f]) != 1) return 0;
        @decision(x, out);
%s
        for (int c = 0; c < @@OUTPUTS; c++) printf(" %%.17g", out[c]);
        putchar('\\n');
    }
}
#endif"""
_PRINT_CLASS = "        printf(@@LABEL_FORMAT, @labels[@class(x)]);"
_PRINT_VALUE = '        printf("%.17g", @value(x));'
