"""Saved tensors that are computed again in the backward pass: the same bits as kept ones, and errors for writes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.autograd import recorder, views
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.ops_table.dispatch import pop_hook, push_hook

pytestmark = pytest.mark.level("programs")
SIDE = 512  # 1 MiB of float32, the least that is computed again


@pytest.fixture(autouse=True)
def on_each_engine(handle: DeviceHandle) -> Iterator[None]:
    if handle.device_type != "cpu":
        pytest.skip("needs a CPU: on other devices nothing is computed again to save memory")
    with device(handle):
        yield


def _leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    rng = np.random.default_rng(0)
    return [Tensor.from_host(rng.standard_normal(s).astype(np.float32), requires_grad=True) for s in shapes]


def _square(count: int) -> list[Tensor]:
    return _leaves(*[(SIDE, SIDE)] * count)


class _Calls:
    """The names of the rows that are run inside."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, next: Any, row: Any, args: Any, kwargs: Any) -> Any:
        self.names.append(row.name)
        return next(row, args, kwargs)

    def __enter__(self) -> _Calls:
        push_hook(self)
        return self

    def __exit__(self, *error: object) -> None:
        pop_hook(self)

    @property
    def again(self) -> list[str]:
        return [name for name in self.names if name.endswith(" again")]


def _gelu(x: Tensor, w: Tensor) -> list[Tensor]:
    return [ag.gelu(x)]


def _norm(x: Tensor, w: Tensor) -> list[Tensor]:
    row, other = w[0], w[1]
    return [ag.layer_norm(x, SIDE, row.detach(), other.detach())]


def _gated(x: Tensor, w: Tensor) -> list[Tensor]:
    """Returns two programs in a row: the second has the result of the first as an input."""
    gate = ag.silu(x)
    return [gate, gate * w]


