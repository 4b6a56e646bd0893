"""LIBLINEAR's model files, against LIBLINEAR itself."""

import os
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from liblinear import liblinearutil

from maxmargin.models import LiblinearModel, ModelFileError, is_liblinear, read_liblinear, write_liblinear

LABELS = [(0, 1), (-1, 1), (1, -1), (2, 1), (1, 2), (5, 3, 9), (9, 5, 3), (3, 5, 9), (7, 0, -4, 12)]


def rows_and_targets(n_classes, seed=0):
    """Training rows, class numbers with the first class first, and test rows, some of them zero."""
    rng = np.random.default_rng(seed)
    X, centres = rng.normal(size=(60, 4)), rng.normal(size=(n_classes, 4))
    k = np.argmax(X @ centres.T + 0.5 * rng.normal(size=(60, n_classes)), axis=1)
    k[:n_classes] = np.arange(n_classes)
    return X, k, np.vstack([rng.normal(size=(200, 4)), np.zeros((3, 4))])


def liblinear_predict(model, X):
    predictions, _, values = liblinearutil.predict([], X, model, "-q")
    return np.array(predictions), np.array(values)


def our_predict(model: LiblinearModel, X):
    decision = X @ model.coef.T + model.intercept
    if model.classes is None:
        return decision[:, 0]
    if len(model.classes) == 2:
        return model.classes[(decision[:, 0] > 0).astype(int)]
    return model.classes[np.argmax(decision, axis=1)]


# ---------------------------------------------------------------- LIBLINEAR writes, we read


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("bias", [-1.0, 1.0, 2.5, 0.0])
@pytest.mark.parametrize("solver", [1, 3, 4])
def test_what_liblinear_wrote_predicts_here_what_it_predicts_there(tmp_path, labels, bias, solver):
    X, k, X_test = rows_and_targets(len(labels))
    path = str(tmp_path / "m")
    trained = liblinearutil.train(np.array(labels, float)[k], X, f"-s {solver} -B {bias} -q")
    liblinearutil.save_model(path, trained)
    expected, values = liblinear_predict(liblinearutil.load_model(path), X_test)

    exact = read_liblinear(path, sort_classes=False)
    np.testing.assert_array_equal(our_predict(exact, X_test), expected)
    decision = X_test @ exact.coef.T + exact.intercept
    np.testing.assert_allclose(decision, values[:, : decision.shape[1]], rtol=1e-12, atol=1e-14)

    model = read_liblinear(path)
    assert model.classes.tolist() == sorted(labels)
    assert model.coef.shape == (1 if len(labels) == 2 else len(labels), 4)
    assert model.coef.flags.c_contiguous
    assert model.intercept.shape == model.coef.shape[:1]
    assert model.bias == bias
    assert model.solver_type.startswith("MCSVM" if solver == 4 else "L2R_L")
    tied = np.isclose(values, 0).all(axis=1)  # zero rows of a model without bias
    np.testing.assert_array_equal(our_predict(model, X_test)[~tied], expected[~tied])
    assert tied.sum() == (3 if bias <= 0 else 0)


@pytest.mark.parametrize("solver", [11, 12, 13])
@pytest.mark.parametrize("bias", [-1.0, 1.0])
def test_regression(tmp_path, solver, bias):
    X, _, X_test = rows_and_targets(2)
    path = str(tmp_path / "m")
    liblinearutil.save_model(path, liblinearutil.train(X @ [1.0, 2.0, 3.0, 4.0] + 5, X, f"-s {solver} -B {bias} -q"))
    expected, _ = liblinear_predict(liblinearutil.load_model(path), X_test)
    model = read_liblinear(path)
    assert model.classes is None
    np.testing.assert_allclose(our_predict(model, X_test), expected, rtol=1e-12, atol=1e-13)
    write_liblinear(
        tmp_path / "back", model.coef, model.intercept, None, solver_type=model.solver_type, bias=model.bias
    )
    assert (tmp_path / "back").read_bytes() == (tmp_path / "m").read_bytes()


def test_one_class_in_the_training_data(tmp_path):
    X, _, X_test = rows_and_targets(2)
    path = str(tmp_path / "m")
    liblinearutil.save_model(path, liblinearutil.train(np.full(60, 3.0), X, "-s 1 -q"))
    model = read_liblinear(path)
    assert model.classes.tolist() == [3]
    assert model.coef.shape == (1, 4)
    write_liblinear(tmp_path / "back", *model[2:4], model.classes)
    assert set(liblinear_predict(liblinearutil.load_model(str(tmp_path / "back")), X_test)[0]) == {3.0}


