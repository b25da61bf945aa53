"""ONNX files: what is exported computes the same by ONNX's reference, and what is imported can be trained and saved."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl
import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.io import CheckpointError, export_onnx, import_onnx, load_model, save_model
from netcl.io.onnx import library
from netcl.nn import functional as F

onnx = pytest.importorskip("onnx", reason="needs the optional package onnx")
reference = pytest.importorskip("onnx.reference", reason="needs the optional package onnx")

IMAGES = nn.Sequential(
    nn.Conv2d(3, 4, 3, padding=1, bias=False),
    nn.BatchNorm2d(4),
    nn.GELU(),
    nn.MaxPool2d(2),
    nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
    nn.AvgPool2d(2),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(6, 3),
    nn.LogSoftmax(),
)
ROWS = nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.LayerNorm(6), nn.Dropout(0.5), nn.Linear(6, 2), nn.Softmax())
TOKENS = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 3), nn.Tanh())
GROUPS = nn.Sequential(nn.Conv1d(4, 6, 3, padding="same"), nn.GroupNorm(2, 6), nn.PReLU(6), nn.RMSNorm(5), nn.Mish())
BORDERS = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.ReflectionPad2d(1), nn.PixelShuffle(2))


class Windows(nn.Module):
    """Overlapping windows along the last axis, as a view of the input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unfold(2, 3, 1) * 2


CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "images": (IMAGES, (2, 3, 8, 8)),
    "rows": (ROWS, (2, 4)),
    "sequences": (ROWS, (2, 3, 4)),
    "tokens": (TOKENS, (2, 5)),
    "groups": (GROUPS, (2, 4, 5)),
    "borders": (BORDERS, (2, 4, 3, 3)),
    "windows": (Windows(), (2, 4, 6)),
}


def sample(name: str, rng: np.random.Generator, batch: int) -> np.ndarray:
    shape = (batch, *CASES[name][1][1:])
    return rng.integers(0, 7, shape) if name == "tokens" else rng.standard_normal(shape).astype(np.float32)


