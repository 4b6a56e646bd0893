"""Pipelines to ONNX: our estimators are made known to skl2onnx, which converts the steps before them."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.export.machine import Machine, machine_of
from maxmargin.export.onnx_graph import label_values, labels_of, outputs_of, probabilities_of, votes_of

_ESTIMATORS = ("LinearSVC", "LinearSVR", "LinearSVCCV", "SVC", "SVR", "BudgetSVC", "OnlineSVC", "StructuralSVC")


def register_with_skl2onnx() -> None:
    """Make our estimators known to skl2onnx, for ``skl2onnx.to_onnx(pipeline, ...)`` with inputs of any kind.

    A classifier's second output has a column for each class: its probability if the loss is logistic, else its decision
    (for two classes with both signs). `to_onnx` of this package calls this itself.

    Examples
    --------
    >>> import pytest; _ = pytest.importorskip("skl2onnx")
    >>> register_with_skl2onnx()
    """
    from sklearn.base import ClassifierMixin

    import maxmargin

    registry = _skl2onnx()
    for name in _ESTIMATORS:
        estimator = getattr(maxmargin, name)
        is_classifier = issubclass(estimator, ClassifierMixin)
        registry.update_registered_converter(
            estimator,
            f"maxmargin{name}",
            _classifier_shapes if is_classifier else _regressor_shapes,
            _convert,
            options={"zipmap": [False, True, "columns"], "nocl": [True, False]} if is_classifier else {},
        )


def pipeline_to_onnx(pipeline: Any) -> Any:
    """An ONNX model of a fitted pipeline of numbers."""
    from sklearn.base import is_classifier
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(pipeline)
    _skl2onnx()
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    register_with_skl2onnx()
    options = {"zipmap": False} if is_classifier(pipeline) else None
    inputs = [("X", FloatTensorType([None, pipeline.n_features_in_]))]
    return skl2onnx.to_onnx(pipeline, initial_types=inputs, options=options)


def _skl2onnx() -> Any:
    try:
        import skl2onnx
    except ImportError as error:
        raise ImportError("pipelines take skl2onnx: pip install maxmargin[onnx]") from error
    return skl2onnx


def _classifier_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    machine = machine_of(operator.raw_operator)
    assert machine.classes is not None
    rows = operator.inputs[0].get_first_dimension()
    is_text = label_values(machine.classes).dtype == object
    operator.outputs[0].type = (StringTensorType if is_text else Int64TensorType)([rows])
    operator.outputs[1].type = FloatTensorType([rows, len(machine.classes)])


def _regressor_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import FloatTensorType

    operator.outputs[0].type = FloatTensorType([operator.inputs[0].get_first_dimension(), 1])


class _Container:
    """skl2onnx's container, where our operators go."""

    def __init__(self, scope: Any, container: Any):
        self.scope, self.container = scope, container

    def constant(self, values: Array) -> str:
        from onnx import TensorProto, helper

        name = self.scope.get_unique_variable_name("constant")
        is_text = values.dtype == object
        kind = TensorProto.STRING if is_text else helper.np_dtype_to_tensor_dtype(values.dtype)
        content = [text.encode() for text in values] if is_text else values.ravel().tolist()
        self.container.add_initializer(name, kind, values.shape, content)
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = self.scope.get_unique_variable_name(operator.lower())
        unique = self.scope.get_unique_operator_name(operator)
        self.container.add_node(operator, list(inputs), name, op_version=13, name=unique, **attributes)
        return name


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """The operators of one of our estimators, in float32."""
    machine, graph = machine_of(operator.raw_operator), _Container(scope, container)
    from onnx import TensorProto

    x = graph.node("Cast", operator.inputs[0].full_name, to=TensorProto.FLOAT)
    outputs = outputs_of(machine, graph, x, np.float32)
    if machine.classes is None:
        found = [outputs]
    else:
        found = [labels_of(machine, graph, outputs, np.float32), _scores(machine, graph, outputs)]
    for tensor, output in zip(found, operator.outputs):
        container.add_node(
            "Identity", [tensor], output.full_name, op_version=13, name=scope.get_unique_operator_name("Identity")
        )


def _scores(machine: Machine, graph: _Container, outputs: str) -> str:
    """A column for each class, as skl2onnx has it; for two classes the decision with both signs."""
    if machine.is_one_vs_one and len(machine.intercepts) > 1:
        return votes_of(machine, graph, outputs, np.float32, True)
    if machine.has_probabilities:
        return probabilities_of(machine, graph, outputs, np.float32)
    return (
        graph.node("Concat", graph.node("Neg", outputs), outputs, axis=1) if len(machine.intercepts) == 1 else outputs
    )
