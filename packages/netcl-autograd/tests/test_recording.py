"""Recording of gradients: grad modes, Nodes, Parameters, dtypes."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.ops as ops
from netcl.core import Tensor


def test_ag_ops_give_nodes_with_and_without_grad(handle: Any) -> None:
    t = Tensor.ones((2, 3))
    for result in (ag.relu(t), t + 1, t.reshape(6), ag.add(1.0, t), ag.max_pool1d(t.reshape(1, 2, 3), 2)):
        assert isinstance(result, ag.Node)
        assert not result.requires_grad
        assert result.grad_fn is None
    assert not isinstance(ops.relu(t), ag.Node)
    parts = ag.split(ag.Parameter(t), 1)
    assert [type(part) for part in parts] == [Tensor, Tensor]
    assert all(isinstance(part, ag.Node) for part in parts)
    assert all(part.requires_grad for part in parts)


def test_a_grad_fn_is_written_as_pytorch_writes_it(leaf: Any) -> None:
    w = leaf(2, 3)
    assert repr((w * 2).grad_fn) == "<MulBackward>"
    assert repr(ag.log_softmax(w).grad_fn) == "<LogSoftmaxBackward>"
    assert [repr(part.grad_fn) for part in ag.topk(w, 2)[:1]] == ["<TopkBackward>"]
    named = ag.apply_op(lambda x: x.detach() * 2, lambda grad: grad * 2, w, op_name="twice by hand")
    assert repr(named.grad_fn) == "<TwiceByHandBackward>"


def test_whole_numbers_take_no_gradient(leaf: Any) -> None:
    w = leaf(3)
    assert not (w > 0).requires_grad
    assert not w.argmax().requires_grad
    assert not w.astype("int32").requires_grad
    assert ag.floor(w).requires_grad
    ag.floor(w).sum().backward()
    assert w.grad is None


def test_no_grad_as_context_and_decorator(leaf: Any) -> None:
    w = leaf(3)
    with ag.no_grad():
        assert not ag.is_grad_enabled()
        assert not (w * 2).requires_grad
        with ag.enable_grad():
            assert (w * 2).requires_grad
        assert not (w * 2).requires_grad
    with ag.no_grad(False):
        assert (w * 2).requires_grad
    with ag.no_grad(), ag.no_grad(False):
        assert not (w * 2).requires_grad

    @ag.no_grad()
    def plain(x: Tensor) -> Tensor:
        """Doubles."""
        return x * 2

    assert not plain(w).requires_grad
    assert plain.__doc__ == "Doubles."
    assert ag.is_grad_enabled()


def test_set_grad_enabled_at_once_and_in_a_block(leaf: Any) -> None:
    w = leaf(3)
    ag.set_grad_enabled(False)
    try:
        assert not (w * 2).requires_grad
        with ag.set_grad_enabled(True):
            assert (w * 2).requires_grad
        assert not ag.is_grad_enabled()
    finally:
        ag.set_grad_enabled(True)

    @ag.set_grad_enabled(False)
    def plain() -> bool:
        return ag.is_grad_enabled()

    assert ag.is_grad_enabled()
    assert not plain()


def test_modes_survive_errors_and_are_per_thread() -> None:
    with pytest.raises(KeyError), ag.no_grad():
        raise KeyError
    assert ag.is_grad_enabled()
    seen = []
    with ag.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ag.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_parameter_shares_storage_and_grad() -> None:
    t = Tensor.from_host(np.array([1.0, 2.0], np.float32))
    p = ag.Parameter(t)
    assert isinstance(p, ag.Parameter)
    assert isinstance(p, ag.Node)
    assert (p.requires_grad, p.persistent, p.grad_fn) == (True, True, None)
    (p * 3).sum().backward()
    assert t.grad is p.grad
    t.write([5.0, 6.0])
    assert p.tolist() == [5, 6]
    assert ag.Parameter(np.zeros(2)).shape == (2,)
    assert not ag.Parameter(Tensor.zeros(2), requires_grad=False).requires_grad


def test_parameter_of_a_result_is_a_new_leaf(leaf: Any) -> None:
    y = leaf(3) * 2
    p = ag.Parameter(y)
    assert p.grad_fn is None
    assert y.grad_fn is not None
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3, 3, 3]


def test_tensor_gives_nodes() -> None:
    t = Tensor.from_host(np.array([1.0], np.float32))
    node = ag.tensor(t, requires_grad=True)
    (node * 2).backward()
    assert t.grad is not None
    assert t.grad.tolist() == [2]
    assert ag.tensor([1.0, 2.0]).shape == (2,)


def test_node_by_hand() -> None:
    a = Tensor.from_host(np.array([2.0, 3.0], np.float32), requires_grad=True)
    node = ag.Node(
        a.detach() * a.detach(), grad_fn=lambda grad: grad * a.detach() * 2, parents=(a,), op_name="square by hand"
    )
    assert node.op_name == "square by hand"
    assert node.parents == (a,) or node.parents[0] is a
    assert node.value.tolist() == [4, 9]
    assert type(node.value) is Tensor
    (node * 1).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [4, 6]
    with pytest.raises(TypeError, match="Node: expected a Tensor"):
        ag.Node([1.0])  # type: ignore[arg-type]


def test_repr_shows_the_place_in_the_graph(leaf: Any) -> None:
    w = leaf(2)
    assert repr(w).startswith("Parameter(")
    assert repr(w).endswith(", requires_grad=True)")
    for result, made in ((w * 2, "Mul"), (w.sum(), "Sum"), (ag.jit_compile(ag.relu)(w), "Relu")):
        assert repr(result).startswith("Tensor(")
        assert repr(result).endswith(f", grad_fn=<{made}Backward>)")
    user = ag.Node(w.detach(), grad_fn=lambda grad: grad, parents=(w,), op_name="by_hand")
    assert repr(user).endswith(", grad_fn=<ByHandBackward>)")
    for plain in (w.detach(), w.detach() * 2, ag.tensor([1.0])):
        assert "grad" not in repr(plain)


def test_late_ops_are_found() -> None:
    from netcl.core.ops_table.dispatch import TABLE
    from netcl.ops.table import elementwise

    elementwise("test_only_twice", "v0 * 2.0f", "2 x.")
    try:
        x = Tensor.ones(2, requires_grad=True)
        ag.test_only_twice(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2, 2]
    finally:
        del TABLE["test_only_twice"]
    with pytest.raises(AttributeError, match="no attribute 'nothing_such'"):
        ag.nothing_such  # noqa: B018


def test_every_op_of_the_core_is_here() -> None:
    missing = [n for n in ops.__all__ if hasattr(getattr(ops, n), "row") and not hasattr(ag, n)]
    assert missing == []


def test_synonyms_and_numbers(leaf: Any) -> None:
    w = leaf(3, 4)
    ag.sum(w, dim=1, keepdim=True).sum().backward()
    assert w.grad.tolist() == np.ones((3, 4)).tolist()
    w.grad = None
    (1.0 - w + np.ones(4, np.float32)).sum().backward()
    assert w.grad.tolist() == (-np.ones((3, 4))).tolist()


def test_a_deep_copy_of_a_parameter_has_its_values_alone(handle: Any) -> None:
    p = ag.Parameter(Tensor.from_host(np.ones(3, np.float32)), requires_grad=False)
    p.tag, p.grad = 1, Tensor.from_host(np.ones(3, np.float32))
    q = copy.deepcopy({"p": p, "same": p})
    assert q["p"] is q["same"]
    assert type(q["p"]) is ag.Parameter
    assert not q["p"].requires_grad
    assert q["p"].grad is None
    assert not hasattr(q["p"], "tag")
    assert copy.copy(p).tag == 1
    q["p"].fill_(2.0)
    np.testing.assert_array_equal(p.numpy(), 1.0)
