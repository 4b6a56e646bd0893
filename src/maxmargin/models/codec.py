"""Values to and from model files: the one way for estimators, foreign models and checkpoints.

A value is a tree of dicts, lists, tuples and NamedTuples whose leaves are numbers, strings, None, arrays of numbers or
strings, and the tags and solvers of this package. Arrays become arrays of the file, named by their place in the tree;
everything else becomes JSON, in which what JSON cannot say is a dict whose first key begins with a dollar sign:

    {"$array": name}                     an array of the file
    {"$strings": name, "kind": "U"}      strings: an array of UTF-8 bytes and one of lengths; or "object", the dtype
    {"$clock": [begin]}, [begin, end]    a number or an array of the clock, see below
    {"$float": "inf"}                    a number that is not finite
    {"$tuple": [...]}, {"$pairs": ...}   a tuple; a dict whose keys are not all plain names
    {"$loss": name, "fields": {...}}     a loss; so, too, {"$kernel": ...} and {"$solver": ...}

What has ``seconds`` in its name was read off a clock and differs from run to run. It goes to an array of its own behind
all others (`maxmargin.models.file`), so that equal data give files that are equal up to there.

Reading runs nothing and believes nothing: an unknown name, a missing array or a wrong type raises, and whoever reads
turns that into a `ModelFileError`.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]

_MOST_CHARACTERS = 2**26  # of an array of strings, every place as long as the longest


class Packed(NamedTuple):
    """What goes to a file."""

    info: dict[str, Any]
    arrays: Arrays
    clock: np.ndarray


def pack(tree: dict[str, Any]) -> Packed:
    """The JSON, the arrays and the clock of a tree.

    Raises
    ------
    TypeError
        For a value that a file cannot hold.

    Examples
    --------
    >>> info, arrays, clock = pack({"w": np.array([1.0, 2.0]), "seconds": 0.5, "limits": (0, math.inf)})
    >>> info
    {'w': {'$array': 'w'}, 'seconds': {'$clock': [0]}, 'limits': {'$tuple': [0, {'$float': 'inf'}]}}
    >>> unpack(info, arrays, clock)
    {'w': array([1., 2.]), 'seconds': 0.5, 'limits': (0, inf)}
    """
    packer = _Packer()
    info = packer.encode(tree, "")
    return Packed(info, packer.arrays, np.concatenate([np.empty(0), *packer.clock]))


class Named(NamedTuple):
    """A solver that was not made: importing solvers takes longer than many a prediction."""

    name: str
    fields: dict[str, Any]


def unpack(info: Any, arrays: Arrays, clock: np.ndarray, *, with_solvers: bool = True) -> Any:
    """The tree that was packed; what makes no sense raises a LookupError, TypeError, ValueError or the like.

    Without solvers, these come as `Named`.
    """
    return _Unpacker(arrays, clock, with_solvers).decode(info)


# ---------------------------------------------------------------- packing


class _Packer:
    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self.clock: list[np.ndarray] = []
        self.n_readings = 0

    def encode(self, value: Any, place: str) -> Any:
        """A value as JSON; `place` is where it stands in the tree."""
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        tag = _tag_of(value)
        if tag is not None:
            kind, name, fields = tag
            return {f"${kind}": name, "fields": self.encode(fields, place)}
        if hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, dict):
            return self._dict(value, place)
        if isinstance(value, list):
            return [self.encode(item, f"{place}.{k}") for k, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$tuple": [self.encode(item, f"{place}.{k}") for k, item in enumerate(value)]}
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"$float": str(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        what = f"parameter {place.removeprefix('params.')}" if place.startswith("params.") else place
        raise TypeError(f"{what}={value!r} cannot be saved")

    def _dict(self, value: dict[Any, Any], place: str) -> Any:
        if not all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {"$pairs": [[self.encode(key, place), self.encode(item, place)] for key, item in value.items()]}
        encoded = {}
        for name, item in value.items():
            is_reading = "seconds" in name.split("_")
            encode = self._reading if is_reading else self.encode
            encoded[name] = encode(item, f"{place}.{name}" if place else name)
        return encoded

    def _array(self, array: np.ndarray, place: str) -> Any:
        if array.dtype.kind in "biuf":
            self.arrays[place] = array
            return {"$array": place}
        if not all(isinstance(item, str) for item in array.ravel()):
            what = "class labels" if place == "classes" else place
            example = type(array.ravel()[0]).__name__
            raise TypeError(f"only numbers and strings can be saved as {what}, not {example}")
        encoded = [str(text).encode("utf-8", "surrogatepass") for text in array]
        self.arrays[f"{place}.text"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        self.arrays[f"{place}.lengths"] = np.array([len(text) for text in encoded], dtype=np.int64)
        return {"$strings": place, "kind": "object" if array.dtype.kind in "OT" else "U"}

    def _reading(self, value: Any, place: str) -> Any:
        """A number or an array that was read off a clock."""
        readings = np.atleast_1d(np.asarray(value, dtype=np.float64))
        begin = self.n_readings
        self.clock.append(readings)
        self.n_readings += len(readings)
        return {"$clock": [begin, self.n_readings] if isinstance(value, np.ndarray) else [begin]}


def _tag_of(value: Any) -> tuple[str, str, dict[str, Any]] | None:
    """What kind of tag of this package a value is, its name and its fields; None if it is none."""
    if not type(value).__module__.startswith("maxmargin."):
        return None
    from maxmargin import kernels, losses
    from maxmargin.solvers import registry
    from maxmargin.solvers.kernel import registry as of_kernels

    if hasattr(value, "init_state"):
        for known in (registry, of_kernels):
            names = (*known.names(), *known.of_all_classes())
            if value.name in names and type(known.get(value.name)) is type(value):
                return "solver", value.name, asdict(value)
        return None
    if type(value) in losses.MARGIN_LOSSES + losses.RESIDUAL_LOSSES:
        return "loss", losses.name_of(value), value._asdict()
    return ("kernel", kernels.name_of(value), value._asdict()) if type(value) in kernels.TAGS else None


# ---------------------------------------------------------------- unpacking


class _Unpacker:
    def __init__(self, arrays: Arrays, clock: np.ndarray, with_solvers: bool):
        self.arrays, self.clock, self.with_solvers = arrays, clock, with_solvers

    def decode(self, value: Any) -> Any:
        """The value that some JSON stands for."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        form = next(iter(value), "")
        if not form.startswith("$"):
            return {name: self.decode(item) for name, item in value.items()}
        content = value[form]
        if form == "$array":
            return self.arrays[content]
        if form == "$strings":
            return _strings(self.arrays[f"{content}.text"], self.arrays[f"{content}.lengths"], value["kind"])
        if form == "$clock":
            return self._readings(*content)
        if form == "$float":
            return float(content)
        if form == "$tuple":
            return tuple(self.decode(item) for item in content)
        if form == "$pairs":
            return {self.decode(key): self.decode(item) for key, item in content}
        if form == "$solver" and not self.with_solvers:
            return Named(str(content), value["fields"])
        return _tagged(form.removeprefix("$"), content, self.decode(value["fields"]))

    def _readings(self, begin: int, end: int | None = None) -> Any:
        last = begin + 1 if end is None else end
        if type(begin) is not int or type(last) is not int or not 0 <= begin <= last <= len(self.clock):
            raise ValueError(f"readings {begin} to {last} of a clock that has {len(self.clock)}")
        return float(self.clock[begin]) if end is None else np.array(self.clock[begin:last])


