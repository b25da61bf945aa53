"""Level capture: a step that is replayed on other inputs, with its writes in place."""

from __future__ import annotations

import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.errors import CaptureError
from netcl.core.ops_table.dispatch import assign
from netcl.runtime.capture import capture
from netcl_conformance.checks.tensor import raises
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor


@check("capture")
def a_replay_has_the_results_and_writes_of_the_function() -> None:
    total = Tensor.zeros((2,))

    def step(x: Tensor) -> Tensor:
        assign(total, ops.add(total, x))
        return ops.matmul(ops.reshape(ops.mul(total, 2), (1, 2)), ops.reshape(x, (2, 1)))

    step(tensor([0.0, 0.0]))
    captured = capture(step, tensor([0.0, 0.0]))
    assert total.tolist() == [0, 0], "a capture runs nothing"
    assert_close(captured.replay(tensor([1.0, 2.0])), [[10.0]])
    assert total.tolist() == [1, 2]
    assert_close(captured.replay(tensor([1.0, 0.0])), [[4.0]])
    raises((CaptureError, TypeError, ValueError), captured.replay, tensor([1.0, 2.0, 3.0]))


@check("capture")
def what_cannot_be_replayed_is_refused() -> None:
    raises(CaptureError, capture, lambda x: x * x.sum().item(), tensor([1.0]))