def test_of_two_columns_liblinear_and_we_decide_by_the_first(tmp_path):
    path = tmp_path / "m"
    path.write_text("solver_type MCSVM_CS\nnr_class 2\nlabel 4 8\nnr_feature 1\nbias -1\nw\n1 5 \n")
    X = np.array([[2.0], [-2.0]])
    predictions, _ = liblinear_predict(liblinearutil.load_model(str(path)), X)
    assert predictions.tolist() == our_predict(read_liblinear(path), X).tolist() == [4, 8]


# ---------------------------------------------------------------- we write, LIBLINEAR reads


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("bias", [-1.0, 1.0, 2.5])
@pytest.mark.parametrize("solver_type", ["L2R_L2LOSS_SVC_DUAL", "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS"])
def test_what_we_wrote_predicts_there_what_it_predicts_here(tmp_path, labels, bias, solver_type):
    rng = np.random.default_rng(1)
    n_rows = 1 if len(labels) == 2 else len(labels)
    coef, intercept = rng.normal(size=(n_rows, 4)), rng.normal(size=n_rows) * (bias > 0)
    X = rows_and_targets(2)[2]
    path = tmp_path / "m"
    write_liblinear(path, coef, intercept, np.array(labels), solver_type=solver_type, bias=bias)
    predictions, values = liblinear_predict(liblinearutil.load_model(str(path)), X)
    expected = our_predict(LiblinearModel(solver_type, np.array(labels), coef, intercept, bias), X)
    np.testing.assert_array_equal(predictions, expected)  # ties included
    np.testing.assert_allclose(values[:, :n_rows], X @ coef.T + intercept, rtol=1e-12, atol=1e-13)

    back = read_liblinear(path, sort_classes=False)
    assert back.classes.tolist() == list(labels)
    assert (back.solver_type, back.bias) == (solver_type, bias)
    np.testing.assert_array_equal(back.coef, coef)
    np.testing.assert_allclose(back.intercept, intercept, rtol=1e-15)


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("bias", [-1, 1, 2])
def test_a_file_of_liblinear_is_written_back_byte_by_byte(tmp_path, labels, bias):
    X, k, _ = rows_and_targets(len(labels))
    trained = liblinearutil.train(np.array(labels, float)[k], X, f"-s 1 -B {bias} -q")
    liblinearutil.save_model(str(tmp_path / "theirs"), trained)
    model = read_liblinear(tmp_path / "theirs", sort_classes=False)
    write_liblinear(tmp_path / "ours", model.coef, model.intercept, model.classes, bias=model.bias)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


finite = st.floats(-1e300, 1e300)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 5), st.lists(st.integers(-1000, 1000), min_size=1, max_size=5, unique=True))
def test_every_number_comes_back_bit_by_bit(tmp_path_factory, data, n_features, labels):
    path = tmp_path_factory.mktemp("models") / "m"
    n_rows = 1 if len(labels) == 2 else len(labels)
    coef = np.array(data.draw(st.lists(finite, min_size=n_rows * n_features, max_size=n_rows * n_features)))
    intercept = np.array(data.draw(st.lists(finite, min_size=n_rows, max_size=n_rows)))
    coef = coef.reshape(n_rows, n_features)
    write_liblinear(path, coef, intercept, np.array(labels), bias=1.0)
    back = read_liblinear(path, sort_classes=False)
    assert back.coef.tobytes() == coef.tobytes()
    assert back.intercept.tobytes() == intercept.tobytes()
    assert back.classes.tolist() == labels
    ordered = read_liblinear(path)
    assert ordered.classes.tolist() == sorted(labels)
    X = np.random.default_rng(0).normal(size=(20, n_features))
    with np.errstate(over="ignore", invalid="ignore"):
        decision = X @ coef.T + intercept
        ordered_decision = X @ ordered.coef.T + ordered.intercept
    if len(labels) == 2:
        np.testing.assert_array_equal(ordered_decision, decision if labels[0] < labels[1] else -decision)
    else:
        np.testing.assert_array_equal(ordered_decision, decision[:, np.argsort(labels)])


