"""Coordinate descent by blocks: the paper's iterates, and the same answer as other methods, in memory and on disk."""

import itertools

import naive
import numpy as np
import pytest
import samples

import maxmargin
from maxmargin import LinearSVC, Problem, solve
from maxmargin.data.generators import make_text
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import as_rows
from maxmargin.data.source import Paused, pausing
from maxmargin.solvers.base import Goal
from maxmargin.solvers.coordinate.block_cd import BlockCD

BORDERS = [0, 30, 30, 55, 100]


def sample(loss="hinge", n_rows=100, n_features=6):
    X, y = samples.sample(loss, n_rows=n_rows, n_features=n_features)
    weight = np.ones(n_rows)
    weight[30:55] = 0.0  # a block without any weight
    return X, y, weight


def in_blocks(X, storage="dense"):
    parts = [X[a:b] for a, b in itertools.pairwise(BORDERS)]
    return InMemory(tuple(as_rows(samples.csr(part) if storage == "csr" else part)[0] for part in parts))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("sweeps", "at_once"), [(1, 1), (1, 2), (1, 4), (3, 1), (2, 3)])
def test_every_outer_iteration_is_that_of_a_naive_version(loss, sweeps, at_once):
    X, y, weight = sample(loss)
    problem = Problem(in_blocks(X), y, 0.7, loss, sample_weight=weight)
    oracle = naive.block_cd(X, y, problem.cost, problem.loss, seed=5, borders=BORDERS, sweeps=sweeps, at_once=at_once)
    for passes, (w, alpha) in enumerate(itertools.islice(oracle, 5), start=1):
        result = solve(problem, BlockCD(sweeps, at_once), tol=0.0, max_iter=passes, seed=5)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(result.alpha, alpha, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_the_optimum_is_that_of_all_rows_at_once(storage):
    X, y, weight = sample()
    found = solve(Problem(in_blocks(X, storage), y, 0.7, "hinge", sample_weight=weight), "block_cd", tol=1e-7)
    expected = solve(Problem(X, y, 0.7, "hinge", sample_weight=weight), "dual_cd", tol=1e-7)
    assert found.stop_reason == "converged"
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=3e-7)


@pytest.mark.parametrize(("at_once", "memory"), [(1, 2000), (2, 2000), (1, 10**6), (None, 10**6)])
def test_on_disk_it_has_the_bits_of_memory(tmp_path, at_once, memory):
    X, y, _ = sample()
    maxmargin.pack(samples.csr(X), tmp_path / "s", y=y, block_size=2000)
    store = maxmargin.open_store(tmp_path / "s", memory=memory)
    assert store.n_blocks >= 3
    parts = tuple(as_rows(samples.csr(X[a:b]), 1.0)[0] for a, b in itertools.pairwise(store.first_rows))
    found = [
        solve(Problem(source, y, 0.7, "hinge"), BlockCD(at_once=at_once), tol=1e-6)
        for source in (InMemory(parts), store.source(1.0))
    ]
    assert found[0].w.tobytes() == found[1].w.tobytes()
    assert found[0].certificate == found[1].certificate
    model = LinearSVC(loss="hinge", solver=BlockCD(at_once=at_once), C=0.7, tol=1e-6).fit(store)
    assert model.certificate_ == found[0].certificate


def test_with_little_memory_it_loads_what_is_active_and_finds_the_same_optimum(tmp_path):
    X, y, _ = sample(n_rows=400)
    weight = np.ones(400)
    maxmargin.pack(X, tmp_path / "s", y=y, block_size=2000)
    expected = solve(Problem(X, y, 0.7, "hinge", sample_weight=weight, bias=1.0), "dual_cd", tol=1e-8)
    read = []
    for memory in (1000, 30_000, 10**6):
        source = maxmargin.open_store(tmp_path / "s", memory=memory).source(1.0)
        found = solve(Problem(source, y, 0.7, "hinge"), "block_cd", tol=1e-8)
        assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=3e-8)
        assert source.memory.pages.n_kept <= max(memory, 1000)
        read.append(source.memory.packed.n_read)
    assert read[0] > read[1] > read[2]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_with_little_memory_it_takes_few_more_passes_than_with_all_rows(tmp_path, loss):
    """With one block at a time, blocks agree on the intercept so slowly that it took fifty times the passes."""
    X, y = make_text(2000, 1000, random_state=0)
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size=200_000)
    store = maxmargin.open_store(store.path, memory=store.index.n_bytes // 8)
    assert store.n_blocks >= 8
    whole = solve(Problem(X, y, 1.0, loss, bias=1.0), "dual_cd", tol=1e-3)
    found = solve(Problem(store.source(1.0), y, 1.0, loss), "block_cd", tol=1e-3)
    assert found.passes <= 2.5 * whole.passes


def test_a_run_goes_on_from_its_checkpoint_with_other_memory(tmp_path):
    X, y = make_text(300, 200, random_state=0)
    path = maxmargin.pack(X, tmp_path / "s", y=y, block_size=20_000).path
    runs = []
    for memory, options in ((20_000, {"max_iter": 3}), (100_000, {})):
        problem = Problem(maxmargin.open_store(path, memory=memory).source(1.0), y, 1.0, "hinge")
        runs.append(solve(problem, "block_cd", tol=1e-6, checkpoint=tmp_path / "state", **options))
    assert runs[0].stop_reason == "max_iter"
    assert runs[1].certificate.relative_gap <= 1e-6


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    X, y, _ = sample()
    problem = Problem(in_blocks(X), y, 0.7, "hinge")
    whole = solve(problem, "block_cd", tol=1e-8)
    solve(problem, "block_cd", tol=1e-8, max_iter=5, checkpoint=tmp_path / "state")
    assert solve(problem, "block_cd", tol=1e-8, checkpoint=tmp_path / "state").w.tobytes() == whole.w.tobytes()


def test_it_is_paused_within_a_load_which_leaves_no_trace(tmp_path):
    X, y, _ = sample()
    maxmargin.pack(samples.csr(X), tmp_path / "s", y=y, block_size=2000)
    problem = Problem(maxmargin.open_store(tmp_path / "s", memory=4000).source(1.0), y, 0.7, "hinge")
    solver, goal = BlockCD(), Goal(1e-6, 100.0)
    state = solver.init_state(problem)
    for _ in range(5):
        state = solver.update(problem, state, goal)
    expected = solver.update(problem, _copied(state), goal)
    for n_looks in range(100):
        before = _copied(state)
        with pausing(_after(n_looks)):
            try:
                found = solver.update(problem, state, goal)
                break
            except Paused:
                assert all(a.tobytes() == b.tobytes() for a, b in zip(before[:5], state[:5]))
    assert n_looks >= 2  # while loading and between sweeps
    assert found.w.tobytes() == expected.w.tobytes()
    assert found.alpha.tobytes() == expected.alpha.tobytes()


def _after(n_looks):
    looks = itertools.count()
    return lambda: next(looks) >= n_looks


def _copied(state):
    return state._replace(**{name: getattr(state, name).copy() for name in ("w", "alpha", "active", "order", "rng")})


def test_bad_parameters():
    with pytest.raises(ValueError, match="sweeps must be a whole number, 1 or more"):
        BlockCD(sweeps=0)
    with pytest.raises(ValueError, match="at_once must be a whole number, 1 or more"):
        BlockCD(at_once=0)
