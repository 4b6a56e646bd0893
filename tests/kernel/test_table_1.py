"""Table 1 of Glasmachers and Qaadan (2018): accuracies of the exact machine, by ours, with the paper's C and gamma."""

import numpy as np
import pytest

from maxmargin import SVC

pytest.importorskip("papers.budget.settings")

from benchmarks.datasets import MissingData, find
from papers.budget.settings import SETTINGS, load

# Per cent by which ours may be below the paper. It does not say how w8a, phishing and skin_nonskin are split: the draw
# counts. (Ours is above it on ADULT: 85.08; LIBSVM on the same rows: 85.07.)
DIFFERENCES = {"a9a": 0.15, "ijcnn1": 0.15, "w8a": 0.25, "phishing": 0.7, "skin_nonskin": 0.05}


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENCES)
def test_accuracy_of_the_exact_machine(name):
    try:
        find(name)
    except MissingData as error:
        pytest.skip(str(error))
    setting = SETTINGS[name]
    X, y, X_test, y_test = load(name, None)
    model = SVC(C=setting.C, gamma=setting.gamma).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    accuracy = 100.0 * np.mean(model.predict(X_test) == y_test)
    assert accuracy >= setting.exact - DIFFERENCES[name]
