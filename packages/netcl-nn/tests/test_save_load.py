"""``nc.save`` and ``nc.load``: PyTorch's call forms, files that hold data only."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

import netcl as nc
from netcl import nn
from netcl.core.errors import DeviceNotFoundError, UnsupportedError
from netcl.io import CheckpointError


def test_a_training_state_comes_back(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    state = {"model": model.state_dict(), "epoch": 3, "losses": [0.5, 0.25], "rng": nc.get_rng_state(), "note": None}
    nc.save(state, tmp_path / "state.pt")
    read = nc.load(tmp_path / "state.pt")
    assert (read["epoch"], read["losses"], read["note"]) == (3, [0.5, 0.25], None)
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other.load_state_dict(read["model"])
    assert other[0].weight.tolist() == model[0].weight.tolist()
    assert read["model"]["0.weight"].device.selector == nc.ones(1).device.selector
    nc.set_rng_state(read["rng"])
    assert not read["model"]["0.weight"].requires_grad


def test_open_files_and_requires_grad():
    file = io.BytesIO()
    weight = nc.tensor([1.0, 2.0], requires_grad=True)
    nc.save((weight, weight.detach(), nc.arange(3)), file)
    file.seek(0)
    read, plain, counted = nc.load(file, map_location=nc.device("cpu"), weights_only=False)
    assert read.requires_grad
    assert not plain.requires_grad
    assert (read.tolist(), plain.tolist(), counted.tolist()) == ([1.0, 2.0], [1.0, 2.0], [0, 1, 2])
    assert counted.dtype == "int64"
    assert read.device.selector == "cpu"


@pytest.mark.parametrize("make", [lambda: nn.Linear(2, 2), lambda: nn.Sequential(nn.ReLU())])
def test_a_model_is_refused_with_what_to_write(make, tmp_path):
    with pytest.raises(UnsupportedError, match=r"nc\.save\(x\.state_dict\(\), path\)"):
        nc.save(make(), tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_other_objects_are_refused_by_their_place(tmp_path):
    with pytest.raises(CheckpointError, match="state.model: a Linear cannot be saved"):
        nc.save({"model": nn.Linear(2, 2)}, tmp_path / "state.pt")


@pytest.mark.parametrize("weights_only", [True, False])
def test_nothing_in_a_file_is_executed(tmp_path, weights_only):
    class Attack:
        def __reduce__(self):
            return (open, (str(tmp_path / "made"), "w"))

    (tmp_path / "attack.pt").write_bytes(pickle.dumps(Attack(), 2))
    with pytest.raises(CheckpointError, match="is not read as a file of PyTorch"):
        nc.load(tmp_path / "attack.pt", weights_only=weights_only)
    with (tmp_path / "attack.pt").open("rb") as file, pytest.raises(CheckpointError, match=r"attack\.pt"):
        nc.load(file, weights_only=weights_only)
    assert not (tmp_path / "made").exists()


def test_arguments_without_a_counterpart_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    nc.save(nc.ones(2), path)
    for location in (lambda storage, place: storage, {"cuda:0": "cpu"}):
        with pytest.raises(UnsupportedError, match='write map_location="cpu"'):
            nc.load(path, map_location=location)
    with pytest.raises((DeviceNotFoundError, ImportError), match="no-such"):  # ImportError without pyopencl
        nc.load(path, map_location="no-such")
    with pytest.raises(UnsupportedError, match="pickle"):
        nc.load(path, pickle_module=pickle)
    with pytest.raises(UnsupportedError, match="pickle"):
        nc.save(nc.ones(2), path, pickle_module=pickle)


def test_one_seed_decides_a_model():
    def outputs():
        nc.manual_seed(4)
        model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5))
        return model(nc.rand(3, 5)).numpy()

    assert np.array_equal(outputs(), outputs())


def test_a_compiled_model_is_the_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.9))
    compiled = nc.compile(model)
    assert isinstance(compiled, nn.Sequential)
    assert list(compiled.state_dict()) == list(model.state_dict())
    assert compiled[0].weight is model[0].weight
    model.eval()
    assert not compiled.training
    x = nc.ones(2, 3)
    assert compiled(x).tolist() == model(x).tolist()
    compiled(x).sum().backward()
    assert model[0].weight.grad is not None
    compiled.train()
    assert model.training
    again = pickle.loads(pickle.dumps(compiled)).eval()
    assert again(x).tolist() == model.eval()(x).tolist()
    assert nc.compile(compiled) is compiled
