"""
Probabilities from margins
==========================

A margin is no probability. A curve fitted to margins of unseen rows makes one; a reliability diagram shows whether it
is to be trusted.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from maxmargin import LinearSVC

X, y = make_classification(n_samples=12_000, n_features=20, n_informative=5, flip_y=0.15, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
margins = LinearSVC(loss="hinge", C=0.1).fit(X, y).decision_function(X_test)
probabilities = {
    "margins squeezed into 0..1": (margins - margins.min()) / np.ptp(margins),
    "hinge, calibrate()": LinearSVC(loss="hinge", C=0.1).calibrate(X, y).predict_proba(X_test)[:, 1],
    "logistic loss": LinearSVC(loss="logistic", C=0.1).fit(X, y).predict_proba(X_test)[:, 1],
}

# %%
# On the diagonal, of the rows with probability 0.8 eight in ten are positive.
fig, ax = plt.subplots(figsize=(5.4, 4.4), layout="constrained")
for (name, p), color in zip(probabilities.items(), ("#9aa5b1", "#c44e00", "#1f5a99")):
    CalibrationDisplay.from_predictions(y_test, p, n_bins=12, name=name, ax=ax, color=color, strategy="quantile")
    print(f"{name:28} Brier score {brier_score_loss(y_test, p):.4f}")
plt.show()
