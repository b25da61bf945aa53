"""torch.utils.data: data sets, samplers and the loader, whose batches are tensors.

Workers are processes of ``netcl.data`` in which tensors are on the NumPy engine; they send arrays, of which the parent
makes tensors on the default device.
"""

from __future__ import annotations

import io
import itertools
import math
import pickle
import runpy
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cache
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

import netcl as nc
from netcl import data
from netcl.core import Tensor
from netcl.core.device import set_default_device
from netcl.data import ConcatDataset as ConcatDataset
from netcl.data import Subset as Subset
from netcl.data import get_worker_info as get_worker_info
from netcl.torch.parts.numbers import Generator

TORCH_NAMES = ("RandomSampler", "Sampler", "SequentialSampler")
T_co = TypeVar("T_co", covariant=True)


# -- data sets


class Dataset(data.Dataset[T_co]):
    """A data set: ``dataset[i]``, and usually ``len(dataset)``."""

    def __getitem__(self, index: int) -> T_co:
        raise TypeError("subclasses of Dataset define __getitem__")

    def __len__(self) -> int:
        raise TypeError(f"object of type {type(self).__name__!r} has no len()")


class IterableDataset(data.IterableDataset[T_co]):
    """A data set that is read in its own order, by the process of the loader."""

    def __iter__(self) -> Iterator[T_co]:
        raise TypeError("subclasses of IterableDataset define __iter__")

    def __add__(self, other: Any) -> ChainDataset:
        return ChainDataset([self, other])


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


