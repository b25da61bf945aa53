"""The Trainer on several devices of this process: the numbers of one device, and steps that are replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
import netcl.autograd as ag
from netcl import nn, optim
from netcl.core import DeviceHandle, manager
from netcl.core.device import device
from netcl.data import DataLoader
from netcl.distributed import DataParallel
from netcl.io import CheckpointError, load_safetensors, load_torch, save_safetensors, save_torch
from netcl.trainer import Callback, Trainer
from netcl.trainer.devices_step import DevicesStep, is_mean_over_samples


def _groups() -> dict[str, list[DeviceHandle]]:
    numpy = manager.default("cpu")
    assert numpy is not None
    groups = {"numpy": [numpy, numpy]}
    for handle in manager.select():
        if handle.backend == "cl" and handle.device_type == "cpu":
            groups[handle.platform_name] = manager.split(handle, 2)
    return groups


@pytest.fixture(params=list(_groups()))
def handles(request: pytest.FixtureRequest) -> list[DeviceHandle]:
    """Returns two devices: NumPy twice, or the halves of an OpenCL CPU."""
    return _groups()[request.param]


def classes(count: int = 44) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)


def fitted(
    handles: list[DeviceHandle], parallel: bool, loss_fn: Any = None, batch_size: int = 8, **options: Any
) -> tuple[Trainer, dict[str, np.ndarray]]:
    with device(handles[0]):
        nc.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        updates = optim.AdamW(model.parameters(), lr=0.02)
        trained: Any = DataParallel(model, handles, weights=[1, 1]) if parallel else model
        options = {key: make(model) if callable(make) else make for key, make in options.items()}
        trainer = Trainer(trained, updates, loss_fn=loss_fn, seed=0, **options)
        trainer.fit(DataLoader(classes(), batch_size=batch_size), epochs=3, log_every=0)
        return trainer, {name: value.to_host() for name, value in model.named_parameters()}


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "clipped": {"grad_clip": 0.1},
    "averaged": {"ema": lambda model: optim.ModelEMA(model, 0.9)},
    "smoothed": {"loss_fn": nn.CrossEntropyLoss(label_smoothing=0.1)},
    # 44 = 4 * 10 + 4, 2 * 43 / 2 + 1: the last batch is smaller, and has too few samples for two devices
    "smaller": {"batch_size": 10},
    "single": {"batch_size": 43},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.level("staging", "capture")
def test_all_devices_have_the_numbers_of_one(case: str, handles: list[DeviceHandle]) -> None:
    one, wanted = fitted(handles, False, **CASES[case])
    both, found = fitted(handles, True, **CASES[case])
    assert both.captured
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    for ours, theirs in zip(both.history, one.history):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert ours["accuracy"] == pytest.approx(theirs["accuracy"])


@pytest.mark.level("staging", "capture", "half")
def test_mixed_precision(handles: list[DeviceHandle]) -> None:
    one, _ = fitted(handles, False, mixed_precision="bfloat16")
    both, _ = fitted(handles, True, mixed_precision="bfloat16")
    assert both.captured
    assert both.history[-1]["loss"] == pytest.approx(one.history[-1]["loss"], rel=2e-2)


class Shrinking(Callback):
    """Changes the weights between steps."""

    def on_step_end(self, trainer: Any, logs: Any) -> None:
        with ag.no_grad():
            for param in trainer.model.parameters():
                param.mul_(0.9)


@pytest.mark.level("staging", "capture")
def test_weights_that_a_callback_changes_reach_all_devices(handles: list[DeviceHandle]) -> None:
    one, wanted = fitted(handles, False, callbacks=[Shrinking()])
    both, found = fitted(handles, True, callbacks=[Shrinking()])
    assert both.captured
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_loss_that_is_no_mean_over_samples_sees_the_whole_batch(handles: list[DeviceHandle]) -> None:
    with device(handles[0]):
        weighted = nn.CrossEntropyLoss(weight=nc.tensor([1.0, 5.0, 0.2]))
    one, wanted = fitted(handles, False, loss_fn=weighted)
    both, found = fitted(handles, True, loss_fn=weighted)
    assert not both.captured
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_what_wraps_a_module_is_saved_as_its_state_and_an_optimizer_is_refused(tmp_path: Path) -> None:
    with device("cpu"):
        model = nn.Linear(2, 3)
        parallel = DataParallel(model, ["cpu", "cpu"])
        for name, save, load in (
            ("m.pt", save_torch, load_torch),
            ("m.safetensors", save_safetensors, load_safetensors),
        ):
            save(parallel, tmp_path / name)
            found = load(tmp_path / name)
            assert found.keys() == model.state_dict().keys()
            np.testing.assert_array_equal(np.asarray(found["weight"]), model.weight.to_host())
        with pytest.raises(CheckpointError, match="SGD"):
            save_torch(optim.SGD(model.parameters()), tmp_path / "o.pt")


def test_devices_of_two_kinds_keep_measuring_their_shares() -> None:
    handles = [group[0] for group in _groups().values()][:2]
    if len(handles) < 2:
        pytest.skip("needs an OpenCL CPU device beside NumPy")
    with device(handles[0]):
        model = nn.Linear(6, 3)
        for weights, serves in ((None, False), ([1, 1], True), ([1, 0], False)):
            parallel = DataParallel(model, handles, weights=weights)
            assert parallel.balances == (weights is None)
            trainer = Trainer(parallel, optim.SGD(model.parameters()))
            assert DevicesStep.serves(trainer._compiled(None).step) == serves


def test_losses_that_are_means_over_samples() -> None:
    ids = np.array([0, 2, 1])
    assert is_mean_over_samples(ag.cross_entropy, ids)
    assert is_mean_over_samples(nn.MSELoss(), ids)
    assert is_mean_over_samples(nn.functional.huber_loss, None)
    assert not is_mean_over_samples(ag.cross_entropy, np.array([0, -100, 1]))
    assert not is_mean_over_samples(nn.CrossEntropyLoss(ignore_index=2), ids)
    assert not is_mean_over_samples(nn.MSELoss(reduction="sum"), ids)
    assert not is_mean_over_samples(nn.BCEWithLogitsLoss(pos_weight=nc.ones(3)), ids)
    assert not is_mean_over_samples(lambda output, target: output.sum(), ids)
    assert not is_mean_over_samples(ag.cross_entropy, nc.tensor(ids))


class Counting(nn.Module):
    """Computes with a number of Python that changes from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.layer(x) * float(self.calls)


