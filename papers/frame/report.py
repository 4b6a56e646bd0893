"""The report: one HTML file without any request, and Markdown beside it."""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from typing import Any

from papers.frame.blocks import Table
from papers.frame.experiment import VERDICTS, Cells, Experiment, Paper, Verdict, is_disturbed

Found = Sequence[tuple[Paper, dict[str, Cells]]]

_CSS = """
:root{color-scheme:light dark;--page:#fff;--ink:#1c1e21;--soft:#5b6470;--line:#d9dee5;--grid:#e6eaef;
--card:#f6f8fa;--link:#0b5cad;--c0:#2f6db5;--c1:#d1622b;--c2:#3c8d4a;--c3:#b8343f;--c4:#7a55b0;--c5:#8a6250;
--c6:#c25aa0;--c7:#6b7280;--good:#1f7a3d;--part:#8a6100;--bad:#b3261e;--none:#5b6470}
@media (prefers-color-scheme:dark){:root{--page:#14171b;--ink:#e4e7eb;--soft:#9aa4b1;--line:#333a44;
--grid:#272d35;--card:#1b2026;--link:#7db4f0;--c0:#6ea8ec;--c1:#f0945c;--c2:#71c481;--c3:#ef7680;--c4:#b396e6;
--c5:#c79b87;--c6:#ec94cb;--c7:#a2abb8;--good:#6cc68a;--part:#e0b252;--bad:#f28b82;--none:#9aa4b1}}*{
box-sizing:border-box}html{scroll-behavior:smooth}body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}main,header,footer{max-width:1080px;margin:0 auto;
padding:0 20px}header{padding-top:36px}h1{font-size:1.9rem;line-height:1.2;margin:0 0 6px}h2{font-size:1.4rem;
margin:52px 0 4px;padding-top:12px;border-top:1px solid var(--line)}h3{font-size:1.05rem;margin:30px 0 6px}h4{
font-size:1.02rem;margin:0 0 8px}p{max-width:72ch}.soft{color:var(--soft)}a{color:var(--link)}code{
font:.88em ui-monospace,Menlo,Consolas,monospace}nav ol{columns:2 300px;padding-left:20px;margin:8px 0}nav li{
break-inside:avoid}nav ul{list-style:none;padding:0;margin:0 0 8px;display:flex;flex-wrap:wrap;gap:0 12px;
font-size:.88rem}figure{margin:30px 0}figcaption{color:var(--soft);font-size:.86rem;margin-top:6px;
max-width:80ch}.run{font-size:.86rem;margin:-22px 0 0}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px 6px 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}td{white-space:nowrap}td.w{white-space:normal;min-width:150px}thead th{
color:var(--soft);font-weight:600;white-space:nowrap}tbody th{font-weight:600;white-space:nowrap}.panels{
display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:14px}.panel{
background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px;max-width:520px;width:100%}
svg{display:block;width:100%;height:auto}.t{font:11px system-ui,sans-serif;fill:var(--soft)}.h{
font:600 13px system-ui,sans-serif;fill:var(--ink)}.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--soft);
fill:none}.level{stroke:var(--soft);stroke-dasharray:2 4;fill:none}.line{fill:none;stroke-width:1.8;
stroke-linejoin:round}SERIES.count{display:flex;flex-wrap:wrap;gap:10px;padding:0;margin:16px 0;list-style:none}
.count li{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 14px;
font-size:.9rem}.count b{font-size:1.3rem;margin-right:6px}.v{font-weight:600;white-space:nowrap}.v0{
color:var(--good)}.v1{color:var(--part)}.v2{color:var(--bad)}.v3{color:var(--none)}.claims td{
white-space:normal}.claims td.v{white-space:nowrap}.claims td:first-child{min-width:210px}footer{
margin:50px auto 40px;color:var(--soft);font-size:.86rem}@media (max-width:640px){body{font-size:15px}
tbody th:first-child{position:sticky;left:0;background:var(--page)}h1{
font-size:1.5rem}main,header,footer{padding:0 14px}.claims thead{display:none}header{padding-top:20px}
.claims td:first-child{font-weight:600}.claims td:last-child::before{content:"holds if: "}
.claims td:last-child{color:var(--soft)}.claims tr{display:block;
border-bottom:1px solid var(--line);padding:8px 0}.claims td{display:block;border:0;padding:1px 0}}@media print{
:root{--page:#fff;--ink:#000;--soft:#444;--line:#bbb;--grid:#ddd;--card:#fff;--link:#000;--c0:#2f6db5;
--c1:#d1622b;--c2:#3c8d4a;--c3:#b8343f;--c4:#7a55b0;--c5:#8a6250;--c6:#c25aa0;--c7:#6b7280;--good:#1f7a3d;
--part:#8a6100;--bad:#b3261e;--none:#444}body{font-size:10.5pt}main,header,footer{max-width:none}nav ul{
display:none}h3,h4{break-after:avoid}.panel,tr{break-inside:avoid}.scroll{overflow:visible}
table{font-size:7.5pt}td,thead th{white-space:normal}.panels{grid-template-columns:1fr 1fr}}
"""
_SERIES = "".join(f".s{k}{{stroke:var(--c{k})}}.f{k}{{fill:var(--c{k})}}" for k in range(8))


