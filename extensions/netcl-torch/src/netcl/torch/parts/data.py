"""torch.utils.data: data sets, samplers, and the functions that make batches of tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

import netcl as nc
from netcl import data
from netcl.core import Tensor
from netcl.data.tree import rebuild, rebuild_mapping
from netcl.torch.mt19937 import MT19937
from netcl.torch.parts.numbers import Generator

TORCH_NAMES = ("RandomSampler", "Sampler", "SequentialSampler")
T_co = TypeVar("T_co", covariant=True)


# -- data sets


class Dataset(Generic[T_co]):
    """A data set: ``dataset[i]``, and usually ``len(dataset)``."""

    def __getitem__(self, index: Any) -> T_co:
        raise TypeError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> Any:
        both: list[Any] = [self, other]
        return ConcatDataset(both)


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """A data set that is read in its own order; each worker reads its own copy, of which ``__iter__`` chooses a part by
    ``get_worker_info()``.
    """

    def __add__(self, other: Any) -> ChainDataset:
        return ChainDataset([self, other])


# Data sets of netcl.data too, which have the same methods; a base class there would ask for ``__len__``.
data.Dataset.register(Dataset)
data.IterableDataset.register(IterableDataset)  # type: ignore[type-abstract]


class ConcatDataset(data.ConcatDataset[T_co], Dataset[T_co]):
    """The concatenation of several data sets with indices."""

    __add__: Any = Dataset.__add__


class Subset(Dataset[T_co]):
    """The samples ``indices`` of a data set, in that order."""

    def __init__(self, dataset: Any, indices: Sequence[Any]) -> None:
        self.dataset: Any = dataset
        self.indices: Sequence[Any] = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[at] for at in index]]  # type: ignore[no-any-return]
        return self.dataset[self.indices[index]]  # type: ignore[no-any-return]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        """The samples of a batch."""
        several = getattr(self.dataset, "__getitems__", None)
        chosen = [self.indices[at] for at in indices]
        return several(chosen) if several else [self.dataset[at] for at in chosen]

    def __len__(self) -> int:
        return len(self.indices)


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors with a common first axis."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertionError("TensorDataset takes tensors with a common first axis")
        self.tensors: tuple[Tensor, ...] = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """The rows of a batch."""
        return [self[index] for index in indices]

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


def gathered_rows(dataset: Any, keys: Sequence[Any]) -> list[Tensor] | None:
    """The collated batch ``keys`` of a TensorDataset, or of a Subset of one, by one gather for each tensor instead of
    one view for each row; None for other data sets and keys, and for keys that are out of range.
    """
    chosen: list[Any] = list(keys)
    while type(dataset) is Subset:
        if not all(isinstance(key, int) for key in chosen):
            return None
        chosen, dataset = [dataset.indices[at] for at in chosen], dataset.dataset
    if type(dataset) is not TensorDataset or not chosen or not all(isinstance(at, int) for at in chosen):
        return None
    tensors, count = dataset.tensors, len(dataset)
    if any(type(tensor) is not Tensor for tensor in tensors) or not -count <= min(chosen) <= max(chosen) < count:
        return None
    queue, positions = tensors[0].queue, np.asarray(chosen)
    rows = Tensor.from_host(queue, positions)  # copied once for all tensors on a device
    return [tensor[rows if tensor.queue is queue else positions] for tensor in tensors]


class ChainDataset(IterableDataset[Any]):
    """Iterable data sets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets: list[Any] = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class StackDataset(Dataset[Any]):
    """Data sets of one length in parallel: a sample is the tuple, or the dict, of their samples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset takes data sets by position, or by name")
        self.datasets: Any = kwargs or args
        lengths = {len(one) for one in (kwargs.values() if kwargs else args)}
        if len(lengths) != 1:
            raise ValueError(f"the data sets have one length, not {sorted(lengths)}")
        (self._length,) = lengths

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: one[index] for name, one in self.datasets.items()}
        return tuple(one[index] for one in self.datasets)

    def __len__(self) -> int:
        return self._length


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset[Any]]:
    """Splits a data set into random parts of the given lengths, or fractions that sum to 1."""
    sizes = [int(n) for n in lengths]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9:
        sizes = [math.floor(len(dataset) * fraction) for fraction in lengths]
        for at in range(len(dataset) - sum(sizes)):
            sizes[at % len(sizes)] += 1
    if sum(sizes) != len(dataset):
        raise ValueError(f"lengths sum to {sum(sizes)}; the data set has {len(dataset)} samples")
    order = _permutation(len(dataset), generator)
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends)]


# -- samplers


def drawn_seed(generator: Any = None) -> int:
    """A seed drawn from a generator, by default the process's."""
    return int(nc.empty((), dtype="int64", device="cpu").random_(generator=generator).item())


