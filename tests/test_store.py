"""The store on disk: it gives back what was packed, by whatever way that came, or names the block that is at fault."""

import bz2
import gzip
import io
import itertools
import os
import shutil
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, save_npz
from scipy.sparse import random as random_sparse

import maxmargin
from maxmargin.data.store import StoreError, packing, writer
from maxmargin.data.store.store import is_store


def sparse_rows(n=300, n_features=20, seed=0):
    X = random_sparse(n, n_features, 0.3, format="csr", rng=np.random.default_rng(seed))
    X.indices[X.indptr[1] - 1] = n_features - 1  # the last feature is used: a text knows of it
    return X, np.random.default_rng(seed).choice([-1.0, 1.0, 3.0], n)


@pytest.fixture
def text(tmp_path):
    X, y = sparse_rows()
    maxmargin.save_svmlight(tmp_path / "a.txt", X, y)
    return tmp_path / "a.txt"


def content(path):
    """All files of a store but the index, which has the names of its input."""
    return {name: (path / name).read_bytes() for name in sorted(os.listdir(path)) if name != "index"}


def assert_holds(store, X, y, weight=None):
    got = store.load()
    assert (store.n_rows, store.n_features) == X.shape
    np.testing.assert_array_equal(_dense(got[0]), _dense(X))
    np.testing.assert_array_equal(got[1], y)
    if weight is not None:
        np.testing.assert_array_equal(got[2], weight)


def _dense(X):
    return X.toarray() if hasattr(X, "toarray") else X


# ---------------------------------------------------------------- there and back


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any),
    block_size=st.sampled_from([1, 500, 2000, 10**6]),
    storage=st.sampled_from(["dense", "csr"]),
    dtype=st.sampled_from(["float32", "float64"]),
    weighted=st.booleans(),
    seed=st.integers(0, 100),
)
def test_chunks_come_back_and_their_borders_leave_no_trace(
    tmp_path_factory, sizes, block_size, storage, dtype, weighted, seed
):
    folder = tmp_path_factory.mktemp("s")
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = np.where(rng.random((n, 5)) < 0.5, rng.standard_normal((n, 5)), 0.0).astype(dtype)
    columns = [csr_matrix(X) if storage == "csr" else X, rng.integers(0, 3, n)] + [rng.random(n)] * weighted
    borders = np.cumsum([0, *sizes])
    chunks = [tuple(c[a:b] for c in columns) for a, b in itertools.pairwise(borders)]
    store = maxmargin.pack(iter(chunks), folder / "a", block_size=block_size)
    maxmargin.pack([tuple(columns)], folder / "b", block_size=block_size)
    assert_holds(store, X, *columns[1:])
    assert store.index.storage == storage
    assert store.dtype == dtype
    assert content(folder / "a") == content(folder / "b")
    assert store.classes.tolist() == np.unique(columns[1]).tolist()
    assert sum(store.index.class_counts) == n
    largest = max((X.astype(float) ** 2).sum(axis=1))
    assert store.index.largest_norm2 == pytest.approx(largest, rel=1e-6)


def test_blocks_are_as_large_as_asked_for(tmp_path):
    X, y = sparse_rows(n=2000)
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size="8K")
    sizes = [block.n_bytes for block in store.index.blocks]
    assert store.n_blocks > 5
    assert max(sizes) < 9 << 10  # with the header
    assert min(sizes[:-1]) > 7 << 10


def test_a_block_is_a_safetensors_file(tmp_path):
    X, y = sparse_rows()
    maxmargin.pack(X, tmp_path / "s", y=y)
    arrays = safetensors.numpy.load_file(tmp_path / "s" / "block-000000")
    assert arrays.keys() == {"data", "indices", "indptr", "y"}
    np.testing.assert_array_equal(arrays["data"], X.data)


