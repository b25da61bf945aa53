"""Datasets, samplers, data loaders, transforms and augmentation of images. Needs NumPy only."""

from __future__ import annotations

import warnings

from netcl.data import augment as augment
from netcl.data import augment_gpu as augment_gpu
from netcl.data import datasets as datasets
from netcl.data import filters as filters
from netcl.data import readers as readers
from netcl.data import shared_batch as shared_batch
from netcl.data import transforms as transforms
from netcl.data.__about__ import __version__ as __version__
from netcl.data.budget import Budget as Budget
from netcl.data.collate import default_collate as default_collate
from netcl.data.dataset import ArrayDataset as ArrayDataset
from netcl.data.dataset import ConcatDataset as ConcatDataset
from netcl.data.dataset import Dataset as Dataset
from netcl.data.dataset import IterableDataset as IterableDataset
from netcl.data.dataset import Subset as Subset
from netcl.data.dataset import random_split as random_split
from netcl.data.dataset import split_dataset as split_dataset
from netcl.data.errors import DataFileError as DataFileError
from netcl.data.errors import DataLoaderWorkerError as DataLoaderWorkerError
from netcl.data.image_grid import make_grid as make_grid
from netcl.data.image_grid import save_image as save_image
from netcl.data.loader import DataLoader as DataLoader
from netcl.data.readers import CIFAR10Arrays as CIFAR10Arrays
from netcl.data.readers import CIFAR100Arrays as CIFAR100Arrays
from netcl.data.readers import CSVDataset as CSVDataset
from netcl.data.readers import ImageFolderArrays as ImageFolderArrays
from netcl.data.readers import MNISTArrays as MNISTArrays
from netcl.data.readers import NpyDataset as NpyDataset
from netcl.data.readers import example_digits as example_digits
from netcl.data.sample_random import SampleRandom as SampleRandom
from netcl.data.sampler import BatchSampler as BatchSampler
from netcl.data.sampler import DistributedSampler as DistributedSampler
from netcl.data.sampler import RandomSampler as RandomSampler
from netcl.data.sampler import Sampler as Sampler
from netcl.data.sampler import SequentialSampler as SequentialSampler
from netcl.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from netcl.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from netcl.data.tables import Table as Table
from netcl.data.tables import TableEncoding as TableEncoding
from netcl.data.tables import TableError as TableError
from netcl.data.worker_process import WorkerInfo as WorkerInfo
from netcl.data.worker_process import get_worker_info as get_worker_info

__all__ = [
    *("__version__", "augment", "augment_gpu", "datasets", "filters", "readers", "shared_batch", "transforms"),
    *(
        name
        for name, value in globals().items()
        if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
    ),
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
