"""``python -m benchmarks linear``: seconds to a true suboptimality, ours and the peers."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from . import datasets, machine, report
from .harness import Case, Options
from .objectives import LOSSES, Objective
from .peers import peers
from .solvers import our_solvers
from .worker import Worker

_QUICK_SECONDS = 265.0  # for all cases together: --quick ends within five minutes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--quick", action="store_true", help="within five minutes: smaller sets, less patience")
    parser.add_argument("--datasets", nargs="+", help=f"default: {' '.join(datasets.FULL)}; or paths of svmlight files")
    parser.add_argument("--losses", nargs="+", default=LOSSES, choices=LOSSES)
    parser.add_argument("--solvers", nargs="+", help="patterns such as 'maxmargin-*' 'sklearn-*'; default: all")
    parser.add_argument("--c", type=float, default=1.0, help="weight of the loss (default 1)")
    parser.add_argument("--targets", nargs="+", type=float, default=Options.targets, help="default: 1e-3 1e-6")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of the winning settings (default 3)")
    parser.add_argument("--cap", type=float, help="seconds for one fit (default 60, quick 20)")
    default_out = Path(__file__).parent / "results" / "linear.json"
    parser.add_argument("--out", type=Path, default=default_out, help="JSON; the table goes beside it as .md")
    parser.add_argument("--plot", type=Path, help="also plot suboptimality over time (needs matplotlib)")


def run(arguments: argparse.Namespace) -> None:
    """Measure, print the table, write the files."""
    start = time.perf_counter()
    about = machine.describe()
    workers, skipped = _start_workers(arguments.solvers)
    names = arguments.datasets or (datasets.QUICK if arguments.quick else datasets.FULL)
    plan = [(name, loss) for name in names for loss in arguments.losses]
    cases: list[Case] = []
    try:
        for done, (name, loss) in enumerate(plan):
            elapsed = time.perf_counter() - start
            options = _options(arguments, (_QUICK_SECONDS - elapsed) / (len(plan) - done), len(workers))
            print(f"[{elapsed:.0f} s] {name}, {loss} ", end="", file=sys.stderr, flush=True)
            try:
                case = _measure(name, Objective(loss, arguments.c), workers, options)
            except (datasets.MissingData, TimeoutError) as error:
                skipped[f"{name}, {loss}"] = str(error)
                print(error, file=sys.stderr)
                continue
            cases.append(case)
            _write(arguments, cases, skipped, about)
    finally:
        for worker in workers:
            worker.stop()
    print(f"[{time.perf_counter() - start:.0f} s] done: {arguments.out}", file=sys.stderr)
    print(report.markdown(cases, skipped, about))
    if arguments.plot:
        report.plot(cases, arguments.plot)


def _measure(name: str, objective: Objective, workers: list[Worker], options: Options) -> Case:
    if options.budget <= 0.0:
        raise TimeoutError("no time left in --quick")
    case = Case(datasets.get(name), objective, workers, options)
    case.run()
    return case


def _options(arguments: argparse.Namespace, seconds: float, n_solvers: int) -> Options:
    """How thorough to be, where `seconds` are left for each case of a quick run."""
    options = Options(targets=tuple(sorted(arguments.targets, reverse=True)), repeat=arguments.repeat)
    if arguments.quick:
        options = replace(
            options,
            cap=20.0,
            patience=3.0,
            least_patience=1.0,
            budget=0.9 * seconds / n_solvers,
            repeat_within=0.2 * seconds,
        )
    return options if arguments.cap is None else replace(options, cap=arguments.cap)


def _start_workers(patterns: list[str] | None) -> tuple[list[Worker], dict[str, str]]:
    """A process for every solver that is wanted and installed, and why the others are missing."""
    workers, skipped = [], {}
    for solver in our_solvers() + peers():
        if patterns and not any(fnmatch.fnmatch(solver.name, pattern) for pattern in patterns):
            continue
        worker = Worker(solver)
        try:
            worker.start()
            workers.append(worker)
        except ImportError as error:
            skipped[solver.name] = str(error)
    if not workers:
        raise SystemExit(f"no solver to run; there are {', '.join(s.name for s in our_solvers() + peers())}")
    return workers, skipped


def _write(arguments: argparse.Namespace, cases: list[Case], skipped: dict[str, str], about: dict) -> None:
    """After every case, so that an interrupted run leaves what it has."""
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    options = {name: str(value) if isinstance(value, Path) else value for name, value in vars(arguments).items()}
    options.pop("run", None)
    record = {"date": time.strftime("%Y-%m-%d"), "machine": about, "arguments": options, "skipped": skipped}
    record["cases"] = [report.as_record(c) for c in cases]
    arguments.out.write_text(json.dumps(record, indent=1))
    arguments.out.with_suffix(".md").write_text(report.markdown(cases, skipped, about))
