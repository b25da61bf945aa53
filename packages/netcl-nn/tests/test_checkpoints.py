"""Checkpoints: training goes on bit for bit, and a checkpoint that does not fit changes nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.io import (
    CheckpointError,
    latest_checkpoint,
    load_checkpoint,
    load_model,
    load_params,
    save_checkpoint,
    save_model,
    save_params,
    verify,
)


class Descent:
    """A small optimizer with state, as netcl.optim is none of the layers below."""

    def __init__(self, params) -> None:
        self.params = list(params)
        self.velocity = [Tensor.zeros(p.shape) for p in self.params]
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        for p, v in zip(self.params, self.velocity):
            v.write(ag.add(ag.mul(v, 0.9), p.grad.detach()))
            p.write(ag.sub(p.detach(), ag.mul(v, 0.05)))
            p.grad = None

    def state_dict(self):
        state = {at: {"velocity": v, "step": self.steps} for at, v in enumerate(self.velocity)}
        return {"state": state, "param_groups": [{"lr": 0.05, "betas": (0.9, 0.999), "params": list(state)}]}

    def check_state_dict(self, state) -> None:
        for v, entry in zip(self.velocity, state["state"].values()):
            if tuple(entry["velocity"].shape) != v.shape:
                raise ShapeError(f"velocity {entry['velocity'].shape} for {v.shape}")

    def load_state_dict(self, state) -> None:
        self.check_state_dict(state)
        assert list(state["state"]) == list(range(len(self.params)))
        assert state["param_groups"][0]["betas"] == (
            0.9,
            0.999,
        )
        for v, entry in zip(self.velocity, state["state"].values()):
            v.write(entry["velocity"])
            self.steps = entry["step"]


class Counter:
    def __init__(self, count: int = 0, fails: bool = False) -> None:
        self.count, self.fails = count, fails

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state) -> None:
        self.count = state["count"]
        if self.fails and state["count"] == 7:
            raise ValueError("seven")


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def train(model, optimizer, x, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        noise = np.random.standard_normal(x.shape).astype(np.float32) * random.random()
        loss = ag.mean(ag.square(model(ag.add(x, Tensor.from_host(noise)))))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_goes_on_bit_for_bit(tmp_path: Path, normal) -> None:
    x = normal(16, 4)
    model = network()
    optimizer = Descent(model.parameters())
    train(model, optimizer, x, 5)
    save_checkpoint(
        model,
        tmp_path / "c.netcl",
        optimizer=optimizer,
        scheduler=Counter(3),
        epoch=2,
        step=5,
        metrics={"loss": 0.5},
        extra={"note": [1, "a"]},
    )
    expected = train(model, optimizer, x, 5)

    again = network()
    resumed = Descent(again.parameters())
    scheduler = Counter()
    rest = load_checkpoint(tmp_path / "c.netcl", again, optimizer=resumed, scheduler=scheduler)
    assert (rest["epoch"], rest["step"], rest["metrics"], rest["extra"]) == (2, 5, {"loss": 0.5}, {"note": [1, "a"]})
    assert scheduler.count == 3
    assert resumed.steps == 5
    assert train(again, resumed, x, 5) == expected
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name].to_host(), tensor.to_host())


def test_what_nobody_takes_comes_back(tmp_path: Path) -> None:
    model = network()
    state = {"m": np.arange(3), "flag": True, "nothing": None, "big": float("inf"), "numbers": (np.float32(1.5), [2])}
    save_checkpoint(model, tmp_path / "c", optim_state=state, config={"width": 8}, rng=False)
    rest = load_checkpoint(tmp_path / "c")
    np.testing.assert_array_equal(rest["model"]["0.weight"], model[0].weight.to_host())
    assert rest["optimizer"]["flag"] is True
    assert rest["optimizer"]["big"] == float("inf")
    assert rest["optimizer"]["numbers"] == (1.5, [2])
    assert rest["config"] == {"width": 8}
    np.testing.assert_array_equal(rest["optimizer"]["m"], [0, 1, 2])
    assert "rng" not in rest


def test_one_that_does_not_fit_changes_nothing(tmp_path: Path, normal) -> None:
    model = network()
    optimizer = Descent(model.parameters())
    train(model, optimizer, normal(16, 4), 2)
    save_checkpoint(model, tmp_path / "c", optimizer=optimizer, scheduler=Counter(7), scaler=Counter(1))
    other = nn.Sequential(nn.Linear(4, 9), *list(network())[1:])
    target = network()
    for given, message in (
        ({"model": other}, r"shape of 0.weight: \(8, 4\) in the state, \(9, 4\)"),
        ({"model": target, "optimizer": Descent(other.parameters())}, "velocity"),
        ({"model": target, "optimizer": Descent(target.parameters()), "scheduler": Counter(0, fails=True)}, "seven"),
        ({"model": target, "ema": Counter()}, "has no ema; it has .*optimizer"),
    ):
        before = {name: t.to_host() for name, t in given["model"].state_dict().items()}
        first, scaler = random.getstate(), Counter(5)
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(tmp_path / "c", **given, scaler=scaler)
        for name, tensor in given["model"].state_dict().items():
            np.testing.assert_array_equal(tensor.to_host(), before[name])
        if "optimizer" in given:
            assert given["optimizer"].steps == 0
        assert scaler.count == 5
        assert random.getstate() == first
    missing, _ = nn.Linear(1, 1).load_state_dict({}, strict=False)
    assert missing == ["weight", "bias"]


def test_not_strict(tmp_path: Path) -> None:
    model = network()
    save_checkpoint(model, tmp_path / "c")
    smaller = nn.Sequential(nn.Linear(4, 8))
    with pytest.raises(CheckpointError, match="unexpected: 1.weight"):
        load_checkpoint(tmp_path / "c", smaller)
    load_checkpoint(tmp_path / "c", smaller, strict=False)
    np.testing.assert_array_equal(smaller[0].weight.to_host(), model[0].weight.to_host())


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"extra/f: a function"):
        save_checkpoint(network(), tmp_path / "c", extra={"f": print if False else (lambda: 0)})
    with pytest.raises(CheckpointError, match=r"extra: expected texts and whole numbers as keys"):
        save_checkpoint(network(), tmp_path / "c", extra={1.5: 0})
    assert list(tmp_path.iterdir()) == []


def test_parameters_alone(tmp_path: Path, normal) -> None:
    a, b = normal(3, 2), normal(4, dtype="bfloat16")
    save_params([a, b], tmp_path / "p", names=["weight", "bias"])
    made = load_params(None, None, tmp_path / "p")
    assert [t.dtype for t in made] == ["float32", "bfloat16"]
    np.testing.assert_array_equal(made[1].to_host(), b.to_host())
    into = [Tensor.zeros((3, 2)), Tensor.zeros((4,), "bfloat16")]
    assert load_params(None, into, tmp_path / "p", names=["weight", "bias"])[0] is into[0]
    np.testing.assert_array_equal(into[0].to_host(), a.to_host())
    with pytest.raises(CheckpointError, match="unexpected: bias"):
        load_params(None, into, tmp_path / "p", names=["weight", "other"])


def test_latest_and_verify(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None
    model = network()
    for name, epoch, step in (("a", 1, 10), ("c", 2, 30), ("b", 2, 40), ("d", 3, 50)):
        save_checkpoint(model, tmp_path / name, epoch=epoch, step=step)
    save_model(model, tmp_path / "z.netcl")
    (tmp_path / "notes.txt").write_text("hello")
    whole = (tmp_path / "d").read_bytes()
    middle = len(whole) // 3
    (tmp_path / "d").write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.warns(UserWarning, match="skips a file: .*damaged"):
        assert latest_checkpoint(tmp_path) == tmp_path / "b"
    assert verify(tmp_path / "b")["format"] == "netcl.checkpoint"
    assert verify(tmp_path / "z.netcl")["type"] == "Sequential"
    with pytest.raises(CheckpointError, match="damaged"):
        verify(tmp_path / "d")
    with pytest.raises(CheckpointError, match="has the format 'netcl.single-file'; expected 'netcl.checkpoint'"):
        load_checkpoint(tmp_path / "z.netcl", model)
    assert os.listdir(tmp_path).count("b") == 1


@pytest.mark.parametrize("read", [load_checkpoint, verify])
def test_what_is_no_path_is_named(read) -> None:
    with pytest.raises(TypeError, match=rf"{read.__name__}: expected str .* as path, got int 3"):
        read(3)


def test_a_checkpoint_read_as_a_model_names_its_reader(tmp_path):
    save_checkpoint(nn.Linear(2, 2), tmp_path / "last.netcl")
    with pytest.raises(CheckpointError, match=r"read it with netcl.io.load_checkpoint\(path, model\)"):
        load_model(tmp_path / "last.netcl")
    save_model(nn.Linear(2, 2), tmp_path / "model.netcl")
    with pytest.raises(CheckpointError, match=r"read it with netcl.io.load_model\(path\)"):
        load_checkpoint(tmp_path / "model.netcl")
