"""Optimizer: groups, gradients that are None, device scalars, state and errors."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import optim
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.optim import fused

ALL = [
    *("SGD", "Momentum", "Adam", "AdamW", "RMSProp", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "Lion"),
    *("LAMB", "Adafactor"),
]


def run(optimizer, params, grads, at) -> None:
    for step in at:
        for p, grad in zip(params, grads[step]):
            p.grad = None if grad is None else Tensor.from_host(grad)
        optimizer.step()


def some_grads(rng, steps: int, shapes) -> list:
    return [[rng.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(steps)]


def test_a_gradient_of_none_is_skipped_and_counts_no_step(rng, parameter) -> None:
    shapes = [(3,), (2, 2)]
    grads = some_grads(rng, 6, shapes)
    for step in (0, 1, 3):
        grads[step][1] = None
    together = [parameter(np.ones(s)) for s in shapes]
    run(optim.AdamW(together, lr=0.1), together, grads, range(6))
    for at, shape in enumerate(shapes):
        alone = parameter(np.ones(shape))
        own = [[g[at]] for g in grads if g[at] is not None]
        run(optim.AdamW([alone], lr=0.1), [alone], own, range(len(own)))
        np.testing.assert_array_equal(together[at].to_host(), alone.to_host())


def test_groups_have_their_own_options(rng, parameter) -> None:
    a, b = parameter([1.0, 2.0], [1.0, 1.0]), parameter([3.0], [1.0])
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    optimizer.step()
    np.testing.assert_allclose(a.to_host(), [0.9, 1.9], rtol=1e-6)
    assert b.item() == 2.5
    c = parameter([1.0], [1.0])
    optimizer.add_param_group({"params": c, "lr": 1.0})
    optimizer.step()
    assert c.item() == 0.0
    optimizer.lr = 0.25
    assert [group["lr"] for group in optimizer.param_groups] == [0.25] * 3
    assert optimizer.lr == 0.25


def test_a_new_learning_rate_builds_no_kernel(parameter) -> None:
    p = parameter([1.0, 2.0], [1.0, 1.0])
    optimizer = optim.AdamW([p], lr=0.1)
    optimizer.step()
    built = fused.update_kernel.cache_info().misses, fused.advance_kernel.cache_info().misses
    for lr in (0.2, 0.05, 1e-5):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.param_groups[0].update(betas=(0.8, 0.99), weight_decay=lr)
        optimizer.step()
    assert (fused.update_kernel.cache_info().misses, fused.advance_kernel.cache_info().misses) == built


def test_a_new_value_is_on_the_device_before_the_next_step(parameter) -> None:
    # A replayed step runs no Python of step(), so the assignment itself has to write.
    p = parameter([1.0], [1.0])
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.75
    (numbers,) = optimizer._numbers[0].values()
    assert numbers.tensors["lr"].item() == 0.75


def test_found_inf_leaves_everything_as_it_was(parameter, rng) -> None:
    p = parameter(rng.standard_normal(4), rng.standard_normal(4))
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    before = p.to_host(), optimizer.state[p]["exp_avg"].to_host()
    found = Tensor.from_host(np.float32(1))
    optimizer.found_inf = found
    p.grad = Tensor.from_host(np.full(4, np.nan, np.float32))
    optimizer.step()
    np.testing.assert_array_equal(p.to_host(), before[0])
    np.testing.assert_array_equal(optimizer.state[p]["exp_avg"].to_host(), before[1])
    assert optimizer.state_dict()["state"][0]["step"] == 1
    found.write(np.float32(0))
    p.grad = Tensor.from_host(np.ones(4, np.float32))
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 2
    assert np.isfinite(p.to_host()).all()


@pytest.mark.parametrize("name", ALL)
def test_the_loss_scaler_skips_and_counts(name: str, parameter, rng) -> None:
    start, data = rng.standard_normal((2, 5)).astype(np.float32)
    plain, scaled = parameter(start), parameter(start)
    one, two = getattr(optim, name)([plain], lr=0.1), getattr(optim, name)([scaled], lr=0.1)
    scaler = optim.AMPGradScaler(init_scale=1024.0)
    x = Tensor.from_host(data)
    for at in range(6):
        factor = float("inf") if at == 3 else 1.0
        two.zero_grad()
        loss = ag.sum(ag.square(ag.mul(scaled, ag.mul(x, factor))))
        scaler.scale_loss(loss).backward()
        scaler.step(two)
        if at != 3:
            one.zero_grad()
            ag.sum(ag.square(ag.mul(plain, x))).backward()
            one.step()
        np.testing.assert_allclose(scaled.to_host(), plain.to_host(), rtol=1e-5, atol=1e-7)
    assert scaler.get_scale() == 512.0
    assert two.found_inf is None


@pytest.mark.parametrize("name", ALL)
def test_resuming_equals_going_on_bit_for_bit(name: str, rng, parameter) -> None:
    shapes = [(3, 2), (4,), ()]
    grads, starts = some_grads(rng, 8, shapes), some_grads(rng, 1, shapes)[0]
    grads[1][1] = grads[6][2] = None
    params = [parameter(start) for start in starts]
    optimizer = getattr(optim, name)(params, lr=0.01)
    run(optimizer, params, grads, range(4))
    middle, state = [p.to_host() for p in params], optimizer.state_dict()
    state["state"] = {
        k: {n: v.to_host() if isinstance(v, Tensor) else v for n, v in entry.items()}
        for k, entry in state["state"].items()
    }
    run(optimizer, params, grads, range(4, 8))

    again = [parameter(values) for values in middle]
    resumed = getattr(optim, name)(again, lr=0.5)
    run(resumed, again, grads, range(2))  # what it holds already is overwritten
    for p, values in zip(again, middle):
        p.write(values)
    resumed.load_state_dict(state)
    assert resumed.lr == 0.01
    run(resumed, again, grads, range(4, 8))
    for one, other in zip(params, again):
        np.testing.assert_array_equal(one.to_host(), other.to_host())


def test_state_has_pytorchs_layout(parameter) -> None:
    params = [parameter([1.0], [1.0]), parameter([2.0]), parameter([[3.0]], [[1.0]])]
    optimizer = optim.Adam(params)
    optimizer.step()
    state = optimizer.state_dict()
    assert state["param_groups"][0]["params"] == [0, 1, 2]
    assert sorted(state["state"]) == [0, 2]
    assert sorted(state["state"][0]) == ["exp_avg", "exp_avg_sq", "step"]
    assert state["state"][2]["exp_avg"].shape == (1, 1)


def test_a_state_that_does_not_fit_changes_nothing(parameter) -> None:
    p = parameter([1.0, 2.0], [1.0, 1.0])
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    before = optimizer.state[p]["exp_avg"].to_host()
    state = optimizer.state_dict()
    bad = {"state": {0: {**state["state"][0], "exp_avg_sq": np.zeros(3)}}, "param_groups": state["param_groups"]}
    bad["param_groups"][0]["lr"] = 9.0
    with pytest.raises(ShapeError, match=r"exp_avg_sq.*\(3,\).*\(2,\)"):
        optimizer.load_state_dict(bad)
    with pytest.raises(ValueError, match=r"groups of \[2\].*\[1\]"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{**state["param_groups"][0], "params": [0, 1]}]})
    assert optimizer.lr == 0.1
    np.testing.assert_array_equal(optimizer.state[p]["exp_avg"].to_host(), before)


def test_closure_zero_grad_and_loss(parameter) -> None:
    p = parameter([2.0])
    optimizer = optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = ag.sum(ag.mul(p, p))
        loss.backward()
        return loss

    with ag.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.item() == 1.0
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is not None
    assert p.grad.item() == 0.0
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()
    assert p.item() == 1.0


def test_bad_arguments(parameter) -> None:
    p = parameter([1.0])
    for options in ({"lr": -1.0}, {"betas": (1.0, 0.9)}, {"eps": -1.0}, {"weight_decay": -0.1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            optim.Adam([p], **options)
    with pytest.raises(ValueError, match="nesterov"):
        optim.SGD([p], nesterov=True)
    with pytest.raises(ValueError, match="no parameters"):
        optim.SGD([])
    with pytest.raises(ValueError, match="twice"):
        optim.SGD([p, p])
    with pytest.raises(TypeError, match=r"\[tensor\]"):
        optim.SGD(p)
    with pytest.raises(TypeError, match="ndarray"):
        optim.SGD([np.ones(3)])
    with pytest.raises(ValueError, match="leaves"):
        optim.SGD([ag.mul(p, p)])
    with pytest.raises(DTypeError, match="int32"):
        optim.SGD([Tensor.zeros((2,), "int32")])
    optimizer = optim.SGD([p], lr=0.5)
    with pytest.raises(ValueError, match="lr"):
        optimizer.lr = -1
    assert optimizer.lr == 0.5


def test_it_learns(rng, parameter) -> None:
    x, true = rng.standard_normal((64, 5)).astype(np.float32), rng.standard_normal((5, 1)).astype(np.float32)
    xs, ys = Tensor.from_host(x), Tensor.from_host(x @ true)
    w = parameter(np.zeros((5, 1)))
    optimizer = optim.AdamW([w], lr=0.1, weight_decay=0.0)
    for _ in range(200):
        optimizer.zero_grad()
        ag.mse_loss(ag.matmul(xs, w), ys).backward()
        optimizer.step()
    np.testing.assert_allclose(w.to_host(), true, atol=2e-3)


def test_the_states_of_adagrad_exist_from_the_start(parameter) -> None:
    a, b, c = parameter([1.0, 2.0]), parameter([[3.0]]), parameter([4.0])
    groups = [{"params": [a]}, {"params": [b], "initial_accumulator_value": 9.0}]
    optimizer = optim.Adagrad(groups, lr=0.5, initial_accumulator_value=0.25, eps=0.0)
    optimizer.add_param_group({"params": [c]})  # its states begin with its first step
    state = optimizer.state_dict()["state"]
    assert {index: entry["step"] for index, entry in state.items()} == {0: 0.0, 1: 0.0}
    assert [state[index]["sum"].tolist() for index in state] == [[0.25, 0.25], [[0.25]]]
    assert set(optimizer.state) == {a, b}
    optimizer.state[a]["sum"].mul_(4.0)
    for p in (a, c):
        p.grad = Tensor.full(p.shape, 1.0)
    other = optim.Adagrad([{"params": [parameter(p.numpy())]} for p in (a, b, c)], lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    assert {index: entry["step"] for index, entry in other.state_dict()["state"].items()} == {0: 0.0, 1: 0.0}
    moved = [group["params"][0] for group in other.param_groups]
    for p, mine in zip((a, b, c), moved):
        mine.grad = p.grad
    for one in (optimizer, other):
        one.step()
        state = one.state_dict()["state"]
        assert {index: entry["step"] for index, entry in state.items()} == {0: 1.0, 1: 0.0, 2: 1.0}
    np.testing.assert_allclose(a.numpy(), np.array([1.0, 2.0]) - 0.5 / np.sqrt(2.0), rtol=1e-6)
    assert b.item() == 3.0
    np.testing.assert_allclose(c.numpy(), 4.0 - 0.5 / np.sqrt(1.25), rtol=1e-6)
    np.testing.assert_array_equal(a.numpy(), moved[0].numpy())


def test_adagrad_begins_again_from_an_empty_state(parameter) -> None:
    p = parameter([1.0], [1.0])
    optimizer = optim.Adagrad([p], lr=0.5, initial_accumulator_value=3.0, eps=0.0)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {}})
    assert optimizer.state_dict()["state"] == {}
    optimizer.step()
    assert p.item() == 0.75
