"""Settings of all tests: hypothesis draws the same examples in every run, and a slow machine is no failure."""

import ctypes
import ctypes.util
import signal

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("repeatable")

# Some shells start background jobs with SIGINT ignored, and processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_C = ctypes.CDLL(ctypes.util.find_library("c") or "msvcrt")


@pytest.fixture(autouse=True)
def _same_random_numbers_in_c():
    """LIBLINEAR visits rows in the order of C's rand(): without a seed its answer depends on the tests run before."""
    _C.srand(1)


@pytest.fixture(scope="session")
def client():
    """A Dask cluster of two workers, for all tests of a process: to start one takes seconds."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "thread_unsafe: of scikit-learn's own tests, which `test_scikit_learns_tests` runs"
    )
