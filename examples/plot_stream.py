"""
Learning from a file larger than memory
=======================================

`OnlineSVC` reads svmlight text chunk by chunk; its memory does not grow with the file.
"""

# %%
# A file. It stands for one of any size: nothing below holds all of it.
import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC, OnlineSVC, load_svmlight, save_svmlight, stream_svmlight
from maxmargin.data.generators import make_text

folder = tempfile.mkdtemp()
file = os.path.join(folder, "text.svm.gz")
X, y = make_text(n_rows=20_000, n_features=20_000, nonzeros=40)
save_svmlight(file, X[:16_000], y[:16_000])
X_test, y_test = X[16_000:], y[16_000:]
del X, y
print(f"{os.path.getsize(file) / 1e6:.1f} MB on disk")

# %%
# One pass, in the order of the file, with a look at other rows now and then.
clf, seen, scores = OnlineSVC(alpha=1e-5), [], []
for chunk, labels in stream_svmlight(file, n_features=20_000, chunk_rows=500):
    clf.partial_fit(chunk, labels, classes=[-1, 1])
    seen.append(clf.t_)
    scores.append(clf.score(X_test, y_test))

# %%
# What the optimum of the same problem does, for comparison. (It takes all rows in memory.)
X, y = load_svmlight(file, n_features=20_000)
optimum = LinearSVC(loss="hinge", C=1 / (1e-5 * len(y))).fit(X, y).score(X_test, y_test)
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(seen, scores, "o-", ms=3, color="#1f5a99", label="OnlineSVC, one pass")
ax.axhline(optimum, color="#c44e00", ls="--", label="LinearSVC, proven optimum of this alpha")
ax.set(xlabel="rows read", ylabel="accuracy on other rows", ylim=(min(scores[2:]) - 0.02, None))
ax.legend(frameon=False)
plt.show()

# %%
# The same in one line: ``OnlineSVC(alpha=1e-5).fit(file)``, or ``maxmargin train --stream --alpha 1e-5 text.svm.gz``.
same = OnlineSVC(alpha=1e-5).fit(file)
print("same bits:", bool(np.array_equal(same.coef_, clf.coef_)))
