"""The header of a model file: made, and checked word by word before anything is done with the rest.

What is wrong with a header is a `Refused`, without the file's name, which the caller knows.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from maxmargin import __version__

FORMAT_NAME = "maxmargin"
FORMAT_VERSION = 2

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
CODES = {dtype: code for code, dtype in DTYPES.items()}

ALIGNMENT = 64  # of the first array in the file; the header is padded with spaces
MAX_HEADER = 8 << 20  # bytes; parsed JSON takes up to 30 times its length in memory
MAX_DIMENSIONS = 16
_MAX_NAME = 100  # characters
_MAX_DIGITS = 100  # of a number: the state of a random generator has 39

NO_CHECKSUM = "0" * 64
CLOCK = "__clock__"  # the name of the last array, which is no part of the model
A_NAME = f"a string of 1 to {_MAX_NAME} printable ASCII characters, and not '__metadata__' or '{CLOCK}'"


class Refused(Exception):
    """What is wrong with a file."""


class Extent(NamedTuple):
    """Where an array lies in the data, and what it is."""

    dtype: np.dtype
    shape: list[int]
    begin: int
    end: int


class Header(NamedTuple):
    """A header that has been checked."""

    kind: str
    info: dict[str, Any]
    written_by: str
    sha256: str
    version: int
    extents: dict[str, Extent]


def is_name(text: Any) -> bool:
    """Whether something may name an array or a kind of model."""
    is_short = isinstance(text, str) and 0 < len(text) <= _MAX_NAME
    return is_short and text.isascii() and text.isprintable() and text not in ("__metadata__", CLOCK)


# ---------------------------------------------------------------- making


def make_header(kind: str, info: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The padded header, with zeros in the place of the checksum."""
    metadata = {
        "format": FORMAT_NAME,
        "format_version": str(FORMAT_VERSION),
        "maxmargin_version": __version__,
        "sha256": NO_CHECKSUM,
        "kind": kind,
        "info": _info_as_json(info),
    }
    table: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        table[name] = {"dtype": CODES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-(8 + len(header)) % ALIGNMENT)
    if len(header) > MAX_HEADER:
        raise ValueError(f"info and the names of the arrays take {len(header)} bytes; a model file allows {MAX_HEADER}")
    return header


def _info_as_json(info: dict[str, Any]) -> str:
    try:
        text = json.dumps(info, allow_nan=False, default=_plain_number)
        returned = _parse_json(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"info cannot be stored: {error}") from error
    if not isinstance(info, dict) or returned != info:
        raise ValueError("info would come back changed: use dicts with string keys, and lists, not tuples")
    return text


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no type of JSON")


# ---------------------------------------------------------------- checking


def read_header(file: BinaryIO, what: str) -> tuple[Header, bytes, int]:
    """The header at the beginning of a file, checked; its bytes; and where the data begin."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 + length:
        raise Refused(f"not a {what} of maxmargin, or a truncated one")
    if length > MAX_HEADER:
        raise Refused(f"the header takes {length} bytes; at most {MAX_HEADER} are allowed")
    raw = file.read(length)
    return check_header(raw, size - 8 - length), raw, 8 + length


def check_header(header: bytes, data_size: int) -> Header:
    """Parse and check a header that is followed by `data_size` bytes of data."""
    if not header.startswith(b"{"):
        raise Refused("not a model file of maxmargin")
    table = _parse("header", header)
    metadata = _check_metadata(table.pop("__metadata__", None))
    info = _parse("info in the header", metadata["info"])
    version = int(metadata["format_version"])
    extents = _check_table(table, data_size, version)
    return Header(metadata["kind"], info, metadata["maxmargin_version"], metadata["sha256"], version, extents)


def _parse(what: str, text: str | bytes) -> dict[str, Any]:
    try:
        parsed = _parse_json(text if isinstance(text, str) else text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"the {what} is not valid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Refused(f"the {what} is not a dictionary")
    return parsed


def _check_metadata(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT_NAME:
        raise Refused("a safetensors file, but not a model of maxmargin")
    version = metadata.get("format_version")
    if not isinstance(version, str) or not (is_name(version) and version.isdecimal()):
        raise Refused(f"the version of its format, {version!r:.50}, is no number")
    if int(version) > FORMAT_VERSION:
        knows = f"format {version}; this maxmargin knows {FORMAT_VERSION}"
        raise Refused(f"made by a newer maxmargin ({knows}): upgrade maxmargin to read it")
    if int(version) < 1:
        raise Refused(f"there is no version {version} of its format")
    for key in ("maxmargin_version", "kind", "sha256"):
        if not is_name(metadata.get(key)):
            raise Refused(f"the header's {key} is not {A_NAME}")
    if not isinstance(metadata.get("info"), str):
        raise Refused("the header has no info")
    return metadata


def _check_table(table: dict[str, Any], data_size: int, version: int) -> dict[str, Extent]:
    """Check that the arrays follow each other and fill the data exactly."""
    extents = {}
    end = 0
    for k, (name, entry) in enumerate(table.items()):
        is_clock = name == CLOCK and version > 1 and k == len(table) - 1
        if not is_clock and not is_name(name):
            raise Refused(f"the name of an array, {name!r:.50}, is not {A_NAME}")
        extents[name] = _check_entry(f"array {name!r}", entry, end, data_size)
        end = extents[name].end
    if end != data_size:
        raise Refused(f"truncated or extended: the arrays take {end} bytes, but {data_size} bytes of data are there")
    return extents


def _check_entry(where: str, entry: Any, start: int, data_size: int) -> Extent:
    """Check the entry of an array that should begin at `start`."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise Refused(f"{where} is not described by dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise Refused(f"{where} has dtype {code!r:.50}; known are {', '.join(DTYPES)}")
    if not _are_sizes(shape) or len(shape) > MAX_DIMENSIONS:
        raise Refused(f"{where} has shape {shape!r:.50}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise Refused(f"{where} has data_offsets {offsets!r:.50}")
    dtype, (begin, end) = DTYPES[code], offsets
    if not begin == start <= end <= data_size:
        raise Refused(f"{where} has data_offsets {offsets!r:.50}; it should begin at {start} and end by {data_size}")
    if begin % dtype.itemsize:
        raise Refused(f"{where} begins at {begin}, which is no multiple of {dtype.itemsize}")
    # Python's integers do not overflow. NumPy's do, even where another dimension is 0.
    if math.prod(shape) * dtype.itemsize != end - begin or math.prod(filter(None, shape)) >= 2**59:
        raise Refused(f"{where} of shape {shape!r:.50} and dtype {code} does not fill its {end - begin} bytes")
    return Extent(dtype, shape, begin, end)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


# ---------------------------------------------------------------- strict JSON


def _parse_json(text: str) -> Any:
    """Parse JSON as its standard has it: no NaN, no infinity; and no key twice, no number of a million digits."""
    return json.loads(
        text,
        parse_int=lambda digits: int(_short(digits)),
        parse_float=_finite,
        parse_constant=_refuse_number,
        object_pairs_hook=_dict_of_distinct,
    )


def _short(number: str) -> str:
    return number if len(number) <= _MAX_DIGITS else _refuse_number(number)


def _finite(number: str) -> float:
    value = float(_short(number))
    return value if math.isfinite(value) else _refuse_number(number)


def _refuse_number(number: str) -> NoReturn:
    raise ValueError(f"the number {number:.20} is not allowed")


def _dict_of_distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result