@pytest.mark.parametrize("way", ["plain", "gz", "pieces", "stdin", "threads"])
def test_text_makes_the_same_blocks_whatever_its_way(text, tmp_path, way, monkeypatch):
    X, y = maxmargin.load_svmlight(text)
    maxmargin.pack(X, tmp_path / "direct", y=y, block_size="5K")
    lines = text.read_bytes().splitlines(keepends=True)
    data, options = text, {}
    if way == "gz":
        data = tmp_path / "a.txt.gz"
        data.write_bytes(gzip.compress(text.read_bytes()))
    elif way == "pieces":
        data = [tmp_path / "1.txt", tmp_path / "2.txt.bz2"]
        data[0].write_bytes(b"".join(lines[:100]))
        data[1].write_bytes(bz2.compress(b"".join(lines[100:])))
    elif way == "stdin":
        data = "-"
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    elif way == "threads":
        options = {"n_jobs": 2}
    store = maxmargin.pack(data, tmp_path / "s", block_size="5K", **options)
    assert_holds(store, X, y)
    assert store.n_blocks > 3
    assert content(tmp_path / "s") == content(tmp_path / "direct")
    assert store.index.index_base == 1


def test_an_index_zero_at_the_end_of_a_text_counts_for_all_of_it(tmp_path):
    lines = [f"{k % 2} 1:{k + 1} 3:2" for k in range(2000)] + ["1 0:5"]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    X, _ = maxmargin.load_svmlight(tmp_path / "a.txt")
    store = maxmargin.pack(tmp_path / "a.txt", tmp_path / "s", block_size="4K", test=0.3)
    assert store.index.index_base == 0
    rest = maxmargin.open_store(tmp_path / "s.test")
    assert store.n_features == rest.n_features == X.shape[1] == 4
    got = np.concatenate([store.load()[0].toarray(), rest.load()[0].toarray()])
    np.testing.assert_array_equal(np.sort(got, axis=0), np.sort(X.toarray(), axis=0))


def test_dtype_and_storage(text, tmp_path):
    X, y = maxmargin.load_svmlight(text, dtype=np.float32)
    store = maxmargin.pack(text, tmp_path / "s", dtype="float32", storage="dense", n_features=20)
    assert store.index.storage == "dense"
    assert store.dtype == np.float32
    assert_holds(store, X.toarray(), y)
    with pytest.raises(ValueError, match="n_features"):
        maxmargin.pack(text, tmp_path / "t", storage="dense")


# ---------------------------------------------------------------- shuffle and split


def test_every_order_of_the_rows_occurs(tmp_path):
    seen = set()
    for seed in range(60):
        store = maxmargin.pack(
            np.eye(3), tmp_path / "s", y=[1, 2, 3], shuffle=True, seed=seed, block_size=1, overwrite=True
        )
        assert store.index.shuffled == seed
        seen.add(tuple(store.labels().tolist()))
    assert len(seen) == 6  # a fair shuffle misses one of them with probability 6 (5/6)^60 = 1e-4, and seeds are fixed


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_shuffled_and_split_rows_are_the_rows(tmp_path, storage):
    X, _ = sparse_rows(n=1000)
    X = X if storage == "csr" else X.toarray()
    number, weight = np.arange(1000), np.linspace(0.0, 1.0, 1000)
    options = {"sample_weight": weight, "block_size": "4K", "shuffle": True, "test": 0.25, "seed": 3}
    train = maxmargin.pack(X, tmp_path / "s", y=number, **options)
    test = maxmargin.open_store(tmp_path / "s.test")
    assert 180 < test.n_rows < 320
    for store in (train, test):
        rows, labels, weights = store.load()
        np.testing.assert_array_equal(_dense(rows), _dense(X)[labels])
        np.testing.assert_array_equal(weights, weight[labels])
        assert (np.diff(labels) < 0).any()
    np.testing.assert_array_equal(np.sort(np.concatenate([train.labels(), test.labels()])), number)
    maxmargin.pack(X, tmp_path / "t", y=number, **options)
    assert content(tmp_path / "s") == content(tmp_path / "t")


# ---------------------------------------------------------------- interruption


class _Stop(BaseException):
    pass


def _interrupt_after(monkeypatch, n_blocks):
    """Let the n-th block from now on be the last that is written."""
    written = []
    write_block = writer.write_block

    def limited(path, pieces):
        if len(written) == n_blocks:
            raise _Stop
        written.append(path)
        return write_block(path, pieces)

    monkeypatch.setattr(writer, "write_block", limited)


