"""Image datasets with torchvision's names, folders and samples: (PIL image, class id), then transformed.

``netcl.data.MNISTArrays``, ``CIFAR10Arrays``, ``CIFAR100Arrays`` and ``ImageFolderArrays`` give arrays; the classes
here have the names and the layout of torchvision. ``budget``, which torchvision does not have, limits the memory that
each file may take. Files are read from the folders that torchvision writes to, and nothing is downloaded. If Pillow is
not installed, the images of MNIST, CIFAR and FakeData are arrays, (H, W) or (H, W, 3), which all transforms take.

Example:
    >>> from netcl.data.datasets import FakeData
    >>> from netcl.data.transforms import ToTensor
    >>> image, label = FakeData(size=10, image_size=(3, 8, 8), transform=ToTensor())[0]
    >>> image.shape, image.dtype
    ((3, 8, 8), dtype('float32'))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from netcl.data.array_pickles import read_array_pickle
from netcl.data.budget import Budget
from netcl.data.dataset import Dataset
from netcl.data.image_files import opened_image
from netcl.data.readers import read_idx
from netcl.data.transforms.functional import to_pil_image
from netcl.data.transforms.images import Image, pillow

__all__ = [
    "CIFAR10", "CIFAR100", "IMG_EXTENSIONS", "KMNIST", "MNIST", "DatasetFolder", "FakeData", "FashionMNIST",
    "ImageFolder", "VisionDataset", "default_loader", "find_classes", "has_file_allowed_extension", "make_dataset",
]  # fmt: skip

Array = npt.NDArray[Any]
PathLike = str | os.PathLike[str]
Transformation = Callable[[Any], Any]

IMG_EXTENSIONS: tuple[str, ...] = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def _has_pillow() -> bool:
    try:
        import PIL.Image
    except ImportError:
        return False
    return PIL.Image is not None


def _picture(rows: Array) -> Any:
    """Returns uint8 pixels (H, W) or (H, W, 3) as a PIL image; unchanged if Pillow is not installed."""
    return pillow("datasets").fromarray(rows) if _has_pillow() else rows


class VisionDataset(Dataset[Any]):
    """Base class: a folder ``root`` and the functions that change images and targets.

    ``transforms`` takes (image, target) and excludes the other two.
    """

    def __init__(
        self,
        root: PathLike | None = None,
        transforms: Callable[[Any, Any], Any] | None = None,
        transform: Transformation | None = None,
        target_transform: Transformation | None = None,
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("give transforms, or transform and target_transform, not both")
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform: Transformation | None = transform
        self.target_transform: Transformation | None = target_transform
        self.transforms: Callable[[Any, Any], Any] | None = transforms

    def __getitem__(self, index: int) -> Any:
        raise TypeError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} must define __len__")

    def transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """Returns an image and a target changed by the functions of this dataset."""
        if self.transforms is not None:
            image, target = self.transforms(image, target)
            return image, target
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def extra_repr(self) -> str:
        """Returns a line for ``repr``; empty for none."""
        return ""

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"Root location: {self.root}")
        lines += self.extra_repr().splitlines()
        if self.transforms is not None or self.transform is not None or self.target_transform is not None:
            lines.append("StandardTransform" if self.transforms is None else repr(self.transforms))
            for name, function in (("Transform", self.transform), ("Target transform", self.target_transform)):
                if function is not None:
                    first, *rest = repr(function).splitlines()
                    lines += [f"{name}: {first}", *(" " * (len(name) + 2) + line for line in rest)]
        return "\n".join([f"Dataset {type(self).__name__}", *(f"    {line}" for line in lines)])


class FakeData(VisionDataset):
    """Images of noise with random labels: sample i has the numbers that torchvision draws for it.

    ``image_size``: (C, H, W); ``random_offset`` is added to the index, which seeds the numbers.
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Transformation | None = None,
        target_transform: Transformation | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, transform=transform, target_transform=target_transform)
        self.size: int = size
        self.num_classes: int = num_classes
        self.image_size: tuple[int, int, int] = image_size
        self.random_offset: int = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < self.size:
            raise IndexError(f"index {index} is outside of a dataset of {self.size} samples")
        bits = np.random.RandomState(index + self.random_offset)
        planes = _normal(bits, self.image_size)
        target = int(bits.randint(0, 1 << 32, dtype=np.uint32)) % self.num_classes
        # As a conversion from float to uint8 in C: cut, and wrapped around.
        values = (planes * np.float32(255)).astype(np.int64).astype(np.uint8)
        image = to_pil_image(values.view(Image)) if _has_pillow() else np.ascontiguousarray(values.transpose(1, 2, 0))
        return self.transformed(image, target)

    def __len__(self) -> int:
        return self.size


