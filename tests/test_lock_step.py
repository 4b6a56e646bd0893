"""Several runs over the rows of a store in lock step: the bits of one after the other, from a fraction of the reads."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest
import samples

import maxmargin
from maxmargin import LinearSVC, Problem, solve
from maxmargin.data import cuts
from maxmargin.data.lock_step import LockStep
from maxmargin.data.source import Labels, Paused, Request, pausing
from maxmargin.data.store import StoreError
from maxmargin.data.store.source import StoreSource
from maxmargin.solvers.auto import plan

N_CLASSES, N_FEATURES = 4, 40
LABELS = Labels(np.ones(400), np.ones(400), None)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Little data is divided, too."""
    monkeypatch.setattr(cuts, "LEAST_VALUES", 400)


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, N_FEATURES))
    y = np.argmax(X @ rng.normal(size=(N_FEATURES, N_CLASSES)) + rng.normal(size=(400, N_CLASSES)), axis=1)
    maxmargin.pack(X, tmp_path / "s", y=y, block_size=20_000)
    return tmp_path / "s"


def opened(path, memory=1):
    return maxmargin.open_store(path, memory=memory)


def runs_in_step(path, n_runs, **options):
    """The rows as each of so many runs has them, and what lets the runs go in step."""
    source = opened(path).source(**options)
    lock_step = LockStep(source, n_runs)
    return source.in_step(lock_step), lock_step


def one_after_the_other(monkeypatch):
    monkeypatch.setattr(StoreSource, "runs_at_once", lambda self, n_runs: 1)


def fitted(path, **options):
    store = opened(path)
    model = LinearSVC(**({"tol": 1e-6, "max_time": None} | options)).fit(store)
    return model, store._memory.pages.n_read


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(
    ("solver", "loss", "tol"),
    [
        ("tron", "squared_hinge", 1e-6),
        ("augmented_lagrangian", "hinge", 1e-3),
        ("ocas", "hinge", 1e-2),
        ("auto", "logistic", 1e-6),
    ],
)
def test_the_same_bits_from_fewer_reads(path, monkeypatch, solver, loss, tol, n_jobs):
    options = {"solver": solver, "loss": loss, "tol": tol, "n_jobs": n_jobs, "class_weight": "balanced"}
    together, n_together = fitted(path, **options)
    one_after_the_other(monkeypatch)
    alone, n_alone = fitted(path, **options)
    np.testing.assert_array_equal(together.coef_, alone.coef_)
    np.testing.assert_array_equal(together.intercept_, alone.intercept_)
    assert together.certificate_ == alone.certificate_
    for history, history_alone in zip(together.history_, alone.history_):
        np.testing.assert_array_equal(history["relative_gap"], history_alone["relative_gap"])
    assert n_together < 0.6 * n_alone  # runs that ask different questions do not share all that they read


def test_of_several_classes_on_text_auto_makes_passes_that_serve_all(tmp_path):
    rng = np.random.default_rng(0)
    X, y = samples.csr(rng.random((600, 4000)) < 0.005), rng.integers(3, size=600)
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size=4000)
    store = maxmargin.open_store(store.path, memory=int(0.9 * store.index.n_bytes))
    options = {"loss": "hinge", "tol": 1e-2, "n_jobs": 2}
    assert LinearSVC(**options).fit(store).solver_.name == "ocas"
    source = store.source()
    problem = Problem(source, np.where(y > 0, 1.0, -1.0), 1.0, "hinge")
    assert plan(problem)[0].name == "block_cd"  # of two classes: what it loads serves one run alone
    assert plan(problem.with_source(source.in_step(LockStep(source, 3))))[0].name == "ocas"


def test_one_pass_serves_all_that_wait(path):
    own, lock_step = runs_in_step(path, 3)

    def run(k):
        return [own.make_pass(_count, LABELS, shared=[k]).total for _ in range(k + 1)]

    assert lock_step.map(run, 3) == [[0], [400, 400], [800, 800, 800]]
    assert lock_step.n_joint == 3  # as many as the longest run asks for


