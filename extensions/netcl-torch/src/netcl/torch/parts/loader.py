"""torch.utils.data.DataLoader: batches of tensors, made by this process or by workers.

Workers are processes of ``netcl.data`` in which tensors are on the NumPy engine; they send arrays, of which the parent
makes tensors on the default device.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import multiprocessing
import os
import pickle
import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, module_from_spec
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, Generic, NamedTuple, NoReturn

import numpy as np

import netcl as nc
from netcl import data
from netcl.autograd import Parameter
from netcl.core import Tensor
from netcl.core.device import DeviceHandle, get_active_device
from netcl.core.process.user_frame import level_outside
from netcl.data.fetch import BatchBuilder, StreamEnd
from netcl.data.tree import map_type
from netcl.data.workers import WorkerPool, choose_start_method
from netcl.torch.parts.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    T_co,
    default_collate,
    default_convert,
    drawn_seed,
    gathered_rows,
)
from netcl.torch.parts.numbers import manual_seed
from netcl.torch.tree import ROOT

# -- batches


class _Fetcher:
    """Reads the samples of keys from a data set, or the next ones of a stream, and collates them."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any], streams: bool, batched: bool, drop_last: bool
    ) -> None:
        self.dataset, self.collate_fn = dataset, collate_fn
        self.streams, self.batched, self.drop_last = streams, batched, drop_last
        self._samples: Iterator[Any] | None = None

    def restart(self) -> None:
        """Begins a stream again."""
        self._samples = iter(self.dataset) if self.streams else None

    def fetch(self, keys: Any) -> Any:
        """Returns the batch of a list of keys, or the sample of one key; raises StopIteration at the end of a
        stream.
        """
        if self._samples is not None:
            return self.collate_fn(self._next_of(self._samples, keys))
        if not self.batched:
            return self.collate_fn(self.dataset[keys])
        rows = gathered_rows(self.dataset, keys) if self.collate_fn is default_collate else None
        if rows is not None:
            return rows
        several = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(several(keys) if several else [self.dataset[key] for key in keys])

    def _next_of(self, samples: Iterator[Any], keys: Any) -> Any:
        if not self.batched:
            return next(samples)
        batch = list(itertools.islice(samples, len(keys)))
        if len(batch) < len(keys):
            self._samples = iter(())  # a stream that has ended is not asked again
        if not batch or (self.drop_last and len(batch) < len(keys)):
            raise StopIteration
        return batch


class _Endless:
    """The sampler of a stream, which has no keys."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


# -- values on their way between processes


class _Sent(NamedTuple):
    """A tensor in a batch of a worker: its values, in float32 if its dtype is not one of NumPy, and its dtype."""

    array: Any
    dtype: str
    requires_grad: bool


def _send(batch: Any) -> Any:
    """A batch with arrays, which go through shared memory, in place of tensors."""
    return map_type(lambda x: _Sent(*_parts(x)) if type(x) is Tensor else x, Tensor, batch)


def _receive(batch: Any) -> Any:
    return map_type(lambda sent: _tensor(Tensor, *sent), _Sent, batch)


def _parts(x: Tensor) -> tuple[Any, str, bool]:
    return np.ascontiguousarray(x.detach().to_host()).reshape(x.shape), x.dtype, x.requires_grad


def _tensor(kind: type[Tensor], array: Any, dtype: str, requires_grad: bool) -> Tensor:
    """A tensor on the default device of this process."""
    made: Tensor = nc.tensor(array, dtype=dtype)
    if kind is Parameter:
        return Parameter(made, requires_grad=requires_grad)
    return made.requires_grad_() if requires_grad else made


def _reduced(x: Tensor) -> Any:
    return _tensor, (type(x), *_parts(x))


class _Pickler(pickle.Pickler):
    """Writes tensors as arrays, and devices as the worker's, as devices belong to their process."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return _reduced(value)
        if isinstance(value, DeviceHandle):
            return get_active_device, ()
        return NotImplemented


_MAIN = b"__main__"


def _packed(value: Any) -> list[bytes]:
    """A pickle, cut at the names of the main script, so that netcl.data finds no reference to it: ``_unpacked`` decides
    if it runs.
    """
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue().split(_MAIN)


class _Reached(BaseException):
    """Ends the run of the main script in a worker, at the loader that the worker is for."""


_runs_main = False


