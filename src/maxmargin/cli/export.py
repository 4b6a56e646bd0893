"""Write a model for other runtimes: ONNX (OUT ends in .onnx) or C source (.c).

An ONNX model runs in ONNX Runtime and its like, in any language (takes: pip install maxmargin[onnx]). The C file needs
nothing else; compiled with -DMODEL_MAIN it is a program that reads rows of numbers and prints labels and decisions.
"""

from __future__ import annotations

import argparse
import os

from maxmargin.cli._console import DONE, UsageError
from maxmargin.cli._files import check_writable, read_estimator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("model", metavar="MODEL", help="what train has written, or a model of LIBLINEAR or LIBSVM")
    parser.add_argument("out", metavar="OUT", help="the file to write: its name ends in .onnx or .c")
    parser.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32", help="of .onnx: numbers to compute with (float32)"
    )
    parser.add_argument("--name", default="model", metavar="NAME", help="of .c: what its names begin with (model)")


def run(arguments: argparse.Namespace) -> int:
    """Read the model, write the other."""
    suffix = os.path.splitext(arguments.out)[1].lower()
    if suffix not in (".onnx", ".c"):
        raise UsageError(f"{arguments.out}: the name must end in .onnx or .c")
    check_writable(arguments.out)
    model = read_estimator(arguments.model)
    if suffix == ".c":
        model.to_c(arguments.out, name=arguments.name)
        return DONE
    try:
        model.to_onnx(arguments.out, dtype=arguments.dtype)
    except ImportError as error:  # of what makes the graph
        raise ValueError(str(error)) from error
    return DONE