def _normal(bits: np.random.RandomState, shape: Sequence[int]) -> Array:
    """Returns PyTorch's ``randn(shape)`` on the CPU, to rounding, from a Mersenne Twister with its seed.

    Sixteen uniform numbers of 24 bits give sixteen normal ones by Box and Muller's method, the first eight the radii;
    the last sixteen are drawn again if the count is no multiple. Raises ValueError for fewer than 16 numbers.
    """
    count = int(np.prod(shape))
    if count < 16:
        raise ValueError(f"FakeData: image_size must have at least 16 values, got {tuple(shape)}")

    def drawn(n: int) -> Array:
        raw = bits.randint(0, 1 << 32, n, dtype=np.uint32) & np.uint32((1 << 24) - 1)
        pairs = (raw.astype(np.float32) * np.float32(2.0**-24)).reshape(-1, 2, 8)
        radius = np.sqrt(np.float32(-2) * np.log(np.float32(1) - pairs[:, 0]))
        angle = np.float32(2 * np.pi) * pairs[:, 1]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)

    whole = count // 16 * 16
    if whole == count:
        return drawn(count).reshape(shape)
    # The uniform numbers of the rest are drawn too, and replaced.
    first = drawn(whole)
    bits.randint(0, 1 << 32, count - whole, dtype=np.uint32)
    return np.concatenate([first[: count - 16], drawn(16)]).reshape(shape)


