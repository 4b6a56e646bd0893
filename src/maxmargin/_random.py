"""Random numbers inside kernels: a state of one uint64 that a checkpoint can carry.

Marsaglia's xorshift64 is enough to shuffle rows, needs no multiplication that could overflow in plain Python, and
gives the same numbers compiled and interpreted. Nothing here touches a global generator.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled


def new_rng(seed: int | None) -> np.ndarray:
    """A new random state: an array of one uint64, well mixed from `seed` (None: from the system)."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return np.maximum(state, np.uint64(1))  # zero is the one state that xorshift never leaves


@compiled
def random_below(rng, n):
    """Advance the random state; an integer in 0..n-1, for n below 2^32."""
    x = rng[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    rng[0] = x
    return np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@compiled
def shuffle(items, n, rng):
    """Bring the first n items into random order."""
    for i in range(n):
        j = i + random_below(rng, n - i)
        items[i], items[j] = items[j], items[i]
