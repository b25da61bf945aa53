"""Tensors: making, reading, writing, converting and moving them, and what their operators are."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import netcl
from netcl.core import Tensor, manager
from netcl.core.dtypes import SUPPORTED
from netcl.core.errors import BackendMismatchError, DTypeError, ShapeError
from netcl.core.tensor import _dtype_nbytes, _np_dtype


def test_the_three_forms_of_from_host(handle, engine):
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    for t in (Tensor.from_host(handle.queue, data), Tensor.from_host(handle, data), Tensor.from_host(data)):
        assert t.engine is engine
        assert t.shape == (2, 3)
        assert t.dtype == "float32"
        np.testing.assert_array_equal(t.numpy(), data)
    assert t.from_host(data * 2) is t
    np.testing.assert_array_equal(t.to_host(), data * 2)
    assert Tensor.from_host(data, backend="cpu").backend == "cpu"


def test_the_value_is_that_of_the_call(engine):
    data = np.ones(1000, np.float32)
    tensors = [Tensor.from_host(data, async_copy=a, use_pinned=p) for a in (True, False) for p in (True, False)]
    data[:] = 7
    assert all(t.numpy().max() == 1 for t in tensors)


@pytest.mark.parametrize(
    "data, dtype",
    [
        (np.float64(1.5), "float32"),
        ([1, 2], "int64"),
        (np.array([-1], np.int8), "int8"),
        (np.array([-1], np.int16), "int16"),
        (np.array([255], np.uint8), "uint8"),
        (np.array([65535], np.uint16), "uint16"),
        (np.array([2**32 - 1], np.uint32), "uint32"),
        (np.array([2**63], np.uint64), "uint64"),
        (np.array([True]), "bool"),
        (np.array([1.5], np.float16), "float16"),
        (2.5, "float32"),
    ],
)
def test_default_dtypes(engine, data, dtype):
    t = Tensor.from_host(data)
    assert t.dtype == dtype
    np.testing.assert_array_equal(t.numpy(), data)


def test_a_tensor_keeps_its_dtype(engine):
    for dtype in SUPPORTED:
        assert Tensor.from_host(Tensor.from_host(np.array([1.0]), dtype)).dtype == dtype
    assert Tensor.from_host(Tensor.from_host(np.array([1e-300]), "float64")).item() == 1e-300


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**30])
def test_python_integers_beyond_int64_are_refused(engine, number):
    for data in (number, [1, number], [[number]]):
        with pytest.raises(
            OverflowError, match=f"{number} does not fit int64, the dtype of Python integers; give dtype="
        ):
            Tensor.from_host(data)
    with pytest.raises(OverflowError, match="300 does not fit uint8, which holds 0 to 255"):
        Tensor.from_host([300], "uint8")
    assert Tensor.from_host([2**63], "uint64").tolist() == [2**63]
    assert Tensor.from_host([2**63], "float64").tolist() == [2.0**63]


def test_given_dtypes(engine):
    values = np.array([0.1, -2.5, 300.0])
    assert Tensor.from_host(values, "half").numpy().dtype == np.float16
    bf = Tensor.from_host(values, "bfloat16")
    assert bf.numpy().dtype == np.float32
    assert bf.nbytes == 6
    np.testing.assert_allclose(bf.numpy(), values, rtol=2**-8)
    assert Tensor.from_host([1, 0, 2], "bool").tolist() == [True, False, True]
    with pytest.raises(DTypeError, match="complex128 has no counterpart"):
        Tensor.from_host(np.array([1j]))
    with pytest.raises(DTypeError, match="unsupported dtype 'int7'"):
        Tensor.zeros(3, "int7")


def test_factories(engine):
    assert Tensor.zeros((2, 3)).tolist() == [[0] * 3] * 2
    assert Tensor.ones(2, "int32").tolist() == [1, 1]
    assert Tensor.full((), 2.5).item() == 2.5
    assert Tensor.empty((4, 0)).shape == (4, 0)
    assert Tensor.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert Tensor.arange(2, 8, 3).tolist() == [2, 5]
    assert Tensor.arange(3).dtype == "int64"
    assert Tensor.arange(0, 1, 0.25).dtype == "float32"
    assert Tensor.rand(2, 3).shape == (2, 3)
    assert Tensor.randn((4,), requires_grad=True).requires_grad
    assert Tensor.from_shape(engine.queue, (4, 8)).numpy().any() == np.False_
    kept = Tensor.ones(3, persistent=True)
    assert kept.persistent
    assert kept.tolist() == [1, 1, 1]
    for bad in (-1, (2, -3), (1.5,)):
        with pytest.raises(ShapeError, match="expected a shape of whole, non-negative lengths"):
            Tensor.zeros(bad)


def test_reading(engine):
    t = Tensor.from_host(np.arange(3, dtype=np.float32))
    transfer = t.to_host_async()
    np.testing.assert_array_equal(transfer.wait(), [0, 1, 2])
    assert transfer.done()
    np.testing.assert_array_equal(np.asarray(t), [0, 1, 2])
    assert np.asarray(t, dtype=np.int32).dtype == np.int32
    assert float(t[1]) == 1.0
    assert int(t[2]) == 2
    assert bool(t[0]) is False
    assert [10, 20, 30][Tensor.from_host(1)] == 20
    t.numpy()[0] = 9
    assert t.tolist() == [0, 1, 2]
    with pytest.raises(ShapeError, match=r"item: a tensor of shape \(3,\) has 3 elements, not one"):
        t.item()
    with pytest.raises(ValueError, match="truth value of a tensor"):
        bool(t)
    with pytest.raises(TypeError, match="float32 tensor is no index"):
        [1][t[0]]
    with pytest.raises(TypeError, match="0-d"):
        len(t[0])


def test_repr(engine):
    text = repr(Tensor.from_host(np.array([1.0, 2.5]), requires_grad=True))
    assert text.startswith("Tensor([1. , 2.5], dtype=float32, device=")
    assert text.endswith("requires_grad=True)")
    assert "[" in repr(Tensor.zeros((100, 100)))


def test_writing(engine):
    t = Tensor.zeros((2, 2))
    before = t.version
    assert t.write([[1, 2], [3, 4]]) is t
    assert t.write(Tensor.from_host(np.array([[5, 6], [7, 8]]))).tolist() == [[5, 6], [7, 8]]
    assert t.version > before
    with pytest.raises(ShapeError, match=r"values of shape \(2,\) into a tensor of shape \(2, 2\)"):
        t.write([1, 2])
    with pytest.raises(ShapeError, match=r"values of shape \(4,\) into a tensor of shape \(2, 2\)"):
        t.write(Tensor.zeros(4))


def test_moving_and_converting(engine):
    t = Tensor.from_host(np.array([1.5, -2.5]), requires_grad=True)
    assert t.to(engine.queue) is t
    assert t.astype("float32") is t
    there = t.cpu()
    assert there.backend == "cpu"
    assert there.tolist() == [1.5, -2.5]
    assert there.to(engine.queue).engine is engine
    assert t.to(dtype="int32").tolist() == [1, -2]
    assert t.to("cpu", "float64").dtype == "float64"
    copy = t.detach().clone()
    copy[0] = 0
    assert t.tolist() == [1.5, -2.5]
    assert not t.detach().requires_grad
    assert t.detach().storage_id == t.storage_id
    with pytest.raises(BackendMismatchError, match="does not fit the queue"):
        Tensor.from_host(engine.queue, [1.0], backend="cl" if engine.name == "cpu" else "cpu")


def test_operators(engine):
    a, b = np.array([7.0, -3.5, 2.0], np.float32), np.array([2.0, 2.0, -0.5], np.float32)
    x, y = Tensor.from_host(a), Tensor.from_host(b)
    pairs = [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x // y, a // b), (x % y, a % b),
        (abs(x) ** y, abs(a) ** b), (2 + x, 2 + a), (2 - x, 2 - a), (2 * x, 2 * a), (2 / x, 2 / a), (2 // x, 2 // a),
        (2 % x, 2 % a), (2**x, 2**a), (-x, -a), (x == y, a == b), (x != y, a != b), (x < y, a < b), (x <= y, a <= b),
        (x > y, a > b), (x >= y, a >= b), ((x > 0) & (y > 0), (a > 0) & (b > 0)),
        ((x > 0) | (y > 0), (a > 0) | (b > 0)),
        ((x > 0) ^ (y > 0), (a > 0) ^ (b > 0)), (~(x > 0), ~(a > 0)), (x @ y, a @ b),
    ]  # fmt: skip
    for got, wanted in pairs:
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
        assert got.numpy().dtype == wanted.dtype


def test_methods(engine):
    v = np.random.default_rng(0).uniform(0.5, 2, (3, 4)).astype(np.float32)
    x = Tensor.from_host(v)
    for name in ("sum", "mean", "prod", "argmax", "argmin", "all", "any"):
        np.testing.assert_allclose(getattr(x, name)().numpy(), getattr(v, name)(), rtol=1e-5)
        np.testing.assert_allclose(getattr(x, name)(axis=1).numpy(), getattr(v, name)(axis=1), rtol=1e-5)
    for name in ("var", "std"):  # of a sample, as in PyTorch
        np.testing.assert_allclose(getattr(x, name)().numpy(), getattr(v, name)(ddof=1), rtol=1e-5)
        np.testing.assert_allclose(getattr(x, name)(1, unbiased=False).numpy(), getattr(v, name)(axis=1), rtol=1e-5)
    for name in ("max", "min"):
        assert float(getattr(x, name)()) == getattr(v, name)()
        found = getattr(x, name)(dim=1)
        np.testing.assert_array_equal(found.values.numpy(), getattr(v, name)(axis=1))
        np.testing.assert_array_equal(found.indices.numpy(), getattr(v, f"arg{name}")(axis=1))
    for name in ("exp", "log", "sqrt", "tanh"):
        np.testing.assert_allclose(getattr(x, name)().numpy(), getattr(np, name)(v), rtol=1e-5)
    np.testing.assert_allclose(x.softmax().numpy().sum(1), 1, rtol=1e-6)
    assert x.clamp(1.0, 1.5).numpy().max() == 1.5
    assert x.relu().shape == x.sigmoid().shape == (3, 4)
    assert x.flatten().shape == (12,)
    assert x.unsqueeze(0).squeeze().shape == (3, 4)
    assert x.T.shape == (4, 3)
    assert (x.ndim, x.size, x.nbytes, len(x)) == (2, 12, 48, 3)
    assert x.device.queue is engine.queue


def test_dtype_facts():
    assert _np_dtype("half") == np.float16
    assert _np_dtype("bfloat16") == np.uint16
    assert [_dtype_nbytes(d) for d in ("float", "double", "bool", "int64")] == [4, 8, 1, 8]


def test_dlpack_shares_memory_that_the_host_sees(engine):
    t = Tensor.from_host(np.arange(12, dtype=np.float32).reshape(3, 4))
    if not t.is_cpu:
        assert t.__dlpack_device__()[0] == 4
        with pytest.raises(BufferError, match="does not see the memory"):
            t.__dlpack__(copy=False)
        return
    assert t.__dlpack_device__() == (1, 0)
    shared = np.from_dlpack(t)
    part = np.from_dlpack(t[1:, ::2])
    np.testing.assert_array_equal(part, [[4, 6], [8, 10]])
    t.fill_(5)
    engine.finish()
    np.testing.assert_array_equal(shared, np.full((3, 4), 5))
    np.testing.assert_array_equal(part, np.full((2, 2), 5))
    del t
    Tensor.zeros((3, 4))
    np.testing.assert_array_equal(shared, np.full((3, 4), 5))  # the array keeps the memory


def test_dlpack_copies_on_request(engine):
    t = Tensor.ones(3)
    capsule = t.__dlpack__(copy=True, dl_device=(1, 0), max_version=(1, 0))
    assert "dltensor" in repr(capsule)
    for size in ((), (0, 2)):
        np.testing.assert_array_equal(netcl.from_dlpack(np.ones(size, np.float32)).numpy(), np.ones(size))


def test_dlpack_refuses_with_a_reason():
    with pytest.raises(BufferError, match="no bfloat16"):
        Tensor.ones(3, "bfloat16").__dlpack__()
    with pytest.raises(BufferError, match="no stream"):
        Tensor.ones(3).__dlpack__(stream=1)
    with pytest.raises(BufferError, match="expected the host"):
        Tensor.ones(3).__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="__dlpack__"):
        netcl.from_dlpack([1, 2])


@pytest.mark.usefixtures("engine")
def test_from_dlpack_shares_or_says_that_it_cannot():
    if not Tensor.zeros(1).is_cpu:
        with pytest.raises(ValueError, match="copy=False"):
            netcl.from_dlpack(np.arange(6), copy=False)
        return
    raw = np.zeros(4096, np.uint8)
    start = -raw.ctypes.data % 512
    values = raw[start : start + 12].view(np.int16).reshape(2, 3)  # aligned, as an OpenCL device needs it
    t = netcl.from_dlpack(values, copy=False)
    assert t.dtype == "int16"
    t.fill_(3)
    t.engine.finish()
    np.testing.assert_array_equal(values, np.full((2, 3), 3))
    copied = netcl.from_dlpack(values, copy=True)
    copied.zero_()
    assert values.max() == 3
    with pytest.raises(ValueError, match="copy=False"):
        netcl.from_dlpack(values[:, ::2], copy=False)
    values.flags.writeable = False
    with pytest.raises(ValueError, match="read-only, which copy=False"):
        netcl.from_dlpack(values, copy=False)
    netcl.from_dlpack(values).zero_()
    assert values.max() == 3
    own = netcl.from_dlpack(t)
    assert own.untyped_storage() == t.untyped_storage()


def test_buffers_go_back_to_the_pool(handle, engine):
    if engine.name == "cpu":
        keeper = Tensor.ones(1000)
        view = keeper.reshape(10, 100)
        del keeper
        assert view.numpy().sum() == 1000
        return
    from netcl.core.memory import get_persistent_pool

    pool = get_persistent_pool(handle.queue)
    gc.collect()
    t = Tensor.ones(100_000)
    shared = t.reshape(10, 10_000)
    used = pool.get_stats()["bytes_in_use"]
    del t
    assert pool.get_stats()["bytes_in_use"] == used
    del shared
    assert pool.get_stats()["bytes_in_use"] <= used - 400_000
    hits = pool.get_stats()["hits"]
    Tensor.ones(100_000)
    assert pool.get_stats()["hits"] == hits + 1


def test_a_cpu_queue_of_its_own():
    second = manager.split(manager.default("cpu"), 2)[1]
    t = Tensor.ones(2, queue=second.queue)
    assert t.queue is second.queue
    assert (t + t).tolist() == [2, 2]