def _main_script() -> tuple[str | None, str | None]:
    """The name of the module that is the main script, and its file."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    return name, getattr(main, "__file__", None)


@cache
def _run_main(name: str | None, path: str) -> None:
    """Runs the main script in a worker, once, under a name that its ``if __name__ == "__main__":`` excludes; a script
    without that line is run to its first loader with workers.
    """
    global _runs_main
    spec = None if name is None else find_spec(name)
    loader: Any = SourceFileLoader("__mp_main__", path) if spec is None else spec.loader
    module = module_from_spec(spec or ModuleSpec("__mp_main__", loader, origin=path))
    module.__name__, module.__file__ = "__mp_main__", path
    # Not get_code of the loader of a file: it would write a cache next to the script.
    code = loader.source_to_code(loader.get_data(path), path) if spec is None else loader.get_code(name)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    _runs_main = True
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            exec(code, module.__dict__)  # the script itself, as multiprocessing runs it
    except _Reached:
        pass
    finally:
        _runs_main = False


def _unpacked(pieces: list[bytes], installed: bool, name: str | None, path: str | None) -> Any:
    """The builder of a worker, in the worker, with tensors on the NumPy engine; runs the main script if the pickle
    refers to it, after ``import torch`` means what it does in the parent.
    """
    os.environ.update(NETCL_DEVICE="cpu")
    if installed:
        from netcl.torch.install import install

        install()
    if len(pieces) > 1 and path is not None:
        _run_main(name, path)
    return _WorkerBuilder(*pickle.loads(_MAIN.join(pieces)))


# -- exceptions


class _Message(str):
    """A text that is its own repr: KeyError shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Caught:
    """An exception of a worker in place of a batch: its type, if that can be sent, and the text to raise it with."""

    def __init__(self, error: Exception, worker: int) -> None:
        lines = "".join(traceback.format_exception(type(error), error, _from_data(error.__traceback__)))
        self.text: str = f"Caught {type(error).__name__} in DataLoader worker process {worker}.\nOriginal {lines}"
        self.kind: type[Exception] = type(error)
        try:
            pickle.dumps(self.kind)
        except Exception:  # noqa: BLE001  # a class of a function, for example
            self.kind = RuntimeError

    def reraise(self) -> NoReturn:
        """Raises an exception of the same type with the worker's traceback as its text; RuntimeError for a type that
        is not made of a text alone.
        """
        text = _Message(self.text) if issubclass(self.kind, KeyError) else self.text
        try:
            error = self.kind(text)
        except Exception:  # noqa: BLE001
            error = RuntimeError(text)
        raise error


