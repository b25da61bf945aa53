"""save_model and load_model: what goes in comes out, also in a fresh process, and what cannot is named."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.io import CheckpointError, load_model, save_model, verify
from netcl.io.archive import write_archive
from netcl.ops import get_rng_state


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(4 * 16, 3),
    )


@nn.register
class Residual(nn.Module):
    def __init__(self, body: nn.Module, scale: float = 1.0, activation: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.body, self.scale, self.activation = body, scale, activation
        self.after = activation()

    def forward(self, x):
        return self.after(ag.add(x, ag.mul(self.body(x), self.scale)))


@nn.register(to_config=lambda module: {"widths": module.sizes})
class Tower(nn.Module):
    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = tuple(widths)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(self.sizes, self.sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def same(one: nn.Module, two: nn.Module) -> None:
    first, second = one.state_dict(), two.state_dict()
    assert list(first) == list(second)
    for name, tensor in first.items():
        assert tensor.dtype == second[name].dtype
        np.testing.assert_array_equal(tensor.to_host(), second[name].to_host())
    assert [m.training for m in one.modules()] == [m.training for m in two.modules()]
    assert [p.requires_grad for p in one.parameters()] == [p.requires_grad for p in two.parameters()]
    assert repr(one) == repr(two)


def test_a_sequential_in_a_fresh_process(tmp_path: Path, normal) -> None:
    model, x = convolutional(), normal(5, 1, 8, 8)
    model(x)
    model.eval()
    path = tmp_path / "model.weights"
    save_model(model, path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.weights"]
    np.save(tmp_path / "x.npy", x.to_host())
    code = (
        "import sys, numpy as np\n"
        "from netcl.io import load_model\n"
        "from netcl.core import Tensor\n"
        "folder = sys.argv[1]\n"
        "model = load_model(folder + '/model.weights')\n"
        "np.save(folder + '/y.npy', model(Tensor.from_host(np.load(folder + '/x.npy'))).to_host())\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=100)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(x).to_host())


MODELS = {
    "convolutional": convolutional,
    "empty": nn.Sequential,
    "one layer": lambda: nn.Linear(3, 2, bias=False),
    "names": lambda: nn.Sequential({"a": nn.Linear(2, 2), "b": nn.Sequential({"c": nn.PReLU(2)})}),
    "registered": lambda: nn.Sequential(Residual(nn.Linear(3, 3), 0.5, nn.Tanh), Tower((3, 4, 2))),
    "side by side": lambda: nn.Concat(nn.Linear(3, 2), nn.Identity(), axis=-1),
    "lists": lambda: nn.ModuleDict({"x": nn.ModuleList([nn.Linear(1, 1)]), "y": nn.GroupNorm(1, 2)}),
    "every kind of option": lambda: nn.Sequential(
        nn.Conv1d(2, 2, 3, padding="same", padding_mode="reflect"),
        nn.ConvTranspose2d(2, 4, (3, 2), stride=2, output_padding=1, groups=2, bias=False),
        nn.DepthwiseConv2d(3, 3, bias=False),
        nn.BatchNorm2d(3, momentum=None, affine=False),
        nn.BatchNorm1d(3, track_running_stats=False),
        nn.LayerNorm((2, 3), bias=False),
        nn.RMSNorm(4, elementwise_affine=False),
        nn.LeakyReLU(0.3),
        nn.Softmax(axis=1),
        nn.Embedding(4, 2, padding_idx=1),
        nn.Upsample(scale_factor=2),
        nn.ConstantPad2d((1, 2, 3, 4), 2.0),
        nn.Unflatten(1, (2, -1)),
        nn.Threshold(0.1, 2.0),
        nn.Bilinear(2, 3, 4),
        nn.CrossEntropyLoss(ignore_index=3, label_smoothing=0.1),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_go_round(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    save_model(model, tmp_path / "m.netcl")
    before = get_rng_state()
    again = load_model(tmp_path / "m.netcl")
    assert get_rng_state() == before
    same(model, again)
    assert verify(tmp_path / "m.netcl")["version"] == 3


def test_dtypes_modes_and_frozen_parameters(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3).to(dtype="bfloat16"), nn.BatchNorm1d(3), nn.Linear(3, 2, dtype="float16"))
    model[0].freeze()
    model[1].eval()
    save_model(model, tmp_path / "m.netcl")
    again = load_model(tmp_path / "m.netcl")
    same(model, again)
    assert isinstance(again[0].weight, ag.Parameter)
    assert not again[0].weight.requires_grad
    with np.load(tmp_path / "m.netcl", allow_pickle=False) as arrays:
        assert arrays["0.weight"].dtype == np.uint16
        meta = json.loads(str(arrays["__netcl_meta__"]))
    assert arrays is not None
    assert meta["format"] == "netcl.single-file"
    assert meta["type"] == "Sequential"
    assert meta["dtypes"]["0.weight"] == "bfloat16"
    assert len(meta["sha256"]) == 64


def test_a_shared_module_stays_shared(tmp_path: Path) -> None:
    layer = nn.Linear(2, 2)
    save_model(nn.Sequential(layer, nn.ReLU(), layer), tmp_path / "m.netcl")
    again = load_model(tmp_path / "m.netcl")
    assert again[0] is again[2]


def test_a_queue_is_where_the_model_lies(tmp_path: Path) -> None:
    from netcl.core import manager

    save_model(convolutional(), tmp_path / "m.netcl")
    for place in ("cpu", manager.default("cpu"), manager.default("cpu").queue):
        model = load_model(tmp_path / "m.netcl", queue=place)
        assert {t.device.backend for t in model.state_dict().values()} == {"cpu"}


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    model = convolutional()
    save_model(model, tmp_path / "a")
    save_model(model, str(tmp_path / "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_unregistered_class_is_named(tmp_path: Path) -> None:
    class Private(nn.Module):
        pass

    with pytest.raises(CheckpointError, match="Private is not registered"):
        save_model(nn.Sequential(Private()), tmp_path / "m.netcl")
    assert list(tmp_path.iterdir()) == []
    meta = {"format": "netcl.single-file", "version": 3, "type": "Absent"}
    meta["config"] = {"type": "Absent", "arguments": {}, "origin": "some.module"}
    write_archive(tmp_path / "m.netcl", meta, [])
    with pytest.raises(CheckpointError, match=r"m.netcl.*'Absent' is not registered.*some\.module"):
        load_model(tmp_path / "m.netcl")


def test_a_name_has_one_class() -> None:
    class Linear(nn.Module):
        pass

    with pytest.raises(ValueError, match=r"netcl\.nn\.linear\.Linear already"):
        nn.register(Linear)
    with pytest.raises(TypeError, match="subclass"):
        nn.register(3)


def test_an_argument_without_attribute_is_named(tmp_path: Path) -> None:
    @nn.register
    class Forgetting(nn.Module):
        def __init__(self, width: int = 3) -> None:
            super().__init__()

    with pytest.raises(CheckpointError, match="no attribute for its argument 'width'"):
        save_model(Forgetting(), tmp_path / "m.netcl")


def test_build_sequential() -> None:
    layers = [{"type": "Linear", "arguments": {"in_features": 3, "out_features": 2, "bias": False}}, {"type": "ReLU"}]
    model = nn.build_sequential(layers)
    assert repr(model) == repr(nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU()))
    with pytest.raises(nn.UnknownModuleError, match="'Nothing'"):
        nn.build_sequential([{"type": "Nothing"}])
    with pytest.raises(ValueError, match="expected the config of a Sequential, got that of a Linear"):
        nn.build_sequential(layers[0])


def test_version_2_names_its_arrays_by_layer_and_parameter(tmp_path: Path) -> None:
    model = convolutional().eval()
    save_model(model, tmp_path / "three")
    with np.load(tmp_path / "three") as arrays:
        meta = json.loads(str(arrays["__netcl_meta__"]))
        values = {key.replace(".", ":"): arrays[key] for key in arrays.files if key != "__netcl_meta__"}
    model.train()
    old = {"format": meta["format"], "version": 2, "type": meta["type"], "config": meta["config"]}
    with open(tmp_path / "two", "wb") as file:
        np.savez(file, __netcl_meta__=np.array(json.dumps(old)), **values)
    same(model, load_model(tmp_path / "two"))


def test_others_read_the_file_as_an_archive_of_arrays(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    save_model(model, tmp_path / "é.netcl")
    with zipfile.ZipFile(tmp_path / "é.netcl") as archive:
        assert archive.testzip() is None
        assert [info.compress_type for info in archive.infolist()] == [zipfile.ZIP_STORED] * 3
    with np.load(tmp_path / "é.netcl", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["0.weight"], model[0].weight.to_host())