@pytest.mark.parametrize("options", [{}, {"test": 0.4}, {"shuffle": True}], ids=["plain", "test", "shuffle"])
def test_an_interrupted_pack_leaves_no_store_and_goes_on(text, tmp_path, monkeypatch, options):
    whole = maxmargin.pack(text, tmp_path / "whole", block_size="4K", **options)
    assert whole.n_blocks > 3
    stores = ["s", "s.test"] if "test" in options else ["s"]
    for _ in range(3):
        with monkeypatch.context() as patch:
            _interrupt_after(patch, 2)
            with pytest.raises(_Stop):
                maxmargin.pack(text, tmp_path / "s", block_size="4K", **options)
        assert not any((tmp_path / name).exists() for name in stores)
    before = len(os.listdir(tmp_path / "s.packing" / "rows"))
    assert before > 2
    parsed = []
    form_piece = packing.Form.piece
    monkeypatch.setattr(packing.Form, "piece", lambda form, rows: parsed.append(1) or form_piece(form, rows))
    maxmargin.pack(text, tmp_path / "s", block_size="4K", **options)
    in_all = -(-text.stat().st_size // 4096)
    assert len(parsed) < in_all  # what is in blocks is not parsed again
    for name in stores:
        assert content(tmp_path / name) == content(tmp_path / name.replace("s", "whole", 1))
    assert not (tmp_path / "s.packing").exists()


def test_a_changed_input_is_packed_from_its_beginning(text, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        _interrupt_after(patch, 2)
        with pytest.raises(_Stop):
            maxmargin.pack(text, tmp_path / "s", block_size="4K")
    text.write_text("1 1:1\n" + text.read_text())
    store = maxmargin.pack(text, tmp_path / "s", block_size="4K")
    assert_holds(store, *maxmargin.load_svmlight(text))


def test_an_error_on_the_way_names_the_line_also_after_a_resumption(text, tmp_path, monkeypatch):
    lines = text.read_text().splitlines()
    lines[290] = "1 1:oops"
    text.write_text("\n".join(lines))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"a\.txt:291:5: "):
            maxmargin.pack(text, tmp_path / "s", block_size="4K")


def test_an_existing_store_is_replaced_only_if_asked_for(tmp_path):
    maxmargin.pack(np.eye(2), tmp_path / "s", y=[0, 1])
    with pytest.raises(FileExistsError, match="overwrite"):
        maxmargin.pack(np.eye(3), tmp_path / "s", y=[0, 1, 1])
    assert maxmargin.open_store(tmp_path / "s").n_rows == 2
    assert maxmargin.pack(np.eye(3), tmp_path / "s", y=[0, 1, 1], overwrite=True).n_rows == 3
    (tmp_path / "precious").mkdir()
    with pytest.raises(FileExistsError, match="not a store"):
        maxmargin.pack(np.eye(3), tmp_path / "precious", y=[0, 1, 1], overwrite=True)


def test_packing_takes_a_few_blocks_of_memory(tmp_path):
    def chunks():
        for k in range(60):
            yield np.full((2500, 40), float(k)), np.arange(2500)  # 0.8 MB

    def peak(n):
        tracemalloc.start()
        try:
            maxmargin.pack(itertools.islice(chunks(), n), tmp_path / f"s{n}", block_size="1M")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)  # compiles
    assert peak(60) < 16 << 20 < 60 * 800_000


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", ["flip", "truncate", "missing", "exchanged", "header", "renamed"])
def test_a_damaged_block_is_named(tmp_path, damage):
    X, y = sparse_rows()
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size="4K")
    path = tmp_path / "s" / "block-000002"
    raw = path.read_bytes()
    if damage == "flip":
        path.write_bytes(raw[:-40] + bytes([raw[-40] ^ 4]) + raw[-39:])
    elif damage == "truncate":
        path.write_bytes(raw[:-8])
    elif damage == "missing":
        path.unlink()
    elif damage == "exchanged":
        shutil.copy(tmp_path / "s" / "block-000001", path)
    elif damage == "renamed":
        path.write_bytes(raw.replace(b'"indptr"', b'"indptx"', 1))
    else:
        path.write_bytes(b"\xff" * 9 + raw[9:])
    for read in (store.load, store.verify, store.labels, lambda: list(store)):
        with pytest.raises(StoreError, match="block-000002"):
            read()


