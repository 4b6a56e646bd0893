"""The measure of the house: files of a length that one reads, functions of few values."""

import ast
from pathlib import Path

import pytest

import maxmargin

_PACKAGE = Path(maxmargin.__file__).parent
_FILES = sorted(_PACKAGE.rglob("*.py"))
_MOST_LINES = 400
_MOST_VALUES = 12

# What users set by keywords, as scikit-learn's estimators have it: a list of options is not a tangle.
_OPTIONS = {("solvers/base.py", "run")}


def values_of(function, records):
    """How many values a function is given; a parameter that it unpacks counts as its entries, a record as one."""
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    entries = {a.arg: 1 for a in given if a.arg not in ("self", "cls")}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in entries:
            for goal in node.targets:
                if isinstance(goal, ast.Tuple) and node.value.id not in records:
                    entries[node.value.id] = max(entries[node.value.id], len(goal.elts))
    for a in given:
        kind = a.annotation
        if isinstance(kind, ast.Subscript) and getattr(kind.value, "id", "") == "tuple":
            parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
            if not any(getattr(part, "value", None) is Ellipsis for part in parts):
                entries[a.arg] = max(entries[a.arg], len(parts))
    return sum(entries.values())


# Parameters of compiled functions, which have no annotations, by what they are everywhere: NamedTuples.
RECORDS = {"block", "labels", "program"}


@pytest.mark.parametrize(("text", "expected"), [
    ("def f(a, b, *, c): pass", 3),
    ("def f(self, a): pass", 1),
    ("def f(a, pair):\n    x, y = pair", 3),
    ("def f(block):\n    rows, y, cost, loss = block", 1),
    ("def f(a: tuple[int, float, float], b: tuple[int, ...]): pass", 4),
])  # fmt: skip
def test_values_are_counted_with_those_in_tuples(text, expected):
    assert values_of(ast.parse(text).body[0], RECORDS) == expected


def test_no_function_takes_more_values_than_one_can_follow():
    too_many, seen = {}, set()
    for path in _FILES:
        where = path.relative_to(_PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and values_of(node, RECORDS) > _MOST_VALUES:
                seen.add((where, node.name))
                is_estimator = where.startswith("estimators/") and node.name == "__init__"
                if not is_estimator and (where, node.name) not in _OPTIONS:
                    too_many[where, node.name] = values_of(node, RECORDS)
    assert too_many == {}
    assert seen >= _OPTIONS, "an exception that is needed no longer"


def test_no_file_is_too_long():
    lengths = {path.relative_to(_PACKAGE).as_posix(): len(path.read_text().splitlines()) for path in _FILES}
    assert len(lengths) > 200
    assert {name: n for name, n in lengths.items() if n > _MOST_LINES} == {}