def test_labels_of_floats_that_are_integers_are_written(tmp_path):
    write_liblinear(tmp_path / "m", [[1.0]], 0.0, np.array([-1.0, 1.0]))
    assert b"label 1 -1\n" in (tmp_path / "m").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["ham", "spam"]}, r"labels are integers of 32 bits; the classes are \['ham', 'spam'\]"),
        ({"classes": [0.5, 1.0]}, "labels are integers"),
        ({"classes": [np.nan, 1.0]}, "labels are integers"),
        ({"classes": [False, True]}, "labels are integers"),
        ({"classes": [0, 2**31]}, "labels are integers of 32 bits"),
        ({"classes": [1, 1]}, "a class occurs twice"),
        ({"classes": []}, "not empty"),
        ({"classes": [1, 2, 3]}, r"coef must have shape \(3, n_features\)"),
        ({"coef": np.zeros((2, 3))}, r"coef must have shape \(1, n_features\)"),
        ({"coef": np.zeros(3)}, "coef must have shape"),
        ({"coef": np.zeros((1, 0))}, "coef must have shape"),
        ({"coef": [[1.0, np.nan]]}, "must be finite"),
        ({"bias": np.inf}, "must be finite"),
        ({"intercept": [1.0], "bias": 1e-310}, "must be finite"),
        ({"intercept": [1.0, 2.0]}, "intercept must have shape"),
        ({"intercept": [1.0]}, r"bias=-1\.0 stores no intercept, and the model has one: pass bias=1\.0"),
        ({"intercept": [1.0], "bias": 0.0}, "stores no intercept"),
        ({"solver_type": "L2R_L2LOSS_SVR"}, "solver_type for classification must be one of L2R_LR, "),
        ({"classes": None}, "solver_type for regression .* must be one of L2R_L2LOSS_SVR, "),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_liblinear_could_not_read_is_not_written(tmp_path, change, message):
    arguments = {"coef": [[1.0, 2.0]], "intercept": 0.0, "classes": [0, 1]} | change
    with pytest.raises(ValueError, match=message):
        write_liblinear(tmp_path / "m", **arguments)
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- bad files

GOOD = "solver_type L2R_LR\nnr_class 3\nlabel 1 2 3\nnr_feature 2\nbias 1\nw\n1 2 3 \n4 5 6 \n7 8 9 \n"


def refusal(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ModelFileError) as caught:
        read_liblinear(path)
    prefix = f"{path}:"
    assert str(caught.value).startswith(prefix)
    line, message = str(caught.value).removeprefix(prefix).split(": ", 1)
    return int(line), message