def test_a_block_that_is_damaged_between_two_readings_is_named(tmp_path):
    X, y = sparse_rows()
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size="4K")
    store.load()
    path = tmp_path / "s" / "block-000001"
    raw = bytearray(path.read_bytes())
    raw[-100] ^= 1
    path.write_bytes(raw)
    with pytest.raises(StoreError, match=r"block-000001.*damaged"):
        store.load()


@pytest.mark.parametrize(("place", "change"), [(0, 1), (2, -100), (-1, 1)])
def test_places_of_rows_that_contradict_each_other_are_named(tmp_path, monkeypatch, place, change):
    """As of a block that was written wrong, so that its checksum fits."""
    X, y = sparse_rows()
    reader = maxmargin.pack(X, tmp_path / "s", y=y, block_size="4K").reader
    read = reader.column

    def read_wrong(block, name):
        column = read(block, name)
        column[place] += change
        return column

    monkeypatch.setattr(reader, "column", read_wrong)
    with pytest.raises(StoreError, match=r"block-000001: the places of its rows are not in order"):
        reader.spans(1)


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        maxmargin.open_store(tmp_path / "nothing")
    with pytest.raises(StoreError, match="not a store"):
        maxmargin.open_store(tmp_path)
    maxmargin.pack(np.eye(2), tmp_path / "s", y=[0, 1])
    index = tmp_path / "s" / "index"
    index.write_bytes(index.read_bytes()[:-3])
    with pytest.raises(StoreError, match="index"):
        maxmargin.open_store(tmp_path / "s")
    assert is_store(tmp_path / "s")
    assert not is_store(tmp_path)


# ---------------------------------------------------------------- other inputs


@pytest.mark.parametrize("kind", ["dense", "compressed", "fortran", "csr"])
def test_npz(tmp_path, kind):
    X, y = sparse_rows()
    weight = np.linspace(0.0, 2.0, len(y))
    dense = np.asfortranarray(X.toarray()) if kind == "fortran" else X.toarray()
    path = tmp_path / "a.npz"
    if kind == "csr":
        save_npz(tmp_path / "x.npz", X)
        np.savez(path, **np.load(tmp_path / "x.npz"), y=y, weight=weight)
    else:
        (np.savez_compressed if kind == "compressed" else np.savez)(path, X=dense, y=y, weight=weight)
    store = maxmargin.pack(path, tmp_path / "s", block_size="4K")
    assert store.index.storage == ("csr" if kind == "csr" else "dense")
    assert_holds(store, X, y, weight)
    assert maxmargin.pack([path, path], tmp_path / "t", block_size="4K").n_rows == 2 * len(y)


