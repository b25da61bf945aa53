"""TrainStep: the numbers of one device, captured as eager, on several devices of a process and in a group."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.distributed as dist
from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.errors import ShapeError
from netcl.distributed.training.load_balancing import LoadBalancer, alike

nn = pytest.importorskip("netcl.nn", reason="trains models of netcl-nn, which is not installed")
optim = pytest.importorskip("netcl.optim", reason="trains by optimizers of netcl-optim, which is not installed")

STEPS, BATCH = 7, 24
RANKS = Path(__file__).parent / "ranks"


def batches() -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((BATCH, 16)).astype(np.float32), rng.integers(0, 5, BATCH)) for _ in range(STEPS)]


def network(dropout: float = 0.0) -> Any:
    ops.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 200), nn.ReLU(), nn.Dropout(dropout), nn.Linear(200, 50), nn.Linear(50, 5))


def alone(handle: DeviceHandle, dropout: float = 0.0) -> tuple[list[float], dict[str, Any]]:
    """Losses and parameters of training on one device."""
    with device(handle):
        model = network(dropout)
        updates = optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for number, (x, y) in enumerate(batches()):
            if number == 4:
                updates.lr = 2e-2
            updates.zero_grad()
            loss = nn.functional.cross_entropy(model(Tensor.from_host(x)), Tensor.from_host(y))
            loss.backward()
            updates.step()
            losses.append(float(loss))
        return losses, {name: value.numpy() for name, value in model.named_parameters()}


def together(
    handles: list[DeviceHandle], capture: bool, dropout: float = 0.0
) -> tuple[list[float], dict[str, Any], dist.TrainStep]:
    """Losses and parameters of training on all of ``handles``, and the step."""
    with device(handles[0]):
        model = network(dropout)
        updates = optim.AdamW(model.parameters(), lr=1e-2)
        step = dist.TrainStep(
            dist.DataParallel(model, handles, weights=[1] * len(handles)),
            nn.functional.cross_entropy,
            updates,
            capture=capture,
        )
        losses = []
        for number, (x, y) in enumerate(batches()):
            if number == 4:
                updates.lr = 2e-2
            losses.append(float(step(x, y)))
        step.close()
        return losses, {name: value.numpy() for name, value in model.named_parameters()}, step


@pytest.mark.level("staging", "capture")
def test_all_devices_have_the_numbers_of_one(handles: list[DeviceHandle]) -> None:
    losses, values = alone(handles[0])
    eager_losses, eager, _ = together(handles, capture=False)
    replayed_losses, replayed, step = together(handles, capture=True)
    np.testing.assert_allclose(eager_losses, losses, rtol=1e-4)
    assert replayed_losses == eager_losses
    for name, value in values.items():
        np.testing.assert_allclose(eager[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
        np.testing.assert_array_equal(replayed[name], eager[name], err_msg=name)
    assert all(rank.compiled.captures == 1 for rank in step._ranks)


def test_replicas_stay_equal_without_passing_parameters(handles: list[DeviceHandle]) -> None:
    _, _, step = together(handles, capture=True)
    if not alike(handles):
        pytest.skip("devices of different kinds take the parameters of the first after each step")
    for ours, theirs in zip(step._ranks[0].params, step._ranks[-1].params):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_masks_of_dropout_depend_on_the_sample_and_the_step_is_not_captured(handles: list[DeviceHandle]) -> None:
    losses, _ = alone(handles[0], dropout=0.3)
    found, _, step = together(handles, capture=True, dropout=0.3)
    np.testing.assert_allclose(found, losses, rtol=1e-4)
    assert not any(rank.compiled.captures for rank in step._ranks)


def test_what_is_written_between_steps_reaches_all_devices(handles: list[DeviceHandle]) -> None:
    """A write into a parameter, and the optimizer's state of an earlier step by ``reload``."""
    results = []
    for parallel in (False, True):
        with device(handles[0]):
            model = network()
            updates = optim.AdamW(model.parameters(), lr=1e-2)
            loss_fn = nn.functional.cross_entropy
            both = dist.DataParallel(model, handles, weights=[1] * len(handles))
            step = dist.TrainStep(both, loss_fn, updates, grad_clip=0.5)
            for number, (x, y) in enumerate(batches()):
                if number in (1, 5):
                    model[0].weight.write(model[0].weight.to_host() * 0.5)
                if number == 2:
                    state = {"state": {}, "param_groups": updates.state_dict()["param_groups"]}
                    updates.load_state_dict(state)
                    step.reload()
                if parallel:
                    step(x, y)
                    continue
                updates.zero_grad()
                loss_fn(model(Tensor.from_host(x)), Tensor.from_host(y)).backward()
                updates.clip_grad_norm(0.5)
                updates.step()
            step.close()
            assert not parallel or not step._ranks[0].compiled.enabled or step.replays > 0
            results.append([value.numpy() for value in model.parameters()])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(theirs, ours, rtol=1e-3, atol=1e-4)


