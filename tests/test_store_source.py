"""Rows on disk are rows: every solver that makes passes finds the same bits there as in memory, within its budget.

Every solver whose access is "passes" is covered by being registered.
"""

import errno
import functools
import gc
import itertools
import mmap
import os
import tempfile
import threading

import numpy as np
import pytest
import samples

import maxmargin
from maxmargin import Problem, losses, solve, solvers
from maxmargin.data import cuts, scratch
from maxmargin.data.cuts import SumTree
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import as_rows
from maxmargin.data.source import Labels, Paused, Source, pausing
from maxmargin.data.store import StoreError, blocks
from maxmargin.data.store.source import StoreSource
from maxmargin.solvers import auto

CASES = [
    (name, next(loss for loss in losses.names() if isinstance(losses.get(loss), solvers.get(name).losses)))
    for name in solvers.names()
    if solvers.get(name).access == "passes"
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Little data is divided, too."""
    monkeypatch.setattr(cuts, "LEAST_VALUES", 60)


def sample(storage, n=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.7)
    y = np.where(X @ rng.normal(size=5) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return (samples.csr(X) if storage == "csr" else X), y


def both(tmp_path, storage, memory, bias=1.0):
    """The same rows in a store and in memory, in the same partitions; and the labels."""
    X, y = sample(storage)
    maxmargin.pack(X, tmp_path / "s", y=y, block_size=2500)
    store = maxmargin.open_store(tmp_path / "s", memory=memory)
    assert store.n_blocks >= 4
    borders = store.first_rows
    parts = tuple(as_rows(X[a:b], bias)[0] for a, b in itertools.pairwise(borders))
    return store.source(bias=bias), InMemory(parts), y


@pytest.mark.parametrize("memory", [1, 8_000, "1G"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("solver", "loss"), CASES)
def test_the_same_bits_as_in_memory(tmp_path, solver, loss, storage, memory):
    on_disk, in_memory, y = both(tmp_path, storage, memory)
    tol = max(1e-6, 10.0 * solvers.get(solver).accuracy)  # slow methods need not go all their way
    found = [
        solve(Problem(source, y, 0.7, loss), solver, tol=tol)
        for source in (in_memory, on_disk, on_disk.with_jobs(2), in_memory.with_jobs(3))
    ]
    assert len({result.w.tobytes() for result in found}) == 1
    assert len({result.certificate for result in found}) == 1
    assert found[0].certificate.relative_gap <= tol
    pages = on_disk.memory.pages
    assert pages.n_kept <= on_disk.store.memory
    assert (pages.n_read == 0) == (memory == "1G")
    assert (pages.n_kept > 0) == (memory != 1)


def test_an_auto_solver_and_a_checkpoint(tmp_path):
    on_disk, _, y = both(tmp_path, "csr", 8_000)
    problem = Problem(on_disk, y, 0.7, "squared_hinge")
    whole = solve(problem, "auto", tol=1e-8)
    solve(problem, "tron", tol=1e-8, max_iter=3, checkpoint=tmp_path / "state")
    resumed = solve(problem, "tron", tol=1e-8, checkpoint=tmp_path / "state")
    assert whole.solver.access == "passes"
    assert whole.certificate.relative_gap <= 1e-8
    np.testing.assert_allclose(resumed.w, whole.w, rtol=1e-3)
    with pytest.raises(ValueError, match="'dual_cd' does not take these rows"):
        solve(problem, "dual_cd")


@pytest.mark.parametrize(
    ("loss", "n_features", "expected"),
    [
        ("squared_hinge", 5, ["tron"]),
        ("hinge", 5, ["augmented_lagrangian"]),
        ("hinge", 4000, ["block_cd", "ocas"]),
        ("logistic", 4000, ["tron"]),
    ],
)
def test_the_plan_for_rows_that_are_not_in_memory(tmp_path, loss, n_features, expected):
    X = samples.csr(np.eye(20, n_features))
    source = maxmargin.pack(X, tmp_path / "s", y=np.where(np.arange(20) % 3, 1.0, -1.0)).source()
    problem = Problem(source, np.where(np.arange(20) % 3, 1.0, -1.0), 1.0, loss)
    assert [solver.name for solver in auto.plan(problem)] == expected


def test_the_plan_depends_on_the_room_for_blocks(tmp_path):
    X, y = samples.csr(np.eye(400, 4000)), np.where(np.arange(400) % 3, 1.0, -1.0)
    maxmargin.pack(X, tmp_path / "s", y=y)
    names = [
        auto.plan(Problem(maxmargin.open_store(tmp_path / "s", memory=memory).source(), y, 1.0, "hinge"))[0].name
        for memory in (1000, 10**6)
    ]
    assert names == ["ocas", "block_cd"]


def test_columns_of_the_store(tmp_path):
    X, y = sample("dense")
    weight = np.linspace(0.0, 1.0, len(y))
    maxmargin.pack(X, tmp_path / "s", y=y, sample_weight=weight, block_size=2500)
    source = maxmargin.open_store(tmp_path / "s", memory=1).source()
    np.testing.assert_array_equal(source.column("weight"), weight)
    np.testing.assert_array_equal(source.column("y", lambda part: 2.0 * part), 2.0 * y)
    assert (source.n_rows, source.n_features, source.n_weights, source.is_dense) == (240, 5, 5, True)
    with pytest.raises(ValueError, match="only passes"):
        source.rows  # noqa: B018 - it is the property that refuses


# ---------------------------------------------------------------- pausing and damage


def test_a_pass_pauses_within_a_block_of_the_store(tmp_path):
    on_disk, _, y = both(tmp_path, "csr", 1)
    problem, looks = Problem(on_disk, y, 1.0, "squared_hinge"), []

    def should_pause():
        looks.append(1)
        return len(looks) > 7

    assert len(on_disk._spans(0, 0)) < 7 < sum(len(on_disk._spans(k, 0)) for k in range(4))
    with pausing(should_pause), pytest.raises(Paused):
        problem.outputs(np.zeros(6))
    assert len(looks) == 8


def test_an_interrupted_fit_keeps_its_last_iteration(tmp_path):
    on_disk, _, y = both(tmp_path, "csr", 1)
    interrupt = threading.Event()
    problem = Problem(on_disk, y, 1.0, "logistic")

    def stop(progress):
        if progress.report.passes >= 3:
            interrupt.set()

    result = solve(problem, "tron", tol=1e-12, callbacks=[stop], interrupt=interrupt)
    assert result.stop_reason == "interrupted"
    assert result.certificate.primal == pytest.approx(problem.primal(result.w), rel=1e-12)


@pytest.mark.parametrize("memory", [1, "1G"])
def test_a_block_damaged_between_passes_is_named(tmp_path, memory):
    on_disk, _, y = both(tmp_path, "dense", memory)
    problem = Problem(on_disk, y, 1.0, "squared_hinge")
    problem.outputs(np.zeros(6))
    path = tmp_path / "s" / "block-000002"
    raw = bytearray(path.read_bytes())
    raw[-100] ^= 1
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="block-000002"):
        problem.outputs(np.ones(6))
    path.unlink()
    with pytest.raises(StoreError, match=r"block-000002.*missing"):
        problem.outputs(np.ones(6))


def test_what_is_set_aside_of_the_budget_comes_back(tmp_path):
    on_disk, _, y = both(tmp_path, "dense", 8_000)
    pages = on_disk.memory.pages
    whole, part = pages.budget, pages.budget // 3
    for _ in range(3):
        Problem(on_disk, y).outputs(np.zeros(6))
        assert 0 < pages.n_kept <= whole
        assert pages.set_aside(whole - part)
        assert whole - part <= pages.n_kept <= whole, "pages give way"
        assert not pages.set_aside(part + 1), "there is not so much"
        assert pages.set_aside(part)
        assert pages.n_kept == whole
        pages.give_back(part)
        pages.give_back(whole - part)
        assert pages.n_kept == 0


CHANGES = {
    "indices beyond": lambda parts: parts | {"indices": [part + 100 for part in parts["indices"]]},
    "negative indices": lambda parts: parts | {"indices": [part - 100 for part in parts["indices"]]},
    "rows that end before they begin": lambda parts: parts | {"indptr": [_turned(part) for part in parts["indptr"]]},
}


def _turned(indptr):
    indptr = indptr.copy()
    k = len(indptr) // 2
    indptr[k] += 50
    return indptr


@pytest.mark.parametrize("memory", [1, "1G"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_store_of_others_is_looked_at_before_compiled_code_steps_there(tmp_path, monkeypatch, change, memory):
    """Its sums of bytes are right, and its rows are not."""
    X, y = sample("csr")
    write = blocks.write_parts
    monkeypatch.setattr(blocks, "write_parts", lambda path, kind, info, arrays: write(path, kind, info, change(arrays)))
    maxmargin.pack(X, tmp_path / "s", y=y, block_size=2500)
    store = maxmargin.open_store(tmp_path / "s", memory=memory)
    with pytest.raises(StoreError, match=r"out of range|not in order"):
        Problem(store.source(), y).outputs(np.zeros(5))


# ---------------------------------------------------------------- vectors


def test_vectors_beyond_the_budget_lie_in_files(tmp_path):
    made = scratch.Scratch(1000, tmp_path)
    first, second = made.empty(100, float), made.empty((50_000, 2), np.float32)
    second[:] = np.arange(100_000).reshape(-1, 2)
    assert made.n_bytes == 800
    made.release(second, 0, 50_000)
    made.release(first, 0, 100)
    np.testing.assert_array_equal(second.ravel(), np.arange(100_000))
    assert os.listdir(tmp_path) == []  # the file has no name
    del first, second
    gc.collect()
    assert made.n_bytes == 0
    assert made.empty(125, float).nbytes == 1000


def test_scratch_files_are_used_again(tmp_path, monkeypatch):
    made, n_files = scratch.Scratch(0, tmp_path), []
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: n_files.append(1), raising=False)
    for k in range(4):
        first, second = made.empty(3000, float), made.empty(3000, float)
        first[:], second[:] = k, -k
        assert first.sum() == 3000 * k == -second.sum()
        part = first[10:20]  # whoever has a part of a vector has the vector
        del first, second
        gc.collect()
        others = made.empty(3000, float), made.empty((1500, 2), float)
        others[0][:] = others[1][:] = 7.0
        assert (part == k).all()
        del part, others
    assert len(n_files) == 3


def test_a_vector_that_finds_some_room_stays_in_memory_in_part(tmp_path):
    page = mmap.ALLOCATIONGRANULARITY
    made = scratch.Scratch(3 * page + 100, tmp_path)
    vector = made.empty(5 * page, np.uint8)
    assert made.n_bytes == 3 * page
    vector[:] = np.arange(5 * page) % 251
    made.release(vector, 0, len(vector))
    np.testing.assert_array_equal(vector, np.arange(5 * page) % 251)
    assert made.empty(page, np.uint8).nbytes == page  # there is no more room
    assert made.n_bytes == 3 * page
    del vector
    assert made.n_bytes == 0


def test_a_scratch_file_is_as_long_as_what_it_is_for(tmp_path, monkeypatch):
    """However it is cut when it is written: no more of the disk is taken."""
    written, opened = [], tempfile.TemporaryFile

    class Counted:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def fileno(self):
            return self.file.fileno()

        def write(self, content):
            written.append(len(content))
            return self.file.write(content)

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Counted(opened(**options)))
    monkeypatch.setattr(scratch, "_AT_ONCE", 1000)
    vector = scratch.Scratch(0, tmp_path).empty(2500, np.uint8)
    assert written == [1000, 1000, 500]
    assert not vector.any()


def test_a_full_disk_is_an_error(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    on_disk, _, y = both(tmp_path, "dense", 1)
    with pytest.raises(OSError, match="No space left"):
        Problem(on_disk, y, 1.0, "squared_hinge").outputs(np.zeros(6))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
@pytest.mark.parametrize("n_before", [1, 4])
def test_a_disk_that_fills_up_during_a_fit(tmp_path, monkeypatch, n_before):
    X, y = sample("dense")
    maxmargin.pack(X, tmp_path / "s", y=y, block_size=2500)
    options = {"solver": "tron", "loss": "logistic", "tol": 1e-8}
    expected = maxmargin.LinearSVC(**options).fit(maxmargin.open_store(tmp_path / "s", memory=1))
    allocate, calls = os.posix_fallocate, []

    def fills_up(*arguments):
        calls.append(arguments)
        if len(calls) > n_before:
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(*arguments)

    monkeypatch.setattr(os, "posix_fallocate", fills_up)
    with pytest.raises(OSError, match="No space left"):
        maxmargin.LinearSVC(**options).fit(maxmargin.open_store(tmp_path / "s", memory=1))
    monkeypatch.undo()
    monkeypatch.setattr(cuts, "LEAST_VALUES", 60)  # undone, too
    gc.collect()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]  # nothing is left of it
    found = maxmargin.LinearSVC(**options).fit(maxmargin.open_store(tmp_path / "s", memory=1))
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_many_vectors_are_spilled_and_the_answer_is_the_same(tmp_path):
    on_disk, in_memory, y = both(tmp_path, "dense", 2000)
    kept = [on_disk.new_vector(float) for _ in range(3)]  # the first takes all the room
    assert on_disk.memory.scratch.n_bytes <= 1000
    found = [solve(Problem(source, y, 0.7, "logistic"), "tron", tol=1e-8) for source in (in_memory, on_disk)]
    assert found[0].w.tobytes() == found[1].w.tobytes()
    del kept


# ---------------------------------------------------------------- sums


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_sums_are_added_as_a_tree(n):
    """Of text, whose "sum" shows the order."""

    class Text(list):
        def __iadd__(self, other):
            self[0] = f"({self[0]}{other[0]})"
            return self

    tree = SumTree()
    for k in range(n):
        tree.add([Text([chr(97 + k)])])
    expected = {1: "a", 2: "(ab)", 3: "((ab)c)", 5: "(((ab)(cd))e)", 8: "(((ab)(cd))((ef)(gh)))"}
    (total,) = tree.total()
    assert total[0] == expected.get(n, "((((ab)(cd))((ef)(gh)))(((ij)(kl))m))")


def test_partitions_are_added_in_pairs():
    parts = tuple(as_rows([[x]])[0] for x in (1.0, 1e100, 1.0, -1e100))
    labels = Labels(np.ones(4), np.ones(4), None)

    def add(block, total):
        total += block.rows.values.sum()

    assert InMemory(parts).make_pass(add, labels, sums=[1]).sums[0][0] == (1.0 + 1e100) + (1.0 - 1e100)
    assert StoreSource.make_pass is Source.make_pass  # one text for all


def test_a_pass_over_one_block_is_the_general_one():
    rng = np.random.default_rng(0)
    source = InMemory((as_rows(rng.normal(size=(40, 3)))[0],))
    labels, start = Labels(rng.normal(size=40), np.ones(40), None), rng.normal(size=3)

    def add(block, factor, z, total, onto):
        z[:] = factor * block.y
        total += block.rows.values.T @ z
        onto += 1.0
        return float(z.sum())

    def made_by(make_pass):
        return make_pass(add, labels, shared=[2.0], writes=[np.float64], sums=[3, start.copy()])

    short, general = made_by(source.make_pass), made_by(functools.partial(Source.make_pass, source))
    assert short.results == general.results
    for ours, theirs in zip((*short.vectors, *short.sums), (*general.vectors, *general.sums), strict=True):
        assert np.array_equal(ours, theirs)
