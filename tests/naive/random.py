"""The package's random numbers, again."""

import numpy as np


class Xorshift:
    """Marsaglia's xorshift64 (13, 7, 17) in Python's own integers."""

    def __init__(self, seed):
        self.x = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])

    def below(self, n):
        self.x ^= (self.x << 13) % 2**64
        self.x ^= self.x >> 7
        self.x ^= (self.x << 17) % 2**64
        return (self.x >> 32) * n >> 32

    def shuffle(self, items):
        for i in range(len(items)):
            j = i + self.below(len(items) - i)
            items[i], items[j] = items[j], items[i]