class MNIST(VisionDataset):
    """MNIST: (PIL image of mode L, 28 x 28, label) from ``root/MNIST/raw``.

    Reads ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte`` (``t10k-`` with ``train=False``), also with
    ``.gz``. ``data`` is uint8 (n, 28, 28), ``targets`` int64 (n,). ``download=True`` is accepted if the files are
    there.

    Raises:
        RuntimeError: a file is missing. ValueError: a file is damaged.
    """

    classes: ClassVar[list[str]] = [
        f"{digit} - {name}"
        for digit, name in enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"))
    ]

    def __init__(
        self,
        root: PathLike,
        train: bool = True,
        transform: Transformation | None = None,
        target_transform: Transformation | None = None,
        download: bool = False,
        *,
        budget: Budget | None = None,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train: bool = train
        part = "train" if train else "t10k"
        self.data: Any = self.stored(read_idx(self._file(f"{part}-images-idx3-ubyte"), 3, budget))
        self.targets: Any = self.stored(read_idx(self._file(f"{part}-labels-idx1-ubyte"), 1, budget, np.int64))
        if len(self.data) != len(self.targets):
            raise ValueError(f"{self.raw_folder} holds {len(self.data)} images and {len(self.targets)} labels")

    @property
    def raw_folder(self) -> str:
        """The folder of the files, ``root/<name of the class>/raw``."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        """The folder that older versions of torchvision wrote to; nothing is read from it."""
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The class ids by their names."""
        return {name: number for number, name in enumerate(self.classes)}

    def _file(self, name: str) -> Path:
        for folder in (Path(self.raw_folder), Path(self.root)):
            for ending in ("", ".gz"):
                if (folder / (name + ending)).is_file():
                    return folder / (name + ending)
        raise RuntimeError(_missing(type(self).__name__, f"{name} or {name}.gz", self.raw_folder))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        rows, label = self.sample(index)
        return self.transformed(_picture(rows), label)

    def stored(self, array: Array) -> Any:
        """Returns an array as ``data`` or ``targets`` keeps it; a subclass may keep another kind."""
        return array

    def sample(self, index: int) -> tuple[Array, int]:
        """Returns the pixels (28, 28) and the label of a sample, as ``data`` and ``targets`` have them now."""
        return np.asarray(self.data[index]), int(self.targets[index])

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


def _missing(name: str, files: str, folder: str) -> str:
    return f"{name}: {files} is not in {folder}; netcl downloads nothing: put the files of torchvision's {name} there"


class FashionMNIST(MNIST):
    """Fashion-MNIST, from ``root/FashionMNIST/raw``; see MNIST."""

    classes: ClassVar[list[str]] = [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ]


class KMNIST(MNIST):
    """Kuzushiji-MNIST, from ``root/KMNIST/raw``; see MNIST."""

    classes: ClassVar[list[str]] = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class CIFAR10(VisionDataset):
    """CIFAR-10: (PIL image of mode RGB, 32 x 32, label) from ``root/cifar-10-batches-py``.

    The batches are pickles; their arrays, lists and texts are read, and nothing is run. ``data`` is uint8 (n, 32, 32,
    3), ``targets`` a list. ``download=True`` is accepted if the files are there.

    Raises:
        RuntimeError: a file is missing. ValueError: a file is damaged.
    """

    base_folder: ClassVar[str] = "cifar-10-batches-py"
    _files: ClassVar[tuple[list[str], list[str]]] = ([f"data_batch_{number}" for number in range(1, 6)], ["test_batch"])
    _names: ClassVar[tuple[str, str, str]] = ("batches.meta", "label_names", "labels")

    def __init__(
        self,
        root: PathLike,
        train: bool = True,
        transform: Transformation | None = None,
        target_transform: Transformation | None = None,
        download: bool = False,
        *,
        budget: Budget | None = None,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train: bool = train
        meta, names, labels = self._names
        parts, targets = [], []
        for name in self._files[0 if train else 1]:
            entry = self._read(name, budget)
            data = entry.get("data")
            if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072:
                raise ValueError(f"{self._path(name)} has no images: 'data' must be uint8 (n, 3072)")
            parts.append(data)
            classes_of_file = entry.get(labels, ())
            if not isinstance(classes_of_file, list) or not all(
                isinstance(target, (int, np.integer)) for target in classes_of_file
            ):
                raise ValueError(f"{self._path(name)} has no list of classes under {labels!r}")
            targets += [int(target) for target in classes_of_file]
        images = np.concatenate(parts).reshape(-1, 3, 32, 32)
        if len(images) != len(targets):
            raise ValueError(f"{self._path('')} holds {len(images)} images and {len(targets)} labels")
        self.data: Any = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
        self.targets: list[int] = targets
        titles = self._read(meta, budget).get(names, ())
        if not isinstance(titles, (list, tuple)):
            raise ValueError(f"{self._path(meta)} has no list of names under {names!r}")
        self.classes: list[str] = [str(title)[:1000] for title in titles]
        self.class_to_idx: dict[str, int] = {name: number for number, name in enumerate(self.classes)}

    def _path(self, name: str) -> Path:
        return Path(self.root) / self.base_folder / name

    def _read(self, name: str, budget: Budget | None) -> dict[str, Any]:
        path = self._path(name)
        if not path.is_file():
            raise RuntimeError(_missing(type(self).__name__, name, str(path.parent)))
        entry = read_array_pickle(path, budget)
        if not isinstance(entry, dict):
            raise ValueError(f"{path} holds no dictionary")
        return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in entry.items()}

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.transformed(_picture(self.data[index]), self.targets[index])

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """CIFAR-100 with its 100 classes, from ``root/cifar-100-python``; see CIFAR10."""

    base_folder: ClassVar[str] = "cifar-100-python"
    _files: ClassVar[tuple[list[str], list[str]]] = (["train"], ["test"])
    _names: ClassVar[tuple[str, str, str]] = ("meta", "fine_label_names", "fine_labels")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """True if a file's name ends in one of the extensions, which are in lower case."""
    return filename.lower().endswith(extensions)


def find_classes(directory: PathLike) -> tuple[list[str], dict[str, int]]:
    """Returns the names of the folders of ``directory`` in alphabetical order, and their numbers.

    Raises:
        FileNotFoundError: there is none.
    """
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"{directory} has no folders of classes: files are expected in {directory}/<class>/")
    return classes, {name: number for number, name in enumerate(classes)}


