"""What solvers take for their own parameters: each refusal says what would be taken, and that is then true."""

import dataclasses
import math
import re

import numpy as np
import pytest

from maxmargin import SVC, solvers
from maxmargin.solvers import kernel
from maxmargin.solvers.kernel.block_smo import BlockSMO

KINDS = {
    type(one).__name__: type(one) for one in (*map(solvers.get, solvers.names()), *map(kernel.get, kernel.names()))
}
NUMBERS = [
    pytest.param(kind, field.name, field.default, id=f"{name}-{field.name}")
    for name, kind in KINDS.items()
    for field in dataclasses.fields(kind)
    if field.init and (field.default is None or type(field.default) in (int, float))
    if (name, field.name) != ("SVMPerf", "k")  # which depends on the measure
]


def refusal(kind, name, value):
    """What is said against a value; empty if it is taken."""
    said = ""
    try:
        kind(**{name: value})
    except ValueError as error:
        said = str(error)
    assert not said or (name in said and repr(value) in said)
    return said


@pytest.mark.parametrize(("kind", "name", "default"), NUMBERS)
def test_a_number_is_refused_just_where_the_message_says(kind, name, default):
    assert not refusal(kind, name, default)
    said = refusal(kind, name, -1)
    assert said, "no parameter of a solver may be negative"
    assert refusal(kind, name, math.nan)
    assert bool(refusal(kind, name, 0)) == (not _takes(said, 0.0)), said
    assert bool(refusal(kind, name, 1)) == (not _takes(said, 1.0)), said
    assert not refusal(kind, name, 2) or re.search("at most 1|between 0 and 1", said)
    if "whole number" in said:
        for value in (2.5, math.inf, np.float64(3)):
            assert refusal(kind, name, value)
        assert not refusal(kind, name, np.int64(3))
    elif "finite" in said:
        assert refusal(kind, name, math.inf)


def _takes(said, value):
    """Whether a message speaks of a value as one that is taken."""
    least = re.search(r"(\d+) or more|>= (\d+)|at least (\d+)", said)
    if least:
        return value >= float(next(filter(None, least.groups())))
    above = re.search(r"above (\d+)", said)
    if above:
        return value > float(above[1])
    return value >= 0.0 if re.search("or 0 for|between 0 and", said) else value > 0.0


@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_the_smallest_blocks_end(block_size):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = SVC(solver=BlockSMO(block_size=block_size), tol=1e-4, max_time=20).fit(X, X[:, 0] > 0.1)
    assert model.stop_reason_ == "converged"
