"""`cache_size` is a limit that holds."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is told in other units elsewhere")

_FIT = """
import resource, numpy as np
from maxmargin import SVC
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
rng = np.random.default_rng(0)
X = rng.normal(size=({n}, {d}))
y = np.where(rng.random({n}) < 0.3, -1, 1) * np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
SVC(cache_size=5, max_iter=3, solver={solver!r}, n_jobs={threads}).fit(X[:700], y[:700])  # compiled code
before = peak()
model = SVC(cache_size={megabytes}, max_iter={passes}, solver={solver!r}, n_jobs={threads}).fit(X, y)
print(peak() - before)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("solver", ["auto", "smo"])
@pytest.mark.parametrize(("n", "d", "megabytes"), [(9000, 10, 40), (20_000, 40, 80)])
def test_a_fit_takes_no_more_memory_than_its_cache_and_the_data_and_a_fifth(solver, threads, n, d, megabytes):
    code = _FIT.format(
        solver=solver, threads=threads, megabytes=megabytes, passes=2, n=n, d=d
    )  # all values: 309 and 1526 MB
    for _ in range(2):  # the first compiles, which takes memory of its own
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    data = n * d * 8 / 2**20
    assert float(done.stdout) < 1.2 * (megabytes + data) + 10.0  # and what a process takes for itself
