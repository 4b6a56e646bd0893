"""Write a model of maxmargin in LIBLINEAR's format, for LIBLINEAR's predict and whatever else reads its files.

There is no need for the way back: every command reads LIBLINEAR's models as they are.
"""

from __future__ import annotations

import argparse

from maxmargin.cli._console import DONE
from maxmargin.cli._files import check_writable, read_model, write_liblinear_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("model", metavar="MODEL", help="what train has written")
    parser.add_argument("out", metavar="OUT", help="the file to write")


def run(arguments: argparse.Namespace) -> int:
    """Read one, write the other."""
    from maxmargin.models import is_liblinear

    check_writable(arguments.out, over_models_only=True)
    model = read_model(arguments.model)
    if is_liblinear(arguments.model):
        raise ValueError(f"{arguments.model}: is LIBLINEAR's already; every command reads it as it is")
    write_liblinear_model(model, arguments.out)
    return DONE
