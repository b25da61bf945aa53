"""Deferred storage and the place in the gradient graph are slots of one class; a process loads gradients when asked."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.storage import gradients
from netcl.core.storage.storage import Storage
from netcl.core.tensor.deferred import is_deferred
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("tracing")

VALUES = np.array([[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]], np.float32)


def _classes(function: Any, *args: Any) -> set[type]:
    """Returns the classes of what ``function`` returns, at the return and later."""
    result = function(*args)
    kept = result if isinstance(result, tuple) else (result,)
    found = {type(one) for one in kept}
    for one in kept:
        one.numpy()
    return found | {type(one) for one in kept}


def test_results_are_tensors_however_they_are_computed(handle: Any) -> None:
    w = Tensor.from_host(VALUES, requires_grad=True)
    seen: list[type] = []

    def step(x: Tensor) -> tuple[Tensor, ...]:
        hidden = ag.relu(ag.matmul(x, w.T) + 1.0)
        made = (hidden, hidden.detach(), ops.exp(x), x.reshape(3, 2), hidden.sum())
        seen.extend(type(one) for one in made)
        return made

    x = Tensor.from_host(VALUES)
    captured = capture(step, x)
    for function in (step, ag.jit_compile(step), captured.replay):
        assert _classes(function, x) == {Tensor}
    with ag.Tape() as tape:
        assert _classes(step, x) == {Tensor}
    assert {type(node) for node in tape.nodes} == {Tensor}
    assert set(seen) == {Tensor}


@pytest.mark.level("tracing")
def test_a_deferred_tensor_keeps_its_class_and_its_handle(handle: Any) -> None:
    inside: list[Any] = []

    @ag.jit_compile
    def fn(x: Tensor) -> Tensor:
        y = ag.exp(x) * 2.0
        inside.append((y, type(y), y._storage, is_deferred(y)))
        return ag.relu(y)

    fn(Tensor.from_host(VALUES))
    y, kind, storage, deferred = inside[0]
    assert deferred
    assert type(y) is kind is Tensor
    assert y._storage is storage
    assert storage.deferred is None
    assert np.allclose(y.numpy(), np.exp(VALUES) * 2, rtol=1e-5)


@pytest.mark.level("tracing")
def test_aliases_of_a_deferred_tensor_materialize_with_it(handle: Any) -> None:
    w = Tensor.from_host(VALUES, requires_grad=True)
    found: list[Any] = []

    @ag.jit_compile
    def fn(x: Tensor) -> Tensor:
        y = ag.exp(x * w)
        alias = y.detach()
        assert alias.storage_id == y.storage_id
        assert is_deferred(y)
        first = alias.numpy()
        assert not is_deferred(y)
        found.extend((y, alias, first))
        return (y * alias).sum()

    x = Tensor.from_host(VALUES)
    loss = fn(x)
    y, alias, first = found
    assert np.array_equal(first, y.numpy())
    assert not alias.requires_grad
    assert alias.grad_fn is None
    loss.backward()
    assert np.allclose(w.grad.numpy(), np.exp(VALUES * VALUES) ** 2 * VALUES, rtol=1e-4)


def test_an_alias_outlives_the_deferred_tensor_that_it_was_made_of(handle: Any) -> None:
    @ag.jit_compile
    def fn(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return ag.exp(x).detach(), ag.matmul(x, w).detach(), ag.relu(x).reshape(1, 2, 3).detach(), ag.sum(x)

    x = Tensor.from_host(VALUES)
    power, product, wide, _ = fn(x, Tensor.from_host(VALUES.T.copy()))
    assert np.allclose(power.numpy(), np.exp(VALUES), rtol=1e-5)
    assert np.allclose(product.numpy(), VALUES @ VALUES.T, rtol=1e-5)
    assert np.array_equal(wide.numpy(), np.maximum(VALUES, 0)[None])


def test_a_detached_value_takes_no_gradient_in_a_jitted_function(handle: Any) -> None:
    def fn(x: Tensor) -> Tensor:
        y = ag.tanh(x)
        return (y * y.detach()).sum()

    grads = []
    for function in (fn, ag.jit_compile(fn)):
        x = Tensor.from_host(VALUES, requires_grad=True)
        function(x).backward()
        assert x.grad is not None
        grads.append(x.grad.numpy())
    assert np.allclose(grads[0], grads[1], rtol=1e-6)


def test_aliases_count_writes_together(handle: Any) -> None:
    t = Tensor.from_host(VALUES)
    flat = t.reshape(6)
    other = t.detach()
    assert flat.storage_id == other.storage_id == t.storage_id
    flat.write(np.zeros(6))
    assert t.version == flat.version == other.version == 1
    other[0, 1] = 5.0
    assert t.version == flat.version == other.version
    assert flat.tolist() == [0, 5, 0, 0, 0, 0]
    assert ag.Parameter(t).version == t.version
    assert t.clone().storage_id != t.storage_id


@pytest.mark.level("tracing")
def test_a_failed_computation_is_raised_again_by_every_alias(handle: Any) -> None:
    kept: list[Tensor] = []
    x = Tensor.from_host(VALUES)

    @ag.jit_compile
    def fn(x: Tensor) -> None:
        y = ag.exp(x)
        kept.extend((y, y.detach()))
        x._storage.version += 1  # as if it had been written behind the trace

    with pytest.raises(UnsupportedError, match="overwritten while"):
        fn(x)
    for _ in range(2):
        for tensor in kept:
            with pytest.raises(RuntimeError, match="could not be computed"):
                tensor.numpy()


@pytest.mark.level("tracing")
def test_deferred_storage_is_computed_once_whoever_asks(handle: Any) -> None:
    results: list[Any] = []
    runs: list[int] = []

    @ag.jit_compile
    def fn(x: Tensor) -> Tensor:
        y = ag.exp(x) * 3.0
        materialize = y._storage.deferred[0].materialize

        class Counted:
            def materialize(self) -> None:
                runs.append(1)
                materialize()

        assert isinstance(y._storage, Storage)
        y._storage.deferred = Counted(), y._storage.deferred[1]
        threads = [threading.Thread(target=lambda: results.append(y.numpy())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return y

    fn(Tensor.from_host(VALUES))
    assert runs == [1]
    assert len(results) == 4
    assert all(np.allclose(one, np.exp(VALUES) * 3, rtol=1e-5) for one in results)


def test_node_is_any_tensor_of_the_graph() -> None:
    t = Tensor.from_host(VALUES)
    assert not isinstance(t, ag.Node)
    assert isinstance(ag.Node(t), ag.Node)
    assert type(ag.Node(t, requires_grad=True)) is Tensor
    assert isinstance(t * 2, ag.Node)
    assert not isinstance(t.detach(), ag.Node)
    assert not isinstance(3, ag.Node)
    assert isinstance(ag.Parameter(t, requires_grad=False), ag.Node)
    assert issubclass(ag.Parameter, ag.Node)
    assert issubclass(ag.Parameter, Tensor)
    t.requires_grad = True
    assert isinstance(t, ag.Node)


def test_gradient_methods_are_on_every_tensor() -> None:
    a = Tensor.from_host(VALUES, requires_grad=True)
    y = (a * 2).sum()
    assert (a.op_name, a.parents, a.creation_trace) == ("", (), None)
    assert y.op_name == "sum"
    assert y.value.grad_fn is None
    seen: list[Tensor] = []
    handle = a.register_hook(seen.append)
    y.backward()
    handle.remove()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="does not require grad"):
        Tensor.zeros((1,)).backward()
    with pytest.raises(RuntimeError, match="in place into the result of mul"):
        (a * 2).write(VALUES)


def test_a_parameter_is_a_new_object_on_the_storage() -> None:
    t = Tensor.from_host(VALUES)
    p = ag.Parameter(t)
    assert p is not t
    assert type(t) is Tensor
    assert p.storage_id == t.storage_id
    assert t.persistent
    assert not t.requires_grad
    t.grad = Tensor.ones((2, 3))
    assert p.grad is t.grad
    p.grad = None
    assert t.grad is None


def _run(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize(
    "leaf", ["t = Tensor.ones((2,)); t.requires_grad = True", "t = Tensor.ones((2,), requires_grad=True)"]
)
def test_a_flag_loads_the_gradients(leaf: str) -> None:
    code = f"""