def test_more_runs_than_go_at_a_time(path):
    own, lock_step = runs_in_step(path, 2, n_jobs=2)
    found = lock_step.map(lambda k: own.make_pass(_count, LABELS, shared=[k]).total, 5)
    assert found == [400 * k for k in range(5)]
    assert lock_step.n_joint == 3


def _count(block, k):
    return k * len(block.y)


def test_passes_in_one_fail_and_pause_by_themselves(path):
    source = opened(path).source(n_jobs=2)
    requests = [
        Request(_count, LABELS, shared=[2]),
        Request(_fail, LABELS),
        Request(_count, LABELS, shared=[3], should_pause=lambda: True),
    ]
    good, failed, paused = source.make_passes(requests)
    assert good.total == 800
    assert isinstance(failed, ZeroDivisionError)
    assert isinstance(paused, Paused)


def _fail(block):
    raise ZeroDivisionError


def test_a_run_that_fails_ends_all_and_is_the_one_that_is_told(path):
    own, lock_step = runs_in_step(path, 3)

    def run(k):
        for _ in range(100):
            own.make_pass(_fail if k == 1 else _count, LABELS, shared=[] if k == 1 else [k])

    with pytest.raises(ZeroDivisionError):
        lock_step.map(run, 3)
    assert lock_step.n_joint <= 2


def test_one_run_pauses_and_the_others_go_on(path):
    own, lock_step = runs_in_step(path, 2)

    def run(k):
        with pausing(lambda: k == 1):
            return own.make_pass(_count, LABELS, shared=[1]).total

    def caught(k):
        try:
            return run(k)
        except Paused:
            return "paused"

    assert lock_step.map(caught, 2) == [400, "paused"]


def test_a_damaged_block_is_named(path):
    victim = sorted(path.glob("*"))[3]
    content = bytearray(victim.read_bytes())
    content[-5] ^= 1
    victim.write_bytes(content)
    with pytest.raises(StoreError, match=victim.name):
        LinearSVC().fit(opened(path))


def test_checkpoints_of_classes_that_went_in_lock_step(path, tmp_path):
    options = {"solver": "tron", "tol": 1e-10}
    whole, _ = fitted(path, **options)
    first = LinearSVC(**options, max_iter=4)
    first._run_options = {"checkpoint": str(tmp_path / "state")}
    with warnings.catch_warnings(action="ignore"):
        first.fit(opened(path))
    assert first.stop_reason_ == "max_iter"
    resumed = LinearSVC(**options)
    resumed._run_options = {"checkpoint": str(tmp_path / "state")}
    resumed.fit(opened(path))
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert len(list(tmp_path.glob("state.*"))) == N_CLASSES


def test_a_limit_of_time_is_one_for_all(path, monkeypatch):
    """All classes have the whole time, not a share of it each: they are under way at the same time."""
    limits = []

    def solve_and_note(problem, solver, max_time, **options):
        limits.append(max_time)
        return solve(problem, solver, max_time=max_time, **options)

    monkeypatch.setattr("maxmargin.estimators._base.solve", solve_and_note)
    fitted(path, solver="tron", max_time=1000.0)
    assert len(limits) == N_CLASSES
    assert min(limits) > 900.0


def test_one_interrupt_ends_all_and_leaves_a_model(path, monkeypatch):
    n_left = []

    def interrupt(self, bundle):
        n_left.append(bundle)
        if len(n_left) == 100:  # in the midst of a pass
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(StoreSource, "_left", interrupt)
    model = LinearSVC(solver="bmrm", loss="hinge", tol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        model.fit(opened(path))
    assert model.stop_reason_ == "interrupted"
    assert model.coef_.shape == (N_CLASSES, N_FEATURES)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("maxmargin-run")]
