"""`cache_size` is a limit that holds."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is told in other units elsewhere")

_FIT = """
import resource, numpy as np
from maxmargin import SVC
from maxmargin._on_compile import on_compile
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
rng = np.random.default_rng(0)
X = rng.normal(size=({n}, {d}))
y = np.where(rng.random({n}) < 0.3, -1, 1) * np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
compiled = []
with on_compile(compiled.append):
    SVC(cache_size=5, max_iter=3, solver={solver!r}, n_jobs={threads}).fit(X[:700], y[:700])  # loads compiled code
    before = peak()
    SVC(cache_size={megabytes}, max_iter=2, solver={solver!r}, n_jobs={threads}).fit(X, y)
    print(peak() - before, len(compiled))
"""


def megabytes_of_a_fit(**options):
    """What a fit takes beyond the data, in a process that compiles nothing: compiling takes memory of its own."""
    command = [sys.executable, "-W", "ignore", "-c", _FIT.format(**options)]
    n_compiled = 1
    while n_compiled:  # at the most twice
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        megabytes, n_compiled = map(float, done.stdout.split())
    return megabytes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("n", "d", "megabytes", "solver"),  # all values: 309 and 1526 MB
    [
        (9000, 10, 40, "auto"),
        (9000, 10, 40, "smo"),
        (20_000, 40, 80, "auto"),
        pytest.param(20_000, 40, 80, "smo", marks=pytest.mark.slow),
    ],
)
def test_a_fit_takes_no_more_memory_than_its_cache_and_the_data_and_a_fifth(n, d, megabytes, solver, threads):
    data = n * d * 8 / 2**20
    taken = megabytes_of_a_fit(n=n, d=d, megabytes=megabytes, solver=solver, threads=threads)
    assert taken < 1.2 * (megabytes + data) + 10.0  # and what a process takes for itself
