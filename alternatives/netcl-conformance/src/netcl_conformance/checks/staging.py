"""Level staging: parts of tensors pass by page-locked memory, in captured steps too."""

from __future__ import annotations

from collections.abc import Sequence

import netcl.ops as ops
from netcl.core import Tensor
from netcl.runtime.capture import capture
from netcl.runtime.staging import Staging, host_call, mark, order_after, packed_tensors
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor


@check("staging")
def parts_pass_by_the_memory() -> None:
    x, y = tensor([0.0, 1.0, 2.0, 3.0]), tensor([9.0, 9.0, 9.0, 9.0])
    memory = Staging(x.queue, 4096)
    copied = memory.download(x, 1, 3, at=8, after=[mark(x.queue)])
    order_after(y.queue, [memory.upload(y, 0, 3, at=8, after=[copied, mark(y.queue)])])
    assert_close(y, [1.0, 2.0, 3.0, 9.0])
    order_after(y.queue, [memory.move(x, 2, 2, y, 1, [mark(y.queue)])])
    assert_close(y, [1.0, 2.0, 3.0, 9.0])
    memory.close()


@check("staging")
def host_calls_have_their_position_in_replays() -> None:
    memory = Staging(tensor([0.0]).queue, 4096)
    target = Tensor.zeros((2,), persistent=True)

    def send(reads: Sequence[Tensor], out: Sequence[Tensor]) -> None:
        copied = memory.download(reads[0], 0, 2, at=0, after=[mark(reads[0].queue)])
        order_after(out[0].queue, [memory.upload(out[0], 0, 2, at=0, after=[copied])])

    def step(x: Tensor) -> Tensor:
        host_call(send, (ops.mul(x, 2),), (target,))
        return ops.add(target, x)  # type: ignore[no-any-return]

    captured = capture(step, tensor([0.0, 0.0]))
    assert_close(captured.replay(tensor([1.0, 2.0])), [3.0, 6.0])
    assert_close(captured.replay(tensor([5.0, 0.0])), [15.0, 0.0])
    memory.close()


@check("staging")
def packed_tensors_are_parts_of_one() -> None:
    flat, (first, second) = packed_tensors([(2,), (1, 2)])
    first.write([1.0, 2.0])
    second.write([[3.0, 4.0]])
    assert_close(ops.sum(flat), 10.0)
