"""Experiments as functions of declared settings, and results that are kept until settings or code change.

An experiment is a list of cells, one measurement each. A cell's key is a hash of

* its settings (a flat dict of strings and numbers),
* the source of the function that measures it, and of the functions and constants of this package that it names, and
* the files of ``maxmargin`` that the experiment declares to use for these settings.

Comments, docstrings and layout do not count. So a run that was stopped goes on where it was, and only what changed is
measured again. Beside each result stands how much of the processors others used meanwhile.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TextIO

import maxmargin
from papers.frame.blocks import Block

Settings = dict[str, Any]
SIZES = ("tiny", "quick", "full")
_PACKAGE = Path(maxmargin.__file__).parent


class Cell(NamedTuple):
    """One measurement that was made."""

    settings: Settings
    result: dict[str, Any]
    seconds: float
    others: float | None = None  # processors that other programs used meanwhile; None: not known


class Cells(list[Cell]):
    """The measurements of an experiment."""

    size = ""  # of the run that they are of

    def where(self, **settings: Any) -> Cells:
        """Those with these settings."""
        return Cells(c for c in self if all(c.settings.get(name) == value for name, value in settings.items()))

    def value(self, name: str, **settings: Any) -> Any:
        """One number of the first cell with these settings; None if there is no such cell or number."""
        found = self.where(**settings)
        return found[0].result.get(name) if found else None

    def each(self, name: str) -> list[Any]:
        """The different values of a setting, in order of appearance."""
        return list(dict.fromkeys(c.settings[name] for c in self if name in c.settings))


class Experiment(NamedTuple):
    """A table or a figure of a paper."""

    name: str  # "table 2"
    cells: Callable[[str], list[Settings]]  # the settings for a size: tiny, quick or full
    measure: Callable[[Settings], dict[str, Any]]
    show: Callable[[Cells], list[Block]]  # tables and plots
    uses: tuple[str, ...] | Callable[[Settings], tuple[str, ...]] = ()  # files and folders of maxmargin
    is_timed: bool = True  # whether its figures are seconds: others are the same on a busy machine


class Verdict(NamedTuple):
    """What became of one claim of a paper."""

    claim: str
    where: str  # in the paper
    verdict: str  # one of VERDICTS
    figure: str  # the paper's number beside ours
    reason: str
    limit: str = ""  # what "holds" asks for, and where that comes from


HOLDS, IN_PART, FAILS, UNKNOWN = "holds", "holds in part", "does not hold here", "not measured"
VERDICTS = (HOLDS, IN_PART, FAILS, UNKNOWN)


def with_limits(verdicts: list[Verdict], limits: tuple[str, ...]) -> list[Verdict]:
    """The verdicts, each with what was asked of it."""
    return [verdict._replace(limit=limit) for verdict, limit in zip(verdicts, limits, strict=True)]


class Paper(NamedTuple):
    """A paper, its experiments, and what its claims are measured by."""

    key: str
    title: str
    citation: str
    experiments: tuple[Experiment, ...]
    verdicts: Callable[[dict[str, Cells]], list[Verdict]]
    differences: tuple[str, ...]  # what is not as in the paper, a sentence or two each
    kept: tuple[str, ...] = ()  # experiments whose tables are recorded beside the verdicts: some text shows them


# ---------------------------------------------------------------- keys


def key_of(experiment: Experiment, settings: Settings) -> str:
    """A hash of all that a cell's result depends on."""
    digest = hashlib.sha256(json.dumps([_name(experiment.measure), settings], sort_keys=True).encode())
    digest.update(code_of(experiment.measure).encode())
    for part in experiment.uses(settings) if callable(experiment.uses) else experiment.uses:
        digest.update(_hash_of_files(part).encode())
    return digest.hexdigest()[:16]


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@cache
def code_of(function: Callable[..., Any]) -> str:
    """The source of a function, and of all functions, classes and constants of this package that it names."""
    parts: dict[str, str] = {}
    _collect(function, parts)
    return "\n".join(parts[name] for name in sorted(parts))


def _collect(thing: Any, parts: dict[str, str]) -> None:
    thing = inspect.unwrap(thing) if callable(thing) else thing
    name = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
    if name in parts or not name.startswith(f"{__name__.partition('.')[0]}."):
        return
    try:
        parts[name] = _essence(inspect.getsource(thing))
    except (OSError, TypeError, SyntaxError):  # no file, or part of an expression
        return
    if not isinstance(thing, FunctionType):
        return
    for used in _names(thing.__code__):
        value = thing.__globals__.get(used)
        if isinstance(value, dict) and any(callable(part) for part in value.values()):
            for part in value.values():
                _collect(part, parts)
        elif isinstance(value, (int, float, str, tuple, dict)) and used.isupper():  # others may change in a run
            parts[f"{name}:{used}"] = f"{used} = {value!r}"
        elif isinstance(value, ModuleType) and value.__name__.startswith("papers."):
            for attribute in _names(thing.__code__):
                if callable(getattr(value, attribute, None)):
                    _collect(getattr(value, attribute), parts)
        elif callable(value):
            _collect(value, parts)


