"""Rows on a Dask cluster: the same bits as in memory, whatever happens to the workers."""

import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import dask_steps
import numpy as np
import pytest
import samples

import maxmargin
from maxmargin import Problem, losses, solve, solvers
from maxmargin.cli import main
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import as_rows
from maxmargin.data.source import Labels

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
from dask import delayed  # noqa: E402

from maxmargin.dask import LinearSVC, LinearSVCCV, LinearSVR, partitions, path, tasks  # noqa: E402
from maxmargin.dask import source as module  # noqa: E402
from maxmargin.dask.partitions import make_source  # noqa: E402
from maxmargin.dask.source import DaskSource  # noqa: E402

CASES = [
    (name, next(loss for loss in losses.names() if isinstance(losses.get(loss), solvers.get(name).losses)))
    for name in solvers.names()
    if solvers.get(name).access == "passes"
]
BORDERS = [0, 70, 70, 71, 200, 300]  # an empty partition, and one of a single row


def sample(storage="dense", n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) * (rng.random((300, 5)) < 0.7)
    y = (X @ rng.normal(size=(5, n_classes)) + 0.5 * rng.normal(size=(300, n_classes))).argmax(axis=1)
    return (samples.csr(X) if storage == "csr" else X), y


def in_parts(X):
    return [X[a:b] for a, b in zip(BORDERS, BORDERS[1:])]  # noqa: RUF007 - of a list that is short


def both(client, storage, bias=1.0):
    """The same partitions in memory and on the cluster, and labels."""
    X, y = sample(storage)
    signs = np.where(y == 1, 1.0, -1.0)
    chunks = [delayed(part) for part in in_parts(X)]
    on_dask, _, _ = make_source(client, chunks, signs, None, bias)
    return on_dask, InMemory(tuple(as_rows(part, bias)[0] for part in in_parts(X))), signs


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("solver", "loss"), CASES)
def test_the_same_bits_as_in_memory(client, solver, loss, storage):
    on_dask, in_memory, y = both(client, storage)
    tol = max(1e-6, 10.0 * solvers.get(solver).accuracy)  # slow methods need not go all their way
    found = [solve(Problem(source, y, 0.7, loss), solver, tol=tol) for source in (in_memory, on_dask)]
    assert found[0].w.tobytes() == found[1].w.tobytes()
    assert found[0].certificate == found[1].certificate
    assert found[1].certificate.relative_gap <= tol
    assert found[0].passes == found[1].passes


def test_large_sums_are_added_on_the_workers_in_the_same_order(client, monkeypatch):
    on_dask, in_memory, y = both(client, "dense")
    here = Problem(in_memory, y, 0.7, "squared_hinge")
    there = Problem(on_dask, y, 0.7, "squared_hinge")
    w, p = np.linspace(-1.0, 1.0, 6), np.sin(np.arange(300.0))
    monkeypatch.setattr(module, "_MUCH", 1)
    assert there.evaluate(w).gradient.tobytes() == here.evaluate(w).gradient.tobytes()
    upper = np.triu_indices(6)
    onto = here.gram(np.ones(300))
    np.testing.assert_array_equal(there.gram(p, onto=onto)[upper], here.gram(p, onto=onto)[upper])


# ---------------------------------------------------------------- violence


class Killer:
    """Kills workers, one after the other, at certain iterations of a fit."""

    def __init__(self, client, at):
        self.client, self.at, self.n, self.killed = client, set(at), 0, []

    def __call__(self, progress):
        self.n += 1
        if self.n in self.at:
            pids = self.client.run(os.getpid)
            pid = pids[sorted(pids)[len(self.killed) % len(pids)]]
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_worker_changes_nothing(client):
    on_dask, in_memory, y = both(client, "csr")
    killer = Killer(client, at=[2, 4])
    expected = solve(Problem(in_memory, y, 50.0, "logistic"), "tron", tol=1e-9)
    found = solve(Problem(on_dask, y, 50.0, "logistic"), "tron", tol=1e-9, callbacks=[killer])
    assert len(killer.killed) == 2
    assert found.w.tobytes() == expected.w.tobytes()
    assert found.certificate == expected.certificate
    assert found.passes == expected.passes


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_worker_killed_in_the_middle_of_a_pass(client):
    on_dask, _, y = both(client, "dense")
    pids = client.run(os.getpid)
    timer = threading.Timer(0.3, os.kill, [min(pids.values()), signal.SIGKILL])
    timer.start()
    done = on_dask.make_pass(dask_steps.slow_step, Labels(y, np.ones(300), None), writes=[np.float64], sums=[1])
    timer.join()
    np.testing.assert_array_equal(done.vectors[0], 2.0 * y)
    assert done.total == 300
    assert done.sums[0][0] == y.sum()


