"""Random numbers inside kernels: a state of one uint64 that a checkpoint can carry.

Marsaglia's xorshift64 is enough to shuffle rows, needs no multiplication that could overflow in plain Python, and
gives the same stream compiled and interpreted. Nothing here touches a global generator.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import kernel


def random_stream(seed: int | None) -> np.ndarray:
    """State of a new stream: an array of one uint64, well mixed from `seed` (None: from the system)."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return np.maximum(state, np.uint64(1))  # zero is the one state that xorshift never leaves


@kernel
def random_below(stream, n):
    """Advance the stream; an integer in 0..n-1, for n below 2^32."""
    x = stream[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    stream[0] = x
    return np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@kernel
def shuffle(items, n, stream):
    """Bring the first n items into random order."""
    for i in range(n):
        j = i + random_below(stream, n - i)
        items[i], items[j] = items[j], items[i]
