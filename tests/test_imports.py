"""The import graph of the package: who knows of whom, imports inside functions included."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import maxmargin

_PACKAGE = Path(maxmargin.__file__).parent


def name_of(path):
    parts = path.relative_to(_PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in _PACKAGE.rglob("*.py")}


def imports_of(node):
    """Modules of the package that some code imports anywhere, but for those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in MODULES)
        elif isinstance(child, ast.ImportFrom) and child.module in MODULES:
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in MODULES else child.module
        yield from imports_of(child)


def test_imports_have_no_cycles():
    graph = {name: set(imports_of(ast.parse(path.read_text()))) - {name} for name, path in MODULES.items()}
    assert len(graph["maxmargin.solvers.base"]) > 3
    assert "maxmargin.models.checkpoint" in graph["maxmargin.solvers.base"]  # which it imports inside a function
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError("modules that need each other: " + " -> ".join(reversed(error.args[1]))) from None


def test_no_private_name_crosses_modules():
    """Names of another module that begin with an underscore are its own business; modules of one package may share."""
    crossing = []
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in MODULES:
                private = [a.name for a in node.names if a.name.startswith("_") and not a.name.startswith("__")]
                crossing += [f"{name}: {node.module}.{p}" for p in private if f"{node.module}.{p}" not in MODULES]
    assert crossing == []
