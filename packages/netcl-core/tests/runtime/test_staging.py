"""Staging memory, packed tensors and host calls, on both backends, eager and captured."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import BackendMismatchError, CaptureError, ShapeError
from netcl.runtime.capture import capture
from netcl.runtime.staging import Pending, Staging, host_call, mark, order_after, packed_tensors

VALUES = np.arange(5000, dtype=np.float32)


@pytest.fixture
def staging(engine: Any) -> Iterator[Staging]:
    made = Staging(engine.queue, 1 << 16)
    yield made
    made.close()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
def test_a_part_goes_to_the_memory_and_comes_back_elsewhere(engine: Any, staging: Staging, dtype: str) -> None:
    x = Tensor.from_host(engine.queue, VALUES % 200, dtype)
    y = Tensor.zeros((6000,), dtype, queue=engine.queue)
    down = staging.download(x, 37, 4001, at=64, after=[mark(engine.queue)])
    up = staging.upload(y, 1000, 4001, at=64, after=[down, mark(engine.queue)])
    order_after(engine.queue, [up])
    expected = np.zeros(6000, np.float32)
    expected[1000:5001] = x.numpy()[37:4038]
    np.testing.assert_array_equal(y.numpy(), expected)
    assert up.done()


def test_what_is_uploaded_is_computed_with_on_the_stream(engine: Any, staging: Staging) -> None:
    x = Tensor.from_host(engine.queue, VALUES)
    staging.download(x, 0, 5000, at=0, after=[mark(engine.queue)]).wait()
    with staging.stream:
        part = Tensor.empty((5000,))
        order_after(staging.stream.queue, [staging.upload(part, 0, 5000, at=0)])
        total = ops.add(part, part)
    moved = staging.move(total, 10, 20, x, 100, [mark(staging.stream.queue)])
    order_after(engine.queue, [moved])
    np.testing.assert_array_equal(x.numpy()[100:120], 2 * VALUES[10:30])


def test_two_devices_share_a_mapping(engine: Any) -> None:
    memory = mmap.mmap(-1, 1 << 16)
    first, second = Staging(engine.queue, memory), Staging(None, memory)
    x = Tensor.from_host(engine.queue, VALUES)
    first.download(x, 0, 5000, at=0, after=[mark(engine.queue)]).wait()
    with second.stream:
        y = Tensor.empty((5000,))
    second.upload(y, 0, 5000, at=0, after=[mark(second.stream.queue)]).wait()
    np.testing.assert_array_equal(y.numpy(), VALUES)
    for one in (first, second):
        one.close()
    del first, second, one
    gc.collect()
    memory.close()  # raises BufferError if an array still refers to it


@pytest.mark.parametrize(
    ("first", "count", "at"), [(-1, 5, 0), (0, 5001, 0), (4999, 2, 0), (0, 10, -1), (0, 10, (1 << 16) - 39)]
)
def test_ranges_outside_are_refused(engine: Any, staging: Staging, first: int, count: int, at: int) -> None:
    x = Tensor.from_host(engine.queue, VALUES)
    with pytest.raises(ShapeError, match="download: elements"):
        staging.download(x, first, count, at)
    with pytest.raises(ShapeError, match="upload: elements"):
        staging.upload(x, first, count, at)


def test_no_memory_is_refused(engine: Any) -> None:
    with pytest.raises(ShapeError, match="at least one byte"):
        Staging(engine.queue)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_packed_tensors_are_parts_of_one(engine: Any, dtype: str) -> None:
    shapes = [(3,), (5, 7), (), (0,), (1000,)]
    flat, parts = packed_tensors(shapes, dtype, engine.queue)
    assert [part.shape for part in parts] == shapes
    for number, part in enumerate(parts):
        part.write(np.full(part.shape, number + 1, np.float32))
    assert float(flat.numpy().astype(np.float64).sum()) == 3 * 1 + 35 * 2 + 3 + 1000 * 5
    flat.write(np.full(flat.shape, 2, np.float32))
    np.testing.assert_array_equal(parts[1].numpy(), np.full((5, 7), 2))


def test_host_calls_keep_their_order_in_replays(engine: Any, staging: Staging) -> None:
    target = Tensor.zeros((5000,), queue=engine.queue, persistent=True)
    seen: list[str] = []
    under_way: list[Pending] = []

    def send(reads: Sequence[Tensor], out: Sequence[Tensor]) -> None:
        seen.append("send")
        sent = staging.download(reads[0], 0, 5000, at=0, after=[mark(engine.queue)])
        under_way.append(staging.upload(out[0], 0, 5000, at=0, after=[sent]))

    def arrive(reads: Sequence[Tensor], out: Sequence[Tensor]) -> None:
        seen.append("arrive")
        order_after(engine.queue, [under_way.pop()])

    def step(x: Tensor) -> Tensor:
        y = ops.mul(ops.add(x, 1.0), 2.0)
        host_call(send, (y,), (target,))
        z = ops.neg(y)
        host_call(arrive, (), (target,))
        return ops.add(ops.mul(target, 3.0), z)

    x = Tensor.from_host(engine.queue, VALUES)
    np.testing.assert_array_equal(step(x).numpy(), 4 * (VALUES + 1))
    captured = capture(step, x)
    assert seen == ["send", "arrive"]
    for shift in (5, 9):
        moved = Tensor.from_host(engine.queue, VALUES + shift)
        np.testing.assert_array_equal(captured.replay(moved).numpy(), 4 * (VALUES + shift + 1))
    assert seen == ["send", "arrive"] * 3


def test_a_host_call_is_not_delayed_by_small_steps_before_it(engine: Any, staging: Staging) -> None:
    """As the gradient of a bias, which waits with others for one launch, delayed the gradients of a whole layer."""
    late = Tensor.zeros((300, 300), queue=engine.queue, persistent=True)
    order = Tensor.zeros((1,), queue=engine.queue, persistent=True)
    under_way: list[Pending] = []

    def leave(reads: Sequence[Tensor], out: Sequence[Tensor]) -> None:
        under_way.append(staging.download(late, 0, 1, at=0, after=[mark(engine.queue)]))
        order_after(engine.queue, under_way)

    def step(x: Tensor) -> Tensor:
        bias = ops.mul(ops.add(x[0], 1.0), 2.0)
        host_call(leave, (bias,), (order,))
        for _ in range(3):
            x = ops.matmul(x, x)
        late.copy_(x)
        return ops.sum(bias)

    eye = np.eye(300, dtype=np.float32)
    captured = capture(step, Tensor.from_host(engine.queue, eye))
    for scale in (1, 2):
        replayed = captured.replay(Tensor.from_host(engine.queue, scale * eye))
        assert float(replayed) == 2 * (300 + scale)
        under_way.pop().wait()
        assert staging.array[:4].view(np.float32)[0] == scale - 1  # of the replay before: 0, then 1
    assert float(late.numpy()[0, 0]) == 2.0**8


def test_a_host_call_that_reads_a_value_raises_while_a_step_is_captured(engine: Any) -> None:
    x = Tensor.from_host(engine.queue, VALUES)

    def step(x: Tensor) -> Tensor:
        host_call(lambda reads, out: None, (x,), ())
        return ops.add(x, float(x.numpy()[1]))

    with pytest.raises(CaptureError, match="a value was read"):
        capture(step, x)


def test_an_error_of_a_host_call_reaches_the_caller(engine: Any) -> None:
    x = Tensor.from_host(engine.queue, VALUES)

    def fail(reads: Sequence[Tensor], out: Sequence[Tensor]) -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        host_call(fail, (x,), ())

    def step(x: Tensor) -> Tensor:
        y = ops.add(x, 1.0)
        host_call(fail, (y,), ())
        return y

    captured = capture(step, x)
    with pytest.raises(KeyError, match="lost"):
        captured.replay(x)


def test_tensors_of_a_host_call_are_of_one_device(engine: Any, numpy_device: Any) -> None:
    x = Tensor.from_host(engine.queue, VALUES)
    y = Tensor.from_host(numpy_device.queue, VALUES)
    if engine.name == "cl":
        with pytest.raises(BackendMismatchError):
            host_call(lambda reads, out: None, (x,), (y,))
    else:
        host_call(lambda reads, out: None, (x,), (y,))
