"""The papers' frame: what is kept and what is measured again, stand-ins, tables, plots, and all experiments once."""

import io
import itertools
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from naive.merging import bilinear, nearest
from papers import __main__ as command
from papers.frame import data, svg
from papers.frame import experiment as frame
from papers.frame.blocks import Plot, Table, Text, number, seconds
from papers.frame.experiment import (
    VERDICTS,
    Cell,
    Cells,
    Choice,
    Experiment,
    Paper,
    Results,
    best_known,
    code_of,
    finite,
    is_disturbed,
    key_of,
    product,
    run,
)
from papers.frame.measure import exponent, roc_area

import maxmargin

_FACTOR = 2.0


def _helper(x):
    return _FACTOR * x


def _measure(settings):
    return {"value": _helper(settings["x"]), "nothing": float("nan")}


def _paper(measure=_measure, uses=()):
    experiment = Experiment("table 1", lambda size: product(x=(1, 2, 3)), measure, lambda cells: [Text("")], uses)
    return Paper("toy", "Toy", "nobody", (experiment,), lambda found: [], ())


def test_only_what_is_missing_is_measured(tmp_path):
    calls = []

    def measure(settings):
        calls.append(settings["x"])
        return {"value": settings["x"]}

    paper, path, far = _paper(measure), tmp_path / "toy.json", time.monotonic() + 100
    cells = run(paper, Results(path), "tiny", far, out=io.StringIO())
    assert calls == [1, 2, 3]
    assert [c.result["value"] for c in cells["table 1"]] == [1, 2, 3]
    known = json.loads(path.read_text())
    known["cells"].popitem()  # as if it had been stopped
    path.write_text(json.dumps(known))
    run(paper, Results(path), "tiny", far, out=io.StringIO())
    assert calls == [1, 2, 3, 3]


def test_what_is_not_seconds_can_be_measured_beside_other_work(tmp_path, monkeypatch):
    monkeypatch.setattr(frame, "_busy_seconds", itertools.count(0.0, 100.0).__next__)  # others are busy all the time
    timed = _paper().experiments[0]
    untimed = timed._replace(name="table 2", cells=lambda size: product(x=(4,)), is_timed=False)
    paper, results = _paper()._replace(experiments=(timed, untimed)), Results(tmp_path / "toy.json")
    far = time.monotonic() + 100
    cells = run(paper, results, "tiny", far, Choice(untimed=True), io.StringIO())
    assert [len(some) for some in cells.values()] == [0, 1]
    cells = run(paper, results, "tiny", far, Choice(), io.StringIO())
    assert all(cell.others > 1.0 for cell in cells["table 1"])
    monkeypatch.setattr(frame, "is_disturbed", lambda cell: cell.settings["x"] != 2)
    out = io.StringIO()
    run(paper, results, "tiny", far, Choice(disturbed=True), out)
    assert re.findall(r"table (\d): (\d)", out.getvalue()) == [("1", "1"), ("1", "3")]  # and nothing that has no clock


def test_two_runs_at_once_keep_the_cells_of_each_other(tmp_path):
    experiment, path = _paper().experiments[0], tmp_path / "toy.json"
    one, other = Results(path), Results(path)
    one.keep(experiment, Cell({"x": 1}, {"value": 1}, 0.1))
    other.keep(experiment, Cell({"x": 2}, {"value": 2}, 0.1))
    assert [cell.result["value"] for cell in Results(path).cells(experiment, "tiny")] == [1, 2]


def test_a_moment_is_not_called_disturbed():
    cells = [Cell({}, {}, seconds, others) for seconds, others in [(10, 0.5), (10, 0.05), (0.01, 2.0), (10, None)]]
    assert [is_disturbed(cell) for cell in cells] == [True, False, False, False]


def test_a_full_report_shows_a_quick_run_where_only_that_is_complete(tmp_path):
    sizes = {"quick": product(x=(1,)), "full": product(x=(2, 3))}
    paper, results = _paper(), Results(tmp_path / "toy.json")
    paper = paper._replace(experiments=(paper.experiments[0]._replace(cells=sizes.__getitem__),))
    run(paper, results, "quick", time.monotonic() + 100, out=io.StringIO())
    assert best_known(paper.experiments[0], results, "full").size == "quick"
    run(paper, results, "full", time.monotonic() + 100, out=io.StringIO())
    best = best_known(paper.experiments[0], results, "full")
    assert (best.size, [cell.settings["x"] for cell in best]) == ("full", [2, 3])


def test_nothing_is_begun_after_the_deadline(tmp_path):
    out = io.StringIO()
    cells = run(_paper(), Results(tmp_path / "toy.json"), "tiny", time.monotonic() - 1.0, out=out)
    assert cells["table 1"] == []
    assert "3 cells left out" in out.getvalue()


