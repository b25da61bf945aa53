"""The captured step: the same bits as the step op by op, and what the Trainer does where they could differ."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.data import DataLoader
from netcl.optim import SGD, AdamW, CosineAnnealingLR, ModelEMA, OneCycleLR
from netcl.trainer import Trainer

Make = Callable[..., Any]
TIMING = ("seconds", "samples_per_second")


def values(trainer: Trainer) -> dict[str, np.ndarray[Any, Any]]:
    """Returns all weights and buffers, and the optimizer's states."""
    found = {name: tensor.to_host() for name, tensor in trainer.model.state_dict().items()}
    for index, states in trainer.optimizer.state_dict()["state"].items():
        found |= {f"{index}.{name}": np.asarray(value) for name, value in states.items()}
    return found


def assert_same_bits(a: dict[str, np.ndarray[Any, Any]], b: dict[str, np.ndarray[Any, Any]]) -> None:
    assert a.keys() == b.keys()
    assert [name for name in a if a[name].tobytes() != b[name].tobytes()] == []


def measured(history: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMING} for row in history]


@pytest.mark.level("capture")
def test_captured_equals_eager_bit_for_bit_over_a_hundred_steps(
    handle: DeviceHandle, make_network: Make, make_loader: Make
) -> None:
    runs = []
    for compiled in (True, False):
        model = make_network()
        optimizer = AdamW(model.parameters(), lr=1e-2)
        schedule = CosineAnnealingLR(optimizer, 34)
        trainer = Trainer(model, optimizer, grad_clip=1.0, scheduler=schedule, compile=compiled, seed=3)
        history = trainer.fit(make_loader(), make_loader(), epochs=34, log_every=0)
        runs.append((trainer, history))
    (captured, history), (eager, expected) = runs
    assert captured.step == eager.step == 102
    # Two shapes of batch, each with two steps op by op and one shadow step.
    assert captured._step is not None
    assert captured._step.replays == 102 - 2 * 3
    assert not eager.captured
    assert_same_bits(values(captured), values(eager))
    assert measured(history) == measured(expected)
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]


@pytest.mark.level("capture")
def test_the_schedule_and_the_average_reach_a_captured_step(
    handle: DeviceHandle, make_network: Make, make_loader: Make
) -> None:
    runs = []
    for compiled in (True, False):
        model = make_network()
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        schedule, average = OneCycleLR(optimizer, 0.1, total_steps=40), ModelEMA(model, 0.9)
        loader = make_loader(n=32)
        trainer = Trainer(model, optimizer, ema=average, scheduler=schedule, compile=compiled, seed=3)
        history = trainer.fit(loader, loader, epochs=20, log_every=0)
        runs.append((trainer, average, history))
    for (trainer, average, history), (other, expected, rows) in [runs]:
        assert trainer._step is not None
        assert trainer._step.replays == 37
        assert_same_bits(values(trainer), values(other))
        assert_same_bits(
            {name: t.to_host() for name, t in average.shadow.items()},
            {name: t.to_host() for name, t in expected.shadow.items()},
        )
        assert measured(history) == measured(rows)
        # Validation in fit measures the averages, evaluate the weights.
        assert history[-1]["val_loss"] != pytest.approx(trainer.evaluate(make_loader(n=32))["loss"], rel=1e-6)
        with average.averaged():
            assert history[-1]["val_loss"] == pytest.approx(trainer.evaluate(make_loader(n=32))["loss"], rel=1e-6)


class Drifting(nn.Module):
    """Its output depends on how often Python called it: what a capture freezes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.linear(ag.flatten(x, 1)) * (1.0 + self.calls)


@pytest.mark.level("capture")
def test_the_shadow_step_catches_a_model_whose_python_state_changes(handle: DeviceHandle, make_loader: Make) -> None:
    runs = []
    for compiled in (True, False):
        ops.manual_seed(0)
        model, loader = Drifting(), make_loader(n=32)
        trainer = Trainer(model, SGD(model.parameters(), lr=1e-3), compile=compiled)
        if compiled:
            with pytest.warns(UserWarning, match=r"another result .* first in linear.weight.*op by op") as caught:
                trainer.fit(loader, epochs=4, log_every=0)
            assert len(caught) == 1
            assert not trainer.captured
        else:
            trainer.fit(loader, epochs=1, log_every=0)
            model.calls += 1  # by the capture
            trainer.fit(loader, epochs=3, log_every=0)
        runs.append(values(trainer))
    assert_same_bits(*runs)


class Reading(nn.Module):
    """Reads a value on the host in each forward pass, which no capture can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Any:
        out = self.linear(ag.flatten(x, 1))
        return out if float(ag.sum(out).item()) > 0 else out * 2.0


@pytest.mark.level("capture")
def test_a_step_that_reads_on_the_host_stays_eager_and_says_so_once(numpy_device: object, make_loader: Make) -> None:
    model = Reading()
    trainer = Trainer(model, SGD(model.parameters(), lr=1e-2))
    with pytest.warns(UserWarning, match="not compiled: .*read on the host.* op by op") as caught:
        history = trainer.fit(make_loader(), epochs=4, log_every=0)
    assert len(caught) == 1
    assert all(p.grad is None for p in model.parameters())
    assert history[-1]["loss"] < history[0]["loss"]