def test_an_interrupt_ends_a_pass(client):
    on_dask, _, y = both(client, "dense")
    interrupt = threading.Event()
    result = solve(
        Problem(on_dask, y, 50.0, "logistic"),
        "tron",
        tol=1e-12,
        interrupt=interrupt,
        callbacks=[lambda progress: interrupt.set()],
    )
    assert result.stop_reason == "interrupted"
    assert np.isfinite(result.certificate.primal)


# ---------------------------------------------------------------- estimators


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier_on_dask_arrays(client, n_classes):
    X, y = sample(n_classes=n_classes)
    names = np.array(["a", "b", "c"])[y]
    dX, dy = da.from_array(X, chunks=(77, 2)), da.from_array(names, chunks=100)
    model = LinearSVC(tol=1e-8, loss="logistic").fit(dX, dy, client=client)
    expected = maxmargin.LinearSVC(tol=1e-8, loss="logistic", solver="tron").fit(X, names)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-3, atol=1e-5)
    assert model.classes_.tolist() == expected.classes_.tolist()
    predicted = model.predict(dX)
    assert hasattr(predicted, "compute")
    np.testing.assert_array_equal(predicted.compute(), expected.predict(X))
    values = model.decision_function(dX)
    assert values.shape == expected.decision_function(X).shape
    np.testing.assert_allclose(values.compute(), expected.decision_function(X), rtol=1e-3, atol=1e-4)
    assert model.score(dX, dy) == expected.score(X, names)


def test_unknown_chunk_sizes_empty_chunks_and_weights(client, tmp_path):
    X, y = sample()
    keep = X[:, 0] >= 0.0
    keep[:100] = False  # the first chunk is empty
    dX = da.from_array(X, chunks=(100, 5))
    dX = dX[da.from_array(keep, chunks=100)]
    assert np.isnan(dX.shape[0])
    weight = np.linspace(0.0, 1.0, keep.sum())
    model = LinearSVC(tol=1e-8).fit(dX, y[keep], weight, client=client)
    expected = maxmargin.LinearSVC(tol=1e-8, solver="tron").fit(X[keep], y[keep], weight)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-3, atol=1e-5)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(maxmargin.load(tmp_path / "m").predict(X), model.predict(X))


def test_dataframes(client):
    dd = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    X, y = sample()
    table = dd.from_pandas(pandas.DataFrame(X, columns=list("abcde")).assign(y=y), npartitions=3)
    model = LinearSVC(tol=1e-8).fit(table[list("abcde")], table["y"], client=client)
    expected = maxmargin.LinearSVC(tol=1e-8, solver="tron").fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(model.predict(table[list("abcde")]).compute(), expected.predict(X))


def test_delayed_chunks_with_their_labels_and_a_store(client, tmp_path):
    X, _ = sample("csr")
    target = X @ np.arange(5.0) + 0.1 * np.sin(np.arange(300.0))
    options = {"loss": "squared_epsilon_insensitive", "tol": 1e-8}
    expected = maxmargin.LinearSVR(solver="tron", **options).fit(X, target)
    chunks = [delayed((a, b)) for a, b in zip(in_parts(X), in_parts(target))]
    store = maxmargin.pack(X, tmp_path / "s", y=target, block_size=4000)
    assert store.n_blocks > 2
    with pytest.raises(ValueError, match="labels of its own"):
        LinearSVR().fit(store, target, client=client)
    for data in (chunks, store):
        model = LinearSVR(**options).fit(data, client=client)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    assert model.score(X, target) == pytest.approx(expected.score(X, target), rel=1e-6)


