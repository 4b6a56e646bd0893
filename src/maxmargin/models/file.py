"""The model file: numbers and names, never code.

The layout is that of safetensors, so any reader of that format opens the arrays:

    8 bytes      n, the length of the header, little-endian
    n bytes      the header, JSON, padded with spaces so that the arrays begin at a multiple of 64:
                 {"__metadata__": {...}, "coef": {"dtype": "F64", "shape": [1, 9], "data_offsets": [0, 72]}, ...}
    the rest     the arrays one after the other, little-endian, in C order, without gaps

``__metadata__`` holds the name and version of this format, the version of maxmargin that wrote the file, what kind of
model it is, everything that is not an array (`info`, as JSON), and the SHA-256 of the model part, taken with the 64
digits of the checksum itself set to zero. The model part is the file without its last array, ``__clock__``: what was
read off a clock, as bytes of float64, and the SHA-256 of those and of the model part's. Equal data, parameters and
versions give the same model part, byte for byte. (In version 1 of the format there is no such array.)

Nothing is believed before it is checked, and nothing is allocated by a number read from a file: offsets must lie in the
file and follow each other, and shapes must fill exactly the bytes between them. The checksum guards against accidents;
against a hostile file it is the other checks that guard.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from typing import Any, BinaryIO

import numpy as np

from maxmargin._files import atomic_write
from maxmargin.models import _header as rules

MAPPED_ABOVE = 256 << 20  # bytes: smaller files are copied to memory, which no change of the file can disturb
_DIGEST = 32  # bytes of a SHA-256


class ModelFileError(ValueError):
    """A file that is no model, or a damaged or hostile one."""


@dataclass(frozen=True, eq=False)
class Model:
    """The content of a model file.

    Attributes
    ----------
    kind : str
        What sort of model it is, such as ``"LinearSVC"``.
    info : dict
        Everything that is not an array.
    arrays : dict of str to ndarray
        The arrays.
    written_by : str
        The version of maxmargin that wrote the file.
    clock : ndarray of float64
        What was read off a clock.
    version : int
        Of the format.
    sha256 : str
        Of the model part: equal for equal models.
    """

    kind: str
    info: dict[str, Any]
    arrays: dict[str, np.ndarray]
    written_by: str
    clock: np.ndarray
    version: int
    sha256: str


def write_model(
    path: str | os.PathLike[str],
    kind: str,
    info: dict[str, Any],
    arrays: dict[str, np.ndarray],
    clock: np.ndarray | None = None,
    *,
    durable: bool = True,
) -> None:
    """Write a model file, whole or not at all: a failure leaves an older file of that name as it was.

    Parameters
    ----------
    path : path-like
        The file to write.
    kind : str
        What sort of model it is, such as ``"LinearSVC"``.
    info : dict
        Everything that is not an array, of what JSON can say: dicts with string keys, lists, strings, finite numbers,
        True, False and None. What is not finite belongs in an array.
    arrays : dict of str to ndarray
        Arrays of floats (32 or 64 bits), integers or bools. They come back with the same values, shape and type, in
        C order.
    clock : ndarray of float64, optional
        What was read off a clock, which is no part of the model.
    durable : bool
        Wait until the file is safely on the disk.

    Raises
    ------
    ValueError
        If something cannot be stored.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/scale.model", "Scale", {"centred": False}, {"factor": np.array([2.0, 0.5])})
    ...     model = read_model(f"{folder}/scale.model")
    >>> model.kind, model.info, model.arrays["factor"].tolist()
    ('Scale', {'centred': False}, [2.0, 0.5])
    """
    if not rules.is_name(kind):
        raise ValueError(f"kind must be {rules.A_NAME}, not {kind!r}")
    # Larger items first: as there are no gaps, this is what aligns every array to its own items.
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    stored = dict(sorted(stored.items(), key=lambda item: (-item[1].itemsize, item[0])))
    content = [array.reshape(-1).view(np.uint8) for array in stored.values()]
    readings = np.ascontiguousarray([] if clock is None else clock, dtype="<f8").view(np.uint8)
    if len(readings):
        stored[rules.CLOCK] = np.empty(len(readings) + _DIGEST, dtype=np.uint8)
    header = rules.make_header(kind, info, stored)

    checksum = _checksum(header, *content)
    with atomic_write(path, durable=durable) as file:
        file.write(_length(header))
        file.write(header.replace(rules.NO_CHECKSUM.encode(), checksum.encode(), 1))
        for part in content:
            file.write(part.data)
        if len(readings):
            file.write(readings.data)
            file.write(_clock_digest(checksum, readings))


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """The array as it will lie in the file: little-endian, C order."""
    if not rules.is_name(name):
        raise ValueError(f"an array's name must be {rules.A_NAME}, not {name!r}")
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<") if array.dtype.kind in "fiub" else array.dtype
    if dtype not in rules.CODES:
        known = ", ".join(known.name for known in rules.CODES)
        advice = "strings belong in info, and Python objects cannot be stored safely"
        raise ValueError(f"array {name!r} is of dtype {array.dtype}; a model file holds {known}: {advice}")
    if array.ndim > rules.MAX_DIMENSIONS:
        raise ValueError(f"array {name!r} has {array.ndim} dimensions, more than {rules.MAX_DIMENSIONS}")
    return np.asarray(array, dtype=dtype, order="C")


def read_model(path: str | os.PathLike[str], *, mmap: bool | None = None) -> Model:
    """Read a model file.

    The checksum is always verified, which reads the file once from end to end.

    Parameters
    ----------
    path : path-like
        A file written by `write_model`.
    mmap : bool, optional
        True: map the arrays from the file, read-only, so that processes that load the same model share its memory. A
        new model saved under the same name does not disturb those in use, as it replaces the file; but a file must not
        be changed in place (as ``cp`` does) while it is mapped. False: the arrays are in memory of their own and may be
        written to. None: mapped if the file has more than 256 MiB.

    Returns
    -------
    model : Model

    Raises
    ------
    ModelFileError
        If the file is not a model file, or is damaged, or was made by a newer maxmargin.
    OSError
        If the file cannot be read.
    """
    name = os.fspath(path)
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a named pipe would wait for ever
        raise ModelFileError(f"{name}: not a regular file")
    with open(path, "rb") as file:
        try:
            return _read(file, mmap)
        except rules.Refused as refusal:
            raise ModelFileError(f"{name}: {refusal}") from None


def _read(file: BinaryIO, mapped: bool | None) -> Model:
    header, raw_header, data_start = rules.read_header(file, "model file")
    if data_start % rules.ALIGNMENT:
        raise rules.Refused(f"the data begin at byte {data_start}, which is no multiple of {rules.ALIGNMENT}")

    size = os.fstat(file.fileno()).st_size
    data = _load(file, size, size > MAPPED_ABOVE if mapped is None else mapped)[data_start:]
    blank = raw_header.replace(header.sha256.encode(), rules.NO_CHECKSUM.encode(), 1)
    last = header.extents.pop(rules.CLOCK, None)
    model_end = len(data) if last is None else last.begin
    if _checksum(blank, data[:model_end]) != header.sha256:
        raise rules.Refused("damaged: the content does not match its checksum")
    clock = _checked_clock(header.sha256, data[model_end:])
    arrays = {}
    for name, extent in header.extents.items():
        part = data[extent.begin : extent.end]
        if extent.dtype == bool and part.max(initial=0) > 1:
            raise rules.Refused(f"array {name!r} of bools has other bytes than 0 and 1")
        arrays[name] = part.view(extent.dtype).reshape(extent.shape)
    return Model(header.kind, header.info, arrays, header.written_by, clock, header.version, header.sha256)


def _checked_clock(sha256: str, content: np.ndarray) -> np.ndarray:
    """The readings at the end of a file, in memory of their own."""
    if not len(content):
        return np.empty(0)
    readings, digest = content[:-_DIGEST], content[-_DIGEST:]
    if len(readings) % 8 or digest.tobytes() != _clock_digest(sha256, readings):
        raise rules.Refused("damaged: the clock does not match its checksum")
    return np.frombuffer(readings.tobytes(), dtype="<f8").astype(np.float64)


def _load(file: BinaryIO, size: int, mapped: bool) -> np.ndarray:
    """The bytes of the file."""
    if mapped:
        return np.frombuffer(mmap(file.fileno(), size, access=ACCESS_READ), np.uint8)
    content = np.empty(size, np.uint8)
    file.seek(0)
    if file.readinto(content.data) != size:  # type: ignore[attr-defined]
        raise rules.Refused("the file became shorter while it was read")
    return content


def _length(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little")


def _checksum(blank_header: bytes, *content: np.ndarray) -> str:
    """SHA-256 of a file whose header has zeros in the place of the checksum."""
    checksum = hashlib.sha256(_length(blank_header) + blank_header)
    for part in content:
        checksum.update(part.data)
    return checksum.hexdigest()


def _clock_digest(checksum: str, readings: np.ndarray) -> bytes:
    return hashlib.sha256(checksum.encode() + readings.tobytes()).digest()
