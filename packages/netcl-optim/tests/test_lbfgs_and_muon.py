"""L-BFGS on functions with known minima, Muon against its formula in NumPy, and optimizers without a rule."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import optim
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.optim.lbfgs.history import History


def closure_of(p: Tensor, optimizer: optim.Optimizer, loss_of: Any) -> Any:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(p)
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_solves_a_quadratic(search: str | None, rng, parameter) -> None:
    root = rng.standard_normal((6, 6))
    matrix, target = root @ root.T + np.eye(6), rng.standard_normal((6, 1))
    a, b, p = Tensor.from_host(matrix), Tensor.from_host(target), parameter(np.zeros((6, 1)))
    optimizer = optim.LBFGS([p], max_iter=60, line_search_fn=search)
    step = closure_of(p, optimizer, lambda x: ag.sum(0.5 * x * ag.matmul(a, x) - b * x))
    assert optimizer.step(step).item() == 0.0, "the loss before the step"
    np.testing.assert_allclose(p.to_host(), np.linalg.solve(matrix, target), rtol=2e-3, atol=2e-3)


def test_lbfgs_finds_the_minimum_of_a_curved_valley(parameter) -> None:
    p = parameter([-1.2, 1.0])
    optimizer = optim.LBFGS([p], max_iter=100, line_search_fn="strong_wolfe")
    step = closure_of(p, optimizer, lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
    optimizer.step(step)
    np.testing.assert_allclose(p.to_host(), [1.0, 1.0], rtol=1e-2)
    assert optimizer.state[p]["func_evals"] <= 125


def test_a_state_of_lbfgs_continues(rng, parameter) -> None:
    start = rng.standard_normal(5)

    def loss_of(x: Tensor) -> Tensor:
        return ag.sum(ag.exp(x) - 2.0 * x)

    ends = []
    for saved in (False, True):
        p = parameter(start)
        optimizer = optim.LBFGS([p], lr=0.3, max_iter=2)
        for turn in range(4):
            if saved and turn == 2:
                state = copy.deepcopy({k: v for k, v in optimizer.state_dict().items() if k == "param_groups"})
                values = optimizer.state_dict()["state"]
                optimizer = optim.LBFGS([p], lr=0.3, max_iter=2)
                optimizer.load_state_dict({**state, "state": values})
            optimizer.step(closure_of(p, optimizer, loss_of))
        ends.append(p.to_host())
    np.testing.assert_array_equal(ends[0], ends[1])


def two_loops(pairs: list[tuple[Any, Any]], grad: Any) -> Any:
    """The recursion as Nocedal and Wright write it (algorithm 7.4), in float64."""
    q, weights = grad.copy(), []
    for s, y in reversed(pairs):
        weights.append(s @ q / (y @ s))
        q = q - weights[-1] * y
    q = q * (pairs[-1][0] @ pairs[-1][1] / (pairs[-1][1] @ pairs[-1][1]))
    for (s, y), weight in zip(pairs, reversed(weights)):
        q = q + s * (weight - y @ q / (y @ s))
    return -q


@pytest.mark.parametrize("size", [1, 3, 40])
def test_the_direction_of_lbfgs_is_that_of_the_two_loops(size: int, rng) -> None:
    matrix = rng.standard_normal((20, 20))
    matrix = matrix @ matrix.T / 20 + np.eye(20)
    history, pairs = History(Tensor.from_host(np.zeros(20, np.float32)), size), []
    for number in range(50):
        s, grad = rng.standard_normal((2, 20)).astype(np.float32)
        y = (matrix @ s).astype(np.float32)
        if number % 9 == 8:
            y = -y  # not stored
        else:
            pairs = [*pairs, (s.astype(np.float64), y.astype(np.float64))][-size:]
        history.push(*map(Tensor.from_host, (s, y, grad)))
        direction, slope = history.direction()
        expected = two_loops(pairs, grad.astype(np.float64))
        np.testing.assert_allclose(direction.to_host(), expected, rtol=2e-3, atol=2e-4 * np.abs(expected).max())
        assert slope == pytest.approx(expected @ grad, rel=2e-3, abs=1e-3)


def test_a_history_is_the_same_after_its_state_is_loaded(rng) -> None:
    zero = Tensor.from_host(np.zeros(7, np.float32))
    history = History(zero, 20)
    for _ in range(33):
        s, noise, grad = rng.standard_normal((3, 7)).astype(np.float32)
        history.push(*map(Tensor.from_host, (s, s + 0.1 * noise, grad)))
    again, of_torch = History.of(history.state(), zero, 20), dict(history.state())
    for name in ("slots", "products"):
        del of_torch[name]
    s, grad = rng.standard_normal((2, 7)).astype(np.float32)
    directions = []
    for each in (history, again, History.of(of_torch, zero, 20)):
        each.push(*map(Tensor.from_host, (s, s, grad)))
        directions.append(each.direction()[0].to_host())
    np.testing.assert_array_equal(directions[0], directions[1])
    np.testing.assert_allclose(directions[0], directions[2], rtol=1e-3, atol=1e-4)


def test_a_pair_of_nan_leaves_no_trace() -> None:
    history = History(Tensor.from_host(np.zeros(4, np.float32)), 3)
    ones = Tensor.from_host(np.ones(4, np.float32))
    history.push(ones, ones, ones)
    history.push(ones, Tensor.from_host(np.full(4, np.nan, np.float32)), ones)
    np.testing.assert_allclose(history.direction()[0].to_host(), -1.0, rtol=1e-6)


def test_what_lbfgs_refuses(parameter) -> None:
    p, q = parameter([1.0]), parameter([2.0])
    with pytest.raises(ValueError, match="one group"):
        optim.LBFGS([{"params": [p]}, {"params": [q]}])
    with pytest.raises(ValueError, match="strong_wolfe"):
        optim.LBFGS([p], line_search_fn="armijo")
    with pytest.raises(ValueError, match="history_size of at least 1"):
        optim.LBFGS([p], history_size=0)
    with pytest.raises(UnsupportedError, match="clip_grad_norm_"):
        optim.LBFGS([p]).clip_grad_norm(1.0)
    with pytest.raises(TypeError, match=r"step\(closure\)"):
        optim.LBFGS([p]).step()


def muon(p, grads, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr_fn=None):
    a, b, c = 3.4445, -4.775, 2.0315
    buffer = np.zeros_like(p)
    rows, columns = p.shape
    ratio = 0.2 * np.sqrt(max(rows, columns)) if adjust_lr_fn == "match_rms_adamw" else np.sqrt(max(1, rows / columns))
    for g in grads:
        buffer = momentum * buffer + (1 - momentum) * g
        x = (1 - momentum) * g + momentum * buffer if nesterov else buffer
        x = x / np.linalg.norm(x)
        for _ in range(5):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        p = (1 - lr * weight_decay) * p - lr * ratio * x
        yield p


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (8, 2)])
@pytest.mark.parametrize("options", [{}, {"nesterov": False, "lr": 0.1}, {"adjust_lr_fn": "match_rms_adamw"}])
def test_muon_over_twenty_steps(shape: tuple[int, int], options: dict[str, Any], rng, parameter) -> None:
    start, grads = rng.standard_normal(shape), rng.standard_normal((20, *shape))
    p = parameter(start)
    optimizer = optim.Muon([p], **options)
    for grad, expected in zip(grads, muon(start, grads, **options)):
        p.grad = Tensor.from_host(grad)
        optimizer.step()
        np.testing.assert_allclose(p.to_host(), expected, rtol=1e-3, atol=1e-4)


def test_muon_with_a_scaled_gradient_and_one_that_overflowed(rng, parameter) -> None:
    start, grad = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    p = parameter(start, grad * 8)
    optimizer = optim.Muon([p], lr=0.1)
    optimizer.grad_scale, optimizer.found_inf = Tensor.full((), 8.0), Tensor.ones(())
    optimizer.step()
    np.testing.assert_array_equal(p.to_host(), start.astype(np.float32))
    assert not optimizer.state[p]["momentum_buffer"].to_host().any()
    p.grad = Tensor.from_host(grad * 8)
    optimizer.found_inf = Tensor.zeros(())
    optimizer.step()
    (expected,) = muon(start, [grad], lr=0.1)
    np.testing.assert_allclose(p.to_host(), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(p.grad.to_host(), grad, rtol=1e-5)


def test_muon_takes_matrices(parameter) -> None:
    with pytest.raises(ValueError, match=r"\(3,\)"):
        optim.Muon([parameter(np.zeros(3))])
    with pytest.raises(ValueError, match="match_rms_adamw"):
        optim.Muon([parameter(np.zeros((3, 3)))], adjust_lr_fn="other")


def test_half_matrices_keep_a_master(rng, parameter) -> None:
    p = parameter(np.ones((3, 3)), rng.standard_normal((3, 3)), "float16")
    optimizer = optim.Muon([p], lr=1e-5, weight_decay=0.0)
    for _ in range(50):
        optimizer.step()
    assert optimizer.state[p]["master"].dtype == "float32"
    assert not np.array_equal(p.to_host(), np.ones((3, 3)))


def test_sparse_adam_says_what_to_write(parameter) -> None:
    with pytest.raises(UnsupportedError, match=r"optim\.Adam\(params, lr=0\.01"):
        optim.SparseAdam([parameter([1.0])], lr=0.01)


def test_hooks_of_all_optimizers_are_outside_of_its_own(parameter) -> None:
    first, second = optim.SGD([parameter([1.0], [1.0])], lr=0.5), optim.Adam([parameter([1.0], [1.0])])
    seen: list[object] = []
    first.register_step_pre_hook(lambda *given: seen.append("own before"))
    first.register_step_post_hook(lambda *given: seen.append("own after"))
    handles = [
        optim.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: seen.append("before")),
        optim.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: seen.append(optimizer)),
    ]
    try:
        first.step()
        second.step()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["before", "own before", "own after", first, "before", second]
    second.step()
    assert len(seen) == 6


def test_hooks_of_steps_and_states(parameter) -> None:
    p = parameter([1.0], [1.0])
    optimizer = optim.SGD([p], lr=0.5)
    seen: list[str] = []
    handles = [
        optimizer.register_step_pre_hook(lambda *given: seen.append("before")),
        optimizer.register_step_post_hook(lambda *given: seen.append("after")),
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("reads")),
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, state: {k: v for k, v in state.items() if k != "more"}),
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded")),
    ]
    optimizer.step()
    state = optimizer.state_dict()
    assert state["more"] == 1
    optimizer.load_state_dict(state)
    assert seen == ["before", "after", "reads", "loaded"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert seen == ["before", "after", "reads", "loaded"]


def test_schedules_of_one_optimizer_multiply(parameter) -> None:
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    chain = optim.ChainedScheduler(
        [optim.ConstantLR(optimizer, factor=0.1, total_iters=3), optim.ExponentialLR(optimizer, gamma=0.9)]
    )
    for epoch in range(6):
        assert chain.get_last_lr()[0] == pytest.approx((0.1 if epoch < 3 else 1) * 0.9**epoch)
        if epoch == 2:
            state = chain.state_dict()
        chain.step()
    chain.load_state_dict(state)
    assert chain.get_last_lr()[0] == pytest.approx(0.1 * 0.9**2)
    chain.step()
    assert chain.get_last_lr()[0] == pytest.approx(0.9**3)
    with pytest.raises(ValueError, match="metric"):
        optim.ChainedScheduler([optim.ReduceLROnPlateau(optimizer)])


def test_the_first_step_of_an_averaged_model_copies_and_the_others_average(rng) -> None:
    from netcl import nn

    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = optim.swa_utils.AveragedModel(model)
    assert list(average.state_dict()) == ["n_averaged", *(f"module.{key}" for key in model.state_dict())]
    weights = rng.standard_normal((4, 3, 2)).astype(np.float32)
    for weight in weights:
        model[0].weight.write(weight)
        average.update_parameters(model)
    np.testing.assert_allclose(average.module[0].weight.to_host(), weights.mean(0), rtol=1e-5)
    assert average.n_averaged.item() == 4
    x = Tensor.from_host(rng.standard_normal((5, 2)).astype(np.float32))
    optim.swa_utils.update_bn([x], average)
    expected = (x.to_host() @ weights.mean(0).T + model[0].bias.to_host()).mean(0)
    np.testing.assert_allclose(average.module[1].running_mean.to_host(), expected, rtol=1e-4, atol=1e-5)
