"""
Rare positives: weights, F1 and ROC area
========================================

Three percent of the rows are positive. Four models that weigh misses and false alarms differently.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import RocCurveDisplay, f1_score, recall_score, roc_auc_score
from sklearn.model_selection import train_test_split

from maxmargin import LinearSVC, StructuralSVC

X, y = make_classification(
    n_samples=8000, n_features=20, n_informative=6, weights=[0.97], flip_y=0.005, class_sep=1.2, random_state=1
)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
models = {
    "hinge": LinearSVC(C=0.1, loss="hinge"),
    "hinge, balanced": LinearSVC(C=0.1, loss="hinge", class_weight="balanced"),
    "F1": StructuralSVC("f1", C=0.1, max_iter=3000, tol=1e-2),
    "ROC area": StructuralSVC("roc_area", C=0.1),
}
for model in models.values():
    model.fit(X, y)

# %%
# The plain hinge misses many positives, because mistakes on them hardly count. Balanced weights find most of them, and
# many false ones besides. Training for F1 lies between. Training for the ROC area gives a ranking as good as any, and a
# threshold at which as many rows are positive as were in training. Which is best depends
# on what a miss costs: measure it.
print(f"{'trained for':18} recall    F1   ROC area")
for name, model in models.items():
    labels, values = model.predict(X_test), model.decision_function(X_test)
    numbers = recall_score(y_test, labels), f1_score(y_test, labels), roc_auc_score(y_test, values)
    print(f"{name:18} " + "  ".join(f"{number:5.3f}" for number in numbers))

# %%
fig, ax = plt.subplots(figsize=(5.2, 4), layout="constrained")
for (name, model), color in zip(models.items(), ("#9aa5b1", "#1f5a99", "#2e8b57", "#c44e00")):
    values = model.decision_function(X_test)
    if np.ptp(values) > 0:
        RocCurveDisplay.from_predictions(y_test, values, name=name, ax=ax, curve_kwargs={"color": color})
plt.show()
