"""Zstandard streams, from the standard library where it has them (Python 3.14), else from ``zstandard``."""

from __future__ import annotations

import io
from typing import Any

_COMPRESSED_BYTES = 1 << 14  # unpacked at a time: bounds the memory that a hostile file can claim at once


def _library() -> Any:
    """``compression.zstd`` or ``zstandard``; ImportError says what to install."""
    try:
        from compression import zstd  # type: ignore[import-not-found]

        return zstd
    except ImportError:
        pass
    try:
        import zstandard

        return zstandard
    except ImportError:
        raise ImportError("to read and write .zst files:  pip install zstandard") from None


def zstd_errors() -> tuple[type[Exception], ...]:
    """What damaged data raises, as far as a library is there."""
    try:
        return (_library().ZstdError,)
    except ImportError:
        return ()


def open_zstd(raw: Any) -> Any:
    """A stream to read from what the binary file object `raw` holds."""
    library = _library()
    return library.ZstdFile(raw) if hasattr(library, "ZstdFile") else _Frames(raw, library)


def compress_zstd(raw: Any) -> Any:
    """A stream to write, whose closing leaves `raw` open."""
    library = _library()
    if hasattr(library, "ZstdFile"):
        return library.ZstdFile(raw, mode="w")
    return library.ZstdCompressor().stream_writer(raw, closefd=False)


class _Frames(io.RawIOBase):
    """The frames of a stream through ``zstandard``, whose own reader takes a cut-off stream for a whole one."""

    def __init__(self, raw: Any, library: Any):
        self._raw = raw
        self._new_frame = library.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._unpacked:
            more = b""
            if self._frame is not None and self._frame.eof:
                more, self._frame = self._frame.unused_data, None
            more = more or self._raw.read(_COMPRESSED_BYTES)
            if not more:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            self._frame = self._frame or self._new_frame()
            self._unpacked = memoryview(self._frame.decompress(more))
        n_bytes = min(len(target), len(self._unpacked))
        target[:n_bytes] = self._unpacked[:n_bytes]
        self._unpacked = self._unpacked[n_bytes:]
        return n_bytes
