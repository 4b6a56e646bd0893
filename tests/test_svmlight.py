"""The svmlight reader against scikit-learn's, bit for bit, and its errors; the writer against the reader."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import subprocess
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import load_svmlight_file

from maxmargin.data import _bits, _floats, _loader, _shortest, _streams, _zstd
from maxmargin.data.svmlight import SvmlightError, load_svmlight, save_svmlight

at_random = settings(deadline=None, derandomize=True)  # the first call may compile
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def load(text: bytes, **options):
    return load_svmlight(io.BytesIO(text), **options)


def assert_same_bits(ours, theirs):
    """Equal as (X, y) or (X, y, query ids): shape, structure, and every bit of the numbers."""
    assert len(ours) == len(theirs)
    assert ours[0].shape == theirs[0].shape
    assert_array_equal(ours[0].indptr, theirs[0].indptr)
    assert_array_equal(ours[0].indices, theirs[0].indices)
    assert ours[0].data.dtype == theirs[0].data.dtype
    assert ours[0].data.tobytes() == theirs[0].data.tobytes()
    assert ours[1].dtype == np.float64
    assert ours[1].tobytes() == theirs[1].tobytes()
    for a, b in zip(ours[2:], theirs[2:]):
        assert_array_equal(a, b)


@pytest.fixture(params=[11, 1 << 16])
def tiny_buffers(request, monkeypatch):
    """Many batches of few bytes, or one of many chunks: a few lines meet every border."""
    monkeypatch.setattr(_streams, "_BATCH_BYTES", request.param)
    monkeypatch.setattr(_loader, "_CHUNK_BYTES", 5)


# ---------------------------------------------------------------- valid text

VALID = {
    "plain": b"1 1:2 3:4.5\n-1 2:0.25\n",
    "zero-based": b"1 0:2 3:4\n0 1:1\n",
    "comments": b"# head 1:2\n1 1:2 # tail 3:4\n#\n2 2:3#glued\n  # indented\n3#only a label\n",
    "blank lines": b"\n\n1 1:2\n   \n\t\n2 1:3\n\n",
    "blanks of all kinds": b"  1\t1:2 \x0b 2:3\x0c3:4   \r\n\t-1   1:1\t\n",
    "carriage returns": b"1 1:2\r\n-1 2:3\r\n",
    "no newline at the end": b"1 1:2\n-1 2:3",
    "label at the very end": b"1 1:2\n-1",
    "no feature at all": b"1\n2\n3\n",
    "empty rows": b"1\n2 5:1\n3\n",
    "signs": b"+1 1:+2 2:-3 3:-0 4:+.5\n-0 1:0\n",
    "signed indices": b"1 +1:2 +02:3\n",
    "minus zero as index": b"1 -0:2 1:3\n",
    "explicit zeros": b"1 1:0 2:0.0 3:-0.0 4:0e5 5:0e-400\n",
    "exponents": b"1e1 1:1e-3 2:1E+3 3:.5e0 4:5.e1 5:1e-300 6:2.5E2\n",
    "underscores": b"1_0 1_0:2_0.5_5\n",
    "leading zeros": b"007 01:00.5 002:000000000000000000000000012 03:0.000000000000000000000000000125\n",
    "long numbers": b"1 1:123456789 2:1234567890123456789 3:12345678901234567890123 4:0.1234567890123456789012\n",
    "subnormal": b"1 1:4.9e-324 2:2.2250738585072011e-308 3:1e-310 4:1e-400\n",
    "extremes": b"1 1:1.7976931348623157e308 2:2.2250738585072014e-308\n",
    "half way": b"1 1:9007199254740993 2:9007199254740993.00000000000000000000000000000000000001\n",
    "queries": b"1 qid:3 1:2\n2 qid:-4 2:1\n1 qid:0\n",
    "large index": b"1 2147483647:1\n2 123456789:2\n",
    "non-ascii comment": "1 1:2 # día\n".encode(),
    "zero byte in a comment": b"1 1:2 # \x00 # 3:4\n",
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("zero_based", ["auto", True, False])
@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_valid_text_reads_as_in_scikit_learn(text, zero_based, dtype):
    options = {"zero_based": zero_based, "dtype": dtype}
    if zero_based is False and re.search(rb" -?0:", text.split(b"#")[0]):
        with pytest.raises(SvmlightError, match=r"<stream>:1:\d+: feature index 0, but indices count from 1"):
            load(text, **options)
    elif dtype is np.float32 and b"e308" in text:
        with pytest.raises(SvmlightError, match=r'1:5: feature value "1.7976931348623157e308" is too large'):
            load(text, **options)
    else:
        assert_same_bits(load(text, **options), load_svmlight_file(io.BytesIO(text), **options))


def test_query_ids():
    X, y, queries = load(VALID["queries"], query_id=True)
    assert_same_bits((X, y, queries), load_svmlight_file(io.BytesIO(VALID["queries"]), query_id=True))
    assert queries.dtype == np.int64
    assert_array_equal(
        load(b"1 qid:9223372036854775807\n1 qid:-9223372036854775808", query_id=True)[2], [2**63 - 1, -(2**63)]
    )


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_borders_of_batches_and_threads_change_nothing(text, n_jobs, tiny_buffers):
    assert_same_bits(load(text, n_jobs=n_jobs), load_svmlight_file(io.BytesIO(text)))


@pytest.mark.parametrize("by_python", [0, 20, 1 << 18])
@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_python_reads_short_text_until_the_compiler_is_worth_its_import(text, by_python, tiny_buffers, monkeypatch):
    """All of it, the first batches or nothing: the same bits."""
    monkeypatch.setattr(_loader, "_has_compiler", lambda: False)
    monkeypatch.setattr(_loader, "_SHORT", by_python)
    if by_python > len(text):
        monkeypatch.setattr(_loader, "_compiled_parser", None)
    assert_same_bits(load(text), load_svmlight_file(io.BytesIO(text)))


def test_a_batch_stays_valid_while_the_next_is_read(tiny_buffers):
    """The next one may take several reads, if its line is long."""
    text = b"1 1:1\n2 1:1\n" + b"3 1:" + b"0" * 300 + b"1\n" + b"4 1:1\n" * 5
    batches = _streams.read_batches(_streams.as_sources([io.BytesIO(text), io.BytesIO(text)]))
    seen, last = [], None
    for batch in batches:
        if last is not None:
            assert last[0].tobytes() == last[1]
        last = batch.text, batch.text.tobytes()
        seen.append(last[1])
    assert b"".join(seen) == 2 * text
    assert all(part.endswith(b"\n") for part in seen)


def test_types_of_the_result():
    for dtype in (np.float32, np.float64):
        X, y = load(b"1 1:2 3:4\n", dtype=dtype)
        assert isinstance(X, sp.csr_matrix)
        assert X.data.dtype == dtype
        assert X.indices.dtype == X.indptr.dtype == np.int32
        assert X.has_canonical_format
        assert X.data.base.nbytes == X.data.nbytes  # the room for more was given back
        assert y.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "options", "n_features", "last"),
    [
        (b"1 2147483647:1\n", {"zero_based": True}, 2**31, 2**31 - 1),
        (b"1 1:1\n2 3000000000:7 9223372036854775806:1\n", {}, 2**63 - 2, 2**63 - 3),
        (b"1 5:1\n", {"n_features": 2**40}, 2**40, 4),
        (b"1 0:1\n1 4294967296:1\n", {}, 2**32 + 1, 2**32),
    ],
)
def test_int64_indices_where_int32_cannot_count_the_features(text, options, n_features, last):
    for n_jobs in (1, 2):
        X, _ = load(text, n_jobs=n_jobs, **options)
        assert X.shape[1] == n_features
        assert X.indices[-1] == last
        assert X.indices.dtype == X.indptr.dtype == np.int64


def test_an_index_too_wide_in_a_later_batch(tiny_buffers):
    text = b"1 1:1\n" * 9 + b"1 3000000000:2\n" + b"1 2:1\n" * 3
    X, _ = load(text, n_jobs=2)
    assert_array_equal(X.indices, [0] * 9 + [2999999999] + [1] * 3)


# ---------------------------------------------------------------- numbers


def read(text: str):
    """What `read_number` makes of a text: the number, or None if it leaves it to Python."""
    buffer = np.frombuffer(text.encode() + b" " + bytes(16), dtype=np.uint8).copy()
    value, end = _floats.read_number(buffer.ctypes.data)
    if end == _floats.NOT_PLAIN:
        return None
    assert end == buffer.ctypes.data + len(text)
    return value


def assert_reads_as_float(text: str, must_be_plain: bool = False):
    value = read(text)
    assert value is not None or not must_be_plain
    if value is not None:
        assert np.float64(value).tobytes() == np.float64(float(text)).tobytes()


@at_random
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
def test_shortest_decimals_are_read_exactly(value):
    normal = value == 0 or abs(value) >= 2.3e-308
    for text in (repr(value), f"{value:.17e}", f"{value:.18e}"):
        assert_reads_as_float(text, must_be_plain=normal)


@at_random
@given(st.from_regex(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,4})?", fullmatch=True))
@example("1e" + "9" * 30)
@example("0e" + "9" * 30)
@example("0." + "0" * 400 + "1e400")
@example("1" + "0" * 400 + "e-400")
def test_any_decimal_is_read_exactly_or_left_to_python(text):
    assert_reads_as_float(text)


def test_numbers_next_to_a_rounding_border():
    """Exactly half way between two doubles, and a little beside: the tail decides, wherever it ends."""
    rng = np.random.default_rng(0)
    for value in rng.standard_normal(300) * 10.0 ** rng.integers(-20, 20, 300):
        with localcontext(prec=200):
            middle = (Decimal(value) + Decimal(np.nextafter(value, np.inf))) / 2
            for nudge in (-1, 0, 1):
                for digits in (17, 18, 19, 20, 25):
                    with localcontext(prec=digits):
                        text = str(+(middle * (1 + nudge * Decimal(10) ** -digits)))
                    assert_reads_as_float(text)
                assert_reads_as_float(f"{middle + nudge * abs(middle) * Decimal(10) ** -30:f}")
    for k in range(200):  # ties that fit into 64 bits, where rounding to even counts
        assert_reads_as_float(f"{(2**53 + k) * 4 + 2}e0", must_be_plain=True)
        assert_reads_as_float(f"{2**54 + 2 * k + 1}.0", must_be_plain=True)


def test_every_power_of_ten_and_two_is_read_exactly():
    for q in range(-307, 309):
        for mantissa in ("1", "9007199254740993", "9999999999999999999", "1234567890123456789"):
            text = f"{mantissa}e{q - len(mantissa)}"
            assert_reads_as_float(text, must_be_plain=2.3e-308 < float(text) < 1.7e308)
    for q in range(-1022, 1024):
        assert_reads_as_float(repr(2.0**q), must_be_plain=True)


@at_random
@given(st.binary(min_size=8, max_size=8) | st.text("0123456789.", min_size=8, max_size=8).map(str.encode))
def test_digits_word_by_word_are_digits_one_by_one(text):
    buffer = np.frombuffer(text + bytes(8), dtype=np.uint8).copy()
    assert _floats.read_digits(buffer.ctypes.data) == _floats._read_digits_python(buffer.ctypes.data)


@at_random
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
@example(0, 0)
@example(2**64 - 1, 2**64 - 1)
def test_instructions_mean_what_their_python_says(a, b):
    a, b = np.uint64(a), np.uint64(b)
    assert _apply(_bits.trailing_zeros, a) == _bits._trailing_zeros(a)
    assert _apply(_bits.leading_zeros, a) == _bits._leading_zeros(a)
    assert _apply(_bits.multiply_wide, a, b) == _bits._multiply_wide(a, b)


def test_the_python_of_instructions():
    assert [_bits._trailing_zeros(np.uint64(word)) for word in (0, 1, 8, 2**63, 2**64 - 1)] == [64, 0, 3, 63, 0]
    assert [_bits._leading_zeros(np.uint64(word)) for word in (0, 1, 8, 2**63, 2**64 - 1)] == [64, 63, 60, 0, 0]
    assert _bits._multiply_wide(np.uint64(2**63), np.uint64(6)) == (3, 0)
    assert _bits._multiply_wide(np.uint64(2**32 + 1), np.uint64(2**32 - 1)) == (0, 2**64 - 1)


def _apply(instruction, *args):
    """An instruction can be called from compiled code only."""
    if instruction not in _COMPILED:
        from maxmargin._jit import JIT_DISABLED, compiled

        if JIT_DISABLED:
            return instruction(*args)
        n_args = len(args)
        _COMPILED[instruction] = compiled(
            (lambda a: instruction(a)) if n_args == 1 else (lambda a, b: instruction(a, b))
        )
    return _COMPILED[instruction](*args)


_COMPILED: dict = {}


def write(value, narrow=False) -> str:
    buffer = np.empty(_shortest.LONGEST_NUMBER, dtype=np.uint8)
    end = _shortest.put_number(buffer.ctypes.data, float(value), narrow)
    return buffer[: end - buffer.ctypes.data].tobytes().decode()


def significant(text: str) -> str:
    return text.lower().partition("e")[0].replace(".", "").strip("-0")


def assert_written_shortest(value: float):
    text = write(value)
    assert np.float64(float(text)).tobytes() == np.float64(value).tobytes()
    assert significant(text) == significant(repr(value))
    assert ("e" in text) == ("e" in repr(value))
    assert len(text) <= _shortest.LONGEST_NUMBER


@at_random
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-1.7976931348623157e308)
@example(-2.2250738585072014e-308)
@example(5e-324)
@example(9007199254740993.0)
def test_numbers_are_written_with_the_digits_of_repr(value):
    assert_written_shortest(value)


def test_every_power_of_two_and_its_neighbours_are_written_shortest():
    for q in range(-1074, 1024):
        for value in (2.0**q, np.nextafter(2.0**q, 0), np.nextafter(2.0**q, np.inf)):
            assert_written_shortest(float(value))


@at_random
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(float(np.float32(1e-45)))
@example(float(np.float32(3.4028235e38)))
def test_float32_numbers_are_written_with_their_own_digits(value):
    text = write(value, narrow=True)
    assert np.float32(float(text)) == np.float32(value)
    shortest = np.format_float_scientific(np.float32(value), unique=True)
    if np.float32(float(shortest)) == np.float32(value):
        assert significant(text) == significant(shortest)


def test_the_float32_that_its_shortest_digits_do_not_give_back():
    """Read as float64 and rounded again, 7.038531e-26 is the neighbour: more digits are written."""
    value = np.uint32(0x15AE43FD).view(np.float32)
    assert np.float32(float("7.038531e-26")) != value
    assert np.float32(float(write(value, narrow=True))) == value


# ---------------------------------------------------------------- refused text

REFUSED = [
    (b"x 1:2\n", {}, '1:1: label "x" is not a number'),
    (b"1 1:2\n  1.2.3 1:2", {}, '2:3: label "1.2.3" is not a number'),
    (b"1,2 1:2\n", {}, '1:1: label "1,2" names several classes: multi-label data is not supported'),
    (b"1:2 3:4\n", {}, '1:1: the line begins with "1:2", a label is missing'),
    (b"1 1:2\n\xef\xbb\xbf1 1:2\n", {}, "2:1: label .* is not a number"),
    (b"nan 1:2\n", {}, '1:1: label "nan" is not finite'),
    (b"-inf\n", {}, '1:1: label "-inf" is not finite'),
    (b"1 5\n", {}, '1:3: "5" is not a feature: expected index:value'),
    (b"1 1:2 # c\n# c\n\n1  foo\n", {}, '4:4: "foo" is not a feature'),
    (b"1 a:2\n", {}, '1:3: feature index "a" is not an integer'),
    (b"1 1.0:2\n", {}, '1:3: feature index "1.0" is not an integer'),
    (b"1 :2\n", {}, '1:3: feature index "" is not an integer'),
    (b"1 -3:2\n", {}, '1:3: feature index "-3" is negative'),
    (b"1 0:2\n", {"zero_based": False}, "1:3: feature index 0, but indices count from 1"),
    (b"1 9223372036854775807:2\n", {}, '1:3: feature index "9223372036854775807" is too large'),
    (b"1 99999999999999999999999:2\n", {}, '1:3: feature index "99999999999999999999999" is too large'),
    (b"1 3:1 11:2\n", {"n_features": 10}, '1:7: feature index "11" is beyond n_features=10, counting from 1'),
    (
        b"1 10:2\n",
        {"n_features": 10, "zero_based": True},
        '1:3: feature index "10" is beyond n_features=10, counting from 0',
    ),
    (b"1 0:1\n1 10:2\n", {"n_features": 10}, '2:3: feature index "10" is beyond n_features=10, counting from 0'),
    (b"1 10:2\n1 qid:3 0:1\n", {"n_features": 10}, "2:9: feature index 0, but indices count from 1"),
    (b"1 0:2 10:2\n", {"n_features": 10}, '1:7: feature index "10" is beyond n_features=10, counting from 0'),
    (b"1 2:1 2:1\n", {}, "1:7: feature index 2 occurs twice"),
    (b"1 7:1 3:1\n", {}, "1:7: feature index 3 follows 7: indices must ascend"),
    (b"1 1:1.2.3\n", {}, '1:5: feature value "1.2.3" is not a number'),
    (b"1 1:2:3\n", {}, '1:5: feature value "2:3" is not a number'),
    (b"1 1:0x10\n", {}, '1:5: feature value "0x10" is not a number'),
    (b"1 1:1e\n", {}, '1:5: feature value "1e" is not a number'),
    (b"1 1:1\x002\n", {}, '1:5: feature value "1\\\\x002" is not a number'),
    (b"1 1:\xff\xfe\n", {}, r'1:5: feature value "\\xff\\xfe" is not a number'),
    (b"1 1: 2:3\n", {}, '1:5: feature "1" has no value'),
    (b"1 1:\n", {}, '1:5: feature "1" has no value'),
    (b"1 1:nan\n", {}, '1:5: feature value "nan" is not finite'),
    (b"1 1:-Infinity\n", {}, '1:5: feature value "-Infinity" is not finite'),
    (b"1 1:1e400\n", {}, '1:5: feature value "1e400" is too large for the dtype'),
    (b"1 1:3.41e38\n", {"dtype": np.float32}, '1:5: feature value "3.41e38" is too large for the dtype'),
    (b"1 qid:x 1:2\n", {}, '1:7: query id "x" is not a 64-bit integer'),
    (b"1 qid:9223372036854775808\n", {}, "1:7: query id .* is not a 64-bit integer"),
    (b"1 qid:1\n1 1:2\n", {"query_id": True}, "2:1: the row has no query id"),
    (b"1 1:2 qid:3\n", {}, "1:7: a query id must follow the label"),
    (b"1 1:" + b"9" * 200 + b"x\n", {}, '1:5: feature value "9{37}\\.\\.\\." is not a number'),
]


@pytest.mark.parametrize(("text", "options", "message"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_nonsense_is_refused_with_line_column_and_reason(text, options, message, tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(text)
    with pytest.raises(SvmlightError, match="^" + re.escape(str(path)) + ":" + message):
        load_svmlight(path, **options)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_first_error_is_reported_for_any_number_of_threads(n_jobs, tiny_buffers):
    text = b"# head\n" + b"1 1:2\n\n" * 40 + b"1 1:oops\n" + b"1 2:3\n2 x:1\n" * 40
    with pytest.raises(SvmlightError, match=r'^<stream>:82:5: feature value "oops" is not a number'):
        load(text, n_jobs=n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_late_zero_contradicts_an_index_in_an_earlier_batch(n_jobs, tiny_buffers):
    text = b"1 3:2\n" + b"1 1:2\n" * 20 + b"1 0:1 2:1\n" + b"1 1:2\n" * 20
    assert load(text)[0].shape[1] == 4
    with pytest.raises(SvmlightError, match=r"^<stream>:22:3: feature index 0, but indices count from 1"):
        load(text, n_features=3, n_jobs=n_jobs)


def test_the_largest_float32():
    largest = float(np.finfo(np.float32).max)
    assert load(f"1 1:{largest!r}\n".encode(), dtype=np.float32)[0].data[0] == np.float32(largest)
    limit = 2.0**128 - 2.0**103  # half a step above: rounds to infinity
    below = float(np.nextafter(limit, 0))
    assert load(f"1 1:{below!r}\n".encode(), dtype=np.float32)[0].data[0] == np.float32(largest)
    with pytest.raises(SvmlightError, match="too large for the dtype"):
        load(f"1 1:{limit!r}\n".encode(), dtype=np.float32)


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# nothing\n", b"   "])
def test_no_rows_at_all(text, tmp_path):
    path = tmp_path / "empty.txt"
    path.write_bytes(text)
    with pytest.raises(SvmlightError, match=r"empty\.txt: there is no row"):
        load_svmlight(path)


def test_parameters_are_checked(tmp_path):
    for options, message in [
        ({"n_features": 0}, "n_features must be at least 1"),
        ({"dtype": np.int32}, "dtype must be float32 or float64"),
        ({"zero_based": "yes"}, "zero_based must be True, False"),
        ({"n_jobs": 0}, "n_jobs"),
    ]:
        with pytest.raises(ValueError, match=message):
            load(b"1 1:2\n", **options)
    with pytest.raises(ValueError, match="list of paths is empty"):
        load_svmlight([])
    with pytest.raises(TypeError, match="expected a path"):
        load_svmlight(5)
    with pytest.raises(TypeError, match="binary mode"):
        load_svmlight(io.StringIO("1 1:2\n"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_svmlight(tmp_path / "nowhere.txt")


# ---------------------------------------------------------------- against scikit-learn, at random

NUMBER = st.one_of(
    st.sampled_from(["0", "1", "-1", "+1", "0.5", "1e-3", ".25", "3.", "-0", "1_0", "12345678901234567890", "4e-320"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1000, 1000, places=4).map(str),
)
BLANK = st.sampled_from([" ", " ", " ", "  ", "\t", " \x0b", "\x0c "])
TAIL = st.sampled_from(["", "", "", " ", "\r", "# 1:2", " # x:y", "\t#"])


@st.composite
def lines(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", " ", "# a comment", "\t# 1 1:2", "\r"]))
    indices = sorted(draw(st.sets(st.integers(0, 40) | st.integers(0, 2**31 - 1), max_size=8)))
    tokens = [draw(NUMBER)] + [f"qid:{draw(st.integers(-9, 9))}"] * draw(st.booleans())
    tokens += [f"{index}:{draw(NUMBER)}" for index in indices]
    return draw(st.sampled_from(["", "", " "])) + "".join(t + draw(BLANK) for t in tokens).rstrip() + draw(TAIL)


@settings(at_random, max_examples=150)
@given(st.lists(lines(), min_size=1, max_size=12), st.booleans(), st.sampled_from([1, 2]))
def test_random_valid_text_reads_as_in_scikit_learn(rows, newline_at_end, n_jobs):
    text = ("\n".join(rows) + "\n" * newline_at_end).encode()
    compare(text, n_jobs=n_jobs)


@settings(at_random, max_examples=100)
@given(st.binary(max_size=60) | st.text("0123456789.:-+eE \t\n#qid_naf\x00", max_size=60).map(str.encode))
def test_random_bytes_read_as_in_scikit_learn_or_are_refused(text):
    if not text.startswith(tuple(_streams._MAGIC)):
        compare(text)


def test_mutated_text_reads_as_in_scikit_learn_or_is_refused():
    rng = np.random.default_rng(1)
    alphabet = np.frombuffer(b"0123456789012345..::--+eE   \t\n\n\r#_,qid\x00\xffnaif", dtype=np.uint8)
    seeds = [np.frombuffer(text, dtype=np.uint8) for text in VALID.values()]
    n_accepted = 0
    for _ in range(3000):
        text = seeds[rng.integers(len(seeds))]
        for _ in range(rng.integers(1, 4)):
            where = int(rng.integers(len(text) + 1))
            action = rng.integers(4)
            if action == 0:
                text = np.insert(text, where, rng.choice(alphabet, rng.integers(1, 4)))
            elif action == 1:
                text = np.delete(text, slice(where, where + int(rng.integers(1, 4))))
            elif action == 2:
                text = np.concatenate([text[:where], rng.choice(alphabet, 1), text[where + 1 :]])
            else:  # a piece of another one
                other = seeds[rng.integers(len(seeds))]
                text = np.concatenate([text[:where], other[rng.integers(len(other)) :]])
        options = {"zero_based": [True, False, "auto"][rng.integers(3)], "query_id": bool(rng.integers(4) == 0)}
        n_accepted += compare(text.tobytes(), **options)
    assert 300 < n_accepted < 2700  # else the mutations are too wild, or too tame


# What scikit-learn accepts and we do not; load_svmlight's docstring names the same.
ONLY_WE_REFUSE = re.compile(
    r"""is not finite|too large for the dtype|no row|query id|"qid.*" is not an integer|[eE][+-]_.*" is not a number"""
)


