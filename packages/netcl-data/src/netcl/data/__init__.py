"""Datasets, samplers, data loaders, transforms and augmentation of images. Needs NumPy only."""

from __future__ import annotations

import warnings

from netcl.data import augment, augment_gpu, datasets, filters, readers, shared_batch, transforms
from netcl.data.__about__ import __version__
from netcl.data.budget import Budget
from netcl.data.collate import default_collate
from netcl.data.dataset import (
    ArrayDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    random_split,
    split_dataset,
)
from netcl.data.errors import DataFileError, DataLoaderWorkerError
from netcl.data.image_grid import make_grid, save_image
from netcl.data.loader import DataLoader
from netcl.data.readers import (
    CIFAR10Arrays,
    CIFAR100Arrays,
    CSVDataset,
    ImageFolderArrays,
    MNISTArrays,
    NpyDataset,
    example_digits,
)
from netcl.data.sample_random import SampleRandom
from netcl.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from netcl.data.tables import Table, TableEncoding, TableError
from netcl.data.worker_process import WorkerInfo, get_worker_info

__all__ = [
    "CIFAR10Arrays",
    "CIFAR100Arrays",
    "MNISTArrays",
    "ArrayDataset",
    "BatchSampler",
    "Budget",
    "CSVDataset",
    "ConcatDataset",
    "DataFileError",
    "DataLoader",
    "DataLoaderWorkerError",
    "Dataset",
    "DistributedSampler",
    "ImageFolderArrays",
    "IterableDataset",
    "NpyDataset",
    "RandomSampler",
    "SampleRandom",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "Table",
    "TableEncoding",
    "TableError",
    "WeightedRandomSampler",
    "WorkerInfo",
    "__version__",
    "augment",
    "augment_gpu",
    "datasets",
    "default_collate",
    "example_digits",
    "filters",
    "get_worker_info",
    "make_grid",
    "random_split",
    "readers",
    "save_image",
    "shared_batch",
    "split_dataset",
    "transforms",
]


# Names that other classes had, in netcl.data.datasets.
_RENAMED = ("CIFAR10", "CIFAR100", "ImageFolder", "MNIST")


def __getattr__(name: str) -> object:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"netcl.data.{name} is called netcl.data.{name}Arrays; netcl.data.datasets.{name} gives torchvision's samples",
        DeprecationWarning,
        stacklevel=2,
    )
    return globals()[f"{name}Arrays"]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
