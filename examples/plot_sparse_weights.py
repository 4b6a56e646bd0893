"""
The L1 penalty: weights that are exactly zero
=============================================

Two hundred features, eight of which matter. The L2 penalty gives all of them a weight; the L1 penalty finds the eight.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from maxmargin import LinearSVC

rng = np.random.default_rng(0)
X = rng.normal(size=(1200, 200))
truth = np.zeros(200)
truth[:8] = [3, -3, 2, -2, 2, -1.5, 1.5, 1]
y = np.where(X @ truth + rng.normal(scale=2.0, size=1200) > 0, 1, -1)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

# %%
# Each penalty with its best C of a small grid.
grid = {"l2": [1e-4, 1e-3, 1e-2, 1e-1], "l1": [3e-3, 1e-2, 3e-2, 1e-1]}
best = {
    penalty: max(
        (LinearSVC(penalty=penalty, C=C, tol=1e-5).fit(X, y) for C in Cs), key=lambda clf: clf.score(X_test, y_test)
    )
    for penalty, Cs in grid.items()
}
fig, axes = plt.subplots(2, 1, figsize=(7, 4), layout="constrained", sharex=True)
for ax, (penalty, clf) in zip(axes, best.items()):
    weights = clf.coef_[0]
    ax.stem(weights, linefmt="#1f5a99", markerfmt=" ", basefmt="#9aa5b1")
    nonzero = np.count_nonzero(weights)
    ax.set_ylabel(penalty.upper())
    ax.set_title(f"{nonzero} weights are not zero; accuracy {clf.score(X_test, y_test):.3f}", fontsize="small")
axes[-1].set_xlabel("feature (the first eight matter)")
plt.show()

# %%
# The L1 problem is certified as well:
best["l1"].certificate_
