"""Rows of a store that are still of interest, packed in memory, for methods that work on some blocks at a time.

The rows that were asked for last are kept, if they fit into the budget of the store. When fewer than half of them are
asked for, these are copied and the others forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from maxmargin.data.gather import gather
from maxmargin.data.rows import Array, Rows, joined
from maxmargin.data.store.pages import Pages


class Packed:
    """Packed rows, within the budget of the pages that are kept; pages give way to them.

    Parameters
    ----------
    pages : Pages
    """

    def __init__(self, pages: Pages):
        self.pages = pages
        self.n_read = 0  # rows so far that were not in memory
        self._kept: tuple[Rows, Array, int] | None = None

    def get(self, chosen: Array, read: Callable[[], Iterable[Rows]]) -> tuple[Rows, Array]:
        """Rows, those chosen among them, and their numbers; both in ascending order."""
        if self._kept is not None:
            rows, numbers, n_bytes = self._kept
            places = np.searchsorted(numbers, chosen)
            if chosen[-1] <= numbers[-1] and np.array_equal(numbers[places], chosen):
                if 2 * len(chosen) >= len(numbers):
                    return rows, numbers
                rows = gather(rows, places)
                self._keep(rows, chosen, n_bytes)
                return rows, chosen
            self._kept = None
            del rows, numbers  # others will take their room
            self.pages.give_back(n_bytes)
        self.n_read += len(chosen)
        rows = joined(list(read()))
        self._keep(rows, chosen, 0)
        return rows, chosen

    def _keep(self, rows: Rows, numbers: Array, n_before: int) -> None:
        """Keep these rows in the place of others of so many bytes."""
        self.pages.give_back(n_before)
        n_bytes = sum(part.nbytes for part in (*rows, numbers) if isinstance(part, np.ndarray))
        self._kept = (rows, numbers, n_bytes) if self.pages.set_aside(n_bytes) else None