import os, sys
os.environ["NETCL_DEVICE"] = "cpu"
from netcl.core import Tensor
assert "netcl.autograd" not in sys.modules
{leaf}
assert "netcl.autograd" in sys.modules
(t * 3).sum().backward()
print(t.grad.tolist())
"""
    assert _run(code) == "[3.0, 3.0]\n"


def test_without_netcl_autograd_the_error_says_what_to_install() -> None:
    code = """
import importlib.metadata, os, sys
os.environ["NETCL_DEVICE"] = "cpu"
found = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **q: () if q.get("group") == "netcl.gradients" else found(**q)
sys.modules["netcl.autograd"] = None
from netcl.core import Tensor
t = Tensor.ones((1,), requires_grad=True)
assert t.requires_grad and (t * 2).tolist() == [2.0]
for call in (t.backward, lambda: t.register_hook(print)):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    line = "gradients need netcl-autograd, which is not installed: pip install netcl-autograd\n"
    assert _run(code) == line * 2


def test_the_entry_point_is_declared_and_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = gradients.find()
    assert registered is not None
    monkeypatch.setattr(gradients, "_registered", None)
    monkeypatch.setattr(gradients, "_looked_up", False)
    asked: list[str] = []

    class Entry:
        def load(self) -> None:
            gradients.register(registered)

    def entries(group: str) -> list[Entry]:
        asked.append(group)
        return [Entry()]

    monkeypatch.setattr(importlib.metadata, "entry_points", entries)
    assert gradients.load() is registered
    assert gradients.load() is registered
    assert asked == ["netcl.gradients"]
