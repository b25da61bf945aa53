"""DataParallel: the numbers of one device, whatever the split; and what passes between the devices on the way."""

from __future__ import annotations

import copy
import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.distributed as dist
from netcl.core import DeviceHandle, Tensor, config, manager
from netcl.core.device import device
from netcl.core.errors import ShapeError
from netcl.distributed.training.load_balancing import LoadBalancer
from netcl.ops import manual_seed

nn = pytest.importorskip("netcl.nn", reason="trains models of netcl-nn, which is not installed")

TRAINING = Path(__file__).parent / "ranks" / "training.py"
LIMIT = {"mlp": 1e-5, "dropout": 1e-5, "cnn": 1e-3, "norm": 1e-3}


@pytest.fixture(scope="module")
def training() -> dict[str, Any]:
    return runpy.run_path(str(TRAINING))


@pytest.mark.parametrize("kind", ["dropout", "norm"])
def test_devices_equal_one_device(handles: list[DeviceHandle], training: dict[str, Any], kind: str) -> None:
    with device(handles[0]):
        alone = training["train"](kind, 10)
        for weights in (None, [float(rank + 1) for rank in range(len(handles))]):
            got = training["train"](kind, 10, training["wrapped"](kind, weights, devices=handles))
            assert training["distance"](got, alone) < LIMIT[kind]


@pytest.mark.deep
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", list(LIMIT))
def test_many_sub_devices_equal_one_device_after_50_steps(training: dict[str, Any], kind: str, count: int) -> None:
    handle = manager.default()
    assert handle is not None
    with device(handle):
        alone = training["train"](kind, 50)
        for weights in (None, [float(rank + 1) for rank in range(count)]):
            devices = manager.split(handle, count)
            got = training["train"](kind, 50, training["wrapped"](kind, weights, devices=devices))
            assert training["distance"](got, alone) < LIMIT[kind]


@pytest.mark.parametrize(
    ("size", "steps", "kinds"),
    [
        (2, 12, ("mlp", "norm")),
        pytest.param(2, 50, tuple(LIMIT), marks=pytest.mark.deep),
        pytest.param(4, 50, tuple(LIMIT), marks=pytest.mark.deep),
    ],
)
def test_processes_equal_one_device_and_threads_bit_for_bit(
    training: dict[str, Any], size: int, steps: int, kinds: tuple[str, ...], tmp_path: Path, launch: Callable[..., Any]
) -> None:
    done = launch(size, TRAINING, str(tmp_path / "state"), str(steps), "1", *kinds)
    assert done.returncode == 0, done.stderr
    place = os.environ.get("NETCL_DEVICE", "cpu")  # that of the ranks
    with device(place):
        for kind in kinds:
            alone = training["train"](kind, steps)
            for name, weights in (("equal", [1.0] * size), ("unequal", [rank + 1.0 for rank in range(size)])):
                got = dict(np.load(tmp_path / f"state-{kind}-{name}.npz"))
                assert training["distance"](got, alone) < LIMIT[kind]
                if kind == "dropout":  # the threads of a process draw from one generator, which has one order
                    continue

                def rank(group: Any, kind: str = kind, weights: list[float] = weights) -> Any:
                    return training["train"](kind, steps, training["wrapped"](kind, weights))

                for values in dist.run_on_devices(rank, [place] * size):
                    assert all(values[key].tobytes() == got[key].tobytes() for key in got)


@pytest.mark.parametrize(
    ("size", "devices", "steps", "kinds"),
    [
        (2, 2, 6, ("norm",)),
        pytest.param(2, 2, 50, tuple(LIMIT), marks=pytest.mark.deep),
        pytest.param(3, 2, 50, ("norm",), marks=pytest.mark.deep),
    ],
)
def test_devices_of_several_processes_equal_one_device(
    training: dict[str, Any],
    size: int,
    devices: int,
    steps: int,
    kinds: tuple[str, ...],
    tmp_path: Path,
    launch: Callable[..., Any],
) -> None:
    done = launch(size, TRAINING, str(tmp_path / "state"), str(steps), str(devices), *kinds)
    assert done.returncode == 0, done.stderr
    with device(os.environ.get("NETCL_DEVICE", "cpu")):
        for kind in kinds:
            alone = training["train"](kind, steps)
            for name in ("equal", "unequal"):
                got = dict(np.load(tmp_path / f"state-{kind}-{name}.npz"))
                assert training["distance"](got, alone) < LIMIT[kind]


