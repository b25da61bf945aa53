"""Training in mixed precision ends where float32 does, and a captured step with a loss scale has the bits of eager."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, ops
from netcl.amp import GradScaler, autocast, supports_fp16
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.data.readers import example_digits
from netcl.optim import SGD
from netcl.runtime.capture import capture

STEPS, BATCH = 100, 32

Step = Callable[[Tensor, Tensor], Tensor]


def _handles() -> dict[str, DeviceHandle]:
    return {
        handle.platform_name: handle for handle in [manager.default("cpu"), *manager.select()] if handle is not None
    }


def _step(dtype: str | None, scaler: GradScaler | None) -> tuple[nn.Sequential, Step]:
    """A step of the digits CNN in ``dtype`` (None: float32 throughout)."""
    ops.manual_seed(3)
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)),
    )
    optimizer = SGD(model.parameters(), lr=0.02, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        with nullcontext() if dtype is None else autocast(dtype=dtype):
            loss: Tensor = ag.cross_entropy(model(x), y)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale_loss(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss

    return model, step


def _losses(step: Step, steps: int, captured: bool) -> list[float]:
    x, y = example_digits()
    losses: list[Tensor] = []
    run = step
    for number in range(steps):
        part = np.arange(number * BATCH, (number + 1) * BATCH) % len(x)
        batch = Tensor.from_host(x[part]), Tensor.from_host(y[part])
        if captured and number == 2:
            run = capture(step, *batch).replay
        losses.append(run(*batch))
    return [loss.item() for loss in losses]


@pytest.mark.parametrize("name", list(_handles()))
def test_a_captured_step_scales_skips_and_grows_as_an_eager_one(name: str) -> None:
    with device(_handles()[name]) as handle:
        # Halves overflow at first, so the scale falls; bfloat16 does not, so it grows.
        dtype, start = ("float16", 2.0**22) if supports_fp16(handle) else ("bfloat16", 2.0)
        found: list[Any] = []
        for captured in (False, True):
            scaler = GradScaler(init_scale=start, growth_interval=3)
            model, step = _step(dtype, scaler)
            losses = _losses(step, 12, captured)
            found.append((losses, scaler.get_scale(), [p.numpy() for p in model.parameters()]))
        (eager, scale, weights), (replayed, other, others) = found
        assert eager == replayed and scale == other and all(map(np.array_equal, weights, others))
        assert (scale < start) == (dtype == "float16") and scale != start
        assert all(np.isfinite(one).all() for one in weights)
        untrained = [p.numpy() for p in _step(None, None)[0].parameters()]
        assert not any(map(np.array_equal, weights, untrained)), "not every step was skipped"


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", list(_handles()))
def test_mixed_precision_ends_within_two_percent(name: str, dtype: str) -> None:
    """The mean loss of steps 80 to 100 from the same weights and batches, at a rate that does not swing."""
    with device(_handles()[name]) as handle:
        if dtype == "float16" and not supports_fp16(handle):
            pytest.skip(f"{handle.device_name} has no cl_khr_fp16: autocast computes in float32")
        plain = _losses(_step(None, None)[1], STEPS, True)
        mixed = _losses(_step(dtype, GradScaler() if dtype == "float16" else None)[1], STEPS, True)
    assert plain[-1] < 0.5 * plain[0]
    want, found = np.mean(plain[80:]), np.mean(mixed[80:])
    assert abs(found - want) <= 0.02 * want
