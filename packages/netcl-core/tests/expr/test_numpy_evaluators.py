"""Plans of the NumPy engine: made once for a program, and run without a walk over its expressions."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

from netcl import ops
from netcl.core import Tensor, manager
from netcl.core.device import device
from netcl.core.expr import Load, apply, numpy_eval, reduce
from netcl.runtime.capture import capture

_GRAPH = ("nodes.py", "rewrite.py")


def _graph_calls(call: Any) -> list[str]:
    """Returns the functions of the modules of expression graphs that ``call`` enters."""
    seen: list[str] = []

    def see(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.endswith(_GRAPH):
            seen.append(frame.f_code.co_name)

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def test_a_replay_walks_no_expression() -> None:
    with device(manager.default("cpu")):
        x = Tensor.from_host(np.ones((4, 6), np.float32))
        step = capture(lambda x: ops.sum(ops.softmax(x) * ops.mean(x, axis=0)), x)
        step.replay(x)
        assert _graph_calls(lambda: step.replay(x)) == []


def test_a_planned_call_walks_no_expression() -> None:
    with device(manager.default("cpu")):
        x = Tensor.from_host(np.ones((4, 6), np.float32))
        ops.softmax(x)
        assert _graph_calls(lambda: ops.softmax(x)) == []


def test_a_plan_is_made_once_and_takes_any_shape() -> None:
    total = (reduce("sum", apply("exp", Load(0, "float32")), 1),)
    evaluator = numpy_eval.evaluator_of(total)
    assert numpy_eval.evaluator_of(total) is evaluator
    for shape in ((2, 3), (5, 1)):
        x = np.full(shape, 0.5, np.float32)
        (found,) = evaluator.run([x], {}, shape)
        np.testing.assert_array_equal(found, np.exp(x).sum(1, keepdims=True, dtype=np.float64).astype(np.float32))
