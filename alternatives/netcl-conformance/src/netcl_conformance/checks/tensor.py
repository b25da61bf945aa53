"""Level tensor: creation, host data, operators, views, writes in place, dtypes, devices, errors, switches."""

from __future__ import annotations

import numpy as np

from netcl.core import Tensor, manager
from netcl.core.config import get, override
from netcl.core.device import device, get_active_device
from netcl.core.dtypes import (
    OBJECTS,
    SUPPORTED,
    canonical,
    is_floating,
    is_integer,
    itemsize,
    kind,
    numpy_dtype,
    promote,
)
from netcl.core.errors import ConfigError, DeviceNotFoundError, DTypeError, NetclError, ShapeError
from netcl.core.layout import broadcast_shapes, contiguous_strides, normalize_axes
from netcl.core.process.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from netcl.core.storage.gradients import make_leaf
from netcl.core.tensor.in_place import copy, fill, write
from netcl_conformance.registry import check

# What PyTorch's promotion gives, by pairs of dtypes.
PROMOTED = {
    ("bool", "bool"): "bool", ("bool", "int32"): "int32", ("uint8", "int32"): "int32", ("int32", "int64"): "int64",
    ("int64", "float32"): "float32", ("float32", "float64"): "float64", ("bool", "float32"): "float32",
    ("uint8", "int64"): "int64", ("int32", "float64"): "float64",
}  # fmt: skip


def raises(kinds: type[Exception] | tuple[type[Exception], ...], function: object, *args: object, **kw: object) -> str:
    """The message of the error that a call raises; AssertionError if it raises none of ``kinds``."""
    try:
        function(*args, **kw)  # type: ignore[operator]
    except kinds as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"raised {type(error).__name__}: {error}") from error
    raise AssertionError(f"{getattr(function, '__name__', function)} raised nothing")


@check("tensor")
def creation_gives_shapes_dtypes_and_values() -> None:
    for made, wanted in (
        (Tensor.zeros((2, 3)), np.zeros((2, 3), np.float32)),
        (Tensor.ones((4,), "int64"), np.ones(4, np.int64)),
        (Tensor.full((2, 2), 7, "int32"), np.full((2, 2), 7, np.int32)),
        (Tensor.full((2,), 0.5), np.full(2, 0.5, np.float32)),
        (Tensor.eye(2, 3), np.eye(2, 3, dtype=np.float32)),
        (Tensor.arange(5), np.arange(5)),
        (Tensor.arange(1, 10, 3), np.arange(1, 10, 3)),
        (Tensor.arange(10, step=3), np.arange(0, 10, 3)),
        (Tensor.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25, dtype=np.float32)),
        (Tensor.from_host([[1.0, 2.0], [3.0, 4.0]]), np.array([[1, 2], [3, 4]], np.float32)),
        (Tensor.from_host([1, 2]), np.array([1, 2], np.int64)),
        (Tensor.from_host(True), np.array(True)),
        (Tensor.zeros((0, 3)), np.zeros((0, 3), np.float32)),
        (Tensor.zeros(()), np.zeros((), np.float32)),
    ):
        assert made.shape == wanted.shape, f"shape {made.shape}, expected {wanted.shape}"
        assert made.dtype == str(wanted.dtype), f"dtype {made.dtype}, expected {wanted.dtype}"
        np.testing.assert_array_equal(made.numpy(), wanted)
    assert Tensor.empty((3, 2), "uint8").shape == (3, 2)


@check("tensor")
def host_arrays_keep_their_dtype_and_order() -> None:
    for dtype in ("bool", "uint8", "int32", "int64", "float32"):
        wanted = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
        for given in (wanted, np.asfortranarray(wanted), wanted[::-1], wanted.T):
            made = Tensor.from_host(given)
            assert made.dtype == dtype, f"{dtype} became {made.dtype}"
            np.testing.assert_array_equal(made.numpy(), given)
    assert Tensor.from_host(np.ones(2)).dtype == "float32", "float64 arrays become float32 unless a dtype is given"
    given = np.ones(3, np.float32)
    made = Tensor.from_host(given)
    given[:] = 5
    assert made.numpy().tolist() == [1, 1, 1], "from_host copies"
    made.numpy()[:] = 9
    assert made.to_host().tolist() == [1, 1, 1], "numpy() copies"


@check("tensor")
def reads_give_python_numbers_and_lists() -> None:
    made = Tensor.from_host([[1, 2], [3, 4]])
    assert made.tolist() == [[1, 2], [3, 4]]
    assert type(made[0, 1].item()) is int
    assert type(Tensor.from_host(0.5).item()) is float
    assert (made.ndim, int(made.size), made.nbytes, len(made)) == (2, 4, 32, 2)
    assert [one.tolist() for one in made] == [[1, 2], [3, 4]]
    assert bool(Tensor.from_host(1))
    assert not bool(Tensor.from_host(0.0))
    assert (int(Tensor.from_host(3)), float(Tensor.from_host(2.5))) == (3, 2.5)
    raises(ValueError, bool, made)
    raises(Exception, made.item)


