"""Ops of the user's own: apply_op, Function, checkpoint, gradcheck."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.errors import ShapeError, UnsupportedError


class Sigmoid(ag.Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.sigmoid()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad * y * (1 - y)


class Scaled(ag.Function):
    """Two results, an argument that is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor, x + y

    @staticmethod
    def backward(ctx: Any, product: Tensor | None, total: Tensor | None) -> tuple[Any, ...]:
        x, y = ctx.saved_tensors
        zero = x * 0
        p, t = (zero if g is None else g for g in (product, total))
        return p * y * ctx.factor + t, None, p * x * ctx.factor + t


def doubles(*shape: int) -> Tensor:
    rng = np.random.default_rng(4)
    return Tensor.from_host(rng.uniform(-1, 1, shape), "float64", requires_grad=True)  # type: ignore[no-any-return]


def test_function_has_first_and_second_derivatives(numpy_device: Any) -> None:
    x = doubles(3, 2)
    assert ag.gradcheck(Sigmoid.apply, x)
    assert ag.gradgradcheck(Sigmoid.apply, x)
    y = doubles(3, 2)
    assert ag.gradcheck(lambda a, b: Scaled.apply(a, 2.0, b), [x, y])
    assert ag.gradgradcheck(lambda a, b: Scaled.apply(a, 2.0, b)[0], [x, y])


def test_function_with_one_of_two_results_used(leaf: Any) -> None:
    x, y = leaf(3), leaf(3)
    product, total = Scaled.apply(x, 2.0, y)
    total.sum().backward()
    assert x.grad.tolist() == y.grad.tolist() == [1, 1, 1]
    assert product.op_name == "Scaled"


def test_function_on_constants_records_nothing() -> None:
    y = Sigmoid.apply(Tensor.zeros(3))
    assert isinstance(y, ag.Node)
    assert not y.requires_grad


def test_function_notices_overwritten_tensors_and_frees_itself(leaf: Any) -> None:
    x = leaf(3)
    y = Sigmoid.apply(x)
    y.detach().write(np.zeros(3))
    with pytest.raises(RuntimeError, match="Sigmoid: .*overwritten"):
        y.sum().backward()
    gc.disable()
    try:
        y = Sigmoid.apply(x)
        watched = weakref.ref(y)
        del y
        assert watched() is None
    finally:
        gc.enable()


def test_results_that_are_no_function_of_the_input(leaf: Any) -> None:
    class WithMask(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            mask = (x > 0).astype("float32")
            ctx.save_for_backward(mask)
            ctx.mark_non_differentiable(mask)
            return x * mask, mask

        @staticmethod
        def backward(ctx: Any, grad: Tensor, _: Any) -> Tensor:
            return grad * ctx.saved_tensors[0]

    x = leaf(5)
    y, mask = WithMask.apply(x)
    assert y.requires_grad
    assert not mask.requires_grad
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), (x.numpy() > 0).astype(np.float32))


def test_gradients_that_do_not_fit_are_named(leaf: Any) -> None:
    x = leaf(3)
    for result, error, message in (
        (
            lambda g: ops.reshape(g, (3, 1)),
            ShapeError,
            r"bad: the gradient of input 0 has shape \(3, 1\), the input \(3,\)",
        ),
        (lambda g: (g, g), RuntimeError, "bad: the gradient function gave 2 gradients for 1 inputs"),
        (lambda g: 1.0, TypeError, "bad: expected a Tensor as gradient of input 0, got float"),
    ):
        y = ag.apply_op(lambda t: t * 1, result, x, op_name="bad")
        with pytest.raises(error, match=message):
            y.sum().backward()