def test_synchronized_statistics_need_a_sample_on_every_device(handles: list[DeviceHandle]) -> None:
    with device(handles[0]):
        module = dist.convert_sync_batchnorm(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
        model = dist.DataParallel(module, devices=handles)
        with pytest.raises(ShapeError, match="a sample on every device"):
            model(Tensor.zeros((1, 3)))
        with pytest.raises(ShapeError, match=r"a sample on every rank, there are \[0\]"):
            model(Tensor.zeros((0, 3)))
        module.eval()
        assert model(Tensor.zeros((1, 3))).shape == (1, 2)


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_run_killed_at_ten_random_moments_ends_with_the_bits_of_an_unbroken_one(
    tmp_path: Path, launch: Callable[..., Any]
) -> None:
    ends = []
    for name, kills in (("unbroken", 0), ("broken", 10)):
        (tmp_path / name).mkdir()
        arguments = (str(tmp_path / name), "150", str(kills))
        done = launch(2, TRAINING.with_name("resume.py"), *arguments, options=("--max-restarts", "10"), seconds=280)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("starting all again") == kills
        ends.append(done.stdout.split())
    assert ends[0][0] == "0"
    assert ends[1][0] == "10"
    assert ends[0][1] == ends[1][1]


class _Two(nn.Module):  # type: ignore[misc, name-defined]
    """Two heads, one not always used, and a layer that never is."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.never = nn.Linear(4, 3), nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, x: Tensor, scale: float = 1.0, second: bool = True) -> dict[str, Any]:
        return {"a": self.first(x) * scale, "b": [self.second(x)] if second else []}


def test_outputs_keep_their_form_and_unused_parameters_no_gradient(handles: list[DeviceHandle]) -> None:
    with device(handles[0]):
        manual_seed(0)
        module = _Two()
        model = dist.DataParallel(module, devices=handles)
        x = ag.tensor(Tensor.from_host(np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)))
        x.requires_grad = True
        for second in (False, True):
            module.zero_grad()
            x.grad = None
            results = []
            for net in (module, model):
                out = net(x, scale=2.0, second=second)
                loss = ag.mean(out["a"]) + (ag.sum(out["b"][0]) if second else 0.0)
                grads = ag.grad(loss, [module.first.weight, x])
                results.append([out["a"].numpy(), *(grad.numpy() for grad in grads)])
                loss = ag.mean(net(x, second=second)["a"])
                loss.backward()
            for plain, joined in zip(*results):
                np.testing.assert_allclose(joined, plain, rtol=1e-5, atol=1e-6)
            assert module.second.weight.grad is None
            assert module.never.weight.grad is None
        assert list(model.state_dict()) == list(module.state_dict())
        with pytest.raises(ShapeError, match="one length on axis 0"):
            model(x, Tensor.zeros((3, 4)))
        with ag.no_grad():
            assert not model(x)["a"].requires_grad


def test_a_loss_in_the_model_is_the_mean_of_the_samples(handles: list[DeviceHandle]) -> None:
    class Loss(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return ag.cross_entropy(self.linear(x), y)  # type: ignore[no-any-return]

    with device(handles[0]):
        module = Loss()
        rng = np.random.default_rng(1)
        x, y = Tensor.from_host(rng.standard_normal((7, 4)).astype(np.float32)), Tensor.from_host(rng.integers(0, 3, 7))
        grads = []
        for net in (module, dist.DataParallel(module, devices=handles)):
            loss = net(x, y)
            module.zero_grad()
            loss.backward()
            grads.append((loss.item(), module.linear.weight.grad.numpy()))
        np.testing.assert_allclose(grads[1][0], grads[0][0], rtol=1e-5)
        np.testing.assert_allclose(grads[1][1], grads[0][1], rtol=1e-5, atol=1e-6)


def test_gradients_travel_in_buckets_and_as_half_numbers() -> None:
    whole = nn.Sequential(*(nn.Linear(32, 32, device="cpu") for _ in range(4)))

    def rank(group: Any, compression: str | None) -> Any:
        module = copy.deepcopy(whole)
        model = dist.DataParallel(module, bucket_mb=0.006, compression=compression)
        x = Tensor.from_host(np.random.default_rng(group.rank).standard_normal((5, 32)).astype(np.float32))
        ag.mean(ag.square(model(x))).backward()
        return [span.name for span in model.spans], [param.grad.numpy() for param in module.parameters()]

    plain = dist.run_on_devices(lambda group: rank(group, None), ["cpu", "cpu"])
    names = plain[0][0]
    # A bucket for each layer, but for the first layers smaller ones, which leave last.
    assert names == [*(f"bucket {number}" for number in range(6)), "backward"]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(plain[0][1], plain[1][1]))
    half = dist.run_on_devices(lambda group: rank(group, "float16"), ["cpu", "cpu"])
    for exact, rounded in zip(plain[0][1], half[0][1]):
        assert not np.array_equal(exact, rounded)
        np.testing.assert_allclose(rounded, exact, rtol=2e-3, atol=2e-6)


def test_shares_follow_the_measured_speed_and_stay_where_they_are_told_to() -> None:
    balancer = LoadBalancer(2)
    for _ in range(4):
        samples = [round(100 * weight) for weight in balancer.weights]
        balancer.measured(samples, [samples[0] / 300, samples[1] / 100])
    np.testing.assert_allclose(balancer.weights, [0.75, 0.25], atol=0.01)
    kept = list(balancer.weights)
    balancer.measured([75, 25], [0.251, 0.25])
    assert balancer.weights == kept
    assert not LoadBalancer(2, [1, 3]).measures
    for _ in range(2):  # a device that stood still for two steps keeps a share, and comes back
        balancer.measured([75, 25], [75.0, 0.25])
    assert 0.3 < balancer.weights[0] < 0.7
    assert LoadBalancer(4, [1, 0, 2, 900]).sizes(12) == [1, 0, 1, 10]
    assert LoadBalancer(3, [1, 1, 900]).sizes(2) == [1, 0, 1]
    with config.override(DETERMINISTIC=True):
        assert not balancer.measures
    with pytest.raises(ValueError, match="expected 2 weights"):
        LoadBalancer(2, [1.0])


def test_a_failing_replica_is_told_and_the_model_stays_usable(handles: list[DeviceHandle]) -> None:
    class Picky(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            if x.numpy().max() > 5:
                raise ArithmeticError("too large")
            return self.linear(x)  # type: ignore[no-any-return]

    with device(handles[0]):
        model = dist.DataParallel(Picky(), devices=handles)
        bad = np.zeros((6, 4), np.float32)
        bad[-1] = 9
        with pytest.raises(ArithmeticError, match="too large"):
            model(Tensor.from_host(bad))
        assert model(Tensor.from_host(bad[:-1])).shape == (5, 3)
