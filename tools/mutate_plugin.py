"""A plugin of pytest for tools/mutate.py: tests in order of their cost, each with a limit on its processor time.

MUTATE_REPORT names a file that gets a line for each test that ended: name, outcome, seconds. Beside it lies the plan
in JSON: "costs" of tests as far as they are known, "bad" ones to leave out, seconds for a "test" and for "all".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

REPORT = Path(os.environ["MUTATE_REPORT"])
PLAN = json.loads(REPORT.with_name("plan").read_text())
_USUAL = 0.1  # seconds
_OUTCOMES = pytest.StashKey[list[str]]()


def _spent() -> float:
    """Processor time so far, without that of compiling, which the next run need not do again."""
    cache = sys.modules.get("maxmargin._code_cache")
    return time.process_time() - (cache.compile_seconds() if cache else 0.0)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    items[:] = [item for item in items if item.nodeid not in PLAN["bad"]]
    items.sort(key=lambda item: PLAN["costs"].get(item.nodeid, _USUAL))


def _too_long(number: int, frame: Any) -> None:
    pytest.skip("too long")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, Any, Any]:
    begun, outcomes = _spent(), item.stash.setdefault(_OUTCOMES, [])
    try:
        return (yield)
    finally:
        outcome = next((o for o in outcomes if o != "passed"), "passed")
        with REPORT.open("a") as report:
            report.write(json.dumps([item.nodeid, outcome, max(0.0, _spent() - begun)]) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    report = yield
    is_too_long = report.skipped and "too long" in str(report.longrepr)
    item.stash[_OUTCOMES].append("too long" if is_too_long else report.outcome)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    if _spent() > PLAN["all"]:
        pytest.skip("there is no time left")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, Any, Any]:
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, PLAN["test"], PLAN["test"])
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