def _from_data(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first line that is not of this module."""
    first = trace
    while first is not None and first.tb_frame.f_globals.get("__name__") == __name__:
        first = first.tb_next
    return first or trace


# -- workers


class WorkerInfo(NamedTuple):
    """The worker that this process is: ``id`` from 0 of ``num_workers``, its seed and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Returns the WorkerInfo in a worker of a DataLoader, else None."""
    return _info


class _WorkerBuilder(BatchBuilder):
    """Makes batches in a worker, each worker of a stream of its own, and sends exceptions as values."""

    def __init__(self, fetcher: _Fetcher, init: Callable[[int], Any] | None, base_seed: int, num_workers: int) -> None:
        super().__init__(fetcher.dataset, fetcher.collate_fn, (), ())
        self.fetcher, self.init, self.base_seed, self.num_workers = fetcher, init, base_seed, num_workers
        self._pieces: list[bytes] | None = None
        self._epoch, self._worker = -1, 0
        self._failure: _Caught | None = None

    def pack(self) -> None:
        """Pickles the data set and the functions. Raises as pickle does, and PicklingError if the main script, which
        they refer to, is no file.
        """
        self._pieces = _packed((self.fetcher, self.init, self.base_seed, self.num_workers))
        if len(self._pieces) > 1:
            if _main_script()[1] is None:
                raise pickle.PicklingError("names of a main script that is not a file")
            # Results of the workers refer to the script by the name that they run it under.
            sys.modules["__mp_main__"] = sys.modules["__main__"]

    def __reduce__(self) -> Any:
        installed = sys.modules.get("torch") is sys.modules[ROOT]  # PyTorch itself may be imported
        return _unpacked, (self._pieces, installed, *_main_script())

    def begin(self, worker: int) -> None:
        """Seeds the generators of the worker as PyTorch does, and calls ``worker_init_fn``."""
        global _info
        os.environ.update(NETCL_DEVICE="cpu")  # of a forked worker, too
        for kind in (Tensor, Parameter):
            ForkingPickler.register(kind, _reduced)
        nc.set_num_threads(1)
        seed = self.base_seed + worker
        random.seed(seed)
        manual_seed(seed)
        words = [worker, self.base_seed & 0xFFFFFFFF, self.base_seed >> 32, 0]
        np.random.seed(np.random.SeedSequence(words).generate_state(4))
        self._worker, _info = worker, WorkerInfo(worker, self.num_workers, seed, self.fetcher.dataset)
        if self.init is not None:
            try:
                self.init(worker)
            except Exception as error:  # noqa: BLE001  # raised in the parent
                self._failure = _Caught(error, worker)

    def build(self, seed: int, epoch: int, indices: Any) -> Any:
        """Returns the batch of ``indices``, a list with the keys, for the parent; raises StreamEnd at the end of the
        worker's stream.
        """
        if self._failure is not None:
            return self._failure
        try:
            if epoch != self._epoch:
                self._epoch = epoch
                self.fetcher.restart()
            return _send(self.fetcher.fetch(_receive(indices[0])))
        except Exception as error:  # noqa: BLE001  # raised in the parent
            if self.fetcher.streams and isinstance(error, StopIteration):
                raise StreamEnd from None
            return _Caught(error, self._worker)


# Of the libraries under NumPy: a worker computes with one thread, as PyTorch's, and a process that forks has one.
_ONE_THREAD: dict[str, str] = dict.fromkeys(("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@contextlib.contextmanager
def _ready_server(method: str) -> Iterator[None]:
    """A block in which the server that workers are forked from starts with netcl imported, if it is not running yet: a
    worker is there in milliseconds instead of a second. Importing netcl loads no driver.
    """
    if method != "forkserver":
        yield
        return
    from multiprocessing import forkserver  # not on all systems

    server = getattr(forkserver, "_forkserver", None)
    known = list(getattr(server, "_preload_modules", ["__main__"]))
    ours = [name for name in (__name__, "netcl.torch_vision") if name in sys.modules and name not in known]
    multiprocessing.set_forkserver_preload(known + ours)
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Begin:
    """The ``worker_init_fn`` of netcl.data: begins the builder."""

    def __init__(self, builder: _WorkerBuilder) -> None:
        self.builder = builder

    def __call__(self, worker: int) -> None:
        self.builder.begin(worker)


# -- iterations


class _Iteration(Iterator[Any]):
    """One pass over a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._keys = iter(loader._index_sampler)
        # Of the workers; drawn without them too, and before the sampler draws, as in PyTorch.
        self._base_seed = drawn_seed(loader.generator)
        self._yielded, self._said = 0, loader._length_said

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self) -> Any:
        batch = self._next_batch()
        self._yielded += 1
        if self._said is not None and self._yielded > self._said:
            advice = (
                "; with workers, __iter__ gives each a part, by get_worker_info()" if self._loader.num_workers else ""
            )
            warnings.warn(
                f"DataLoader: len() of the iterable data set {type(self._loader.dataset).__name__} is {self._said}, "
                f"but this is batch {self._yielded}{advice}",
                stacklevel=level_outside(),
            )
        return batch

    def _next_batch(self) -> Any:
        """The next batch; raises StopIteration at the end."""
        raise TypeError(f"{type(self).__name__} makes no batches")


