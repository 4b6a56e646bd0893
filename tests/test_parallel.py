"""`parallel.py`: the same results in the same order, on any number of threads."""

import itertools
import os
import threading
import time
import warnings

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


def test_of_several_errors_the_first_items_is_raised():
    both_have_begun = threading.Barrier(2, timeout=10)
    begun = []

    def fail(item):
        begun.append(item)
        both_have_begun.wait()
        time.sleep(0.0 if item else 0.05)
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        map_ordered(fail, range(50), n_jobs=2)
    assert sorted(begun) == [0, 1]


def test_calls_within_calls_end():
    """More of them than there are threads: whoever waits for a thread works meanwhile."""

    def depth(k):
        return 1 if k == 0 else sum(map_ordered(depth, [k - 1] * 3, n_jobs=3))

    assert map_ordered(depth, [4] * 4, n_jobs=4) == [81] * 4


def test_threads_are_kept():
    def count():
        return sum(thread.name.startswith("maxmargin") for thread in threading.enumerate())

    before = count()
    for _ in range(50):
        meeting = threading.Barrier(2, timeout=10)
        map_ordered(lambda _, meeting=meeting: meeting.wait(), range(2), n_jobs=2)
        time.sleep(0.002)  # a thread says that it is idle after its work is done
    assert 1 <= count() < before + 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_threads_of_its_own():
    map_ordered(lambda item: item, range(4), n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that forks of threaded programs may hang
        child = os.fork()
    if child == 0:
        meeting, done = threading.Barrier(2, timeout=10), False
        try:
            done = sorted(map_ordered(lambda _: meeting.wait(), range(2), n_jobs=2)) == [0, 1]
        finally:
            os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_a_sum_over_blocks_has_the_same_bits_for_any_number_of_threads(n_jobs):
    numbers = np.random.default_rng(0).normal(size=10_000) * 10.0 ** np.arange(10_000).clip(0, 16)
    borders = np.linspace(0, 10_000, 38).astype(np.int64)
    sums = map_blocks(lambda begin, end: numbers[begin:end].sum(), borders, n_jobs)
    in_order = [numbers[begin:end].sum() for begin, end in itertools.pairwise(borders)]
    assert sums == in_order


def test_blocks_are_between_neighbouring_borders():
    assert map_blocks(lambda begin, end: (begin, end), [0, 4, 4, 7]) == [(0, 4), (4, 4), (4, 7)]


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_number_of_threads(cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert effective_n_jobs(None) == 1
    assert effective_n_jobs(5) == 5
    assert effective_n_jobs(-1) == cores
    assert effective_n_jobs(-cores - 3) == 1
    if cores > 1:
        assert effective_n_jobs(-2) == cores - 1
    with pytest.raises(ValueError, match="must not be 0"):
        effective_n_jobs(0)