@check("tensor")
def operators_are_those_of_numpy() -> None:
    x, y = np.array([[1.5, -2.0], [3.0, 4.0]], np.float32), np.array([2.0, -3.0], np.float32)
    a, b = Tensor.from_host(x), Tensor.from_host(y)
    for found, wanted in (
        (a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y), (a // b, x // y), (a % b, x % y), (a**2, x**2),
        (-a, -x), (abs(a), abs(x)), (2 + a, 2 + x), (2 - a, 2 - x), (2 * a, 2 * x), (2 / a, 2 / x), (a @ b, x @ y),
        (a < b, x < y), (a <= b, x <= y), (a > b, x > y), (a >= b, x >= y), (a == b, x == y), (a != b, x != y),
        (a.T, x.T), (a[0], x[0]), (a[:, 1:], x[:, 1:]), (a[None, ..., 0], x[None, ..., 0]),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    i = Tensor.from_host(np.array([6, 3, 5], np.int32))
    for found, wanted in ((i & 3, [2, 3, 1]), (i | 8, [14, 11, 13]), (i ^ 1, [7, 2, 4]), (~i, [-7, -4, -6])):
        assert found.tolist() == wanted
    assert (i << 1).tolist() == [12, 6, 10]
    assert (i >> 1).tolist() == [3, 1, 2]


@check("tensor")
def methods_are_those_of_their_ops() -> None:
    x = np.array([[0.5, 2.0, 1.0], [4.0, 0.25, 3.0]], np.float32)
    a = Tensor.from_host(x)
    for found, wanted in (
        (a.sum(), x.sum()), (a.sum(1), x.sum(1)), (a.mean(0, keepdim=True), x.mean(0, keepdims=True)),
        (a.prod(1), x.prod(1)), (a.argmax(), x.argmax()), (a.argmin(1), x.argmin(1)), (a.exp(), np.exp(x)),
        (a.log(), np.log(x)), (a.sqrt(), np.sqrt(x)), (a.tanh(), np.tanh(x)), (a.relu(), x), (a.var(), x.var(ddof=1)),
        (a.std(0), x.std(0, ddof=1)), (a.clamp(0.5, 2), x.clip(0.5, 2)), (a.reshape(3, 2), x.reshape(3, 2)),
        (a.flatten(), x.ravel()), (a.transpose(0, 1), x.T), (a.permute(1, 0), x.T), (a.unsqueeze(0), x[None]),
        (a.squeeze(), x), (a.sigmoid(), 1 / (1 + np.exp(-x))), (a.astype("int32"), x.astype(np.int32)),
        ((a > 1).any(), np.array(True)), ((a > 1).all(1), (x > 1).all(1)),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


@check("tensor")
def views_share_memory_and_writes_are_counted() -> None:
    for view in (
        lambda t: t.reshape(6), lambda t: t.transpose(0, 1), lambda t: t[1], lambda t: t[:, 1:], lambda t: t.detach()
    ):  # fmt: skip
        base = Tensor.from_host(np.arange(6, dtype=np.float32).reshape(2, 3))
        mirror = np.arange(6, dtype=np.float32).reshape(2, 3)
        shown = view(base)
        reference = mirror if shown.shape == (2, 3) else view(mirror) if shown.shape != (3, 2) else mirror.T
        before = base.version
        fill(shown, 7)
        reference[...] = 7
        assert base.numpy().tolist() == mirror.tolist(), "a write through a view shows in its base"
        assert base.version > before, "a write in place through a view raises the base's version"
        base[0, 0] = -1
        mirror[0, 0] = -1
        assert shown.numpy().tolist() == reference.tolist(), "a write into the base shows in its views"
    base = Tensor.zeros((2,))
    assert base.detach().storage_id == base.storage_id != Tensor.zeros((2,)).storage_id
    assert base.clone().storage_id != base.storage_id
    assert base.data.storage_id == base.storage_id


@check("tensor")
def writes_in_place_convert_broadcast_and_refuse() -> None:
    target = Tensor.zeros((2, 2))
    identity = target.storage_id
    copy(target, Tensor.from_host([1, 2]))
    assert target.tolist() == [[1, 2], [1, 2]]
    write(target, target + 1)
    assert target.tolist() == [[2, 3], [2, 3]]
    target[0] = 9
    target[:, 1] = Tensor.from_host([5.0, 6.0])
    assert target.tolist() == [[9, 5], [2, 6]]
    target += 1
    assert target.tolist() == [[10, 6], [3, 7]]
    assert target.storage_id == identity
    target.write(np.zeros((2, 2), np.float32))
    assert target.tolist() == [[0, 0], [0, 0]]
    raises(ShapeError, copy, target, Tensor.zeros((3, 3)))
    raises(DTypeError, write, Tensor.zeros((2,), "int32"), Tensor.full((2,), 0.5))


@check("tensor")
def dtypes_promote_as_in_pytorch() -> None:
    assert {"bool", "uint8", "int32", "int64", "float32"} <= set(SUPPORTED)
    for (one, two), wanted in PROMOTED.items():
        if {one, two, wanted} <= set(SUPPORTED):
            assert promote(one, two) == promote(two, one) == wanted, f"promote({one}, {two}) is {promote(one, two)}"
    assert (promote("int32", float), promote("int32", int), promote("float32", int)) == ("float32", "int32", "float32")
    assert is_floating("float32")
    assert not is_floating("int64")
    assert is_integer("uint8")
    assert not is_integer("bool")
    assert (itemsize("int64"), itemsize("bool"), numpy_dtype("int32")) == (8, 1, np.dtype(np.int32))
    assert (kind("bool") == kind("int32"), kind("int32") == kind("uint8")) == (False, True)
    assert canonical(np.float32) == canonical("float32") == "float32"
    raises(DTypeError, canonical, "complex256")


@check("tensor")
def dtypes_are_objects() -> None:
    zeros = Tensor.zeros(2)
    for made, name in ((zeros, "float32"), (zeros.astype("int32"), "int32"), (zeros.reshape((2, 1)), "float32")):
        assert made.dtype is OBJECTS[name], f"{type(made.dtype)} in place of OBJECTS[{name!r}]"
        assert made.dtype.is_floating_point == (name == "float32")


@check("tensor")
def layouts_are_those_of_numpy() -> None:
    assert broadcast_shapes([(3, 1), (1, 4), ()]) == (3, 4)
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert normalize_axes(-1, 3, "sum") == (2,)
    assert normalize_axes((0, -1), 3, "sum") == (0, 2)
    assert "add" in raises(ShapeError, broadcast_shapes, [(2,), (3,)], "add")
    raises(ShapeError, normalize_axes, 3, 3, "sum")
    made = Tensor.zeros((2, 3))
    assert made.stride() == (3, 1)
    assert made.storage_offset() == 0
    assert made.is_contiguous()


@check("tensor")
def errors_name_shapes_and_are_errors_of_netcl() -> None:
    message = raises(ShapeError, lambda: Tensor.zeros((2, 3)) + Tensor.zeros((4,)))
    for shape in ("(2, 3)", "(4,)"):
        assert shape in message, f"names both shapes, not {message!r}"
    raises(ShapeError, Tensor.zeros((2, 3)).reshape, 4)
    raises(IndexError, lambda: Tensor.zeros((2,))[5])
    raises((ShapeError, IndexError), Tensor.zeros((2,)).sum, 3)
    for kind_of in (ShapeError, DTypeError, DeviceNotFoundError, ConfigError):
        assert issubclass(kind_of, NetclError)
    assert issubclass(ShapeError, ValueError)
    assert issubclass(DTypeError, TypeError)


@check("tensor")
def devices_have_handles_queues_and_engines() -> None:
    handle = get_active_device()
    made = Tensor.zeros((2,))
    assert made.queue is handle.queue, "a new tensor is on the active device"
    assert made.engine is Tensor.ones((3,)).engine, "one engine for the tensors of a device"
    assert made.engine.queue is made.queue
    assert isinstance(made.engine.device_label, str)
    for field in ("platform_name", "device_name", "backend", "device_type", "selector"):
        assert isinstance(getattr(handle, field), str), f"handle.{field} is a string"
    assert made.backend == made.engine.name
    with device(handle) as inside:
        assert inside.queue is Tensor.zeros((1,)).queue
    for selector in (handle.selector, str(handle)):
        assert manager.default(selector).queue is handle.queue, f"{selector} selects the device"
    raises((DeviceNotFoundError, ImportError, ValueError), manager.default, "no-such-device")
    assert Tensor.from_host(handle.queue, [1.0], "float32").queue is handle.queue
    assert made.to(handle.queue).storage_id == made.storage_id, "to() the same device changes nothing"


@check("tensor")
def engines_allocate_and_report() -> None:
    engine = Tensor.zeros((1,)).engine
    assert engine.zeros((2, 2), "int32").tolist() == [[0, 0], [0, 0]]
    made = engine.empty((3,), "float32")
    engine.fill(made, 2.5)
    assert made.tolist() == [2.5, 2.5, 2.5]
    assert isinstance(engine.flag_code("value {value}"), int)


@check("tensor")
def configuration_is_read_and_overridden() -> None:
    before = get("DEVICE")
    with override(DEVICE="cpu"):
        assert get("DEVICE") == "cpu"
    assert get("DEVICE") == before
    raises(ConfigError, get, "NO_SUCH_VARIABLE")


@check("tensor")
def switches_of_grad_nest_and_return() -> None:
    assert is_grad_enabled()
    with no_grad():
        assert not is_grad_enabled()
        with enable_grad():
            assert is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()
    with set_grad_enabled(False):
        assert not is_grad_enabled()
    assert no_grad()(is_grad_enabled)() is False
    assert is_grad_enabled()


@check("tensor")
def subclasses_are_leaves_on_the_storage_of_others() -> None:
    class Leaf(Tensor):
        pass

    value = Tensor.from_host([1.0, 2.0])
    leaf = Leaf.__new__(Leaf)
    make_leaf(leaf, value)
    assert isinstance(leaf, Tensor)
    assert leaf.storage_id == value.storage_id
    assert (leaf + 1).tolist() == [2, 3]
    assert type(leaf + 1) is Tensor
