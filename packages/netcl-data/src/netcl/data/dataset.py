"""Datasets: map-style, iterable, arrays in memory, and their concatenation, subsets and splits."""

from __future__ import annotations

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from netcl.data.sample_random import SeedSource, check_seed

T_co = TypeVar("T_co", covariant=True)
Indices = npt.NDArray[np.int64]


class Dataset(ABC, Generic[T_co]):
    """A map-style dataset: ``dataset[i]`` for 0 <= i < ``len(dataset)``.

    A sample is an array, a number, a text, or a tuple, list or dict of them, usually ``(input, label)``. The loader
    accepts any object with these two methods, for example a list.

    A dataset that can read many samples at once may define ``get_batch(indices)``: int64 (n,) -> the collated batch.
    The loader then calls it instead of ``dataset[i]`` and collation. It must not draw random numbers.
    """

    @abstractmethod
    def __getitem__(self, index: int) -> T_co: ...

    @abstractmethod
    def __len__(self) -> int: ...

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(ABC, Generic[T_co]):
    """A stream of samples; each ``iter(dataset)`` restarts it and must yield the same samples in the same order.

    ``set_epoch(epoch)``, if defined, is called before each pass. Each worker process reads the whole stream and keeps
    its own batches, so the order is the same as with one process; put expensive work per sample into ``transforms``.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[T_co]: ...


def as_indices(indices: Any, length: int, what: str) -> Indices:
    """Returns sample indices as int64 (n,); negative ones count from the end.

    Raises:
        TypeError: not integers. ValueError: not one-dimensional. IndexError: outside of [-length, length).
    """
    array = np.asarray(indices)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, got shape {array.shape}")
    array = array.astype(np.int64)
    outside = (array < -length) | (array >= length)
    if outside.any():
        raise IndexError(f"{what} holds {int(array[outside][0])}, but the dataset has {length} samples")
    return np.where(array < 0, array + length, array)


class ArrayDataset(Dataset[Any]):
    """Arrays with a common first axis: sample i is ``(a[i], b[i], ...)``, or ``a[i]`` of a single array.

    The arrays are not copied. A batch is one ``take`` per array.

    Raises:
        ValueError: there is no array, an array is 0-d, or the lengths differ.
    """

    def __init__(self, *arrays: npt.ArrayLike) -> None:
        self.arrays: tuple[npt.NDArray[Any], ...] = tuple(np.asarray(array) for array in arrays)
        if not self.arrays:
            raise ValueError("ArrayDataset needs at least one array")
        shapes = [array.shape for array in self.arrays]
        if any(not shape for shape in shapes) or len({shape[0] for shape in shapes}) != 1:
            raise ValueError(f"the arrays of an ArrayDataset must have first axes of one length, got shapes {shapes}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> Any:
        if len(self.arrays) == 1:
            return self.arrays[0][index]
        return tuple(array[index] for array in self.arrays)

    def get_batch(self, indices: Indices) -> Any:
        """Returns the samples ``indices``, int64 (n,), as new arrays (n, ...): a tuple if there are several arrays."""
        if len(self.arrays) == 1:
            return self.arrays[0].take(indices, axis=0)
        return tuple([array.take(indices, axis=0) for array in self.arrays])


class ConcatDataset(Dataset[T_co]):
    """The concatenation of several datasets.

    Raises:
        ValueError: there is no dataset. TypeError: one is a stream.
    """

    def __init__(self, datasets: Sequence[Dataset[T_co]]) -> None:
        self.datasets: list[Dataset[T_co]] = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset needs at least one dataset")
        for dataset in self.datasets:
            require_indexed(dataset, "ConcatDataset")
        self.cumulative_sizes: list[int] = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"index {index} is outside of a dataset of {len(self)} samples")
        part = bisect.bisect_right(self.cumulative_sizes, position)
        return self.datasets[part][position - (self.cumulative_sizes[part - 1] if part else 0)]


class Subset(Dataset[T_co]):
    """The samples ``indices`` of a dataset, in that order.

    Raises:
        TypeError, ValueError, IndexError: ``indices`` is not a list of sample indices of the dataset.
    """

    def __init__(self, dataset: Dataset[T_co], indices: npt.ArrayLike) -> None:
        require_indexed(dataset, "Subset")
        self.dataset = dataset
        self.indices: Indices = as_indices(indices, len(dataset), "indices")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> T_co:
        return self.dataset[int(self.indices[index])]


def require_indexed(dataset: Any, user: str) -> None:
    """Raises TypeError unless ``dataset`` has ``dataset[i]`` and ``len(dataset)``."""
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise TypeError(f"{user} needs a dataset with dataset[i] and len(dataset), got {type(dataset).__name__}")


def batch_reader(dataset: Any) -> Callable[[Indices], Any] | None:
    """Returns the function that reads many samples of ``dataset`` at once, int64 (n,) -> batch, or None if there is
    none.
    """
    for owner in type(dataset).__mro__:
        names = vars(owner)
        if "get_batch" in names:
            return cast("Callable[[Indices], Any]", dataset.get_batch)
        if owner is Subset:
            return _subset_reader(dataset)
        if "__getitem__" in names:
            # The subclass overrides __getitem__: the inherited get_batch would return other samples.
            return None
    return None


def _subset_reader(subset: Subset[Any]) -> Callable[[Indices], Any] | None:
    inner, indices = batch_reader(subset.dataset), subset.indices
    return None if inner is None else lambda positions: inner(indices[positions])


def _sizes(length: int, lengths: Sequence[float]) -> list[int]:
    """Returns the sizes of the parts from ints that sum to ``length``, or from fractions that sum to 1 (the first part
    gets the remainder).
    """
    if all(isinstance(size, (int, np.integer)) for size in lengths):
        sizes = [int(size) for size in lengths]
    else:
        if not math.isclose(sum(lengths), 1.0, abs_tol=1e-9):
            raise ValueError(f"fractions must add up to 1, got {list(lengths)}")
        sizes = [math.floor(length * size + 1e-9) for size in lengths]
        for part in range(length - sum(sizes)):
            sizes[part % len(sizes)] += 1
    if any(size < 0 for size in sizes) or sum(sizes) != length:
        raise ValueError(f"lengths must be >= 0 and add up to the dataset's {length} samples, got {list(lengths)}")
    return sizes


def random_split(
    dataset: Dataset[T_co],
    lengths: Sequence[float],
    generator: SeedSource | None = None,
    *,
    seed: int | None = None,
) -> list[Subset[T_co]]:
    """Splits a dataset into random parts without replacement.

    ``lengths``: sample counts that sum to ``len(dataset)``, or fractions that sum to 1; samples left over by rounding
    go to the first parts, one each. The same ``seed`` gives the same parts,
    or the same state of ``generator``, a netcl.Generator.
    """
    require_indexed(dataset, "random_split")
    sizes = _sizes(len(dataset), lengths)
    order = np.random.default_rng(check_seed(seed, generator)).permutation(len(dataset))
    return _parts(dataset, order, sizes)


def split_dataset(
    dataset: Dataset[T_co],
    right_size: float = 0.2,
    *,
    shuffle: bool = False,
    seed: int | None = None,
) -> tuple[Subset[T_co], Subset[T_co]]:
    """Splits a dataset into ``(left, right)``; the right part, the last samples, is the held-out set.

    ``right_size``: a sample count (int), or a fraction (float in [0, 1], rounded to the nearest count).
    ``shuffle=True`` draws the parts at random by ``seed``.
    """
    require_indexed(dataset, "split_dataset")
    length = len(dataset)
    if isinstance(right_size, (int, np.integer)):
        right = int(right_size)
    else:
        right = round(length * right_size) if 0.0 <= right_size <= 1.0 else -1
    if not 0 <= right <= length:
        raise ValueError(
            f"right_size must be an int from 0 to the dataset's {length} samples or a float from 0 to 1, "
            f"got {right_size!r}"
        )
    order = np.random.default_rng(check_seed(seed)).permutation(length) if shuffle else np.arange(length)
    first, second = _parts(dataset, order, [length - right, right])
    return first, second


def _parts(dataset: Dataset[T_co], order: Indices, sizes: Sequence[int]) -> list[Subset[T_co]]:
    bounds = [0, *itertools.accumulate(sizes)]
    return [Subset(dataset, order[low:high]) for low, high in itertools.pairwise(bounds)]