def _permutation(count: int, generator: Any) -> list[int]:
    found: list[int] = nc.randperm(count, generator=generator, device="cpu").tolist()
    return found


class Sampler(Generic[T_co]):
    """Yields indices of samples."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[T_co]:
        raise TypeError("subclasses of Sampler define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... in order."""

    def __init__(self, data_source: Sized) -> None:
        super().__init__(data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new permutation each time, or draws with replacement."""

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        super().__init__(data_source)
        self.replacement: bool = replacement
        self._num_samples = num_samples
        self.generator: Any = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            text = f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            raise ValueError(text)

    @property
    def num_samples(self) -> int:
        """The number of draws: by default the length of the data set."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = Generator().manual_seed(drawn_seed()) if self.generator is None else self.generator
        each = 32 if self.replacement else count
        whole, rest = divmod(self.num_samples, each)
        lengths = itertools.chain(itertools.repeat(each, whole), (rest,))  # a sampler may have 10^10 draws
        for length in lengths:  # the last draw is made for a rest of 0 too, as in PyTorch
            if self.replacement:
                yield from nc.randint(0, count, (length,), generator=generator, device="cpu").tolist()
            else:
                yield from _permutation(count, generator)[:length]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a new random order each time."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        super().__init__()
        self.indices: Sequence[int] = indices
        self.generator: Any = generator

    def __iter__(self) -> Iterator[int]:
        for at in _permutation(len(self.indices), self.generator):
            yield int(self.indices[at])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draws with probabilities proportional to ``weights``."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        super().__init__()
        self.weights: Tensor = nc.as_tensor(weights, dtype="float64")
        self.num_samples: int = num_samples
        self.replacement: bool = replacement
        self.generator: Any = generator

    def __iter__(self) -> Iterator[int]:
        drawn = nc.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices of a sampler."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        super().__init__()
        if not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        self.sampler: Any = sampler
        self.batch_size: int = batch_size
        self.drop_last: bool = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(data.DistributedSampler):
    """The part of the indices of one rank of a group, with PyTorch's arguments."""

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from netcl import distributed

            # Without a group, the numbers of the launcher.
            if distributed.is_initialized():
                num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
                rank = distributed.get_rank() if rank is None else rank
        super().__init__(dataset, num_replicas, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """The epoch that ``set_epoch`` has set, 0 before."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the iterations that follow: each of them has the same order, as in PyTorch."""
        super().set_epoch(epoch)
        self._epoch = epoch

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores seed, epoch and position."""
        super().load_state_dict(state)
        self._epoch = self._next[0]

    def begin(self) -> Any:
        """Starts an iteration of the epoch that was set, also if it has run before."""
        if self._next[0] != self._epoch:
            super().set_epoch(self._epoch)
        return super().begin()

    def order(self, epoch: int) -> Any:
        """PyTorch's order of an epoch: ``randperm`` of a generator with the seed ``seed + epoch``."""
        if not self.shuffle:
            return super().order(epoch)
        order = MT19937(self.seed + epoch).randperm(len(self.dataset))
        return np.resize(order, len(self) * self.num_replicas)[self.rank :: self.num_replicas]


# -- batches


def default_convert(value: Any) -> Any:
    """Arrays and numbers of NumPy as tensors, in nested lists, tuples and dicts; a tuple gives a list."""
    if isinstance(value, (np.ndarray, np.generic)):
        return nc.as_tensor(np.asarray(value)) if value.dtype.kind in "biuf" else value
    if isinstance(value, Mapping):
        return rebuild_mapping(value, {key: default_convert(value[key]) for key in value})
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return _as_list(value, [default_convert(item) for item in value])
    return value


def _as_list(like: Sequence[Any], values: list[Any]) -> Any:
    """The values in a list or named tuple of the type of ``like``; in a plain list for other sequences, as PyTorch."""
    return rebuild(like, values) if isinstance(like, list) or hasattr(like, "_fields") else values


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples of one structure: tensors, arrays and numbers are stacked to tensors, texts are kept.

    A batch of tuples is a list of batches; lists, named tuples and dicts keep their types. Raises TypeError for other
    samples, RuntimeError if the containers have different lengths.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return nc.stack(list(batch), 0)
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind in "biuf":
        return nc.as_tensor(np.stack([np.asarray(one) for one in batch]))
    if isinstance(first, float):
        return nc.tensor(list(batch), dtype="float64")
    if isinstance(first, int):
        return nc.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return rebuild_mapping(first, {key: default_collate([one[key] for one in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(one) != len(first) for one in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return _as_list(first, [default_collate(column) for column in zip(*batch)])
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )
