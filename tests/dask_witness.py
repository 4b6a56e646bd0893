"""A plugin of Dask's workers that writes down what they do, and kills them in the middle of it."""

import collections
import functools
import json
import os
import signal
from pathlib import Path

from distributed import WorkerPlugin

from maxmargin.dask import tasks


class Witness(WorkerPlugin):
    """On every worker, also on those that come in the place of dead ones.

    Parameters
    ----------
    folder : path
        Where orders are, where workers write, and where those who died leave a token.
    """

    name = "witness"

    def __init__(self, folder):
        self.folder = Path(folder)

    def order(self, dies_at="", after=0, each=False):
        """Forget what was, and kill at the step (or function of `tasks`) `dies_at`, once it was begun `after` times.

        The first worker that gets there dies, or every one of them, once.
        """
        for file in self.folder.iterdir():
            file.unlink()
        (self.folder / "orders").write_text(json.dumps([dies_at, after, each]))

    def setup(self, worker):
        self.worker_name = worker.name
        tasks.run_pass = self._watched(tasks.run_pass, lambda arguments: arguments[2].step[1])
        tasks.load_partition = self._watched(tasks.load_partition, lambda arguments: "load_partition")

    def _watched(self, function, name_of):
        @functools.wraps(function)
        def watched(*arguments, **options):
            self._saw(name_of(arguments))
            return function(*arguments, **options)

        return watched

    def _saw(self, step):
        with open(self.folder / "journal", "a") as journal:  # a short line is written at once
            journal.write(f"{step}\n")
        if not (self.folder / "orders").exists():
            return
        dies_at, after, each = json.loads((self.folder / "orders").read_text())
        if step == dies_at and self.seen()[step] > after and self._takes_token(self.worker_name if each else "one"):
            os.kill(os.getpid(), signal.SIGKILL)

    def _takes_token(self, name):
        try:
            os.close(os.open(self.folder / f"dead-{name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def seen(self):
        """How many times each step was begun."""
        journal = self.folder / "journal"
        return collections.Counter(journal.read_text().split() if journal.exists() else [])

    @property
    def n_dead(self):
        """How many workers have died."""
        return len(list(self.folder.glob("dead-*")))
