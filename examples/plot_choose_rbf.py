"""
Choosing C and gamma
====================

A kernel model has two parameters that depend on each other. `suggest_rbf` finds the region in seconds; a small grid
around it shows the landscape.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from maxmargin import BudgetSVC, suggest_rbf

X, y = make_moons(n_samples=2500, noise=0.28, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
suggested = suggest_rbf(X, y)
suggested

# %%
# The landscape: accuracy on other rows.
Cs, gammas = np.logspace(-2, 3, 6), np.logspace(-2, 2, 5)
scores = np.array([[BudgetSVC(C=C, gamma=g, budget=60).fit(X, y).score(X_test, y_test) for g in gammas] for C in Cs])
fig, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
picture = ax.pcolormesh(gammas, Cs, scores, cmap="viridis", shading="nearest", vmin=scores.max() - 0.12)
ax.set(xscale="log", yscale="log", xlabel="gamma", ylabel="C")
ax.plot(suggested["gamma"], suggested["C"], "o", ms=12, mfc="none", mec="#c44e00", mew=2.5, label="suggest_rbf")
fig.colorbar(picture, label="accuracy", extend="min")
ax.legend(loc="lower left")
plt.show()

# %%
best = BudgetSVC(budget=60, **suggested).fit(X, y).score(X_test, y_test)
print(f"suggested: {best:.3f}; best of the grid: {scores.max():.3f}")
