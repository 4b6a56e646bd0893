"""``python -m tests.hunt``: see the package's text."""

from __future__ import annotations

import argparse
import sys

from tests.hunt import PARTS, frame


def main(argv: list[str]) -> int:
    if argv[:1] == ["--worker"]:
        part, seed, first, seconds, limit = argv[1:]
        frame.work(part, int(seed), int(first), float(seconds), float(limit))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description="The random battery.")
    parser.add_argument("--minutes", type=float, default=1.0, help="for all parts together (1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--cases", type=float, default=float("inf"), metavar="N", help="at most, for each part")
    parser.add_argument("--case", metavar="PART:SEED:NUMBER", help="try this one again, in this process")
    arguments = parser.parse_args(argv)
    if arguments.case:
        part, seed, number = arguments.case.split(":")
        case = frame.one_case(part, int(seed), int(number))
        total = frame.Tally(1, case.runs, case.findings)
        for finding in case.findings:
            _tell(finding)
    else:
        total = frame.Tally()
        for part in arguments.parts:
            seconds = 60.0 * arguments.minutes / len(arguments.parts)
            tally = frame.watch(part, arguments.seed, seconds, arguments.cases, tell=_tell)
            print(f"{part}, seed {arguments.seed}: {tally.line()}", flush=True)
            total.add(tally)
    print(f"all: {total.line()}")
    return int(bool(total.findings))


def _tell(finding: frame.Finding) -> None:
    print(f"{finding.kind}: {finding.text}\n    python -m tests.hunt --case {finding.case}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
