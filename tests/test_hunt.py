"""The frame of the hunt, and a small share of its battery."""

import contextlib
import io

import pytest
from tests.hunt import PARTS, frame
from tests.hunt.__main__ import main


def test_every_kind_of_finding_is_counted_and_names_its_case():
    tally = frame.watch("selftest", 3, seconds=120.0, limit=8)
    assert [(finding.case, finding.kind) for finding in tally.findings] == [
        ("selftest:3:1", "violation"),
        ("selftest:3:2", "nan"),
        ("selftest:3:3", "exception"),
        ("selftest:3:4", "over_limit"),
        ("selftest:3:5", "violation"),
    ]
    assert "86" in tally.findings[-1].text, "the exit code of the process that died"
    assert tally.line() == "8 cases, 7 runs: 2 violations, 1 NaN, 1 exceptions, 1 fits over their limit"


def test_a_case_can_be_repeated():
    drawn = [frame.one_case("texts", 5, 7).rng.random() for _ in range(2)]
    assert drawn[0] == drawn[1] != frame.one_case("texts", 5, 8).rng.random()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(["--case", "selftest:0:2"]) == 1
        assert main(["--case", "selftest:0:6"]) == 0
    assert "nan: a number" in said.getvalue()
    assert "1 cases, 1 runs: 0 violations, 0 NaN, 0 exceptions, 0 fits over their limit" in said.getvalue()


@pytest.mark.parametrize("part", PARTS)
def test_a_share_of_the_battery_finds_nothing(part):
    module = __import__(f"tests.hunt.{part}", fromlist=["CASES"])
    cases = [frame.one_case(part, 0, number) for number in range(module.CASES)]
    assert [finding for case in cases for finding in case.findings] == []
    assert sum(case.runs for case in cases) >= module.CASES
