"""A plugin of pytest that writes down which functions of the package each test enters, for `tools/mutate.py --map`.

    TEST_MAP=map python -m pytest -p test_map -n 2        # Python 3.12 or later, tools/ on PYTHONPATH

The file (one for each process: map.<pid>) has a line for each test that passed: its name, its processor seconds without
those of compiling, and its functions, "module path::qualified name". Functions that only compiled code calls are not
seen.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

PACKAGE = str(Path(__file__).resolve().parents[1] / "src" / "maxmargin") + os.sep
_events = sys.monitoring
_entered: set[str] = set()


def _enter(code: Any, offset: int) -> Any:
    if PACKAGE and code.co_filename.startswith(PACKAGE):  # a module's names are gone when Python ends
        _entered.add(f"{code.co_filename.removeprefix(PACKAGE)}::{code.co_qualname}")
    return _events.DISABLE  # once in a test is enough


def pytest_configure(config: Any) -> None:
    _events.use_tool_id(_events.PROFILER_ID, "test_map")
    _events.register_callback(_events.PROFILER_ID, _events.events.PY_START, _enter)
    _events.set_events(_events.PROFILER_ID, _events.events.PY_START)


def _compiling() -> float:
    cache = sys.modules.get("maxmargin._code_cache")
    return cache.compile_seconds() if cache else 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, Any, Any]:
    _entered.clear()
    _events.restart_events()
    begun, compiling = time.process_time(), _compiling()
    try:
        return (yield)
    finally:
        if not item.stash.get(_FAILED, False):
            seconds = max(0.0, time.process_time() - begun - (_compiling() - compiling))
            entry = {"test": item.nodeid, "seconds": seconds, "functions": sorted(_entered)}
            with Path(f"{os.environ['TEST_MAP']}.{os.getpid()}").open("a") as file:
                file.write(json.dumps(entry) + "\n")


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or not report.passed
    return report
