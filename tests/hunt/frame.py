"""What all parts share: cases, what was found in them, and a worker process that a crash or a hang does not stop."""

from __future__ import annotations

import contextlib
import importlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin._code_cache import compile_seconds

KINDS = ("violation", "nan", "exception", "over_limit")
_TITLES = ("violations", "NaN", "exceptions", "fits over their limit")
_PATIENCE = 240.0  # seconds of processor time for a case: compiling is part of a first one
_SILENCE = 3600.0  # seconds by the clock without a sign of life, however busy the machine is: a deadlock
_ROOT = Path(__file__).resolve().parents[2]


class Finding(NamedTuple):
    """Something that should not be: the case to repeat, one of `KINDS`, and words."""

    case: str
    kind: str
    text: str


@dataclass
class Case:
    """One case: its source of randomness, and where runs are counted and findings kept.

    Parameters
    ----------
    part : str
    seed : int
    number : int
    limit : float
        Seconds of processor time that a run may take.
    """

    part: str
    seed: int
    number: int
    limit: float = 60.0
    runs: int = 0
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([zlib.crc32(self.part.encode()), self.seed, self.number])

    @property
    def name(self) -> str:
        """What ``--case`` takes."""
        return f"{self.part}:{self.seed}:{self.number}"

    def found(self, kind: str, text: str) -> None:
        """Keep a finding of one of `KINDS`."""
        assert kind in KINDS
        self.findings.append(Finding(self.name, kind, text))

    def check(self, holds: Any, text: str) -> None:
        """A violation unless it holds."""
        if not holds:
            self.found("violation", text)

    def check_finite(self, numbers: Any, text: str) -> None:
        """A NaN or an infinity among numbers is a finding."""
        if not np.isfinite(np.asarray(numbers, dtype=float)).all():
            self.found("nan", text)

    @contextlib.contextmanager
    def run(
        self, what: str, allowed: tuple[type[BaseException], ...] = (), limit: float | None = None
    ) -> Iterator[None]:
        """Count one run. An exception that is not allowed is a finding, and so is too long a time.

        An allowed exception ends the block silently. Time is the processor's, without what compiling took.
        """
        self.runs += 1
        limit = self.limit if limit is None else limit
        begun = _working_time()
        try:
            yield
        except allowed:
            pass
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.found("exception", f"{what}: {error!r:.300} at {Path(where.filename).name}:{where.lineno}")
        seconds = _working_time() - begun
        if seconds > limit:
            self.found("over_limit", f"{what}: {seconds:.1f} s of processor time, {limit:g} are allowed")


def _working_time() -> float:
    """Seconds of processor time, but for those in which functions were compiled (counted by the clock: never less)."""
    return time.process_time() - compile_seconds()


def one_case(part: str, seed: int, number: int) -> Case:
    """Try a case in this process."""
    module = importlib.import_module(f"tests.hunt.{part}")
    case = Case(part, seed, number, module.LIMIT)
    try:
        module.hunt(case)
    except Exception:
        case.found("exception", traceback.format_exc(limit=-3))
    return case


# ---------------------------------------------------------------- a worker, and who watches it


def work(part: str, seed: int, first: int, seconds: float, limit: float) -> None:
    """Try cases until the time is over or there are enough; tell of each on stdout, before and after."""
    deadline = time.monotonic() + seconds
    number = first
    while time.monotonic() < deadline and number < limit:
        print(json.dumps({"begin": number}), flush=True)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, _PATIENCE)  # SIGPROF ends the process, even within compiled code
        case = one_case(part, seed, number)
        print(json.dumps({"end": number, "runs": case.runs, "findings": case.findings}), flush=True)
        number += 1


@dataclass
class Tally:
    """What a part has come to."""

    cases: int = 0
    runs: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add another part's."""
        self.cases, self.runs = self.cases + other.cases, self.runs + other.runs
        self.findings += other.findings

    def line(self) -> str:
        """The summary."""
        kinds = [finding.kind for finding in self.findings]
        counts = ", ".join(f"{kinds.count(kind)} {title}" for kind, title in zip(KINDS, _TITLES))
        return f"{self.cases:,} cases, {self.runs:,} runs: {counts}"


def watch(part: str, seed: int, seconds: float, limit: float = float("inf"), tell: Any = None) -> Tally:
    """Let a worker try cases of a part; if it dies or hangs, note the case and begin again behind it."""
    tally, number = Tally(), 0
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and number < limit:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.hunt", "--worker", part, str(seed), str(number)]
        command += [str(left), str(limit)]
        with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
            lines, said = _lines(worker), _said(worker)
            ended = number - 1
            for line in lines:
                if line is None:
                    break
                if "begin" in line:
                    number = line["begin"]
                    continue
                ended = number
                found = [Finding(*finding) for finding in line["findings"]]
                tally.add(Tally(1, line["runs"], found))
                for finding in found if tell else ():
                    tell(finding)
            hangs = line is None
            if hangs:
                worker.kill()
            code = worker.wait()
        if hangs or code:
            case = f"{part}:{seed}:{number}"
            if hangs or code == -getattr(signal, "SIGPROF", 0):
                limit_of = f"{_SILENCE:g} s" if hangs else f"{_PATIENCE:g} s of processor time"
                finding = Finding(case, "over_limit", f"no end after {limit_of}")
            else:
                finding = Finding(case, "violation", f"the process died with code {code}: {''.join(said)[-1500:]}")
            tally.add(Tally(int(number > ended), 0, [finding]))
            if tell:
                tell(finding)
        number += 1
    return tally


def _lines(worker: Any) -> Iterator[Any]:
    """What a worker tells, parsed; None, at the end, if it is silent for too long."""
    told: queue.Queue[Any] = queue.Queue()

    def read() -> None:
        for text in worker.stdout:
            told.put(json.loads(text))
        told.put(StopIteration)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            item = told.get(timeout=_SILENCE)
        except queue.Empty:
            yield None
            return
        if item is StopIteration:
            return
        yield item


def _said(worker: Any) -> list[str]:
    """The worker's stderr, as it grows."""
    said: list[str] = []
    threading.Thread(target=lambda: said.extend(worker.stderr), daemon=True).start()
    return said
