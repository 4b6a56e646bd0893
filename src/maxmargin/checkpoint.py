"""The state of a run on disk: what is needed to go on as if nothing had happened.

A solver's state is a NamedTuple of arrays, numbers and further NamedTuples, so one pair of functions serves all
solvers. The file is written to one side, synced and renamed: a crash leaves the previous checkpoint whole.
"""

from __future__ import annotations

import hashlib
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import losses
from maxmargin.models.file import read_model, write_model
from maxmargin.problem import Problem

_KIND = "checkpoint"

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
        self.path, self.solver = Path(path), solver
        self.fingerprint = _fingerprint(solver, problem, seed)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint {self.path}: there is no directory {self.path.parent}")

    def save(self, state: Any, history: list[dict[str, float]], seconds: float, next_check: float) -> None:
        """Replace the file by the present state."""
        arrays = {f"state.{name}": array for name, array in _pack(state).items()}
        for name in history[0] if history else ():
            arrays[f"history.{name}"] = np.array([entry[name] for entry in history])
        arrays["clock"] = np.array([seconds, next_check])
        write_model(self.path, _KIND, {"fingerprint": self.fingerprint, "solver": self.solver.name}, arrays)

    def load(self, template: Any) -> Saved | None:
        """What was saved, the state in the form of `template`, or None if there is no file yet."""
        if not self.path.exists():
            return None
        model = read_model(self.path, mmap=False)
        if model.kind != _KIND:
            raise ValueError(f"{self.path} is not a checkpoint but a {model.kind} file; name another one")
        if model.info.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"checkpoint {self.path} belongs to other data, another solver or other parameters; "
                "delete it to start anew or name another file"
            )
        try:
            return _rebuild(template, model.arrays)
        except KeyError as missing:
            raise ValueError(
                f"checkpoint {self.path} was written by maxmargin {model.written_by} and lacks {missing}, which this "
                "version needs; delete it to start anew or name another file"
            ) from None


def solver_of(path: str | PathLike[str]) -> str | None:
    """Name of the solver whose state a checkpoint holds; None if there is no file, or it is no checkpoint."""
    if not Path(path).exists():
        return None
    model = read_model(path)
    return model.info.get("solver") if model.kind == _KIND else None


def _rebuild(template: Any, arrays: dict[str, np.ndarray]) -> Saved:
    parts: dict[str, dict[str, np.ndarray]] = {"state": {}, "history": {}, "clock": {}}
    for name, array in arrays.items():
        group, _, rest = name.partition(".")
        parts[group][rest] = array
    columns = [column.tolist() for column in parts["history"].values()]
    history = [dict(zip(parts["history"], entry)) for entry in zip(*columns)]
    seconds, next_check = arrays["clock"].tolist()
    return _unpack(template, parts["state"]), history, seconds, next_check


def _fingerprint(solver: Any, problem: Problem, seed: int | None) -> str:
    """Hash of what decides the course of a run, the same on every machine."""
    loss = f"{losses.name_of(problem.loss)}{tuple(problem.loss)}"
    what = f"{solver!r}|{seed}|{loss}|{problem.penalty}|{problem.n_rows}|{problem.n_weights}"
    if problem.has_free_intercept:
        what += "|free intercept"
    digest = hashlib.sha256(what.encode())
    for part in problem.rows:  # a checksum of their bytes: for large data four times faster than a hash
        digest.update(f"|{zlib.crc32(part.data) if isinstance(part, np.ndarray) else part!r}".encode())
    for array in (problem.y, problem.cost):
        digest.update(array.data)
    return digest.hexdigest()


def _pack(state: Any) -> dict[str, np.ndarray]:
    """Flatten nested NamedTuples to named arrays."""
    arrays: dict[str, np.ndarray] = {}
    for name, content in zip(state._fields, state):
        if hasattr(content, "_fields"):
            arrays |= {f"{name}.{inner}": array for inner, array in _pack(content).items()}
        else:
            arrays[name] = np.asarray(content)
    return arrays


def _unpack(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild a state of the template's structure and types."""
    fields = []
    for name, content in zip(template._fields, template):
        if hasattr(content, "_fields"):
            prefix = f"{name}."
            inner = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            fields.append(_unpack(content, inner))
        elif isinstance(content, np.ndarray):
            fields.append(np.array(arrays[name], dtype=content.dtype))
        else:
            fields.append(type(content)(arrays[name].item()))
    return type(template)(*fields)
