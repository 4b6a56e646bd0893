"""A part in which every kind of thing goes wrong: for the tests of the frame, and in no battery."""

from __future__ import annotations

import math
import os
import time

from tests.hunt.frame import Case

LIMIT = 0.05
CASES = 0


def hunt(case: Case) -> None:
    with case.run("a run", allowed=(KeyError,)):
        if case.number == 1:
            case.check(1 > 2, "one is not more than two")
        if case.number == 2:
            case.check_finite([1.0, math.nan], "a number")
        if case.number == 3:
            raise ZeroDivisionError("nobody expected this")
        if case.number == 4:
            begun = time.process_time()
            while time.process_time() < begun + 2 * LIMIT:
                pass
        if case.number == 5:
            os._exit(86)  # as a crash would
        if case.number == 6:
            raise KeyError("allowed")
