"""Shapes and arguments that do not fit a layer: the error names the layer and what it takes."""

from __future__ import annotations

import subprocess
import sys
import traceback

import numpy as np
import pytest

from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError, UnsupportedError

WRONG: list[tuple[nn.Module, tuple[int, ...], str]] = [
    (nn.Linear(5, 3), (2, 4), r"Linear\(in_features=5.*\(\.\.\., 5\).*\(2, 4\)"),
    (nn.Conv2d(3, 4, 3), (2, 4, 5, 5), r"Conv2d\(3, 4.*\(N, 3, H, W\).*\(2, 4, 5, 5\)"),
    (nn.Conv2d(3, 4, 3), (5, 5), r"\(N, 3, H, W\) or \(3, H, W\), got \(5, 5\)"),
    (nn.ConvTranspose1d(3, 4, 3), (2, 4, 5), r"\(N, 3, L\)"),
    (nn.BatchNorm1d(3), (2, 3, 4, 4), r"\(N, 3\) or \(N, 3, L\)"),
    (nn.BatchNorm2d(3), (2, 4, 5, 5), r"BatchNorm2d\(3.*\(N, 3, H, W\)"),
    (nn.LayerNorm((3, 4)), (2, 4, 3), r"\(\.\.\., 3, 4\)"),
    (nn.RMSNorm(4), (), r"\(\.\.\., 4\)"),
    (nn.GroupNorm(2, 4), (2, 3), r"\(N, 4, \.\.\.\)"),
    (nn.InstanceNorm2d(3), (3, 4), r"\(N, 3, H, W\) or \(3, H, W\)"),
    (nn.MaxPool2d(2), (3, 4), r"\(N, C, H, W\) or \(C, H, W\)"),
    (nn.PReLU(3), (2, 4), r"\(N, 3, \.\.\.\)"),
    (nn.GLU(), (2, 3), "even"),
    (nn.Unflatten(1, (2, 2)), (2, 5), r"\(2, 5\)"),
    (nn.Dropout2d(), (3,), r"dropout2d: expected x \(N, C, ...\)"),
    (nn.ZeroPad2d(1), (2, 3), r"\(N, C, H, W\)"),
]