def test_a_key_depends_on_settings_code_and_declared_files():
    experiment = command.paper("ocas").experiments[1]
    key = key_of(experiment, {"solver": "ocas", "x": 1})
    assert key == key_of(
        experiment._replace(name="another table"), {"solver": "ocas", "x": 1}
    )  # they share their measurements
    assert key != key_of(experiment, {"solver": "ocas", "x": 2})
    assert key != key_of(experiment._replace(uses=("losses",)), {"solver": "ocas", "x": 1})
    assert key != key_of(
        experiment._replace(measure=command.paper("ocas").experiments[2].measure), {"solver": "ocas", "x": 1}
    )


def test_a_key_does_not_depend_on_comments_and_docstrings(tmp_path, monkeypatch):
    monkeypatch.setattr(frame, "_PACKAGE", tmp_path)
    (tmp_path / "solvers").mkdir()
    keys = []
    for text in ('"""Says this."""\nx = 1  # one\n', '"""Says that."""\n\nx = 1\n', "x = 2\n"):
        (tmp_path / "solvers" / "ocas.py").write_text(text)
        frame._hash_of_files.cache_clear()
        keys.append(key_of(_paper(uses=("solvers",)).experiments[0], {"x": 1}))
    frame._hash_of_files.cache_clear()
    assert keys[0] == keys[1] != keys[2]


def test_a_cell_depends_on_its_own_solver_only():
    uses = {name: command.paper("ocas").experiments[1].uses({"solver": name}) for name in ("ocas", "sgd", "liblinear")}
    assert "solvers/planes" in uses["ocas"]
    assert "solvers/planes" not in uses["sgd"]
    assert uses["liblinear"] == ()
    for name in command.PAPERS:  # what is declared exists: a folder that was renamed would never count
        for experiment in command.paper(name).experiments:
            for settings in experiment.cells("quick"):
                for part in experiment.uses(settings) if callable(experiment.uses) else experiment.uses:
                    assert (Path(maxmargin.__file__).parent / part).exists(), part


def test_code_of_a_measurement_has_helpers_and_constants():
    code = code_of(command.paper("ocas").experiments[1].measure)
    assert "def train(" in code  # in the same file
    assert "def stand_in(" in code  # in another one
    assert "EPSILON = 0.001" in code
    assert "Train to the stop" not in code  # docstrings do not count
    assert " at 0x" not in code  # it would be another one in the next process


def test_a_key_does_not_depend_on_what_was_measured_before():
    from papers.frame import measure

    experiment = command.paper("dual_cd").experiments[0]
    key = key_of(experiment, {"x": 1})
    measure._optima[1, "", 1.0] = (0.0, 0.0, np.zeros(1))
    code_of.cache_clear()
    assert key_of(experiment, {"x": 1}) == key
    measure._optima.clear()


def test_numbers_for_json():
    assert finite({"a": np.float64(1.0), "b": [np.inf, np.array([1, 2])], "c": (np.int64(3), None)}) == {
        "a": 1.0,
        "b": [None, [1, 2]],
        "c": [3, None],
    }


@pytest.mark.parametrize("name", data.PUBLISHED)
def test_stand_ins_have_the_published_statistics(name):
    statistics = data.PUBLISHED[name]
    X, y = data.stand_in(name, 1500)
    stored = (X.size if isinstance(X, np.ndarray) else X.nnz) / X.shape[0]
    assert X.shape == (1500, statistics.features)
    assert stored == pytest.approx(statistics.per_row, rel=0.05)
    assert np.mean(y > 0.0) == pytest.approx(statistics.positive, abs=0.04)
    again = data.stand_in(name, 1500)[0]
    assert (again != X).sum() == 0
    if statistics.kind == "text" or name == "phishing":
        assert np.asarray(X.multiply(X).sum(axis=1)).ravel() == pytest.approx(np.ones(1500))


def test_gaussians_have_diagonal_covariances_of_several_scales():
    X, y = data.make_gaussians(20_000, 6, np.random.default_rng(0))
    for label in (-1.0, 1.0):
        covariance = np.cov(X[y == label].T)
        scale = np.sqrt(np.diag(covariance))
        assert np.abs(covariance / np.outer(scale, scale) - np.eye(6)).max() < 0.05
        assert scale.max() / scale.min() > 2.0
    assert np.abs(np.log(X[y > 0].std(axis=0) / X[y < 0].std(axis=0))).max() > 0.5


def test_a_split_has_no_row_twice(monkeypatch, tmp_path):
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
    data.load.cache_clear()
    found = data.load("artificial", 300, (0.5, 0.2, 0.3))
    assert [len(part) for part in (found.y, found.y_validation, found.y_test)] == [150, 60, 90]
    assert len(np.unique(np.concatenate([found.X, found.X_validation, found.X_test]), axis=0)) == 300
    assert found.is_stand_in


