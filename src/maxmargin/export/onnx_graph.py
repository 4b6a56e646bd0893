"""Fitted models as ONNX graphs of ordinary operators, which every runtime has.

Inputs and outputs of a graph:

    X               (rows, features)   of the numbers that the graph computes with
    label           (rows,)            classifiers: what `predict` says; integers or strings
    decision        (rows,) or (rows, classes)    classifiers: what `decision_function` says
    probabilities   (rows, classes)    classifiers with the logistic loss
    value           (rows,)            regressors

Kernel models compute in double precision between a float32 input and float32 outputs. The squared distances of the RBF
kernel come from products, |x|^2 + |z|^2 - 2 x'z, whose error is that of |x|^2. Rows and support vectors are therefore
moved by the mean of the support vectors, which changes no distance.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.export.machine import Machine

_OPSET = 15  # of 2021: older runtimes read it, and it has all that is needed
_IR_VERSION = 8


class Graph(Protocol):
    """Where operators and constants go."""

    def constant(self, values: Array) -> str:
        """Store numbers or strings; their name."""

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output; the output's name."""


def onnx_module() -> Any:
    """The package onnx, or an error that says how to get it."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("this takes onnx: pip install maxmargin[onnx]") from error
    return onnx


# ---------------------------------------------------------------- the operators


def outputs_of(machine: Machine, graph: Graph, x: str, number: Any) -> str:
    """Values of the decision functions, of shape (rows, outputs)."""
    if machine.vectors is None:
        return _combined(machine, graph, x, number)
    # Many large coefficients of both signs cancel in the sum over support vectors: it is computed in double precision.
    onnx, real = onnx_module(), onnx_module().helper.np_dtype_to_tensor_dtype(np.dtype(number))
    x = graph.node("Cast", x, to=onnx.TensorProto.DOUBLE)
    values = _kernel_values(machine, graph, x, np.float64)
    return graph.node("Cast", _combined(machine, graph, values, np.float64), to=real)


def _combined(machine: Machine, graph: Graph, values: str, number: Any) -> str:
    products = graph.node("MatMul", values, graph.constant(machine.coefficients.T.astype(number)))
    return graph.node("Add", products, graph.constant(machine.intercepts.astype(number)))


def _kernel_values(machine: Machine, graph: Graph, x: str, number: Any) -> str:
    from maxmargin import kernels

    assert machine.vectors is not None
    # Factors are inside the constants: ONNX Runtime would fuse them with a product, and round them to float32.
    function, vectors = machine.kernel, machine.vectors.astype(np.float64)
    if isinstance(function, kernels.RBF):
        centre = vectors.mean(axis=0)
        near = vectors - centre
        x = graph.node("Sub", x, graph.constant(centre.astype(number)))
        norms2 = graph.node("ReduceSum", graph.node("Mul", x, x), graph.constant(np.array([1])), keepdims=1)
        norms2 = graph.node("Mul", norms2, graph.constant(np.array([function.gamma], number)))
        dots = graph.node("MatMul", x, graph.constant((2.0 * function.gamma * near.T).astype(number)))
        own = function.gamma * np.einsum("jf,jf->j", near, near)
        minus = graph.node("Sub", dots, graph.constant(own.astype(number)))
        exponent = graph.node("Min", graph.node("Sub", minus, norms2), graph.constant(np.zeros(1, number)))
        return graph.node("Exp", exponent)
    if isinstance(function, kernels.Linear):
        return graph.node("MatMul", x, graph.constant(vectors.T.astype(number)))
    dots = graph.node("MatMul", x, graph.constant((function.gamma * vectors.T).astype(number)))
    moved = graph.node("Add", dots, graph.constant(np.array([function.coef0], number)))
    if isinstance(function, kernels.Sigmoid):
        return graph.node("Tanh", moved)
    if isinstance(function, kernels.Polynomial):
        return graph.node("Pow", moved, graph.constant(np.array([function.degree], number)))
    raise ValueError(f"a model with the kernel {function!r} cannot be exported")


def labels_of(machine: Machine, graph: Graph, outputs: str, number: Any) -> str:
    """What `predict` says."""
    assert machine.classes is not None
    if len(machine.classes) == 2:
        only = graph.node("Squeeze", outputs, graph.constant(np.array([1])))
        is_second = graph.node("Greater", only, graph.constant(np.zeros(1, number)))
        places = graph.node("Cast", is_second, to=onnx_module().TensorProto.INT64)
    else:
        scores = votes_of(machine, graph, outputs, number, machine.breaks_ties) if machine.is_one_vs_one else outputs
        places = graph.node("ArgMax", scores, axis=1, keepdims=0)
    return graph.node("Gather", graph.constant(label_values(machine.classes)), places, axis=0)


def votes_of(machine: Machine, graph: Graph, outputs: str, number: Any, with_margins: bool) -> str:
    """Pairs won by each class; with a share of the margins, less than 1/3, to decide between equal ones."""
    assert machine.classes is not None
    onnx, pairs, n = onnx_module(), machine.pairs, len(machine.classes)
    sides = np.zeros((len(pairs), n), number)  # +1 for the first class of a pair, -1 for its second
    sides[np.arange(len(pairs)), pairs[:, 0]], sides[np.arange(len(pairs)), pairs[:, 1]] = 1.0, -1.0
    won = graph.node("Greater", outputs, graph.constant(np.zeros(1, number)))
    won = graph.node("Cast", won, to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(number)))
    lost = np.bincount(pairs[:, 1], minlength=n).astype(number)  # votes of the second classes, if none were won
    votes = graph.node("Add", graph.node("MatMul", won, graph.constant(sides)), graph.constant(lost))
    if not with_margins:
        return votes
    margins = graph.node("MatMul", outputs, graph.constant(sides))
    size = graph.node("Add", graph.node("Abs", margins), graph.constant(np.ones(1, number)))
    third = graph.node("Mul", size, graph.constant(np.array([3.0], number)))
    return graph.node("Add", votes, graph.node("Div", margins, third))


def decision_of(machine: Machine, graph: Graph, outputs: str, number: Any) -> str:
    """What `decision_function` says."""
    if len(machine.coefficients) == 1:
        return graph.node("Squeeze", outputs, graph.constant(np.array([1])))
    if machine.is_one_vs_one and not machine.decides_pairs:
        return votes_of(machine, graph, outputs, number, True)
    return outputs


def probabilities_of(machine: Machine, graph: Graph, outputs: str, number: Any) -> str:
    """What `predict_proba` says: a softmax of the logarithms, so that nothing is divided by zero."""
    assert machine.classes is not None
    if len(machine.classes) == 2:
        both = graph.node("Concat", graph.node("Neg", outputs), outputs, axis=1)
        return graph.node("Sigmoid", both)
    zero, one = graph.constant(np.zeros(1, number)), graph.constant(np.ones(1, number))
    decay = graph.node("Exp", graph.node("Neg", graph.node("Abs", outputs)))
    logs = graph.node("Sub", graph.node("Min", outputs, zero), graph.node("Log", graph.node("Add", decay, one)))
    return graph.node("Softmax", logs, axis=1)


def label_values(classes: Array) -> Array:
    """Labels as ONNX has them: integers of 64 bits, or strings; numbers that are no integers stay as they are."""
    if classes.dtype.kind in "bui":
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.int64) if np.all(classes == np.round(classes)) else classes.astype(np.float64)
    if all(isinstance(label, str) for label in classes):
        return np.array(classes, dtype=object)
    raise ValueError(f"labels of type {type(classes[0]).__name__} have no form in ONNX; numbers and strings have")


# ---------------------------------------------------------------- a model of its own


class _Nodes:
    """A graph in the making."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Array) -> str:
        name = f"constant_{len(self.constants)}"
        helper, onnx = onnx_module().helper, onnx_module()
        if values.dtype == object:
            flat = [text.encode() for text in values]
            self.constants.append(helper.make_tensor(name, onnx.TensorProto.STRING, values.shape, flat))
        else:
            self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(onnx_module().helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name


def model_of(machine: Machine, number: Any) -> Any:
    """The ONNX model of a machine that computes with such numbers."""
    from maxmargin import __version__

    onnx, nodes = onnx_module(), _Nodes()
    helper = onnx.helper
    real = helper.np_dtype_to_tensor_dtype(number)
    outputs = outputs_of(machine, nodes, "X", number)
    results: list[tuple[str, str, int, list[Any]]] = []  # name, tensor, type, shape
    flat = decision_of(machine, nodes, outputs, number)
    if machine.classes is None:
        results.append(("value", flat, real, ["rows"]))
    else:
        labels, values = labels_of(machine, nodes, outputs, number), label_values(machine.classes)
        kind = onnx.TensorProto.STRING if values.dtype == object else helper.np_dtype_to_tensor_dtype(values.dtype)
        columns = len(machine.coefficients) if machine.decides_pairs else len(machine.classes)
        shape = ["rows"] if len(machine.coefficients) == 1 else ["rows", columns]
        results += [("label", labels, kind, ["rows"]), ("decision", flat, real, shape)]
        if machine.has_probabilities:
            probabilities = probabilities_of(machine, nodes, outputs, number)
            results.append(("probabilities", probabilities, real, ["rows", len(machine.classes)]))
    for name, tensor, _, _ in results:
        nodes.nodes.append(helper.make_node("Identity", [tensor], [name], name=name))
    graph = helper.make_graph(
        nodes.nodes,
        machine.kind,
        [helper.make_tensor_value_info("X", real, ["rows", machine.n_features])],
        [helper.make_tensor_value_info(name, kind, shape) for name, _, kind, shape in results],
        nodes.constants,
    )
    opset = helper.make_opsetid("", _OPSET)
    model = helper.make_model(graph, opset_imports=[opset], producer_name="maxmargin", producer_version=__version__)
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    return model
