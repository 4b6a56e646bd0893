"""
Stopping and resuming
=====================

A run that is stopped leaves a usable model, says how good it is, and goes on later to the same bits.
"""

# %%
import os
import tempfile

import numpy as np

from maxmargin import ConvergenceDisplay, Problem, solve
from maxmargin.data.generators import make_text

X, y = make_text(n_rows=6_000, n_features=10_000, nonzeros=40)
problem = Problem(X, y, C=10.0, loss="hinge")
file = os.path.join(tempfile.mkdtemp(), "run.ckpt")

# %%
# The first part ends after ten passes, as if the machine had been switched off.
first = solve(problem, "dual_cd", tol=1e-6, max_iter=10, checkpoint=file, check_every=1.0)
print(f"{first.stop_reason} after {first.passes:.0f} passes, gap {first.certificate.relative_gap:.1e}")

# %%
# The same call goes on from the file.
resumed = solve(problem, "dual_cd", tol=1e-6, checkpoint=file, check_every=1.0)
at_once = solve(problem, "dual_cd", tol=1e-6, check_every=1.0)
print(f"{resumed.stop_reason} after {resumed.passes:.0f} passes, gap {resumed.certificate.relative_gap:.1e}")
print("the same bits as in one go:", np.array_equal(resumed.w, at_once.w))

# %%
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ConvergenceDisplay.from_result({"resumed": resumed}, x="passes", ax=ax)
ConvergenceDisplay.from_result({"first part": first}, x="passes", ax=ax, color="#c44e00", lw=3)
ax.axvline(first.passes, color="#9aa5b1", ls=":")
ax.legend(frameon=False)
plt.show()
