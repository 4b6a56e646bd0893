"""List the solvers with the losses they take, and the losses that have no solver yet."""

from __future__ import annotations

import argparse

from maxmargin.cli._console import DONE, print_json
from maxmargin.cli._options import add_json_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask each solver."""
    from maxmargin import losses, penalties, solvers

    found = [
        {
            "name": name,
            "about": (solvers.get(name).__doc__ or "").strip().partition("\n")[0],
            "losses": [losses.name_of_type(tag) for tag in solvers.get(name).losses],
            "penalties": [penalties.name_of(tag()) for tag in solvers.get(name).penalties],
        }
        for name in solvers.names()
    ]
    taken = {loss for solver in found for loss in solver["losses"]}
    orphans = [name for name in losses.names() if name not in taken]
    if arguments.json:
        print_json({"solvers": found, "losses_without_solver": orphans})
        return DONE
    for solver in found:
        others = "" if solver["penalties"] == ["l2"] else f"; penalties: {', '.join(solver['penalties'])}"
        print(f"{solver['name']}\n  {solver['about']}\n  losses: {', '.join(solver['losses'])}{others}\n")
    print("auto, the default, chooses among those that take the loss, and changes to another if one stalls.")
    if orphans:
        print(f"no solver yet: {', '.join(orphans)}")
    return DONE