def page(found: Found, size: str, machine: dict[str, Any]) -> str:
    """The whole report as HTML."""
    papers = [(paper, cells, paper.verdicts(cells)) for paper, cells in found]
    every = [verdict for _, _, verdicts in papers for verdict in verdicts]
    contents = "".join(_entry(paper) for paper, _, _ in papers)
    body = "".join(_paper(paper, cells, verdicts) for paper, cells, verdicts in papers)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,"><title>The papers, measured</title>'
        f"<style>{_CSS.replace('SERIES', _SERIES)}</style></head><body>"
        "<header><h1>The papers, measured</h1>"
        '<p class="soft">Every table and figure of four papers on training support vector machines, run with '
        f"maxmargin. Size of this run: {html.escape(size)}. No number of ours is copied: all come "
        "from the JSON files beside this report.</p></header><main>"
        f'{_counts(every)}<nav aria-label="Contents"><h3>Contents</h3><ol>{contents}'
        '<li><a href="#environment">Environment</a></li></ol></nav>'
        f'{body}<h2 id="environment">Environment</h2>{_environment(machine)}</main>'
        f"<footer>Made by <code>python -m papers</code>, {time.strftime('%Y-%m-%d')}.</footer></body></html>\n"
    )


def _anchor(paper: Paper, name: str) -> str:
    return f"{paper.key}-{name.replace(' ', '-')}"


def _entry(paper: Paper) -> str:
    parts = "".join(
        f'<li><a href="#{_anchor(paper, e.name)}">{html.escape(e.name)}</a></li>' for e in paper.experiments
    )
    return f'<li><a href="#{paper.key}">{html.escape(paper.title)}</a><ul>{parts}</ul></li>'


def _counts(verdicts: list[Verdict]) -> str:
    """How many claims hold."""
    items = []
    for k, name in enumerate(VERDICTS):
        n = sum(v.verdict == name for v in verdicts)
        if n:
            items.append(f'<li class="v{k}"><b>{n}</b>{html.escape(name)}</li>')
    return f'<ul class="count">{"".join(items)}</ul>'


def _paper(paper: Paper, cells: dict[str, Cells], verdicts: list[Verdict]) -> str:
    rows = "".join(_verdict(v) for v in verdicts)
    head = "".join(f"<th scope=col>{name}</th>" for name in ("claim", "where", "verdict", "figure", "why", "holds if"))
    differences = "".join(f"<li>{html.escape(text).replace('`', '')}</li>" for text in paper.differences)
    sections = "".join(
        f'<section id="{_anchor(paper, e.name)}">{_section(e, cells)}</section>' for e in paper.experiments
    )
    return (
        f'<h2 id="{paper.key}">{html.escape(paper.title)}</h2><p class="soft">{html.escape(paper.citation)}</p>'
        f'<h3>Do its claims hold?</h3><div class="scroll" tabindex=0><table class="claims">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"{sections}<h3>What differs</h3><ul>{differences}</ul>"
    )


