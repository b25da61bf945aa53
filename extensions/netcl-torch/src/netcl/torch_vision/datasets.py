"""``torchvision.datasets``: the datasets of netcl.data, MNIST with tensors; names of downloads raise when called."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from netcl.core import Tensor
from netcl.data import datasets as on_host
from netcl.data.datasets import CIFAR10 as CIFAR10
from netcl.data.datasets import CIFAR100 as CIFAR100
from netcl.data.datasets import IMG_EXTENSIONS as IMG_EXTENSIONS
from netcl.data.datasets import DatasetFolder as DatasetFolder
from netcl.data.datasets import FakeData as FakeData
from netcl.data.datasets import ImageFolder as ImageFolder
from netcl.data.datasets import VisionDataset as VisionDataset
from netcl.data.datasets import default_loader as default_loader
from netcl.data.datasets import find_classes as find_classes
from netcl.data.datasets import has_file_allowed_extension as has_file_allowed_extension
from netcl.data.datasets import make_dataset as make_dataset
from netcl.torch_vision.refused import refused
from netcl.torch_vision.tensors import tensor_of

__all__ = [*on_host.__all__]

Array = npt.NDArray[Any]


class MNIST(on_host.MNIST):
    """MNIST from local files, with ``data`` uint8 (n, 28, 28) and ``targets`` int64 (n,) as tensors.

    Both may be replaced or written in place; samples follow.
    """

    # Addresses of downloads, which programs replace; nothing reads them here.
    mirrors: ClassVar[list[str]] = []
    resources: ClassVar[list[tuple[str, str]]] = []

    def stored(self, array: Array) -> Any:
        return tensor_of(array)

    def sample(self, index: int) -> tuple[Array, int]:
        return _host_values(self, "data")[index], int(_host_values(self, "targets")[index])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_copies"}


def _host_values(dataset: Any, name: str) -> Array:
    """Returns an attribute of a dataset as an array: a copy of a tensor, made again after the tensor has changed."""
    value = getattr(dataset, name)
    if not isinstance(value, Tensor):
        return np.asarray(value)
    copies: dict[str, tuple[Tensor, int, Array]] = vars(dataset).setdefault("_copies", {})
    known = copies.get(name)
    if known is None or known[0] is not value or known[1] != value.version:
        known = (value, value.version, value.to_host())
        copies[name] = known
    return known[2]


class FashionMNIST(MNIST, on_host.FashionMNIST):
    """Fashion-MNIST from local files; see MNIST."""


class KMNIST(MNIST, on_host.KMNIST):
    """Kuzushiji-MNIST from local files; see MNIST."""


__getattr__, __dir__ = refused("datasets", globals())
