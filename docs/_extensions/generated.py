"""Parts of pages that are made from the package: the table of solvers, benchmark tables, and Markdown files."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from solver_facts import PAPERS, solver_rows, test_of
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


def write_reference(path):
    """The page with all solvers, for autosummary, which must find it when the build begins."""
    lines = ["Solvers", "=======", ""]
    lines += ["Each is a frozen dataclass of its hyper-parameters. A name stands for the solver with its defaults:"]
    lines += [
        '``LinearSVC(solver="ocas")`` or ``LinearSVC(solver=OCAS(mix=0.2))``. :doc:`/methods/index` says what they do.'
    ]
    lines += ["", ".. solver-table::", "", ".. currentmodule:: maxmargin", "", ".. autosummary::"]
    lines += ["   :toctree: generated", "   :nosignatures:", ""]
    lines += [f"   {cls.__module__.removeprefix('maxmargin.')}.{cls.__name__}" for _, cls, _ in solver_rows()]
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


class _FromText(SphinxDirective):
    """A directive whose content is reStructuredText that is made here."""

    def text(self) -> list[str]:
        raise NotImplementedError

    def run(self):
        section = nodes.section()
        section.document = self.state.document
        lines = StringList(self.text(), source=self.get_source_info()[0])
        self.state.memo.title_styles, styles = [], self.state.memo.title_styles
        self.state.memo.section_level, level = 0, self.state.memo.section_level
        self.state.nested_parse(lines, 0, section, match_titles=True)
        self.state.memo.title_styles, self.state.memo.section_level = styles, level
        return section.children


class _FromReport(_FromText):
    """A directive whose content is made of a JSON file that the sources of the site have."""

    required_arguments = 1

    def report(self) -> dict:
        path = Path(self.env.srcdir) / self.arguments[0]
        self.env.note_dependency(str(path))
        return json.loads(path.read_text())


def _versions(machine: dict) -> str:
    return ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)


def _table(widths: str, header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "   :class: compact", ""]
    for row in [header, *rows]:
        for k, cell in enumerate(row):
            lines.append(f"   {'* -' if k == 0 else '  -'} {cell}")
    return [*lines, ""]


def _losses_in_words(tags: tuple[type, ...]) -> str:
    """What a solver takes, briefly."""
    from maxmargin import losses

    able = [losses.name_of_type(tag) for tag in tags if tag in losses.ALL]
    missing = [name for name in losses.names() if name not in able]
    if not able:
        return "kernel machines"
    shown = ", ".join(able).replace("_", " ")
    return "all losses" if not missing else f"all but {missing[0]}" if len(missing) == 1 else shown


RISKS = {"Structural": "measures", "CrammerSinger": "Crammer-Singer", "OneClass": "one-class"}  # in words


class SolverTable(_FromText):
    """``.. solver-table:: [family]``: solvers with what they take, where they are, and what they come from."""

    optional_arguments = 1

    def text(self) -> list[str]:
        from maxmargin import penalties

        wanted = self.arguments[0] if self.arguments else None
        rows = []
        here = (Path(self.env.srcdir) / self.env.docname).parent
        for name, cls, family in solver_rows():
            if wanted not in (None, family):
                continue
            words = {"SumOfLosses": _losses_in_words(getattr(cls, "losses", ())), **RISKS}
            able_text = ", ".join(words[risk.__name__] for risk in cls.risks)
            extra = [penalties.name_of(tag()) for tag in getattr(cls, "penalties", ()) if tag.__name__ != "L2"]
            if extra:
                able_text += f"; penalties {', '.join(extra)}"
            target = f":class:`{name} <{cls.__module__}.{cls.__name__}>`"
            path = cls.__module__.replace(".", "/") + ".py"
            up, source, test = "../" * self.env.docname.count("/"), path.removesuffix(".py"), test_of(name, cls)
            links = [f"`{path.removeprefix('maxmargin/')} <{up}_modules/{source}.html>`__"]
            links += [f":download:`{test} <{os.path.relpath(ROOT / test, here)}>`"]
            rows.append([target, able_text, PAPERS[name], ", ".join(links)])
        return _table("20 24 24 32", ["solver", "takes", "paper", "file and test"], rows)


class BenchmarkTable(_FromReport):
    """``.. benchmark-table:: FILE.json``: what ``python -m benchmarks linear --out`` has written; one thread."""

    def text(self) -> list[str]:
        report = self.report()
        machine = report["machine"]
        when = f"{report['date']}, " if "date" in report else ""
        lines = [f"{when}{machine['processor']}, {machine['cores']} cores, one thread, processor seconds."]
        lines += [f"{_versions(machine)}.", ""]
        for case in report["cases"]:
            rows, columns = case["shape"]
            loss = case["loss"].replace("_", " ")
            lines += [f"**{case['dataset']}**, {rows:,} x {columns:,}, {loss}, C = {case['C']:g}", ""]
            lines += self._case(
                [each for each in case["solvers"] if each["threads"] == 1], report["arguments"]["targets"]
            )
        return lines

    def _case(self, solvers: list[dict], targets: list[float]) -> list[str]:
        seconds = {
            each["name"]: [each["targets"].get(f"{t:g}", {}).get("median_seconds") for t in targets] for each in solvers
        }
        is_ours = {name: name.startswith("maxmargin") for name in seconds}
        best = [
            min((s[k] for name, s in seconds.items() if s[k] and not is_ours[name]), default=None)
            for k in range(len(targets))
        ]
        rows = []
        for name in sorted(seconds, key=lambda name: seconds[name][-1] or 1e9):
            label = name.removesuffix("-1t")
            cells = [self._cell(number, peer, is_ours[name]) for number, peer in zip(seconds[name], best)]
            rows.append([f"**{label}**" if is_ours[name] else label, *cells])
        return _table("40 " + " ".join(["30"] * len(targets)), ["solver", *(f"to {t:.0e}" for t in targets)], rows)

    def _cell(self, seconds: float | None, peer: float | None, ours: bool) -> str:
        """Seconds; of ours also how many times faster than the fastest peer."""
        if seconds is None:
            return "not reached"
        return f"{seconds:.3g} s" + (f" ({peer / seconds:.2g} x)" if ours and peer else "")


_KERNEL_GAP = 1e-3  # relative gap of the runs that the table shows


class KernelTable(_FromReport):
    """``.. kernel-table:: FILE.json``: what ``python -m benchmarks exact --json`` has written."""

    def text(self) -> list[str]:
        report = self.report()
        machine = report["machine"]
        lines = [f"{report['date']}, {machine['processor']}, {machine['cores']} cores. {_versions(machine)}.", ""]
        runs = [run for run in report["runs"] if run.get("goal", _KERNEL_GAP) == _KERNEL_GAP]
        names = {"sklearn": "scikit-learn's SVC", "sklearnex": "scikit-learn-intelex"}
        peers = [who for who in names if any(run["who"] == who for run in runs)]
        rows = []
        for which, threads in dict.fromkeys((run["set"], run["threads"]) for run in runs if run["who"] == "maxmargin"):
            here = [r for r in runs if r["set"] == which and r["threads"] == threads]
            best = {
                who: min((r["seconds"] for r in here if r["who"] == who), default=None) for who in ["maxmargin", *peers]
            }
            ours = best["maxmargin"]
            cells = [f"{best[who]:.2f} s ({best[who] / ours:.1f} x)" if best[who] else "-" for who in peers]
            rows.append([which, str(threads), f"**{ours:.2f} s**", *cells])
        header = ["data", "threads", "SVC here", *(names[who] for who in peers)]
        return lines + _table(" ".join(["20"] * len(header)), header, rows)


class ScaleTables(_FromReport):
    """``.. scale-tables:: FILE.json PART ...``: what ``benchmarks scale`` has measured, in part."""

    optional_arguments = 9

    def text(self) -> list[str]:
        from benchmarks.scale import table

        report, parts = self.report(), self.arguments[1:]
        dates = " and ".join(sorted({report["parts"][part]["date"] for part in parts if part in report["parts"]}))
        if not dates:
            return ["Not measured yet.", ""]
        machine = report["machine"]
        lines = [f"{dates}, {machine['processor']}, {machine['cores']} cores, {report['threads']} threads.", ""]
        words: list[str] = []
        rows: list[list[str]] = []
        for line in [*table(report, tuple(parts)).splitlines(), ""]:
            if line.startswith("|"):
                lines, words = [*lines, *as_rst("\n".join(words)), ""] if words else lines, []
                rows += [] if line.startswith("|---") else [[cell.strip() for cell in line.strip("|").split("|")]]
                continue
            lines += _table(" ".join(["20"] * len(rows[0])), rows[0], rows[1:]) if rows else []
            rows, words = [], [*words, line]
        return [*lines, *as_rst("\n".join(words))]


class ClaimsTables(_FromReport):
    """``.. claims-tables:: FILE.json``: the verdicts of ``python -m papers``, a table for each paper."""

    def text(self) -> list[str]:
        record = self.report()
        machine = record["machine"]
        counts = Counter(v["verdict"] for paper in record["papers"] for v in paper["verdicts"])
        lines = [
            f"Of {sum(counts.values())} claims: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) + ".",
            f"Renewed {record['date']} with maxmargin {machine['versions']['maxmargin']}, {machine['cores']} cores.",
            "",
        ]
        for paper in record["papers"]:
            lines += [paper["title"], "-" * len(paper["title"]), "", f"{paper['citation']}.", ""]
            lines += [*_runs(paper["runs"]), ""]
            rows = [
                [_escaped(v["claim"]), f"**{v['verdict']}**", _escaped(v["figure"]), _escaped(_why(v))]
                for v in paper["verdicts"]
            ]
            lines += _table("28 12 28 32", ["claim", "verdict", "figure", "why, and what it takes to hold"], rows)
        return lines


def _runs(runs: dict[str, str]) -> list[str]:
    """Which tables are of which run."""
    names: dict[str, list[str]] = {}
    for name, run in runs.items():
        names.setdefault(run, []).append(name)
    return [f"{', '.join(some).capitalize()}: {run[0].lower()}{run[1:]}" for run, some in names.items()]


def _why(verdict: dict[str, str]) -> str:
    parts = [verdict["reason"], f"Holds if: {verdict['limit']}"]
    return ". ".join(part[0].upper() + part[1:] for part in parts if part) + "."


def _escaped(text: str) -> str:
    """Text whose characters mean nothing to reStructuredText."""
    return re.sub(r"([*`|_\\])", r"\\\1", text) or "\\-"


class MarkdownFile(_FromText):
    """``.. markdown-file:: PATH``: a Markdown file of the repository, without its title."""

    required_arguments = 1

    def text(self) -> list[str]:
        path = ROOT / self.arguments[0]
        self.env.note_dependency(str(path))
        return as_rst(path.read_text())


_ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def as_rst(text: str) -> list[str]:
    """The Markdown that our own files use: headings, lists, code, links and plain paragraphs."""
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
            lines += ["", ".. code-block:: none" if in_code else "", ""]
        elif in_code:
            lines.append(f"   {line}")
        elif line.startswith("# "):
            continue
        elif match := re.match(r"(##+) (.*)", line):
            underline = {2: "-", 3: "~"}[len(match[1])]
            lines += ["", match[2], underline * len(match[2]), ""]
        else:
            begins_list = _ITEM.match(line) and lines and lines[-1].strip() and not _ITEM.match(lines[-1])
            if begins_list and _indent(line):
                lines.append("")  # Markdown needs no blank line before a list inside a list
            line = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"\1", line)
            lines.append(re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line).replace("|", r"\|"))
    return lines


def setup(app):
    """Called by Sphinx."""
    app.add_directive("solver-table", SolverTable)
    app.add_directive("benchmark-table", BenchmarkTable)
    app.add_directive("kernel-table", KernelTable)
    app.add_directive("scale-tables", ScaleTables)
    app.add_directive("claims-tables", ClaimsTables)
    app.add_directive("markdown-file", MarkdownFile)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
