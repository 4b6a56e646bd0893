"""Workers and drivers are killed, blocks are damaged: the answer has the same bits, or the error names what it is."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import samples

import maxmargin
from maxmargin import Problem, solve
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import as_rows
from maxmargin.data.source import Source
from maxmargin.solvers.newton.tron import Tron

distributed = pytest.importorskip("distributed")
from dask import delayed  # noqa: E402
from dask_witness import Witness  # noqa: E402

from maxmargin.dask import LinearSVC  # noqa: E402
from maxmargin.dask.partitions import make_source  # noqa: E402
from maxmargin.dask.source import DaskSource  # noqa: E402
from maxmargin.data.store.blocks import StoreError  # noqa: E402

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
BORDERS = [0, 70, 70, 71, 150, 200, 300]  # an empty partition, and one of a single row
N_PARTITIONS = len(BORDERS) - 1
FEW_ROUNDS = 3  # that in which it died, and what the scheduler asks for twice until it knows


def sample(storage="csr"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) * (rng.random((300, 5)) < 0.7)
    y = np.where(X @ rng.normal(size=5) + 0.5 * rng.normal(size=300) > 0.0, 1.0, -1.0)
    return (samples.csr(X) if storage == "csr" else X), y


def in_parts(X, borders=BORDERS):
    return [X[a:b] for a, b in zip(borders, borders[1:])]  # noqa: RUF007 - of a list that is short


def problem_on(client, loss, C=50.0):
    X, y = sample()
    source, _, _ = make_source(client, [delayed(part) for part in in_parts(X)], y, None, 1.0)
    return Problem(source, y, C, loss)


@pytest.fixture(scope="module")
def witness(client, tmp_path_factory):
    witness = Witness(tmp_path_factory.mktemp("witness"))
    client.register_plugin(witness)
    yield witness
    witness.order()  # nobody dies any more
    client.unregister_worker_plugin(witness.name)


STEPS = {  # where a worker dies: in which function, of what solver with which loss, after how many others have begun it
    "loading": ("load_partition", "ocas", "hinge", 1),
    "plane": ("add_rows", "ocas", "hinge", 12),
    "CG product": ("_add_hessian_product", Tron(method="trust_region"), "logistic", 12),
    "outputs": ("_write_outputs", "ocas", "hinge", 12),
    "certificate": ("risk_and_slack", "augmented_lagrangian", "hinge", 2),
}


def calm_and_violent(client, witness, where, each=False):
    """Results without and with deaths, and what workers did more for the latter."""
    step, solver, loss, after = STEPS[where]
    found, seen = [], []
    for orders in ((), (step, after, each)):
        witness.order(*orders)
        found.append(solve(problem_on(client, loss), solver, tol=1e-6))
        seen.append(witness.seen())
    assert seen[0][step] > 0
    return *found, seen[1] - seen[0]


def assert_same(found, expected):
    assert found.w.tobytes() == expected.w.tobytes()
    assert found.certificate == expected.certificate
    assert found.passes == expected.passes


@pytest.mark.parametrize(
    "where", [*list(STEPS)[:3], *(pytest.param(where, marks=pytest.mark.slow) for where in list(STEPS)[3:])]
)
def test_a_worker_that_dies_costs_its_partitions_and_few_rounds(client, witness, where):
    expected, found, more = calm_and_violent(client, witness, where)
    assert witness.n_dead == 1
    assert_same(found, expected)
    loaded = more.pop("load_partition", 0)
    assert 1 <= loaded <= 2 * N_PARTITIONS
    assert more.total() <= FEW_ROUNDS * N_PARTITIONS


@pytest.mark.slow
@pytest.mark.parametrize("where", ["plane", "CG product"])
def test_every_worker_dies_once(client, witness, where):
    client.wait_for_workers(2)
    expected, found, more = calm_and_violent(client, witness, where, each=True)
    assert witness.n_dead == 2
    assert_same(found, expected)
    assert more.total() <= 2 * FEW_ROUNDS * N_PARTITIONS


@pytest.mark.slow
def test_a_worker_that_dies_for_good(tmp_path):
    witness = Witness(tmp_path)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        for nanny in cluster.workers.values():
            nanny.auto_restart = False
        client.register_plugin(witness)
        expected, found, more = calm_and_violent(client, witness, "plane")
        assert witness.n_dead == 1
        assert len(client.scheduler_info()["workers"]) == 1
        assert_same(found, expected)
        assert more.total() <= FEW_ROUNDS * N_PARTITIONS


def test_a_worker_that_dies_while_the_driver_searches_a_line(client, tmp_path, monkeypatch):
    in_memory = InMemory(tuple(as_rows(part, 1.0)[0] for part in in_parts(sample()[0])))
    expected = solve(Problem(in_memory, sample()[1], 50.0, "hinge"), "ocas", tol=1e-6)
    steps, whole = [], Source.make_pass

    def make_pass(source, step, *arguments, **options):
        steps.append(step.__name__)
        if steps.count("_sort_rows") == 3 and step.__name__ == "_sort_rows":
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        return whole(source, step, *arguments, **options)

    problem = problem_on(client, "hinge")
    monkeypatch.setattr(Source, "make_pass", make_pass)  # what the driver does without the workers
    found = solve(problem, "ocas", tol=1e-6)
    assert steps.count("_sort_rows") >= 3
    assert_same(found, expected)


DRIVER = """
import os, signal, sys
import distributed
from maxmargin import Problem, open_store, solve
from maxmargin.dask.partitions import make_source

