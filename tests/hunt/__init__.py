"""The hunt: a random battery that goes on for as long as it is given, and can repeat any of its cases.

    python -m tests.hunt --minutes 10                 all parts, each for its share of the time
    python -m tests.hunt --minutes 1 --seed 7 --parts texts models
    python -m tests.hunt --case texts:7:123           one case again, as it was

A part is a module here with

    LIMIT       seconds of processor time that one run may take
    CASES       cases of the part in the normal suite (tests/test_hunt.py)
    hunt(case)  makes a problem from `case.rng` and tries it; what is wrong goes to `case`, see `frame.Case`

and its name in `PARTS`. Cases are independent of one another and depend on nothing but part, seed and number.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # tests/naive

PARTS = ("texts", "models", "commands", "fits", "machines", "stores", "surroundings")
