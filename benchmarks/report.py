"""From runs to JSON, Markdown and a plot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .harness import Case, Climb, Run, suboptimality

# ---------------------------------------------------------------- JSON


def as_record(case: Case) -> dict[str, Any]:
    """All that was measured on a case."""
    return {
        "dataset": case.data.name,
        "shape": case.data.X.shape,
        "stored": case.data.stored,
        "loss": case.objective.loss,
        "C": case.objective.C,
        "optimum": case.optimum,
        "reference": {"primal": case.reference.primal, "dual": case.reference.dual, "how": case.reference.how},
        "optimum_uncertain_by": case.uncertainty,
        "elapsed_seconds": case.elapsed,
        "solvers": [_solver_record(case, climb) for climb in case.climbs],
    }


def _solver_record(case: Case, climb: Climb) -> dict[str, Any]:
    reached = {}
    for target in case.options.targets:
        if (best := climb.best(target, case.optimum)) is not None:
            repeats = climb.repeats.get(best.rung, [])
            reached[f"{target:g}"] = {
                "rung": best.rung,
                "median_seconds": climb.median(target, case.optimum),
                "repeats": [_run_record(run, case) for run in repeats],
            }
    return {
        "name": climb.solver.name,
        "threads": climb.solver.threads,
        "prepare_seconds": climb.prepare_seconds,
        "given_up": climb.given_up,
        "runs": [_run_record(run, case) for run in climb.runs],
        "targets": reached,
    }


def _run_record(run: Run, case: Case) -> dict[str, Any]:
    stopped = math.isinf(run.primal)
    return {
        "rung": run.rung,
        "seconds": run.seconds,
        "wall_seconds": run.wall_seconds,
        "cpu_seconds": run.cpu_seconds,
        "primal": None if stopped else run.primal,
        "suboptimality": None if stopped else suboptimality(run, case.optimum),
    }


# ---------------------------------------------------------------- Markdown


def markdown(cases: list[Case], skipped: dict[str, str], machine: dict[str, Any]) -> str:
    """The whole report."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)
    parts = [
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load'][0]:.1f} at the start. {versions}."
        if machine["load"]
        else f"{machine['processor']}, {machine['cores']} cores. {versions}."
    ]
    parts += [f"Skipped: {name} ({reason})." for name, reason in skipped.items()]
    if any(climb.solver.ours for case in cases for climb in case.climbs):
        parts.append(_summary(cases))
    return "\n\n".join(parts + [_case_table(case) for case in cases]) + "\n"


