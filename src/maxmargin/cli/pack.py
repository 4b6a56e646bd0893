"""Pack DATA into STORE, a directory from which models are trained without holding the data in memory.

DATA is svmlight text (plain or .gz .bz2 .xz .zst, - for stdin), or .npz, .parquet or .csv files; several files are one
data set. The store appears when it is complete. If packing is interrupted, the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import (
    DONE,
    UsageError,
    announced_compilation,
    complain,
    counted,
    on_a_terminal,
    tell,
)
from maxmargin.cli._files import zero_based


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.usage = "maxmargin pack [options] DATA [DATA ...] STORE"
    parser.add_argument("paths", nargs="+", metavar="DATA ... STORE", help="files to read, and the directory to make")
    parser.add_argument("--dtype", choices=("float64", "float32"), help="of the values (default: as in the data)")
    parser.add_argument("--storage", choices=("auto", "dense", "csr"), default="auto", help="of the rows (auto)")
    parser.add_argument("--block-size", default="64M", metavar="SIZE", help="of a block on disk (64M)")
    parser.add_argument("--shuffle", action="store_true", help="put all rows into a random order")
    parser.add_argument(
        "--test", type=options.number, metavar="SHARE", help="put this share of the rows, at random, into STORE.test"
    )
    parser.add_argument("--seed", type=options.seed, default=0, metavar="N", help="of --shuffle and --test (0)")
    parser.add_argument("--n-features", type=options.count, metavar="N", help="if a text does not name the last ones")
    parser.add_argument("--weight", metavar="NAME", help="column of the weights, in tables")
    parser.add_argument("--overwrite", action="store_true", help="replace a store of that name")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    options.add_data_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Pack and tell."""
    if len(arguments.paths) < 2:
        raise UsageError("name the data and, last, the store to make: maxmargin pack DATA STORE")
    if arguments.test is not None and not 0.0 < arguments.test < 1.0:
        raise UsageError(f"--test takes a share between 0 and 1, got {arguments.test:g}")
    from maxmargin.data.store import pack

    *data, path = arguments.paths
    started = time.perf_counter()
    with announced_compilation(arguments.quiet), _told_progress(arguments.quiet) as told:
        try:
            store = pack(
                data,
                path,
                block_size=arguments.block_size,
                shuffle=arguments.shuffle,
                test=arguments.test,
                seed=arguments.seed,
                overwrite=arguments.overwrite,
                on_progress=told,
                dtype=arguments.dtype,
                storage=arguments.storage,
                n_features=arguments.n_features,
                zero_based=zero_based(arguments),
                label=arguments.label,
                weight=arguments.weight,
                n_jobs=arguments.jobs,
            )
        except ImportError as error:  # of what unpacks .zst
            raise ValueError(str(error)) from error
        except KeyboardInterrupt:
            complain("interrupted: the same command goes on from here", kind="")
            raise
    facts = store_facts(store) | {"seconds": time.perf_counter() - started}
    tell(facts, store_in_words, arguments)
    return DONE


class _told_progress:
    """Rows read so far, on a terminal."""

    def __init__(self, quiet: bool):
        self.is_shown, self.last = on_a_terminal() and not quiet, 0.0

    def __enter__(self) -> Any:
        return self.tell if self.is_shown else None

    def __exit__(self, *_: Any) -> None:
        if self.is_shown and self.last:
            complain("", kind="")

    def tell(self, n_rows: int) -> None:
        """Say it, ten times a second at most."""
        if time.perf_counter() > self.last + 0.1:
            import sys

            self.last = time.perf_counter()
            sys.stderr.write(f"\rmaxmargin: {counted(n_rows, 'row')} ")
            sys.stderr.flush()


def store_facts(store: Any) -> dict[str, Any]:
    """What is to be said of a store."""
    from maxmargin.cli._console import label_value

    index = store.index
    classes = None
    if index.classes is not None:
        classes = [{"label": label_value(k), "rows": n} for k, n in zip(index.classes, index.class_counts)]
    return {
        "file": str(store.path),
        "kind": "store",
        "rows": index.n_rows,
        "features": index.n_features,
        "nonzeros": index.n_stored,
        "density": index.n_stored / (index.n_rows * index.n_features),
        "storage": index.storage,
        "dtype": index.dtype,
        "bytes": index.n_bytes,
        "blocks": len(index.blocks),
        "weights": index.has_weights,
        "classes": classes,
        "label_range": index.label_range,
        "index_base": index.index_base,
        "squared_norm": {"mean": index.mean_norm2, "largest": index.largest_norm2},
        "shuffled": index.shuffled,
        "made_from": index.made_from,
    }


def store_in_words(facts: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    from maxmargin.data.sizes import in_words

    words = {
        "store": f"{facts['file']}: {counted(facts['blocks'], 'block')}, {in_words(facts['bytes'])}",
        "rows": f"{facts['rows']:,}" + (", with weights" if facts["weights"] else ""),
        "features": f"{facts['features']:,}",
        "values": f"{facts['nonzeros']:,} ({facts['density']:.2%}), {facts['storage']}, {facts['dtype']}",
    }
    if facts["classes"] is None:
        words["targets"] = f"from {facts['label_range'][0]:g} to {facts['label_range'][1]:g}"
    else:
        shown = [f"{each['label']}: {each['rows']:,}" for each in facts["classes"][:10]]
        words["classes"] = ", ".join(shown + (["..."] if len(facts["classes"]) > 10 else []))
    words["order"] = "as given" if facts["shuffled"] is None else f"random, seed {facts['shuffled']}"
    if "seconds" in facts:
        words["time"] = f"{facts['seconds']:.1f} s"
    return words
