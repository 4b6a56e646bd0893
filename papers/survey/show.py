"""The survey's tables and its figure 3 from measurements."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from papers.frame.blocks import Block, Plot, Table, number, seconds
from papers.frame.data import label
from papers.frame.experiment import Cells
from papers.frame.measure import exponent
from papers.frame.svg import Axis, Series, lines
from papers.survey.measure import EXCESS, GOALS
from papers.survey.published import BOUNDS_2, NAMES_2, TABLE_1, TABLE_2


def table_1(cells: Cells) -> list[Block]:
    """Every solver: what it is, its documented rate, its file and test, and what was measured."""
    rows = []
    for c in cells:
        row, r = TABLE_1[c.settings["solver"]], c.result
        slope, gap = _growth(r), r["gaps"][-1]
        documented = "-" if row.rows is None else f"n^{row.rows:g}"
        bound = number(gap) + (f"\n{row.bounded_by}" if row.bounded_by else "")
        fitted = "-" if slope is None else f"n^{slope:.2f}"
        rows.append(
            [
                c.settings["solver"],
                row.citation,
                f"{row.kind}, {row.optimisation},\n{row.style}",
                row.runtime,
                documented,
                fitted,
                bound,
                f"`{row.ours}`\n{r['file']}\n{r['test']}",
            ]
        )
    columns = ["algorithm", "citation", "type", "runtime", "in rows", "fitted", "gap reached", "ours"]
    note = (
        "Runtime is the survey's (BMRM's with the factor n that it lacks there). Fitted: the power of the rows in the "
        "time to a certified relative gap, at lambda = 0.01."
    )
    return [Table("Table 1: the solvers, alive", columns, rows, note)]


def _growth(result: dict) -> float | None:
    """The power of the rows in the time, of the sizes at which the solver met its goal."""
    done = [(n, t) for n, t, is_done in zip(result["rows"], result["seconds"], result["is_done"]) if is_done]
    return exponent([n for n, _ in done], [t for _, t in done])


def power(cell_points: list[list[float]]) -> float | None:
    """p of time proportional to rho^-p, over the points below 10 %."""
    points = [(p[0], p[2]) for p in cell_points if 0.0 < p[2] <= 0.1 and p[0] > 0.0]
    if len(points) < 3:
        return None
    spent, above = np.log(np.array(points)).T
    best = np.minimum.accumulate(above)
    if best[0] - best[-1] < 0.5:
        return None
    return float(-np.polyfit(best, spent, 1)[0])


def table_2(cells: Cells) -> list[Block]:
    """Times to accuracies of the objective and of the test error, and fitted powers."""
    rows, goals = [], ("0.1", "0.01", "0.001", "0.0001", "1e-06")
    for c in cells:
        name, r = c.settings["solver"], c.result
        fitted = power(r["points"])
        documented, theory = TABLE_2[name]
        times_ = [_time_and_passes(r[g]) for g in goals]
        law = "log" if theory == 0.0 else f"ρ^-{theory:g}"
        rows.append([NAMES_2[name], documented, law, "-" if fitted is None else f"ρ^-{fitted:.2f}", *times_])
    columns = ["", "bound", "in ρ", "fitted", "10 %", "1 %", "0.1 %", "0.01 %", "1e-6"]
    series = [
        Series(NAMES_2[c.settings["solver"]], [(p[2], p[0]) for p in c.result["points"]], marks=False) for c in cells
    ]
    picture = lines("time to an accuracy", Axis("ρ, relative", True), Axis("processor seconds", True), series)
    note = "Squared hinge on generated rows with features of unequal size, lambda = 1e-3."
    return [
        Table("Table 2: first and second order, batch and stochastic", columns, rows, note),
        Plot("Table 2 as a picture", [picture]),
        _excess_errors(cells),
    ]


def _excess_errors(cells: Cells) -> Table:
    """Time to a test error that is E above that of the optimum, for several E."""
    rows = []
    for c in cells:
        name, some = c.settings["solver"], [c.result[f"E {e:g}"] for e in EXCESS]
        rows.append([NAMES_2[name], BOUNDS_2[name], *map(_time_and_passes, some)])
    note = "The bounds are for as many rows as one likes; here they are fixed, as is lambda. -: not met."
    columns = ["", "bound", *(f"E = {100 * e:g} %" for e in EXCESS)]
    return Table("Table 2, right: time to a test error of the optimum's + E", columns, rows, note)


def _time_and_passes(found: list[float] | None) -> str:
    return "-" if found is None else f"{seconds(found[0])}\n{number(found[1])} passes"


def core_vectors(cells: Cells) -> list[Block]:
    """Does the core set depend on the number of rows?"""
    rows = []
    for c in cells:
        r, late = c.result, "" if c.result["is_done"] else "> "
        row = [f"{c.settings['epsilon']:g}", f"{c.settings['rows']:,}", f"{r['core']:,}"]
        rows.append([*row, late + seconds(r["seconds"]), number(r["gap"])])
    columns = ["ε of the ball", "rows", "core set", "seconds", "relative gap of the SVM"]
    note = (
        "C = 1, RBF. The stop is that of Tsang et al.: no row outside (1 + ε) times the ball. Seconds have looks at "
        "all rows in them, which our machine makes when 59 random rows show none outside."
    )
    return [Table("Section 4.5.2: core vectors", columns, rows, note, n_heads=2)]


def theory(points: list[tuple[float, float]], with_rows: bool) -> tuple[float, float] | None:
    """Fit section 5.3's T(n) = a n^(0 or 1) / (1 - sqrt(n1 / n))^2: a and n1, the rows at which the time is infinite.

    In the survey's terms n1 is |w0|^2 / E^2 but for constants, and with the factor n the least time is at n0 = 4 n1.
    """
    known = [(n, t) for n, t in points if t is not None and t > 0.0]
    if len(known) < 3:
        return None
    n, t = np.array(known).T
    best = (math.inf, 0.0, 0.0)
    for n1 in n.min() * np.concatenate([[0.0], np.geomspace(1e-4, 0.99, 200)]):
        shape = (n if with_rows else 1.0) / (1.0 - np.sqrt(n1 / n)) ** 2
        log_a = float(np.mean(np.log(t / shape)))
        miss = float(np.sum((np.log(t / shape) - log_a) ** 2))
        best = min(best, (miss, math.exp(log_a), float(n1)))
    return best[1], best[2]


def _theory_line(name: str, points: list[tuple[float, float]], with_rows: bool) -> list[Series]:
    fit = theory(points, with_rows)
    if fit is None:
        return []
    a, n1 = fit
    sizes = [n for n, _ in points]
    grid = np.geomspace(max(min(sizes), 1.05 * n1), max(sizes), 40)
    values = a * (grid if with_rows else 1.0) / (1.0 - np.sqrt(n1 / grid)) ** 2
    label_ = f"{name}, theory" + (f": n0 = {number(4.0 * n1, 2)}" if with_rows else "")
    return [Series(label_, list(zip(grid.tolist(), values.tolist())), dashed=True, marks=False)]


def figure_3(cells: Cells) -> list[Block]:
    """Seconds to a test error over rows."""
    plots, blocks = [], []
    for name in cells.each("set"):
        some = cells.where(set=name)
        goal = next((c.result["error"] for c in some), None)
        series = [
            Series(s, [(c.settings["rows"], c.result["seconds"]) for c in some.where(solver=s)], dashed="stream" in s)
            for s in some.each("solver")
        ]
        for solver, with_rows in (("pegasos", False), ("svmperf", True)):
            points = [(c.settings["rows"], c.result["seconds"]) for c in some.where(solver=solver)]
            series += _theory_line(solver, points, with_rows)
        title = f"{name}: to a test error of {100 * goal:.2f} %" if goal else name
        plots.append(lines(title, Axis("training rows", True), Axis("processor seconds", True), series))
        rows = []
        for n in some.each("rows"):
            row = [f"{n:,}"]
            for s in some.each("solver"):
                r = some.where(rows=n, solver=s)
                shown = r and r[0].result["seconds"] is not None
                row.append(f"{seconds(r[0].result['seconds'])} (λ {r[0].result['lambda']:g})" if shown else "-")
            rows.append(row)
        blocks.append(Table(f"Figure 3, {name}", ["rows", *some.each("solver")], rows, "-: the error was not met."))
    note = (
        "The best of several lambda counts at each point. The setting up of each solver is part of its time. Theory: "
        "section 5.3's T(n, E), its two constants fitted; n0 is where SVM-perf's time should be least."
    )
    return [Plot("Figure 3: does more data make training faster?", plots, note), *blocks]


def section_4_3(cells: Cells) -> list[Block]:
    """SGD-QN with and without its scaling."""
    rows = []
    for c in cells:
        row = [label(c.settings["set"]), c.settings["loss"], c.settings["variant"]]
        shown = [c.result[passes] for passes in ("1", "3", "10")]
        rows.append([*row, *("diverged" if above is None else number(above) for above in shown)])
    columns = ["set", "loss", "rates", "1 pass", "3 passes", "10 passes"]
    note = "Objective above the optimum, relative. Plain: one rate for all. As published: the secant, cut at 100 λ. "
    note += "The survey's recursion has no cut; on news20 a step of it, which visits all features, would take too long."
    return [Table("Section 4.3.3: does the diagonal scaling of SGD-QN help?", columns, rows, note, n_heads=3)]


def section_4(cells: Cells) -> list[Block]:
    """Pegasos and SVM-perf side by side."""
    rows = []
    for c in cells:
        row = [label(c.settings["set"]), f"{c.settings['lambda']:g}", c.settings["solver"]]
        row += [seconds(c.result[f"{goal:g}"]) for goal in GOALS]
        pair = at_T(cells, c.settings["set"])
        if pair is None:
            row.append("-")
        elif c.settings["solver"] == "pegasos":
            row.append(f"{seconds(pair.pegasos)}, {100 * pair.above:.3g} % above")
        else:
            row.append("later than its limit" if math.isinf(pair.svmperf) else f"so near after {seconds(pair.svmperf)}")
        rows.append(row)
    columns = ["set", "lambda", "solver", "10 %", "1 %", "0.1 %", "T = 100 / lambda"]
    note = "Processor seconds to so much above the optimum; -: not within the time limit. T: the steps that the papers "
    note += "on OCAS and BMRM gave Pegasos, where it is then, and when SVM-perf is as near to the optimum."
    return [Table("Section 4.4.3: Pegasos against SVM-perf", columns, rows, note, n_heads=3)]


class AtT(NamedTuple):
    """Pegasos after T = 100 / lambda steps."""

    pegasos: float  # seconds
    above: float  # the optimum, relative
    svmperf: float  # its seconds to the same


def at_T(cells: Cells, name: str) -> AtT | None:
    """Both at T on one set, or None if Pegasos did not get there."""
    there, points = (cells.value(what, set=name, solver=s) for what, s in (("T", "pegasos"), ("points", "svmperf")))
    if there is None or points is None:
        return None
    return AtT(*there, next((p[0] for p in points if p[2] <= there[1]), math.inf))