@pytest.mark.parametrize("more", [(None, None), (None, 1)])
def test_gradients_beyond_the_arguments_are_none(leaf: Any, more: tuple[Any, ...]) -> None:
    class Twice(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
            return grad * 2, *more

    x = leaf(5)
    y = Twice.apply(x).sum()
    if more[1] is not None:
        with pytest.raises(RuntimeError, match="gave 3 gradients for 1 arguments"):
            y.backward()
        return
    y.backward()
    assert x.grad.numpy().tolist() == [2.0] * 5


def test_a_function_with_tangents_alone_has_gradients(numpy_device: Any) -> None:
    class Product(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, factor: float, y: Tensor) -> Tensor:
            ctx.save_for_forward(x, y)
            ctx.factor = factor
            return x * x * y * factor

        @staticmethod
        def jvp(ctx: Any, dx: Tensor, _: None, dy: Tensor) -> Tensor:
            x, y = ctx.saved_tensors
            return (2 * x * y * dx + x * x * dy) * ctx.factor

    rng = np.random.default_rng(3)
    x, y = (Tensor.from_host(rng.normal(size=4)).requires_grad_() for _ in range(2))
    assert ag.gradcheck(lambda x, y: Product.apply(x, 3.0, y), (x, y))
    assert ag.gradgradcheck(lambda x, y: Product.apply(x, 3.0, y), (x, y))


def test_apply_op(handle: Any, leaf: Any) -> None:
    x, tape = leaf(3), ag.Tape()
    y = ag.apply_op(
        lambda t, factor: t * factor, lambda g: g * 3.0, x, attrs={"factor": 3.0}, tape=tape, op_name="triple"
    )
    assert [node.op_name for node in tape.nodes] == ["triple"]
    np.testing.assert_allclose(y.numpy(), 3 * x.numpy())
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    assert not ag.apply_op(lambda t: t, lambda g: g, x.detach()).requires_grad


def test_a_gradient_that_is_a_parameter_is_copied(leaf: Any) -> None:
    w, x = leaf(3), leaf(3)

    class ByWeight(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(w)
            return (x * w).sum()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
            return ctx.saved_tensors[0], None

    ByWeight.apply(x, w).backward()
    x.grad.write(np.zeros(3))
    assert np.all(w.numpy() != 0)


def block(x: Tensor, w: Tensor) -> Tensor:
    return ag.dropout(ag.tanh(ag.matmul(x, w)), 0.5)  # type: ignore[no-any-return]


def test_checkpoint_gives_the_same_bits(handle: Any, leaf: Any) -> None:
    x, w = leaf(4, 3), leaf(3, 5)
    results = []
    for run in (block, lambda *a: ag.checkpoint(block, *a), lambda x, w: ag.checkpoint(lambda x: block(x, w), x)):
        x.grad = w.grad = None
        ops.manual_seed(7)
        y = run(x, w)
        after = ag.rand(4).numpy()
        (y * y).sum().backward()
        results.append((y.numpy(), x.grad.numpy(), w.grad.numpy(), after, ag.rand(4).numpy()))
    for other in results[1:]:
        for ours, plain in zip(other, results[0]):
            np.testing.assert_array_equal(ours, plain)


def test_checkpoint_keeps_only_its_inputs(leaf: Any) -> None:
    x = leaf(4)
    inner: list[weakref.ref[Tensor]] = []

    def chain(x: Tensor) -> Tensor:
        y = x.exp()
        inner.append(weakref.ref(y))
        return (y * y).sum()

    z = ag.checkpoint(chain, x)
    assert inner[0]() is None
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * x.numpy()), rtol=1e-5)


@pytest.mark.level("half")
def test_checkpoint_repeats_under_the_same_autocast(leaf: Any, monkeypatch: Any) -> None:
    from netcl.amp import autocast

    monkeypatch.setenv("NETCL_AUTOCAST_ON_CPUS", "half")

    x, w, seen = leaf(4, 3), leaf(3, 5), []

    def product(x: Tensor) -> Tensor:
        y = ag.matmul(x, w)
        seen.append(y.dtype)
        return y  # type: ignore[no-any-return]

    with autocast(dtype="bfloat16"):
        y = ag.checkpoint(product, x)
    y.sum().backward()
    assert seen == ["bfloat16", "bfloat16"]
    assert w.grad.dtype == "float32"


def test_checkpoint_of_parameters_alone_and_within_grad(leaf: Any) -> None:
    w, x = leaf(3), Tensor.ones(3)
    y = ag.checkpoint(lambda x: (x * w).sum(), x)
    (found,) = ag.grad(y, w)
    assert found.tolist() == [1, 1, 1]
    assert w.grad is None
    with pytest.raises(RuntimeError, match="checkpoint"):
        ag.checkpoint(lambda x: (x * w).sum(), x).backward(create_graph=True)


def test_gradcheck_finds_a_wrong_gradient(numpy_device: Any) -> None:
    x = doubles(2, 3)

    def wrong(x: Tensor) -> Tensor:
        return ag.apply_op(lambda t: t * t, lambda g: g, x)

    with pytest.raises(RuntimeError, match=r"gradcheck: by input 0 \(shape \(2, 3\), float64\) at"):
        ag.gradcheck(wrong, x)
    with pytest.raises(ValueError, match="no input requires grad"):
        ag.gradcheck(wrong, x.detach())
    before = x.numpy()
    assert ag.gradcheck(lambda x: x.tanh(), x)
    np.testing.assert_array_equal(x.numpy(), before)


def test_gradgradcheck_finds_a_wrong_second_derivative(numpy_device: Any) -> None:
    class Cube(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad * x.detach() ** 2 * 3  # right, but cut off from x

    x = doubles(3)
    assert ag.gradcheck(Cube.apply, x)
    with pytest.raises(RuntimeError, match="gradcheck"):
        ag.gradgradcheck(Cube.apply, x)


def test_gradcheck_in_float32(handle: Any, leaf: Any) -> None:
    assert ag.gradcheck(lambda x: ag.tanh(x), leaf(3, 2))


class Apart(ag.Function):
    """The form with ``setup_context``, two results, and an argument that saves None."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2.0, x * 3.0

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0], None)

    @staticmethod
    def backward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, nothing = ctx.saved_tensors
        assert nothing is None
        assert x.shape == b.shape
        return a * 2.0 + b * 3.0


class Unfilled(Apart):
    """Gets None for the result without a gradient."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, a: Tensor, b: Any) -> Tensor:
        assert b is None
        return a * 2.0


@pytest.mark.parametrize("kind", [Apart, Unfilled])
def test_setup_context_and_gradients_that_are_missing(kind: Any) -> None:
    x = ag.tensor(Tensor.ones((2,)), requires_grad=True)
    first, _ = kind.apply(x)
    first.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_forward_cannot_write_into_its_arguments() -> None:
    with pytest.raises(UnsupportedError, match="compute a new tensor"):
        ag.function.Context((True,)).mark_dirty(Tensor.ones((1,)))