def _summary(cases: list[Case]) -> str:
    """Ours against the fastest peer: with one thread, and with all threads."""
    lines = [
        "## Ours against the fastest peer\n",
        "Seconds (median), and how many times faster ours is than the fastest peer.\n",
        "| data | loss | to | fastest 1-thread peer | ours, 1 thread | fastest peer | ours, any threads |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        for target in case.options.targets:
            cells = []
            for most_threads in (1, math.inf):
                eligible = [climb for climb in case.climbs if climb.solver.threads <= most_threads]
                peer = _fastest(case, target, [climb for climb in eligible if not climb.solver.ours])
                ours = _fastest(case, target, [climb for climb in eligible if climb.solver.ours])
                cells.append(f"{peer[0]:.3g} ({peer[1].solver.name})" if peer else "none")
                if ours is None:
                    cells.append("-")
                else:
                    ratio = f" (**{peer[0] / ours[0]:.2f}x**)" if peer else ""
                    cells.append(f"{ours[0]:.3g}{ratio}")
            lines.append(
                f"| {case.data.name} | {case.objective.loss} | {_target(case, target)} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def _case_table(case: Case) -> str:
    """All solvers on one case."""
    rows, columns = case.data.X.shape
    targets = case.options.targets
    lines = [
        f"## {case.data.name}, {case.objective.loss}, C = {case.objective.C:g}\n",
        f"{rows:,} x {columns:,}, {case.data.stored / rows:.3g} stored values a row. "
        f"P* = {case.optimum:.8g}, proven to {max(case.uncertainty, 0.0):.1e} ({case.reference.how}).\n",
        f"| solver | threads | {' | '.join(f'to {_target(case, target)}' for target in targets)} | conversion |",
        f"|---|---|{'---|' * len(targets)}---|",
    ]
    tightest = min(targets)
    order = sorted(case.climbs, key=lambda climb: climb.median(tightest, case.optimum) or math.inf)
    for climb in order:
        cells = [_cell(case, climb, target) for target in targets]
        conversion = f"+{climb.prepare_seconds:.2g}" if climb.prepare_seconds > 0.001 else ""
        lines.append(f"| {climb.solver.name} | {climb.solver.threads} | {' | '.join(cells)} | {conversion} |")
    return "\n".join(lines)


def _cell(case: Case, climb: Climb, target: float) -> str:
    seconds, best = climb.median(target, case.optimum), climb.best(target, case.optimum)
    if seconds is None or best is None:
        return _missed(case, climb)
    peer = _fastest(case, target, [other for other in case.climbs if not other.solver.ours])
    ratio = f" ({seconds / peer[0]:.2f}x)" if peer else ""
    repeats = climb.repeats.get(best.rung, [])
    misses = sum(suboptimality(run, case.optimum) > target for run in repeats)
    # Waiting for the processor shows as wall time without processor time.
    waited = sum(run.wall_seconds for run in repeats) > 1.2 * sum(run.cpu_seconds for run in repeats)
    return f"{seconds:.3g}{'~' if waited else ''}{ratio}{'†' if 2 * misses > len(repeats) else ''}"


def _missed(case: Case, climb: Climb) -> str:
    """How far a solver came that did not reach the target."""
    finished = [run for run in climb.runs if math.isfinite(run.primal)]
    if climb.given_up.startswith("failed"):
        return climb.given_up
    if not finished:
        return f"- ({climb.given_up})"
    best = min(finished, key=lambda run: run.primal)
    return f"- ({suboptimality(best, case.optimum):.0e} in {best.seconds:.3g} s; {climb.given_up})"


def _fastest(case: Case, target: float, climbs: Iterable[Climb]) -> tuple[float, Climb] | None:
    times = [(seconds, climb) for climb in climbs if (seconds := climb.median(target, case.optimum)) is not None]
    return min(times, key=lambda pair: pair[0], default=None)


def _target(case: Case, target: float) -> str:
    """The target, marked where the reference is not good enough to judge it."""
    return f"{target:.0e}" + (" (reference uncertain)" if case.uncertainty > target else "")


# ---------------------------------------------------------------- plot


def plot(cases: list[Case], path: Path) -> None:
    """Suboptimality over time, a panel for each case, all runs of the ladders."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter

    columns = 2 if len(cases) > 1 else 1
    n_rows = math.ceil(len(cases) / columns)
    figure, axes = pyplot.subplots(n_rows, columns, figsize=(6 * columns, 4 * n_rows), squeeze=False)
    names = sorted({climb.solver.name for case in cases for climb in case.climbs})
    colours = {name: f"C{index}" for index, name in enumerate(names)}
    for case, axis in zip(cases, axes.flat):
        for climb in case.climbs:
            finished = sorted((run for run in climb.runs if math.isfinite(run.primal)), key=lambda run: run.seconds)
            seconds = [run.seconds for run in finished]
            heights = [max(suboptimality(run, case.optimum), 1e-10) for run in finished]
            style = {"color": colours[climb.solver.name], "linewidth": 2.5 if climb.solver.ours else 1.2}
            axis.loglog(seconds, heights, marker="o", markersize=3, label=climb.solver.name, **style)
        for target in case.options.targets:
            axis.axhline(target, color="grey", linewidth=0.8, linestyle=":")
        axis.set(title=f"{case.data.name}, {case.objective.loss}", xlabel="seconds of fit", ylim=(1e-9, 10))
        axis.set_ylabel("relative suboptimality")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.legend(fontsize=7)
    for axis in list(axes.flat)[len(cases) :]:
        axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
