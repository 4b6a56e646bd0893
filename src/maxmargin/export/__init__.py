"""Fitted models for other runtimes: ONNX graphs, and C source that needs nothing else.

`to_onnx` takes our estimators (extra `onnx`) and pipelines that hold one (through skl2onnx). `to_c` writes one C file.
Both give what `decision_function` and `predict` give, ONNX to the precision of the numbers that it computes with.
"""

from maxmargin.export.c_source import to_c
from maxmargin.export.machine import Machine, machine_of
from maxmargin.export.pipelines import register_with_skl2onnx
from maxmargin.export.to_onnx import to_onnx

__all__ = ["Machine", "machine_of", "register_with_skl2onnx", "to_c", "to_onnx"]
