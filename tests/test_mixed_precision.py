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


@pytest.fixture(autouse=True)
def half_on_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes autocast compute small networks in half on CPUs; it would leave their layers in float32."""
    monkeypatch.setenv("NETCL_AUTOCAST_ON_CPUS", "half")


def _handles() -> dict[str, DeviceHandle]:
    return {
        handle.platform_name: handle for handle in [manager.default("cpu"), *manager.select()] if handle is not None
    }


def _mlp() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))


def _cnn() -> nn.Sequential:
    first = (nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(
        *first, nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 10)
    )


def _step(
    dtype: str | None, scaler: GradScaler | None, build: Callable[[], nn.Sequential] = _cnn, seed: int = 3
) -> tuple[nn.Sequential, Step]:
    """Returns a step of a net on the digits in ``dtype`` (None: float32 throughout)."""
    ops.manual_seed(seed)
    model = build()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)

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
        assert eager == replayed
        assert scale == other
        assert all(map(np.array_equal, weights, others))
        assert (scale < start) == (dtype == "float16")
        assert scale != start
        assert all(np.isfinite(one).all() for one in weights)
        untrained = [p.numpy() for p in _step(None, None)[0].parameters()]
        assert not any(map(np.array_equal, weights, untrained)), "not every step was skipped"


@pytest.mark.deep
@pytest.mark.parametrize("build", [_mlp, _cnn], ids=lambda build: build.__name__.strip("_"))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", list(_handles()))
def test_mixed_precision_ends_within_two_percent(name: str, dtype: str, build: Callable[[], nn.Sequential]) -> None:
    """The mean loss of steps 80 to 100 from the same weights and batches, over three seeds."""
    ends = []
    with device(_handles()[name]) as handle:
        if dtype == "float16" and not supports_fp16(handle):
            pytest.skip(f"{handle.device_name} has no cl_khr_fp16: autocast computes in float32")
        for seed in range(3):
            plain = _losses(_step(None, None, build, seed)[1], STEPS, True)
            scaler = GradScaler() if dtype == "float16" else None
            mixed = _losses(_step(dtype, scaler, build, seed)[1], STEPS, True)
            assert plain[-1] < 0.8 * plain[0]
            assert mixed != plain
            ends.append((np.mean(plain[80:]), np.mean(mixed[80:])))
    want, found = np.mean(ends, axis=0)
    assert abs(found - want) <= 0.02 * want