def _names(code: CodeType) -> Iterator[str]:
    """Global names and attributes that some code mentions, that of functions within it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@cache
def _hash_of_files(part: str) -> str:
    path = _PACKAGE / part
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return hashlib.sha256("\n".join(_essence(file.read_text()) for file in files).encode()).hexdigest()


def _essence(source: str) -> str:
    """Code without comments and docstrings."""
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


# ---------------------------------------------------------------- kept results


class Results:
    """What was measured of one paper, in a JSON file that grows with each cell."""

    def __init__(self, path: Path):
        self.path = path
        self.known: dict[str, Any] = self._in_file()

    def _in_file(self) -> dict[str, Any]:
        return json.loads(self.path.read_text())["cells"] if self.path.exists() else {}

    def find(self, experiment: Experiment, settings: Settings) -> Cell | None:
        """The result of a cell, unless something that it depends on has changed."""
        entry = self.known.get(key_of(experiment, settings))
        return Cell(*(entry.get(name) for name in Cell._fields)) if entry else None

    def keep(self, experiment: Experiment, cell: Cell) -> None:
        """Write a new result to the file, at once, and keep what another run may have written there meanwhile."""
        new = {key_of(experiment, cell.settings): {"experiment": experiment.name} | cell._asdict()}
        self.known = self.known | self._in_file() | new
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps({"cells": self.known}, indent=1, allow_nan=False))
        os.replace(temporary, self.path)

    def cells(self, experiment: Experiment, size: str) -> Cells:
        """All cells of an experiment that are known."""
        found = (self.find(experiment, settings) for settings in experiment.cells(size))
        cells = Cells(cell for cell in found if cell is not None)
        cells.size = size
        return cells


class Choice(NamedTuple):
    """Which cells a run measures: all that are not known, or fewer, or more."""

    untimed: bool = False  # only those of experiments whose figures are not seconds
    disturbed: bool = False  # those timed beside other work once more


ALL_MISSING = Choice()


def run(
    paper: Paper,
    results: Results,
    size: str,
    deadline: float,
    choice: Choice = ALL_MISSING,
    out: TextIO = sys.stderr,
) -> dict[str, Cells]:
    """Measure what is not known yet, until the deadline (of `time.monotonic`); all that is known then."""
    wanted = {key_of(e, settings): (e, settings) for e in paper.experiments for settings in e.cells(size)}
    timed = {key_of(e, settings) for e in paper.experiments if e.is_timed for settings in e.cells(size)}
    missing = []
    for key, (experiment, settings) in wanted.items():
        known = results.find(experiment, settings)
        again = choice.disturbed and known is not None and key in timed and is_disturbed(known)
        if (known is None or again) and not (choice.untimed and key in timed):
            missing.append((experiment, settings))
    if missing:
        print(f"{paper.key}: {len(wanted)} cells, {len(missing)} to measure", file=out, flush=True)
    for number, (experiment, settings) in enumerate(missing, start=1):
        if time.monotonic() > deadline:
            print(f"{paper.key}: time is over, {len(missing) - number + 1} cells left out", file=out, flush=True)
            break
        label = " ".join(f"{value}" for value in settings.values())
        print(f"[{number}/{len(missing)}] {paper.key} {experiment.name}: {label}", end=" ", file=out, flush=True)
        cell = _measured(experiment, settings)
        results.keep(experiment, cell)
        print(f"{cell.seconds:.1f} s", file=out, flush=True)
    return {e.name: results.cells(e, size) for e in paper.experiments}


def _measured(experiment: Experiment, settings: Settings) -> Cell:
    started, work, busy = time.perf_counter(), time.process_time(), _busy_seconds()
    result = finite(experiment.measure(settings))
    seconds, work, after = time.perf_counter() - started, time.process_time() - work, _busy_seconds()
    others = None if busy is None or after is None else max(0.0, after - busy - work) / seconds
    return Cell(settings, result, round(seconds, 3), None if others is None else round(others, 2))


def _busy_seconds() -> float | None:
    """Processor seconds of all programs since the machine was started; None where the system does not say."""
    try:
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def is_disturbed(cell: Cell) -> bool:
    """Whether others used more than a tenth of a processor for more than a moment, which the clock cannot tell."""
    return cell.others is not None and cell.others > 0.1 and cell.others * cell.seconds > 0.05


def best_known(experiment: Experiment, results: Results, size: str) -> Cells:
    """The cells of a run of this size; of a quick one instead of a full one, if only that is complete."""
    found = [results.cells(experiment, name) for name in (("full", "quick") if size == "full" else (size,))]
    whole = (cells for cells in found if len(cells) == len(experiment.cells(cells.size)))
    return next(whole, found[0])


def finite(value: Any) -> Any:
    """The same for JSON: plain numbers, and None where a number is not finite."""
    if isinstance(value, dict):
        return {str(name): finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        parts = value.tolist() if hasattr(value, "tolist") else value
        return [finite(part) for part in parts] if isinstance(parts, (list, tuple)) else finite(parts)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value


def product(**choices: Iterable[Any]) -> list[Settings]:
    """Settings with every combination of the choices, the last one changing fastest."""
    found: list[Settings] = [{}]
    for name, values in choices.items():
        found = [settings | {name: value} for settings in found for value in values]
    return found
