"""Tell what is in FILE.

FILE is data (svmlight text, plain or compressed, - for stdin), a store, or a model (of maxmargin, LIBLINEAR or LIBSVM).
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import (
    DONE,
    announced_compilation,
    counted,
    label_text,
    label_value,
    print_facts,
    print_json,
)
from maxmargin.cli._files import data_name, is_model, read_data
from maxmargin.cli._report import listed

_CLASSES_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("file", metavar="FILE", help="data or a model")
    options.add_data_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look and tell."""
    if arguments.file != "-" and os.path.isdir(arguments.file):
        return _tell_of_store(arguments)
    with announced_compilation(quiet=False):
        facts = _of_model(arguments.file) if is_model(arguments.file) else _of_data(arguments)
    if arguments.json:
        print_json(facts)
    else:
        print_facts(_in_words(facts))
    return DONE


def _tell_of_store(arguments: argparse.Namespace) -> int:
    from maxmargin.cli.pack import store_facts, store_in_words
    from maxmargin.data.store import open_store

    store = open_store(arguments.file)
    store.verify()
    if arguments.json:
        print_json(store_facts(store))
    else:
        print_facts(store_in_words(store_facts(store)) | {"checksums": "all blocks are sound"})
    return DONE


# ---------------------------------------------------------------- data


def _of_data(arguments: argparse.Namespace) -> dict[str, Any]:
    import numpy as np

    X, y = read_data(arguments.file, arguments)
    if not hasattr(X, "indptr"):
        from scipy.sparse import csr_matrix

        X = csr_matrix(X)
    n_rows, n_features = X.shape
    labels, counts = np.unique(y, return_counts=True)
    sizes = np.diff(X.indptr)
    return {
        "file": data_name(arguments.file),
        "kind": "data",
        "rows": n_rows,
        "features": n_features,
        "nonzeros": int(X.nnz),
        "density": X.nnz / (n_rows * n_features),
        "nonzeros_per_row": {"mean": float(sizes.mean()), "most": int(sizes.max())},
        "empty_rows": int((sizes == 0).sum()),
        "unused_features": int(n_features - np.count_nonzero(np.bincount(X.indices, minlength=n_features))),
        "values": {"smallest": float(X.data.min()), "largest": float(X.data.max())} if X.nnz else None,
        "classes": [{"label": label_value(k), "rows": int(n)} for k, n in zip(labels, counts)],
    }


# ---------------------------------------------------------------- models


def _of_model(path: str) -> dict[str, Any]:
    from maxmargin.models import is_liblinear, is_libsvm, read_liblinear
    from maxmargin.models.contents import read_content
    from maxmargin.models.predictor import open_model

    if is_liblinear(path):
        linear = read_liblinear(path)
        labels = None if linear.classes is None else [label_value(label) for label in linear.classes]
        made: dict[str, Any] = {"file": path, "kind": linear.solver_type, "made_by": "LIBLINEAR, or for it"}
        return made | {"labels": labels, **_weights(linear.coef, linear.intercept), "bias": linear.bias}
    if is_libsvm(path):
        model = open_model(path)
        made = {"file": path, "kind": model.kind, "made_by": "LIBSVM, or for it"}
        return made | _of_predictor(model)
    content = read_content(path, with_solvers=False)
    made = {"file": path, "kind": content.kind, "made_by": f"maxmargin {content.written_by}"}
    if content.kind == "checkpoint":
        return made
    return made | {"sha256": content.sha256} | _of_predictor(open_model(path))


def _of_predictor(model: Any) -> dict[str, Any]:
    """What a model says of itself."""
    import numpy as np

    tree = model.tree
    facts: dict[str, Any] = {
        "labels": [label_value(label) for label in model.classes_] if hasattr(model, "classes_") else None,
        "first_index": model.first_index,
    }
    if hasattr(model, "support_vectors_"):
        facts |= {
            "features": model.n_features_in_,
            "kernel": repr(model.kernel_),
            "support_vectors": model.support_vectors_.shape[0],
            "intercepts": model.intercept_.tolist(),
        }
    else:
        facts |= _weights(np.atleast_2d(model.coef_), model.intercept_)
    training = tree.get("training", {})
    if "stream" in tree:
        facts["rows_learnt"] = int(tree["stream"]["n_seen"])
    elif "solver" in training:
        facts |= _certified(training["certificates"]) | {"solver": training["solver"].name}
    if training:
        facts |= {"stop_reason": str(training["stop_reason"]), "passes": int(np.max(training["n_iter"]))}
    if tree["params"]:
        facts["parameters"] = _chosen(tree)
    return facts


