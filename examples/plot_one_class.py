"""
One class: what is usual, what is not
=====================================

Rows of one kind are given; what is unlike them should be found. `nu` bounds the share of training rows left outside.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from maxmargin import OneClassSVM

rng = np.random.default_rng(0)
usual = np.concatenate([rng.normal([-1.5, 0], 0.45, (400, 2)), rng.normal([1.5, 0.4], 0.45, (400, 2))])
strange = rng.uniform([-4, -3], [4, 3], (60, 2))
model = OneClassSVM(nu=0.05, gamma=0.8).fit(usual)
outside = (model.predict(usual) == -1).mean()
print(f"{100 * outside:.1f} % of the training rows are outside, nu allows {100 * model.nu:g} %")
print(model.summary())

# %%
# The border, and new rows on both sides of it.
grid = np.stack(np.meshgrid(np.linspace(-4, 4, 160), np.linspace(-3, 3, 120)), axis=-1)
values = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
flagged = model.predict(strange) == -1
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.contourf(grid[..., 0], grid[..., 1], values, [0, values.max()], colors=["#1f5a99"], alpha=0.12)
ax.contour(grid[..., 0], grid[..., 1], values, [0], colors=["#1f5a99"])
ax.scatter(*usual.T, s=6, color="#9aa5b1", lw=0, label="training rows")
ax.scatter(*strange[flagged].T, s=22, color="#c44e00", lw=0, label="new rows, flagged")
ax.scatter(*strange[~flagged].T, s=22, color="#2e8b57", lw=0, label="new rows, usual")
ax.legend(frameon=False, loc="lower right")
plt.show()
