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
X = rng.normal(size=(9000, 10))
y = np.where(rng.random(9000) < 0.3, -1, 1) * np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
SVC(cache_size=5, max_iter=3, solver={solver!r}).fit(X[:700], y[:700])  # compiled code
before = peak()
model = SVC(cache_size={megabytes}, max_iter={passes}, solver={solver!r}).fit(X, y)
print(peak() - before)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["auto", "smo"])
def test_a_fit_takes_no_more_memory_than_its_cache_and_some(solver):
    code = _FIT.format(solver=solver, megabytes=40, passes=2)  # all kernel values would take 309
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 40 + 35  # blocks of 1024 x 1024 values, copies of the rows
