"""ONNX models of our estimators, and of pipelines that end in one."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from maxmargin._files import atomic_write
from maxmargin.export.machine import machine_of
from maxmargin.export.onnx_graph import model_of, onnx_module
from maxmargin.export.pipelines import pipeline_to_onnx


def to_onnx(estimator: Any, path: str | PathLike[str] | None = None, *, dtype: Any = "float32") -> Any:
    """A fitted model, or a pipeline that ends in one, as an ONNX model.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Pipelines take skl2onnx, and their inputs are float32.
    path : path, optional
        File to write it to.
    dtype : {"float32", "float64"}, default="float32"
        Numbers of the input and the outputs; linear models compute with them, kernel models in double precision.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> from maxmargin import LinearSVC
    >>> clf = LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> [output.name for output in to_onnx(clf).graph.output]
    ['label', 'decision']
    """
    number = np.dtype(dtype)
    if number not in (np.float32, np.float64):
        raise ValueError(f'dtype must be "float32" or "float64", got {dtype!r}')
    onnx_module()
    is_ours = hasattr(estimator, "to_onnx")
    model = model_of(machine_of(estimator), number) if is_ours else pipeline_to_onnx(estimator)
    if path is not None:
        with atomic_write(path) as file:
            file.write(model.SerializeToString())
    return model
