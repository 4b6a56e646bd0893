"""Would the tests notice?  Change the source in one place at a time and see whether a test fails.

    python tools/mutate.py --n 30 --seed 1                    # a sample over the package
    python tools/mutate.py --n 10 --only solvers/planes       # of some modules
    python tools/mutate.py --list --n 30 --seed 1             # show the changes, run nothing
    python tools/mutate.py --n 200 --log new.log --minutes 5  # a part of it: the next call with this log goes on
    python tools/mutate.py --again mutants.log                # those that survived in a log
    python tools/mutate.py --n 200 --map map.*                # with the tests that enter a function, see test_map.py

A mutant is one operator, constant, comparison, dropped statement or dropped `raise` check. It is tried in a copy of the
tree in a temporary directory, so the working tree is never touched.

Its tests are those that enter the changed function (--map; or its callers, if only compiled code enters it), as many as
--seconds allow: first those of the files nearest to the module, then the cheapest case of each test function in turn.
Without a map they are those of the files named after the module, then of those that import it, or what imports it: the
two nearest files before the others, up to --seconds for each of the two groups. The first failure ends it, if that test
passes on the original; so does a test that takes far longer than on the original.

Compiled modules are tried without the compiler first, which sees most changes at once, and what survives then with it:
a test of a compiled loop is often far too long without. All limits are processor time. Each run is a fork of this
process, which has imported everything but the package; what tests cost is kept from run to run beside the cache.

A mutant that no test kills is a gap in the tests, or is equivalent to the original: a reader decides, and writes the
latter, with the reason, into equivalent_mutants.tsv.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import contextlib
import importlib
import itertools
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/maxmargin")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.tsv")
CACHE = Path(os.environ.setdefault("NUMBA_CACHE_DIR", os.path.expanduser("~/.cache/maxmargin-mutate")))
NOT_COMPILED = ("cli", "dask", "displays", "estimators", "export", "models", "selection")
FAR = (
    "test_dask.py",
    "test_docs.py",
    "test_papers.py",
    "test_site.py",
    "test_scikit_learns_tests.py",
    "test_sklearn_svm.py",
)
TEST_SECONDS = {True: 12.0, False: 2.0}  # of processor time for a test that is worth running, with and without compiler
ENOUGH = 30  # tests that enter a function: of fewer, those of its callers are asked, too
OVERHEAD = 0.01  # seconds of pytest for each test
COMPILING = 300.0  # seconds of a run, at most
MUCH_LONGER = 6.0  # than on the original: the test would not end, or its work has grown beyond what it is
IMPORTED = ("numpy", "scipy.sparse.linalg", "scipy.optimize", "sklearn.svm", "sklearn.utils.estimator_checks", "numba")

SWAPS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip
SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "and", ast.Or: "or",
}  # fmt: skip

WORDS = {"failed": "killed", "timeout": "killed t", "passed": "SURVIVED", "equivalent": "equivalent"}


class Mutant(NamedTuple):
    """Bytes begin to end of a file, which are in this column of this line of code, become `new`."""

    path: Path
    line: int
    begin: int
    end: int
    old: str
    new: str
    code: str
    column: int

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path.relative_to(PACKAGE)}:{self.line}  {old!r} -> {new!r}  in  {self.code[:90]}"

    @property
    def key(self) -> str:
        """A name that stays the same when other lines come or go."""
        return "\t".join([str(self.path.relative_to(PACKAGE)), self.code, str(self.column), " ".join(self.new.split())])


# ---------------------------------------------------------------- making mutants


def mutants_of(path: Path, source: str) -> list[Mutant]:
    """Every change that is tried in a file; strings, annotations and imports are left alone."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    text = source.encode()  # the parser counts bytes

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column

    def change(node: ast.AST, begin: int, end: int, new: str) -> Mutant:
        line = bisect.bisect_right(starts, begin)
        whole = text[starts[line - 1] : starts[line]].decode()
        code = " ".join(whole.split())
        return Mutant(path, line, begin, end, text[begin:end].decode(), new, code, begin - starts[line - 1])

    def between(left: ast.expr, right: ast.expr, sign: str) -> tuple[int, int] | None:
        """Where an operator stands between two operands."""
        begin = offset(left.end_lineno, left.end_col_offset)
        place = text.find(sign.encode(), begin, offset(right.lineno, right.col_offset))
        return None if place < 0 else (place, place + len(sign))

    found = []
    skipped = {id(part) for node in ast.walk(tree) for part in _annotations(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        pairs = []
        if isinstance(node, ast.BinOp):
            pairs = [(node.left, node.op, node.right)]
        elif isinstance(node, ast.Compare):
            pairs = list(zip([node.left, *node.comparators], node.ops, node.comparators, strict=False))
        elif isinstance(node, ast.BoolOp):
            pairs = [(a, node.op, b) for a, b in zip(node.values, node.values[1:], strict=False)]
        for left, operator, right in pairs:
            place = between(left, right, SIGNS.get(type(operator), "\0"))
            if place:
                found.append(change(node, *place, SWAPS[type(operator)]))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            begin, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
            new = repr(not node.value) if isinstance(node.value, bool) else f"({node.value!r} + 1)"
            found.append(change(node, begin, end, new))
        if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise | ast.Continue | ast.Break):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            begin, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
            if not is_text and node.col_offset:  # the module level only defines names
                found.append(change(node, begin, end, "pass"))
    return found


def _annotations(node: ast.AST) -> list[ast.AST]:
    """Parts that are no code to run."""
    parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [inner for part in parts if part is not None for inner in ast.walk(part)]


def all_mutants(only: str = "") -> list[Mutant]:
    """Every mutant of the modules whose path contains `only`."""
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / PACKAGE).rglob("*.py"))]
    return [mutant for path in paths if only in str(path) for mutant in mutants_of(path, (ROOT / path).read_text())]


