"""
Text classification from start to end
=====================================

Texts become sparse rows, a linear SVM learns from them, and the heaviest words say why.
"""

# %%
# Some thousand short texts about four things. (A real corpus would be read from files; the steps are the same.)
import numpy as np

rng = np.random.default_rng(0)
topics = {
    "space": "orbit launch rocket moon nasa satellite shuttle mission lunar telescope",
    "hockey": "team goal puck ice season player coach playoff score rink",
    "medicine": "doctor patient disease treatment drug clinical pain symptom dose therapy",
    "cars": "engine tire brake wheel dealer mileage gear clutch diesel turbo",
}
vocabulary = {name: words.split() for name, words in topics.items()}
common = "the a of to and in is it that was for on are with as this have from they you"
noise = [f"word{k}" for k in range(2000)]
names = sorted(vocabulary)
texts, labels = [], []
for _ in range(4000):
    topic = names[rng.integers(len(names))]
    other = names[rng.integers(len(names))]
    words = [*rng.choice(vocabulary[topic], 3), *rng.choice(vocabulary[other], 2)]
    words += [*rng.choice(common.split(), 12), *rng.choice(noise, 8)]
    texts.append(" ".join(rng.permutation(words)))
    labels.append(topic)

# %%
# A pipeline: words to weights, weights to classes. `LinearSVC` takes the sparse matrix as it is.
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from maxmargin import LinearSVC

train, test, y_train, y_test = train_test_split(texts, labels, random_state=0)
model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LinearSVC(C=0.5))
model.fit(train, y_train)
print(f"accuracy {model.score(test, y_test):.3f}")

# %%
# What ran, and what was proven:
model[-1].summary()

# %%
# The words with the largest weights of each class. A linear model can be read.
import matplotlib.pyplot as plt

words = model[0].get_feature_names_out()
fig, axes = plt.subplots(1, 4, figsize=(10, 3.2), layout="constrained", sharex=True)
for ax, name, weights in zip(axes, model[-1].classes_, model[-1].coef_):
    best = np.argsort(weights)[-8:]
    ax.barh(words[best], weights[best], color="#1f5a99")
    ax.set_title(name, fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
