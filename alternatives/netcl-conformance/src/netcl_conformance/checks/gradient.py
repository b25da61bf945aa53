"""Level gradient: the slots of the graph in a tensor, the registration, and backward passes of several ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.ops_table.dispatch import OpRow, call_row, pop_hook, push_hook, register_op, row_of
from netcl.core.storage.gradients import attach, is_recorded, mark_recorded, set_view, take_history, view_of
from netcl.core.tensor.in_place import copy, write
from netcl_conformance.checks.tensor import raises
from netcl_conformance.registry import LeftOut, check
from netcl_conformance.values import assert_close, tensor


def autograd() -> Any:
    """netcl.autograd; the check is left out if it is not installed."""
    try:
        import netcl.autograd as found
    except ImportError:
        raise LeftOut("netcl-autograd is not installed") from None
    return found


@check("gradient")
def tensors_store_their_place_in_the_graph() -> None:
    def grad_fn(grad: Any) -> Any:
        return grad

    x = Tensor.zeros((2,))
    assert not x.requires_grad
    assert x.grad is None
    assert x.grad_fn is None
    assert not is_recorded(x)
    attach(x, grad_fn)
    assert x.requires_grad
    assert x.grad_fn is grad_fn
    assert is_recorded(x)
    assert not x.detach().requires_grad
    assert x.detach().grad_fn is None
    y = Tensor.zeros((2,))
    mark_recorded(y)
    assert is_recorded(y)
    assert y.grad_fn is None
    assert not y.requires_grad
    z = Tensor.zeros((2,))
    take_history(z, x)
    assert z.requires_grad
    assert z.grad_fn is grad_fn
    view = object()
    set_view(z, view)
    assert view_of(z) is view
    assert view_of(y) is None
    z.grad = y
    assert z.grad is y


@check("gradient")
def a_small_network_has_the_gradients_of_numpy() -> None:
    ag = autograd()
    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((5, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)
    tx = tensor(x, "float32")
    tw, tb = tensor(w, "float32", requires_grad=True), tensor(b, "float32", requires_grad=True)
    loss = ag.mean(ag.square(ag.tanh(ag.add(ag.matmul(tx, tw), tb))))
    loss.backward()
    h = np.tanh(x @ w + b)
    upstream = 2 * h * (1 - h**2) / h.size
    assert_close(tw.grad, x.T @ upstream, tolerance=(1e-4, 1e-5))
    assert_close(tb.grad, upstream.sum(0), tolerance=(1e-4, 1e-5))
    ag.mean(ag.square(ag.tanh(ag.add(ag.matmul(tx, tw), tb)))).backward()
    assert_close(tb.grad, 2 * upstream.sum(0), tolerance=(1e-4, 1e-5))


@check("gradient")
def operators_of_leaves_are_recorded_and_gradients_are_differentiated() -> None:
    autograd()
    x = tensor([1.5, -2.0], requires_grad=True)
    (x * x * x).sum().backward(create_graph=True)
    assert_close(x.grad, [6.75, 12.0])
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert_close(x.grad, [9.0, -12.0])


@check("gradient")
def views_and_writes_in_place_carry_gradients() -> None:
    autograd()
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 2
    y[0] = 5.0
    (y.transpose(0, 1)[1] * tensor([1.0, 3.0])).sum().backward()
    assert_close(x.grad, [[0, 0], [0, 6]])


class _Writes:
    """A hook that notes writes in place."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any]] = []

    def __call__(self, next: Any, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return next(row, args, kwargs)

    def before_write(self, target: Any = None, value: Any = None) -> None:
        self.seen.append((target, None if value is None else value.tolist()))


@check("gradient")
def hooks_are_told_of_writes_in_place() -> None:
    x = tensor([1.0, 2.0])
    hook = _Writes()
    push_hook(hook, "tracer")
    try:
        write(x, x * 2)
        assert any(target is x and values == [2, 4] for target, values in hook.seen), str(hook.seen)
        del hook.seen[:]
        copy(x, tensor([5.0, 6.0]))
        assert any(target is x and values == [5, 6] for target, values in hook.seen), str(hook.seen)
        del hook.seen[:]
        x.write(np.zeros(2, np.float32))
        assert any(target is x and values in (None, [0, 0]) for target, values in hook.seen), str(hook.seen)
    finally:
        pop_hook(hook)


@check("gradient")
def a_row_may_have_its_own_gradient() -> None:
    autograd()
    name = "conformance_scaled"

    def scaled(x: Tensor, factor: float = 2.0) -> Any:
        return call_row(row_of("mul"), (x, factor), {}, False)

    def vjp(call: Any, grad: Any) -> dict[str, Any]:
        assert call.wants("x")
        assert call.x.shape == grad.shape
        return {"x": call.op("mul", grad, call.factor)}

    try:
        row = row_of(name)
    except Exception:  # noqa: BLE001 - the first run
        import inspect

        signature = inspect.Signature(
            [
                inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Tensor"),
                inspect.Parameter("factor", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=2.0),
            ]
        )
        row = register_op(
            OpRow(
                name,
                signature,
                call=scaled,
                doc="x * factor",
                operands=("x",),
                attributes={"factor": 2.0},
                vjp=vjp,
                saves={"x": ()},
            )  # fmt: skip
        )
    x = tensor([1.0, 2.0], requires_grad=True)
    call_row(row, (x, 3.0), {}, True).sum().backward()
    assert_close(x.grad, [3.0, 3.0])


@check("gradient")
def an_op_without_a_gradient_says_so() -> None:
    ag = autograd()
    x = tensor([3.0, 1.0], requires_grad=True)
    message = raises(Exception, lambda: ag.sum(ag.floor_divide(x, 2.0)).backward())
    assert "floor_divide" in message
    raises(RuntimeError, tensor([1.0]).backward)
