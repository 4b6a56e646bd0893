"""Random damage to bytes and to text."""

from __future__ import annotations

from typing import Any

import numpy as np

TOKENS = (
    b"nan", b"inf", b"-inf", b"1e999", b"-1e-999", b"1e-400", b"0x10", b"1_0", b"1e-_5", b"+", b"-", b".", b"1.", b".5",
    b"1e", b":", b"::", b"0:1", b"1:", b":1", b"1:1:1", b"-1:2", b"99999999999:1", b"2147483648:1", b"2147483647:1",
    b"9223372036854775807:1", b"18446744073709551616:1", b"qid:1", b"qid:", b"qid:x", b"qid:9223372036854775808", b"#",
    b"# c", b"a,b", b"1,2", b"\xef\xbb\xbf", b"\xff", b"\x00", b"\x80", b"\r", b"\v", b"\f", b"\xc2\xa0", b"1" * 400,
    b"0." + b"0" * 330 + b"1", b"1" * 310 + b".5", b"17976931348623157e292", b"4.9e-324", b"2.2250738585072011e-308",
    b"3.4028235677973366e38", b"9007199254740993", b"5e-324", b"3:\xd9\xa3", b"\n", b"\n\n", b"\r\n", b" ", b"\t", b"",
)  # fmt: skip


def pick(rng: np.random.Generator, items: Any) -> Any:
    """One of some items."""
    return items[int(rng.integers(len(items)))]


def damaged(rng: np.random.Generator, content: bytes, tokens: tuple[bytes, ...] = TOKENS) -> bytes:
    """Content with one to four changes at random places."""
    for _ in range(int(rng.integers(1, 5))):
        content = _changed(rng, content, tokens)
    return content


def _changed(rng: np.random.Generator, content: bytes, tokens: tuple[bytes, ...]) -> bytes:
    size = len(content)
    at = int(rng.integers(size + 1))
    end = min(size, at + int(rng.integers(1, 12)))
    kind = int(rng.integers(8))
    if kind == 0:  # a byte is another one
        return content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]
    if kind == 1:  # a bit is the other one
        flipped = bytes([content[at] ^ (1 << int(rng.integers(8)))]) if at < size else b""
        return content[:at] + flipped + content[at + 1 :]
    if kind == 2:  # some bytes are lost
        return content[:at] + content[end:]
    if kind == 3:  # the end is lost
        return content[:at]
    if kind == 4:  # some bytes come twice
        return content[:end] + content[at:end] + content[end:]
    if kind == 5:  # a part from somewhere else
        other = int(rng.integers(size + 1))
        return content[:at] + content[other : other + 20] + content[at:]
    token = pick(rng, tokens)
    blanks = (b" ", b" ") if kind == 6 else (b"", b"")
    return content[:at] + blanks[0] + token + blanks[1] + content[at if rng.random() < 0.5 else end :]