class _Here(_Iteration):
    """A pass of which this process makes the batches."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._fetcher = loader._fetcher()
        self._fetcher.restart()

    def _next_batch(self) -> Any:
        return self._fetcher.fetch(next(self._keys))


class _InWorkers(_Iteration):
    """A pass of which workers make the batches; raises as pickle does if they cannot get the data set."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._epoch = 0
        self._pool: WorkerPool
        self._start()

    def restart(self) -> None:
        """Begins the next pass with the same workers."""
        self._keys = iter(self._loader._index_sampler)
        self._yielded, self._said = 0, self._loader._length_said
        self._epoch += 1
        self._start()

    def _start(self) -> None:
        loader = self._loader
        if not self._epoch or self._pool.closed:
            context = loader.multiprocessing_context
            method = choose_start_method(None if context is None else context.get_start_method())
            builder = _WorkerBuilder(loader._fetcher(), loader.worker_init_fn, self._base_seed, loader.num_workers)
            if method != "fork":
                builder.pack()
            with _ready_server(method):
                self._pool = WorkerPool(
                    builder,
                    loader.num_workers,
                    seed=0,
                    prefetch=loader.prefetch_factor or 2,
                    timeout=loader.timeout,
                    start_method=method,
                    worker_init_fn=_Begin(builder),
                    batch_size=loader.batch_size,
                    use_shared_mem=True,
                    in_turn=True,
                    in_order=loader.in_order,
                )
        self._batches = self._pool.run(_tasks(self._keys, self._base_seed, self._epoch))

    def _next_batch(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            if not self._loader.persistent_workers:
                self._pool.close()
            raise
        if isinstance(batch, _Caught):
            batch.reraise()
        return _receive(batch)


def _tasks(keys: Iterator[Any], seed: int, epoch: int) -> Iterator[tuple[int, int, Any, None]]:
    return ((seed, epoch, [_send(one)], None) for one in keys)


class DataLoader(Generic[T_co]):
    """Batches of a data set, with PyTorch's arguments.

    ``batch_size=None`` gives samples as they are. With ``num_workers`` processes make the batches, in turn; each reads
    its own copy of an iterable data set, which gives it a part by ``get_worker_info()``. ``pin_memory`` and
    ``pin_memory_device`` change nothing. ``multiprocessing_context`` is "forkserver", "spawn", or "fork" before an
    OpenCL driver is loaded. A worker runs the main script only if the data set or a function refers to it.

    Raises ValueError or TypeError for arguments that are wrong or exclude each other. While iterating, an exception of
    a worker is raised with its type and the worker's traceback, and ``netcl.data.DataLoaderWorkerError``, a
    RuntimeError, if a worker dies or exceeds the timeout.
    """

    __initialized = False
    _FIXED = frozenset(("batch_size", "batch_sampler", "dataset", "drop_last", "persistent_workers", "sampler"))

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
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
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers):
            raise ValueError("prefetch_factor and persistent_workers options need num_workers > 0")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"prefetch_factor is at least 1 batch for each worker, not {prefetch_factor}")
        self.dataset: Any = dataset
        self.num_workers: int = num_workers
        self.prefetch_factor: int | None = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory: bool = pin_memory
        self.pin_memory_device: str = pin_memory_device
        self.timeout: float = timeout
        self.worker_init_fn: Callable[[int], None] | None = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order: bool = in_order
        self.generator: Any = generator
        self._streams = isinstance(dataset, data.IterableDataset)
        if self._streams:
            for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value is not None:
                    raise ValueError(
                        f"DataLoader: an iterable data set has an order of its own, so {name} is left out, not {value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None disables batches and is mutually exclusive with drop_last")
        chosen: Any = sampler
        if chosen is None:
            chosen = _Endless() if self._streams else SequentialSampler(dataset)
            if shuffle:
                chosen = RandomSampler(dataset, generator=generator)
        self.batch_size: int | None = batch_size
        self.drop_last: bool = drop_last
        self.sampler: Any = chosen
        self.batch_sampler: Any = batch_sampler
        if batch_size is not None:
            self.batch_sampler = BatchSampler(chosen, batch_size, drop_last)
        batched = self._auto_collation
        self.collate_fn: Callable[[Any], Any] = collate_fn or (default_collate if batched else default_convert)
        self.persistent_workers: bool = persistent_workers
        self._length_said: int | None = None
        self._iterator: Any = None
        self.__initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in self._FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """The context of the workers, given as one or as the name of a start method."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and not self.num_workers:
            raise ValueError("multiprocessing_context needs num_workers > 0, and num_workers is 0")
        if isinstance(context, str):
            context = multiprocessing.get_context(choose_start_method(context))
        if context is not None and not isinstance(context, BaseContext):
            raise TypeError(
                f"multiprocessing_context is a start method or a context of multiprocessing, not {context!r}"
            )
        if context is not None:
            choose_start_method(context.get_start_method())
        self._context: BaseContext | None = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _fetcher(self) -> _Fetcher:
        return _Fetcher(self.dataset, self.collate_fn, self._streams, self._auto_collation, self.drop_last)

    def __len__(self) -> int:
        if not self._streams:
            return len(self._index_sampler)
        count = self._length_said = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers:
            if self.timeout:
                raise ValueError("timeout is for batches of workers, and num_workers is 0")
            return _Here(self)
        if _runs_main:
            raise _Reached
        if self._iterator is not None:
            self._iterator.restart()
            return self._iterator  # type: ignore[no-any-return]
        try:
            iteration = _InWorkers(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            warnings.warn(
                f"DataLoader: this process makes the batches, as workers cannot get {error}", stacklevel=level_outside()
            )
            return _Here(self)
        if self.persistent_workers:
            self._iterator = iteration
        return iteration
