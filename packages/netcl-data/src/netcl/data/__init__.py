"""Datasets, samplers, data loaders, transforms and augmentation of images. Needs NumPy only."""

from __future__ import annotations

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
from netcl.data.readers import CIFAR10, CIFAR100, MNIST, CSVDataset, ImageFolder, NpyDataset, example_digits
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
    "CIFAR10",
    "CIFAR100",
    "MNIST",
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
    "ImageFolder",
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


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
