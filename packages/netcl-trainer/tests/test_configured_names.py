"""Every name that a configuration accepts trains: augmentations, losses, optimizers, schedules, callbacks, models."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import nn
from netcl.core.device import device
from netcl.data import save_image
from netcl.trainer.cli import main
from netcl.trainer.cli.build import (
    _AUGMENTATIONS,
    _CALLBACKS,
    _DATASETS,
    _is_layer,
    _model,
    _models,
    _no_part,
    _optimizers,
    _schedules,
)
from netcl.trainer.cli.config import Config
from netcl.trainer.cli.losses import _CLASSES, _LOSSES

IMAGES = """\
[model]
layers = [["Conv2d", 1, 2, 3, {padding = 1}], "ReLU", "Flatten", ["Linear", 128, 10]]
[data]
name = "example_digits"
n = 40
batch_size = 20
validation = 0.25
"""
TRAINER = '[trainer]\ndevice = "cpu"\nepochs = 2\noutput = "out"\n'


def trained(folder: Path, text: str, capsys: Any) -> str:
    """Returns what a run of two epochs prints; fails if it does not end well."""
    path = folder / "train.toml"
    path.write_text(text, encoding="utf-8")
    code = main(["train", str(path)])
    out, error = capsys.readouterr()
    assert code == 0, error
    assert "epoch 2/2" in out
    return str(out)


AUGMENTATIONS = {
    **{name: f'"{name}"' for name in _AUGMENTATIONS if name not in ("mixup", "cutmix")},
    "mixup": '["mixup", 0.4, {num_classes = 10}]',
    "cutmix": '["cutmix", {num_classes = 10}]',
    "several": '["random_crop", {padding = 2}], ["horizontal_flip", {p = 0.2}]',
}


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_every_augmentation_trains(name: str, tmp_path: Path, capsys: Any) -> None:
    """On f3ec1b11 each of them ended the run by a TypeError."""
    trained(tmp_path, IMAGES + f"augment = [{AUGMENTATIONS[name]}]\n" + TRAINER, capsys)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('["random_crop", {pading = 2}]', "unknown argument 'pading'; did you mean 'padding'?"),
        ('["horizontal_flip", {p = 2.0}]', "horizontal_flip: p must be in [0, 1], got 2.0"),
        ('["random_crop", {crop_size = 32}]', "a crop of 32 x 32 does not fit"),
        ('"mixup"', "mixup of class ids needs their number"),
        ('"flip"', "unknown augmentation 'flip'"),
    ],
)
def test_a_wrong_augmentation_is_refused_before_training(
    written: str, message: str, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "train.toml"
    path.write_text(IMAGES + f"augment = [{written}]\n" + TRAINER, encoding="utf-8")
    code = main(["train", str(path)])
    out, error = capsys.readouterr()
    assert (code, "epoch" in out) == (2, False)
    assert message in error
    assert f"{path}:8:" in error


def table(folder: Path, *columns: np.ndarray) -> None:
    rows = "\n".join(",".join(f"{value:g}" for value in row) for row in np.column_stack(columns))
    (folder / "t.csv").write_text("a,b,y\n" + rows + "\n", encoding="utf-8")


def regression(loss: str, head: str) -> str:
    return (
        f'[model]\nlayers = [["Linear", 2, 4], "ReLU", {head}]\n'
        f'[data]\nname = "CSVDataset"\npath = "t.csv"\ntarget = "y"\nbatch_size = 8\n{TRAINER}loss = "{loss}"\n'
    )


@pytest.mark.parametrize("name", [*_LOSSES, *_CLASSES])
def test_every_loss_trains(name: str, tmp_path: Path, capsys: Any) -> None:
    rng = np.random.default_rng(0)
    kind = _CLASSES.get(name, name)
    classes = kind in ("cross_entropy", "nll_loss", "token_cross_entropy")
    signs = {"hinge_loss": [-1.5, 1.5], "binary_cross_entropy_with_logits": [0.5, 0.25]}
    y = rng.integers(0, 3, 20) if classes else rng.choice(signs.get(kind, [0.5, 1.5, 2.5]), 20)
    table(tmp_path, rng.normal(size=20), rng.normal(size=20), y)
    head = '["Linear", 4, 3], ["LogSoftmax", 1]' if classes else '["Linear", 4, 1], ["Flatten", 0]'
    trained(tmp_path, regression(name, head), capsys)


def test_a_target_of_another_shape_is_refused(tmp_path: Path, capsys: Any) -> None:
    """(8, 1) against (8,) was broadcast to (8, 8): the run ended well and had learned nothing."""
    table(tmp_path, *np.random.default_rng(0).normal(size=(3, 20)))
    path = tmp_path / "train.toml"
    path.write_text(regression("mse_loss", '["Linear", 4, 1]'), encoding="utf-8")
    code = main(["train", str(path)])
    error = capsys.readouterr().err
    assert code == 2
    assert f"{path}:12:1: mse_loss: expected an output of the target's shape (8,), got (8, 1)" in error
    assert 'write ["Flatten", 0] as the last of layers' in error


def _idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(head + array.astype(np.uint8).tobytes())


def _files(folder: Path) -> None:
    """Writes a few samples in the format of each reader: images of 32 x 32 in two classes."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (20, 3, 32, 32), np.uint8), np.arange(20) % 2
    for part in ("train", "t10k"):
        _idx(folder / f"{part}-images-idx3-ubyte", images[:, 0])
        _idx(folder / f"{part}-labels-idx1-ubyte", labels)
    flat = images.reshape(20, -1)
    record = np.concatenate([labels[:, None].astype(np.uint8), flat], axis=1)
    for name in (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"):
        (folder / name).write_bytes(record.tobytes())
    for name in ("train.bin", "test.bin"):  # a coarse and a fine label
        (folder / name).write_bytes(np.concatenate([record[:, :1], record], axis=1).tobytes())
    for kind in ("dark", "light"):
        (folder / "images" / kind).mkdir(parents=True)
        for number in range(8):
            save_image(
                np.full((3, 8, 8), 0.1 + 0.5 * (kind == "light"), np.float32),
                folder / "images" / kind / f"{number}.png",
            )
    np.save(folder / "x.npy", rng.normal(size=(20, 4)).astype(np.float32))
    np.save(folder / "y.npy", labels)
    table(folder, rng.normal(size=20), rng.normal(size=20), labels)


DATA = {
    "MNIST": ('root = "."', 1024),
    "CIFAR10": ('root = "."', 3072),
    "CIFAR100": ('root = "."', 3072),
    "ImageFolder": ('root = "images"\nvalidation = 0.25', 192),
    "NpyDataset": ('paths = ["x.npy", "y.npy"]', 4),
    "CSVDataset": ('path = "t.csv"\ntarget = "y"', 2),
    "example_digits": ("n = 40", 64),
}


@pytest.mark.parametrize("name", DATA)
def test_every_data_set_trains(name: str, tmp_path: Path, capsys: Any) -> None:
    if name == "ImageFolder":
        pytest.importorskip("PIL", reason="Pillow, which reads images, is not installed")
    _files(tmp_path)
    keys, width = DATA[name]
    loss = "mse_loss" if name == "CSVDataset" else "cross_entropy"
    last = f'["Linear", {width}, 10]' if loss == "cross_entropy" else f'["Linear", {width}, 1], ["Flatten", 0]'
    text = f'[model]\nlayers = ["Flatten", {last}]\n[data]\nname = "{name}"\nbatch_size = 8\n{keys}\n'
    trained(tmp_path, text + TRAINER + f'loss = "{loss}"\n', capsys)


def test_no_data_set_is_forgotten() -> None:
    assert set(DATA) >= set(_DATASETS) - {"Table"}


@pytest.mark.parametrize("name", _optimizers())
def test_every_optimizer_trains(name: str, tmp_path: Path, capsys: Any) -> None:
    matrices = IMAGES.partition("\n[data]")[2]  # Muon steps no bias
    layers = '[model]\nlayers = ["Flatten", ["Linear", 64, 10, {bias = false}]]\n[data]'
    trained(tmp_path, layers + matrices + f'[optimizer]\nname = "{name}"\n' + TRAINER, capsys)


SCHEDULES = {
    "SWALR": "swa_lr = 0.01",
    "CosineAnnealingLR": "T_max = 2",
    "CosineAnnealingWarmRestarts": "T_0 = 2",
    "CyclicLR": "base_lr = 0.001\nmax_lr = 0.01",
    "ExponentialLR": "gamma = 0.9",
    "MultiStepLR": "milestones = [1]",
    "OneCycleLR": "max_lr = 0.01\ntotal_steps = 4",
    "StepLR": "step_size = 1",
    "WarmupCosine": "max_epochs = 2\nwarmup_epochs = 1",
}


@pytest.mark.parametrize("name", _schedules())
def test_every_schedule_trains(name: str, tmp_path: Path, capsys: Any) -> None:
    text = f'[optimizer]\nname = "SGD"\nmomentum = 0.9\n[scheduler]\nname = "{name}"\n{SCHEDULES.get(name, "")}\n'
    trained(tmp_path, IMAGES + text + TRAINER, capsys)


NEEDS = {"TensorBoardLogger": "tensorboardX", "WandbLogger": "wandb", "MLflowLogger": "mlflow"}


@pytest.mark.parametrize("name", _CALLBACKS)
def test_every_callback_trains(name: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    path = tmp_path / "train.toml"
    options = 'mode = "offline"\n' if name == "WandbLogger" else ""
    path.write_text(f"{IMAGES}{TRAINER}[callbacks.{name}]\n{options}", encoding="utf-8")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlflow").as_uri())
    monkeypatch.chdir(tmp_path)
    code = main(["train", str(path)])
    out, error = capsys.readouterr()
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        assert (code, f"needs {NEEDS[name]}" in error) == (1, True)
    else:
        assert (code, "epoch 2/2" in out) == (0, True), error


MODELS = {
    "MLP": "input_dim = 64\nhidden_dim = 8\noutput_dim = 10",
    "TableMLP": "inputs = 64\noutputs = 10",
    "GPT": "vocab_size = 8\nblock_size = 4\nn_layer = 1\nn_head = 1\nn_embd = 8",
}


@pytest.mark.parametrize("name", _models())
def test_every_model_is_made_of_its_defaults(name: str, tmp_path: Path) -> None:
    path = tmp_path / "train.toml"
    path.write_text(f'[model]\nname = "{name}"\n{MODELS.get(name, "")}\n', encoding="utf-8")
    with device("cpu"):
        model = _model(Config(path).table("model"))
    assert sum(parameter.size for parameter in model.parameters()) > 0


LAYERS = {name: getattr(nn, name) for name in nn.__all__ if _is_layer(getattr(nn, name))}
# Arguments of layers, in TOML, and the shape of a sample if it is not the image's of the layer's dimensions.
ARGUMENTS = {
    "AdaptiveAvgPool": "2",
    "AdaptiveMaxPool": "2",
    "AvgPool": "2",
    "BatchNorm": "{channels}",
    "ChannelShuffle": "2",
    "CircularPad": "1",
    "ConstantPad": "1, 0.5",
    "Conv": "{channels}, 3, 2",
    "ConvTranspose": "{channels}, 3, 2",
    "DepthwiseConv": "{channels}, 3",
    "Embedding": "17, 3",
    "EmbeddingBag": "17, 3",
    "Fold": "8, 2, {{stride = 2}}",
    "FractionalMaxPool": "2, {{output_size = 2}}",
    "GPT": "17, {{block_size = 64, n_layer = 1, n_head = 2, n_embd = 8}}",
    "GRUCell": "64, 5",
    "GroupNorm": "2, {channels}",
    "InstanceNorm": "{channels}",
    "LPPool": "2.0, 2",
    "LayerNorm": "64",
    "LazyConv": "3, 2",
    "LazyConvTranspose": "3, 2",
    "LazyLinear": "5",
    "Linear": "64, 5",
    "LocalResponseNorm": "2",
    "MaxPool": "2",
    "PixelShuffle": "2",
    "PixelUnshuffle": "2",
    "RMSNorm": "64",
    "RNNCell": "64, 5",
    "ReflectionPad": "1",
    "ReplicationPad": "1",
    "RotaryEmbedding": "8",
    "SyncBatchNorm": "{channels}",
    "Threshold": "0.1, 0.0",
    "TransformerEncoderLayer": "8, 2, {{dim_feedforward = 8}}",
    "Unflatten": "1, [8, 8]",
    "Unfold": "2",
    "Upsample": "{{scale_factor = 2}}",
    "UpsamplingBilinear": "{{scale_factor = 2}}",
    "UpsamplingNearest": "{{scale_factor = 2}}",
    "VisionTransformer": "{{image_size = 32, patch_size = 8, dim = 8, depth = 1, heads = 2}}",
    "ZeroPad": "1",
}
SHAPES = {
    "FractionalMaxPool3d": [1, 4, 4, 4],
    "LocalResponseNorm": [4, 4, 4],
    "PixelUnshuffle": [1, 8, 8],
    "SmallVGG": [1, 8, 8],
    "Unfold": [1, 8, 8],
    "Upsample": [1, 8, 8],
    "VisionTransformer": [1, 8, 8],
    "ChannelShuffle": [4, 4, 4],
    "Fold": [4, 16],
    "GLU": [64],
    "GlobalAvgPool2d": [4, 4, 4],
    "PixelShuffle": [4, 4, 4],
    "RotaryEmbedding": [2, 4, 8],
    "Softmax2d": [4, 4, 4],
    "TransformerEncoderLayer": [8, 8],
    "Unflatten": [64],
}
OF_DIMENSIONS = {"1d": [2, 32], "2d": [4, 4, 4], "3d": [2, 2, 4, 4]}
# Pictures of 32 x 32 in color.
PHOTOS = "SmallVGG", "VisionTransformer"
IDS = "Embedding", "EmbeddingBag", "GPT"
DIGITS = """
import numpy as np
from netcl.data import ArrayDataset, example_digits

def digits(ids=False):
    x, y = example_digits(n=16)
    return ArrayDataset((x * 16).astype(np.int64).reshape(16, 64) if ids else x, y)
"""


@pytest.mark.filterwarnings("ignore:the step is not compiled. host data")  # FractionalMaxPool2d and 3d, EmbeddingBag
@pytest.mark.parametrize("name", [name for name in LAYERS if _no_part(LAYERS[name]) is None])
def test_every_layer_trains(name: str, tmp_path: Path, capsys: Any) -> None:
    plain, dimensions = (name[:-2], name[-2:]) if name[-2:] in OF_DIMENSIONS else (name, "")
    shape = SHAPES.get(name, OF_DIMENSIONS.get(dimensions, [64]))
    written = ARGUMENTS.get(plain, "").format(channels=shape[0])
    first = "" if name in IDS else f'["Flatten"], ["Unflatten", 1, {shape}], '
    first += '["Conv2d", 1, 3, 1], ["Upsample", {scale_factor = 4}], ' if name in PHOTOS else ""
    (tmp_path / "digits.py").write_text(DIGITS, encoding="utf-8")
    text = f'[model]\nlayers = [{first}["{name}"{", " if written else ""}{written}], "Flatten", ["LazyLinear", 10]]\n'
    data = f'[data]\nfile = "digits.py"\nname = "digits"\nids = {str(name in IDS).lower()}\nbatch_size = 8\n'
    trained(tmp_path, text + data + TRAINER, capsys)


@pytest.mark.parametrize("name", [name for name in LAYERS if _no_part(LAYERS[name]) is not None])
def test_what_is_no_layer_of_a_configuration_is_refused_with_the_reason(name: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "train.toml"
    path.write_text(f'[model]\nlayers = [["{name}"]]\n' + "[data]" + IMAGES.partition("[data]")[2], encoding="utf-8")
    assert main(["train", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}:2:1: layer 0 of [model]: {name} " in error
    assert "write " in error
