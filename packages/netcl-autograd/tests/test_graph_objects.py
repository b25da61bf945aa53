"""The gradient graph as programs read it: nodes and what they save, hooks on nodes and on saved tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.autograd import graph
from netcl.core import Tensor


def _leaf(*values: float) -> Tensor:
    return Tensor.from_host(np.array(values, np.float32), requires_grad=True)


def test_nodes_lead_to_the_leaves() -> None:
    x, w = _leaf(1, 2), _leaf(3, 4)
    total = (x * w + x).sum()
    ((added, at),) = total.grad_fn.next_functions
    (product, _), (end, index) = added.next_functions
    assert (total.grad_fn.name(), added.name(), product.name(), at) == (
        "SumBackward0",
        "AddBackward0",
        "MulBackward0",
        0,
    )
    assert (end.variable is x, end.name(), end.next_functions, index) == (
        True,
        "torch::autograd::AccumulateGrad",
        (),
        0,
    )
    assert {function for function, _ in (*product.next_functions, (end, 0))} == {end, product.next_functions[1][0]}
    assert isinstance(product, graph.Node)
    assert graph.get_gradient_edge(x).node == end
    second = (x.unbind(0)[1] * 2).grad_fn.next_functions[0]
    assert second[1] == 0


@pytest.mark.level("programs")
def test_saved_tensors_are_read_by_pytorchs_names() -> None:
    x, w = _leaf(1, 2), _leaf(3, 4)
    product = (x * w).grad_fn
    assert (product._saved_self is x, product._saved_other is w) == (True, True)
    np.testing.assert_allclose((x / w).grad_fn._saved_self.numpy(), [1, 2])
    np.testing.assert_allclose(ag.exp(x).grad_fn._saved_result.numpy(), np.exp([1, 2]), rtol=1e-6)
    np.testing.assert_allclose(ag.relu(x).grad_fn._saved_result.numpy(), [1, 2])
    assert (x**2).grad_fn._saved_exponent == 2
    assert ag.cumsum(x, 0).grad_fn._saved_dim == 0
    with pytest.raises(AttributeError, match="the node of add has no '_saved_self'"):
        getattr((x * 2 + w * 2).grad_fn, "_saved_self")  # noqa: B009
    (x * w).sum().backward()
    total = (x * w).sum()
    made = total.grad_fn.next_functions[0][0]
    total.backward()
    with pytest.raises(RuntimeError, match="freed"):
        getattr(made, "_saved_self")  # noqa: B009


class _Twice(ag.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(None, x)
        ctx.factor = 2
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * ctx.factor


@pytest.mark.level("programs")
def test_a_node_of_a_function_shows_its_context() -> None:
    x = _leaf(1, 2)
    made = _Twice.apply(x).grad_fn
    assert (made.name(), made.factor, made.saved_tensors[0]) == ("_TwiceBackward", 2, None)
    assert made.saved_tensors[1] is x


def test_hooks_on_nodes_change_gradients() -> None:
    x = _leaf(1, 2)
    seen: list[Any] = []
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    handle = y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1,))
    total = y.sum()
    total.backward(retain_graph=True)
    assert (x.grad.tolist(), seen) == ([7, 7], [([6, 6], [2, 2])])
    handle.remove()
    total.backward()
    assert (x.grad.tolist(), len(seen)) == ([14, 14], 1)


@pytest.mark.level("programs")
def test_saved_tensors_are_packed_and_unpacked() -> None:
    x, w = _leaf(1, 2), _leaf(3, 4)
    calls: list[str] = []

    def pack(tensor: Tensor) -> np.ndarray:
        calls.append("pack")
        return tensor.numpy() * 10

    def unpack(kept: np.ndarray) -> Tensor:
        calls.append("unpack")
        return Tensor.from_host(kept / 10)

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * x * w).sum()
    assert calls == ["pack"] * 4
    first = ag.grad(y, x, create_graph=True)[0]
    np.testing.assert_allclose(first.numpy(), [6, 16], rtol=1e-6)
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [6, 8], rtol=1e-6)
    np.testing.assert_allclose(w.grad.numpy(), [2, 4], rtol=1e-6)
    assert calls.count("unpack") >= 4
    assert len((x * w).grad_fn.saved) == 2
    assert calls.count("pack") == 4


@pytest.mark.level("programs")
def test_hooks_on_saved_tensors_are_refused_and_checked() -> None:
    x = _leaf(1, 2)
    with graph.saved_tensors_hooks(lambda tensor: [tensor], lambda kept: kept.pop()):  # of which one read is all
        y = x.pow(2)
    np.testing.assert_array_equal(y.grad_fn._saved_self.numpy(), x.numpy())
    with pytest.raises(IndexError):
        y.grad_fn._saved_self  # noqa: B018
    with graph.saved_tensors_hooks(lambda tensor: tensor, lambda kept: kept[:1]):
        y = (x * x).sum()
    with pytest.raises(ValueError, match="expected unpack to return a tensor of"):
        y.backward()
    hooks = graph.saved_tensors_hooks(lambda tensor: tensor, lambda kept: kept)
    with graph.disable_saved_tensors_hooks("none here"), pytest.raises(RuntimeError, match="none here"):
        hooks.__enter__()


def test_saved_tensors_stay_on_the_cpu() -> None:
    x, w = _leaf(1, 2), _leaf(3, 4)
    with graph.save_on_cpu():
        y = (x * w).sum()
    y.backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([3, 4], [1, 2])
