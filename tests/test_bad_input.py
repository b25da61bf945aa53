"""Bad input across the layers: a named error that says what was given and what is valid, without side effects."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.core.errors import BackendMismatchError, DeviceNotFoundError, DTypeError, NetclError, ShapeError
from netcl.io import load_model, save_model


def _handles() -> dict[str, DeviceHandle]:
    return {
        handle.platform_name: handle for handle in [manager.default("cpu"), *manager.select()] if handle is not None
    }


@pytest.fixture(params=list(_handles()))
def place(request: pytest.FixtureRequest) -> Iterator[DeviceHandle]:
    """Yields each device in turn, active."""
    with device(_handles()[request.param]) as handle:
        yield handle


def test_shapes_that_do_not_broadcast(place: DeviceHandle) -> None:
    a, b = Tensor.ones((2, 3)), Tensor.ones((4,))
    with pytest.raises(ShapeError, match=r"add: shapes \(2, 3\) and \(4,\) do not broadcast"):
        a + b
    with pytest.raises(ShapeError, match=r"matmul.*\(2, 3\).*\(4,\)"):
        a @ b
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        a.reshape(4, 2)
    with pytest.raises(ShapeError, match="axis 2 is out of range for 2 dimensions"):
        a.sum(axis=2)
    np.testing.assert_array_equal((a + 1).numpy(), np.full((2, 3), 2.0))


def test_mismatched_devices(place: DeviceHandle) -> None:
    here = Tensor.ones((2,))
    others = [handle for handle in _handles().values() if handle.platform_name != place.platform_name]
    if not others:
        pytest.skip("there is only one device here")
    there = Tensor.ones((2,), queue=others[0].queue)
    with pytest.raises(BackendMismatchError, match="move them together"):
        here + there
    np.testing.assert_array_equal((here + there.to(place)).numpy(), [2.0, 2.0])


def test_mismatched_and_unknown_dtypes(place: DeviceHandle) -> None:
    with pytest.raises(DTypeError, match="supported are float32"):
        Tensor.zeros((2,), "float8")
    with pytest.raises(DTypeError, match="complex128"):
        Tensor.from_host(np.ones(2, np.complex128))
    with pytest.raises(DTypeError):
        Tensor.from_host(np.zeros(2, [("a", "f4"), ("b", "i4")]))
    with pytest.raises(NetclError):
        ops.take(Tensor.ones((3,)), Tensor.ones((2,)), axis=0)
    with pytest.raises(ShapeError, match="whole, non-negative"):
        Tensor.zeros((2, -1))


def test_an_unknown_device() -> None:
    with pytest.raises(DeviceNotFoundError, match="cpu"), device("quantum"):
        pass


def test_labels_out_of_range(place: DeviceHandle) -> None:
    logits = ag.tensor(Tensor.from_host(np.zeros((3, 4), np.float32)), requires_grad=True)
    for bad in ([0, 4, 1], [0, -1, 1]):
        loss = ag.cross_entropy(logits, Tensor.from_host(np.array(bad)))
        with pytest.raises(IndexError, match="cross_entropy"):
            loss.item()
    good = ag.cross_entropy(logits, Tensor.from_host(np.array([0, 3, 1])))
    assert good.item() == pytest.approx(np.log(4.0), rel=1e-6)
    with pytest.raises(NetclError, match="cross_entropy"):
        ag.cross_entropy(logits, Tensor.from_host(np.array([0, 1])))


def test_an_index_out_of_range(place: DeviceHandle) -> None:
    x = Tensor.from_host(np.arange(5.0))
    with pytest.raises(IndexError):
        x[5]
    taken = ops.take(x, Tensor.from_host(np.array([0, 7])), axis=0)
    with pytest.raises(IndexError, match="take"):
        taken.numpy()
    np.testing.assert_array_equal(x[1:3].numpy(), [1.0, 2.0])


def test_empty_and_0d_tensors_work(place: DeviceHandle) -> None:
    empty, point = Tensor.zeros((0, 3)), Tensor.from_host(2.0)
    assert (empty + 1).shape == (0, 3)
    assert empty.sum().item() == 0.0
    assert empty.sum(axis=0).tolist() == [0.0] * 3
    assert (empty @ Tensor.ones((3, 2))).shape == (0, 2)
    assert (Tensor.ones((2, 0)) @ empty).tolist() == [[0.0] * 3] * 2
    assert point.shape == ()
    assert (point * 3).item() == 6.0
    assert point.softmax(axis=()).shape == ()
    with pytest.raises(ShapeError, match="no elements"):
        empty.max(axis=0)


def _model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def _damages(good: bytes) -> dict[str, bytes]:
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 0xFF
    return {
        "truncated": good[: len(good) // 2],
        "flipped": bytes(flipped),
        "empty": b"",
        "noise": bytes(range(256)) * 8,
    }


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "noise"])
def test_a_damaged_model_file(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "model.netcl"
    with device("cpu"):
        save_model(_model(), path)
        path.write_bytes(_damages(path.read_bytes())[damage])
        with pytest.raises(RuntimeError, match=r"model\.netcl") as caught:
            load_model(path)
    assert type(caught.value).__name__ == "CheckpointError"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.netcl"
    with device("cpu"):
        save_model(_model(), path)
        old = path.read_bytes()

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(RuntimeError, match=r"model\.netcl"):
            save_model(_model(), path)
        monkeypatch.undo()
        assert path.read_bytes() == old
        assert [p.name for p in tmp_path.iterdir()] == ["model.netcl"]
        load_model(path)
