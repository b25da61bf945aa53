"""save_model and load_model: what goes in comes out, also in a fresh process, and what cannot is named."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.io import CheckpointError, load_model, save_model, verify
from netcl.io.archive import entry_of, write_archive
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
    assert isinstance(again[0].weight, ag.Parameter) and not again[0].weight.requires_grad
    with np.load(tmp_path / "m.netcl", allow_pickle=False) as arrays:
        assert arrays["0.weight"].dtype == np.uint16
        meta = json.loads(str(arrays["__netcl_meta__"]))
    assert arrays is not None and meta["format"] == "netcl.single-file" and meta["type"] == "Sequential"
    assert meta["dtypes"]["0.weight"] == "bfloat16" and len(meta["sha256"]) == 64


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
    with pytest.raises(ValueError, match="Linear, not of a Sequential"):
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


# -- files that are not to be trusted ----------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), tmp_path / "m.netcl")
    return tmp_path / "m.netcl"


def rewritten(path: Path, change) -> None:
    """The file with ``change(meta, values)`` applied, hashed anew so that only the change is at fault."""
    with np.load(path) as arrays:
        values = {key: arrays[key] for key in arrays.files if key != "__netcl_meta__"}
        meta = json.loads(str(arrays["__netcl_meta__"]))
    change(meta, values)
    write_archive(path, meta, [entry_of(key, value) for key, value in values.items()])


def test_cut_short_at_any_place(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in (*range(0, len(whole), 97), len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"m\.netcl"):
            load_model(saved)


def test_any_flipped_bit_is_seen(saved: Path, rng) -> None:
    whole = bytearray(saved.read_bytes())
    expected = load_model(saved).state_dict()
    refused = 0
    for at in rng.choice(len(whole), 300, replace=False):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            state = load_model(saved).state_dict()
        except CheckpointError:
            refused += 1
        else:  # a bit that says nothing: the archive's dates, attributes and repeated sizes
            for name, tensor in state.items():
                np.testing.assert_array_equal(tensor.to_host(), expected[name].to_host())
    assert refused > 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda meta, values: values.update({"0.weight": np.zeros((3, 5), np.float32)}),
            r"shape of 0.weight: \(3, 5\)",
        ),
        (lambda meta, values: values.pop("0.bias"), r"missing: 0.bias \(3,\)"),
        (lambda meta, values: values.update({"extra": np.zeros(2)}), "unexpected: extra"),
        (lambda meta, values: meta.update(format="other"), "format 'other'"),
        (lambda meta, values: meta.update(version=4), "version 4"),
        (lambda meta, values: meta.update(config={"type": "Linear", "arguments": {"wrong": 1}}), "cannot be built"),
        (lambda meta, values: meta.update(config=None), "cannot be built"),
        (lambda meta, values: meta.update(config={"shared": 0}), "cannot be built"),
        (
            lambda meta, values: meta.update(
                config={"type": "Linear", "arguments": {"in_features": 10**9, "out_features": 10**9}}
            ),
            "more than there are values for",
        ),
    ],
)
def test_a_file_that_lies(saved: Path, change, message: str) -> None:
    rewritten(saved, change)
    with pytest.raises(CheckpointError, match=message):
        load_model(saved)


STRANGE = (
    None,
    True,
    0,
    -1,
    3.5,
    1e308,
    10**30,
    "",
    "x",
    [],
    [[]],
    {},
    {"a": 1},
    {"module": 3},
    {"tuple": 3},
    {"shared": -1},
    {"*": 1},
)


def places(tree, path=()):
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def changed(tree, path, value):
    if not path:
        return value
    copied = copy.copy(tree)
    copied[path[0]] = changed(tree[path[0]], path[1:], value)
    return copied


def test_a_strange_config_raises_nothing_else(saved: Path, rng) -> None:
    """Whatever stands in the JSON, the file loads or CheckpointError says why not."""
    with np.load(saved) as arrays:
        values = {key: arrays[key] for key in arrays.files if key != "__netcl_meta__"}
        meta = json.loads(str(arrays["__netcl_meta__"]))
    entries = [entry_of(key, value) for key, value in values.items()]
    refused = tried = 0
    for path in places(meta):
        for value in rng.choice(np.array(STRANGE, dtype=object), 6, replace=False):
            if path and path[0] in ("dtypes", "sha256") or not path:
                with open(saved, "wb") as file:
                    np.savez(file, __netcl_meta__=np.array(json.dumps(changed(meta, path, value))), **values)
            else:
                write_archive(saved, changed(meta, path, value), entries)
            tried += 1
            try:
                load_model(saved)
            except CheckpointError:
                refused += 1
    assert tried > 200 and refused > tried // 2


def add_member(path: Path, name: str, data: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "a", compression) as archive:
        archive.writestr(name, data)


def npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


class Bomb:
    def __reduce__(self):
        return (print, ("code of a file has run",))


def test_hostile_members(saved: Path, capsys) -> None:
    import io
    import pickle

    whole = saved.read_bytes()
    pickled = io.BytesIO()
    np.lib.format.write_array(pickled, np.array([Bomb()], dtype=object), allow_pickle=True)
    cases = [
        ("x.npy", pickled.getvalue(), "pickled objects"),
        ("x.npy", pickle.dumps(Bomb()), "begin as an array"),
        ("x.txt", b"hello", "no array"),
        ("x.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }\n"), "not its size"),
        ("x.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n"), "begin as an array"),
        ("x.npy", npy(b"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }\n", b"\0" * 4), "columns"),
        ("x.npy", npy(b"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", b"\0" * 8), "complex64"),
        ("x.npy", npy(b"(" * 500), "begin as an array"),
        ("x.npy", npy(b"__import__('os').getcwd()\n"), "begin as an array"),
        ("x.npy", npy(b" " * 60000), "begin as an array"),
    ]
    for name, data, message in cases:
        saved.write_bytes(whole)
        add_member(saved, name, data)
        with pytest.raises(CheckpointError, match=message):
            load_model(saved)
    saved.write_bytes(whole)
    add_member(
        saved,
        "x.npy",
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (9999999,), }\n", b"\0" * 9999999),
        zipfile.ZIP_DEFLATED,
    )
    with pytest.raises(CheckpointError, match="compressed"):
        load_model(saved)
    saved.write_bytes(whole)
    with pytest.warns(UserWarning, match="Duplicate"):
        add_member(saved, "0.weight.npy", b"")
    with pytest.raises(CheckpointError, match="twice"):
        load_model(saved)
    assert capsys.readouterr().out == ""


def test_what_is_no_file_of_netcl(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        load_model(tmp_path / "absent.netcl")
    with pytest.raises(CheckpointError):
        load_model(tmp_path)
    with open(tmp_path / "plain.npz", "wb") as file:
        np.savez(file, a=np.zeros(3))
    with pytest.raises(CheckpointError, match="not one of netcl"):
        load_model(tmp_path / "plain.npz")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CheckpointError, match="not a zip file") as caught:
        load_model(tmp_path / "text")
    assert caught.value.path == str(tmp_path / "text") and caught.value.bytes == 5
    with open(tmp_path / "number.npz", "wb") as file:
        np.savez(file, __netcl_meta__=np.array(3))
    with pytest.raises(CheckpointError, match="no text"):
        load_model(tmp_path / "number.npz")
    deep = "[" * 100_000
    with open(tmp_path / "deep.npz", "wb") as file:
        np.savez(file, __netcl_meta__=np.array(deep))
    with pytest.raises(CheckpointError):
        load_model(tmp_path / "deep.npz")


def test_nothing_is_written_into_an_existing_model(saved: Path) -> None:
    model = load_model(saved)
    before = {name: t.to_host() for name, t in model.state_dict().items()}
    with pytest.raises(nn.StateError):
        model.load_state_dict({**before, "0.weight": np.zeros((1, 1))})
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor.to_host(), before[name])
    assert isinstance(model[0].weight, Tensor)