address, store, state = sys.argv[1:]
def die(progress):
    global n
    n += 1
    if n == 5:
        os.kill(os.getpid(), signal.SIGKILL)

n = 0
with distributed.Client(address) as client:
    source, y, _ = make_source(client, open_store(store), None, None, 1.0)
    options = {"checkpoint": state, "checkpoint_every": 0.0, "callbacks": [die]}
    solve(Problem(source, y, 50.0, "logistic"), "lbfgs", tol=1e-9, **options)
"""


def test_the_driver_dies_and_another_goes_on(client, tmp_path):
    X, y = sample()
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size=2000)
    (tmp_path / "driver.py").write_text(DRIVER)
    client.wait_for_workers(2)
    command = [sys.executable, "driver.py", client.scheduler.address, str(store.path), "state"]
    driver = subprocess.run(command, cwd=tmp_path, timeout=300, capture_output=True, text=True, check=False)
    assert driver.returncode == -signal.SIGKILL, driver.stderr
    source, labels, _ = make_source(client, store, None, None, 1.0)
    problem, seen = Problem(source, labels, 50.0, "logistic"), []
    expected = solve(problem, "lbfgs", tol=1e-9)
    found = solve(problem, "lbfgs", tol=1e-9, checkpoint=tmp_path / "state", callbacks=[seen.append])
    assert_same(found, expected)
    assert seen[0].passes > 4  # it did not begin at zero


def test_a_block_that_is_damaged_between_passes_is_named(client, tmp_path):
    X, y = sample()
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size=2000)
    source, labels, _ = make_source(client, store, None, None, 1.0)
    damaged = []

    def damage_and_kill(progress):
        if not damaged:
            for file in store.path.glob("block-*"):
                content = bytearray(file.read_bytes())
                content[-1] ^= 1
                file.write_bytes(content)
                damaged.append(file)
            for pid in client.run(os.getpid).values():  # else nobody would read it again
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(StoreError, match=r"block-00000\d.*damaged"):
        solve(
            Problem(source, labels, 50.0, "logistic"),
            "lbfgs",
            tol=1e-9,
            callbacks=[damage_and_kill],
            checkpoint=tmp_path / "state",
        )
    assert len(damaged) > 2
    whole = maxmargin.pack(X, tmp_path / "t", y=y, block_size=2000)
    source, labels, _ = make_source(client, whole, None, None, 1.0)
    found, expected = (
        solve(Problem(source, labels, 50.0, "logistic"), "lbfgs", tol=1e-9, **more)
        for more in ({"checkpoint": tmp_path / "state"}, {})
    )
    assert_same(found, expected)  # from where it was, with what the driver had saved


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        ("ocas", "hinge"),
        pytest.param("tron", "logistic", marks=pytest.mark.slow),
        pytest.param("augmented_lagrangian", "hinge", marks=pytest.mark.slow),
        pytest.param("bmrm", "huber", marks=pytest.mark.slow),
    ],
)
def test_memory_disk_and_cluster_give_the_same_bits(client, tmp_path, solver, loss, storage):
    X, y = sample(storage)
    store = maxmargin.pack(X, tmp_path / "s", y=y, block_size=2000)
    borders = np.cumsum([0] + [block.n_rows for block in store.index.blocks])
    assert len(borders) > 3
    in_memory = InMemory(tuple(as_rows(part, 1.0)[0] for part in in_parts(X, borders)))
    on_cluster, labels, _ = make_source(client, store, None, None, 1.0)
    expected = solve(Problem(in_memory, y, 0.5, loss), solver, tol=1e-6)
    assert_same(solve(Problem(on_cluster, labels, 0.5, loss), solver, tol=1e-6), expected)
    options = {"loss": loss, "C": 0.5, "solver": solver, "tol": 1e-6}
    models = [
        maxmargin.LinearSVC(**options).fit(maxmargin.open_store(store.path, memory="1M")),
        LinearSVC(**options).fit(store, client=client),
    ]
    for model in models:
        assert np.append(model.coef_, model.intercept_).tobytes() == expected.w.tobytes()
        assert model.certificate_ == expected.certificate


@pytest.mark.parametrize("n_workers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_number_of_workers_changes_no_bit(n_workers):
    in_memory = InMemory(tuple(as_rows(part, 1.0)[0] for part in in_parts(sample()[0])))
    expected = solve(Problem(in_memory, sample()[1], 50.0, "hinge"), "ocas", tol=1e-6)
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        assert_same(solve(problem_on(client, "hinge"), "ocas", tol=1e-6), expected)


def test_ctrl_c_leaves_a_model(client, monkeypatch):
    X, y = sample()
    rounds, whole = [], DaskSource.make_pass

    def make_pass(source, step, *arguments, **options):
        rounds.append(step)
        if len(rounds) == 6:
            signal.raise_signal(signal.SIGINT)
        return whole(source, step, *arguments, **options)

    monkeypatch.setattr(DaskSource, "make_pass", make_pass)
    model = LinearSVC(loss="logistic", solver="lbfgs", C=100.0, tol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        model.fit([delayed((a, b)) for a, b in zip(in_parts(X), in_parts(y))], client=client)
    assert model.stop_reason_ == "interrupted"
    assert model.certificate_.relative_gap > 1e-12
    assert set(model.predict(X)) == {-1.0, 1.0}
