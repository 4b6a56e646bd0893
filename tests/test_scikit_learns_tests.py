"""scikit-learn's own tests of LinearSVC and LinearSVR, with ours in their place.

All of them must pass but those of `DIFFERENT`, each of which says in what ours are meant to differ.
"""

import importlib.util
import inspect
from pathlib import Path

import pytest
import sklearn.svm

import maxmargin

# Test -> what is different here, and why.
_SOLVED_HERE = "scikit-learn refuses what LIBLINEAR has no solver for; here it is solved, and `dual` chooses nothing"
DIFFERENT = {
    "test_linearsvc_parameters[True-l1-hinge]": _SOLVED_HERE,
    "test_linearsvc_parameters[True-l1-squared_hinge]": _SOLVED_HERE,
    "test_linearsvc_parameters[False-l1-hinge]": _SOLVED_HERE,
    "test_linearsvc_parameters[False-l2-hinge]": _SOLVED_HERE,
    "test_linear_svm_convergence_warnings": "the warning names the gap and what to change, not LIBLINEAR; "
    "n_iter_ counts passes over the data of whichever solver ran",
}


def _their_tests():
    """Those of their module that speak of the linear estimators, as they are when these are ours."""
    place = Path(sklearn.svm.__file__).parent / "tests" / "test_svm.py"
    if not place.exists():  # distributions may leave tests out
        return {}
    theirs = sklearn.svm.LinearSVC, sklearn.svm.LinearSVR
    sklearn.svm.LinearSVC, sklearn.svm.LinearSVR = maxmargin.LinearSVC, maxmargin.LinearSVR
    try:
        spec = importlib.util.spec_from_file_location("test_svm_of_scikit_learn", place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sklearn.svm.LinearSVC, sklearn.svm.LinearSVR = theirs
    functions = {name: value for name, value in vars(module).items() if name.startswith("test_")}
    return {name: f for name, f in functions.items() if "LinearSV" in _text(f)}


def _text(function):
    marks = getattr(function, "pytestmark", [])
    return inspect.getsource(function) + " ".join(str(mark.args) for mark in marks)


@pytest.fixture(autouse=True)
def ours(monkeypatch, request):
    if request.node.name in DIFFERENT:  # strict: what is no longer different must leave the list
        request.node.add_marker(pytest.mark.xfail(reason=DIFFERENT[request.node.name], strict=True))
    monkeypatch.setattr(sklearn.svm, "LinearSVC", maxmargin.LinearSVC)
    monkeypatch.setattr(sklearn.svm, "LinearSVR", maxmargin.LinearSVR)


@pytest.fixture
def global_random_seed():
    return 42


globals().update(_their_tests())


def test_there_are_such_tests_and_differences_are_of_them():
    theirs = _their_tests()
    if not theirs:
        pytest.skip("this scikit-learn has come without its tests")
    assert len(theirs) >= 15
    assert {name.partition("[")[0] for name in DIFFERENT} <= set(theirs)
