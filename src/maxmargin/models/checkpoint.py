"""The state of a run on disk: what is needed to go on as if nothing had happened.

A solver's state is a NamedTuple of arrays, numbers and further NamedTuples, so one pair of functions serves all
solvers. The file is written to one side, synced and renamed: a crash leaves the previous checkpoint whole.
"""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import losses, penalties
from maxmargin.data.memory import InMemory
from maxmargin.models.contents import read_content, write_content
from maxmargin.models.file import ModelFileError, read_model
from maxmargin.problem import Problem
from maxmargin.problem.risks import SumOfLosses

_KIND = "checkpoint"
_NO_ROWS = -1  # not the length of anything

Saved = tuple[Any, list[dict[str, float]], float, float]  # state, history, seconds, next_check


class Checkpoint:
    """A file that holds the latest state of one run.

    Parameters
    ----------
    path : path
    solver : Solver
    problem : Problem
    seed : int or None
        These three are part of the file's fingerprint: a checkpoint of another run is refused, not continued.
    """

    def __init__(self, path: str | PathLike[str], solver: Any, problem: Problem, seed: int | None):
        self.path, self.solver, self.n_rows = Path(path), solver, problem.n_rows
        self.fingerprint = _fingerprint(solver, problem, seed)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint {self.path}: there is no directory {self.path.parent}")

    def save(self, state: Any, history: list[dict[str, float]], seconds: float, next_check: float) -> None:
        """Replace the file by the present state."""
        columns = {name: np.array([entry[name] for entry in history]) for name in (history[0] if history else ())}
        state = state.packed() if hasattr(state, "packed") else state
        tree = {"fingerprint": self.fingerprint, "solver": self.solver.name, "state": state, "history": columns}
        write_content(self.path, _KIND, tree | {"seconds": float(seconds), "next_check": float(next_check)})

    def load(self, template: Any) -> Saved | None:
        """What was saved, the state in the form of `template`, or None if there is no file yet."""
        if not self.path.exists():
            return None
        kind, tree, written_by, _ = read_content(self.path, mmap=False)
        if kind != _KIND:
            raise ValueError(f"{self.path} is not a checkpoint but a {kind} file; name another one")
        if tree.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"checkpoint {self.path} belongs to other data, another solver or other parameters; "
                "delete it to start anew or name another file"
            )
        try:
            columns = {name: column.tolist() for name, column in tree["history"].items()}
            history = [dict(zip(columns, entry)) for entry in zip(*columns.values())]
            kept = tree["state"]
            state = template.restored(kept) if hasattr(template, "packed") else _in_form(template, kept, self.n_rows)
            return state, history, float(tree["seconds"]), float(tree["next_check"])
        except KeyError as missing:
            raise ValueError(
                f"checkpoint {self.path} was written by maxmargin {written_by} and lacks {missing}, which this "
                "version needs; delete it to start anew or name another file"
            ) from None
        except (TypeError, AttributeError, ArithmeticError, ValueError) as error:
            raise ModelFileError(f"{self.path}: not a usable checkpoint: {error!r:.300}") from error


def solver_of(path: str | PathLike[str]) -> str | None:
    """Name of the solver whose state a checkpoint holds; None if there is no file, or it is no checkpoint."""
    if not Path(path).exists():
        return None
    model = read_model(path)
    return model.info.get("solver") if model.kind == _KIND else None


def _fingerprint(solver: Any, problem: Problem, seed: int | None) -> str:
    """Hash of what decides the course of a run, the same on every machine."""
    loss = f"{losses.name_of(problem.loss)}{tuple(problem.loss)}"
    what = f"{solver!r}|{seed}|{loss}|{penalties.name_of(problem.penalty)}|{problem.n_rows}|{problem.n_weights}"
    if problem.has_free_intercept:
        what += "|free intercept"
    risk = getattr(problem, "risk", SumOfLosses())
    what += "" if risk == SumOfLosses() else f"|{risk!r}"
    what += getattr(problem, "fingerprint", "")
    digest = hashlib.sha256(what.encode())
    source = getattr(problem, "source", None) or InMemory((problem.rows,))
    digest.update(source.checksum().encode())
    for array in (problem.y, problem.cost):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _in_form(template: Any, saved: dict[str, Any], n_rows: int) -> Any:
    """A state of the template's structure and types; what does not have them raises."""
    fields = []
    for name, content in zip(template._fields, template):
        found = saved[name]
        if hasattr(content, "_fields"):
            # What grows may be as long as there are rows by chance.
            fields.append(_in_form(content, found, _NO_ROWS if getattr(content, "grows", False) else n_rows))
        elif isinstance(content, np.ndarray):
            fields.append(_checked_array(name, content, found, n_rows))
        else:
            fields.append(type(content)(found))
    return type(template)(*fields)


def _checked_array(name: str, template: np.ndarray, found: Any, n_rows: int) -> np.ndarray:
    """An array of a state, in memory of its own. Compiled code relies on it: it must not lead out of others."""
    if not isinstance(found, np.ndarray) or found.dtype != template.dtype or found.ndim != template.ndim:
        raise ValueError(f"{name} is not an array of {template.ndim} dimensions of {template.dtype}")
    if any(n == n_rows != m for n, m in zip(template.shape, found.shape)):
        raise ValueError(f"{name} of shape {found.shape} where {template.shape} was expected")
    if _are_all_rows(template, n_rows) and len(found) and not 0 <= found.min() <= found.max() < n_rows:
        raise ValueError(f"{name} has numbers of rows that there are not")
    return np.array(found)


def _are_all_rows(array: np.ndarray, n_rows: int) -> bool:
    """Whether an array lists the numbers of all rows: what its like has later are numbers of rows, too."""
    is_list = array.shape == (n_rows,) and array.dtype.kind in "iu"
    return is_list and np.array_equal(np.sort(array), np.arange(n_rows))