def compare(text: bytes, n_jobs=None, **options) -> bool:
    """Both readers give the same, or both refuse, or the difference is a documented one. Did we accept?"""
    try:
        theirs = load_svmlight_file(io.BytesIO(text), **options)
    except Exception:
        theirs = None
    try:
        ours, refusal = load(text, n_jobs=n_jobs, **options), None
    except SvmlightError as error:
        ours, refusal = None, str(error)
    if refusal is not None:
        assert theirs is None or ONLY_WE_REFUSE.search(refusal), text
        place = re.match(r"<stream>:(\d+):(\d+): |<stream>: there is no row", refusal)
        assert place, refusal
        if place.group(1):
            line, column = int(place.group(1)), int(place.group(2))
            assert 1 <= column <= len(text.split(b"\n")[line - 1]) + 1
    elif theirs is None:
        assert ours[0].shape[1] > 2**31 - 1, text
    else:
        assert_same_bits(ours, theirs)
    return refusal is None


# ---------------------------------------------------------------- sources

TEXT = b"".join(b"%d 1:%d.5 %d:0.125\n" % (i % 3, i, i + 2) for i in range(500))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", ["data", "data.txt"])
def test_compressed_data_is_known_by_suffix_and_by_content(suffix, name, n_jobs, tmp_path):
    expected = load(TEXT)
    packed = COMPRESS[suffix](TEXT[:3000]) + COMPRESS[suffix](TEXT[3000:])  # two members, as `cat` makes them
    for file_name in (name + suffix, name):
        path = tmp_path / file_name
        path.write_bytes(packed)
        assert_same_bits(load_svmlight(path, n_jobs=n_jobs), expected)
    assert_same_bits(load_svmlight(io.BytesIO(packed), n_jobs=n_jobs), expected)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_compressed_data_is_refused(suffix, tmp_path):
    packed = COMPRESS[suffix](TEXT)
    path = tmp_path / f"data{suffix}"
    for damaged in (packed[:-1], packed[: len(packed) // 2], packed[:20] + bytes(40) + packed[60:], b"1 1:2\n"):
        path.write_bytes(damaged)
        with pytest.raises(SvmlightError, match=f"data{suffix}: the compressed data is damaged or cut short"):
            load_svmlight(path)
    path.write_bytes(b"")
    with pytest.raises(SvmlightError, match="there is no row"):
        load_svmlight(path)


def test_without_a_zstandard_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(ImportError, match="pip install zstandard"):
        load(COMPRESS[".zst"](TEXT))
    assert _zstd.zstd_errors() == ()


def test_pieces_are_one_data_set(tmp_path):
    pieces = [b"1 3:1\n", b"", b"# nothing\n", b"2 0:1\n3 qid:7 4:2", b"4\n"]
    paths = []
    for i, piece in enumerate(pieces):
        paths.append(tmp_path / f"part{i}{'.gz' * (i % 2)}")
        paths[-1].write_bytes(gzip.compress(piece) if i % 2 else piece)
    whole = load(b"1 3:1\n2 0:1\n3 4:2\n4\n")
    for n_jobs in (1, 2):
        assert_same_bits(load_svmlight(paths, n_jobs=n_jobs), whole)
        assert_same_bits(load_svmlight([str(paths[0]), *map(io.BytesIO, pieces[1:])], n_jobs=n_jobs), whole)
    assert whole[0].shape == (4, 5)
    assert_array_equal(load_svmlight(paths[:1])[0].indices, [2])  # alone it counts from 1


def test_an_error_names_the_piece_and_its_own_line(tmp_path):
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_bytes(b"1 1:2\n" * 10)
    second.write_bytes(b"# head\n1 1:2\n1 3:x\n")
    with pytest.raises(SvmlightError, match=re.escape(f"{second}:3:5: ")):
        load_svmlight([first, second])


def test_standard_input():
    script = (
        "from maxmargin.data.svmlight import load_svmlight; X, y = load_svmlight('-'); print(X.shape, X.sum(), y.sum())"
    )
    for data in (TEXT, gzip.compress(TEXT)):
        result = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True)
        X, y = load(TEXT)
        assert result.stdout.decode().split("\n")[0] == f"{X.shape} {X.sum()} {y.sum()}"


@pytest.mark.parametrize(("suffix", "opener"), [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_a_file_object_that_unpacks_is_read_as_it_is(suffix, opener, tmp_path):
    """Its name may end in .gz, what it gives is text."""
    path = tmp_path / f"data{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT))
    with opener(path) as file:
        assert_same_bits(load_svmlight(file), load(TEXT))


def test_a_stream_that_comes_in_drops():
    class Drops(io.RawIOBase):
        def __init__(self, data):
            self.data = io.BytesIO(data)

        def read(self, n=-1):
            return self.data.read(min(n, 3))

    for data in (TEXT[:900], gzip.compress(TEXT[:900])):
        stream = Drops(data)
        assert_same_bits(load_svmlight(stream), load(TEXT[:900]))
        assert not stream.closed


def test_room_is_found_when_the_density_of_rows_changes(tiny_buffers, tmp_path):
    """The arrays are sized after the first batches, here of short rows; then long ones follow, and short ones."""
    text = b"1 1:1\n" * 30 + b"2 " + b" ".join(b"%d:1" % i for i in range(1, 300)) + b"\n" + b"3\n" * 50
    path = tmp_path / "data.txt"
    path.write_bytes(text)
    assert_same_bits(load_svmlight(path), load_svmlight_file(io.BytesIO(text)))


# ---------------------------------------------------------------- the writer


def random_data(seed, dtype=np.float64, n_rows=60, n_features=30):
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_features, 0.2, format="csr", random_state=rng, dtype=np.float64)
    X.data *= 10.0 ** rng.integers(-30, 30, X.nnz)
    X.data[::7] = np.round(X.data[::7])  # small ones become stored zeros
    X.data[1] = -0.0
    return X.astype(dtype), rng.standard_normal(n_rows)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_what_is_written_reads_back_bit_for_bit(suffix, zero_based, dtype, tmp_path):
    X, y = random_data(0, dtype)
    queries = np.arange(len(y)) - 5
    path = tmp_path / f"data{suffix}"
    save_svmlight(path, X, y, zero_based=zero_based, query_id=queries, comment="one\ntwo: é")
    options = {"zero_based": zero_based, "n_features": X.shape[1], "dtype": dtype, "query_id": True}
    assert_same_bits(load_svmlight(path, **options), (X, y, queries))
    assert list(tmp_path.iterdir()) == [path]
    if suffix:
        assert path.read_bytes().startswith({v: k for k, v in _streams._MAGIC.items()}[suffix])


@settings(at_random, max_examples=30)
@given(data=st.data())
def test_any_matrix_reads_back_bit_for_bit(data, tmp_path_factory):
    width = data.draw(st.sampled_from([32, 64]))
    dtype = np.float32 if width == 32 else np.float64
    value = st.floats(width=width, allow_nan=False, allow_infinity=False)
    rows = data.draw(st.lists(st.dictionaries(st.integers(0, 10**6), value, max_size=5), min_size=1, max_size=8))
    y = np.array(data.draw(st.lists(st.floats(-1e300, 1e300), min_size=len(rows), max_size=len(rows))))
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = [index for row in rows for index in sorted(row)]
    values = np.array([row[index] for row in rows for index in sorted(row)], dtype=dtype)
    X = sp.csr_matrix((values, indices, indptr), shape=(len(rows), 10**6 + 1))
    path = tmp_path_factory.mktemp("written") / "data.txt"
    save_svmlight(path, X, y)
    assert_same_bits(load_svmlight(path, dtype=dtype, n_features=X.shape[1], zero_based=False), (X, y))


def test_the_text_itself(tmp_path):
    path = tmp_path / "data.txt"
    X = np.array([[0.0, 0.5, 1e-5], [1.0, -2.25, 1e22], [0, 0, 0]])
    save_svmlight(path, X, [1, -1, 0.1], comment="made by hand")
    assert path.read_text() == "# made by hand\n1 2:0.5 3:1e-5\n-1 1:1 2:-2.25 3:1e22\n0.1\n"
    save_svmlight(path, np.float32(X / 10), [True, False, True], zero_based=True, query_id=[-(2**63), 0, 12])
    assert path.read_text() == "1 qid:-9223372036854775808 1:0.05 2:1e-6\n0 qid:0 0:0.1 1:-0.225 2:1e21\n1 qid:12\n"


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array, np.asarray, np.asfortranarray, list])
def test_any_kind_of_matrix_is_written(kind, tmp_path):
    dense = np.round(random_data(3)[0].toarray(), 3)
    X = dense.tolist() if kind is list else kind(dense)
    save_svmlight(tmp_path / "data.txt", X, np.arange(60))
    assert_array_equal(load_svmlight(tmp_path / "data.txt", n_features=30, zero_based=False)[0].toarray(), dense)