@pytest.mark.parametrize(("layer", "shape", "message"), WRONG, ids=lambda value: type(value).__name__)
def test_a_wrong_shape_names_the_layer_and_what_it_takes(
    layer: nn.Module, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        layer(Tensor.zeros(shape))


def test_wrong_arguments() -> None:
    for make, message in (
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups=2"),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "kernel_size"),
        (lambda: nn.Conv2d(3, 4, 3, padding="some"), "'some'"),
        (lambda: nn.Conv2d(3, 4, 3, padding="same", stride=2), "stride of 1"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "'mirror'"),
        (lambda: nn.GroupNorm(3, 4), "num_groups=3"),
        (lambda: nn.Dropout(1.5), "1.5"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx=3"),
        (lambda: nn.GELU("exact"), "'exact'"),
        (lambda: nn.Upsample(), "expected either size or scale_factor"),
        (lambda: nn.ZeroPad2d((1, 2)), "4 of them"),
        (lambda: nn.MSELoss("average"), "'average'"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


# Each layer that has parameters and takes floats, and the shapes of its inputs.
DOUBLE: list[tuple[nn.Module, tuple[tuple[int, ...], ...]]] = [
    (nn.Linear(3, 2), ((4, 3),)),
    (nn.Bilinear(3, 3, 2), ((4, 3), (4, 3))),
    (nn.PReLU(), ((4, 3),)),
    (nn.PReLU(3), ((4, 3),)),
    (nn.Conv1d(3, 2, 3), ((1, 3, 5),)),
    (nn.Conv2d(3, 2, 3), ((1, 3, 5, 5),)),
    (nn.Conv3d(3, 2, 3), ((1, 3, 5, 5, 5),)),
    (nn.ConvTranspose1d(3, 2, 3), ((1, 3, 5),)),
    (nn.ConvTranspose2d(3, 2, 3), ((1, 3, 5, 5),)),
    (nn.ConvTranspose3d(3, 2, 3), ((1, 3, 5, 5, 5),)),
    (nn.DepthwiseConv2d(3, 3), ((1, 3, 5, 5),)),
    (nn.SyncBatchNorm(3), ((2, 3, 4, 4),)),
    (nn.BatchNorm1d(3), ((4, 3),)),
    (nn.BatchNorm2d(3), ((4, 3, 2, 2),)),
    (nn.BatchNorm3d(3), ((4, 3, 2, 2, 2),)),
    (nn.LayerNorm(3), ((4, 3),)),
    (nn.RMSNorm(3), ((4, 3),)),
    (nn.GroupNorm(1, 3), ((4, 3),)),
    (nn.InstanceNorm1d(3, affine=True), ((4, 3, 5),)),
    (nn.InstanceNorm2d(3, affine=True), ((4, 3, 5, 2),)),
    (nn.InstanceNorm3d(3, affine=True), ((4, 3, 5, 2, 2),)),
    (nn.RNN(3, 2), ((4, 1, 3), (1, 1, 2))),
    (nn.LSTM(3, 2), ((4, 1, 3),)),
    (nn.GRU(3, 2), ((4, 1, 3), (1, 1, 2))),
    (nn.RNNCell(3, 2), ((4, 3), (4, 2))),
    (nn.LSTMCell(3, 2), ((4, 3),)),
    (nn.GRUCell(3, 2), ((4, 3), (4, 2))),
    (nn.MultiheadAttention(4, 2), ((5, 1, 4), (5, 1, 4), (5, 1, 4))),
    (nn.TransformerEncoderLayer(4, 2, 8), ((5, 1, 4),)),
    (nn.TransformerDecoderLayer(4, 2, 8), ((5, 1, 4), (5, 1, 4))),
    (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1), ((5, 1, 4),)),
    (nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 1), ((5, 1, 4), (5, 1, 4))),
    (nn.Transformer(4, 2, 1, 1, 8), ((5, 1, 4), (5, 1, 4))),
    (nn.VisionTransformer(8, 4, 3, 8, 1, 2), ((1, 3, 8, 8),)),
    (nn.SmallVGG(), ((1, 3, 32, 32),)),
]
OF_IDS = {"Embedding", "EmbeddingBag", "GPT"}  # with integers as input


@pytest.mark.parametrize(("layer", "shapes"), DOUBLE, ids=lambda value: getattr(type(value), "__name__", ""))
def test_float64_and_float32_are_not_mixed(layer: nn.Module, shapes: tuple[tuple[int, ...], ...]) -> None:
    layer.eval()
    for own, other in (("float32", "float64"), ("float64", "float32")):
        layer.to(dtype=own)(*(Tensor.ones(shape, own) for shape in shapes))
        for wrong in range(len(shapes)):
            inputs = [Tensor.ones(shape, other if at == wrong else own) for at, shape in enumerate(shapes)]
            with pytest.raises(DTypeError, match=rf"(?s)\(.* has parameters in {own} and takes no {other}"):
                layer(*inputs)


@pytest.mark.parametrize("layer", [nn.LSTM(3, 2), nn.LSTMCell(3, 2)])
def test_the_states_of_an_lstm_are_not_mixed_with_it(layer: nn.Module) -> None:
    shapes = ((2, 1, 3), (1, 1, 2)) if isinstance(layer, nn.LSTM) else ((1, 3), (1, 2))
    x, state = (Tensor.ones(shape) for shape in shapes)
    for states in ((state, state.double()), (state.double(), state)):
        with pytest.raises(DTypeError, match=r"LSTM.* has parameters in float32 and takes no float64"):
            layer(x, states)


def test_every_layer_with_parameters_refuses_another_precision() -> None:
    losses = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3]), nn.LinearCrossEntropyLoss(4, 10)
    for loss in losses:
        with pytest.raises(DTypeError, match="has parameters in float32 and takes no float64"):
            loss(Tensor.ones((2, 4), "float64"), Tensor.from_host(np.array([1, 5])))
    covered = {type(layer).__name__ for layer in (*losses, *(layer for layer, _ in DOUBLE))} | OF_IDS | {"RNNBase"}
    for name, known in vars(nn).items():
        if not isinstance(known, type) or not issubclass(known, nn.Module) or name in covered:
            continue
        if name.startswith("Lazy"):  # parameters have no shape yet; then the layer is one of the others
            continue
        made = None
        for arguments in ((), (4,), (3, 3), (3, 3, 3), (1, (1, 3))):
            try:
                made = known(*arguments)
                break
            except (TypeError, ValueError, AttributeError):
                continue
        assert made is not None, name
        assert not list(made.parameters()), name


