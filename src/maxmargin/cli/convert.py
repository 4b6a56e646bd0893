"""Write a model of maxmargin in LIBLINEAR's or LIBSVM's format, or one of theirs in that of maxmargin.

Linear models become LIBLINEAR's, kernel models LIBSVM's, for their own predict and whatever else reads their files.
Every command reads their models as they are, too.
"""

from __future__ import annotations

import argparse

from maxmargin.cli._console import DONE
from maxmargin.cli._files import check_writable, read_model, write_liblinear_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("model", metavar="MODEL", help="what train has written, or a model of LIBLINEAR or LIBSVM")
    parser.add_argument("out", metavar="OUT", help="the file to write")


def run(arguments: argparse.Namespace) -> int:
    """Read one, write the other."""
    from maxmargin.models import is_liblinear, is_libsvm, write_libsvm
    from maxmargin.models.contents import write_content

    check_writable(arguments.out, over_models_only=True)
    model = read_model(arguments.model)
    if is_liblinear(arguments.model) or is_libsvm(arguments.model):
        write_content(arguments.out, model.kind, model.tree)
    elif hasattr(model, "support_vectors_"):
        write_libsvm(arguments.out, model)
    else:
        write_liblinear_model(model, arguments.out)
    return DONE
