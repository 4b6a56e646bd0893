"""What a fit costs on a cluster: a formula, its constants measured here, checked by a simulation, and extrapolated.

A fit is a list of rounds. Its rounds, with the time of each beside that of a plain pass, are those of a real fit of a
few rows in memory. The constants are measured: bandwidth by plain passes, latency and task cost by rounds with next to
nothing to do on a cluster of processes, the network by what a longer w adds to such a round. The simulation makes
rounds on clusters of processes whose tasks sleep for as long as their part of the rows would take, so that more workers
can be tried than there are cores; what Dask does is real.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dask import delayed
from distributed import Client, LocalCluster

from maxmargin import Problem, open_store, pack, solve
from maxmargin.dask.partitions import make_source
from maxmargin.data.generators import make_dense, make_text
from maxmargin.data.source import Labels, Source
from maxmargin.parallel import effective_n_jobs

FORMULA = """\
T = sum over rounds of   bytes x passes / (machines x bandwidth)     the rows are read
                       + latency + tasks x task cost                 Dask's scheduler
                       + 2 x 8 n / network x log2(machines)          w goes down, sums come up
                       + 8 x rows x vectors / network                vectors that the driver has"""
LIMITS = """\
Limits: machines like this one; as many rounds as the few rows here take; the driver's own work between rounds, loading
and stragglers are not in it. The driver has all vectors with an entry for each row: their term does not shrink with
machines, and is left out of the column "computing"."""
_TEN_GBIT = 1.25e9  # bytes a second: the network is at most taken to be so fast
_GROUPS = 128  # tasks of a round, at most, as partitions should be chosen
_MUCH = 1 << 24  # bytes of sums that are added on the workers, by further tasks


class Costs(NamedTuple):
    """The constants: bytes a second, and seconds."""

    memory: float
    store: float
    latency: float
    task: float
    network: float


class Round(NamedTuple):
    """One round of a fit."""

    passes: float  # its time over that of a plain pass
    n_shared: int  # numbers that all tasks are given
    n_summed: int  # numbers that they add up
    n_vectors: int  # with an entry for each row, that go down or come up


def seconds(rounds: list[Round], n_bytes: float, n_rows: float, machines: int, bandwidth: float, costs: Costs) -> dict:
    """The formula, its terms apart."""
    tasks = min(_GROUPS, 8 * machines)
    n_tasks = [tasks * (4 if 8 * each.n_summed * tasks > _MUCH else 1) for each in rounds]
    sent = sum(8.0 * (each.n_shared + each.n_summed) for each in rounds)
    return {
        "rows": n_bytes * sum(each.passes for each in rounds) / (machines * bandwidth),
        "tasks": len(rounds) * costs.latency + sum(n_tasks) * costs.task,
        "weights": sent / costs.network * max(1.0, math.log2(machines)),
        "vectors": 8.0 * n_rows * sum(each.n_vectors for each in rounds) / costs.network,
    }


# ---------------------------------------------------------------- constants


def measure_model(folder: Path, sizes: Any) -> dict[str, Any]:
    """Constants, the check by simulation, and the extrapolation."""
    n_text, n_dense = sizes.text // 4, sizes.dense // 4
    data = {"text": make_text(n_text, 50_000, dtype=np.float32), "dense": make_dense(n_dense, dtype=np.float32)}
    bandwidths = {name: _bandwidths(folder / name, *rows) for name, rows in data.items()}
    with cluster_of(2) as client:
        latency, task, network = _round_costs(client)
    costs = {name: Costs(*both, latency, task, network) for name, both in bandwidths.items()}
    checked = [found for machines in (2, 4, 8) for found in _simulated(machines, costs["dense"])]
    fits = [
        _extrapolated(name, data[name], solver, loss, costs[name])
        for name, solver, loss in (
            ("text", "ocas", "hinge"),
            ("text", "tron", "squared_hinge"),
            ("dense", "ocas", "hinge"),
            ("dense", "tron", "squared_hinge"),
            ("dense", "augmented_lagrangian", "hinge"),
        )
    ]
    constants = {name: each._asdict() for name, each in costs.items()}
    return {"constants": constants, "simulated": checked, "extrapolated": fits}


def _bandwidths(path: Path, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Bytes a second of a plain pass with all threads: over rows in memory, and over a store with little memory."""
    store = pack(X, path, y=y)
    n_jobs = effective_n_jobs(-1)
    opened = open_store(store.path, memory=store.index.n_bytes // 10)
    problems = Problem(X, y, bias=1.0, n_jobs=n_jobs), Problem(opened.source(1.0, n_jobs), y)
    best = [min(_seconds_of_a_pass(problem) for _ in range(5)) for problem in problems]
    return bytes_of(X) / best[0], bytes_of(X) / best[1]


def _seconds_of_a_pass(problem: Problem) -> float:
    began = time.perf_counter()
    problem.outputs(np.zeros(problem.n_weights))
    return time.perf_counter() - began


def bytes_of(X: Any) -> int:
    """Bytes of rows."""
    return X.data.nbytes + X.indices.nbytes if hasattr(X, "indices") else X.nbytes


@contextlib.contextmanager
def cluster_of(n_workers: int) -> Iterator[Client]:
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=n_workers, silence_logs=50, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(n_workers)
        yield client


def sleep(block: Any, w: np.ndarray, duration: float, total: np.ndarray) -> None:
    """A step: nothing, for some time, and something to add up."""
    time.sleep(duration)
    total += w


def _empty_rounds(client: Client, n_tasks: int, n: int, duration: float, repeat: int = 12) -> float:
    """Seconds of a round whose tasks sleep: the median of some."""
    X, y = np.ones((n_tasks, 1)), np.ones(n_tasks)
    source, _, _ = make_source(client, [delayed(X[k : k + 1]) for k in range(n_tasks)], y, None, 0.0)
    found = []
    for _ in range(repeat + 2):
        began = time.perf_counter()
        source.make_pass(sleep, Labels(y, y, None), shared=[np.zeros(n), duration], sums=[n])
        found.append(time.perf_counter() - began)
    return float(np.median(found[2:]))


def _round_costs(client: Client) -> tuple[float, float, float]:
    """Latency of a round, seconds of a task, bytes a second of the network."""
    few, many = (_empty_rounds(client, n, 1, 0.0) for n in (2, 128))
    task = (many - few) / 126
    short, long = (_empty_rounds(client, 2, n, 0.0) for n in (1 << 14, 1 << 20))
    return few - 2 * task, task, 2 * 8 * ((1 << 20) - (1 << 14)) / (long - short)


# ---------------------------------------------------------------- the check


def _simulated(machines: int, costs: Costs) -> list[dict[str, float]]:
    """Seconds of rounds on so many workers, as measured and by the formula."""
    checked = []
    with cluster_of(machines) as client:
        for n, work in ((1_000, 0.8), (50_000, 0.8), (250_000, 1.6)):  # seconds that the rows take on one machine
            tasks = 8 * machines
            measured = _empty_rounds(client, tasks, n, work / tasks, 6)
            terms = seconds([Round(1.0, n, n, 0)], work * costs.memory, 0.0, machines, costs.memory, costs)
            checked.append({"machines": machines, "n": n, "work": work, "measured": measured, **terms})
    return checked


# ---------------------------------------------------------------- extrapolation


@contextlib.contextmanager
def rounds_of_fits(per_pass: float) -> Iterator[list[Round]]:
    """The rounds that fits make while this lasts; a plain pass takes so many seconds."""
    rounds: list[Round] = []
    whole = Source.make_pass

    def make_pass(source: Source, step: Any, labels: Labels, **how: Any) -> Any:
        began = time.perf_counter()
        done = whole(source, step, labels, **how)
        if how.get("looks_at_rows", True):
            shared = sum(np.size(each) for each in how.get("shared", ()) if isinstance(each, np.ndarray))
            vectors = len(how.get("reads", ())) + len(how.get("writes", ()))
            passes = (time.perf_counter() - began) / per_pass
            rounds.append(Round(passes, shared, sum(total.size for total in done.sums), vectors))
        return done

    Source.make_pass = make_pass  # type: ignore[method-assign]
    try:
        yield rounds
    finally:
        Source.make_pass = whole  # type: ignore[method-assign]


def _extrapolated(name: str, data: tuple[Any, np.ndarray], solver: str, loss: str, costs: Costs) -> dict[str, Any]:
    """Terms of the formula for 1 TB of such rows in memory, by numbers of machines."""
    X, y = data
    problem = Problem(X, y, 1.0, loss, bias=1.0, n_jobs=-1)
    solve(problem, solver, tol=1e-3)  # compiled
    with rounds_of_fits(bytes_of(X) / costs.memory) as rounds:
        found = solve(problem, solver, tol=1e-3)
    n_rows = 1e12 / bytes_of(X) * len(y)
    usual = costs._replace(network=min(_TEN_GBIT, costs.network))
    terms = {str(m): seconds(rounds, 1e12, n_rows, m, costs.memory, usual) for m in (10, 100)}
    facts = {"data": name, "solver": solver, "loss": loss, "features": X.shape[1], "rounds": len(rounds)}
    facts |= {"passes": sum(each.passes for each in rounds), "gap": found.certificate.relative_gap}
    return facts | {"terms": terms}


# ---------------------------------------------------------------- in words


def lines_of(report: dict[str, Any]) -> list[str]:
    """Formula, constants, check and extrapolation, in Markdown."""
    lines = ["```", *FORMULA.splitlines(), "```", ""]
    lines += ["| | in memory, GB/s | from a store, GB/s | latency of a round, ms | a task, ms | network, GB/s |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for name, c in report["constants"].items():
        rates = f"{c['memory'] / 1e9:.1f} | {c['store'] / 1e9:.1f}"
        lines += [f"| {name} | {rates} | {1e3 * c['latency']:.1f} | {1e3 * c['task']:.2f} | {c['network'] / 1e9:.2f} |"]
    lines += ["", "| simulated workers | n | a round, s | by the formula, s | ratio |", "|---:|---:|---:|---:|---:|"]
    for r in report["simulated"]:
        what, found, formula = f"{r['machines']} | {r['n']:,}", r["measured"], _total(r)
        lines += [f"| {what} | {found:.3f} | {formula:.3f} | {found / formula:.2f}x |"]
    header = "1 TB of | solver | rounds | passes | machines | computing, s | efficient | with the driver's vectors, s"
    lines += ["", f"| {header} |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    for r in report["extrapolated"]:
        what = f"{r['data']}, n = {r['features']:,} | {r['solver']} | {r['rounds']} | {r['passes']:.0f}"
        for machines, terms in r["terms"].items():
            rest = _total(terms) - terms["vectors"]
            cells = f"{rest:,.0f} | {terms['rows'] / rest:.0%} | {_total(terms):,.0f}"
            lines += [f"| {what} | {machines} | {cells} |"]
    return [*lines, "", *LIMITS.splitlines()]


def _total(terms: dict[str, float]) -> float:
    return sum(terms[name] for name in ("rows", "tasks", "weights", "vectors"))