def _section(experiment: Experiment, cells: dict[str, Cells]) -> str:
    known = cells[experiment.name]
    if not known:
        name = html.escape(experiment.name.capitalize())
        return f'<figure class="table"><h4>{name}</h4><p class="soft">Not measured in this run.</p></figure>'
    blocks = "".join(block.html() for block in experiment.show(known))
    return f'{blocks}<p class="soft run">{html.escape(_run_of(experiment, known))}.</p>'


def _run_of(experiment: Experiment, known: Cells) -> str:
    """Of which run an experiment's cells are, whether all are there, and whether something disturbed their clocks."""
    n_wanted, n_disturbed = len(experiment.cells(known.size)), sum(map(is_disturbed, known))
    text = f"{known.size.capitalize()} run"
    if len(known) < n_wanted:
        text += f", {len(known)} of {n_wanted} cells"
    return text + (f", {n_disturbed} timed beside other work" if experiment.is_timed and n_disturbed else "")


def _verdict(v: Verdict) -> str:
    k = VERDICTS.index(v.verdict)
    words = "".join(f"<td>{html.escape(text)}</td>" for text in (v.claim, v.where))
    rest = "".join(f"<td>{html.escape(text)}</td>" for text in (v.figure, v.reason, v.limit))
    return f'<tr>{words}<td class="v v{k}">{html.escape(v.verdict)}</td>{rest}</tr>'


def _environment(machine: dict[str, Any]) -> str:
    rows = [[str(name), _plain(value)] for name, value in machine.items()]
    return Table("Where this was measured", ["", ""], rows).html()


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items() if part is not None)
    if isinstance(value, (list, tuple)):
        return ", ".join(f"{part:.2f}" if isinstance(part, float) else str(part) for part in value)
    return str(value)


def record(found: Found, size: str, machine: dict[str, Any]) -> dict[str, Any]:
    """All verdicts for JSON, with date and machine: what the site's page is made from."""
    where = f"{time.strftime('%Y-%m-%d')}, {machine['processor']}"
    papers = [
        {
            "key": paper.key,
            "title": paper.title,
            "citation": paper.citation,
            "runs": {e.name: f"{_run_of(e, cells[e.name])}, {where}." for e in paper.experiments if cells[e.name]},
            "verdicts": [v._asdict() for v in paper.verdicts(cells)],
            "tables": {
                block.title: block.markdown()
                for experiment in paper.experiments
                if experiment.name in paper.kept and cells[experiment.name]
                for block in experiment.show(cells[experiment.name])
                if isinstance(block, Table)
            },
        }
        for paper, cells in found
    ]
    return {"date": time.strftime("%Y-%m-%d"), "size": size, "machine": machine, "papers": papers}


def claims(found: Found, size: str) -> str:
    """All verdicts on one Markdown page."""
    lines = [
        "# Do the claims of 2008 to 2018 hold today?\n",
        f"From the measurements of `python -m papers`, size {size}.\n",
    ]
    for paper, cells in found:
        lines += [
            f"## {paper.title}\n",
            f"{paper.citation}.\n",
            "| claim | verdict | figure | why | holds if |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {v.claim} | **{v.verdict}** | {v.figure} | {v.reason} | {v.limit} |" for v in paper.verdicts(cells)
        ]
        lines.append("")
    return "\n".join(lines)


def markdown(paper: Paper, cells: dict[str, Cells], size: str) -> str:
    """One paper's verdicts and tables as Markdown."""
    lines = [f"# {paper.title}\n", f"{paper.citation}. Size of this run: {size}.\n", "## Do its claims hold?\n"]
    lines += ["| claim | where | verdict | figure | why | holds if |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {v.claim} | {v.where} | **{v.verdict}** | {v.figure} | {v.reason} | {v.limit} |"
        for v in paper.verdicts(cells)
    ]
    for experiment in paper.experiments:
        lines.append(f"\n## {experiment.name.capitalize()}\n")
        known = cells[experiment.name]
        if known:
            lines += [f"{b.markdown()}\n" for b in experiment.show(known)]
        lines.append(f"{_run_of(experiment, known)}." if known else "Not measured.")
    lines += ["\n## What differs\n", *(f"* {text}" for text in paper.differences)]
    return "\n".join(lines) + "\n"