def test_unsorted_and_repeated_indices_are_put_in_order_without_touching_the_matrix(tmp_path):
    X = sp.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([3, 0, 3]), np.array([0, 3])), shape=(1, 5))
    save_svmlight(tmp_path / "data.txt", X, [1])
    assert (tmp_path / "data.txt").read_text() == "1 1:2 4:5\n"
    assert_array_equal(X.indices, [3, 0, 3])


def test_rows_in_several_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("maxmargin.data._writer._VALUES_AT_ONCE", 7)
    X, y = random_data(4)
    X = sp.vstack([X, sp.csr_matrix((20, 30)), X]).tocsr()
    y = np.concatenate([y, np.zeros(20), y])
    save_svmlight(tmp_path / "data.txt", X, y)
    assert_same_bits(load_svmlight(tmp_path / "data.txt", n_features=30, zero_based=False), (X, y))


def test_wide_indices_are_written(tmp_path):
    X = sp.csr_matrix((np.ones(2), np.array([5, 2**40]), np.array([0, 2])), shape=(1, 2**41))
    save_svmlight(tmp_path / "data.txt", X, [1])
    assert (tmp_path / "data.txt").read_text() == "1 6:1 1099511627777:1\n"


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (np.eye(3), [1, 2], {}, "y must have one entry for each of the 3 rows"),
        (np.eye(3), np.ones((3, 1)), {}, "y must have one entry"),
        (np.eye(3), [1, 2, 3], {"query_id": [1, 2]}, "query_id must have one entry"),
        (np.eye(3), [1, 2, 3], {"query_id": [1.5, 2, 3]}, "query_id must hold integers"),
        (np.eye(3), ["a", "b", "c"], {}, "y must hold numbers"),
        (np.eye(3), [1, np.nan, 3], {}, "y has the value nan at row 1"),
        (np.diag([1.0, 2.0, np.inf]), [1, 2, 3], {}, "X has the value inf at row 2, column 2"),
        (np.eye(3) * 1j, [1, 2, 3], {}, "X must hold real numbers"),
        (np.ones(3), [1, 2, 3], {}, "X must have two dimensions"),
        (np.ones((0, 3)), [], {}, "X has no rows"),
    ],
)
def test_what_cannot_be_read_back_is_not_written(X, y, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save_svmlight(tmp_path / "data.txt", X, y, **options)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "data.txt.gz"
    save_svmlight(path, np.eye(3), [1, 2, 3])
    before = path.read_bytes()

    def failing(*args):
        yield b"1 1:2\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("maxmargin.data._writer.format_rows", failing)
    with pytest.raises(OSError, match="No space left"):
        save_svmlight(path, np.eye(3), [4, 5, 6])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_plain_python_reads_and_writes_the_same(tmp_path):
    """NUMBA_DISABLE_JIT=1: the same text, the same bits, no overflow warning."""
    X, y = random_data(5, n_rows=8)
    save_svmlight(tmp_path / "jit.txt", X, y, query_id=np.arange(8))
    save_svmlight(tmp_path / "jit32.txt", X.astype(np.float32), y)
    mixed = b"".join(VALID[name] + b"\n" for name in ("plain", "exponents", "long numbers", "comments", "underscores"))
    (tmp_path / "mixed.txt").write_bytes(mixed)
    script = """if True:
        import sys, numpy as np, maxmargin._jit
        from maxmargin.data.svmlight import load_svmlight, save_svmlight
        X, y, queries = load_svmlight("jit.txt", query_id=True)
        save_svmlight("python.txt", X, y, query_id=queries)
        X, y = load_svmlight("jit32.txt", dtype=np.float32)
        save_svmlight("python32.txt", X, y)
        X, y = load_svmlight("mixed.txt", n_jobs=2)
        np.savez("mixed.npz", data=X.data, indices=X.indices, indptr=X.indptr, y=y)
    """
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", script]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "python.txt").read_bytes() == (tmp_path / "jit.txt").read_bytes()
    assert (tmp_path / "python32.txt").read_bytes() == (tmp_path / "jit32.txt").read_bytes()
    with np.load(tmp_path / "mixed.npz") as stored:
        Z, z = load(mixed)
        matrix = sp.csr_matrix((stored["data"], stored["indices"], stored["indptr"]), shape=Z.shape)
        assert_same_bits((Z, z), (matrix, stored["y"]))