def make_dataset(
    directory: PathLike,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """Returns (path, class id) of the files in the folders of the classes, at all depths, in alphabetical order.

    Give ``extensions`` or ``is_valid_file``.

    Raises:
        FileNotFoundError: a class has no file, unless ``allow_empty``.
    """
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("give extensions or is_valid_file, and not both")
    ids = find_classes(directory)[1] if class_to_idx is None else class_to_idx
    samples, present = [], set()
    for name in sorted(ids):
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            for file in sorted(files):
                path = os.path.join(folder, file)
                if has_file_allowed_extension(path, extensions) if extensions is not None else is_valid_file(path):  # type: ignore[misc]
                    samples.append((path, ids[name]))
                    present.add(name)
    empty = sorted(set(ids) - present)
    if empty and not allow_empty:
        endings = (
            ""
            if extensions is None
            else f" that ends in {', '.join([extensions] if isinstance(extensions, str) else extensions)}"
        )
        raise FileNotFoundError(f"{directory}: the classes {', '.join(empty)} have no file{endings}")
    return samples


def default_loader(path: str, *, budget: Budget | None = None) -> Any:
    """Reads an image file as a PIL image of mode RGB.

    Raises:
        ImportError: Pillow is missing. ValueError: the file is no whole image, or has more pixels than ``budget``
            allows for its size.
    """
    with opened_image(path, "ImageFolder", budget) as image:
        return image.convert("RGB")


class DatasetFolder(VisionDataset):
    """Files in one folder per class: (``loader(path)``, class id).

    Give ``extensions`` of the files, or ``is_valid_file(path)``. ``classes``, ``class_to_idx``, ``samples`` (path,
    class id) and ``targets`` describe them.

    Raises:
        FileNotFoundError: there is no class, or one without files, unless ``allow_empty``.
    """

    def __init__(
        self,
        root: PathLike,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Transformation | None = None,
        target_transform: Transformation | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader: Callable[[str], Any] = loader
        self.extensions: tuple[str, ...] | None = extensions
        classes, class_to_idx = self.find_classes(self.root)
        self.classes: list[str] = classes
        self.class_to_idx: dict[str, int] = class_to_idx
        self.samples: list[tuple[str, int]] = self.make_dataset(
            self.root, class_to_idx, extensions, is_valid_file, allow_empty
        )
        self.targets: list[int] = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(
        directory: PathLike,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """Returns (path, class id) of the files; a subclass may choose others."""
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: PathLike) -> tuple[list[str], dict[str, int]]:
        """Returns the classes and their numbers; a subclass may choose others."""
        return find_classes(directory)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self.transformed(self.loader(path), target)


class ImageFolder(DatasetFolder):
    """Image files in one folder per class: (PIL image of mode RGB, class id); needs Pillow.

    ``imgs`` is another name of ``samples``. ``budget`` limits ``default_loader``; other loaders ignore it.
    """

    def __init__(
        self,
        root: PathLike,
        transform: Transformation | None = None,
        target_transform: Transformation | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        budget: Budget | None = None,
    ) -> None:
        if budget is not None and loader is default_loader:
            loader = partial(default_loader, budget=budget)
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs: list[tuple[str, int]] = self.samples
