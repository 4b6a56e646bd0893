"""Writing files so that a failure loses nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file whole or not at all.

    The content goes to a temporary file in the same directory, which takes the file's place, in one step and only when
    it is safely on the disk, at the end of the ``with`` block. If anything fails before that (a full disk, an
    exception, Ctrl-C), the temporary file is removed and an older file of that name is left as it was.

    Symbolic links are followed, and an older file's permissions are kept. What is not a regular file (``/dev/stdout``,
    a named pipe) is written directly, since it cannot be replaced.

    Parameters
    ----------
    path : path-like
        The file to write. Its directory must exist.
    durable : bool
        Wait until the content is safely on the disk. If not, a power cut soon after may still lose it, which is good
        enough for a file whose checksum is kept elsewhere.

    Yields
    ------
    file : binary file object
        Open for writing, seekable if `path` is a regular file.

    Raises
    ------
    OSError
        With `path` as its file name, if the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    temporary = f"{target}.{secrets.token_hex(8)}.tmp"
    try:
        mode = _mode_of(target)
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb") as file:  # a directory is refused here
                yield file
        else:
            with _replacement(target, temporary, mode, durable) as file:
                yield file
    except OSError as error:
        # Errors of write() name no file, those of open() the temporary one: the user knows neither.
        if error.errno is None or error.filename not in (None, temporary):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _mode_of(target: Path) -> int | None:
    """The type and permission bits of a file that may be written, or None if there is no such file."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK):  # replacing it would be possible, but it was protected for a reason
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return mode


@contextlib.contextmanager
def _replacement(target: Path, temporary: str, mode: int | None, durable: bool) -> Iterator[BinaryIO]:
    """A new file, first named `temporary`, that takes the place of `target` at the end."""
    binary = getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | binary, 0o666)  # the umask applies
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    """Make a renaming last through a power cut, where the system lets one ask for it."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):  # the new file is in place; some file systems cannot sync directories
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
