"""
Watching the gap fall: solvers side by side
===========================================

All solvers solve the same problem and prove the same thing, so they can be compared: by passes over the data, and by
seconds.
"""

# %%
# Many rows, few features: the case in which first-order methods crawl.
import matplotlib.pyplot as plt

from maxmargin import ConvergenceDisplay, Problem, solve
from maxmargin.data.generators import make_dense

X, y = make_dense(n_rows=8_000)
problem = Problem(X, y, C=1.0, loss="hinge")
names = ["dual_cd", "ocas", "sgd", "augmented_lagrangian", "interior_point"]
few = Problem(X[:300], y[:300], C=1.0, loss="hinge")
for name in names:  # compile first: seconds should be those of the work
    solve(few, name, tol=1e-6, max_iter=200)

# %%
# The same loss, the same C, the same certificate, looked at after every pass.
results = [solve(problem, name, tol=1e-6, max_iter=200, check_every=1.0) for name in names]
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained", sharey=True)
for ax, x in zip(axes, ("passes", "seconds")):
    ConvergenceDisplay.from_result(results, x=x, ax=ax)
    ax.set_xscale("log")
axes[1].set_ylabel("")
plt.show()

# %%
# Where each of them ended:
for result in results:
    gap = result.certificate.relative_gap
    print(f"{result.solver.name:22} {result.stop_reason:10} {result.passes:6.1f} passes, gap {gap:.1e}")
