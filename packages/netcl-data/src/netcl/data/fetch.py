"""BatchBuilder and StreamReader: make batches from sample indices, in this process and in workers alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from netcl.data.augment import PairFilter
from netcl.data.collate import default_collate
from netcl.data.dataset import batch_reader
from netcl.data.filters import Filter
from netcl.data.sample_random import SampleRandom, preserved_globals, sample_keys, seed_globals
from netcl.data.tree import first_field, rebuild, replace_first

# Random streams of SampleRandom: transforms may run per sample or per batch, so augmentation must not continue their
# count.
_TRANSFORMS, _AUGMENT = 0, 1


def as_functions(argument: Any, name: str) -> tuple[Callable[..., Any], ...]:
    """Returns None, one callable or a sequence of them as a tuple. Raises TypeError for anything else."""
    functions = () if argument is None else (argument,) if callable(argument) else tuple(argument)
    for function in functions:
        if not callable(function):
            raise TypeError(f"{name} must be a callable or a sequence of callables, got {function!r}")
    return functions


def _add_sample_note(error: BaseException, index: Any) -> None:
    """Adds the index of the sample to the traceback (Python 3.11 or later)."""
    if hasattr(error, "add_note"):
        error.add_note(f"netcl.data: while reading sample {index!r}")


class StreamEnd(Exception):  # a signal, as StopIteration is
    """Raised by the ``build`` of a builder with its own stream: it has no more batches of this epoch."""


class BatchBuilder:
    """Reads, transforms, collates and augments the samples of a batch.

    Random numbers depend on (seed, epoch, sample): the numbers of filters and augmentations, and, while user code runs
    (dataset, transforms, collate_fn, augment), also ``random`` and ``numpy.random``.
    """

    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[list[Any]], Any] | None,
        transforms: Sequence[Callable[..., Any]],
        augment: Sequence[Callable[..., Any]],
    ) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.transforms: tuple[Callable[..., Any], ...] = tuple(transforms)
        self.augment: tuple[Callable[..., Any], ...] = tuple(augment)
        self.leaves_globals = True  # not needed in a worker process, which has no other user of them
        self.failed_index: Any = None
        vectorised = collate_fn is None and all(isinstance(function, Filter) for function in self.transforms)
        self._read_batch = batch_reader(dataset) if vectorised else None
        self._seeds_augment = not all(isinstance(function, (Filter, PairFilter)) for function in self.augment)

    def __reduce__(self) -> tuple[type[BatchBuilder], tuple[Any, ...]]:
        return type(self), (self.dataset, self.collate_fn, self.transforms, self.augment)

    def build(self, seed: int, epoch: int, indices: Any) -> Any:
        """Returns the batch of the samples ``indices`` (an int64 array or a list of keys)."""
        self.failed_index = None
        if self._read_batch is not None:
            batch = self._read_batch(indices)
            if self.transforms:
                rng = SampleRandom(seed, epoch, indices)
                batch = _apply_all(self.transforms, batch, rng)
        else:
            keys = indices if isinstance(indices, list) else indices.tolist()
            batch = self._collated(lambda index: self.dataset[index], keys, seed, epoch)
        return self._augment(batch, seed, epoch, indices)

    def build_from(self, samples: list[Any], seed: int, epoch: int, first: int) -> Any:
        """Returns the batch of samples ``first``, ``first + 1``, ... of a stream."""
        self.failed_index = None
        indices = list(range(first, first + len(samples)))
        batch = self._collated(lambda index: samples[index - first], indices, seed, epoch)
        return self._augment(batch, seed, epoch, indices)

    def _collated(self, read: Callable[[Any], Any], indices: list[Any], seed: int, epoch: int) -> Any:
        """Returns the batch of the samples ``read(index)``, each transformed by its own random numbers."""
        with self.preserving_globals():
            samples = []
            for index, key in zip(indices, sample_keys(seed, epoch, indices).tolist()):
                try:
                    seed_globals(key)
                    samples.append(self._transform(read(index), seed, epoch, index))
                except Exception as error:
                    self.failed_index = index
                    _add_sample_note(error, index)
                    raise
            return self._collate(samples)

    def preserving_globals(self) -> Any:
        """Returns a context that restores ``random`` and ``numpy.random`` if this process must keep their states."""
        return preserved_globals() if self.leaves_globals else nullcontext()

    def _transform(self, sample: Any, seed: int, epoch: int, index: Any) -> Any:
        if not self.transforms:
            return sample
        rng, value = SampleRandom(seed, epoch, [index]), first_field(sample)
        for function in self.transforms:
            value = _filter_one(function, value, rng) if isinstance(function, Filter) else function(value)
        return replace_first(sample, value)

    def _collate(self, samples: list[Any]) -> Any:
        return default_collate(samples) if self.collate_fn is None else self.collate_fn(samples)

    def _augment(self, batch: Any, seed: int, epoch: int, indices: Any) -> Any:
        if not self.augment:
            return batch
        rng = SampleRandom(seed, epoch, indices, _AUGMENT)
        if not self._seeds_augment:
            return _apply_all(self.augment, batch, rng)
        with self.preserving_globals():
            seed_globals(rng.batch_key())
            return _apply_all(self.augment, batch, rng)


def _filter_one(function: Filter, image: Any, rng: SampleRandom) -> Any:
    if isinstance(image, Mapping):
        raise TypeError(f"{type(function).__name__} acts on the first field of a sample, got a dict: give a callable")
    return function(image, rng)


def _apply_all(functions: Sequence[Callable[..., Any]], batch: Any, rng: SampleRandom) -> Any:
    """Applies the functions: Filters to the first field, PairFilters to the first two, others to (batch, rng)."""
    for function in functions:
        if not isinstance(function, (Filter, PairFilter)):
            batch = function(batch, rng)
        elif isinstance(function, Filter) and not isinstance(batch, Mapping):
            batch = replace_first(batch, function.on_batch(first_field(batch), rng))
        elif isinstance(function, PairFilter) and isinstance(batch, (tuple, list)) and len(batch) >= 2:
            images, labels = function(batch[0], batch[1], rng)
            batch = rebuild(batch, [images, labels, *batch[2:]])
        else:
            fields = "first field" if isinstance(function, Filter) else "first two fields"
            raise TypeError(
                f"{type(function).__name__} acts on the {fields} of a tuple or list, but the batch is a "
                f"{type(batch).__name__}: give a callable (batch, rng) -> batch"
            )
    return batch


class StreamReader:
    """Reads an IterableDataset from the start of an epoch; each sample is read with its own seed of the global
    generators.
    """

    def __init__(self, builder: BatchBuilder, seed: int, epoch: int) -> None:
        self._builder, self._seed, self._epoch = builder, seed, epoch
        self.position: int = 0
        set_epoch = getattr(builder.dataset, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        with builder.preserving_globals():
            seed_globals(int(sample_keys(seed, epoch, [-1])[0]))
            self._iterator: Iterator[Any] = iter(builder.dataset)

    def read(self, count: int) -> list[Any]:
        """Returns the next ``count`` samples, fewer at the end of the stream."""
        samples: list[Any] = []
        keys = sample_keys(self._seed, self._epoch, range(self.position, self.position + count)).tolist()
        with self._builder.preserving_globals():
            for key in keys:
                seed_globals(key)
                try:
                    samples.append(next(self._iterator))
                except StopIteration:
                    break
                except Exception as error:
                    self._builder.failed_index = self.position
                    _add_sample_note(error, self.position)
                    raise
                self.position += 1
        return samples

    def skip_to(self, position: int) -> None:
        """Reads and drops the samples before ``position``."""
        while self.position < position:
            before = self.position
            self.read(min(1024, position - before))
            if self.position == before:
                return