def equivalents() -> dict[str, str]:
    """Keys of the mutants that were looked at and change nothing, with the reason."""
    lines = [line.rpartition("\t") for line in EQUIVALENT.read_text().splitlines() if line and line[0] != "#"]
    return {key: reason for key, _, reason in lines}


# ---------------------------------------------------------------- which tests


def tests_of(path: Path, tree: Path) -> list[str]:
    """Test files for a module, nearest first: of its name, that import it, that import what imports it, and so on."""
    files = {file: file.read_text() for file in sorted((tree / "tests").rglob("test_*.py")) if file.name not in FAR}
    sources = {_module(file.relative_to(tree)): file.read_text() for file in sorted((tree / PACKAGE).rglob("*.py"))}
    homes = dict(re.findall(r'"(\w+)": "(maxmargin[\w.]+)"', sources["maxmargin"]))  # of the package's public names
    stem = path.parent.name if path.stem == "__init__" else path.stem.strip("_")
    stem = "cli" if path.parts[2] == "cli" else stem
    chosen = [file for file in files if file.stem == f"test_{stem}"]
    chosen += [file for file in files if file.stem.startswith(f"test_{path.parent.name}")]
    chosen += [file for file in files if stem in file.stem or file.stem.removeprefix("test_") in stem]
    if len(path.parts) > 4:  # of a family of modules: solvers/kernel, data/store
        chosen += [file for file in files if path.parent.name in str(file.relative_to(tree))]
    seen, ahead = set(), [_module(path)]
    while ahead and len(chosen) < 4:
        seen |= set(ahead)
        for module in ahead:
            names = [name for name, home in homes.items() if home == module]
            chosen += [file for file, text in files.items() if _mentions(text, module, names)]
        ahead = [user for user, text in sources.items() if user not in seen and any(_mentions(text, m) for m in ahead)]
    chosen = list(dict.fromkeys(chosen))[:8]
    if path.parts[2] in ("solvers", "problem", "losses") and path.parts[3] != "budget":
        chosen.append(tree / "tests/test_contract.py")
    return [str(file.relative_to(tree)) for file in dict.fromkeys(chosen)]


def _module(path: Path) -> str:
    return ".".join(path.relative_to("src").with_suffix("").parts).removesuffix(".__init__")


