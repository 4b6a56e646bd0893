"""
A path over C
=============

One call solves a whole grid of C, each to a proven gap, for about the price of the hardest one.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from maxmargin import PathDisplay, path

X, y = make_classification(
    n_samples=600, n_features=60, n_informative=6, n_redundant=0, flip_y=0.1, class_sep=1.0, random_state=2
)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
models = path(X, y, Cs=12)
models

# %%
# Scores on other rows, and the weights. With small C all weights are small; the informative ones grow first.
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
display = PathDisplay.from_result(models, X_test, y_test, ax=axes[0])
display.plot(axes[1], kind="coef")
plt.show()

# %%
# The model of the best C is an ordinary `LinearSVC`.
best = models.model(list(models.Cs).index(display.best_C_))
print(f"C = {best.C:.3g}, accuracy {best.score(X_test, y_test):.3f}, gap {best.certificate_.relative_gap:.1e}")