def _turned(x: Tensor, w: Tensor) -> list[Tensor]:
    """Returns a copy of a view of what the gradient of exp needs: heads are joined so after attention."""
    base = ag.exp(x * 0.25).reshape(8, 4, SIDE // 4, SIDE // 8)
    return [base.transpose(1, 2).reshape(SIDE, SIDE)]


@pytest.mark.parametrize("make", [_gelu, _norm, _gated, _turned])
@pytest.mark.parametrize("again", ["once", "gradient of the gradient", "twice"])
def test_bits_are_those_of_kept_tensors(make: Any, again: str) -> None:
    found = []
    for hold in (True, False):
        x, w = _square(2)
        made = make(x, w)
        gone = [weakref.ref(one) for one in made]
        y = made[-1] @ w
        if not hold:
            del made
            assert all(ref() is None for ref in gone), "nothing keeps what is computed again"
        if again == "gradient of the gradient":
            (by_x,) = ag.grad((y * y).sum(), x, create_graph=True)
            (by_x * by_x).sum().backward()
        else:
            with _Calls() as calls:
                (y * y).sum().backward(retain_graph=again == "twice")
            assert len(calls.again) == (0 if hold or make is _turned else len(gone))
            if again == "twice":
                (y * y).sum().backward()
        found.append([x.grad.numpy(), w.grad.numpy()])
    for kept, recomputed in zip(*found):
        np.testing.assert_array_equal(kept, recomputed)


def test_gradient_against_the_formula() -> None:
    x, w = _square(2)
    y = ag.silu(x) @ w
    y.sum().backward()
    values, weight = x.numpy().astype(np.float64), w.numpy().astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-values))
    by_w = np.repeat((values * sigmoid).sum(0)[:, None], SIDE, 1)
    by_x = weight.sum(1) * (sigmoid + values * sigmoid * (1 - sigmoid))
    np.testing.assert_allclose(w.grad.numpy(), by_w, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(x.grad.numpy(), by_x, rtol=1e-4, atol=1e-3)


def test_users_of_one_tensor_compute_it_once() -> None:
    x, *weights = _square(4)
    h = ag.gelu(x)
    total = sum((h @ w).sum() for w in weights)
    del h
    with _Calls() as calls:
        total.backward()
    assert calls.again == ["gelu again"]


def test_small_tensors_are_kept() -> None:
    x, w = _leaves((8, 8), (8, 8))
    h = ag.gelu(x)
    gone = weakref.ref(h)
    y = (h @ w).sum()
    del h
    assert gone() is not None
    with _Calls() as calls:
        y.backward()
    assert not calls.again


def test_a_result_that_its_own_gradient_needs_is_kept() -> None:
    x, w = _square(2)
    h = ag.exp(x)
    y = (h @ w).sum()
    del h
    with _Calls() as calls:
        y.backward()
    assert not calls.again


def test_a_result_of_a_large_input_that_no_gradient_needs_is_kept() -> None:
    x, w = _square(2)
    h = x + w
    y = (h @ w).sum()
    del h
    with _Calls() as calls:
        y.backward()
    assert not calls.again


@pytest.mark.parametrize("target", ["input", "result"])
def test_a_write_after_the_op_is_seen(target: str) -> None:
    x, w = _square(2)
    u = x + 1.0
    h = ag.gelu(u)
    y = (h @ w).sum()
    with ag.no_grad():
        (u if target == "input" else h).add_(1.0)
    with pytest.raises(RuntimeError, match="overwritten in place after the op"):
        y.backward()


def test_a_result_that_is_overwritten_and_gone_is_computed_as_it_was() -> None:
    found = []
    for overwrite in (False, True):
        x, w = _square(2)
        h = ag.gelu(x)
        y = (h @ w).sum()
        if overwrite:
            with ag.no_grad():
                h.zero_()
        del h
        y.backward()
        found.append(w.grad.numpy())
    np.testing.assert_array_equal(*found)


def test_an_op_in_place_on_a_recomputed_tensor() -> None:
    found = []
    for in_place in (False, True):
        x, w = _square(2)
        h = ag.gelu(x + 0.0)
        if in_place:
            h.mul_(w)  # saves the gelu's result, which it overwrites
        else:
            h = h * w
        (h @ w).sum().backward()
        found.append([x.grad.numpy(), w.grad.numpy()])
    for plain, written in zip(*found):
        np.testing.assert_array_equal(plain, written)


def test_an_op_in_place_on_the_input_of_a_recomputed_tensor() -> None:
    x, w = _square(2)
    u = x + 0.0
    h = ag.gelu(u)
    u.mul_(h)  # the gradient of the multiplication is right; that of gelu needs what was overwritten
    (by_w,) = ag.grad((u @ w).sum(), w, retain_graph=True)
    np.testing.assert_array_equal(by_w.numpy(), ag.grad(((x * ag.gelu(x)) @ w).sum(), w)[0].numpy())
    with pytest.raises(RuntimeError, match="overwritten in place after the op"):
        (u @ w).sum().backward()


def test_a_copy_of_a_view_of_what_no_gradient_needs_is_kept() -> None:
    x, w = _square(2)
    base = (x + 1.0).reshape(8, 64, 8, 64)
    copy = base.transpose(1, 2).reshape(SIDE, SIDE)
    gone = weakref.ref(copy)
    y = (copy @ w).sum()
    del base, copy
    assert gone() is not None
    y.backward()


def test_heads_that_are_joined_after_attention() -> None:
    found = []
    for hold in (True, False):
        q, k, v, w = _leaves(*[(2, 4, 64, 512)] * 3, (2048, 8))
        mixed = ag.scaled_dot_product_attention(q, k, v, is_causal=True)
        joined = mixed.transpose(1, 2).reshape(2, 64, 2048)
        y = (joined @ w).sum()
        gone = weakref.ref(joined)
        if not hold:
            del joined
        del mixed
        assert hold or q.backend != "cl" or gone() is None  # NumPy computes attention by products, which keep nothing
        y.backward()
        found.append([leaf.grad.numpy() for leaf in (q, k, v, w)])
    for kept, recomputed in zip(*found):
        np.testing.assert_array_equal(kept, recomputed)


def test_a_bias_may_change_between_the_passes() -> None:
    found = []
    for change in (False, True):
        x, w, row = _leaves((SIDE, SIDE), (SIDE, SIDE), (SIDE,))
        bias = Tensor.from_host(np.ones(SIDE, np.float32))
        y = (ag.layer_norm(x, SIDE, row, bias) @ w).sum()
        if change:
            bias.zero_()
        y.backward()
        found.append([x.grad.numpy(), w.grad.numpy(), row.grad.numpy()])
    for before, after in zip(*found):
        np.testing.assert_array_equal(before, after)


def _gradients(x: Tensor, *weights: Tensor) -> list[Tensor]:
    h = x
    for w in weights:
        w.grad = None
        h = ag.gelu(ag.layer_norm(h @ w, SIDE))
        h = ag.exp(h * 0.25).reshape(8, 64, 8, 64).transpose(1, 2).reshape(SIDE, SIDE)
    h.sum().backward()
    return [w.grad for w in weights]


@pytest.mark.level("capture")
def test_a_captured_step_computes_again_late(monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.runtime.capture import capture

    held, results = [], []
    for again in (False, True):
        if not again:
            monkeypatch.setattr(recorder, "recipe_of", lambda *arguments: None)
            monkeypatch.setattr(views, "recipe_of", lambda *arguments: None)
        x, *weights = _square(7)
        results.append([grad.numpy() for grad in _gradients(x, *weights)])
        x.grad = None
        captured = capture(_gradients, x, *weights)
        results.append([grad.numpy() for grad in captured.replay(x, *weights)])
        if x.backend == "cl":
            held.append(captured._recording.pool.get_stats()["peak_bytes"])
        monkeypatch.undo()
    for found in results[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(results[0], found))
    assert not held or held[1] <= held[0] - 5 * SIDE * SIDE * 4  # the copy of each layer but the last


def test_no_reference_cycle() -> None:
    import gc

    gc.collect()
    gc.disable()
    try:
        x, w = _square(2)
        h = ag.gelu(x)
        h.mul_(w)
        y = (h @ w).sum()
        del h
        y.backward()
        gone = weakref.ref(y.grad_fn)
        del y
        assert gone() is None
    finally:
        gc.enable()
