"""Parts of pages that are made from the package: the table of solvers, benchmark tables, and Markdown files."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections import Counter
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]

# Solver: where it comes from. Of one that is not here, what its file names first.
PAPERS = {
    "dual_cd": "Hsieh, Chang, Lin, Keerthi, Sundararajan (ICML 2008)",
    "primal_cd": "Chang, Hsieh, Lin (JMLR 2008); L1: Yuan, Chang, Hsieh, Lin (JMLR 2010)",
    "interior_point": "Mehrotra (SIAM J. Optim. 1992); Ferris, Munson (SIAM J. Optim. 2002)",
    "augmented_lagrangian": "Yan, Li (2020); Li, Sun, Toh (SIAM J. Optim. 2018)",
    "tron": "Lin, Weng, Keerthi (JMLR 2008); Galli, Lin (IEEE TNNLS 2022)",
    "lbfgs": "Liu, Nocedal (Math. Programming 1989)",
    "sub_lbfgs": "Yu, Vishwanathan, Guenter, Schraudolph (JMLR 2010)",
    "olbfgs": "Schraudolph, Yu, Guenter (AISTATS 2007)",
    "ocas": "Franc, Sonnenburg (ICML 2008)",
    "cutting_plane": "Joachims (KDD 2006); Franc, Sonnenburg (ICML 2008), section 2",
    "bmrm": "Teo, Smola, Vishwanathan, Le (KDD 2007; JMLR 2010)",
    "svmperf": "Joachims (ICML 2005; KDD 2006)",
    "sgd": "Bottou (COMPSTAT 2010); Xu (2011); Shamir, Zhang (ICML 2013)",
    "pegasos": "Shalev-Shwartz, Singer, Srebro (ICML 2007), with Cotter (Math. Programming 2011)",
    "sgd_qn": "Bordes, Bottou, Gallinari (JMLR 2009), with Chang, Smith (JMLR 2010)",
    "block_cd": "Yu, Hsieh, Chang, Lin (KDD 2010)",
    "kernel_larank": "Bordes, Bottou, Gallinari, Weston (ICML 2007)",
    "larank": "Bordes, Bottou, Gallinari, Weston (ICML 2007)",
    "sub_olbfgs": "proposed by Menon (2009), sections 4.3.3 and 6",
    "folos": "Duchi, Singer (JMLR 2009)",
    "folos_batch": "Duchi, Singer (JMLR 2009)",
    "gd": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "2gd": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "sgd_plain": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "2sgd": "Bottou, Bousquet (NIPS 2007); Menon (2009), table 2",
    "block_smo": "Osuna, Freund, Girosi (1997); Joachims (1998)",
    "smo": "Fan, Chen, Lin (JMLR 2005); Chang, Lin (2011)",
    "svmlight": "Joachims (1998)",
    "cvm": "Tsang, Kwok, Cheung (JMLR 2005)",
    "bvm": "Tsang, Kocsor, Kwok (ICML 2007)",
    "kernel_pegasos": "Shalev-Shwartz, Singer, Srebro (ICML 2007), section 4",
    "nystroem": "Williams, Seeger (NIPS 2001)",
    "fourier": "Rahimi, Recht (NIPS 2007)",
    "online_sgd": "Bottou (COMPSTAT 2010); Xu (2011); Shamir, Zhang (ICML 2013)",
    "norma": "Kivinen, Smola, Williamson (IEEE Trans. Signal Processing 2004)",
    "budget_sgd": "Wang, Crammer, Vucetic (JMLR 2012); Glasmachers, Qaadan (2018)",
}
FAMILIES = ("coordinate", "newton", "planes", "stochastic", "kernel", "budget", "textbook")


def solver_rows():
    """Name, class and family of every solver of the package, the families in our order."""
    import maxmargin.solvers
    from maxmargin.solvers.base import Solver

    found = {}
    for module in pkgutil.walk_packages(maxmargin.solvers.__path__, "maxmargin.solvers."):
        family = module.name.split(".")[2]
        for cls in vars(importlib.import_module(module.name)).values():
            is_solver = isinstance(cls, type) and issubclass(cls, Solver) and cls.__module__ == module.name
            if is_solver and isinstance(vars(cls).get("name"), str) and not cls.__name__.startswith("_"):
                found[cls.name] = (cls.name, cls, family)
    return sorted(found.values(), key=lambda row: FAMILIES.index(row[2]) if row[2] in FAMILIES else len(FAMILIES))


def paper_of(name, cls):
XX

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


# Solver: its test file, where that is not called after the solver's module.
TESTS = {
    "block_smo": "tests/kernel/test_kernel_solvers.py",
    "smo": "tests/kernel/test_kernel_solvers.py",
    "svmlight": "tests/kernel/test_other_kernel_solvers.py",
    "cvm": "tests/kernel/test_other_kernel_solvers.py",
    "bvm": "tests/kernel/test_other_kernel_solvers.py",
    "kernel_pegasos": "tests/kernel/test_other_kernel_solvers.py",
    "norma": "tests/kernel/test_other_kernel_solvers.py",
    "nystroem": "tests/kernel/test_other_kernel_solvers.py",
    "fourier": "tests/kernel/test_other_kernel_solvers.py",
    "online_sgd": "tests/test_online_svc.py",
    "sgd_plain": "tests/solvers/test_gradient_descent.py",
    "2sgd": "tests/solvers/test_gradient_descent.py",
}


def test_of(name: str, cls: type) -> str:
    """The test file of a solver."""
    return TESTS.get(name) or f"tests/solvers/test_{cls.__module__.rpartition('.')[2]}.py"


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


class SolverTable(_FromText):
    """``.. solver-table:: [family]``: solvers with what they take, where they are, and what they come from."""

    optional_arguments = 1

    def text(self) -> list[str]:
        from maxmargin import penalties

        wanted = self.arguments[0] if self.arguments else None
        rows = []
        for name, cls, family in solver_rows():
            if wanted not in (None, family):
                continue
            able_text = _losses_in_words(getattr(cls, "losses", ()))
            extra = [penalties.name_of(tag()) for tag in getattr(cls, "penalties", ()) if tag.__name__ != "L2"]
            if extra:
                able_text += f"; penalties {', '.join(extra)}"
            target = f":class:`{name} <{cls.__module__}.{cls.__name__}>`"
            path = cls.__module__.replace(".", "/") + ".py"
            file = path.removeprefix("maxmargin/")
            rows.append([target, able_text, paper_of(name, cls), f"`{file}`, `{test_of(cls.__module__)}`"])
        return _table("20 24 24 32", ["solver", "takes", "paper", "file and test"], rows)


class BenchmarkTable(_FromText):
    """``.. benchmark-table:: FILE.json``: what ``python -m benchmarks linear --out`` has written; one thread."""

    required_arguments = 1

    def text(self) -> list[str]:
        path = Path(self.env.srcdir) / self.arguments[0]
        self.env.note_dependency(str(path))
        report = json.loads(path.read_text())
        machine = report["machine"]
        versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)
        when = f"{report['date']}, " if "date" in report else ""
        lines = [
            f"{when}{machine['processor']}, {machine['cores']} cores, one thread, processor seconds. {versions}.",
            "",
        ]
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


class ClaimsTables(_FromText):
    """``.. claims-tables:: FILE.json``: the verdicts of ``python -m papers``, a table for each paper."""

    required_arguments = 1

    def text(self) -> list[str]:
        path = Path(self.env.srcdir) / self.arguments[0]
        self.env.note_dependency(str(path))
        record = json.loads(path.read_text())
        machine = record["machine"]
        counts = Counter(v["verdict"] for paper in record["papers"] for v in paper["verdicts"])
        lines = [
            f"Of {sum(counts.values())} claims: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) + ".",
            f"Measured {record['date']} with maxmargin {machine['versions']['maxmargin']} on {machine['processor']}, "
            f"{machine['cores']} cores; size of the run: {record['size']}.",
            "",
        ]
        for paper in record["papers"]:
            lines += [paper["title"], "-" * len(paper["title"]), "", f"{paper['citation']}.", ""]
            rows = [
                [_escaped(v["claim"]), f"**{v['verdict']}**", _escaped(v["figure"]), _escaped(_why(v))]
                for v in paper["verdicts"]
            ]
            lines += _table("28 12 28 32", ["claim", "verdict", "figure", "why, and what it takes to hold"], rows)
        return lines


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
    app.add_directive("claims-tables", ClaimsTables)
    app.add_directive("markdown-file", MarkdownFile)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
