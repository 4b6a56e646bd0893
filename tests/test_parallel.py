"""`parallel.py`: the same results in the same order, on any number of threads."""

import itertools
import os
import threading
import time

import numpy as np
import pytest

from maxmargin.parallel import effective_n_jobs, map_blocks, map_ordered


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 16])
def test_results_come_in_the_order_of_the_items(n_jobs):
    def slow_first(item):
        time.sleep(0.02 if item == 0 else 0.0)
        return item**2

    assert map_ordered(slow_first, range(9), n_jobs) == [k**2 for k in range(9)]
    assert map_ordered(slow_first, (k for k in range(3)), n_jobs) == [0, 1, 4]
    assert map_ordered(slow_first, [], n_jobs) == []


def test_threads_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=10)
    assert sorted(map_ordered(lambda _: meeting.wait(), range(2), n_jobs=2)) == [0, 1]


def test_one_job_stays_in_the_callers_thread():
    assert set(map_ordered(lambda _: threading.get_ident(), range(3), n_jobs=1)) == {threading.get_ident()}


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_errors_reach_the_caller(n_jobs):
    def refuse_two(item):
        if item == 2:
            raise ZeroDivisionError("item 2")
        return item

    with pytest.raises(ZeroDivisionError, match="item 2"):
        map_ordered(refuse_two, range(5), n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_a_sum_over_blocks_has_the_same_bits_for_any_number_of_threads(n_jobs):
    numbers = np.random.default_rng(0).normal(size=10_000) * 10.0 ** np.arange(10_000).clip(0, 16)
    borders = np.linspace(0, 10_000, 38).astype(np.int64)
    sums = map_blocks(lambda begin, end: numbers[begin:end].sum(), borders, n_jobs)
    in_order = [numbers[begin:end].sum() for begin, end in itertools.pairwise(borders)]
    assert sums == in_order


def test_blocks_are_between_neighbouring_borders():
    assert map_blocks(lambda begin, end: (begin, end), [0, 4, 4, 7]) == [(0, 4), (4, 4), (4, 7)]


def test_number_of_threads():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert effective_n_jobs(None) == 1
    assert effective_n_jobs(5) == 5
    assert effective_n_jobs(-1) == cores
    assert effective_n_jobs(-cores - 3) == 1
    if cores > 1:
        assert effective_n_jobs(-2) == cores - 1
    with pytest.raises(ValueError, match="must not be 0"):
        effective_n_jobs(0)
