"""Samples of classes of netcl-torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import netcl as nc

nc.manual_seed(0)
folder = Path(tempfile.mkdtemp())

# %% netcl.torch_vision.TorchDraws
from netcl.torch_vision import TorchDraws
TorchDraws.__doc__.splitlines()[0]

# %% netcl.torch_vision.datasets.FashionMNIST
from netcl.torch_vision import datasets

raw = folder / "FashionMNIST/raw"
raw.mkdir(parents=True)
head = lambda *sizes: bytes([0, 0, 8, len(sizes)]) + np.array(sizes, ">u4").tobytes()
(raw / "train-images-idx3-ubyte").write_bytes(head(2, 28, 28) + bytes(2 * 28 * 28))
(raw / "train-labels-idx1-ubyte").write_bytes(head(2) + bytes([3, 7]))
datasets.FashionMNIST(folder).targets.tolist()

# %% netcl.torch_vision.datasets.KMNIST
from netcl.torch_vision import datasets

raw = folder / "KMNIST/raw"
raw.mkdir(parents=True)
head = lambda *sizes: bytes([0, 0, 8, len(sizes)]) + np.array(sizes, ">u4").tobytes()
(raw / "train-images-idx3-ubyte").write_bytes(head(2, 28, 28) + bytes(2 * 28 * 28))
(raw / "train-labels-idx1-ubyte").write_bytes(head(2) + bytes([3, 7]))
datasets.KMNIST(folder).targets.tolist()

# %% netcl.torch_vision.datasets.MNIST
from netcl.torch_vision import datasets

raw = folder / "MNIST/raw"
raw.mkdir(parents=True)
head = lambda *sizes: bytes([0, 0, 8, len(sizes)]) + np.array(sizes, ">u4").tobytes()
(raw / "train-images-idx3-ubyte").write_bytes(head(2, 28, 28) + bytes(2 * 28 * 28))
(raw / "train-labels-idx1-ubyte").write_bytes(head(2) + bytes([3, 7]))
datasets.MNIST(folder).targets.tolist()

# %% netcl.torch_vision.io.ImageReadMode
from netcl.torch_vision.io import ImageReadMode
ImageReadMode.RGB.name

# %% netcl.torch_vision.models.ResNet
from netcl.torch_vision.models import resnet18
resnet18(num_classes=3)(nc.randn(2, 3, 32, 32)).shape

# %% netcl.torch_vision.ops.Conv2dNormActivation
from netcl.torch_vision.ops import Conv2dNormActivation
Conv2dNormActivation(3, 8)(nc.randn(1, 3, 4, 4)).shape

# %% netcl.torch_vision.ops.FrozenBatchNorm2d
from netcl.torch_vision.ops import FrozenBatchNorm2d
FrozenBatchNorm2d(3)(nc.randn(1, 3, 4, 4)).shape

# %% netcl.torch_vision.ops.Permute
from netcl.torch_vision.ops import Permute
Permute([0, 2, 3, 1])(nc.randn(1, 3, 4, 4)).shape

# %% netcl.torch_vision.ops.SqueezeExcitation
from netcl.torch_vision.ops import SqueezeExcitation
SqueezeExcitation(8, 2)(nc.randn(1, 8, 4, 4)).shape

# %% netcl.torch_vision.ops.StochasticDepth
from netcl.torch_vision.ops import StochasticDepth
StochasticDepth(0.5)(nc.ones(4, 1))

# %% netcl.torch_vision.transforms.Compose
from netcl.torch_vision import transforms

transforms.Compose([transforms.ToTensor()])(np.zeros((8, 8, 3), np.uint8)).shape

# %% netcl.torch_vision.transforms.PILToTensor
from netcl.torch_vision import transforms

transforms.PILToTensor()(transforms.ToPILImage()(nc.zeros(3, 8, 8))).shape

# %% netcl.torch_vision.transforms.ToPILImage
from netcl.torch_vision import transforms

transforms.ToPILImage()(nc.zeros(3, 8, 8)).size

# %% netcl.torch_vision.transforms.ToTensor
from netcl.torch_vision import transforms

transforms.ToTensor()(np.zeros((8, 8, 3), np.uint8)).shape