@pytest.mark.level("staging", "capture")
def test_a_capture_that_differs_is_not_used(handles: list[DeviceHandle]) -> None:
    with device(handles[0]):
        trainer = Trainer(model := DataParallel(Counting(), handles, weights=[1, 1]), optim.SGD(model.parameters()))
        with pytest.warns(UserWarning, match="gives another result than the same step op by op"):
            trainer.fit(DataLoader(classes(), batch_size=8), epochs=1, log_every=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trainer.fit(DataLoader(classes(), batch_size=8), epochs=1, log_every=0)
    assert trainer.captured


@pytest.mark.level("staging", "capture")
def test_a_resumed_run_has_the_numbers_of_an_uninterrupted_one(
    handles: list[DeviceHandle], tmp_path: Any, make_loader: Callable[..., DataLoader]
) -> None:
    def run(epochs: int, resume: Any = None) -> tuple[Trainer, list[np.ndarray]]:
        with device(handles[0]):
            nc.manual_seed(0)
            model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
            parallel = DataParallel(model, handles, weights=[1, 1])
            trainer = Trainer(parallel, optim.AdamW(model.parameters(), lr=0.02), seed=0)
            trainer.fit(DataLoader(classes(), batch_size=8, seed=0), epochs=epochs, log_every=0, resume=resume)
            return trainer, [value.to_host() for value in model.parameters()]

    _, whole = run(4)
    first, _ = run(2)
    first.save_checkpoint(tmp_path / "half.netcl")
    _, rest = run(4, tmp_path / "half.netcl")
    for ours, theirs in zip(rest, whole):
        np.testing.assert_array_equal(ours, theirs)
