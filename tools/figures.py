"""Renew the figures that README and site show from what a benchmark has written.

    python -m benchmarks linear                                  # writes benchmarks/results/linear.json
    python tools/figures.py benchmarks/results/linear.json       # puts it into docs/benchmarks_data, renews README
    python tools/figures.py                                      # README from the file that is in docs/benchmarks_data

The site's tables are made from the file when it is built; tests/test_docs.py fails if README is not what this makes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "benchmarks_data" / "linear.json"
BEGIN, END = "<!-- made by tools/figures.py -->\n", "<!-- end -->\n"
SETS = ("text", "a9a", "w8a", "covtype")  # of those that were measured, what README shows
NAMES = {
    "sklearn-LinearSVC-dual": "LinearSVC",
    "sklearn-LinearSVC-primal": "LinearSVC primal",
    "liblinear-dual": "LIBLINEAR",
    "liblinear-primal": "LIBLINEAR primal",
}


def trimmed(report: dict[str, Any]) -> dict[str, Any]:
    """The report without single runs and without what could not be run, which no table shows."""
    report["skipped"] = sorted(report.get("skipped", ()))  # the reasons name folders of the machine
    report["arguments"].pop("out", None)
    for case in report["cases"]:
        for solver in case["solvers"]:
            solver["runs"] = []
            for reached in solver["targets"].values():
                reached["repeats"] = []
    return report


def table(report: dict[str, Any]) -> str:
    """README's table: "auto" beside the fastest peer, one thread."""
    machine, targets = report["machine"], report["arguments"]["targets"]
    when = f" on {report['date']}" if "date" in report else ""
    lines = [
        f"Measured with maxmargin {machine['versions']['maxmargin']}{when}: {machine['processor']}, "
        f"{machine['cores']} cores.\n",
        "| data | loss | " + " | ".join(f"fastest peer, {t} | `auto`, {t}" for t in map(_power, targets)) + " |",
        "|---|---" + "|---" * (2 * len(targets)) + "|",
    ]
    cases = [c for name in SETS for c in report["cases"] if c["dataset"] == name]
    for case in cases or report["cases"]:
        rows, columns = case["shape"]
        cells = [f"{case['dataset']}, {rows:,} x {columns:,}", case["loss"].replace("_", " ")]
        for target in targets:
            cells += _cells(case["solvers"], f"{target:g}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _power(target: float) -> str:
    """1e-3, not 1e-03."""
    return f"{target:.0e}".replace("e-0", "e-")


def _cells(solvers: list[dict[str, Any]], target: str) -> tuple[str, str]:
    """The fastest peer, and auto with how many times as fast it is."""
    seconds = {
        s["name"].removesuffix("-1t"): s["targets"][target]["median_seconds"]
        for s in solvers
        if s["threads"] == 1 and s["targets"].get(target, {}).get("median_seconds")
    }
    ours = seconds.get("maxmargin-auto")
    peers = {name: spent for name, spent in seconds.items() if not name.startswith("maxmargin")}
    peer = min(peers, key=lambda name: peers[name], default=None)
    shown = "none" if peer is None else f"{peers[peer]:.3g} s {NAMES.get(peer, peer)}"
    if ours is None:
        return shown, "not reached"
    ratio = "" if peer is None else f" (**{peers[peer] / ours:.2g}x**)"
    return shown, f"{ours:.3g} s{ratio}"


def renewed(text: str, report: dict[str, Any]) -> str:
    """README with the table of this report."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"README.md has no place for the table: {BEGIN.strip()} ... {END.strip()}")
    return f"{before}{BEGIN}{table(report)}{END}{after}"


def main(arguments: list[str]) -> int:
    """Take over a new file, if one is given, and renew README."""
    if arguments:
        report = trimmed(json.loads(Path(arguments[0]).read_text()))
        FILE.write_text(json.dumps(report, indent=1) + "\n")
    readme = ROOT / "README.md"
    readme.write_text(renewed(readme.read_text(), json.loads(FILE.read_text())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