def evaluate(path: Path, *inputs: np.ndarray) -> Any:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    names = [value.name for value in model.graph.input]
    return reference.ReferenceEvaluator(model).run(None, dict(zip(names, inputs)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.level("programs")
def test_an_exported_model_computes_the_same(name: str, tmp_path: Path, rng) -> None:
    model, path = CASES[name][0], tmp_path / "m.onnx"
    model.train()
    export_onnx(model, sample(name, rng, 2), path)
    assert all(module.training for module in model.modules())
    model.eval()
    for batch in (2, 3, 1):
        x = sample(name, rng, batch)
        expected = model(Tensor.from_host(x)).to_host()
        np.testing.assert_allclose(evaluate(path, x)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.level("programs")
def test_and_comes_back(name: str, tmp_path: Path, rng) -> None:
    """Exported, imported, saved and loaded, it computes the same, and its parameters have the same gradients."""
    model, path = CASES[name][0].eval(), tmp_path / "m.onnx"
    x = sample(name, rng, 2)
    export_onnx(model, x, path)
    found = import_onnx(path)
    assert not found.training
    y, z = model(Tensor.from_host(x)), found(x)
    np.testing.assert_allclose(z.to_host(), y.to_host(), rtol=1e-5, atol=1e-6)
    own, names = dict(found.named_parameters()), {name for name, _ in model.named_parameters()}
    if names:
        model.zero_grad()
        (y * y).sum().backward()
        (z * z).sum().backward()
        assert len(own) >= len(names)
        assert len(names & set(own)) > len(names) // 2
    for key, parameter in model.named_parameters():
        if key in own:
            expected = parameter.grad.to_host().reshape(own[key].shape)
            atol = 1e-5 * max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(own[key].grad.to_host(), expected, rtol=1e-4, atol=atol, err_msg=key)
    save_model(found, tmp_path / "m.netcl")
    again = load_model(tmp_path / "m.netcl")
    assert not again.training
    np.testing.assert_array_equal(again(x).to_host(), z.to_host())


@pytest.mark.level("programs")
def test_names_stay(tmp_path: Path, rng) -> None:
    export_onnx(IMAGES, sample("images", rng, 2), tmp_path / "m.onnx")
    found = import_onnx(tmp_path / "m.onnx")
    assert set(found.state_dict()) == set(IMAGES.state_dict()) - {"1.num_batches_tracked"}
    assert {name for name, _ in found.named_buffers()} == {"1.running_mean", "1.running_var"}


@pytest.mark.level("programs")
def test_an_imported_model_trains(tmp_path: Path, rng) -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    export_onnx(model, np.zeros((2, 4), np.float32), tmp_path / "m.onnx")
    found = import_onnx(tmp_path / "m.onnx").train()
    x = rng.standard_normal((32, 4)).astype(np.float32)
    target = Tensor.from_host(x.sum(1, keepdims=True))
    losses = []
    for _ in range(60):
        loss = ((found(x) - target) ** 2).mean()
        found.zero_grad()
        loss.backward()
        for parameter in found.parameters():
            parameter.write(parameter.to_host() - 0.05 * parameter.grad.to_host())
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    assert np.abs(dict(found.named_buffers())["1.running_mean"].to_host()).max() > 0.01


@pytest.mark.level("programs")
def test_opsets_and_a_fixed_batch(tmp_path: Path, rng) -> None:
    path = tmp_path / "m.onnx"
    x = sample("rows", rng, 2)
    model = nn.Sequential(nn.Linear(4, 3), nn.GELU())
    for opset, operators in ((17, "Erf"), (20, "Gelu")):
        export_onnx(model, x, path, opset=opset)
        written = onnx.load(path)
        assert written.opset_import[0].version == opset
        assert operators in {node.op_type for node in written.graph.node}
        assert written.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
        np.testing.assert_allclose(evaluate(path, x)[0], model(Tensor.from_host(x)).to_host(), rtol=1e-5, atol=1e-6)
    export_onnx(model, x, path, dynamic_batch=False)
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    with pytest.raises(ValueError, match="expected an opset from 17 to 23, got 9"):
        export_onnx(model, x, path, opset=9)


class Several(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return {"sum": a + b, "both": (a.reshape(-1), b.sum(1))}


@pytest.mark.parametrize(("name", "options"), [("LSTM", {}), ("LSTM", {"proj_size": 2}), ("RNN", {})], ids=str)
@pytest.mark.level("programs")
def test_recurrent_nets_are_written_step_by_step(name: str, options: dict[str, int], tmp_path: Path, rng) -> None:
    model = getattr(nn, name)(3, 4, bidirectional=True, batch_first=True, **options)
    export_onnx(model, Tensor.from_host(rng.normal(size=(2, 3, 3)).astype(np.float32)), tmp_path / "m.onnx")
    x = rng.normal(size=(4, 3, 3)).astype(np.float32)
    out, last = model(Tensor.from_host(x))
    expected = [out, *(last if isinstance(last, tuple) else (last,))]
    for got, wanted in zip(evaluate(tmp_path / "m.onnx", x), expected, strict=True):
        np.testing.assert_allclose(got, wanted.to_host(), rtol=1e-4, atol=1e-5)


@pytest.mark.level("programs")
def test_several_inputs_and_outputs(tmp_path: Path, rng) -> None:
    a, b = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
    path = tmp_path / "m.onnx"
    export_onnx(Several(), (a, b), path)
    found = evaluate(path, a[:2], b[:2])
    np.testing.assert_allclose(found[0], a[:2] + b[:2], rtol=1e-6)
    assert found[1].shape == (8,)
    assert found[2].shape == (2,)
    model = import_onnx(path)
    assert repr(model) == "ONNXModel(input_0, input_1 -> output_0, output_1, output_2, 7 nodes)"
    assert [y.shape for y in model(a, b)] == [(3, 4), (12,), (3,)]
    with pytest.raises(TypeError, match="expected the inputs input_0, input_1, got 1 inputs"):
        model(a)


class Applied(nn.Module):
    """``function`` of a linear layer's output, and what that output is afterwards."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Any) -> Any:
        h = self.layer(x)
        return self.function(h), h


def twice(h: Any) -> Any:
    before = h + 1
    h *= 2
    h.add_(before)
    return h


def through_a_reshape(h: Any) -> Any:
    F.relu(h.reshape(-1), inplace=True)
    return h


def into_a_constant(h: Any) -> Any:
    made = netcl.zeros(h.shape)
    made += 1
    made.copy_(h)
    return made + h.zero_()


WRITES = {
    "layer": nn.Sequential(nn.ReLU(inplace=True), nn.Hardswish(inplace=True)),
    "function": lambda h: F.leaky_relu(h, 0.1, inplace=True),
    "operators": twice,
    "reshape": through_a_reshape,
    "constant": into_a_constant,
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.level("programs")
def test_writes_in_place_are_exported(name: str, tmp_path: Path, rng) -> None:
    model = Applied(WRITES[name])
    x, y = (rng.normal(size=(n, 4)).astype(np.float32) for n in (3, 2))
    given = Tensor.from_host(x)
    export_onnx(model, given, tmp_path / "m.onnx")
    np.testing.assert_array_equal(given.to_host(), x)
    with ag.no_grad():
        expected = model(Tensor.from_host(y))
    for got, wanted in zip(evaluate(tmp_path / "m.onnx", y), expected, strict=True):
        np.testing.assert_allclose(got, wanted.to_host(), rtol=1e-5, atol=1e-6)


def into_a_part(h: Any) -> Any:
    h[:, :2].relu_()
    return h + 1


def after_a_use(h: Any) -> Any:
    made = netcl.zeros((4,))
    first = h + made
    made += 1
    return first + made


def from_the_host(h: Any) -> Any:
    h.write(np.zeros(h.shape, np.float32))
    return h


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (into_a_part, "shares its memory was written"),
        (after_a_use, "a constant is used and then overwritten"),
        (from_the_host, "overwrites a tensor from the host"),
        (lambda h: h.unsqueeze_(0), "changes its shape in place"),
    ],
)
@pytest.mark.level("programs")
def test_writes_in_place_that_are_refused_in_an_export(function: Any, words: str, tmp_path: Path, rng) -> None:
    with pytest.raises(UnsupportedError, match=words):
        export_onnx(Applied(function), rng.normal(size=(3, 4)).astype(np.float32), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


class Sorts(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.reshape(-1).sum() * x if x.shape[0] > 2 else x


@pytest.mark.level("programs")
def test_what_is_refused_in_an_export(tmp_path: Path, rng, monkeypatch) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(UnsupportedError, match="calls other ops for a batch"):
        export_onnx(Sorts(), np.zeros((2, 3), np.float32), path)
    pool = nn.AdaptiveAvgPool2d(3)
    with pytest.raises(UnsupportedError, match="windows of several sizes"):
        export_onnx(pool, np.zeros((1, 1, 4, 4), np.float32), path)
    with pytest.raises(CheckpointError, match="No such file"):
        export_onnx(nn.ReLU(), np.zeros((1, 2), np.float32), tmp_path / "absent" / "m.onnx")
    assert list(tmp_path.iterdir()) == []

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(library.importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'netcl-nn\[onnx\]'"):
        export_onnx(nn.ReLU(), np.zeros((1, 2), np.float32), path)


def graph(nodes: list[Any], initializers: list[Any] = (), opset: int = 17) -> Any:  # type: ignore[assignment]
    info = onnx.helper.make_tensor_value_info
    made = onnx.helper.make_graph(
        nodes, "g", [info("x", 1, ["n", 4])], [info("y", 1, None)], initializer=list(initializers)
    )
    return onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)


def test_what_is_refused_in_an_import(tmp_path: Path, rng) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(CheckpointError, match="No such file"):
        import_onnx(path)
    path.write_bytes(b"no graph at all")
    with pytest.raises(CheckpointError, match=r"m\.onnx: is damaged or no ONNX file"):
        import_onnx(path)
    node = onnx.helper.make_node
    path.write_bytes(graph([node("NonMaxSuppression", ["x", "x"], ["y"])]).SerializeToString())
    with pytest.raises(UnsupportedError, match="not imported: NonMaxSuppression"):
        import_onnx(path)
    path.write_bytes(graph([node("Cast", ["x"], ["y"], to=8)]).SerializeToString())
    with pytest.raises(UnsupportedError, match="casts to STRING"):
        import_onnx(path)
    weight = onnx.helper.make_tensor("w", 1, [4], np.zeros(4, np.float32).tobytes(), raw=True)
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="/etc/passwd")
    path.write_bytes(graph([node("Add", ["x", "w"], ["y"])], [weight]).SerializeToString())
    with pytest.raises(CheckpointError):
        import_onnx(path)
    short = onnx.helper.make_tensor("w", 1, [4], np.zeros(4, np.float32).tobytes(), raw=True)
    short.raw_data = b"\0\0\0\0"
    path.write_bytes(graph([node("Add", ["x", "w"], ["y"])], [short]).SerializeToString())
    with pytest.raises(CheckpointError, match=r"m\.onnx"):
        import_onnx(path)
    whole = graph([node("Relu", ["x"], ["y"])]).SerializeToString()
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        path.write_bytes(damaged)
        with contextlib.suppress(CheckpointError, UnsupportedError):
            import_onnx(path)


def test_shapes_are_computed_on_the_host(tmp_path: Path, rng) -> None:
    """A flattening as exporters write it: Shape, Gather, Concat, Reshape."""
    node = onnx.helper.make_node
    zero = onnx.numpy_helper.from_array(np.array(0, np.int64), "zero")
    rest = onnx.numpy_helper.from_array(np.array([2, 2], np.int64), "rest")
    axes = onnx.numpy_helper.from_array(np.array([0], np.int64), "axes")
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Concat", ["n1", "rest"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["y"]),
    ]
    (tmp_path / "m.onnx").write_bytes(graph(nodes, [zero, rest, axes]).SerializeToString())
    model = import_onnx(tmp_path / "m.onnx")
    for n in (1, 5):
        x = rng.standard_normal((n, 4)).astype(np.float32)
        np.testing.assert_array_equal(model(x).to_host(), x.reshape(n, 2, 2))


def test_indices_that_move_elements(tmp_path: Path, rng) -> None:
    """Gather from the end, OneHot, GatherND and an exclusive CumSum, with indices of the file and of the device."""
    node, array = onnx.helper.make_node, onnx.numpy_helper.from_array
    constants = [
        array(np.array([-1, 0], np.int64), "ends"),
        array(np.array([[0, 1], [1, -1]], np.int64), "pairs"),
        array(np.array(3, np.int64), "depth"),
        array(np.array([0.0, 2.0], np.float32), "values"),
        array(np.array(1, np.int64), "axis"),
    ]
    x = rng.standard_normal((2, 4)).astype(np.float32)
    cases = [
        ([node("Gather", ["x", "ends"], ["y"], axis=1)], x[:, [-1, 0]]),
        ([node("GatherND", ["x", "pairs"], ["y"])], x[[0, 1], [1, -1]]),
        ([node("CumSum", ["x", "axis"], ["y"], exclusive=1)], np.cumsum(x, 1) - x),
        (
            [node("ArgMax", ["x"], ["at"], axis=1, keepdims=0), node("OneHot", ["at", "depth", "values"], ["y"])],
            2.0 * np.eye(4, dtype=np.float32)[x.argmax(1)][:, :3],
        ),
    ]
    for nodes, expected in cases:
        (tmp_path / "m.onnx").write_bytes(graph(nodes, constants).SerializeToString())
        np.testing.assert_allclose(import_onnx(tmp_path / "m.onnx")(x).to_host(), expected, rtol=1e-6, atol=1e-6)
