"""DataLoader: batches in a reproducible order, loaded in this process or by workers, resumable at any batch."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.data.dataset import ArrayDataset, IterableDataset, require_indexed
from netcl.data.device_transfer import prefetch_one, to_device
from netcl.data.fetch import BatchBuilder, StreamReader, as_functions
from netcl.data.sample_random import SeedSource, check_seed
from netcl.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, positioned_sampler

if TYPE_CHECKING:
    from netcl.data.workers import WorkerPool

_STATE_VERSION = 1
_LEAST_MOST_WORKERS, _WORKERS_PER_CORE = 256, 16  # the number of workers is bounded by the larger
_STATE_KEYS = {"version", "seed", "epoch", "batch", "batch_size", "sampler"}


@dataclass(frozen=True)
class _EpochPlan:
    """One epoch to run: its number, the batches and samples yielded before, and the remaining index batches (None for a
    stream).
    """

    epoch: int
    first_batch: int
    first_position: int
    batches: Iterator[Any] | None


class DataLoader:
    """Batches of NumPy arrays, or of device tensors.

    A batch has the structure of a sample; see ``default_collate``. Each ``iter(loader)`` runs the next epoch. With the
    same ``seed``, batches are bit-identical for any ``num_workers``, and after a resume.

    Args:
        dataset: ``dataset[i]`` and ``len(dataset)``; an IterableDataset; or one array or a tuple of arrays with a
            common first axis, short for ``ArrayDataset``.
        batch_size: samples per batch.
        shuffle: a new random order each epoch.
        drop_last: drop a short last batch.
        num_workers: processes that make the batches; 0: this process. They start at the first ``iter`` and run until
            ``close`` (each has a copy of the dataset). A script that defines the dataset, or a callable, itself needs
            ``if __name__ == "__main__":``, as each worker runs it once.
        sampler: yields sample indices, in place of ``shuffle``.
        batch_sampler: yields lists of indices, in place of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        collate_fn: list of samples -> batch.
        transforms: callables on a sample's input (its first field), before collation. Filters of ``netcl.data.filters``
            run on whole batches if the dataset has ``get_batch``, with the same result.
        augment: callables on a batch, after collation. Callables of ``netcl.data.filters`` and ``augment`` act on the
            inputs (mixup and cutmix on the labels too); any other is called with ``(batch, rng)`` and returns a batch.
        seed: fixes the order and every random number by (seed, epoch, sample), including ``random`` and
            ``numpy.random`` in ``dataset[i]`` and the callables. None: drawn from the generator that
            ``netcl.manual_seed`` seeds if netcl.core is loaded, or NETCL_SEED, else a random seed.
        prefetch: batches in flight per worker (2).
        timeout: seconds to wait for one batch of a worker; 0: no limit as long as the worker is alive.
        start_method: "forkserver", "spawn", or "fork", which is refused once pyopencl is loaded; None chooses.
        worker_init_fn: called with the worker's number in each worker.
        use_shared_mem: pass batches through shared memory instead of pipes. These five have no effect without workers.
        device_queue: a queue or DeviceHandle of netcl.core: arrays become ``netcl.core.Tensor``; their transfer is
            started one batch ahead.
        pin_memory: stage these transfers in page-locked memory.

    Raises:
        ValueError, TypeError: arguments that are wrong or exclude each other.
        DataLoaderWorkerError: while iterating; a worker died, stopped responding or raised.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 32,
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        num_workers: int = 0,
        sampler: Sampler | Iterable[Any] | None = None,
        batch_sampler: BatchSampler | Iterable[Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        transforms: Any = None,
        seed: int | None = None,
        prefetch: int | None = None,
        timeout: float = 0,
        start_method: str | None = None,
        worker_init_fn: Callable[[int], None] | None = None,
        use_shared_mem: bool = True,
        device_queue: Any = None,
        pin_memory: bool = False,
        augment: Any = None,
        generator: SeedSource | None = None,
    ) -> None:
        self.num_workers: int = _count("num_workers", num_workers, 0)
        most = max(_LEAST_MOST_WORKERS, _WORKERS_PER_CORE * (os.cpu_count() or 1))
        if self.num_workers > most:
            raise ValueError(f"num_workers must be at most {most} on this machine, got {num_workers}")
        self.prefetch: int = 2 if prefetch is None else _count("prefetch", prefetch, 1)
        if not timeout >= 0:
            raise ValueError(f"timeout must be >= 0 seconds (0: no limit), got {timeout!r}")
        if pin_memory and device_queue is None:
            warnings.warn("pin_memory=True has no effect without device_queue=", UserWarning, stacklevel=2)
        self.dataset: Any = _as_dataset(dataset)
        self.seed: int = check_seed(seed, generator)
        self.device_queue: Any | None = device_queue
        self.pin_memory: bool = pin_memory
        self.timeout: float = timeout
        self.start_method: str | None = start_method
        self.worker_init_fn: Callable[..., None] | None = worker_init_fn
        self.use_shared_mem: bool = use_shared_mem
        self._builder = BatchBuilder(
            self.dataset, collate_fn, as_functions(transforms, "transforms"), as_functions(augment, "augment")
        )
        self._streams = isinstance(self.dataset, IterableDataset)
        self.batch_sampler: BatchSampler | Iterable[Any] | None
        self.batch_size: int | None
        if batch_sampler is not None:
            if batch_size != 32 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
            if self._streams:
                raise ValueError("an IterableDataset has an order of its own: leave batch_sampler out")
            self.batch_sampler = batch_sampler
            self.batch_size = None
            self.drop_last: bool = False
            if isinstance(batch_sampler, BatchSampler):
                self.batch_size, self.drop_last = batch_sampler.batch_size, batch_sampler.drop_last
        else:
            self.batch_size, self.drop_last = _count("batch_size", batch_size, 1), bool(drop_last)
            self.batch_sampler = self._make_batch_sampler(sampler, shuffle)
        self._pool: WorkerPool | None = None
        self._next = (0, 0)  # epoch and first batch of the next iteration
        self._current = (0, 0)  # epoch, and batches yielded in it
        self._sampler_state: dict[str, Any] | None = None  # of a custom sampler, at the start of its epoch

    def _make_batch_sampler(self, sampler: Any, shuffle: bool) -> BatchSampler | None:
        assert self.batch_size is not None
        if self._streams:
            if shuffle or sampler is not None:
                raise ValueError("an IterableDataset has an order of its own: leave shuffle and sampler out")
            return None
        if sampler is None:
            sampler = RandomSampler(self.dataset, seed=self.seed) if shuffle else SequentialSampler(self.dataset)
        elif shuffle:
            raise ValueError("sampler and shuffle=True exclude each other: the sampler makes the order")
        return BatchSampler(sampler, self.batch_size, self.drop_last)

    @property
    def sampler(self) -> Any:
        """The sampler of the batch sampler; None for a stream or a custom batch sampler."""
        return getattr(self.batch_sampler, "sampler", None)

    @property
    def _own_sampler(self) -> Sampler | None:
        """The sampler that keeps epoch and position, if it is a Sampler of netcl.data, else None."""
        return None if self.batch_sampler is None else positioned_sampler(self.batch_sampler)

    @property
    def epoch(self) -> int:
        """The epoch of the next ``iter``."""
        sampler = self._own_sampler
        return self._next[0] if sampler is None else sampler.epoch

    def set_epoch(self, epoch: int) -> None:
        """Makes the next ``iter`` run epoch ``epoch``: from its start, or from a loaded position inside that epoch."""
        _count("epoch", epoch, 0)
        if self._own_sampler is not None:
            self._own_sampler.set_epoch(epoch)
        elif self._next[0] != epoch or not self._next[1]:
            self._next = self._current = (epoch, 0)
            self._sampler_state = None

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items() if name != "data")
        return f"DataLoader({self._facts()['data']}, {facts})"

    def _repr_html_(self) -> str:
        """Returns the table of settings that a notebook shows."""
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts().items()
        )
        return f"<table class='netcl-loader'>{rows}</table>"

    def _facts(self) -> dict[str, str]:
        """Returns the settings by name, as short texts."""
        samples = f" of {len(self.dataset):,} samples" if hasattr(self.dataset, "__len__") else ""
        facts = {"data": f"{type(self.dataset).__name__}{samples}"}
        with suppress(TypeError):  # a stream has no length
            facts["batches"] = f"{len(self):,}"
        facts |= {"batch_size": str(self.batch_size), "shuffle": str(self._shuffles)}
        facts |= {"drop_last": "True"} if self.drop_last else {}
        facts |= {"num_workers": str(self.num_workers), "seed": str(self.seed)}
        names = {"transforms": self._builder.transforms, "augment": self._builder.augment}
        facts |= {key: f"[{', '.join(map(repr, functions))}]" for key, functions in names.items() if functions}
        return facts

    @property
    def _shuffles(self) -> bool:
        return isinstance(getattr(self.batch_sampler, "sampler", None), RandomSampler)

    def __len__(self) -> int:
        """Batches per epoch. Raises TypeError for a stream or sampler without length."""
        if not self._streams:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        if not hasattr(self.dataset, "__len__"):
            raise TypeError(f"{type(self.dataset).__name__} is a stream without length, so its DataLoader has none")
        assert self.batch_size is not None
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        plan = self._begin()
        if self.num_workers:
            batches = self._worker_pool().run(self._tasks(plan))
        elif plan.batches is not None:
            builder, seed, epoch = self._builder, self.seed, plan.epoch
            batches = (builder.build(seed, epoch, indices) for indices in plan.batches)
        else:
            batches = self._stream(plan)
        if self.device_queue is not None:
            batches = prefetch_one(
                batches, lambda batch: to_device(batch, self.device_queue, use_pinned=self.pin_memory)
            )
        return _Iteration(self, plan, batches)

    def close(self) -> None:
        """Stops the workers and frees their shared memory; the next ``iter`` starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position: the next batch to yield; prefetched batches do not count as yielded.

        Plain ints and dicts: ``version seed epoch batch batch_size sampler``.
        """
        sampler = self._own_sampler
        epoch, batch = self._current
        if sampler is None:
            sampler_state = self._sampler_state
            if sampler_state is None:
                sampler_state = _call(self._custom_sampler, "state_dict")
        else:
            sampler_state = sampler.state_dict()
            epoch, batch = sampler_state["epoch"], self._batches_before(sampler_state["position"])
        return {
            "version": _STATE_VERSION,
            "seed": self.seed,
            "epoch": epoch,
            "batch": batch,
            "batch_size": self.batch_size,
            "sampler": sampler_state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next ``iter`` yield the batches that followed when ``state`` was saved.

        A running iteration is not affected. A custom sampler is restored to the start of the epoch by its own
        ``load_state_dict`` if it has one, and its first batches are skipped without reading them; a stream is read
        again up to the position.

        Raises:
            ValueError: not the state of a loader, or of other data or another batch size; nothing is changed.
        """
        missing = _STATE_KEYS - set(state)
        if missing or state["version"] != _STATE_VERSION:
            raise ValueError(
                f"not a DataLoader's state of version {_STATE_VERSION}: it lacks {sorted(missing)}"
                if missing
                else f"the DataLoader's state has version {state['version']!r}, this netcl.data reads {_STATE_VERSION}"
            )
        if state["batch_size"] != self.batch_size:
            raise ValueError(
                f"the state was saved with batch_size={state['batch_size']}, this DataLoader has {self.batch_size}: "
                "its position would fall inside a batch"
            )
        sampler = self._own_sampler
        if sampler is not None:
            if state["sampler"] is None:
                raise ValueError("the state was saved with another kind of sampler: it has no sampler position")
            sampler.load_state_dict(state["sampler"])
        elif state["sampler"] is not None:
            _call(self._custom_sampler, "load_state_dict", state["sampler"])
        self.seed = check_seed(state["seed"])
        self._next = self._current = (int(state["epoch"]), int(state["batch"]))
        self._sampler_state = state["sampler"] if sampler is None else None

    @property
    def _custom_sampler(self) -> Any:
        """The custom sampler or batch sampler, or None."""
        return self.sampler if isinstance(self.batch_sampler, BatchSampler) else self.batch_sampler

    def _begin(self) -> _EpochPlan:
        sampler, batch_sampler = self._own_sampler, self.batch_sampler
        if sampler is not None:
            assert isinstance(batch_sampler, BatchSampler)  # otherwise there is no Sampler
            epoch, order = sampler.begin()
            position = len(sampler) - len(order)
            plan = _EpochPlan(epoch, self._batches_before(position), position, batch_sampler.split(order))
        else:
            epoch, first = self._next
            batches = None
            if batch_sampler is not None:
                _call(self._custom_sampler, "set_epoch", epoch)
                self._sampler_state = _call(self._custom_sampler, "state_dict")
                batches = itertools.islice(map(_as_keys, batch_sampler), first, None)
            plan = _EpochPlan(epoch, first, first * (self.batch_size or 0), batches)
        self._current, self._next = (plan.epoch, plan.first_batch), (plan.epoch + 1, 0)
        return plan

    def _batches_before(self, position: int) -> int:
        assert self.batch_size is not None
        return -(-position // self.batch_size)

    def _record(self, plan: _EpochPlan, batches: int) -> None:
        """Records that ``batches`` batches of this iteration have been yielded."""
        self._current = (plan.epoch, plan.first_batch + batches)
        sampler = self._own_sampler
        if sampler is not None:
            assert self.batch_size is not None
            sampler.record(plan.epoch, min(plan.first_position + batches * self.batch_size, len(sampler)))

    def _finish(self, plan: _EpochPlan) -> None:
        if self._next == (plan.epoch + 1, 0):
            self._current = self._next
            self._sampler_state = None
        if self._own_sampler is not None:
            self._own_sampler.finish(plan.epoch)

    def _stream(self, plan: _EpochPlan) -> Iterator[Any]:
        assert self.batch_size is not None
        seed, reader = self.seed, StreamReader(self._builder, self.seed, plan.epoch)
        reader.skip_to(plan.first_position)
        while True:
            first = reader.position
            samples = reader.read(self.batch_size)
            if not samples or (self.drop_last and len(samples) < self.batch_size):
                return
            yield self._builder.build_from(samples, seed, plan.epoch, first)

    def _tasks(self, plan: _EpochPlan) -> Iterator[tuple[int, int, Any, tuple[int, int, int] | None]]:
        if plan.batches is not None:
            for indices in plan.batches:
                yield self.seed, plan.epoch, indices, None
            return
        assert self.batch_size is not None
        fewest = self.batch_size if self.drop_last else 1
        for first in itertools.count(plan.first_position, self.batch_size):
            yield self.seed, plan.epoch, None, (first, self.batch_size, fewest)

    def _worker_pool(self) -> WorkerPool:
        if self._pool is None or self._pool.closed:
            # Deferred: a loader without workers does not need multiprocessing.
            from netcl.data.workers import WorkerPool, choose_start_method

            self._pool = WorkerPool(
                self._builder,
                self.num_workers,
                seed=self.seed,
                prefetch=self.prefetch,
                timeout=self.timeout,
                start_method=choose_start_method(self.start_method),
                worker_init_fn=self.worker_init_fn,
                batch_size=self.batch_size,
                use_shared_mem=self.use_shared_mem,
            )
        return self._pool


class _Iteration(Iterator[Any]):
    """One pass over a loader; records the loader's position after each batch."""

    def __init__(self, loader: DataLoader, plan: _EpochPlan, batches: Iterator[Any]) -> None:
        self._loader, self._plan, self._batches = loader, plan, batches
        self._done, self._failed = 0, False

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            # After an error the generator looks exhausted, but the epoch is not.
            if not self._failed:
                self._failed = True
                self._loader._finish(self._plan)
            raise
        except BaseException:
            self._failed = True
            raise
        self._done += 1
        self._loader._record(self._plan, self._done)
        return batch


def _as_keys(batch: Any) -> Any:
    """Returns a custom batch sampler's batch as an int64 array if it holds integers only, else as a list."""
    keys = list(batch)
    integers = all(isinstance(key, (int, np.integer)) for key in keys)
    return np.array(keys, np.int64) if integers else keys


def _as_dataset(dataset: Any) -> Any:
    if isinstance(dataset, np.ndarray):
        return ArrayDataset(dataset)
    if isinstance(dataset, tuple) and dataset and all(isinstance(array, np.ndarray) for array in dataset):
        return ArrayDataset(*dataset)
    if not isinstance(dataset, IterableDataset):
        require_indexed(dataset, "DataLoader")
    return dataset


def _count(name: str, value: Any, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise ValueError(f"{name} must be an int, at least {minimum}, got {value!r}")
    return int(value)


def _call(target: Any, method: str, *arguments: Any) -> Any:
    """Returns ``target.method(*arguments)`` if that method exists, else None."""
    function = getattr(target, method, None)
    return None if function is None else function(*arguments)
