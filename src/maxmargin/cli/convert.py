"""Write a model in LIBLINEAR's or LIBSVM's format, for their own predict and whatever else reads their files.

Linear models become LIBLINEAR's, kernel models LIBSVM's. There is no need for the way back from LIBLINEAR: every
command reads its models as they are.
"""

from __future__ import annotations

import argparse
import os

from maxmargin.cli._console import DONE
from maxmargin.cli._files import check_writable, read_model, write_liblinear_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("model", metavar="MODEL", help="what train has written")
    parser.add_argument("out", metavar="OUT", help="the file to write")


def run(arguments: argparse.Namespace) -> int:
    """Read one, write the other."""
    from maxmargin.models import is_liblinear, is_libsvm, write_libsvm

    is_old_libsvm = os.path.isfile(arguments.out) and is_libsvm(arguments.out)
    check_writable(arguments.out, over_models_only=not is_old_libsvm)
    model = read_model(arguments.model)
    if is_liblinear(arguments.model):
        raise ValueError(f"{arguments.model}: is LIBLINEAR's already; every command reads it as it is")
    if hasattr(model, "support_vectors_"):
        write_libsvm(arguments.out, model)
    else:
        write_liblinear_model(model, arguments.out)
    return DONE
