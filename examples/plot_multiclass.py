"""
Many classes: one against the rest, or all at once
==================================================

One-vs-rest solves a problem for each class. Crammer and Singer's method solves one problem for all of them, which asks
that the right class wins, not that each class is separable from all others.
"""

# %%
# The class in the middle cannot be cut off from the rest by one line: one-vs-rest gives it up.
import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC

rng = np.random.default_rng(0)
centres = np.array([[-3.0, 0.0], [0.0, 0.4], [3.0, 0.0]])
y = rng.integers(3, size=900)
X = centres[y] + rng.normal(scale=0.7, size=(900, 2))
models = {
    "one against the rest": LinearSVC(C=1.0, loss="hinge").fit(X, y),
    "Crammer and Singer": LinearSVC(C=1.0, multi_class="crammer_singer").fit(X, y),
}

# %%
colors = np.array(["#1f5a99", "#c44e00", "#2e8b57"])
grid = np.stack(np.meshgrid(np.linspace(-5.5, 5.5, 240), np.linspace(-3, 3, 140)), axis=-1)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained", sharey=True)
for ax, (name, model) in zip(axes, models.items()):
    regions = model.predict(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.contourf(grid[..., 0], grid[..., 1], regions, [-0.5, 0.5, 1.5, 2.5], colors=colors.tolist(), alpha=0.15)
    ax.scatter(*X.T, c=colors[y], s=7, lw=0)
    recall = (model.predict(X[y == 1]) == 1).mean()
    ax.set_title(f"{name}: accuracy {model.score(X, y):.3f}, of the middle class {recall:.3f}", fontsize="small")
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Both are certified: one certificate for each class, or one for all.
print(len(models["one against the rest"].certificate_), "certificates against one:")
print(models["Crammer and Singer"].certificate_)
