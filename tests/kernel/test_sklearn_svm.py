"""scikit-learn's own tests of SVC, SVR and OneClassSVM, those of the installed version, run against ours."""

import importlib.util
import re
from types import SimpleNamespace

import pytest
import sklearn
import sklearn.svm
import sklearn.svm.tests

import maxmargin

OURS = {name: getattr(maxmargin, name) for name in ("SVC", "SVR", "OneClassSVM")}

_NEGATIVE = "weights below zero are refused; there they are rows left out, as if they had been zero"
_ZERO = "all weights zero: an error in other words"
_PROBABILITY = "probability is not deprecated here: it never contradicts predict; there are no probA_ and probB_"
DIFFERENCES = {  # what ours does differently, by the names of the tests (with their parameters) that fail for it
    r"test\[SVC\]|test_svc_nusvc_probA_probB_deprecated\[SVC\]": _PROBABILITY,
    r"test_probability_raises_futurewarning\[(True|False)-SVC-SVC\]": _PROBABILITY,
    r"test_svr_errors": "a kernel function that returns a matrix of the wrong shape is refused by fit, not by predict",
    r"test_tweak_params": "changes the private _dual_coef_; here it is dual_coef_ that predict looks at",
    r"test_negative_sample_weights_mask_all_samples\[weights-are-zero-(SVC|SVR|OneClassSVM)\]": _ZERO,
    r"test_negative_sample_weights_mask_all_samples\[weights-are-negative-(SVC|SVR|OneClassSVM)\]": _NEGATIVE,
    r"test_negative_weights_svc_leave_just_one_label\[mask-label-.-SVC\]": _NEGATIVE,
    r"test_negative_weights_svc_leave_two_labels\[partial-mask-label-1-SVC\]": _NEGATIVE,
    r"test_negative_weight_equal_coeffs\[partial-mask-label-1-SVC\]": _NEGATIVE,
    r"test_bad_input\[.*": "a model of dense rows takes sparse ones in predict; there it does not",
    r"test_svc_nonfinite_params\[.*": "features whose squares overflow are named before the training, not after it",
    r"test_libsvm_convergence_warnings\[.*": "max_iter counts passes over all rows: two of them are enough",
    r"test_svc_ovr_tie_breaking\[.*-SVC\]": "decisions of two equal classes are zero; there rounding errors break ties",
    r"test_gamma_scale": "looks at the private _gamma; here it is kernel_.gamma",
    r"test_svc_raises_error_internal_representation": "changes the private _n_support, which there is none of",
}
_STRICT = sklearn.__version__.startswith("1.9.")  # other versions have other tests


def load_tests():
    """scikit-learn's tests, with our classes in the place of its own; those of linear machines are left out."""
    path = f"{sklearn.svm.tests.__path__[0]}/test_svm.py"
    spec = importlib.util.spec_from_file_location("sklearn_test_svm", path)
    module = importlib.util.module_from_spec(spec)
    theirs = {name: getattr(sklearn.svm, name) for name in OURS}
    try:  # parameters of tests name classes when the module is loaded
        for name, ours in OURS.items():
            setattr(sklearn.svm, name, ours)
        spec.loader.exec_module(module)
    finally:
        for name, own in theirs.items():
            setattr(sklearn.svm, name, own)
    module.svm = SimpleNamespace(**{**vars(sklearn.svm), **OURS})
    tests = {name: test for name, test in vars(module).items() if name.startswith("test") and callable(test)}
    return {name: test for name, test in tests.items() if not re.search("linear(svc|svr|_svm)|liblinear|crammer", name)}


globals().update(load_tests())


@pytest.fixture(params=[42])
def global_random_seed(request):
    return request.param


@pytest.fixture(autouse=True)
def known_differences(request):
    for pattern, reason in DIFFERENCES.items():
        if re.fullmatch(pattern, request.node.name):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=_STRICT))


def test_the_tests_are_of_our_classes():
    assert sum(name.startswith("test_") for name in globals()) > 30
    assert globals()["test_gamma_scale"].__globals__["svm"].SVC is maxmargin.SVC