@pytest.mark.parametrize(
    "text", [GOOD, GOOD.replace("\n", "\r\n"), GOOD.replace(" ", "\t"), GOOD.rstrip(), GOOD + "\n\n"], ids=repr
)
def test_line_ends_and_spaces_do_not_matter(tmp_path, text):
    (tmp_path / "m").write_bytes(text.encode())
    model = read_liblinear(tmp_path / "m")
    assert model.coef.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert model.intercept.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (GOOD, "", 1, "not a model file of LIBLINEAR"),
        (GOOD, "\0" * 5000, 1, "not a model file of LIBLINEAR"),
        (GOOD, "\n", 1, "'' is none of LIBLINEAR's keywords"),
        (GOOD, GOOD[:30], 3, "the file ends before the line 'w'"),
        ("L2R_LR", "MAGIC", 1, "solver_type is 'MAGIC'; known are L2R_LR, "),
        ("L2R_LR", "ONECLASS_SVM", 1, "this is a one-class model"),
        ("solver_type L2R_LR\n", "", 5, "solver_type is missing"),
        ("nr_class 3\n", "", 5, "nr_class is missing"),
        ("label 1 2 3\n", "", 5, "label is missing"),
        ("nr_feature 2\n", "", 5, "nr_feature is missing"),
        ("bias 1\n", "", 5, "bias is missing"),
        ("bias 1\n", "bias 1\nbias 1\n", 6, "bias occurs a second time"),
        ("bias 1\n", "bias 1\nrho 2\n", 6, "'rho' is none of"),
        ("nr_class 3", "nr_class 2", 3, "there are 3 labels, but nr_class is 2"),
        ("nr_class 3", "nr_class 2000000000", 3, "there are 3 labels, but nr_class is 2000000000"),
        ("nr_class 3", "nr_class 99999999999", 2, "nr_class is '99999999999'; it must be an integer from 1 to"),
        ("nr_class 3", "nr_class 0", 2, "nr_class is '0'"),
        ("nr_class 3", "nr_class -3", 2, "nr_class is '-3'"),
        ("nr_class 3", "nr_class", 2, "nr_class is ''"),
        ("nr_class 3", "nr_class 3.0", 2, "nr_class is '3.0'"),
        ("nr_class 3", "nr_class 3 3", 2, "nr_class is '3 3'"),
        ("label 1 2 3", "label 1 2", 3, "there are 2 labels"),
        ("label 1 2 3", "label 1 2 x", 3, "the label 'x' is not an integer"),
        ("label 1 2 3", "label 1 2 3.5", 3, "the label '3.5' is not an integer"),
        ("label 1 2 3", "label 1 2 9999999999", 3, "the label '9999999999' is not an integer"),
        ("label 1 2 3", "label 1 2 2", 3, "a label occurs twice"),
        ("nr_feature 2", "nr_feature 3", 10, "the weights end after 3 rows; nr_feature and bias announce 4"),
        ("nr_feature 2", "nr_feature 1", 9, "there are more than the 2 rows"),
        ("nr_feature 2", "nr_feature 2147483646", 10, "the weights end after 3 rows"),
        ("nr_feature 2", "nr_feature " + "9" * 5000, 4, "nr_feature is '9999"),
        ("nr_feature 2", "nr_feature 0", 4, "nr_feature is '0'"),
        ("bias 1", "bias -1", 9, "there are more than the 2 rows"),
        ("bias 1", "bias nan", 5, "bias is 'nan'; it must be a finite number"),
        ("bias 1", "bias inf", 5, "bias is 'inf'"),
        ("bias 1", "bias one", 5, "bias is 'one'"),
        ("bias 1", "bias 1e300", 5, None),
        ("4 5 6", "4 5", 8, "there are 2 weights in a row, where nr_class asks for 3"),
        ("4 5 6", "4 5 6 7", 8, "there are 4 weights in a row"),
        ("4 5 6", "4 x 6", 8, "the weight 'x' is not a finite number"),
        ("4 5 6", "4 5\n6", 8, "there are 2 weights in a row"),
        ("4 5 6", "4 nan 6", 8, "the weight 'nan' is not"),
        ("4 5 6", "4 1e999 6", 8, "the weight '1e999' is not"),
        ("4 5 6", "4 1_0 6", 8, "the weight '1_0' is not"),
        ("4 5 6", "4 \xff 6", 8, "the weight "),
        ("4 5 6", "4 5 6 # no", 8, "the weight '#' is not"),
        ("4 5 6", '4 "5" 6', 8, "the weight '\"5\"' is not"),
        ("4 5 6", "4 0x5 6", 8, "the weight '0x5' is not"),
        ("1 2 3 \n4 5 6 \n7 8 9 \n", "", 7, "the weights end after 0 rows"),
        ("1 2 3 \n4 5 6 \n7 8 9 \n", "\n" * 50, 57, "the weights end after 0 rows"),
        ("L2R_LR", "L2R_L2LOSS_SVR", 2, "a regression model has nr_class 2 and no label"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_files_are_refused_with_the_line(tmp_path, old, new, line, message):
    text = GOOD.replace(old, new)
    assert text != GOOD
    if message is None:  # 1e300 times a weight of 7 is finite, times 7e10 it is not
        text, message = text.replace("7 8 9", "7e10 8 9"), "the bias times its weight is not finite"
    found_line, found_message = refusal(tmp_path / "m", text)
    assert found_message.startswith(message)
    assert found_line == line


def test_no_number_in_a_header_makes_memory_be_allocated(tmp_path):
    tracemalloc.start()
    try:
        for n_features in [10**8, 2**31 - 2]:
            refusal(tmp_path / "m", GOOD.replace("nr_feature 2", f"nr_feature {n_features}"))
        refusal(tmp_path / "m", GOOD.replace("nr_class 3", f"nr_class {2**31 - 2}"))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_files_mutated_at_random_are_read_or_refused(tmp_path):
    """Any other exception, a crash or a hang fails."""
    rng = random.Random(0)
    pieces = [
        b"0",
        b"-1",
        b"999999999999",
        b"\n",
        b" ",
        b"\r",
        b"\0",
        b"w\n",
        b"nan",
        b"\xff",
        b"1e400",
        b"label",
        b"\x1c",
    ]
    path, refused = tmp_path / "m", 0
    for _ in range(2000):
        mutant = GOOD.encode()
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(mutant))
            mutant = mutant[:i] + rng.choice(pieces) + mutant[i + rng.randint(0, 5) :]
        path.write_bytes(mutant)
        try:
            model = read_liblinear(path)
        except ModelFileError:
            refused += 1
        else:
            assert model.coef.shape == (len(model.classes), model.coef.shape[1])
            assert np.isfinite(model.coef).all()
            assert np.isfinite(model.intercept).all()
    assert 1000 < refused < 2000


def test_the_format_is_told_by_the_first_bytes(tmp_path):
    path = tmp_path / "m"
    path.write_text(GOOD)
    assert is_liblinear(path)
    for content in ["", "solver_type", "solver_types x", "+1 1:0.5\n"]:
        path.write_text(content)
        assert not is_liblinear(path)
    assert not is_liblinear(tmp_path)
