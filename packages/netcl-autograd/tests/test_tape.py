"""Tape: explicit scopes, what they keep, nesting, threads."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.errors import ForwardOnlyWarning


def test_backward_after_the_block_and_twice(handle: Any, leaf: Any) -> None:
    w, x = leaf(4, 3), leaf(2, 4)
    x.requires_grad = False
    with ag.Tape() as tape:
        loss = ag.sum(ag.square(ag.matmul(x, w)))
    tape.backward(loss)
    wanted = 2 * x.numpy().T @ (x.numpy() @ w.numpy())
    np.testing.assert_allclose(w.grad.numpy(), wanted, rtol=1e-5, atol=1e-5)
    tape.backward(loss)
    np.testing.assert_allclose(w.grad.numpy(), 2 * wanted, rtol=1e-5, atol=1e-5)
    assert x.grad is None


def test_nodes_are_in_order(leaf: Any) -> None:
    with ag.Tape() as tape:
        y = (leaf(3) * 2).relu()
        z = y.sum()
    assert [node.op_name for node in tape.nodes] == ["mul", "relu", "sum"]
    assert tape.nodes[-1] is z
    tape.reset()
    assert tape.nodes == []


def test_backward_begins_with_ones_or_with_grad(leaf: Any) -> None:
    w = leaf(3)
    with ag.Tape() as tape:
        y = w * 2
    tape.backward(y)
    assert w.grad.tolist() == [2, 2, 2]
    tape.backward(y, Tensor.from_host(np.array([1, 2, 3], np.float32)))
    assert w.grad.tolist() == [4, 6, 8]


def test_inner_tape_records_alone(leaf: Any) -> None:
    w = leaf(3)
    with ag.Tape() as outer:
        a = w * 2
        with ag.Tape() as inner:
            assert ag.get_current_tape() is inner
            b = a * 3
        c = b.sum()
    assert ag.get_current_tape() is None
    assert [n.op_name for n in outer.nodes] == ["mul", "sum"]
    assert inner.nodes == [b] or [n is b for n in inner.nodes] == [True]
    outer.backward(c)
    assert w.grad.tolist() == [6, 6, 6]


def test_retain_grads_of_every_node(leaf: Any) -> None:
    w = leaf(3)
    with ag.Tape(retain_grads=True) as tape:
        y = w * 2
        z = (y * y).sum()
    tape.backward(z)
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.numpy())
    y.grad.write(np.zeros(3))
    assert np.any(w.grad.numpy())


def test_a_tape_that_is_gone_frees_what_its_backward_used(leaf: Any) -> None:
    w = leaf(3)
    with ag.Tape() as tape:
        y = (w * w).sum()
    tape.backward(y)
    del tape
    with pytest.raises(RuntimeError, match="freed"):
        y.backward()


def test_a_tape_without_backward_leaves_the_graph_alone(leaf: Any) -> None:
    w = leaf(3)
    with ag.Tape():
        y = (w * w).sum()
    y.backward()
    assert w.grad is not None


def test_set_current_tape_and_tape_argument(leaf: Any) -> None:
    w, tape, other = leaf(3), ag.Tape(), ag.Tape()
    before = ag.set_current_tape(tape)
    try:
        y = w * 2
        z = ag.exp(y, tape=other)
    finally:
        ag.set_current_tape(before)
    assert [n.op_name for n in tape.nodes] == ["mul"]
    assert [n.op_name for n in other.nodes] == ["exp"]
    assert tape.record(z) is z
    assert tape.nodes[-1] is z


def test_tapes_of_threads_are_their_own(leaf: Any) -> None:
    weights = [leaf(5) for _ in range(8)]
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(20):
            weights[number].grad = None
            with ag.Tape() as tape:
                loss = ag.sum(weights[number] * weights[number] * float(number))
            tape.backward(loss)
            assert len(tape.nodes) == 3
        found[number] = weights[number].grad.numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        np.testing.assert_allclose(found[number], 2 * number * weights[number].numpy(), rtol=1e-6)


def test_a_forward_only_call_warns_and_is_not_on_the_tape(leaf: Any) -> None:
    w = leaf(3)
    with ag.Tape() as tape:
        with pytest.warns(ForwardOnlyWarning, match=r"call netcl\.tanh"):
            y = ops.tanh(w)
        ag.flatten(ag.relu(w))
    assert not y.requires_grad
    assert [n.op_name for n in tape.nodes] == ["relu", "reshape"]


@pytest.mark.parametrize("retain_grads", [False, True])
def test_graph_dies_with_its_tape_without_the_collector(retain_grads: bool, leaf: Any) -> None:

    w = leaf(3)
    gc.disable()
    try:
        with ag.Tape(retain_grads) as tape:
            y = (w * 2).softmax().sum()
        tape.backward(y)
        watched = [weakref.ref(node) for node in tape.nodes] + [weakref.ref(node.grad_fn) for node in tape.nodes]
        del tape, y
        assert [ref() for ref in watched] == [None] * len(watched)
    finally:
        gc.enable()