def test_npz_that_lacks_something(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2))
    with pytest.raises(ValueError, match="needs y"):
        maxmargin.pack(tmp_path / "a.npz", tmp_path / "s")
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=[1, 2])
    with pytest.raises(ValueError, match=r"'y'.*shorter"):
        maxmargin.pack(tmp_path / "a.npz", tmp_path / "s")
    (tmp_path / "a.npz").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"a\.npz: not an \.npz"):
        maxmargin.pack(tmp_path / "a.npz", tmp_path / "s")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_tables(tmp_path, suffix):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    X, names, weight = rng.standard_normal((500, 3)), rng.choice(["ham", "spam", "eggs"], 500), rng.random(500)
    table = pa.table({"a": X[:, 0], "kind": names, "b": X[:, 1], "c": X[:, 2], "w": weight})
    path = tmp_path / f"a.{suffix}"
    (csv.write_csv if suffix == "csv" else parquet.write_table)(table, path)
    store = maxmargin.pack(path, tmp_path / "s", label="kind", weight="w", block_size="4K")
    assert_holds(store, X, names, weight)
    assert store.classes.tolist() == ["eggs", "ham", "spam"]
    with pytest.raises(ValueError, match="which column has the labels"):
        maxmargin.pack(path, tmp_path / "t")
    with pytest.raises(ValueError, match="'kind' holds string, not numbers"):
        maxmargin.pack(path, tmp_path / "t", label="a")
    with pytest.raises(ValueError, match="no column 'z'"):
        maxmargin.pack(path, tmp_path / "t", label="z")


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([], "no rows"),
        ([(np.eye(2), [1, 2]), (np.array([[1.0, np.nan]]), [1])], "NaN: row 0, column 1.*row 2 of the input"),
        ([(np.eye(2), [1, 2]), (np.eye(3), [1, 2, 3])], "behind row 2 of the input: 3 features, not 2"),
        ([(np.eye(2), [1, 2, 3])], "X has 2 rows but y has shape"),
        ([(np.eye(2), [1.0, np.inf])], "row 1 of the input has the label inf"),
        ([(np.eye(2), [1, 2], [1.0, -1.0])], "row 1 of the input has the weight -1"),
        ([(np.eye(2), [1, 2]), (np.eye(2), [1, 2], [1, 1])], "either all pieces have weights"),
        ([(np.eye(2), [1, 2]), (np.eye(2), ["a", "b"])], "labels are"),
        ([(np.eye(2), np.array(["a", None], dtype=object))], "row 1 of the input has the label None"),
        ([(np.eye(2),)], "expected \\(X, y\\)"),
    ],
)
def test_bad_chunks_are_told_by_their_place(tmp_path, chunks, message):
    with pytest.raises(ValueError, match=message):
        maxmargin.pack(iter(chunks), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_bad_options(tmp_path):
    for options, message in [
        ({"storage": "rows"}, "storage must be"),
        ({"dtype": "int32"}, "dtype must be"),
        ({"test": 1.5}, "test must be between"),
        ({"block_size": "big"}, "block_size must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            maxmargin.pack(np.eye(2), tmp_path / "s", y=[0, 1], **options)
    with pytest.raises(ValueError, match="memory must be"):
        maxmargin.open_store(tmp_path, memory="much")
    with pytest.raises(ValueError, match="needs labels"):
        maxmargin.pack(np.eye(2), tmp_path / "s")
    with pytest.raises(TypeError, match="colour"):
        maxmargin.pack(np.eye(2), tmp_path / "s", y=[0, 1], colour="red")


@pytest.mark.parametrize("storage", ["dense", "csr", "dataframe"])
def test_dask_collections_are_packed_chunk_by_chunk(tmp_path, storage):
    da = pytest.importorskip("dask.array")
    delayed = pytest.importorskip("dask").delayed
    rng, made = np.random.default_rng(0), []
    X, y, weight = rng.normal(size=(70, 3)), rng.integers(3, size=70), rng.random(70)

    def make(begin):
        made.append(begin)
        part = X[begin : begin + 20]
        return samples.csr(part) if storage == "csr" else part

    chunks = [da.from_delayed(delayed(make)(b), (min(20, 70 - b), 3), float) for b in range(0, 70, 20)]
    rows = da.concatenate(chunks)
    if storage == "dataframe":
        rows = pytest.importorskip("dask.dataframe").from_dask_array(rows, columns=list("abc"))
    with dask_config(scheduler="synchronous"):
        store = maxmargin.pack(rows, tmp_path / "s", y=da.from_array(y, chunks=20), sample_weight=weight)
        assert made == [0, 20, 40, 60]
        with pytest.raises(ValueError, match="X has 4 chunks of rows, but y has 1"):
            maxmargin.pack(rows, tmp_path / "t", y=da.from_array(y))
        with pytest.raises(ValueError, match="X has 70 rows, but 71"):
            maxmargin.pack(rows, tmp_path / "t", y=np.append(y, 0))
        with pytest.raises(ValueError, match="needs labels"):
            maxmargin.pack(rows, tmp_path / "t")
    found, labels = store.load()[:2]
    np.testing.assert_array_equal(found.toarray() if storage == "csr" else found, X)
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(store.weights(), weight)


def dask_config(**options):
    import dask

    return dask.config.set(**options)
