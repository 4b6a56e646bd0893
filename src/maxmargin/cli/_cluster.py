"""`maxmargin train --scheduler`: training on the workers of a Dask cluster."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import UsageError

_LOCAL = "local:"
_UNINTERRUPTED = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # Ctrl-C is for the driver alone


def add_argument(parser: Any) -> None:
    """The option of ``train``."""
    parser.add_argument(
        "--scheduler",
        type=scheduler,
        metavar="ADDRESS",
        help="train a store on a Dask cluster, all of whose workers can read it: the address of its scheduler, such as "
        "tcp://host:8786, or local:N for N processes of this machine (takes maxmargin[dask])",
    )


def scheduler(text: str) -> str:
    """An address, or ``local:N``."""
    if text.startswith(_LOCAL):
        options.count(text.removeprefix(_LOCAL))
    return text


def for_cluster(estimator: Any) -> Any:
    """The same estimator for rows on a cluster."""
    try:
        from maxmargin import dask
    except ImportError as error:
        raise UsageError(f"--scheduler takes Dask: pip install maxmargin[dask] ({error})") from error
    kind = getattr(dask, type(estimator).__name__, None)
    if kind is None:
        raise UsageError("--scheduler is for linear classifiers and regressors")
    return kind(**estimator.get_params())


@contextlib.contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[None]:
    """While it lasts, there is a client of the cluster that was asked for, if any."""
    if arguments.scheduler is None:
        yield
        return
    from distributed import Client, LocalCluster

    address = arguments.scheduler
    with contextlib.ExitStack() as stack:
        if address.startswith(_LOCAL):
            n = int(address.removeprefix(_LOCAL))
            options_of_workers = {"threads_per_worker": 1, "preload": [_UNINTERRUPTED]}
            address = stack.enter_context(
                LocalCluster(n_workers=n, dashboard_address=None, silence_logs=50, **options_of_workers)
            )
        try:
            stack.enter_context(Client(address))
        except (OSError, ValueError) as error:
            raise ValueError(f"--scheduler {arguments.scheduler}: no scheduler answers there ({error})") from error
        yield
