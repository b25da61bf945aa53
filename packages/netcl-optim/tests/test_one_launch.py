"""All parameters of a dtype in one launch, with clipping and the loss scale in the same pass."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import optim
from netcl.core import Tensor

SHAPES = [(5, 3), (7,), (), (1,), (64, 3, 3), *((3 + k,) for k in range(12))]


def model(parameter, rng, dtype: str = "float32") -> list[Tensor]:
    return [parameter(rng.standard_normal(s), rng.standard_normal(s), dtype) for s in SHAPES]


def launches(step, tensor: Tensor) -> int | None:
    """Returns the number of kernels that ``step`` launches; None on devices without OpenCL, which do not count them."""
    if tensor.backend != "cl":
        step()
        return None
    from netcl.core.device.health import launch_log

    log = launch_log(tensor.queue)
    log.clear()
    step()
    return len(log)


def copies(params) -> list[np.ndarray]:
    return [p.to_host() for p in params]


def same(one, other) -> None:
    for a, b in zip(one, other):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Lion"])
def test_a_step_has_two_launches_and_the_bits_of_each_alone(name: str, rng, parameter) -> None:
    params = model(parameter, rng)
    others = [parameter(p.to_host(), p.grad.to_host()) for p in params]
    optimizer = getattr(optim, name)(params, lr=0.1, weight_decay=0.1)
    alone = [getattr(optim, name)([p], lr=0.1, weight_decay=0.1) for p in others]
    for _ in range(3):
        count = launches(optimizer.step, params[0])
        for one in alone:
            one.step()
    assert count is None or count <= 2
    same(copies(params), copies(others))
    for p, other, one in zip(params, others, alone):
        if name != "SGD":  # without momentum it keeps nothing
            same(copies(optimizer.state[p].values()), copies(one.state[other].values()))


def test_half_parameters_and_others_take_a_launch_each(rng, parameter) -> None:
    params = [*model(parameter, rng), *model(parameter, rng, "float16")]
    optimizer = optim.SGD(params, lr=0.1)
    optimizer.step()
    count = launches(optimizer.step, params[0])
    assert count is None or count == 2


def test_clipping_in_the_pass_that_updates(rng, parameter) -> None:
    one = model(parameter, rng)
    two = [parameter(p.to_host(), p.grad.to_host()) for p in one]
    first, second = optim.AdamW(one, lr=0.1), optim.AdamW(two, lr=0.1)
    grads = copies(p.grad for p in one)
    for _ in range(2):
        norm = first.clip_grad_norm(0.5)
        count = launches(first.step, one[0])
        for p, grad in zip(two, grads):
            p.grad = Tensor.from_host(grad)
        assert norm.item() == optim.clip_grad_norm_device(two, 0.5).item() > 0.5
        second.step()
    assert count is None or count == 2
    same(copies(one), copies(two))
    same(copies(p.grad for p in one), grads)
    first.step()
    second.zero_grad()
    for p, grad in zip(two, grads):
        p.grad = Tensor.from_host(grad)
    second.step()  # the limit held for one step
    same(copies(one), copies(two))


def test_clipping_takes_three_launches_and_a_shared_gradient_once(rng, parameter) -> None:
    params = model(parameter, rng)
    params[6] = parameter(rng.standard_normal(3), rng.standard_normal(3))
    params[6].grad = params[5].grad = Tensor.from_host(np.full(3, 2.0, np.float32))
    total = np.sqrt(sum((p.grad.to_host().astype(np.float64) ** 2).sum() for p in params))
    optim.clip_grad_norm_device(params, 1e9)
    count = launches(lambda: optim.clip_grad_norm_device(params, 1.0), params[0])
    assert count is None or count == 3
    np.testing.assert_allclose(params[5].grad.to_host(), 2.0 / total, rtol=1e-5)


def test_the_loss_scale_in_the_pass_that_updates(rng, parameter) -> None:
    one = model(parameter, rng)
    for p in one:
        p.grad = Tensor.from_host(p.grad.to_host() * np.float32(1024))
    two = [parameter(p.to_host(), p.grad.to_host()) for p in one]
    steps = []
    for params, apart in ((one, False), (two, True)):
        optimizer, scaler = optim.Adam(params, lr=0.1), optim.AMPGradScaler(1024.0)
        scaler.scale_loss(Tensor.zeros(()))
        if apart:
            scaler.unscale_(optimizer)
        steps.append(lambda scaler=scaler, optimizer=optimizer: scaler.step(optimizer))
    for step in steps:
        step()
    same(copies(one), copies(two))
    same(copies(p.grad for p in one), copies(p.grad for p in two))
    one[3].grad = Tensor.from_host(np.array([np.inf], np.float32))
    before = copies(one)
    count = launches(steps[0], one[0])
    assert count is None or count == 4  # two for the check
    same(copies(one), before)


def test_a_gradient_that_two_parameters_share_is_unscaled_once(parameter) -> None:
    params = [parameter(np.zeros(3)) for _ in range(2)]
    params[0].grad = params[1].grad = Tensor.from_host(np.full(3, 1024.0, np.float32))
    scaler = optim.AMPGradScaler(1024.0)
    scaler.scale_loss(Tensor.zeros(()))
    scaler.step(optim.SGD(params, lr=1.0))
    for p in params:
        np.testing.assert_array_equal(p.to_host(), -np.ones(3, np.float32))
        np.testing.assert_array_equal(p.grad.to_host(), np.ones(3, np.float32))
