"""A plugin of pytest for tools/mutate.py: chosen tests in a chosen order, each with a limit on its processor time.

The environment variable MUTATE_PLAN is JSON: "tests" (names in the order to run; null: all, in a random order),
"seconds" (for each test) and "report" (a file that gets a line for each test that ended: name, outcome, seconds).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Generator
from typing import Any

import pytest

PLAN = json.loads(os.environ["MUTATE_PLAN"])


def pytest_collection_modifyitems(items: list[Any]) -> None:
    if PLAN["tests"] is not None:
        rank = {name: k for k, name in enumerate(PLAN["tests"])}
        items[:] = sorted((item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid])
    else:
        random.Random(0).shuffle(items)


def _too_long(number: int, frame: Any) -> None:
    pytest.fail(f"more than {PLAN['seconds']} s of processor time")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, Any, Any]:
    begun = time.process_time()
    outcomes: list[str] = []
    item.stash[_OUTCOMES] = outcomes
    try:
        return (yield)
    finally:
        outcome = next((o for o in outcomes if o != "passed"), "passed")
        with open(PLAN["report"], "a") as report:
            report.write(json.dumps([item.nodeid, outcome, time.process_time() - begun]) + "\n")


_OUTCOMES = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    report = yield
    item.stash[_OUTCOMES].append(report.outcome)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, Any, Any]:
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, PLAN["seconds"], PLAN["seconds"])
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
