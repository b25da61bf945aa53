"""Streams, the scheduler that gives them ops, and graphs of ops, on both backends."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import BufferPool, Tensor
from netcl.core.device import get_active_device
from netcl.core.errors import BackendMismatchError, DTypeError, ShapeError
from netcl.runtime.graph import Graph, GraphExecutor
from netcl.runtime.stream import Scheduler, Stream

ROWS = np.linspace(-2, 2, 6 * 50, dtype=np.float32).reshape(6, 50)


@pytest.fixture
def stream(engine: Any) -> Stream:
    return Stream(engine.queue)


def test_what_is_made_on_a_stream_belongs_to_it(engine: Any, stream: Stream) -> None:
    with stream as entered:
        assert entered is stream
        assert get_active_device() is stream.handle
        y = ops.exp(Tensor.from_host(ROWS))
    assert y.engine.queue is stream.queue
    assert y.engine is not engine
    np.testing.assert_allclose(y.numpy(), np.exp(ROWS), rtol=1e-6)
    with pytest.raises(BackendMismatchError, match="move them together"):
        ops.add(y, Tensor.from_host(engine.queue, ROWS))


def test_a_copy_on_another_stream_is_ordered_behind_its_source(engine: Any, stream: Stream) -> None:
    x = Tensor.from_host(engine.queue, ROWS)
    for _ in range(20):
        with stream:
            y = ops.tanh(x.to(stream.queue))
        back = y.to(engine.queue)
        del y  # its buffer may serve the stream's next tensor, which must not happen before the copy
        with stream:
            Tensor.zeros(ROWS.shape)
        assert back.engine is engine
        np.testing.assert_allclose(back.numpy(), np.tanh(ROWS), rtol=1e-5, atol=1e-6)


def test_waiting_for_streams_tensors_and_transfers(engine: Any, stream: Stream) -> None:
    other = Stream(engine.queue, priority=-1)
    with other:
        x = ops.exp(Tensor.from_host(ROWS))
    for work in (other, x, x.to_host_async(), other.handle, other.queue, stream):
        stream.wait_for(work)
    stream.synchronize()
    assert "priority=-1" in repr(other)
    np.testing.assert_allclose(x.numpy(), np.exp(ROWS), rtol=1e-6)


def test_queues_of_streams_that_are_gone_are_used_again(engine: Any) -> None:
    first = Stream(engine.queue)
    queue = first.queue
    second = Stream(engine.queue)
    assert second.queue is not queue
    del first
    gc.collect()
    assert Stream(engine.queue).queue is queue


def test_synchronizing_raises_what_the_device_reports(engine: Any, stream: Stream) -> None:
    with stream:
        rows, ids = Tensor.from_host(ROWS), Tensor.from_host(np.array([0, 7]))
        ops.take(rows, ops.add(ids, 0), axis=0)
        with pytest.raises(IndexError, match="out of range"):
            stream.synchronize()


@pytest.mark.parametrize("async_mode", [False, True])
def test_scheduled_ops_keep_the_order_of_their_stream(engine: Any, async_mode: bool) -> None:
    streams = [Stream(engine.queue), Stream(engine.queue)]
    scheduler, seen = Scheduler(async_mode), []
    place = get_active_device()

    def op(number: int) -> Any:
        def run() -> np.ndarray:
            seen.append((number, threading.get_ident(), get_active_device()))
            return ops.mul(Tensor.from_host(ROWS), float(number)).numpy()

        return run

    futures = [scheduler.submit(op(number), streams[number % 2]) for number in range(8)]
    last = scheduler.submit(lambda: sum(future.result()[0, 0] for future in futures), after=futures)
    scheduler.run()
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(), ROWS * np.float32(number))
    assert last.result() == ROWS[0, 0] * sum(range(8))
    for which in (0, 1):
        own = [entry for entry in seen if entry[0] % 2 == which]
        assert [number for number, *_ in own] == sorted(number for number, *_ in own)
        assert {handle for _, _, handle in own} == {streams[which].handle}
    assert (threading.get_ident() in {thread for _, thread, _ in seen}) is not async_mode
    assert get_active_device() == place


@pytest.mark.parametrize("async_mode", [False, True])
def test_an_op_that_fails_fails_what_comes_after_it(engine: Any, async_mode: bool) -> None:
    scheduler = Scheduler(async_mode)
    bad = scheduler.submit(lambda: ops.reshape(Tensor.from_host(ROWS), (7,)))
    after = scheduler.submit(lambda: 1, after=[bad])
    well = scheduler.submit(lambda: 2)
    with pytest.raises(ShapeError):
        scheduler.run()
    assert isinstance(after.exception(), ShapeError)
    assert well.result() == 2
    scheduler.run()  # nothing is left of it
    with pytest.raises(TypeError, match="a function without arguments, got int"):
        scheduler.submit(3)


def test_a_graph_gives_what_nobody_reads_and_frees_the_rest(engine: Any) -> None:
    x = Tensor.from_host(engine.queue, ROWS)
    graph, alive = Graph(), []

    def watched(function: Any) -> Any:
        def call(*operands: Tensor) -> Tensor:
            gc.collect()
            alive.append(sum(type(one) is Tensor and one.shape == (6, 50) for one in gc.get_objects()) - before)
            return function(*operands)

        return call

    gc.collect()
    before = sum(type(one) is Tensor and one.shape == (6, 50) for one in gc.get_objects())
    name: Any = x
    for number in range(6):
        name = graph.add_op(f"step {number}", watched(lambda a: ops.add(a, 1.0)), [name], (6, 50))
    graph.add_op("total", ops.sum, ["step 2"], ())
    assert [op.name for op in graph] == [graph[op.name].name for op in graph]
    assert len(graph) == len(list(graph))
    found = GraphExecutor().run(graph)
    assert list(found) == ["step 5", "total"]
    assert len(graph) == 7
    assert graph["total"].dtype == "float32"
    np.testing.assert_allclose(found["step 5"].numpy(), ROWS + 6, rtol=1e-6)
    np.testing.assert_allclose(found["total"].numpy(), (ROWS.astype(np.float64) + 3).sum(), rtol=1e-5)
    assert max(alive) <= 3, alive  # the one that is read, and step 2, which is read again


def test_the_memory_of_a_graph_comes_from_its_pool(engine: Any) -> None:
    graph = Graph()
    graph.add_op("twice", lambda a: ops.mul(a, 2.0), [Tensor.from_host(engine.queue, ROWS)], (6, 50))
    pool = None if engine.name == "cpu" else BufferPool(engine.context)
    found = GraphExecutor(pool).run(graph)["twice"]
    np.testing.assert_array_equal(found.numpy(), ROWS * 2)
    assert pool is None or found.pool_handle.pool is pool


def test_graphs_refuse_what_does_not_fit(engine: Any) -> None:
    x = Tensor.from_host(engine.queue, ROWS)
    graph = Graph()
    graph.add_op("sum", ops.sum, [x], (6,))
    with pytest.raises(ValueError, match="has an op 'sum' already"):
        graph.add_op("sum", ops.sum, [x], ())
    with pytest.raises(ValueError, match="there is no op 'later' in the graph yet; there are sum"):
        graph.add_op("max", ops.max, ["later"], ())
    with pytest.raises(TypeError, match="max: expected an op of the graph"):
        graph.add_op("max", ops.max, [ROWS], ())
    with pytest.raises(ShapeError, match=r"op 'sum' gave shape \(\), it was added with \(6,\)"):
        GraphExecutor().run(graph)
    wrong = Graph()
    wrong.add_op("greater", lambda a: ops.gt(a, 0.0), [x], (6, 50))
    with pytest.raises(DTypeError, match="op 'greater' gave bool, it was added with float32"):
        GraphExecutor().run(wrong)
    nothing = Graph()
    nothing.add_op("none", lambda a: None, [x], ())
    with pytest.raises(TypeError, match="op 'none': expected a tensor as the result, got NoneType"):
        GraphExecutor().run(nothing)


def test_a_copy_between_queues_of_a_device_does_not_pass_the_host(
    engine: Any, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no device memory")
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        x = Tensor.from_host(engine.queue, np.arange(6).reshape(2, 3) % 2, dtype)
        with monkeypatch.context() as patch:
            patch.setattr(type(engine), "read", lambda *_: pytest.fail("a copy on the device was read by the host"))
            y = x.to(stream.queue)
        assert y.engine.queue is stream.queue
        assert y.dtype == dtype
        np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert Tensor.zeros((0, 3), queue=engine.queue).to(stream.queue).shape == (0, 3)
