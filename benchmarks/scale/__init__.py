"""``python -m benchmarks scale``: the cost model of clusters, fits on Dask, and stores on disk beside memory.

Parts are measured one by one, those that are named. Data are generated, into a temporary folder, which should be on a
real disk (``TMPDIR``): some gigabytes of it. With ``--json`` the figures of a part take the place of its former ones in
that file, and the tables show all that the file has.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from maxmargin.parallel import effective_n_jobs

from .. import machine
from . import cluster, disk, model


class Sizes(NamedTuple):
    """How much data."""

    text: int  # rows of 50,000 features, 75 words each
    dense: int  # rows of 54 features
    cluster: int  # rows of 54 features for fits on Dask
    budget: int  # rows of 54 features, ten times the memory they are trained with
    packed: int  # rows of text that are packed
    large: int  # rows of 54 features that are trained with 4 GB
    repeat: int


_QUICK = Sizes(200_000, 1_000_000, 4_000_000, 2_000_000, 200_000, 5_000_000, 2)
_FULL = Sizes(2_000_000, 5_000_000, 8_000_000, 20_000_000, 500_000, 50_000_000, 3)
_PARTS = {
    "model": (model.measure_model, model.lines_of),
    "cluster": (cluster.measure_cluster, cluster.lines_of),
    "peers": (cluster.measure_peers, cluster.lines_of_peers),
    **disk.PARTS,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("parts", nargs="*", default=["model"], metavar="PART", help=f"{', '.join(_PARTS)} (model)")
    parser.add_argument("--full", action="store_true", help="more data: up to an hour and 40 GB for some of the parts")
    parser.add_argument("--json", type=Path, help="file for the figures")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    unknown = set(arguments.parts) - _PARTS.keys()
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(_PARTS)}")
    sizes = _FULL if arguments.full else _QUICK
    report: dict[str, Any] = {}
    if arguments.json and arguments.json.exists():
        report = json.loads(arguments.json.read_text())
    for part in arguments.parts:
        with tempfile.TemporaryDirectory(prefix="maxmargin-scale-") as folder:
            figures = _PARTS[part][0](Path(folder), sizes)
        report |= {"machine": machine.describe(), "threads": effective_n_jobs(-1)}
        report.setdefault("parts", {})[part] = {"date": time.strftime("%Y-%m-%d"), "figures": figures}
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))


def table(report: dict[str, Any], parts: tuple[str, ...] = ()) -> str:
    """The figures of some parts, or of all, in Markdown."""
    found = [_PARTS[p][1](report["parts"][p]["figures"]) for p in parts or report["parts"] if p in report["parts"]]
    return "\n\n".join("\n".join(lines) for lines in found)