def _mentions(text: str, module: str, names: Sequence[str] = ()) -> bool:
    """Whether a file imports a module, or one of the names of the package that live there."""
    home, _, name = module.rpartition(".")
    imports = rf"(from|import) {re.escape(module)}\b|from {re.escape(home)} import [^\n]*\b{name}\b"
    public = rf"from maxmargin import [^\n]*\b({'|'.join(names)})\b" if names else imports
    return bool(re.search(imports, text) or re.search(public, text))


def is_python(path: Path) -> bool:
    """Whether a module has no code to compile: its tests run with the compiler, and nothing is compiled anew."""
    return path.parts[2] in NOT_COMPILED


class Map:
    """Which tests enter which functions, as `test_map.py` has written it down."""

    def __init__(self, files: Sequence[Path]):
        self.seconds: dict[str, float] = {}
        self.tests: dict[str, set[str]] = {}
        for line in (line for file in files for line in file.read_text().splitlines()):
            entry = json.loads(line)
            self.seconds[entry["test"]] = entry["seconds"]
            for function in entry["functions"]:
                self.tests.setdefault(function, set()).add(entry["test"])
        self.users: dict[str, set[str]] = {}  # of a name: the functions that mention it
        for path in sorted((ROOT / PACKAGE).rglob("*.py")):
            module = path.relative_to(ROOT / PACKAGE)
            for name, function in _functions(ast.parse(path.read_text())):
                for node in ast.walk(function):
                    mentioned = getattr(node, "id", None) or getattr(node, "attr", None)
                    if mentioned and mentioned != function.name:
                        self.users.setdefault(mentioned, set()).add(f"{module}::{name}")

    def tests_for(self, mutant: Mutant, nearest: Sequence[str], seconds: float) -> list[str]:
        """Tests that enter the changed function, one half of the time for those in the nearest files."""
        found = self._entering(mutant)
        near = {test for test in found if test.partition("::")[0] in nearest[:2]}
        chosen = [*self._varied(near, seconds / 2), *self._varied(found - near, seconds / 2)]
        return list(dict.fromkeys(chosen)) or list(nearest[:2])

    def _varied(self, tests: set[str], seconds: float) -> list[str]:
        """As many as there is time for: the cheapest case of each test function, then the next one of each."""
        order, rounds, seen = sorted(tests, key=lambda test: (self.seconds[test], test)), {}, {}
        for test in order:
            function = test.partition("[")[0]
            rounds[test] = seen[function] = seen.get(function, -1) + 1
        order.sort(key=rounds.__getitem__)  # stable: cheap ones first in each round
        sums = itertools.accumulate(self.seconds[test] + OVERHEAD for test in order)
        return [test for k, (test, spent) in enumerate(zip(order, sums, strict=True)) if spent <= seconds or k == 0]

    def _entering(self, mutant: Mutant) -> set[str]:
        module, around = mutant.path.relative_to(PACKAGE), ""
        for name, function in _functions(ast.parse((ROOT / mutant.path).read_text())):
            if function.lineno <= mutant.line <= function.end_lineno:
                around = name  # the innermost comes last
        ahead, seen, found = {f"{module}::{around}"}, set(), set()
        while around and ahead:
            found = found.union(*(self.tests.get(function, set()) for function in ahead))
            if len(found) >= ENOUGH:
                return found
            seen |= ahead
            names = {function.rpartition("::")[2].rpartition(".")[2] for function in ahead}
            ahead = set().union(*(self.users.get(name, set()) for name in names)) - seen
        inside = [tests for function, tests in self.tests.items() if function.startswith(f"{module}::")]
        return found.union(*inside)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Functions and their qualified names, outer ones before inner ones."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
            yield from _functions(node, f"{prefix}{node.name}.<locals>.")
        else:
            yield from _functions(node, f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix)


