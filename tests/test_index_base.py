"""Data that belong together are read with indices that count from the same number, wherever they come from."""

import io
import warnings

import numpy as np
import pytest

import maxmargin
from maxmargin import BudgetSVC, LinearSVC, OnlineSVC, load_svmlight, stream_svmlight
from maxmargin.data.indices import index_base
from maxmargin.data.svmlight import SvmlightError

# The label is the sign of the feature with index 3. Training data have an index 0; test data happen to have none.
RNG = np.random.default_rng(0)
SIGNS = np.where(RNG.random(60) < 0.5, 1, -1)
TRAIN = "".join(f"{s} 0:1 2:0.1 3:{s * 1.0} 4:0.2 6:0.1\n" for s in SIGNS).encode()
TEST = "".join(f"{s} 2:0.1 3:{s * 1.0} 5:0.3\n" for s in SIGNS).encode()
FROM_ONE = b"1 1:0.5 6:2\n-1 2:1\n"


def read(text, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_svmlight(io.BytesIO(text), **options)


def test_a_matrix_says_how_its_indices_were_read():
    assert index_base(read(TRAIN)[0]) == (0, True, "<stream>")
    assert index_base(read(TEST)[0]) == (1, False, "<stream>")
    assert index_base(read(TEST, zero_based=False)[0]) == (1, True, "<stream>")
    assert index_base(read(TEST, zero_based=True)[0]) == (0, True, "<stream>")
    assert index_base(read(FROM_ONE, n_features=6)[0]) == (1, True, "<stream>"), "6 of 6 features counts from 1"
    for X, _ in stream_svmlight(io.BytesIO(TRAIN), chunk_rows=7):
        assert index_base(X).first_index == 0


@pytest.mark.parametrize("estimator", [LinearSVC(), BudgetSVC(budget=10, random_state=0), OnlineSVC()])
def test_test_data_read_like_the_training_data_or_the_model(estimator, tmp_path):
    X, y = read(TRAIN)
    model = estimator.fit(X, y)
    model.save(tmp_path / "a.mm")
    loaded = maxmargin.load(tmp_path / "a.mm")
    assert loaded.first_index_ == 0
    for like in (X, model, loaded):
        Z, z = read(TEST, like=like)
        assert Z.shape[1] == 7
        assert loaded.score(Z, z) == 1.0
        assert sum((loaded.predict(part) == labels).sum() for part, labels in stream(TEST, like=like)) == 60


def stream(text, **options):
    return stream_svmlight(io.BytesIO(text), chunk_rows=11, **options)


def test_data_read_by_themselves_are_refused_not_mistaken():
    model = LinearSVC().fit(*read(TRAIN))
    Z, z = read(TEST)
    with pytest.raises(ValueError, match=r"<stream> has no index 0, .* counted from 0: read it with .*like=model"):
        model.score(Z, z)
    with pytest.warns(UserWarning, match=r"<stream>: no index is 0 and none is 7, .* taken as counted from 1"):
        Z, z = load_svmlight(io.BytesIO(TEST), n_features=7)
    with pytest.raises(ValueError, match="like=model"):
        model.score(Z, z)
    Z, z = read(TEST, n_features=7, zero_based=False)  # a user who knows
    assert model.score(Z, z) < 0.9


def test_an_index_0_is_refused_where_indices_count_from_1():
    model = LinearSVC().fit(*read(FROM_ONE))
    assert model.first_index_ == 1
    with pytest.raises(SvmlightError, match="feature index 0, but indices count from 1"):
        read(TRAIN, like=model)


def test_what_is_not_from_text_has_no_base():
    X, y = read(TRAIN)
    model = LinearSVC().fit(X, y)
    assert model.first_index_ == 0
    assert not hasattr(model.fit(X.toarray(), y), "first_index_"), "of the latest fit"
    with pytest.warns(UserWarning, match="may count from 0 or from 1"):  # nobody knows
        load_svmlight(io.BytesIO(TEST), like=model)
    with pytest.raises(TypeError, match="like must be a matrix"):
        read(TEST, like="a.mm")


def test_parts_of_a_stream_are_compared():
    (X, y), (Z, z) = read(TRAIN), read(TEST)
    model = OnlineSVC().partial_fit(X, y)
    assert model.first_index_ == 0
    with pytest.raises(ValueError, match="like=model"):
        model.partial_fit(Z, z)
    model.partial_fit(*read(TEST, like=model))
    wider = read(b"1 0:1 9:2\n", like=None)
    assert model.partial_fit(*wider).n_features_in_ == 10
    assert model.first_index_ == 0
    assert OnlineSVC().fit(stream(TRAIN)).first_index_ == 0


# ---------------------------------------------------------------- labels that are words, and a byte order mark


def test_labels_may_be_words():
    text = b"\n# a comment\nham 1:0.5 3:2 # ham\n  sp\xc3\xa4m\t2:25e-2\nham\n1#\n"
    X, y = read(text, labels="auto")
    assert y.tolist() == ["ham", "späm", "ham", "1"]
    assert X.toarray().tolist() == [[0.5, 0.0, 2.0], [0.0, 0.25, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert read(b"1 1:1\n2 1:1", labels="auto")[1].tolist() == [1.0, 2.0]
    assert read(b"1 1:1\n+2 1:1", labels="text")[1].tolist() == ["1", "+2"]
    parts = [labels.tolist() for _, labels in stream_svmlight(io.BytesIO(text), chunk_bytes=9, labels="auto")]
    assert [label for part in parts for label in part] == ["ham", "späm", "ham", "1"]
    many = b"".join(b"label%d 1:%d\n" % (k % 7, k) for k in range(50_000))
    X, y = load_svmlight(io.BytesIO(many), labels="text", n_jobs=2)
    assert y.tolist() == [f"label{k % 7}" for k in range(50_000)]
    np.testing.assert_array_equal(X.toarray().ravel(), np.arange(50_000))


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        (b"ham 1:1\n", "number", '1:1: label "ham" is not a number'),
        (b"1 1:1\nham 1:1\n", "auto", '2:1: label "ham" is not a number'),
        (b"ham 1:1\n 2:1\n", "auto", '2:2: the line begins with "2:1", a label is missing'),
        (b"1:1 2:1\n", "auto", "1:1: the line begins with .*, a label is missing"),
        (b"ham eggs\n", "auto", '1:5: "eggs" is not a feature'),
        (b"1,2 1:1\n", "auto", "1:1: label .* names several classes"),
        (b"nan 1:1\n", "auto", "1:1: label .* is not finite"),
        (b"ham 1:x\n", "text", '1:7: feature value "x" is not a number'),
    ],
)
def test_columns_in_messages_are_those_of_the_text(text, labels, message):
    with pytest.raises(SvmlightError, match="^<stream>:" + message):
        read(text, labels=labels)


def test_a_choice_of_labels_is_checked():
    with pytest.raises(ValueError, match='labels must be "number", "text" or "auto"'):
        read(b"1 1:1", labels="words")
    with pytest.raises(ValueError, match="labels must be"):
        stream_svmlight(io.BytesIO(b"1 1:1"), labels=None)


def test_a_byte_order_mark_is_skipped(tmp_path):
    text = b"\xef\xbb\xbf1 1:2 3:4\n-1 2:1\n"
    X, y = read(text)
    assert (X.toarray().tolist(), y.tolist()) == ([[2.0, 0.0, 4.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(text)
    assert load_svmlight(paths)[0].shape == (4, 3), "of each file"
    assert sum(len(y) for _, y in stream_svmlight(paths, chunk_bytes=9)) == 4
    with pytest.raises(SvmlightError, match="2:1: label"):
        read(b"1 1:1\n" + text)
