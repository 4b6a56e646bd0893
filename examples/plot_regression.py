"""
Regression with an epsilon tube
===============================

Support vector regression ignores errors smaller than epsilon, and large errors count linearly: outliers do not pull.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVR

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 120))
y = 1.2 * x + 2 + rng.normal(scale=0.8, size=len(x))
y[::17] += rng.uniform(12, 18, size=len(y[::17]))  # outliers

# %%
epsilon = 1.0
tube = LinearSVR(C=10.0, epsilon=epsilon, penalize_intercept=False, tol=1e-6).fit(x[:, None], y)
squares = LinearSVR(C=10.0, loss="squared_error", penalize_intercept=False, tol=1e-6).fit(x[:, None], y)
print(tube.summary())

# %%
# The rows outside the tube, or on its edge, are the only ones that count.
line = np.linspace(0, 10, 50)
middle = tube.predict(line[:, None])
outside = np.abs(tube.predict(x[:, None]) - y) >= epsilon - 1e-6
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.fill_between(line, middle - epsilon, middle + epsilon, color="#1f5a99", alpha=0.15, label="tube: no cost inside")
ax.plot(line, middle, color="#1f5a99", label="epsilon-insensitive")
ax.plot(line, squares.predict(line[:, None]), color="#c44e00", ls="--", label="squared error")
ax.plot(x[~outside], y[~outside], ".", color="#9aa5b1")
ax.plot(x[outside], y[outside], ".", color="#222", label="support vectors")
ax.legend(frameon=False)
plt.show()