@pytest.mark.parametrize("given", [[[1.0, 2.0, 3.0]], np.ones((2, 3), np.float32)], ids=["list", "array"])
def test_host_data_in_place_of_a_tensor(given) -> None:
    with pytest.raises(TypeError, match=f"Linear: expected tensors, got {type(given).__name__}; write netcl.tensor"):
        nn.Sequential(nn.Linear(3, 2), nn.ReLU())(given)


def test_errors_of_layers_show_few_frames() -> None:
    with pytest.raises(ShapeError, match="expected x") as caught:
        nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(3, 2)))(Tensor.zeros((2, 4)))
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2

    class Mine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 2)

        def forward(self, x):
            return self.inner(x)

    with pytest.raises(ShapeError, match="inner in Mine") as caught:
        Mine()(Tensor.zeros((2, 4)))
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["forward", "__call__"]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: nn.Dropout3d()(x),
        lambda x: nn.functional.dropout3d(x),
        lambda x: nn.Sequential(nn.Dropout3d())(x),
    ],
    ids=["layer", "function", "container"],
)
def test_the_warning_of_a_layer_names_the_line_of_the_caller(call) -> None:
    with pytest.warns(UserWarning, match="has no 3 axes") as caught:
        call(Tensor.zeros((2, 3)))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("wrong", [3, "text", ["a"], object()])
def test_a_wrong_argument_of_a_function_is_named(wrong: object) -> None:
    x = Tensor.ones((2, 3))
    calls = (
        lambda: nn.functional.linear(x, wrong),
        lambda: nn.functional.embedding_bag(wrong, wrong),
        lambda: nn.functional.softmax(wrong),
        lambda: nn.init.xavier_normal_(wrong),
    )
    for call in calls:
        with pytest.raises(UnsupportedError, match="expected a Tensor as (weight|input|tensor), got"):
            call()
    with pytest.raises(UnsupportedError, match="dropout: expected a float as p, got str 'a'"):
        nn.functional.dropout(x, "a")


@pytest.mark.parametrize("module", ["netcl.nn", "netcl.io"])
def test_a_subinterpreter_is_refused_before_numpy_is_imported(module: str) -> None:
    script = f"""
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
code = ["try:", "    import {module}", "except ImportError as error:", "    print(error, flush=True)"]
run(interpreters.create(), chr(10).join(code))
import numpy
print(numpy.arange(2).tolist())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    refusal, numbers = done.stdout.splitlines()
    assert refusal.startswith("netcl runs in the main interpreter of a process alone"), done.stderr
    assert numbers == "[0, 1]"


def test_errors_are_of_the_classes_of_pytorchs():
    x, attention = Tensor.ones((2, 3, 5)), nn.MultiheadAttention(4, 2)
    for kind, call in (
        (ValueError, lambda: nn.functional.dropout(x, -1.0)),
        (ValueError, lambda: nn.functional.dropout(x, -1.0, training=False)),
        (ValueError, lambda: nn.functional.dropout1d(x, 2.0, training=False)),
        (ValueError, lambda: nn.functional.alpha_dropout(x, -1.0)),
        (ValueError, lambda: nn.functional.group_norm(Tensor.ones((1, 3)), 3)),
        (ValueError, lambda: nn.GroupNorm(3, 3)(Tensor.ones((1, 3)))),
        (KeyError, lambda: nn.Module().register_parameter("a.b", None)),
        (KeyError, lambda: nn.Module().register_buffer("", None)),
        (KeyError, lambda: nn.Module().add_module("forward", None)),
        (ValueError, lambda: nn.Module().add_module("forward", None)),
        (NotImplementedError, lambda: nn.Module()(x)),
        (TypeError, lambda: nn.Module()(x)),
        (AssertionError, lambda: attention(x, x, x)),
        (ShapeError, lambda: attention(x, x, x)),
    ):
        with pytest.raises(kind):
            call()
    with pytest.raises(KeyError) as caught:
        nn.Module().register_parameter("a.b", None)
    assert str(caught.value) == "a name in a module has no dot and is not empty: 'a.b'"
