"""The backward walk: accumulation, hooks, freed graphs, overwritten tensors, depth, errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.autograd.backward import queue_callback
from netcl.core import Tensor
from netcl.core.errors import NonFiniteError, ShapeError, UnsupportedError
from netcl.core.ops_table import dispatch


def test_gradients_accumulate_on_leaves(handle: Any, leaf: Any) -> None:
    w = leaf(3)
    for times in (1, 2, 3):
        (w * 5).sum().backward()
        assert w.grad.tolist() == [5.0 * times] * 3


def test_a_pass_adds_into_the_gradient_that_is_there(leaf: Any) -> None:
    w = leaf(3)
    w.sum().backward()
    first = w.grad
    w.sum().backward()
    assert w.grad is first
    assert first.tolist() == [2] * 3


def test_a_pass_that_is_recorded_gives_a_new_gradient(leaf: Any) -> None:
    w = leaf(3)
    w.sum().backward()
    first = w.grad
    (w * w).sum().backward(create_graph=True)
    assert first.tolist() == [1] * 3
    assert w.grad.requires_grad


def test_gradients_may_be_views_of_one_buffer(leaf: Any) -> None:
    a, b, flat = leaf(3), leaf(2), Tensor.zeros(5)
    a.grad, b.grad = flat[:3], flat[3:]
    (a.sum() * 2 + b.sum() * 3).backward()
    assert flat.tolist() == [2, 2, 2, 3, 3]
    flat.zero_()
    assert a.grad.tolist() == [0] * 3


@pytest.mark.parametrize("shifted", [False, True])
def test_a_gradient_that_a_hook_has_kept_stays_as_it_was(leaf: Any, shifted: bool) -> None:
    w, kept = leaf(3), []
    for _ in range(2):
        y = w + 0 if shifted else w
        hook = y.register_hook(kept.append)
        (y * 3).sum().backward()
        hook.remove()
    assert [grad.tolist() for grad in kept] == [[3] * 3] * 2
    assert w.grad.tolist() == [6] * 3


def test_a_plain_tensor_becomes_a_leaf_by_its_flag() -> None:
    t = Tensor.from_host(np.array([1.0, 2.0], np.float32))
    t.requires_grad = True
    (t * t).sum().backward()
    assert t.grad is not None
    assert t.grad.tolist() == [2, 4]


def test_first_contribution_is_no_copy_and_leaves_share_nothing(leaf: Any) -> None:
    a, b = leaf(3), leaf(3)
    given = Tensor.from_host(np.ones(3, np.float32))
    (a + b).backward(given)
    assert len({given.storage_id, a.grad.storage_id, b.grad.storage_id}) == 3
    a.grad.write(np.zeros(3))
    assert b.grad.tolist() == given.tolist() == [1, 1, 1]
    seen = []
    c = leaf(3)
    y = c * 2
    y.register_hook(lambda grad: seen.append(grad.storage_id))
    (y.reshape(3, 1)).sum().backward()
    c.grad = None
    d = leaf(3)
    z = d.reshape(3, 1)
    z.register_hook(lambda grad: seen.append(grad.storage_id))
    (z * 3).sum().backward()
    assert seen[-1] == d.grad.storage_id


def test_no_launch_beside_the_needed_ones(leaf: Any) -> None:
    """A sum of products: one program per op, none to copy or to accumulate."""
    w = leaf(4)
    loss = (w * 3 + 1).sum()
    calls: list[str] = []

    def count(next: Any, row: Any, args: Any, kwargs: Any) -> Any:
        calls.append(row.name)
        return next(row, args, kwargs)

    dispatch.push_hook(count)
    try:
        loss.backward()
    finally:
        dispatch.pop_hook(count)
    assert len(calls) <= 3  # reshape and spread of the sum, the product; adding one passes the gradient on


def test_second_backward_needs_the_graph(leaf: Any) -> None:
    w = leaf(3)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    first = w.grad.numpy()
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2 * first)
    with pytest.raises(RuntimeError, match=r"mul: backward a second time .*retain_graph=True"):
        loss.backward()


def test_overwritten_tensor_is_named(handle: Any, leaf: Any) -> None:
    w = leaf(2, 3)
    y = w.tanh()
    loss = (y * w).sum()
    w.write(np.zeros((2, 3)))
    with pytest.raises(RuntimeError, match=r"mul: a tensor of shape \(2, 3\) .* overwritten"):
        loss.backward()
    x = leaf(2, 3)
    y = x.exp()
    y.detach()[0] = 1.0
    with pytest.raises(RuntimeError, match="exp: .* overwritten"):
        y.sum().backward()


def test_an_update_in_place_counts_as_a_write(leaf: Any) -> None:
    from netcl.core.expr import Load

    w = leaf(3)
    loss = (w * w).sum()
    dispatch.evaluate((Load(0, "float32") * 0.5,), (w,), out=(w,))
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_writing_host_values_into_a_recorded_value_is_refused(leaf: Any) -> None:
    w = leaf(3)
    y = w * 2
    with pytest.raises(RuntimeError, match="result of mul"):
        y.write(np.zeros(3))
    with pytest.raises(RuntimeError, match="leaf tensor that requires grad"):
        w[0] = 1.0
    y[0] = 1.0
    y.sum().backward()
    assert y.numpy()[0] == 1
    assert w.grad.tolist() == [0, 2, 2]
    with ag.no_grad():
        y[1] = 1.0
    assert y.numpy()[1] == 1


def test_errors_say_what_to_do(leaf: Any) -> None:
    w = leaf(2, 3)
    with pytest.raises(RuntimeError, match=r"shape \(2, 3\).*pass grad="):
        (w * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        ag.tensor(w.detach()).sum().backward()
    with pytest.raises(ShapeError, match=r"grad has shape \(3,\), the value \(2, 3\)"):
        (w * 2).backward(np.ones(3))
    with pytest.raises(RuntimeError, match="out="):
        ag.relu(w, out=Tensor.zeros((2, 3)))
    for call in (ag.matmul, ag.sub, ag.outer):  # with a kernel of its own, an expression, a composite
        a = Tensor.zeros((2, 2) if call is ag.matmul else 2)
        with pytest.raises(RuntimeError, match="out= does not support automatic differentiation"):
            call(
                a, a.detach().requires_grad_(), out=Tensor.zeros((3, 2))[:2] if call is ag.sub else Tensor.zeros((2, 2))
            )
    positions = Tensor.zeros((3,), "int64")
    assert ag.argmax(w, axis=0, out=positions) is positions
    with pytest.raises(RuntimeError, match="inputs \\[1\\] have no influence"):
        ag.grad((w * 2).sum(), [w, leaf(2)])
    assert ag.grad((w * 2).sum(), [w, leaf(2)], allow_unused=True)[1] is None


def test_row_without_gradient_is_named() -> None:
    from netcl.ops.table import computed

    @computed(name="test_only_opaque")
    def opaque(x: Tensor) -> Tensor:
        return x.engine.zeros(x.shape, x.dtype)  # type: ignore[no-any-return]

    try:
        x = Tensor.ones(3, requires_grad=True)
        y = ag.test_only_opaque(x)
        with pytest.raises(UnsupportedError, match="test_only_opaque has no gradient"):
            y.sum().backward()
    finally:
        del dispatch.TABLE["test_only_opaque"]


def test_grad_of_leaves_and_intermediate_values(leaf: Any) -> None:
    w = leaf(3)
    y = w * 2
    z = (y * y).sum()
    by_y, by_w = ag.grad(z, [y, w])
    np.testing.assert_allclose(by_y.numpy(), 2 * y.numpy())
    np.testing.assert_allclose(by_w.numpy(), 8 * w.numpy(), rtol=1e-6)
    assert w.grad is None


def test_grad_walks_only_where_it_leads(leaf: Any) -> None:
    a, b = leaf(3, 3), leaf(3, 3)

    def fail(grad: Any) -> Any:
        raise AssertionError("this branch leads to no input")

    unused = b * 2
    unused.register_hook(fail)
    (found,) = ag.grad((a @ a + unused).sum(), a)
    assert found.shape == (3, 3)


def test_third_derivative(handle: Any) -> None:
    x = Tensor.from_host(np.array([0.5, -1.5], np.float32), requires_grad=True)
    y = (x**4).sum()
    for factor, power in ((4, 3), (12, 2), (24, 1)):
        (y,) = ag.grad(y.sum(), x, create_graph=True)
        np.testing.assert_allclose(y.numpy(), factor * x.numpy() ** power, rtol=1e-5)


def test_create_graph_accumulates_differentiable_gradients(leaf: Any) -> None:
    w = leaf(3)
    (w**3).sum().backward(create_graph=True)
    penalty = (w.grad * w.grad).sum()
    first = w.grad
    w.grad = None
    penalty.backward()
    np.testing.assert_allclose(w.grad.numpy(), 36 * w.numpy() ** 3, rtol=1e-4)
    del first


def test_hooks_see_and_replace_gradients(leaf: Any) -> None:
    w, seen = leaf(3), []
    handle = w.register_hook(lambda grad: seen.append(grad.tolist()))
    y = w * 2
    y.register_hook(lambda grad: grad * 10)
    (y + y).sum().backward()
    assert seen == [[40, 40, 40]]  # once, with the whole gradient
    handle.remove()
    handle.remove()
    y.register_hook(lambda grad: Tensor.zeros(7))
    with pytest.raises(ShapeError, match="hook"):
        (y + y).sum().backward()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="does not require grad"):
        ag.tensor(Tensor.zeros(2)).register_hook(print)


def _vector(*values: float) -> Tensor:
    vector = Tensor.from_host(np.array(values, np.float32))
    vector.requires_grad = True
    return vector


def test_retain_grad_keeps_the_gradient_of_a_result(handle: Any) -> None:
    w = _vector(1, 2)
    y = w * 3
    assert not y.retains_grad
    y.retain_grad()
    assert y.retains_grad
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    assert y.grad.tolist() == [6, 12]
    loss.backward()
    assert y.grad.tolist() == [12, 24]
    y = w * 3
    y.retain_grad()
    y.mul_(2.0)
    (y * y).sum().backward()
    assert y.grad.tolist() == [12, 24]
    w.retain_grad()
    assert not w.retains_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        w.detach().retain_grad()


def test_a_retained_gradient_makes_no_cycle(leaf: Any) -> None:
    gc.disable()
    try:
        y = leaf(1) * 2
        y.retain_grad()
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_hooks_after_accumulation() -> None:
    w = _vector(1, 2)
    seen: list[Any] = []
    hook = w.register_post_accumulate_grad_hook(lambda one: seen.append(one.grad.tolist()))
    (w * 2).sum().backward()
    ag.grad((w * 2).sum(), w)
    (w * 2).sum().backward()
    hook.remove()
    (w * 2).sum().backward()
    assert seen == [[2, 2], [4, 4]]
    with pytest.raises(RuntimeError, match="takes a leaf"):
        (w * 2).register_post_accumulate_grad_hook(seen.append)


def test_hooks_after_accumulation_are_called_in_checkpoints() -> None:
    w, v = _vector(1, 2), _vector(3, 4)
    seen: list[Any] = []
    for one in (w, v):
        one.register_post_accumulate_grad_hook(lambda leaf: seen.append((leaf is w, leaf.grad.tolist())))
    ag.checkpoint(lambda x: x * v, w).sum().backward()
    assert seen == [(False, [1, 2]), (True, [3, 4])]
    ag.grad(ag.checkpoint(lambda x: x * v, w).sum(), w)
    assert len(seen) == 2


def test_a_queued_callback_is_called_once_at_the_end_of_the_outermost_pass() -> None:
    w, v = _vector(1, 2), _vector(3, 4)
    seen: list[Any] = []

    def after(one: Any) -> None:
        if not seen or seen[-1] != "queued":
            seen.append("queued")
            queue_callback(lambda: seen.append((None if v.grad is None else v.grad.tolist(), ag.is_grad_enabled())))

    hook = w.register_post_accumulate_grad_hook(after)
    (ag.checkpoint(lambda x: x * 2, w) + ag.checkpoint(lambda x: x * v, w)).sum().backward()
    assert seen == ["queued", ([1, 2], True)]
    (w * 2).sum().backward()
    assert seen[2:] == ["queued", ([1, 2], True)]

    def broken(grad: Any) -> None:
        raise ValueError("too bad")

    other = v.register_hook(broken)
    with pytest.raises(ValueError, match="too bad"):
        ((w * 2).sum() + (v * v * v).sum()).backward()
    other.remove()
    left = len(seen)
    (v * 2).sum().backward()
    assert len(seen) == left
    hook.remove()
    with pytest.raises(RuntimeError, match="no backward pass is running"):
        queue_callback(lambda: None)


def test_a_leaf_that_is_frozen_after_the_op_gets_no_gradient() -> None:
    w, v = _vector(1), _vector(2)
    loss = (w * v).sum()
    w.requires_grad = False
    loss.backward()
    assert w.grad is None
    assert v.grad.tolist() == [1]


def test_hooks_of_a_dead_leaf_are_forgotten(leaf: Any) -> None:
    from netcl.autograd.hooks import leaf_hooks

    before = len(leaf_hooks)
    w = leaf(3)
    w.register_hook(print)
    assert len(leaf_hooks) == before + 1
    del w
    assert len(leaf_hooks) == before


def test_a_graph_of_100000_ops(numpy_device: Any) -> None:
    x = Tensor.from_host(np.array([1.0, 2.0]), "float64", requires_grad=True)
    y = x.reshape(2)
    for _ in range(100_000):
        y = ag.reshape(y, (2,))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1]
    del y


def test_graphs_are_freed_by_reference_counts(leaf: Any) -> None:
    w = leaf(4, 4)
    gc.disable()
    try:
        y = (w @ w).softmax()
        z = ag.max_pool2d(y.reshape(1, 1, 4, 4), 2).sum()
        watched = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(z.grad_fn)]
        z.backward()
        del y, z
        assert [ref() for ref in watched] == [None, None, None]
    finally:
        gc.enable()


def test_what_is_saved_is_freed_by_backward(leaf: Any) -> None:
    w = leaf(4)
    y = w * 2
    inner = weakref.ref(y)
    loss = (y * y).sum()
    del y
    assert inner() is not None
    loss.backward()
    assert inner() is None


def test_values_that_no_gradient_needs_are_not_kept(leaf: Any) -> None:
    y = leaf(4) + 1
    inner = weakref.ref(y)
    z = y.relu() + 1
    del y
    assert inner() is None
    z.sum().backward()


def test_anomaly_names_the_op_and_its_caller(leaf: Any) -> None:
    x = Tensor.from_host(np.array([0.0, 1.0], np.float32), requires_grad=True)
    with ag.detect_anomaly():
        y = (x.sqrt() * 2).sum()
        with pytest.raises(NonFiniteError, match=r"(?s)sqrt: .*input 0.*test_backward.py.*x\.sqrt\(\)") as caught:
            y.backward()
    assert caught.value.op == "sqrt"
    ag.set_detect_anomaly(True)
    assert ag.tensor(x).exp().creation_trace is not None
    ag.set_detect_anomaly(False)
    assert ag.tensor(x).exp().creation_trace is None
    with ag.set_detect_anomaly(True):
        assert ag.tensor(x).exp().creation_trace is not None
    assert ag.tensor(x).exp().creation_trace is None


def test_gradient_crosses_devices(handle: Any, leaf: Any) -> None:
    x = leaf(3)
    y = (x * 2).to("cpu")
    (y * Tensor.from_host(np.array([1, 2, 3], np.float32), backend="cpu")).sum().backward()
    assert x.grad.queue is x.queue
    assert x.grad.tolist() == [2, 4, 6]


def test_half_precision_gradients_have_the_leafs_dtype(handle: Any, leaf: Any) -> None:
    w = leaf(3, 2, dtype="float16")
    x = leaf(4, 3)
    ag.matmul(x, w).sum().backward()
    assert (w.grad.dtype, x.grad.dtype) == ("float16", "float32")