def _certified(certificates: Any) -> dict[str, float]:
    """The bounds on the optimum: with more than two classes their sums, and the worst relative gap."""
    from maxmargin.certificate import Certificate

    each = [Certificate(*map(float, numbers[:3])) for numbers in certificates]
    return {
        "primal": sum(certificate.primal for certificate in each),
        "dual": sum(certificate.dual for certificate in each),
        "relative_gap": max(certificate.relative_gap for certificate in each),
    }


def _weights(coef: Any, intercept: Any) -> dict[str, Any]:
    import numpy as np

    return {
        "features": coef.shape[1],
        "weights": coef.size,
        "nonzero_weights": int(np.count_nonzero(coef)),
        "intercepts": intercept.tolist(),
    }


def _chosen(tree: dict[str, Any]) -> dict[str, Any]:
    """C or alpha, and loss, and the other parameters that are not as they are by default."""
    names = {"C", "alpha", "loss"} | set(tree.get("chosen", tree["params"]))
    return {name: _plain(value) for name, value in tree["params"].items() if name in names}


def _plain(value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, dict):
        return {label_text(label): weight for label, weight in value.items()}
    return value if isinstance(value, (int, float, str)) or value is None else repr(value)


# ---------------------------------------------------------------- in words


def _in_words(facts: dict[str, Any]) -> dict[str, str]:
    if facts["kind"] == "data":
        return _data_in_words(facts)
    words = {"file": facts["file"], "kind": f"{facts['kind']}, made by {facts['made_by']}"}
    if facts["kind"] == "checkpoint":
        return words | {"use": f"go on from it: maxmargin train --checkpoint {facts['file']} DATA"}
    if facts["labels"] is not None:
        words["classes"] = listed(facts["labels"])
    if "support_vectors" in facts:
        words["support"] = counted(facts["support_vectors"], "vector")
        words["kernel"] = facts["kernel"]
    if "support_vectors" in facts and "passes" in facts:
        words["training"] = f"{counted(facts['passes'], 'pass')}, {facts['stop_reason']}"
        words["parameters"] = ", ".join(f"{name}={value}" for name, value in facts["parameters"].items())
    if "weights" in facts:
        words["weights"] = f"{facts['nonzero_weights']:,} of {facts['weights']:,} are not zero"
    words["features"] = f"{facts['features']:,}"
    if len(facts["intercepts"]) == 1:
        words["intercept"] = f"{facts['intercepts'][0]:.6g}"
    if "rows_learnt" in facts:
        rows, passes = counted(facts["rows_learnt"], "row"), counted(facts["passes"], "pass")
        words["training"] = f"averaged SGD: {rows} in {passes}, {facts['stop_reason']}"
        words["parameters"] = ", ".join(f"{name}={value}" for name, value in facts["parameters"].items())
    if "solver" in facts:
        words["solver"] = f"{facts['solver']}: {counted(facts['passes'], 'pass')}, {facts['stop_reason']}"
        words["objective"] = f"{facts['primal']:.10g}, the optimum is above {facts['dual']:.10g}"
        words["gap"] = f"{facts['relative_gap']:.1e}, certified"
        words["parameters"] = ", ".join(f"{name}={value}" for name, value in facts["parameters"].items())
    return words


def _data_in_words(facts: dict[str, Any]) -> dict[str, str]:
    per_row, values = facts["nonzeros_per_row"], facts["values"]
    shown = [f"{each['label']}: {each['rows']:,}" for each in facts["classes"][:_CLASSES_SHOWN]]
    if len(facts["classes"]) > _CLASSES_SHOWN:
        shown.append(f"... ({len(facts['classes'])} classes)")
    filled = f"{facts['density']:.2%}, {per_row['mean']:.1f} a row, at most {per_row['most']:,}"
    return {
        "file": facts["file"],
        "rows": f"{facts['rows']:,}, {facts['empty_rows']:,} of them empty",
        "features": f"{facts['features']:,}, {facts['unused_features']:,} of them never used",
        "nonzeros": f"{facts['nonzeros']:,}: {filled}",
        "values": f"from {values['smallest']:g} to {values['largest']:g}" if values else "none",
        "classes": ", ".join(shown),
    }
