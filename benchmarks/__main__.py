"""``python -m benchmarks``: see README.md."""

from __future__ import annotations

import argparse

from . import (
    choice,
    cutting_planes,
    exact,
    growth,
    kernel,
    linear,
    memory,
    multiclass,
    predict,
    scale,
    small,
    startup,
    stochastic,
    versions,
)


def main() -> None:
    """Choose a benchmark and run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="BENCHMARK")
    for module in (
        linear,
        choice,
        cutting_planes,
        stochastic,
        kernel,
        exact,
        multiclass,
        growth,
        predict,
        memory,
        scale,
        small,
        startup,
        versions,
    ):
        name = module.__name__.rpartition(".")[2]
        summary = (module.__doc__ or name).splitlines()[0].partition(": ")[2]
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