@pytest.mark.level("staging", "capture", "half")
def test_mixed_precision_is_that_of_autocast(handles: list[DeviceHandle], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_AUTOCAST_ON_CPUS", "half")
    with device(handles[0]):
        model = network()
        both = dist.DataParallel(model, handles, weights=[1] * len(handles))
        seen: list[str] = []

        def loss_fn(output: Tensor, target: Tensor) -> Tensor:
            seen.append(str(output.dtype))
            loss: Tensor = nn.functional.cross_entropy(output, target)
            return loss

        step = dist.TrainStep(both, loss_fn, optim.SGD(model.parameters()), autocast="bfloat16")
        (x, y), *_ = batches()
        assert not step.captures(x, y)
        step(x, y), step(x, y)
        assert step.captures(x, y)
        step(x, y)
        assert not step.captures(x, y)
        assert step.replays == 1
        assert set(seen) == {"bfloat16"}
        assert model[0].weight.dtype == "float32"
        step.close()


@pytest.mark.level("staging", "capture")
def test_a_frozen_parameter_or_another_mode_is_captured_again() -> None:
    with device("cpu"):
        model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
        updates = optim.SGD(model.parameters(), lr=0.1)
        step = dist.TrainStep(dist.DataParallel(model, ["cpu", "cpu"]), nn.functional.cross_entropy, updates)
        x, y = batches()[0]
        for _ in range(4):
            step(x, y)
        model[1].eval()
        mean = model[1].running_mean.numpy().copy()
        for _ in range(4):
            step(x, y)
        np.testing.assert_array_equal(model[1].running_mean.numpy(), mean)
        assert all(rank.compiled.captures == 1 for rank in step._ranks)
        step.close()


@pytest.mark.level("staging", "capture")
def test_a_loss_that_reads_a_value_stays_eager_with_a_warning() -> None:
    with device("cpu"):
        model = network()
        seen: list[float] = []

        def loss(found: Tensor, target: Tensor) -> Tensor:
            value: Tensor = nn.functional.cross_entropy(found, target)
            seen.append(float(value))
            return value

        step = dist.TrainStep(dist.DataParallel(model, ["cpu"]), loss, optim.SGD(model.parameters(), lr=0.1))
        with pytest.warns(UserWarning, match="goes on op by op"):
            found = [float(step(x, y)) for x, y in batches()]
        assert found == seen[:2] + seen[-(STEPS - 2) :]


def test_what_cannot_be_stepped_is_refused() -> None:
    with device("cpu"):
        model = network()
        updates = optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(TypeError, match="expected a DataParallel model, got Sequential"):
            dist.TrainStep(model, nn.functional.cross_entropy, updates)  # type: ignore[arg-type]
        step = dist.TrainStep(dist.DataParallel(model, ["cpu", "cpu"]), nn.functional.cross_entropy, updates)
        with pytest.raises(ShapeError, match="1 samples are too few for 2 devices"):
            step(np.ones((1, 16), np.float32), np.ones(1, np.int64))
        with pytest.raises(ShapeError, match="one length on axis 0"):
            step(np.ones((4, 16), np.float32), np.ones(3, np.int64))
        with pytest.raises(TypeError, match="inputs and a target"):
            step(np.ones((4, 16), np.float32))
        step.close()


def test_an_error_in_the_model_reaches_the_caller() -> None:
    with device("cpu"):
        model = network()

        def fails(found: Tensor, target: Tensor) -> Tensor:
            raise KeyError("lost")

        step = dist.TrainStep(dist.DataParallel(model, ["cpu", "cpu"]), fails, optim.SGD(model.parameters(), lr=0.1))
        with pytest.raises(KeyError, match="lost"):
            step(*batches()[0])
        step.close()


def test_devices_of_one_kind_keep_equal_shares() -> None:
    assert not LoadBalancer(2, equal=True).measures
    with device("cpu"):
        model = dist.DataParallel(network(), ["cpu", "cpu"])
        for x, _ in batches():
            model(Tensor.from_host(x)).sum().backward()
        assert model.weights == [0.5, 0.5]


@pytest.mark.level("staging", "capture")
def test_ranks_replay_the_same_steps(
    tmp_path: Path, launch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETCL_DIST_STAGING", "on")
    done = launch(2, RANKS / "train_step.py", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["replayed"] == found["eager"]
    assert found["captures"] == 2  # of the batch that is whole, and of the last of each epoch, unequal on the ranks