def test_exponent_and_area():
    assert exponent([10, 100, 1000], [1.0, 10.0, 100.0]) == pytest.approx(1.0)
    assert exponent([10], [1.0]) is None
    X, y = np.array([[1.0], [2.0], [2.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    assert roc_area(X, y, np.ones(1)) == pytest.approx((3 + 0.5) / 4)  # of four pairs one is a tie


@pytest.mark.parametrize("with_rows", [True, False])
def test_the_surveys_law_is_fitted(with_rows):
    from papers.survey.show import theory

    n = np.array([2000.0, 5000.0, 20_000.0, 100_000.0])
    t = 3e-6 * (n if with_rows else 1.0) / (1.0 - np.sqrt(800.0 / n)) ** 2
    a, n1 = theory(list(zip(n, t)), with_rows)
    assert a == pytest.approx(3e-6, rel=0.05)
    assert n1 == pytest.approx(800.0, rel=0.05)
    assert theory([(1.0, 1.0)], with_rows) is None


def test_blocks_are_escaped():
    table = Table("a < b", ["x"], [["`c` & d\ne"]], "n")
    assert "<code>c</code> &amp; d<br>e" in table.html()
    assert "a &lt; b" in table.html()
    assert "`c` & d<br>e" in table.markdown()
    assert Plot("t", ["<svg/>"]).html().count("<svg/>") == 1
    assert (number(1234567.0), number(None), number(0.0), number(0.0123456)) == ("1.23e6", "-", "0", "0.0123")
    assert (seconds(2e-5), seconds(0.0123), seconds(2.5), seconds(None)) == ("20 µs", "12.3 ms", "2.5 s", "-")


def test_a_line_goes_where_its_numbers_are():
    picture = svg.lines("t", svg.Axis("x"), svg.Axis("y"), [svg.Series("s", [(0.0, 0.0), (10.0, 5.0), (None, 1.0)])])
    ((x0, y0), (x1, y1)) = [
        tuple(map(float, pair.split())) for pair in re.search(r'class="line s0" d="M([^"]*)"', picture)[1].split("L")
    ]
    assert x1 > x0 + 300
    assert y1 < y0 - 200  # upwards
    ticks = [float(t) for t in re.findall(r'text-anchor="middle">([\d.]+)</text>', picture)]
    assert ticks == sorted(ticks)
    empty = svg.lines("t", svg.Axis("x"), svg.Axis("y", True), [svg.Series("s", [(1.0, -1.0)])])
    assert "nothing measured" in empty


@pytest.mark.parametrize("interpolated", [True, False])
def test_the_papers_literal_table_is_the_naive_one(interpolated):
    from papers.budget.literal import look, square_tables

    h, wd = square_tables(40)
    rng = np.random.default_rng(0)
    for m, kappa in [*rng.random((50, 2)), (0.0, 0.0), (1.0, 1.0), (0.5, 1.0)]:
        expected = (bilinear if interpolated else nearest)(wd, m, kappa)
        assert look(wd, m, kappa, interpolated) == pytest.approx(expected, abs=1e-12)
    assert np.abs(wd - wd[::-1]).max() < 1e-12  # m -> 1 - m
    off_jump = np.abs(h + h[::-1] - 1.0)[:, 10:]
    assert off_jump[: len(h) // 2].max() < 1e-6


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """All experiments of all papers on a few hundred rows of stand-ins."""
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAXMARGIN_DATA", str(folder))  # as if there were no files
        data.load.cache_clear()
        assert command.main(["--size", "tiny", "--out", str(folder), "--minutes", "60"]) == 0
        assert command.main(["--size", "tiny", "--out", str(folder), "--report"]) == 0
    return folder


def test_every_experiment_runs_and_the_report_is_one_file_without_requests(report):
    """In one test: with several workers, each would run the experiments."""
    _check_results(report)
    _check_page((report / "report.html").read_text())


def _check_results(report):
    for name in command.PAPERS:
        paper, results = command.paper(name), Results(report / f"{name}.json")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MAXMARGIN_DATA", str(report))
            found = {e.name: results.cells(e, "tiny") for e in paper.experiments}
        for experiment in paper.experiments:
            assert len(found[experiment.name]) == len(experiment.cells("tiny")) > 0, experiment.name
            for block in experiment.show(found[experiment.name]):
                if isinstance(block, Table):
                    assert {len(row) for row in block.rows} <= {len(block.columns)}, block.title
        verdicts = paper.verdicts(found)
        assert len(verdicts) >= 8
        assert {v.verdict for v in verdicts} <= set(VERDICTS)
        nothing = paper.verdicts({e.name: Cells() for e in paper.experiments})
        assert {v.verdict for v in nothing} == {"not measured"}
        assert all(v.limit for v in verdicts)  # what it takes to hold stands beside each verdict
        text = (report / f"{name}.md").read_text()
        assert all(v.claim in text for v in verdicts)
        assert all(v.claim in (report / "claims.md").read_text() for v in verdicts)


def _check_page(page):
    assert "stand-in" in page
    for name in command.PAPERS:
        assert f'id="{name}"' in page
    targets = re.findall(r'href="#([^"]+)"', page)
    assert targets
    assert all(f'id="{target}"' in page for target in targets)
    outside = re.findall(r'(?:src|href)="((?!#|data:)[^"]*)"|url\(', page)
    assert outside == []
    assert "<script" not in page


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here to open the report with")
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_browser_draws_all_plots_and_asks_for_nothing(report, tmp_path, width, dark):
    page = (report / "report.html").read_text()
    n_plots = page.count("<svg ")
    probe = """<script>addEventListener('load', () => { setTimeout(() => {
      const boxes = [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect());
      const inked = [...document.querySelectorAll('svg')].filter(
        s => s.querySelectorAll('path,rect,circle').length > 3 || s.textContent.includes('nothing measured'));
      const outer = document.documentElement;
      document.title = JSON.stringify({drawn: boxes.filter(b => b.width > 200 && b.height > 100).length,
        inked: inked.length, requests: performance.getEntriesByType('resource').length,
        overflow: outer.scrollWidth - outer.clientWidth, background: getComputedStyle(document.body).backgroundColor});
    }, 0) })</script>"""
    probed = tmp_path / "probed.html"
    probed.write_text(page.replace("</body>", f"{probe}</body>"))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},900",
        "--virtual-time-budget=5000",
    ]
    options += [f"--user-data-dir={tmp_path / 'profile'}", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    shown = subprocess.run(
        ["chromium", *options, "--dump-dom", probed.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = json.loads(re.search(r"<title>(\{.*?\})</title>", shown.stdout)[1])
    assert found["drawn"] == found["inked"] == n_plots > 8
    assert found["requests"] == 0
    assert found["overflow"] <= 0  # a phone need not scroll sideways
    assert found["background"] == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


def test_unknown_papers_are_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["nobody"])
    assert "choose from ocas" in capsys.readouterr().err


def test_there_is_no_result_among_the_sources():
    assert not list((Path(command.__file__).parent).glob("*/*.json"))


def test_tables_in_the_notes_are_those_that_were_recorded():
    """`python -m papers` records them beside the verdicts; some stand in a paper's README, too."""
    root = Path(command.__file__).parents[1]
    n_shown = 0
    for paper in json.loads((root / "docs" / "papers_data" / "verdicts.json").read_text())["papers"]:
        notes = root / "papers" / paper["key"] / "README.md"
        for title, table in paper.get("tables", {}).items():
            assert command.rows_of(table) in notes.read_text(), title
            n_shown += 1
    assert n_shown >= 3


def test_what_is_published_replaces_what_was_and_keeps_what_was_not_measured(tmp_path):
    def record(number, *verdicts, runs=("t",)):
        known = [{"claim": f"claim {k}", "verdict": verdict} for k, verdict in enumerate(verdicts)]
        table = f"**t**\n\n| a |\n|---|\n| {number} |\n\nA note."
        paper = {"key": "toy", "verdicts": known, "tables": {"t": table}, "runs": dict.fromkeys(runs, f"run {number}")}
        return {"date": number, "papers": [paper]}

    (tmp_path / "docs" / "papers_data").mkdir(parents=True)
    (tmp_path / "papers" / "toy").mkdir(parents=True)
    known, notes = tmp_path / "docs" / "papers_data" / "verdicts.json", tmp_path / "papers" / "toy" / "README.md"
    before = record(1, "holds", "holds", runs=("t", "u"))
    before["papers"].append({"key": "other", "verdicts": []})
    known.write_text(json.dumps(before))
    notes.write_text("Before.\n\n| a |\n|---|\n| 1 |\n\nAfter.\n")
    (tmp_path / "new.json").write_text(json.dumps(record(2, "not measured", "holds in part")))
    command.publish(tmp_path / "new.json", tmp_path)
    assert notes.read_text() == "Before.\n\n| a |\n|---|\n| 2 |\n\nAfter.\n"
    expected = record(2, "holds", "holds in part")
    expected["papers"][0]["runs"] = {"t": "run 2", "u": "run 1"}
    assert json.loads(known.read_text()) == expected | {"papers": [*expected["papers"], before["papers"][1]]}
