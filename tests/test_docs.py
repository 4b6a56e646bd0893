"""The site's pages and the gallery, as far as it can be told without building them."""

import ast
import importlib
import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

import maxmargin
from maxmargin.cli import main
from maxmargin.data.generators import make_dense

ROOT = Path(__file__).parents[1]
MADE = {"_build", "_templates", "gallery", "generated"}
PAGES = sorted(path for path in (ROOT / "docs").rglob("[a-z]*.rst") if not MADE & set(path.parts))
SCRIPTS = sorted((ROOT / "examples").glob("plot_*.py"))
API = (ROOT / "docs" / "api" / "index.rst").read_text()


def commands(page):
    """The shell commands of a page, in order."""
    for block in re.findall(r"^\.\. code-block:: console\n\n((?:   .*\n|\n)+)", page.read_text(), flags=re.M):
        for line in block.splitlines():
            if line.strip():
                assert line.startswith("   $ maxmargin "), f"{page}: {line}"
                yield shlex.split(line.strip()[2:])[1:]


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands(page))], ids=lambda page: page.stem)
def test_commands_on_a_page_work(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = make_dense(n_rows=300, n_features=6)
    maxmargin.save_svmlight("train.svm", X[:200], y[:200])
    maxmargin.save_svmlight("test.svm", X[200:], y[200:])
    for command in commands(page):
        assert main(command) == 0, (command, capsys.readouterr().err)


def test_the_api_reference_is_complete():
    listed = set(re.findall(r"^   ([\w.]+)$", API, flags=re.M))
    public = set(maxmargin.__all__) - {"__version__"}
    modules = {name for name in public if type(getattr(maxmargin, name)).__name__ == "module"}
    assert public - modules <= listed
    assert all(any(name.startswith(f"{module}.") for name in listed) for module in modules)


def listed():
    """Every object of the API reference, by name."""
    for name in set(re.findall(r"^   ([\w.]+)$", API, flags=re.M)) - {"solvers"}:
        module, _, attribute = f"maxmargin.{name}".rpartition(".")
        yield name, getattr(importlib.import_module(module), attribute)


def test_everything_in_the_reference_has_an_example():
    assert [name for name, thing in listed() if ">>>" not in (thing.__doc__ or "")] == []


def tool(name, folder="tools"):
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_solver_has_an_example_a_paper_and_a_test_in_the_table_of_methods():
    facts = tool("solver_facts", "docs/_extensions")
    rows = facts.solver_rows()
    assert {name for name, _, _ in rows} == set(facts.PAPERS)
    assert {family for _, _, family in rows} == set(facts.FAMILIES)
    for name, cls, family in rows:
        assert ">>>" in cls.__doc__, name
        test = (ROOT / facts.test_of(name, cls)).read_text()
        assert re.search(rf"\b{cls.__name__}\b|[\"']{name}[\"']", test), name
        prose, picture = (ROOT / "docs" / "methods" / f"{family}.rst").read_text().split(".. plot::", maxsplit=1)
        assert re.search(rf"\b{name}\b", prose), f"docs/methods/{family}.rst says nothing of {name}"
        assert "ConvergenceDisplay" in picture or "passes over the data" in picture


def test_the_figures_of_readme_are_those_of_the_benchmarks_file():
    figures, readme = tool("figures"), (ROOT / "README.md").read_text()
    report = json.loads(figures.FILE.read_text())
    assert figures.renewed(readme, report) == readme, "run python tools/figures.py"
    assert report["machine"]["versions"]["maxmargin"] in readme
    auto = next(s for s in report["cases"][0]["solvers"] if s["name"] == "maxmargin-auto-1t")
    assert f"| {auto['targets']['0.001']['median_seconds']:.3g} s" in readme


def test_what_the_harness_writes_can_be_taken_over(tmp_path, monkeypatch):
    """A file with single runs, sets that README does not show, and targets that were not met."""
    figures = tool("figures")
    run = {"rung": 1, "seconds": 1.0}
    reached = {"0.001": {"rung": 1, "median_seconds": 0.5, "repeats": [run]}}
    solvers = [
        {"name": "maxmargin-auto-1t", "threads": 1, "runs": [run], "targets": reached},
        {
            "name": "somebody-1t",
            "threads": 1,
            "runs": [run],
            "targets": {"0.001": dict(reached["0.001"], median_seconds=2.0)},
        },
        {
            "name": "maxmargin-auto-2t",
            "threads": 2,
            "runs": [],
            "targets": {"0.001": dict(reached["0.001"], median_seconds=0.1)},
        },
    ]
    case = {"dataset": "a9a", "shape": [3, 2], "loss": "squared_hinge", "C": 1.0, "solvers": solvers}
    machine = {"processor": "P", "cores": 2, "versions": {"maxmargin": "9.9"}}
    report = {
        "date": "2030-01-02",
        "machine": machine,
        "arguments": {"targets": [1e-3, 1e-6]},
        "cases": [case, dict(case, dataset="other")],
    }
    table = figures.table(figures.trimmed(report))
    assert solvers[0]["runs"] == reached["0.001"]["repeats"] == []
    assert "maxmargin 9.9 on 2030-01-02: P, 2 cores." in table
    assert "| a9a, 3 x 2 | squared hinge | 2 s somebody | 0.5 s (**4x**) | none | not reached |" in table
    assert "other" not in table


def test_the_page_of_verdicts_is_made_from_a_run_of_all_papers():
    record = json.loads((ROOT / "docs" / "papers_data" / "verdicts.json").read_text())
    assert [paper["key"] for paper in record["papers"]] == ["ocas", "dual_cd", "budget", "survey"]
    assert {"date", "size", "machine"} <= set(record)
    for paper in record["papers"]:
        for verdict in paper["verdicts"]:
            assert verdict["verdict"] in ("holds", "holds in part", "does not hold here", "not measured")
            assert verdict["claim"]
            assert verdict["limit"]


def test_there_is_a_gallery():
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_gallery_scripts_have_a_title_and_a_picture(script):
    text = script.read_text()
    title, underline, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    assert underline == "=" * len(title)
    assert "plt." in text


def test_every_page_is_in_a_table_of_contents():
    named = set()
    for page in PAGES:
        for block in re.findall(r"\.\. toctree::\n(?:   :.*\n)*\n((?:   .*\n)+)", page.read_text()):
            names = [
                re.sub(r".*<(.*)>", r"\1", line.strip()) for line in block.splitlines()
            ]  # of "Title <name>", the name
            named |= {(page.parent / name).resolve() for name in names}
    own = {page.resolve().with_suffix("") for page in PAGES}
    assert own - {ROOT / "docs" / "index", ROOT / "docs" / "api" / "solvers"} <= named
