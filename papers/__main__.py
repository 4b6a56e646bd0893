"""``python -m papers``: every table and figure of the papers, and a report.

    python -m papers [ocas|dual_cd|budget|survey ...] [--quick] [--publish] [--out FOLDER]

Results are kept as JSON in the folder (``papers/results`` by default), so a run that was stopped goes on where it was
and only what changed is measured again. Beside them: a Markdown file for each paper, ``claims.md`` and
``verdicts.json`` with all verdicts, and ``report.html``. The site's page is made of ``docs/papers_data/verdicts.json``.
A full report shows the results of a quick run where the full one is not complete, and says so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402

from papers.frame.experiment import (  # noqa: E402
    SIZES,
    UNKNOWN,
    Cells,
    Choice,
    Paper,
    Results,
    best_known,
    finite,
    run,
)
from papers.frame.report import claims, markdown, page, record  # noqa: E402

PAPERS = ("ocas", "dual_cd", "budget", "survey")
_MINUTES = {"tiny": 3.0, "quick": 9.0, "full": 90.0}


def paper(name: str) -> Paper:
    """The paper of this name."""
    return importlib.import_module(f"papers.{name}").PAPER


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing, then write the report."""
    parser = argparse.ArgumentParser(prog="python -m papers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="few rows: ten minutes instead of an hour and a half")
    parser.add_argument("--size", choices=SIZES, help="tiny: to see that it works; quick; full (default)")
    parser.add_argument("--minutes", type=float, help="start no measurement later than this")
    parser.add_argument("--untimed", action="store_true", help="measure only what is not seconds: beside other work")
    parser.add_argument("--again", action="store_true", help="once more what was timed while others were at work")
    parser.add_argument("--report", action="store_true", help="measure nothing: write the report of what is known")
    parser.add_argument(
        "--publish", action="store_true", help="renew docs/papers_data and the tables in the papers' notes"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "papers" / "results", help="folder for results and report")
    options = parser.parse_args(arguments)
    unknown = set(options.papers) - set(PAPERS)
    if unknown:
        parser.error(f"unknown paper {', '.join(sorted(unknown))}; choose from {', '.join(PAPERS)}")
    size = options.size or ("quick" if options.quick else "full")
    minutes = _MINUTES[size] if options.minutes is None else options.minutes
    names, begin = options.papers or list(PAPERS), time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    results = {name: Results(options.out / f"{name}.json") for name in PAPERS}
    chosen = [name for name in PAPERS if name in names and not options.report]
    choice = Choice(options.untimed, options.again)
    for place, name in enumerate(chosen, start=1):  # each has its share of the time, so that none of them is left out
        run(paper(name), results[name], size, begin + 60.0 * minutes * place / len(chosen), choice)
    for name in chosen:  # what did not fit into its share
        run(paper(name), results[name], size, begin + 60.0 * minutes, Choice(options.untimed))
    found: list[tuple[Paper, dict[str, Cells]]] = []
    for name, known in results.items():
        if known.known:
            one = paper(name)
            found.append((one, {e.name: best_known(e, known, size) for e in one.experiments}))
            (options.out / f"{name}.md").write_text(markdown(*found[-1], size))
    (options.out / "claims.md").write_text(claims(found, size))
    verdicts = json.dumps(finite(record(found, size, machine.describe())), indent=1, ensure_ascii=False)
    (options.out / "verdicts.json").write_text(verdicts + "\n")
    report = options.out / "report.html"
    report.write_text(page(found, size, machine.describe()))
    if options.publish:
        publish(options.out / "verdicts.json", ROOT)
    print(report)
    return 0


def publish(verdicts: Path, root: Path) -> None:
    """Take the verdicts into the site's data, and the tables recorded with them into the papers' notes.

    What this run has not measured stays as it was published.
    """
    known = root / "docs" / "papers_data" / "verdicts.json"
    old, new = (json.loads(path.read_text()) for path in (known, verdicts))
    before = {paper["key"]: paper for paper in old["papers"]}
    for paper in new["papers"]:
        was = before.get(paper["key"], {})
        claims_before = {verdict["claim"]: verdict for verdict in was.get("verdicts", ())}
        paper["verdicts"] = [
            claims_before.get(verdict["claim"], verdict) if verdict["verdict"] == UNKNOWN else verdict
            for verdict in paper["verdicts"]
        ]
        notes = root / "papers" / paper["key"] / "README.md"
        for title, table in paper["tables"].items():
            text, shown = notes.read_text(), rows_of(was.get("tables", {}).get(title, ""))
            if shown:
                notes.write_text(text.replace(shown, rows_of(table)))
        paper |= {part: was.get(part, {}) | paper.get(part, {}) for part in ("runs", "tables")}
    measured = {paper["key"]: paper for paper in new["papers"]}
    new["papers"] = list((before | measured).values())
    known.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n")


def rows_of(table: str) -> str:
    """The lines of a Markdown table without its title and note."""
    return "\n".join(line for line in table.splitlines() if line.startswith("|"))


if __name__ == "__main__":
    raise SystemExit(main())