@pytest.mark.level("capture")
def test_frozen_parameters_modes_and_groups_are_noticed(
    handle: DeviceHandle, make_network: Make, make_loader: Make
) -> None:
    model = make_network()
    optimizer = SGD([*model[0].parameters(), *model[1].parameters()], lr=1e-2, momentum=0.9)
    trainer = Trainer(model, optimizer)
    trainer.fit(make_loader(n=32), epochs=2, log_every=0)
    assert trainer._step is not None
    replays = trainer._step.replays
    assert replays > 0
    before = model[6].weight.to_host()
    optimizer.add_param_group({"params": list(model[6].parameters())})
    model[0].weight.requires_grad = False
    frozen = model[0].weight.to_host()
    trainer.fit(make_loader(n=32), epochs=3, log_every=0)
    assert trainer._step.replays > replays  # captured again
    assert not np.array_equal(before, model[6].weight.to_host())
    assert np.array_equal(frozen, model[0].weight.to_host())


class _Centered(nn.Module):
    """Subtracts a number from its input in place, and is linear in that."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.sub_(0.5))  # type: ignore[no-any-return]


@pytest.mark.level("capture")
def test_a_model_that_writes_into_its_batch_does_so_in_replays(handle: DeviceHandle) -> None:
    found = []
    for compiled in (True, False):
        ops.manual_seed(0)
        x, y = (Tensor.from_host(handle, np.ones(shape, np.float32)) for shape in ((4, 3), (4, 2)))
        model = _Centered()
        trainer = Trainer(model, SGD(model.parameters(), lr=0.1), loss_fn=ag.mse_loss, compile=compiled)
        trainer.fit([(x, y)], epochs=6, log_every=0)
        found.append((x.tolist(), values(trainer)["linear.weight"].tolist()))
        assert trainer._step is not None
        assert trainer._step.replays == (3 if compiled else 0)
    assert found[0] == found[1]
    assert found[0][0][0][0] == -2.0


@pytest.mark.level("capture")
def test_the_check_repeats_every_n_steps(numpy_device: object, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters(), lr=1e-2), seed=1)
    with config.override(CHECK_CAPTURE=4):
        trainer.fit(make_loader(n=32), epochs=10, log_every=0)
    # 20 steps: two op by op, the shadow step of the capture, and then every fourth of 17.
    assert trainer._step is not None
    assert trainer._step.replays == 17 - 4


@pytest.mark.level("capture")
def test_a_fit_goes_on_with_its_captures(numpy_device: object, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters(), lr=1e-2))
    trainer.fit(make_loader(n=32), epochs=2, log_every=0)
    first = trainer._step
    trainer.evaluate(make_loader())
    trainer.predict(make_loader())
    trainer.fit(make_loader(n=32), epochs=1, log_every=0)
    assert trainer._step is first
    assert first is not None
    assert first.replays == 3
    trainer.fit(make_loader(n=32), epochs=1, log_every=0, loss_fn=lambda out, y: ag.cross_entropy(out, y) * 2.0)
    assert trainer._step is not first


def test_device_batches_train_as_host_batches_do(handle: DeviceHandle, make_network: Make, make_loader: Make) -> None:
    runs = []
    for queue in (None, handle):
        model = make_network()
        trainer = Trainer(model, SGD(model.parameters(), lr=1e-2), handle, seed=2)
        trainer.fit(make_loader(device_queue=queue), epochs=5, log_every=0)
        runs.append(values(trainer))
    assert_same_bits(*runs)


def test_nothing_warns_in_a_plain_run(handle: DeviceHandle, make_network: Make, make_loader: Make) -> None:
    model = make_network()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Trainer(model, AdamW(model.parameters())).fit(make_loader(), make_loader(), epochs=3, log_every=0)


def test_a_loss_without_gradient_is_named(numpy_device: object, make_loader: Make) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    trainer = Trainer(model, SGD(model.parameters()))
    loader: DataLoader = make_loader()
    with pytest.raises(RuntimeError, match="no gradient.*forward only"):
        trainer.fit(loader, log_every=0, loss_fn=lambda output, target: ops.mean(output.detach()))


_RUN = """
import time
import netcl as nc
from netcl import nn
from netcl.data import ArrayDataset, DataLoader, example_digits
from netcl.optim import AdamW
from netcl.trainer import Trainer
nc.manual_seed(0)
x, y = example_digits(n=256)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 10))
trainer = Trainer(model, AdamW(model.parameters(), lr=1e-2), grad_clip=1.0)
loader = DataLoader(ArrayDataset(x, y), batch_size=32, shuffle=True)
history = trainer.fit(loader, epochs=12, log_every=0)
print([row["loss"].hex() for row in history], flush=True)
end = time.monotonic() + 120  # until the child is done
while not trainer._step.replays and time.monotonic() < end:
    trainer.fit(loader, epochs=4, log_every=0)
print(trainer._step.replays)
"""


@pytest.mark.deep
def test_a_run_with_empty_caches_has_the_bits_of_one_without_children(handle: DeviceHandle, tmp_path: Path) -> None:
    """While a child builds the programs of the captured step, steps run op by op."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    printed = []
    for children in ("0", "1"):
        folder = tmp_path / children
        folder.mkdir()
        environment = {**os.environ, "NETCL_BUILD_PROCESSES": children, "NETCL_DEVICE": handle.selector}
        environment |= {"NETCL_CACHE_DIR": str(folder), "POCL_CACHE_DIR": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", _RUN], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.splitlines())
    assert printed[0][0] == printed[1][0]
    assert int(printed[1][1]) > 0