class Tests:
    """What is known of tests, with or without the compiler: their processor time, and whether the original passes."""

    def __init__(self, tree: Path, compiled: bool):
        self.tree = tree
        self.compiled = compiled
        self.limit = TEST_SECONDS[compiled]
        self.file = CACHE / f"tests-{'compiled' if compiled else 'plain'}.json"
        known = json.loads(self.file.read_text()) if self.file.exists() else {"costs": {}, "bad": []}
        self.costs: dict[str, float] = known["costs"]
        self.bad = set(known["bad"])  # those that fail on the original, or take too long there
        self.fine: set[str] = set()

    def keep(self) -> None:
        """Write down what tests cost, for later runs."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({"costs": self.costs, "bad": sorted(self.bad)}))

    def run(self, files: list[str], seconds: float) -> tuple[str, list[Any]]:
        """What became of tests ("passed", "failed", "timeout"), and name, outcome and seconds of each that ended."""
        report = self.tree.parent / "report"
        report.write_text("")
        plan = {"costs": self.costs, "bad": sorted(self.bad), "test": self.limit, "all": seconds}
        environment = {
            "PYTHONPATH": os.pathsep.join([str(self.tree / "src"), str(self.tree / "tools")]),
            "HOME": str(self.tree.parent),
            "NUMBA_DISABLE_JIT": str(int(not self.compiled)),
            "MUTATE_REPORT": str(report),
        }
        report.with_name("plan").write_text(json.dumps(plan))
        arguments = ["-q", "-x", "-p", "no:cacheprovider", "-p", "mutate_plugin", *files]
        code = _exit_code(arguments, self.tree, environment, seconds + (COMPILING if self.compiled else 0.0))
        reports = [json.loads(line) for line in report.read_text().splitlines()]
        for name, outcome, cost in reports:
            if outcome == "passed":
                self.costs[name] = min(cost, self.costs.get(name, math.inf))
        fate = {0: "passed", 5: "passed", -signal.SIGXCPU: "timeout", -signal.SIGKILL: "timeout"}.get(code, "failed")
        return fate, reports

    def is_fine(self, name: str) -> bool:
        """Whether a test passes on what is now in the tree, the original, within the limit."""
        if name not in self.fine:
            fate, reports = self.run([name], 60.0)
            if fate == "passed" and reports and reports[0][1] == "passed":
                self.fine.add(name)
            else:
                self.bad.add(name)
        return name in self.fine

    def is_much_slower(self, reports: list[Any]) -> str:
        """The first test that took too long and takes a fraction of it on what is now in the tree, the original."""
        for name, outcome, seconds in reports:
            if outcome == "too long":
                is_known = self.costs.get(name, math.inf) * MUCH_LONGER < seconds
                if is_known or (self.is_fine(name) and self.costs[name] * MUCH_LONGER < seconds):
                    return str(name)
        return ""


def _exit_code(arguments: list[str], tree: Path, environment: dict[str, str], seconds: float) -> int:
    """Run pytest in a fork of this process, as if started in `tree`; the code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.setpgrp()  # a group that can be killed, in the session of who started it all
            os.chdir(tree)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 20, int(seconds) + 25))
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
            os.environ.update(environment)
            sys.modules["numba"].config.reload_config()
            sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
            code = int(sys.modules["pytest"].main(arguments))
        finally:
            os._exit(code)  # nothing of this process is the fork's to tidy up
    deadline = time.monotonic() + 3600.0  # by the clock: a deadlock
    while not (ended := os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests have started, too
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if ended else -signal.SIGXCPU


def try_one(mutant: Mutant, tests: Tests, seconds: float, entering: Map | None) -> tuple[str, str]:
    """Change the copy, run the tests, change it back: the mutant's fate and who killed it."""
    nearest = tests_of(mutant.path, tests.tree)
    groups = [entering.tests_for(mutant, nearest, seconds)] if entering else [nearest[:2], nearest[2:6]]
    file, tried = tests.tree / mutant.path, 0
    original = file.read_bytes()
    changed = original[: mutant.begin] + mutant.new.encode() + original[mutant.end :]
    for files in filter(None, groups):
        for _ in range(9):  # until the one that fails is one that passes on the original
            _write(file, changed)
            try:
                fate, reports = tests.run(files, seconds)
            finally:
                _write(file, original)
            tried += sum(outcome == "passed" for _, outcome, _ in reports)
            slow = tests.is_much_slower(reports) if fate == "passed" else ""
            if slow:
                return "timeout", f"{tried} tests, {slow}"
            if fate == "passed":
                break
            killer = reports[-1][0] if reports else ""
            if not killer and fate == "failed" and not tests.run(files, 0.0)[1]:
                files = nearest[:2]  # these tests cannot be found in the original either: the map is old
            elif fate == "timeout" or not killer or tests.is_fine(killer):
                return fate, f"{tried} tests, {killer or 'collection'}"
    return "passed", f"{tried} tests"


def _write(file: Path, content: bytes) -> None:
    """Write a file with a date that it never had: Python takes its bytecode for that of a date, to the second."""
    later = int(file.stat().st_mtime) + 2
    file.write_bytes(content)
    os.utime(file, (later, later))


def tell(line: str, log: Path | None) -> None:
    """Print, and write into the log if there is one."""
    print(line, flush=True)
    if log:
        with log.open("a") as file:
            file.write(line + "\n")


def earlier(log: Path | None) -> dict[int, str]:
    """Numbers and fates of the mutants in a log."""
    text = log.read_text() if log and log.exists() else ""
    found = re.findall(r"^ *(\d+) (killed t|killed|SURVIVED|equivalent) ", text, re.MULTILINE)
    fates = {word: fate for fate, word in WORDS.items()}
    return {int(number): fates[word] for number, word in found}


def main() -> int:
    """Exit code 1 if a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=20, help="number of mutants (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="only modules whose path contains TEXT")
    parser.add_argument("--seconds", type=float, default=20.0, help="processor time of a group of tests (20)")
    parser.add_argument("--compiled-seconds", type=float, default=40.0, help="with the compiler, if compiled (40)")
    parser.add_argument("--share", default="1/1", metavar="K/N", help="every N-th mutant from the K-th on")
    parser.add_argument("--log", type=Path, help="write there, too; what stands in it is not tried again")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no mutant after as many")
    parser.add_argument("--again", type=Path, metavar="LOG", help="the mutants that survived in this log")
    parser.add_argument("--map", type=Path, nargs="+", metavar="FILE", help="which tests enter what (test_map.py)")
    parser.add_argument("--list", action="store_true", help="print the mutants and the tests, run nothing")
    arguments = parser.parse_args()
    mutants = all_mutants(arguments.only)
    if arguments.again:
        keys = {line[4:] for line in arguments.again.read_text().splitlines() if line.startswith("key ")}
        mutants = [mutant for mutant in mutants if mutant.key in keys]
    else:
        mutants = random.Random(arguments.seed).sample(mutants, min(arguments.n, len(mutants)))
    entering = Map(arguments.map) if arguments.map else None
    if arguments.list:
        for mutant in mutants:
            tests = tests_of(mutant.path, ROOT)
            print(mutant, "|", *(entering.tests_for(mutant, tests, arguments.seconds) if entering else tests))
        return 0
    fates, known, done = dict.fromkeys(WORDS, 0), equivalents(), earlier(arguments.log)
    deadline = time.monotonic() + 60.0 * arguments.minutes
    for fate in done.values():
        fates[fate] += 1
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache"))
        plain, compiled = Tests(tree, compiled=False), Tests(tree, compiled=True)
        for module in IMPORTED:
            importlib.import_module(module)
        first, step = map(int, arguments.share.split("/"))
        for number, mutant in list(enumerate(mutants, start=1))[first - 1 :: step]:
            start = time.monotonic()
            if number in done or start > deadline:
                continue
            fate, words = ("equivalent", known[mutant.key]) if mutant.key in known else ("passed", "")
            if not words and not is_python(mutant.path):
                fate, words = try_one(mutant, plain, arguments.seconds, entering)
            if fate == "passed" and (is_python(mutant.path) or arguments.compiled_seconds):
                seconds = arguments.seconds if is_python(mutant.path) else arguments.compiled_seconds
                fate, more = try_one(mutant, compiled, seconds, entering)
                words = f"{words} and compiled {more}" if words else more
            fates[fate] += 1
            line = f"{number:3d} {WORDS[fate]:10s} {time.monotonic() - start:5.0f} s  {mutant}  ({words})"
            tell(line + (f"\nkey {mutant.key}" if fate == "passed" else ""), arguments.log)
            plain.keep()
            compiled.keep()
    print(", ".join(f"{fates[fate]} {word.lower()}" for fate, word in WORDS.items()))
    return int(fates["passed"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
