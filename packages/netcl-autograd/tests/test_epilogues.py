"""Epilogue fusion in jitted functions: elementwise ops on the result of a contraction run in its kernel."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import ops
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.core.engine.interceptors import Interceptor, Layer, interception
from netcl.core.errors import KernelBuildError
from netcl.core.testing import masked

pytestmark = pytest.mark.level("tracing")

rng = np.random.default_rng(5)


def arrays(*shapes):
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


ROWS = ((6, 9), (5, 9), (5,))
STACK = ((2, 3, 9), (5, 9), (5,), (2, 3, 5))
IMAGE = ((2, 3, 5, 5), (4, 3, 3, 3), (4,), (2, 4, 5, 5))
CASES = {
    "activation": (lambda x, w, b: ag.relu(ag.linear(x, w, b)), ROWS, 1),
    "residual": (lambda x, w, b, r: ag.relu(ag.linear(x, w, b) + r), STACK, 1),
    "bias and scale": (lambda x, w, b: ag.relu(ag.matmul(x, w.T) * 0.5 + b), ROWS, 2),
    "image": (lambda x, w, b, r: ag.relu(ag.conv2d(x, w, b, padding=1) + r), IMAGE, 2),
    "two products": (lambda x, w, b: ag.relu(ag.linear(x, w, b) - ag.linear(x * 2.0, w)), ROWS, 3),
    "used twice": (lambda x, w, b: (lambda z: ag.relu(z) + z)(ag.linear(x, w, b)), ROWS, None),
    "a value that the gradient needs": (lambda x, w, b: ag.gelu(ag.linear(x, w, b)), ROWS, 2),
    "another shape": (lambda x, w, b: ag.linear(x, w, b).reshape(2, 15) * 2.0, ROWS, 2),
    "more rows": (lambda x, w, b, r: ag.linear(x, w, b)[0] + r, STACK, None),
}


def launched(fn, leaves):
    """Returns the result, and the kernels that its call took."""
    queue = leaves[0].queue
    queue.finish()
    log = None if leaves[0].backend == "cpu" else launch_log(queue)
    if log is not None:
        log.clear()
    result = fn(*leaves)
    return result, 0 if log is None else len(log)


@pytest.mark.parametrize("name", CASES)
def test_bits_and_launches(handle, name):
    fn, shapes, most = CASES[name]
    values = arrays(*shapes)
    found = []
    jitted = ag.jit_compile(fn)
    for each in (fn, jitted, jitted):
        leaves = [Tensor.from_host(a, requires_grad=True) for a in values]
        result, count = launched(each, leaves)
        (result * result).sum().backward()
        found.append([result.numpy(), *(leaf.grad.numpy() for leaf in leaves)])
        with ag.no_grad():
            found[-1].append(each(*leaves).numpy())
    assert all(np.array_equal(a, b) for other in found[1:] for a, b in zip(found[0], other))
    if handle.backend == "cl" and most is not None:
        assert count <= most


@pytest.mark.parametrize("name", ["activation", "residual", "image"])
def test_kernels_of_gpus_take_them(handle, name):
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy launches nothing")
    fn, shapes, most = CASES[name]
    with masked(handle, is_cpu=False) as seen, ag.no_grad():
        leaves = [Tensor.from_host(seen, a) for a in arrays(*shapes)]
        expected = fn(*leaves).numpy()
        found, count = launched(ag.jit_compile(fn), leaves)
        assert np.array_equal(found.numpy(), expected)
        assert count <= most


def test_whoever_holds_the_product_has_it(handle):
    x, w = (Tensor.from_host(a, requires_grad=True) for a in arrays((6, 9), (5, 9)))
    kept = []

    @ag.jit_compile
    def fn(x, w):
        z = ag.linear(x, w)
        kept.append(z)
        y = ag.relu(z)
        dropped = ag.linear(x, w) * 2.0  # no reader
        del dropped
        return y, ag.linear(y, w.T)

    y, last = fn(x, w)
    expected = x.numpy() @ w.numpy().T
    assert np.allclose(kept[0].numpy(), expected, atol=1e-5)
    assert np.allclose(y.numpy(), expected.clip(0), atol=1e-5)
    assert kept[0].op_name == "linear"
    assert type(kept[0]) is type(y) is type(last)
    kept[0].sum().backward()
    assert np.allclose(x.grad.numpy(), np.broadcast_to(w.numpy().sum(0), x.shape), atol=1e-5)


def test_weights_written_before_the_product_is_due(handle):
    x, w = (Tensor.from_host(a) for a in arrays((6, 9), (5, 9)))

    @ag.jit_compile
    def fn(x, w):
        z = ops.linear(x, w)
        w.write(np.zeros(w.shape, np.float32))
        return ops.relu(z) + ops.linear(x, w)

    expected = (x.numpy() @ w.numpy().T).clip(0)
    assert np.allclose(fn(x, w).numpy(), expected, atol=1e-5)
    assert not w.numpy().any()


def test_an_exception_behind_a_product(handle):
    x, w = (Tensor.from_host(a) for a in arrays((6, 9), (5, 9)))
    kept = []

    @ag.jit_compile
    def fn(x, w, fail):
        kept.append(ag.linear(x, w))
        if fail:
            raise KeyError("behind the product")
        return ag.relu(kept[-1])

    with pytest.raises(KeyError):
        fn(x, w, True)
    expected = x.numpy() @ w.numpy().T
    assert np.allclose(kept[0].numpy(), expected, atol=1e-5)
    assert np.allclose(fn(x, w, False).numpy(), expected.clip(0), atol=1e-5)


def test_numbers_that_change_do_not_make_kernels_without_end(handle):
    x, w = (Tensor.from_host(a) for a in arrays((6, 9), (5, 9)))
    jitted = ag.jit_compile(lambda x, w, k: ag.relu(ag.linear(x, w) * k))
    product = x.numpy() @ w.numpy().T
    counts = []
    for k in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        with ag.no_grad():
            result, count = launched(lambda x, w, k=k: jitted(x, w, k), [x, w])
        assert np.allclose(result.numpy(), (product * np.float32(k)).clip(0), rtol=1e-5, atol=1e-5)
        counts.append(count)
    if handle.backend == "cl":
        assert counts == [1, 1, 1, 1, 2, 2]


class Refusal(Interceptor):
    """Refuses calls with an epilogue, as a driver that does not build their kernels."""

    layer = Layer.CALL_LOG

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, proceed: Any, engine: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("epilogue") is None:
            return proceed(*args, **kwargs)
        self.calls.append(name)
        raise KernelBuildError("text", "", "log", "device", "driver")


def test_an_epilogue_that_does_not_build(handle):
    x, w = (Tensor.from_host(a, requires_grad=True) for a in arrays((6, 9), (5, 9)))
    jitted, refusal = ag.jit_compile(lambda x, w: ag.relu(ag.linear(x, w))), Refusal()
    with interception(x.engine, refusal):
        for _ in range(2):
            x.grad = None
            y = jitted(x, w)
            y.sum().backward()
            assert np.allclose(y.numpy(), (x.numpy() @ w.numpy().T).clip(0), atol=1e-5)
            assert x.grad is not None
    assert refusal.calls == ["matmul"] * (handle.backend == "cl")  # tried once


def test_a_product_is_no_boundary(handle):
    x, w = (Tensor.from_host(a) for a in arrays((6, 9), (5, 9)))
    fn = lambda x, w: (x * 2.0, ag.linear(x, w), ag.relu(x) + 1.0)  # noqa: E731
    expected = fn(x, w)
    for _ in range(2):
        results, count = launched(ag.jit_compile(fn), [x, w])
        assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(results, expected))
        assert handle.backend == "cpu" or count == 2  # the ops before and after the product are one kernel


def test_a_tape_keeps_the_product(handle):
    x, w = (Tensor.from_host(a, requires_grad=True) for a in arrays((6, 9), (5, 9)))
    fn = lambda x, w: ag.relu(ag.linear(x, w))  # noqa: E731
    grads = []
    for each in (fn, ag.jit_compile(fn)):
        with ag.Tape(retain_grads=True) as tape:
            y = each(x, w)
        tape.backward(y, np.ones(y.shape, np.float32))
        assert [node.op_name for node in tape.nodes][0] == "linear"
        assert len(tape.nodes) == 2
        assert np.allclose(tape.nodes[0].numpy(), x.numpy() @ w.numpy().T, atol=1e-5)
        grads.append(tape.nodes[0].grad.numpy())
    assert np.array_equal(*grads)


def test_an_operand_by_name(handle):
    x, w, b = (Tensor.from_host(a, requires_grad=True) for a in arrays(*ROWS))
    results = []
    for each in (ag.linear, ag.jit_compile(lambda *args, **kwargs: ag.relu(ag.linear(*args, **kwargs)))):
        y = each(x, weight=w, bias=b)
        (y if each is not ag.linear else ag.relu(y)).sum().backward()
        results.append([y.numpy().clip(0), x.grad.numpy(), b.grad.numpy()])
        x.grad = w.grad = b.grad = None
    assert all(np.array_equal(one, other) for one, other in zip(*results))


def test_errors_are_those_of_the_op(handle):
    x, w = (Tensor.from_host(a) for a in arrays((6, 9), (5, 8)))
    with pytest.raises(ValueError, match=r"linear: x \(6, 9\), weight \(5, 8\)"):
        ag.jit_compile(lambda x, w: ag.linear(x * 2.0, w))(x, w)


def test_nothing_is_left_for_the_garbage_collector(handle):
    x, w = (Tensor.from_host(a, requires_grad=True) for a in arrays((6, 9), (5, 9)))
    jitted = ag.jit_compile(lambda x, w: (ag.relu(ag.linear(x, w)) + ag.linear(x, w).sum()).sum())
    jitted(x, w).backward()
    gc.collect()
    gc.disable()
    try:
        before = sum(type(one) is Tensor for one in gc.get_objects())
        for _ in range(3):
            jitted(x, w)
        assert sum(type(one) is Tensor for one in gc.get_objects()) == before
    finally:
        gc.enable()


@pytest.mark.level("profiling")
def test_the_gradients_of_batch_norm_share_their_sums(handle: Any) -> None:
    """Those by weight and bias are the reductions in that by x, so that one program returns all three."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    from netcl.profiling import profile

    with masked(handle, is_cpu=False, compute_units=1) as gpu, device(gpu):
        x = Tensor.ones((8, 3, 4, 4), requires_grad=True)
        weight, bias = (Tensor.ones((3,), requires_grad=True) for _ in range(2))
        y = ag.batch_norm(x, None, None, weight, bias, training=True)
        with profile(gpu.queue) as seen:
            y.backward(Tensor.ones(y.shape))
        assert [one.name[:4] for one in seen.launches if one.kind == "kernel"][-1:] == ["rows"]
        assert sum(one.name.startswith(("rows", "reduce")) for one in seen.launches) == 1
