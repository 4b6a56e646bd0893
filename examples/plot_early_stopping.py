"""
Early stopping by a callback
============================

`tol` bounds the objective. If the score on other rows is all that counts, a callback can watch it and end the run.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from maxmargin import Problem, solve
from maxmargin.callbacks import EarlyStopping
from maxmargin.data.generators import make_text

X, y = make_text(n_rows=8_000, n_features=20_000, nonzeros=40)
problem = Problem(X[:6_000], y[:6_000], C=3.0, loss="hinge")
X_other, y_other = X[6_000:], y[6_000:]

# %%
# A score of the present weights; here it is also written down.
scores = []


def accuracy(w):
    scores.append(float(np.mean(np.where(X_other @ w > 0, 1, -1) == y_other)))
    return scores[-1]


watch = EarlyStopping(accuracy, patience=4)
result = solve(problem, "dual_cd", tol=1e-6, callbacks=[watch])
print(f"{result.stop_reason} after {result.passes:.0f} passes; the gap was {result.certificate.relative_gap:.1e}")

# %%
# Any callable will do for a callback: it is given a `Progress` and returns True to stop.
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
passes = np.arange(1, len(scores) + 1)
ax.plot(passes, scores, "o-", color="#1f5a99")
best = int(np.argmax(scores))
ax.plot(passes[best], scores[best], "o", ms=9, color="#c44e00", label="kept: watch.best_w")
ax.set(xlabel="passes over the data", ylabel="accuracy on other rows")
ax.legend(frameon=False)
plt.show()
