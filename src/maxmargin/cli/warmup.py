"""Compile beforehand what the first trainings would have to wait for; once for each machine is enough."""

from __future__ import annotations

import argparse

from maxmargin.cli._console import DONE, announced_compilation, print_json
from maxmargin.cli._options import add_json_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "estimators", nargs="*", metavar="NAME", help="LinearSVC, LinearSVR (the default), BudgetSVC, ..."
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile."""
    from maxmargin import warmup

    names = arguments.estimators or ["LinearSVC", "LinearSVR"]
    with announced_compilation(arguments.quiet):
        seconds = warmup(names)
    if arguments.json:
        print_json({"estimators": names, "seconds": seconds})
    elif not arguments.quiet:
        print(f"{', '.join(names)}: ready, {seconds:.1f} s")
    return DONE
