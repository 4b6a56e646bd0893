"""Would the tests notice?  Change the source in one place at a time and see whether a test fails.

    python tools/mutate.py --n 30 --seed 1                    # a sample over the package
    python tools/mutate.py --n 10 --only solvers/planes       # of some modules
    python tools/mutate.py --list --n 30 --seed 1             # show the changes, run nothing

A mutant is one operator, constant, comparison, dropped statement or dropped `raise` check. It is tried in a copy of the
tree in a temporary directory, so the working tree is never touched. First come the tests named after the module, then
those that import it, or what imports it. A mutant that no test kills is a gap in the tests, or is equivalent to the
original: both are for a reader to decide. A mutant that runs out of time counts as killed if the original does not.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/maxmargin")
CACHE = os.path.expanduser("~/.cache/maxmargin-mutate")  # of compiled code: the user's own keeps few versions

SWAPS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip
SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "and", ast.Or: "or",
}  # fmt: skip

WORDS = {"failed": "killed", "timeout": "killed t", "passed": "SURVIVED", "undecided": "undecided"}


class Mutant(NamedTuple):
    """Characters begin to end of a file become `new`."""

    path: Path
    line: int
    begin: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path.relative_to(PACKAGE)}:{self.line}  {old!r} -> {new!r}"


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
        return Mutant(path, node.lineno, begin, end, text[begin:end].decode(), new)

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


def sample(n: int, seed: int, only: str) -> list[Mutant]:
    """Mutants drawn from all of the package, each change as likely as any other."""
    every = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        if only in str(path.relative_to(ROOT / PACKAGE)):
            every += mutants_of(path.relative_to(ROOT), path.read_text())
    return random.Random(seed).sample(every, min(n, len(every)))


# ---------------------------------------------------------------- running tests


def tests_of(path: Path, tree: Path) -> list[str]:
    """Test files for a module, nearest first: of its name, that import it, that import what imports it, and so on."""
    files = {file: file.read_text() for file in sorted((tree / "tests").rglob("test_*.py"))}
    sources = {_module(file.relative_to(tree)): file.read_text() for file in sorted((tree / PACKAGE).rglob("*.py"))}
    homes = dict(re.findall(r'"(\w+)": "(maxmargin[\w.]+)"', sources["maxmargin"]))  # of the package's public names
    stem = path.parent.name if path.stem == "__init__" else path.stem.strip("_")
    stem = "cli" if path.parts[2] == "cli" else stem
    chosen = [file for file in files if stem in file.stem or file.stem.removeprefix("test_") in stem]
    seen, ahead = set(), [_module(path)]
    while ahead and len(chosen) < 4:
        seen |= set(ahead)
        for module in ahead:
            names = [name for name, home in homes.items() if home == module]
            chosen += [file for file, text in files.items() if _mentions(text, module, names)]
        ahead = [user for user, text in sources.items() if user not in seen and any(_mentions(text, m) for m in ahead)]
    chosen = list(dict.fromkeys(chosen))[:6]
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


def run_tests(tree: Path, tests: list[str], timeout: float) -> str:
    """What became of the tests: "passed", "failed" or "timeout"."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "XDG_CACHE_HOME": CACHE}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(
        command, cwd=tree, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timeout"
    return "passed" if process.returncode == 0 else "failed"


def try_one(mutant: Mutant, tree: Path, timeout: float) -> str:
    """Change the copy, run the tests, change it back."""
    file = tree / mutant.path
    original = file.read_bytes()
    file.write_bytes(original[: mutant.begin] + mutant.new.encode() + original[mutant.end :])
    try:
        fate = run_tests(tree, tests_of(mutant.path, tree), timeout)
    finally:
        file.write_bytes(original)
    if fate == "timeout" and run_tests(tree, tests_of(mutant.path, tree), timeout) == "timeout":
        return "undecided"
    return fate


def main() -> int:
    """Exit code 1 if a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=20, help="number of mutants (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="only modules whose path contains TEXT")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="for one mutant's tests")
    parser.add_argument("--list", action="store_true", help="print the mutants and the tests, run nothing")
    arguments = parser.parse_args()
    mutants = sample(arguments.n, arguments.seed, arguments.only)
    if arguments.list:
        for mutant in mutants:
            print(mutant, "|", " ".join(tests_of(mutant.path, ROOT)))
        return 0
    fates = dict.fromkeys(WORDS, 0)
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache"))
        for number, mutant in enumerate(mutants, start=1):
            start = time.monotonic()
            fate = try_one(mutant, tree, arguments.timeout)
            fates[fate] += 1
            print(f"{number:3d} {WORDS[fate]:9s} {time.monotonic() - start:5.0f} s  {mutant}", flush=True)
    killed = fates["failed"] + fates["timeout"]
    print(f"{killed} of {len(mutants)} killed, {fates['passed']} survived, {fates['undecided']} undecided (--timeout)")
    return int(fates["passed"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
