"""
Exact, budget, Nystroem
=======================

Three ways to a curved boundary: all support vectors, a fixed number of them, or a map into features.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from maxmargin import SVC, BudgetSVC, LinearSVC

X, y = make_moons(n_samples=4000, noise=0.25, random_state=0)
X_test, y_test = make_moons(n_samples=4000, noise=0.25, random_state=1)
models = {
    "SVC, exact": SVC(C=10.0, gamma=3.0),
    "BudgetSVC, 20 vectors": BudgetSVC(C=10.0, gamma=3.0, budget=20),
    "Nystroem, 20 features": make_pipeline(Nystroem(gamma=3.0, n_components=20, random_state=0), LinearSVC(C=10.0)),
}
for model in models.values():
    model.fit(X[:100], y[:100])  # compile

# %%
# The same data, the same kernel; what differs is the size of the model.
fig, axes = plt.subplots(1, 3, figsize=(10.5, 3.6), layout="constrained", sharey=True)
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 160), np.linspace(-1.5, 2, 120)), axis=-1)
for ax, (name, model) in zip(axes, models.items()):
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    values = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.scatter(*X[::8].T, c=np.where(y[::8] == 1, "#1f5a99", "#c44e00"), s=6, alpha=0.35, lw=0)
    ax.contour(
        grid[..., 0], grid[..., 1], values, [-1, 0, 1], colors="#222", linestyles=["--", "-", "--"], linewidths=1
    )
    vectors = getattr(model, "support_vectors_", None)
    if vectors is not None and len(vectors) < 100:
        ax.plot(*vectors.T, "o", mfc="none", mec="#222", ms=6)
    count = f"{len(vectors)} support vectors" if vectors is not None else "20 features"
    ax.set_title(f"{name}\n{count}, {model.score(X_test, y_test):.3f}, {1000 * seconds:.0f} ms", fontsize="small")
    ax.set(xticks=[], yticks=[])
plt.show()