def _drawn_seed(generator: Any = None) -> int:
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
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")

    @property
    def num_samples(self) -> int:
        """The number of draws: by default the length of the data set."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = Generator().manual_seed(_drawn_seed()) if self.generator is None else self.generator
        each = 32 if self.replacement else count
        whole, rest = divmod(self.num_samples, each)
        for length in (*[each] * whole, rest):  # the last draw is made for a rest of 0 too, as in PyTorch
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
        return iter(drawn.tolist())

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
        super().__init__(dataset, num_replicas, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)


# -- batches


def default_convert(value: Any) -> Any:
    """Arrays and numbers of NumPy as tensors, in nested tuples, lists and dicts."""
    if isinstance(value, (np.ndarray, np.generic)):
        return nc.as_tensor(np.asarray(value)) if value.dtype.kind in "biuf" else value
    return _mapped(value, default_convert)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A container with its items changed; other values as they are."""
    if isinstance(value, Mapping):
        return {key: change(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[change(item) for item in value])
    if isinstance(value, (tuple, list)):
        return [change(item) for item in value]
    return value


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples of one structure: tensors, arrays and numbers are stacked to tensors, texts are listed.

    A batch of tuples is a list of batches, one of dicts a dict of batches. Raises TypeError for other samples,
    RuntimeError if the containers have different lengths.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return nc.stack(list(batch), 0)
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind in "biuf":
        return nc.as_tensor(np.stack([np.asarray(one) for one in batch]))
    if isinstance(first, bool):
        return nc.tensor(list(batch))
    if isinstance(first, float):
        return nc.tensor(list(batch), dtype="float64")
    if isinstance(first, int):
        return nc.tensor(list(batch), dtype="int64")
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([one[key] for one in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(one) != len(first) for one in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(list(column)) for column in zip(*batch)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )


class _Sent(NamedTuple):
    """A tensor of a worker's batch on its way to the parent."""

    array: Any


def _send(value: Any) -> Any:
    return _Sent(np.ascontiguousarray(value.detach().to_host())) if isinstance(value, Tensor) else _mapped(value, _send)


def _receive(value: Any) -> Any:
    return nc.tensor(value.array) if isinstance(value, _Sent) else _mapped(value, _receive)


class _WorkerCollate:
    """Collates in a worker, and makes arrays of the batch's tensors."""

    def __init__(self, collate: Callable[[Any], Any], batched: bool) -> None:
        self.collate, self.batched = collate, batched

    def __call__(self, samples: list[Any]) -> Any:
        return _send(self.collate(samples if self.batched else samples[0]))


class _Pickler(pickle.Pickler):
    """Writes tensors as arrays, as devices belong to their process."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return _on_numpy, (value.detach().to_host(), value.requires_grad)
        return NotImplemented


def _on_numpy(array: Any, requires_grad: bool) -> Tensor:
    tensor: Tensor = nc.tensor(array, device="numpy")
    return tensor.requires_grad_() if requires_grad else tensor


class _Shipped:
    """A value that arrives in a worker as itself, with its tensors on the NumPy engine, which all tensors of the worker
    are on. A worker runs the main script if the value refers to it, after ``import torch`` means what it does here.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        stream = io.BytesIO()
        _Pickler(stream).dump(value)
        content = stream.getvalue()
        main = getattr(sys.modules["__main__"], "__file__", None) if b"__main__" in content else None
        # Compressed, so that netcl.data finds no reference to the main script.
        self._arguments = (zlib.compress(content, 1), "torch" in sys.modules, main)

    def __getitem__(self, index: int) -> Any:
        return self.value[index]

    def __len__(self) -> int:
        return len(self.value)

    def __call__(self, *args: Any) -> Any:
        return self.value(*args)

    def __reduce__(self) -> Any:
        return _arrived, self._arguments


def _arrived(content: bytes, installed: bool, main: str | None) -> Any:
    if installed:
        from netcl.torch.install import install

        install()
    set_default_device("numpy")
    if main is not None:
        _run_main(main)
    return pickle.loads(zlib.decompress(content))


@cache
def _run_main(path: str) -> None:
    """Runs the main script in a worker, once, under a name that its ``if __name__ == "__main__":`` excludes."""
    module = ModuleType("__mp_main__")
    module.__dict__.update(runpy.run_path(path, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


class DataLoader(Generic[T_co]):
    """Batches of a data set, with PyTorch's arguments.

    ``batch_size=None`` gives samples as they are. With ``num_workers`` processes make the batches, of data sets with
    indices; iterable ones are read by this process. ``pin_memory`` changes nothing.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers):
            raise ValueError("prefetch_factor and persistent_workers need num_workers > 0")
        self.dataset: Any = dataset
        self.batch_size: int | None = batch_size
        self.drop_last: bool = drop_last
        self.num_workers: int = num_workers
        self.pin_memory: bool = pin_memory
        self.timeout: float = timeout
        self.worker_init_fn: Callable[[int], None] | None = worker_init_fn
        self.generator: Any = generator
        self.prefetch_factor: int | None = prefetch_factor
        self.persistent_workers: bool = persistent_workers
        self.multiprocessing_context: Any = multiprocessing_context
        self._streams = isinstance(dataset, data.IterableDataset) or not hasattr(type(dataset), "__getitem__")
        self.sampler: Any
        self.batch_sampler: Any
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
            self.batch_size = None
            self.sampler, self.batch_sampler = getattr(batch_sampler, "sampler", None), batch_sampler
        else:
            self.sampler = self._sampler_of(sampler, shuffle)
            self.batch_sampler = None
            if batch_size is None:
                if drop_last:
                    raise ValueError("batch_size=None disables batches, so it excludes drop_last")
            elif not self._streams:
                self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self._batched = self.batch_size is not None or batch_sampler is not None
        self.collate_fn: Callable[[Any], Any] = collate_fn or (default_collate if self._batched else default_convert)
        self._workers: Any = None

    def _sampler_of(self, sampler: Any, shuffle: bool | None) -> Any:
        if self._streams:
            if shuffle or sampler is not None:
                raise ValueError("an iterable data set has an order of its own: no shuffle, no sampler")
            return None
        if sampler is not None:
            if shuffle:
                raise ValueError("sampler option is mutually exclusive with shuffle")
            return sampler
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        count = len(self.dataset if self._streams else self.sampler)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        base_seed = _drawn_seed(self.generator)  # of the workers; drawn without them too, as in PyTorch
        if self._streams:
            return self._stream()
        return self._in_workers(base_seed) if self.num_workers else self._here()

    def _stream(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def _here(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
            return
        several = getattr(self.dataset, "__getitems__", None)
        for indices in self.batch_sampler:
            yield self.collate_fn(several(indices) if several else [self.dataset[index] for index in indices])

    def _in_workers(self, base_seed: int) -> Iterator[Any]:
        batches = self.batch_sampler if self.batch_sampler is not None else _One(self.sampler)
        if self._workers is None:
            try:
                shipped = [
                    _Shipped(self.dataset),
                    _Shipped(_WorkerCollate(self.collate_fn, self._batched)),
                    None if self.worker_init_fn is None else _Shipped(self.worker_init_fn),
                ]
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                warnings.warn(
                    f"DataLoader: this process makes the batches, as workers cannot get {error}", stacklevel=2
                )
                yield from self._here()
                return
            self._workers = data.DataLoader(
                shipped[0],
                batch_sampler=batches,
                num_workers=self.num_workers,
                collate_fn=shipped[1],
                prefetch=self.prefetch_factor,
                timeout=self.timeout,
                worker_init_fn=shipped[2],
                seed=base_seed,
            )
        try:
            yield from map(_receive, self._workers)
        finally:
            if not self.persistent_workers:
                self._workers.close()
                self._workers = None


class _One:
    """Each index of a sampler as a batch of one."""

    def __init__(self, sampler: Iterable[int]) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[list[int]]:
        return ([index] for index in self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]
