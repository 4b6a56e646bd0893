"""Streams of chunks: the same rows as in memory, in bounded memory, ahead of their use, and how they fail."""

import bz2
import gc
import gzip
import io
import itertools
import lzma
import os
import re
import threading
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import load_svmlight, stream_svmlight
from maxmargin._jit import JIT_DISABLED
from maxmargin.data.stream import Ahead, Chunk, as_chunks, is_repeatable, is_stream, stream_rows
from maxmargin.data.svmlight import SvmlightError, save_svmlight


def rows_of(n=200, n_features=9, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.4)
    return sp.csr_matrix(X), rng.integers(1, 4, n).astype(float)


def joined(chunks):
    """All rows of a stream, every chunk as wide as the last."""
    chunks = list(chunks)
    width = max(X.shape[1] for X, _ in chunks)
    wide = [sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X, _ in chunks]
    return sp.vstack(wide, format="csr"), np.concatenate([y for _, y in chunks])


def assert_same(one, other):
    for array in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(one[0], array), getattr(other[0], array))
    assert one[0].shape == other[0].shape
    np.testing.assert_array_equal(one[1], other[1])


def started_threads():
    return [thread for thread in threading.enumerate() if thread.name == "maxmargin-stream"]


def wait_until(condition, seconds=10.0):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    assert condition()


# ---------------------------------------------------------------- svmlight text


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("options", [{}, {"chunk_bytes": 1}, {"chunk_bytes": 700}, {"chunk_rows": 7}])
def test_all_chunks_are_the_data_set(tmp_path, options, n_jobs):
    X, y = rows_of()
    save_svmlight(tmp_path / "all", X, y, comment="a comment\nand another")
    expected = load_svmlight(tmp_path / "all")
    chunks = list(stream_svmlight(tmp_path / "all", **options, n_jobs=n_jobs))
    assert_same(joined(chunks), expected)
    sizes = [len(labels) for _, labels in chunks]
    assert max(sizes) <= options.get("chunk_rows", 200)
    expected_sizes = {"{}": (1, 1), "{'chunk_bytes': 1}": (100, 200), "{'chunk_rows': 7}": (29, 29)}
    lowest, highest = expected_sizes.get(str(options), (5, 50))
    assert lowest <= len(sizes) <= highest
    for part, labels in chunks:
        assert part.has_canonical_format
        assert part.dtype == labels.dtype == np.float64


def test_sources_shards_and_compression(tmp_path):
    X, y = rows_of()
    save_svmlight(tmp_path / "a", X[:50], y[:50])
    save_svmlight(tmp_path / "b", X[50:120], y[50:120])
    save_svmlight(tmp_path / "c", X[120:], y[120:])
    (tmp_path / "b.gz").write_bytes(gzip.compress((tmp_path / "b").read_bytes()))
    (tmp_path / "c.bin").write_bytes(lzma.compress((tmp_path / "c").read_bytes()))
    packed = io.BytesIO(bz2.compress((tmp_path / "a").read_bytes()))
    stream = stream_svmlight([packed, str(tmp_path / "b.gz"), tmp_path / "c.bin"], chunk_bytes=300, dtype=np.float32)
    expected = load_svmlight([tmp_path / "a", tmp_path / "b", tmp_path / "c"], dtype=np.float32)
    found = joined(stream)
    assert found[0].dtype == np.float32
    assert_same(found, expected)


def test_it_can_be_read_again(tmp_path):
    X, y = rows_of(20)
    save_svmlight(tmp_path / "all", X, y)
    stream = stream_svmlight(tmp_path / "all")
    assert stream.is_repeatable
    assert_same(joined(stream), joined(stream))
    assert not stream_svmlight(io.BytesIO(b"1 1:1\n")).is_repeatable


def test_chunks_become_wider_unless_the_width_is_given():
    text = b"1 1:1\n2 3:1\n1 2:1\n2 12:1\n"
    assert [X.shape[1] for X, _ in stream_svmlight(io.BytesIO(text), chunk_bytes=1)] == [1, 3, 3, 12]
    assert [X.shape[1] for X, _ in stream_svmlight(io.BytesIO(text), chunk_bytes=1, n_features=20)] == [20] * 4
    with pytest.raises(SvmlightError, match=r"<stream>:4:3: feature index \"12\" is beyond n_features=10"):
        list(stream_svmlight(io.BytesIO(text), chunk_bytes=1, n_features=10))
    wide = joined(stream_svmlight(io.BytesIO(b"1 1:1\n2 3000000000:1\n1 2:1\n"), chunk_bytes=1))[0]
    assert wide.shape == (3, 3_000_000_000)
    assert wide.indices.tolist() == [0, 2_999_999_999, 1]


def test_what_indices_count_from():
    """The first chunk that has any decides; what does not agree with it is an error that says so."""
    zero_first = b"1\n2 0:1 3:1\n1 1:1\n"
    assert joined(stream_svmlight(io.BytesIO(zero_first), chunk_bytes=1))[0].indices.tolist() == [0, 3, 1]
    zero_late = b"# nothing yet\n1\n2 1:1 3:1\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n1 0:1\n"
    for chunk_bytes, expected in [(1000, [1, 3, 0]), (1, None)]:
        stream = stream_svmlight(io.BytesIO(zero_late), chunk_bytes=chunk_bytes)
        if expected:
            assert joined(stream)[0].indices.tolist() == expected
        else:
            with pytest.raises(SvmlightError, match=re.escape("<stream>:20:3: feature index 0, but there was none")):
                list(stream)
    given = stream_svmlight(io.BytesIO(zero_late), chunk_bytes=1, zero_based=True)
    assert joined(given)[0].indices.tolist() == [1, 3, 0]
    with pytest.raises(SvmlightError, match="zero_based=False"):
        list(stream_svmlight(io.BytesIO(zero_late), chunk_bytes=1, zero_based=False))
    # With a width: an index as high as that counts from 1, and then there is no 0; and the other way round.
    with pytest.raises(SvmlightError, match="pass zero_based=True"):
        list(stream_svmlight(io.BytesIO(b"1 3:1\n1 0:1\n"), chunk_bytes=1, n_features=3))
    with pytest.raises(SvmlightError, match="beyond n_features=3, counting from 0"):
        list(stream_svmlight(io.BytesIO(b"1 0:1\n1 3:1\n"), chunk_bytes=1, n_features=3))


def test_errors_come_in_their_turn_with_file_line_and_column(tmp_path):
    (tmp_path / "good").write_text("1 1:1\n2 2:1\n")
    (tmp_path / "bad").write_text("1 1:1\n2 2:1\n\n1 2:oops\n")
    chunks = iter(stream_svmlight([tmp_path / "good", tmp_path / "bad"], chunk_bytes=1))
    assert [next(chunks)[1].tolist() for _ in range(4)] == [[1.0], [2.0], [1.0], [2.0]]
    with pytest.raises(SvmlightError, match=r"bad:4:5: feature value \"oops\" is not a number"):
        next(chunks)
    with pytest.raises(StopIteration):
        next(chunks)
    with pytest.raises(SvmlightError, match="there is no row"):
        list(stream_svmlight(io.BytesIO(b"# nothing\n\n")))
    with pytest.raises(SvmlightError, match="damaged or cut short"):
        list(stream_svmlight(io.BytesIO(gzip.compress(b"1 1:1\n" * 10_000)[:-20])))
    with pytest.raises(FileNotFoundError):
        list(stream_svmlight(tmp_path / "none"))


@pytest.mark.parametrize(
    "options",
    [{"chunk_rows": 0}, {"chunk_bytes": 0}, {"n_features": 0}, {"dtype": int}, {"zero_based": 2}, {"n_jobs": 0}],
)
def test_bad_options_are_refused_at_once(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        stream_svmlight(io.BytesIO(b"1 1:1\n"), **options)


class EndlessText(io.RawIOBase):
    """Text without end, which is made while it is read."""

    def __init__(self):
        self.n_read = 0
        self.line = b"1 1:0.5 2:0.25 7:1e-3\n"

    def read(self, n):
        begin = self.n_read % len(self.line)
        self.n_read += n
        return (self.line * (n // len(self.line) + 2))[begin : begin + n]


@pytest.mark.skipif(JIT_DISABLED, reason="takes compiled speed")
def test_memory_does_not_grow_with_the_stream():
    text = EndlessText()
    chunks = iter(stream_svmlight(text, chunk_bytes=50_000))
    next(chunks)
    peaks = []
    tracemalloc.start()
    try:
        for n_chunks in (20, 200):
            tracemalloc.reset_peak()
            for X, _ in itertools.islice(chunks, n_chunks):
                assert X.shape[0] > 1000
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
        chunks.close()
    assert text.n_read > 200 * 49_000
    # A handful of chunks, more or less as the reading threads are ahead; all of them would be tens of megabytes.
    assert max(peaks) < 3_000_000


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix, sp.csr_array])
def test_rows_of_arrays_are_views(storage):
    dense = rows_of()[0].toarray()
    X, y, weight = storage(dense), np.arange(200), np.arange(200.0)
    chunks = list(stream_rows(X, y, weight, chunk_rows=64))
    assert [len(chunk[1]) for chunk in chunks] == [64, 64, 64, 8]
    for k, (part, labels, weights) in enumerate(chunks):
        same = slice(64 * k, 64 * k + 64)
        np.testing.assert_array_equal(part.toarray() if sp.issparse(part) else part, dense[same])
        assert np.shares_memory(part.data if sp.issparse(part) else part, X.data if sp.issparse(X) else X)
        assert np.shares_memory(labels, y)
        np.testing.assert_array_equal(weights, weight[same])
        assert type(part) is type(X)
    assert len(list(stream_rows(X, y))) == 1
    assert [len(y) for _, y in stream_rows(np.zeros((10, 1 << 18)), y[:10])] == [2] * 5


def test_rows_of_memmaps(tmp_path):
    X, y = rows_of()[0].toarray(), np.arange(200)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    parts = [part for part, _ in stream_rows(mapped, y, chunk_rows=50)]
    assert all(isinstance(part, np.memmap) for part in parts)
    np.testing.assert_array_equal(np.concatenate(parts), X)


# ---------------------------------------------------------------- what users give


def test_what_is_a_stream_and_what_can_be_repeated(tmp_path):
    (tmp_path / "file").write_text("1 1:1\n")
    X, y = rows_of(4)
    for data, repeatable in [
        (str(tmp_path / "file"), True),
        (tmp_path / "file", True),
        ([tmp_path / "file", str(tmp_path / "file")], True),
        ([(X, y)], True),
        (stream_svmlight(tmp_path / "file"), True),
        ("-", False),
        (io.BytesIO(b""), False),
        ([tmp_path / "file", io.BytesIO(b"")], False),
        (iter([(X, y)]), False),
        (stream_svmlight(io.BytesIO(b"")), False),
        (os.devnull, False),
    ]:
        assert is_stream(data)
        assert is_repeatable(data) is repeatable, data
    for data in (X, X.toarray(), X.toarray().tolist(), [[1.0]], [], 3, None):
        assert not is_stream(data)


def test_chunks_of_a_user():
    X, y = rows_of(4)
    assert [type(chunk) for chunk in as_chunks([(X, y), (X, y, y)])] == [Chunk, Chunk]
    assert next(as_chunks([(X, y, y)])).sample_weight is y
    with pytest.raises(ValueError, match="chunk 1 of the stream is a tuple of 4"):
        list(as_chunks([(X, y), (X, y, y, y)]))
    thread = []
    next(as_chunks((thread.append(threading.current_thread()) or (X, y)) for _ in range(3)))
    assert thread == [threading.current_thread()]  # a generator need not expect another


# ---------------------------------------------------------------- ahead


def test_chunks_are_made_ahead_but_not_far():
    made = []

    def numbers():
        for n in range(100):
            made.append(n)
            yield n

    stream = Ahead(numbers())
    wait_until(lambda: len(made) == 3)  # two wait, and one has no room
    time.sleep(0.3)
    assert len(made) == 3
    assert next(stream) == 0
    wait_until(lambda: len(made) == 4)
    assert list(stream) == list(range(1, 100))
    wait_until(lambda: not started_threads())


@pytest.mark.parametrize("how", ["close", "forget", "stop"])
def test_the_thread_ends_with_its_use(how):
    closed = threading.Event()

    def endless():
        try:
            yield from itertools.count()
        finally:
            closed.set()

    stream, stop = Ahead(endless()), threading.Event()
    stream.until(stop)
    assert next(stream) == 0
    if how == "close":
        stream.close()
    elif how == "stop":
        stop.set()
        assert list(stream) == []
    else:
        del stream
        gc.collect()
    assert closed.wait(10.0)
    wait_until(lambda: not started_threads())


def test_a_stream_that_waits_can_be_stopped():
    """While the next chunk is a long time coming, as that of a pipe."""
    release, stop = threading.Event(), threading.Event()

    def slow():
        yield 1
        release.wait(20.0)
        yield 2

    stream = Ahead(slow())
    stream.until(stop)
    assert next(stream) == 1
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    assert list(stream) == []
    assert 0.1 < time.monotonic() - started < 5.0
    release.set()


def test_reader_and_user_overlap():
    """Ten chunks that take 30 ms to make and as long to use take little more than the half of both."""

    def slow():
        for n in range(10):
            time.sleep(0.03)
            yield n

    started = time.monotonic()
    for _ in Ahead(slow()):
        time.sleep(0.03)
    assert 0.3 < time.monotonic() - started < 0.5
