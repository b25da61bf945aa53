"""Mixed precision: autocast's policy, its fallback, and the scaler's arithmetic on the device."""

from __future__ import annotations

import gc
import importlib
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.ops as ops
from netcl.amp import (
    POLICY,
    GradScaler,
    autocast,
    get_autocast_dtype,
    is_autocast_enabled,
    policy,
    supports_fp16,
)
from netcl.amp.autocast import _warned
from netcl.core import Tensor
from netcl.core.errors import DTypeError, UnsupportedError


@pytest.fixture(autouse=True)
def half_on_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes small ops in the dtype of autocast on CPUs too; tests of the rule for CPUs delete it."""
    monkeypatch.setenv("NETCL_AUTOCAST_ON_CPUS", "half")


class Descent:
    """The least an optimizer of the scaler needs: p -= lr * grad where found_inf is zero."""

    def __init__(self, params: list[Tensor], lr: float = 0.5) -> None:
        self.param_groups = [{"params": params}]
        self.lr = lr
        self.found_inf: Tensor | None = None

    def step(self) -> None:
        from netcl.core.expr import Load, Scalar, apply
        from netcl.core.ops_table.dispatch import evaluate

        assert self.found_inf is not None
        for p in self.param_groups[0]["params"]:
            moved = Load(0, "float32") - Load(1, "float32") * Scalar("lr", "float32")
            kept = apply("where", Load(2, "float32") > 0, Load(0, "float32"), moved)
            evaluate((kept,), (p, p.grad, self.found_inf), {"lr": self.lr}, out=(p,))


def test_policy_of_ops() -> None:
    halves = ("matmul", "conv2d", "batch_norm", "bmm", "linear", "conv_transpose2d")
    singles = ("softmax", "sum", "mean", "layer_norm", "cross_entropy", "exp", "log", "mse_loss", "var")
    assert [name for name in halves if policy(name) != "half"] == []
    assert [name for name in singles if policy(name) != "float32"] == []
    assert policy("relu") == POLICY["add"] == "widest"
    assert "matmul" in POLICY
    assert "nothing_such" not in POLICY
    with pytest.raises(UnsupportedError):
        policy("nothing_such")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.level("half")
def test_dtypes_inside(dtype: str, handle: Any, leaf: Any) -> None:
    if dtype == "float16" and not supports_fp16(handle):
        pytest.skip(f"{handle.device_name} has no cl_khr_fp16")
    x, w, b = leaf(4, 6), leaf(3, 6), leaf(3)
    with autocast(dtype=dtype):
        assert is_autocast_enabled()
        y = ag.linear(x, w, b)
        z = ag.relu(y)
        loss = ag.cross_entropy(z, Tensor.zeros(4, "int64"))
        assert (y.dtype, z.dtype, loss.dtype) == (dtype, dtype, "float32")
        assert ag.softmax(y).dtype == ag.layer_norm(y, 3).dtype == "float32"
        assert ops.matmul(x.detach(), w.detach(), transpose_b=True).dtype == dtype
        with autocast(enabled=False):
            assert ag.linear(x, w, b).dtype == "float32"
    assert not is_autocast_enabled()
    assert ag.linear(x, w, b).dtype == "float32"
    loss.backward()
    assert x.grad.dtype == w.grad.dtype == b.grad.dtype == "float32"
    exact = [
        g.numpy() for g in ag.grad(ag.cross_entropy(ag.relu(ag.linear(x, w, b)), Tensor.zeros(4, "int64")), [x, w, b])
    ]
    for ours, wanted in zip((x.grad, w.grad, b.grad), exact):
        np.testing.assert_allclose(ours.numpy(), wanted, atol=2e-2 * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.level("half")
def test_products_of_integers_are_exact_inside(handle: Any) -> None:
    """The sizes are computed as products of floats: autocast would cast their operands."""
    x = np.random.default_rng(0).integers(-128, 128, (70, 70)).astype(np.int8)
    a = Tensor.from_host(x)
    with autocast(dtype="bfloat16"):
        found = ops.matmul(a, a)
    assert found.dtype == "int8"
    assert np.array_equal(found.numpy(), (x.astype(np.int64) @ x).astype(np.int8))


def test_batch_norm_keeps_its_statistics(numpy_device: Any, leaf: Any) -> None:
    x, w, b = leaf(4, 3, 2, 2), leaf(3), leaf(3)
    mean, var = Tensor.zeros(3), Tensor.ones(3)
    with autocast():
        y = ag.batch_norm2d(x, w, b, mean, var)
    assert (y.dtype, mean.dtype, var.dtype) == ("float16", "float32", "float32")
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.numpy().mean((0, 2, 3)), atol=1e-3)


@pytest.mark.level("half")
def test_a_parameter_is_cast_once_per_block(numpy_device: Any, leaf: Any) -> None:
    w, x = leaf(3, 3), Tensor.ones((2, 3))
    with ag.Tape() as tape, autocast():
        y = ag.matmul(ag.matmul(x, w), w)
    assert [n.op_name for n in tape.nodes].count("cast") == 1
    y.sum().backward()
    assert w.grad.dtype == "float32"
    with autocast():
        first = ag.matmul(x, w).numpy()
        w.write(w.numpy() * 2)
        np.testing.assert_allclose(ag.matmul(x, w).numpy(), 2 * first, rtol=1e-2)


@pytest.mark.level("half")
def test_without_fp16_one_warning_and_float32(handle: Any, leaf: Any, monkeypatch: Any) -> None:
    # By the module's own name: the package's attribute of that name is the class.
    monkeypatch.setattr(importlib.import_module("netcl.amp.autocast"), "supports_fp16", lambda q: False)
    _warned.clear()
    x = leaf(3, 3)
    with autocast():
        with pytest.warns(UserWarning, match="no cl_khr_fp16") as seen:
            assert (x @ x).dtype == "float32"
        assert [one.filename for one in seen] == [__file__], "the warning names the line of the user"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (x @ x).dtype == "float32"
    with warnings.catch_warnings(), autocast():
        warnings.simplefilter("error")
        assert (x @ x).dtype == "float32"
    with autocast(dtype="bfloat16"):
        assert (x @ x).dtype == "bfloat16"


@pytest.mark.level("half")
def test_autocast_is_per_thread_and_a_decorator(numpy_device: Any, leaf: Any) -> None:
    x, seen = leaf(3, 3), []

    @autocast(dtype="bfloat16")
    def product() -> str:
        return (x @ x).dtype  # type: ignore[no-any-return]

    assert product() == "bfloat16"
    with autocast():
        thread = threading.Thread(target=lambda: seen.append(is_autocast_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]
    with pytest.raises(KeyError), autocast():
        raise KeyError
    assert not is_autocast_enabled()
    with pytest.raises(DTypeError, match="float16 or bfloat16"):
        autocast(dtype="float32")


def test_scaled_step_equals_the_plain_one(handle: Any, leaf: Any) -> None:
    w = leaf(4)
    start = w.numpy()
    scaler, opt = GradScaler(init_scale=1024.0), Descent([w])
    scaler.scale_loss((w * w).sum()).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * 1024 * start, rtol=1e-6)
    scaler.step(opt)
    np.testing.assert_allclose(w.numpy(), start - 0.5 * 2 * start, atol=1e-6)
    assert opt.found_inf is None


def test_overflow_skips_and_halves_then_grows(handle: Any, leaf: Any) -> None:
    w = leaf(4)
    start = w.numpy()
    scaler, opt = GradScaler(init_scale=64.0, growth_interval=2), Descent([w], lr=0.0)
    scales = []
    for factor in (np.inf, 1.0, np.nan, 1.0, 1.0, 1.0, 1.0):
        w.grad = None
        scaler.scale_loss((w * float(factor)).sum()).backward()
        opt.lr = 0.25 if not np.isfinite(factor) else 0.0
        scaler.step(opt)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [32, 32, 16, 16, 32, 32, 64]
    np.testing.assert_array_equal(w.numpy(), start)


def test_scale_loss_updates_where_update_was_not_called(leaf: Any) -> None:
    w = leaf(2)
    scaler, opt = GradScaler(init_scale=8.0), Descent([w])
    scaler.scale_loss((w * float("inf")).sum()).backward()
    scaler.step(opt)
    assert scaler.get_scale() == 8
    scaler.scale_loss(w.sum())
    assert scaler.get_scale() == 4


def test_unscale_before_clipping(leaf: Any) -> None:
    w = leaf(3)
    scaler, opt = GradScaler(init_scale=16.0), Descent([w])
    with pytest.raises(RuntimeError, match="no parameter of the optimizer has a gradient"):
        scaler.step(opt)
    scaler.scale_loss(w.sum()).backward()
    scaler.unscale_(opt)
    assert w.grad.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="unscaled already"):
        scaler.unscale_(opt)
    scaler.step(opt)
    scaler.unscale_(opt)


def test_half_gradients_are_unscaled_into_float32(numpy_device: Any, leaf: Any) -> None:
    w = leaf(3, dtype="float16")
    scaler = GradScaler(init_scale=2.0**20)
    (w * 1e-6).sum()
    w.grad = Tensor.from_host(np.array([1.0, 2.0, 3.0]), "float16")
    scaler._on(w.queue)
    scaler.unscale_(Descent([w]))
    assert w.grad.dtype == "float32"
    np.testing.assert_allclose(w.grad.numpy(), np.array([1.0, 2.0, 3.0]) / 2**20)


def test_no_host_read_in_a_step(leaf: Any, monkeypatch: Any) -> None:
    w = leaf(3)
    scaler, opt = GradScaler(), Descent([w])
    for kind, names in ((Tensor, ("item", "numpy", "to_host", "tolist")), (type(w.engine), ("read",))):
        for name in names:  # a core need not have the last one
            monkeypatch.setattr(kind, name, lambda *_: pytest.fail("a step read from the device"), raising=False)
    for _ in range(3):
        w.grad = None
        scaler.scale_loss((w * w).sum()).backward()
        scaler.step(opt)


def test_scaler_state_and_disabled(leaf: Any) -> None:
    w = leaf(3)
    scaler, opt = GradScaler(init_scale=32.0, growth_interval=5), Descent([w])
    scaler.scale_loss(w.sum()).backward()
    scaler.step(opt)
    scaler.update()
    state = scaler.state_dict()
    assert state["_growth_tracker"] == 1
    other = GradScaler()
    other.load_state_dict(state)
    assert other.state_dict() == state
    scaler.load_state_dict({**state, "scale": 4.0})
    assert scaler.get_scale() == 4
    with pytest.raises(ValueError, match="positive"):
        other.load_state_dict({**state, "scale": float("nan")})
    with pytest.raises(ValueError, match="growth_factor"):
        GradScaler(growth_factor=1.0)
    off = GradScaler(enabled=False)
    assert off.get_scale() == 1
    assert off.state_dict() == {}
    loss = w.sum()
    assert off.scale_loss(loss) is loss


@pytest.mark.level("half")
def test_faq_page_scaler_calls(leaf: Any) -> None:
    """The original page "FAQ": ``scaler.scale_loss(loss).backward()``, ``scaler.step(opt)``."""
    w, scaler = leaf(3), GradScaler()
    opt, before = Descent([w], lr=0.1), w.numpy()
    with autocast(dtype="bfloat16"):
        loss = (w * w).mean()
    scaler.scale_loss(loss).backward()
    scaler.step(opt)
    np.testing.assert_allclose(w.numpy(), before * (1 - 0.2 / 3), rtol=1e-2)


@pytest.mark.level("half")
def test_nothing_of_a_step_waits_for_the_garbage_collector(handle: Any, leaf: Any) -> None:
    w, image, filters = leaf(3, 3), leaf(1, 2, 5, 5), leaf(2, 2, 3, 3)
    gc.collect()
    gc.disable()
    try:
        with autocast(dtype="bfloat16"):
            hidden, plane = w * 2.0, image * 2.0
            seen = [weakref.ref(hidden), weakref.ref(plane)]
            loss = ag.matmul(hidden, w).sum() + ag.conv2d(plane, filters).sum()
        loss.backward()
        del hidden, plane, loss
        assert [ref() for ref in seen] == [None, None]
        assert not [one for one in gc.get_objects() if type(one) is Tensor and one.dtype == "bfloat16"]
    finally:
        gc.enable()


def test_autocast_takes_the_arguments_of_pytorch() -> None:
    for made, wanted in [
        (autocast(), (True, "float16")),
        (autocast(False), (False, "float16")),
        (autocast(True, "bfloat16"), (True, "bfloat16")),
        (autocast(dtype="bfloat16", enabled=False), (False, "bfloat16")),
        (autocast("cuda"), (True, "float16")),
        (autocast("cpu"), (True, "bfloat16")),
        (autocast("cuda", "bfloat16", False), (False, "bfloat16")),
        (autocast(device_type="xpu", dtype="bfloat16", cache_enabled=True), (True, "bfloat16")),
    ]:
        assert (made.enabled, made.dtype) == wanted
    with pytest.raises(TypeError, match=r"write autocast\(dtype='bfloat16'\)"):
        autocast("bfloat16")
    with pytest.raises(TypeError, match="autocast takes enabled, dtype"):
        autocast(True, enabled=False)
    with pytest.raises(TypeError, match="autocast takes enabled, dtype"):
        autocast(bogus=1)


@pytest.mark.level("half")
def test_the_dtype_of_the_block_is_told() -> None:
    assert get_autocast_dtype() == "float16"
    assert get_autocast_dtype("cpu") == "bfloat16"
    assert not is_autocast_enabled("cuda")
    with autocast(dtype="bfloat16"):
        assert get_autocast_dtype("cuda") == "bfloat16"
        assert is_autocast_enabled("cuda")


def test_with_pytorchs_arguments_another_floating_dtype_disables_the_block_with_a_warning():
    x = ag.tensor([[1.0, 2.0]])
    with pytest.warns(UserWarning, match="float32 is no target of autocast"), autocast("cuda", dtype="float32"):
        assert ag.matmul(x, ag.transpose(x)).dtype == "float32"
    with autocast("cuda", dtype="float32", enabled=False):
        assert not is_autocast_enabled()


def _products(x: Tensor, w: Tensor, q: Tensor) -> list[Tensor]:
    attended = ag.scaled_dot_product_attention(q, q, q)
    return [
        x @ w,
        ag.linear(x, w, w[0]),
        ag.linear_relu(x, w),
        ag.einsum("ij,jk->ik", x, w),
        attended,
        ag.bmm(q[0], q[0]),
    ]


@pytest.mark.level("half", "opencl-kernels")
def test_on_cpus_what_gains_nothing_stays_in_float32(handle: Any, leaf: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("NETCL_AUTOCAST_ON_CPUS")
    dtype = "float32" if handle.device_type == "cpu" else "bfloat16"
    x, w, q, image, filters, depthwise = (
        leaf(4, 4),
        leaf(4, 4),
        leaf(1, 2, 4, 4),
        leaf(2, 3, 6, 6),
        leaf(4, 3, 3, 3),
        leaf(3, 1, 3, 3),
    )
    with autocast(dtype="bfloat16"):
        found = _products(x, w, q)
        found += [ag.conv2d(image, filters), ag.conv2d_relu(image, filters), ag.conv2d(image, depthwise, groups=3)]
        found += [ag.conv2d(x=image, weight=filters), ag.conv_transpose2d(image, ag.transpose(filters, 0, 1))]
        found += [ag.batch_norm2d(image), ag.batch_norm2d(image, leaf(3), leaf(3))]
        assert [y.dtype for y in found] == [dtype] * len(found)
        half = x.astype("bfloat16")
        assert [(half @ w).dtype, ag.linear(half, w).dtype, ag.linear(x, half).dtype] == ["bfloat16"] * 3
        assert ag.batch_norm2d(image.astype("bfloat16")).dtype == "bfloat16"
        sum(y.sum() for y in found).backward()  # in the block: gradients of float32 numbers stay too
    for value in (x, w, q, image, filters, depthwise):
        got, value.grad = value.grad.numpy(), None
        assert np.isfinite(got).all()
    if dtype == "float32":
        with autocast(dtype="bfloat16"):
            inside = [y.numpy() for y in _products(x, w, q)]
        for ours, plain in zip(inside, _products(x, w, q)):
            np.testing.assert_array_equal(ours, plain.numpy())


@pytest.mark.level("half", "opencl-kernels")
def test_large_convolutions_are_half_on_cpus(handle: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("NETCL_AUTOCAST_ON_CPUS")
    least = Tensor.zeros((1, 3, 256, 512))  # with a result of one channel 2**19 elements
    weight, flipped = Tensor.zeros((1, 3, 1, 1)), Tensor.zeros((3, 1, 1, 1))
    with autocast(dtype="bfloat16"):
        assert ag.conv2d(least, weight).dtype == ag.conv_transpose2d(least, flipped).dtype == "bfloat16"
        assert ag.relu(ag.conv2d(least, weight)).dtype == ag.conv2d(least[0], weight).dtype == "bfloat16"
        assert ag.conv2d(x=least, weight=weight, stride=2).dtype == "bfloat16"
        left = [ag.conv2d(least[:, :, 1:], weight), ag.conv_transpose2d(least[:, :, 1:], flipped)]
        left += [ag.conv2d(least, Tensor.zeros((3, 1, 1, 1)), groups=3)]
        left += [ag.conv_transpose2d(least, Tensor.zeros((3, 1, 1, 1)), groups=3)]
        dtype = "float32" if handle.device_type == "cpu" else "bfloat16"
        assert [one.dtype for one in left] == [dtype] * 4


@pytest.mark.level("half", "opencl-kernels")
def test_a_checkpoint_and_a_decorator_keep_the_rule_for_cpus(numpy_device: Any, leaf: Any, monkeypatch: Any) -> None:
    x, w, seen = leaf(3, 3), leaf(3, 3), []

    def product(x: Tensor) -> Tensor:
        y = ag.matmul(x, w)
        seen.append(y.dtype)
        return y  # type: ignore[no-any-return]

    for value, dtype in (("measured", "float32"), ("half", "bfloat16")):
        monkeypatch.setenv("NETCL_AUTOCAST_ON_CPUS", value)
        with autocast(dtype="bfloat16"):
            y = ag.checkpoint(product, x)
        y.sum().backward()
        autocast(dtype="bfloat16")(product)(x)
        assert seen == [dtype] * 3
        seen.clear()


@pytest.mark.level("half", "capture")
def test_a_captured_step_chooses_as_an_eager_one(handle: Any, leaf: Any, monkeypatch: Any) -> None:
    from netcl.runtime.capture import capture

    monkeypatch.delenv("NETCL_AUTOCAST_ON_CPUS")
    filters, weight = leaf(8, 3, 3, 3), leaf(5, 8)

    def step(x: Tensor) -> list[Tensor]:
        with autocast(dtype="bfloat16"):
            hidden = ag.relu(ag.conv2d(x, filters, padding=1))
            loss = (ag.linear(hidden.mean((2, 3)), weight) ** 2).mean()
        return [loss, hidden, *ag.grad(loss, [filters, weight])]

    for size in (8, 224):
        x = Tensor.from_host(np.random.default_rng(size).standard_normal((1, 3, size, size)).astype(np.float32))
        captured = capture(step, x)
        for got, want in zip(captured.replay(x), step(x)):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got.astype("float32").numpy(), want.astype("float32").numpy())
