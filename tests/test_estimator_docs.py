"""What estimators say of themselves: signatures and docstrings, which are put together from those of their bases."""

import inspect
import subprocess
import sys

import docstrings
import pytest
from sklearn.base import clone

import maxmargin

NAMES = [
    "BudgetSVC",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "OneClassSVM",
    "OnlineSVC",
    "SVC",
    "SVCCV",
    "SVR",
    "SVRCV",
    "StructuralSVC",
    "dask.LinearSVC",
    "dask.LinearSVCCV",
    "dask.LinearSVR",
]


def estimator(name):
    if name.startswith("dask."):
        return getattr(pytest.importorskip("maxmargin.dask"), name.removeprefix("dask."))
    return getattr(maxmargin, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_described_with_its_default(name):
    kind = estimator(name)
    documented = docstrings.defaults(kind)
    assert documented == kind().get_params()
    assert list(documented) == list(inspect.signature(kind).parameters)
    assert clone(kind()).get_params() == documented


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_is_equal_to_itself_alone_and_shows_what_was_changed(name):
    one, other = estimator(name)(), estimator(name)()
    assert {one: 1, other: 2}[one] == 1
    assert one != other
    assert repr(one) == f"{type(one).__name__}()"


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_of_a_method_is_described(name):
    kind = estimator(name)
    methods = {m: getattr(kind, m) for m in dir(kind) if not m.startswith("_") and callable(getattr(kind, m))}
    ours = {m: f for m, f in methods.items() if "maxmargin" in (getattr(f, "__module__", None) or "")}
    assert {"fit", "predict", "save"} <= set(ours)
    for method, function in ours.items():
        text = docstrings.sections(function).get("Parameters", "")
        heads = [line.partition(" :")[0] for line in text.splitlines() if line[:1].strip()]
        named = [name.strip(" *") for head in heads for name in head.split(",")]
        expected = [p for p in inspect.signature(function).parameters if p != "self"]
        assert named == expected, method


def test_inherited_descriptions_give_way_to_those_of_the_class():
    for kind, text in ((maxmargin.LinearSVC, "LIBLINEAR"), (maxmargin.OnlineSVC, "counts the rows")):
        assert docstrings.sections(kind)["Parameters"].count("class_weight :") == 1
        assert text in docstrings.sections(kind)["Parameters"].partition("class_weight :")[2]
    attributes = docstrings.entries(maxmargin.SVC, "Attributes")
    assert len(attributes) == len(set(attributes))
    assert {"support_", "dual_coef_", "classes_", "certificate_", "n_features_in_"} <= set(attributes)


def test_without_docstrings():
    code = "from maxmargin import SVC, LinearSVC; assert SVC.__doc__ is None; print(SVC(C=2.0), LinearSVC(C=2.0))"
    run = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "SVC(C=2.0) LinearSVC(C=2.0)\n"