def _tagged(kind: str, name: str, fields: dict[str, Any]) -> Any:
    """A tag of this package, checked as if a user had made it."""
    if not isinstance(name, str):
        raise TypeError(f"a {kind} with the name {name!r:.50}")
    if kind == "solver":
        from maxmargin.solvers import registry
        from maxmargin.solvers.kernel import registry as of_kernels

        is_linear = name in (*registry.names(), *registry.of_all_classes())
        return type((registry if is_linear else of_kernels).get(name))(**fields)
    if kind == "loss":
        from maxmargin import losses

        return losses.get(type(losses.get(name))(**fields))
    if kind == "kernel":
        from maxmargin import kernels

        return kernels.get(type(kernels.get(name))(**fields))
    raise ValueError(f"there is no kind of value {kind!r:.50}")


def _strings(text: np.ndarray, lengths: np.ndarray, kind: str) -> np.ndarray:
    if text.dtype != np.uint8:
        raise ValueError("text is an array of bytes")
    strings = [part.tobytes().decode("utf-8", "surrogatepass") for part in split(text, lengths)]
    # An array of strings has room for the longest in every place: one long label of many could fill the memory.
    if kind == "U" and max(map(len, strings), default=0) * len(strings) > _MOST_CHARACTERS:
        raise ValueError(f"{len(strings)} strings, some of which are too long")
    return np.array(strings, dtype={"U": str, "object": object}[kind])


def split(content: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Cut an array into pieces, if the lengths are those of pieces."""
    if content.ndim != 1 or lengths.ndim != 1 or lengths.dtype != np.int64:
        raise ValueError("lengths must be a row of integers")
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > len(content) or lengths.sum() != len(content):
        raise ValueError(f"lengths do not divide {len(content)} items")
    return np.split(content, np.cumsum(lengths)[:-1]) if len(lengths) else []