def test_partitions_of_one_class_each_and_lists_to_predict(client):
    X, y = sample("csr", 3)
    order = np.argsort(y, kind="stable")
    X, y = X[order], np.array(["a", "b", "c"])[y[order]]
    borders = [0, *np.flatnonzero(y[1:] != y[:-1]) + 1, 300]
    parts = [slice(a, b) for a, b in itertools.pairwise(borders)]
    weight = np.linspace(0.5, 1.5, 300)
    futures = [client.submit(chunk_of, X, y, weight, part, pure=False) for part in parts]
    options = {"loss": "logistic", "solver": "tron", "tol": 1e-9}
    model = LinearSVC(**options).fit(futures, client=client)
    expected = maxmargin.LinearSVC(**options).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    assert model.predict(futures).compute().tolist() == expected.predict(X).tolist()
    values = model.decision_function([delayed(X[part]) for part in parts]).compute()
    np.testing.assert_array_equal(values, model.to_local().decision_function(X))
    assert model.score(futures, y) == expected.score(X, y)


def chunk_of(X, y, weight, part):
    return X[part], y[part], weight[part]


def test_arrays_with_sparse_chunks(client):
    X, y = sample()
    sparse = da.from_array(X, chunks=(90, 5)).map_blocks(samples.csr)
    options = {"loss": "logistic", "solver": "tron", "tol": 1e-8}
    model = LinearSVC(**options).fit(sparse, y, client=client)
    expected = maxmargin.LinearSVC(**options).fit(samples.csr(X), y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(model.predict(sparse).compute(), expected.predict(X))


def test_labels_and_large_vectors_travel_once(client, monkeypatch, recwarn):
    """What is in the tasks of a pass: neither labels nor, if they are large, weights."""
    X, y = sample()
    source, _, _ = make_source(client, [delayed(part) for part in in_parts(X)], y, None, 1.0)
    problem = Problem(source, np.where(y == 1, 1.0, -1.0), 0.5, "logistic")
    problem.evaluate(np.zeros(6))
    sent, whole = [], client.compute
    monkeypatch.setattr(client, "compute", lambda tasks: sent.append(tasks) or whole(tasks))
    monkeypatch.setattr(module, "_LITTLE", 0)
    first, second = problem.evaluate(np.ones(6)), problem.evaluate(np.ones(6))
    assert first.gradient.tobytes() == second.gradient.tobytes()
    graphs = [dict(tasks[0].__dask_graph__()) for tasks in sent]
    assert [sorted(key.partition("-")[0] for key in graph) for graph in graphs] == [["evaluate_rows", "keep"]] * 2
    other = problem.with_labels(-problem.y)
    assert other.evaluate(np.ones(6)).value != first.value
    assert len(source._sent) == 2
    del other
    gc.collect()
    problem.with_labels(problem.y.copy()).evaluate(np.zeros(6))
    assert len(source._sent) <= 2  # labels that are gone are forgotten


@pytest.mark.parametrize(
    "vector",
    [
        np.ones(5),
        np.array([1.0, -1.0, 1.0]),
        np.array([0.5, 1.0]),
        np.array([-0.0, 1.0]),
        np.array([0.0, -0.0]),
        np.array([0.3, 0.0, -0.3]),
        np.array([0.0, np.inf]),
        np.array([True, False]),
        np.empty(0),
        np.arange(300.0),
    ],
)
def test_vectors_travel_without_loss(vector):
    packed = tasks.pack_vector(vector)
    y, cost = tasks.unpack_labels(None, packed, packed)
    assert y.dtype == vector.dtype
    assert y.tobytes() == cost.tobytes() == vector.tobytes()
    y[:] = 1.0  # owned, and not the numbers that came


def test_mistakes_are_told(client):
    X, y = sample()
    with pytest.raises(TypeError, match=r"maxmargin\.LinearSVC"):
        LinearSVC().fit(X, y, client=client)
    with pytest.raises(ValueError, match="X has 300 rows, but y has 3"):
        LinearSVC().fit(da.from_array(X, chunks=100), y[:3], client=client)
    with pytest.raises(ValueError, match="different numbers of features"):
        LinearSVC().fit([delayed(X), delayed(X[:, :2])], np.r_[y, y], client=client)
    holed = X.copy()
    holed[123, 4] = np.nan
    with pytest.raises(ValueError, match=r"partition 1.*23.*4"):
        LinearSVC().fit(da.from_array(holed, chunks=(100, 5)), y, client=client)
    with pytest.raises(ValueError, match="1 of 2 chunks have weights"):
        LinearSVC().fit([delayed((X, y, np.ones(300))), delayed((X, y))], client=client)
    with pytest.raises(ValueError, match="weights of their own"):
        LinearSVC().fit([delayed((X, y, np.ones(300)))], sample_weight=np.ones(300), client=client)
    with pytest.raises(ValueError, match="classes"):
        LinearSVC().fit([delayed((X, np.ones(300)))], client=client)
    with pytest.raises(ValueError, match="'dual_cd' does not take these rows"):
        LinearSVC(solver="dual_cd").fit(da.from_array(X, chunks=100), y, client=client)
    with pytest.raises(ValueError, match="must be a function of its module"):
        both(client, "dense")[0].make_pass(lambda block: 0, Labels(y, y, None))


# ---------------------------------------------------------------- choice of C, checkpoints, the command line


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_path_and_a_choice_of_C(client, n_classes, tmp_path):
    X, y = sample("csr", n_classes)
    names = np.array(["a", "b", "c"])[y]
    chunks = [delayed((a, b)) for a, b in zip(in_parts(X), in_parts(names))]
    options = {"loss": "logistic", "solver": "tron", "tol": 1e-8}
    models, expected = (
        path(chunks, Cs=[0.1, 1.0], client=client, **options),
        maxmargin.path(X, names, [0.1, 1.0], **options),
    )
    np.testing.assert_allclose(models.objective, expected.objective, rtol=1e-7)
    assert (models.relative_gap <= 1e-8).all()
    np.testing.assert_array_equal(models.model(1).predict(X), expected.model(1).predict(X))

    chosen = LinearSVCCV(Cs=[0.01, 1.0], cv=3, **options).fit(chunks, client=client)
    in_memory = maxmargin.LinearSVCCV(Cs=[0.01, 1.0], cv=3, **options).fit(X, names)
    np.testing.assert_allclose(chosen.scores_, in_memory.scores_, rtol=1e-9)
    assert chosen.C_ == in_memory.C_
    np.testing.assert_allclose(chosen.coef_, in_memory.coef_, rtol=1e-3, atol=1e-5)
    chosen.save(tmp_path / "m")
    np.testing.assert_array_equal(maxmargin.load(tmp_path / "m").predict(X), in_memory.predict(X))
    assert chosen.to_linear_svc().C == chosen.C_


def test_weights_count_in_the_choice_of_C(client):
    X, y = sample()
    weight = np.linspace(0.1, 2.0, len(y))
    options = {"Cs": [0.01, 1.0], "cv": 3, "solver": "tron", "tol": 1e-8}
    chosen = LinearSVCCV(**options).fit(da.from_array(X, chunks=(100, 5)), y, weight, client=client)
    expected = maxmargin.LinearSVCCV(**options).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(chosen.scores_, expected.scores_, rtol=1e-9)


def test_a_fit_whose_passes_fail_goes_on_from_its_checkpoint(client, tmp_path, monkeypatch):
    X, y = sample("csr", 3)
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size=2000)
    options = {"loss": "logistic", "solver": "lbfgs", "C": 100.0, "tol": 1e-9}
    whole = LinearSVC(**options).fit(store, client=client)

    class Lost(Exception):
        """What befalls the driver."""

    file = tmp_path / "state"
    for n in (3, 5, 4):
        rounds = itertools.count()

        def step(source, *arguments, rounds=rounds, n=n, **more):
            if next(rounds) == n:
                raise Lost
            return DaskSource.make_pass(source, *arguments, **more)

        with monkeypatch.context() as patch:
            patch.setattr(partitions, "DaskSource", type("Failing", (DaskSource,), {"make_pass": step}))
            with pytest.raises(Lost):
                LinearSVC(**options).fit(store, client=client, checkpoint=file)
    resumed = LinearSVC(**options).fit(store, client=client, checkpoint=file)
    assert resumed.coef_.tobytes() == whole.coef_.tobytes()
    assert resumed.certificate_ == whole.certificate_
    assert [len(h["passes"]) for h in resumed.history_] == [len(h["passes"]) for h in whole.history_]
    assert (tmp_path / "state.0").exists()


