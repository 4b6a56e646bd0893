"""A sweep of coordinate descent over the variables that are not shrunk, and what it has seen.

The active variables are the first ones of an order, which is random in each sweep. A variable that seems to stay where
it is, at a bound or at zero, is left out from the next sweep on (shrinking), so that the order of a sweep is known when
it begins. Each visit knows its variable's share of the duality gap; their sum tells when a certificate is worth its
pass over the data. A certificate that finds a larger gap brings variables back, or doubt in the sum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from maxmargin._jit import compiled


class Sweep(NamedTuple):
    """How far the sweep over the active variables is, and what it has seen."""

    n_active: int  # variables of this sweep
    position: int  # of the next one
    n_kept: int  # of those before it, how many the next sweep will visit again
    M_bar: float  # what is beyond these thresholds is shrunk
    m_bar: float
    M: float  # the largest and the least violation of this sweep
    m: float
    gap: float  # the variables' shares of the duality gap, each as its visit found it
    last_gap: float  # the same of the whole sweep before
    doubt: float  # factor by which certificates have found the gap to be larger
    visits: int
    updates: int
    last_violation: float  # M - m of the whole sweep before

    @property
    def is_over(self) -> bool:
        """Whether the next variable is the first one of another sweep."""
        return self.position >= self.n_active

    @property
    def n_coming(self) -> int:
        """How many variables are not shrunk."""
        return self.n_kept + self.n_active - self.position

    @property
    def violation(self) -> float:
        """M - m of the last whole sweep; infinite before the first."""
        return max(0.0, self.M - self.m) if self.is_over and self.n_active else self.last_violation

    @property
    def whole_gap(self) -> float:
        """The gap as the last whole sweep has found it."""
        return self.gap if self.is_over else self.last_gap

    def with_doubt(self, gap: float) -> Sweep:
        """The sweep after a certificate that found this gap, though nothing was shrunk in error."""
        believed = self.doubt * self.whole_gap
        return self._replace(doubt=self.doubt * (max(1.5, gap / believed) if believed > 0.0 else 1.5))

    def restarted(self, n: int, M: float, m: float) -> Sweep:
        """The sweep after some variables were taken back: the next one is over n of them."""
        begun = self._replace(n_active=0, position=0, gap=math.inf, last_gap=math.inf)
        return begun._replace(n_kept=n, M=M, m=m, last_violation=self.violation)


def no_sweep(n: int, M: float = -math.inf) -> Sweep:
    """Before the first sweep, which is over all n variables."""
    inf = math.inf
    return Sweep(0, 0, n, inf, -inf, M, inf, inf, inf, 1.0, 0, 0, inf)


@compiled
def next_sweep(s, M_bar, m_bar, M):
    """The sweep that begins where another one is over."""
    return Sweep(
        n_active=s.n_kept,
        position=0,
        n_kept=0,
        M_bar=M_bar,
        m_bar=m_bar,
        M=M,
        m=math.inf,
        gap=0.0,
        last_gap=s.gap,
        doubt=s.doubt,
        visits=s.visits,
        updates=s.updates,
        last_violation=max(0.0, s.M - s.m) if s.n_active > 0 else s.last_violation,
    )


@compiled
def after_visits(s, position, n_kept, M, m, gap, visits, updates):
    """The same sweep, farther."""
    last_gap, last_violation = s.last_gap, s.last_violation
    return Sweep(
        s.n_active, position, n_kept, s.M_bar, s.m_bar, M, m, gap, last_gap, s.doubt, visits, updates, last_violation
    )  # fmt: skip


@compiled
def predicted_gap(s):
    """The gap that the next sweep would find, if it shrinks as before."""
    gap = s.doubt * s.gap
    if 0.0 < s.last_gap < math.inf:
        gap *= min(1.0, s.gap / s.last_gap)
    return gap