def test_training_a_store_by_the_command_line(client, tmp_path, capsys):
    X, y = sample("csr", 3)
    maxmargin.pack(X, tmp_path / "s", y=y, block_size=2000)
    command = ["train", "--json", "--loss", "logistic", "--tol", "1e-8", str(tmp_path / "s")]
    assert main([*command, str(tmp_path / "m"), "--scheduler", client.scheduler.address]) == 0
    on_dask = json.loads(capsys.readouterr().out)
    assert main([*command, str(tmp_path / "n")]) == 0
    assert json.loads(capsys.readouterr().out)["primal"] == on_dask["primal"]
    assert on_dask["relative_gap"] <= 1e-8
    models = [maxmargin.load(tmp_path / name) for name in "mn"]
    assert type(models[0]) is maxmargin.LinearSVC
    assert models[0].coef_.tobytes() == models[1].coef_.tobytes()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--scheduler", "local:0", "s"], "at least 1"),
        (["--scheduler", "local:1", "t.svm"], "takes a store"),
        (["--scheduler", "local:1", "--budget", "9", "s"], "--scheduler does not go with --budget"),
        (["--scheduler", "local:1", "--stream", "t.svm"], "--stream does not go with --scheduler"),
        (["--scheduler", "local:1", "-t", "2", "t.svm"], "not a store or a cluster"),
        (["--scheduler", "nowhere", "-s", "4", "--free-intercept", "s"], "-s 4"),
    ],
)
def test_mistakes_with_schedulers_are_told(tmp_path, monkeypatch, capsys, more, message):
    monkeypatch.chdir(tmp_path)
    X, y = sample()
    maxmargin.save_svmlight("t.svm", X, y)
    maxmargin.pack("t.svm", "s")
    assert main(["train", *more, "m"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_on_a_cluster_of_the_command_line_leaves_a_model(tmp_path):
    X, y = sample("csr")
    maxmargin.pack(X, tmp_path / "s", y=y, block_size=2000)
    script = (
        "import sys, time; from maxmargin.cli import main; import maxmargin.solvers.base as b\n"
        "make = b.Progress\n"
        "def slow(*a): print('update', flush=True); time.sleep(0.5); return make(*a)\n"
        "if __name__ == '__main__': b.Progress = slow; sys.exit(main(sys.argv[1:]))\n"
    )
    (tmp_path / "run.py").write_text(script)
    command = ["train", "--scheduler", "local:2", "--solver", "lbfgs", "--loss", "logistic", "-e", "1e-14", "-c", "1e4"]
    process = subprocess.Popen(
        [sys.executable, "run.py", *command, "s", "m"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "update\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers get it, too
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted; the model found so far is in m" in err
    assert maxmargin.load(tmp_path / "m").stop_reason_ == "interrupted"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_scheduler_dies_and_another_cluster_goes_on(client, tmp_path):
    X, y = sample("csr")
    options = {"loss": "logistic", "solver": "lbfgs", "C": 100.0, "tol": 1e-9}
    chunks = [delayed((a, b)) for a, b in zip(in_parts(X), in_parts(y))]
    whole = LinearSVC(**options).fit(chunks, client=client)
    script = (
        "import time, distributed as d\n"
        "if __name__ == '__main__':\n"
        "    cluster = d.LocalCluster(n_workers=1, processes=False, dashboard_address=None, protocol='tcp')\n"
        "    print(cluster.scheduler_address, flush=True)\n"
        "    time.sleep(600)\n"
    )
    cluster = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    n_updates = itertools.count(1)
    with distributed.Client(cluster.stdout.readline().strip(), set_as_default=False) as doomed:
        source, _, _ = make_source(doomed, chunks, None, None, 1.0)
        labels = np.where(y == 1, 1.0, -1.0)
        with pytest.raises(CancelledError, match="lost the connection"):
            solve(
                Problem(source, labels, 100.0, "logistic"),
                "lbfgs",
                tol=1e-9,
                checkpoint=tmp_path / "state",
                callbacks=[lambda progress: cluster.kill() if next(n_updates) == 4 else None],
            )
    cluster.wait()
    resumed = LinearSVC(**options).fit(chunks, client=client, checkpoint=tmp_path / "state")
    assert resumed.coef_.tobytes() == whole.coef_.tobytes()
    assert resumed.certificate_ == whole.certificate_
