"""Views: tensors that show elements of another tensor's storage, by shape, strides and offset.

Kernels read contiguous memory only. So a view has storage of its own, a copy of its elements; the storage that it is a
view of (the root, which is never a view itself) has weak references to its views. A write into the root, or through a
view, makes the copies of all other views stale, which is a state of deferred storage: they are gathered again at their
next use. A write through a view is scattered into the root.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from netcl.core.errors import DTypeError, UnsupportedError
from netcl.core.layout import contiguous_strides
from netcl.core.process.hook_stack import before_write
from netcl.core.storage.storage import UNCOUNTED, Storage, lock

Shape = tuple[int, ...]


class Geometry(NamedTuple):
    """The elements of a storage that a tensor shows: its shape, and strides and offset in elements."""

    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def is_contiguous(self) -> bool:
        """True if the elements follow each other in C order."""
        return 0 in self.shape or _same_walk(self.shape, self.strides, contiguous_strides(self.shape))

    @property
    def overlaps(self) -> bool:
        """True if an element may be shown twice."""
        reach = 0
        walked = sorted((abs(step), size) for size, step in zip(self.shape, self.strides) if size > 1)
        for step, size in walked:
            if step <= reach:
                return 0 not in self.shape
            reach += step * (size - 1)
        return False

    def reshaped(self, shape: Shape) -> Geometry | None:
        """The same elements in another shape of the same size; None if no strides give them."""
        strides = _strides_in(self, shape)
        return None if strides is None else Geometry(shape, strides, self.offset)

    def permuted(self, order: Sequence[int]) -> Geometry:
        """The axes in another order."""
        shape = tuple([self.shape[axis] for axis in order])
        return Geometry(shape, tuple([self.strides[axis] for axis in order]), self.offset)

    def sliced(
        self, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int], shape: Shape | None = None
    ) -> Geometry:
        """The block at starts + i * steps, i < sizes, in ``shape``, which differs in axes of length 1 alone."""
        offset = self.offset + sum(start * stride for start, stride in zip(starts, self.strides))
        strides = tuple([step * stride for step, stride in zip(steps, self.strides)])
        block = Geometry(tuple(sizes), strides, offset)
        shaped = block if shape is None or shape == block.shape else block.reshaped(shape)
        assert shaped is not None
        return shaped

    def diagonal(self, offset: int, one: int, two: int) -> Geometry:
        """The elements [i, i + offset] of the axes ``one`` and ``two``, as the last axis."""
        down, right = max(-offset, 0), max(offset, 0)
        length = max(0, min(self.shape[one] - down, self.shape[two] - right))
        rest = [axis for axis in range(len(self.shape)) if axis not in (one, two)]
        start = down * self.strides[one] + right * self.strides[two] if length else 0
        shape = (*[self.shape[axis] for axis in rest], length)
        strides = (*[self.strides[axis] for axis in rest], self.strides[one] + self.strides[two])
        return Geometry(shape, strides, self.offset + start)

    def strided(self, shape: Shape, strides: Shape, offset: int) -> Geometry:
        """Elements in the order of memory of a contiguous geometry, by strides and an offset in elements."""
        return Geometry(shape, strides, self.offset + offset)

    def windows(self, axis: int, size: int, step: int) -> Geometry:
        """Returns windows of ``size`` elements along an axis, one at every ``step`` positions, as a new last axis."""
        shape, strides = [*self.shape, size], [*self.strides, self.strides[axis]]
        shape[axis] = (shape[axis] - size) // step + 1
        strides[axis] *= step
        return Geometry(tuple(shape), tuple(strides), self.offset)

    def expanded(self, shape: Shape) -> Geometry:
        """Broadcast to ``shape``."""
        strides = [0 if size != whole else stride for size, whole, stride in
                   zip(self.shape, shape[len(shape) - len(self.shape) :], self.strides)]  # fmt: skip
        return Geometry(shape, aligned_strides(strides, len(shape)), self.offset)


def aligned_strides(strides: Sequence[int], rank: int) -> Shape:
    """``strides`` behind zeros for the axes that broadcasting adds."""
    return (0,) * (rank - len(strides)) + tuple(strides)


def _same_walk(shape: Shape, strides: Sequence[int], others: Sequence[int]) -> bool:
    return all(size == 1 or stride == other for size, stride, other in zip(shape, strides, others))


def _strides_in(geometry: Geometry, shape: Shape) -> Shape | None:
    """The strides that show the elements of ``geometry`` in ``shape``: each group of axes of ``shape`` has to fit into
    a group of axes of ``geometry`` that are walked as one.
    """
    if geometry.shape == shape:
        return geometry.strides
    if 0 in shape:
        return contiguous_strides(shape)
    groups: list[list[int]] = []  # elements and innermost stride of axes that are one, outermost first
    for size, step in zip(geometry.shape, geometry.strides):
        if size == 1:
            continue
        if groups and groups[-1][1] == step * size:
            groups[-1] = [groups[-1][0] * size, step]
        else:
            groups.append([size, step])
    strides = [0] * len(shape)
    at = len(shape) - 1
    for count, step in reversed(groups):
        while at >= 0 and count > 1:
            size = shape[at]
            if count % size:
                return None
            strides[at] = step
            count //= size
            step *= size
            at -= 1
        if count != 1:
            return None
    outer = 1
    for axis in range(len(shape) - 1, -1, -1):  # axes of one element: as in C order
        if shape[axis] == 1:
            strides[axis] = outer
        outer = strides[axis] * shape[axis]
    return tuple(strides)


class _Gather:
    """The computation of a stale view: its elements are copied from the root."""

    __slots__ = ("_storage",)

    def __init__(self, storage: ViewStorage) -> None:
        self._storage = weakref.ref(storage)  # no cycle: storage is released by reference counts

    def materialize(self) -> None:
        """Makes the view up to date."""
        storage = self._storage()
        if storage is not None:
            storage.materialize()

    def keep(self, tensor: Any) -> None:
        """Nothing: what is on the storage computes it."""


class ViewStorage(Storage):
    """The storage of a view: a copy of the elements of ``root`` that ``geometry`` names.

    ``given``: there is no memory yet, or another storage has taken it over, so that the next gather needs new memory.
    ``pinned``: a captured step or a snapshot reads this memory, which is kept. ``recording``: that of the view's call.
    ``extent``: the elements of the root. ``kind``: Tensor.
    """

    __slots__ = (
        "dtype",
        "engine",
        "extent",
        "gather",
        "gathering",
        "geometry",
        "given",
        "kind",
        "pinned",
        "recording",
        "root",
    )

    root: Storage
    extent: int
    geometry: Geometry
    engine: Any
    kind: type[Any]
    dtype: str
    gather: _Gather | None
    gathering: bool
    given: bool
    pinned: bool
    recording: Any

    @property
    def version(self) -> int:
        """The number of writes in place into the root."""
        return self.root.version

    @version.setter
    def version(self, version: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.root.version = version

    def materialize(self) -> None:
        """Gathers the elements, unless the copy is up to date."""
        with lock:
            if self.deferred is None or self.gathering:
                return
            geometry = self.geometry
            gathered = getattr(self.engine, "gathered", None) if self.given else None
            array = gathered and gathered(self.root, geometry)
            if array is not None:
                self.array, self.given, self.deferred = array, False, None
                return
            if self.given:
                fresh = self.engine.empty(geometry.shape, self.dtype)
                self.array: Any
                self.buffer: Any
                self.allocation: Any
                self.allocation, self.buffer, self.array = (
                    fresh._storage.allocation,
                    fresh._storage.buffer,
                    fresh._storage.array,
                )
                self.given = False
            self.gathering = True  # the copy into it asks for it again
            try:
                self.engine.copy(
                    _tensor(self, self.root),
                    _tensor(self, self),
                    shape=geometry.shape,
                    source_strides=geometry.strides,
                    source_offset=geometry.offset,
                    out_strides=contiguous_strides(geometry.shape),
                    out_offset=0,
                )
                self.deferred = None  # last, since other threads ask for no lock from here on
            finally:
                self.gathering = False

    def invalidate(self) -> None:
        """Makes the copy stale: the root has changed."""
        if self.gather is None:
            self.gather = _Gather(self)
        self.deferred = self.gather, 0

    def written(self) -> None:
        """Notes that a kernel has written into the copy; ``scatter`` then has to follow."""
        self.root.version += 1
        self.root.invalidate_views(self)

    def scatter(self, source: Any = None, strides: Shape | None = None) -> None:
        """Copies elements into the root, from the copy, or from ``source`` by ``strides``, of the same dtype."""
        geometry = self.geometry
        if geometry.overlaps and (source is None or source.size != 1):
            raise _overlapping()
        if 0 in geometry.shape:
            return
        self.engine.copy(
            _tensor(self, self) if source is None else source,
            _tensor(self, self.root),
            shape=geometry.shape,
            source_strides=contiguous_strides(geometry.shape) if strides is None else strides,
            source_offset=0,
            out_strides=geometry.strides,
            out_offset=geometry.offset,
        )
        if source is not None:
            self.root.written()

    def handed_over(self) -> Storage | None:
        """The memory of the copy as storage of its own, which this view leaves to it; None if it is needed here."""
        recording = self.engine.recording
        if self.pinned or (recording is not None and (self.recording is None or self.recording() is not recording)):
            return None
        with lock:
            self.materialize()
            other = Storage.of(self.buffer, self.array, self.allocation)
            self.invalidate()
            self.given = True
        return other


def _tensor(view: ViewStorage, storage: Storage) -> Any:
    """A tensor on ``storage``, the one of ``view`` or its root."""
    size = math.prod(view.geometry.shape) if storage is view else view.extent
    kind: Any = view.kind
    return kind.__new__(kind)._begin(view.engine, storage, (size,), view.dtype)


def root_of(tensor: Any) -> Storage:
    """The storage that has the elements of ``tensor``: its own, or of a view the one that it is a view of."""
    storage = tensor._storage
    return storage.root if type(storage) is ViewStorage else storage


def root_tensor(tensor: Any) -> Any:
    """The flat tensor of all elements that ``tensor`` is a view of; ``tensor`` itself if it is no view."""
    storage = tensor._storage
    return _tensor(storage, storage.root) if type(storage) is ViewStorage else tensor


def is_of_the_program(tensor: Any) -> bool:
    """Returns True if ``tensor`` is on memory of the host that the program can write, as of ``from_numpy(array)``."""
    upload = root_of(tensor).upload
    array = None if upload is None else upload.host_ref
    if array is None:
        return False
    # References of the array: ``upload``, the engine's, this name, and the argument.
    if getrefcount(array) > 4:
        return True
    return array.base is not None and (not isinstance(array.base, np.ndarray) or getrefcount(array.base) > 2)


def geometry_of(tensor: Any) -> Geometry | None:
    """The elements of its root that ``tensor`` shows; None for an alias of a view if no strides give its shape."""
    storage = tensor._storage
    if type(storage) is ViewStorage:
        return storage.geometry.reshaped(tensor.shape)
    if storage.deferred is not None:
        predicted = getattr(storage.deferred[0], "geometry", None)
        geometry: Geometry | None = predicted and predicted(storage.deferred[1])
        if geometry is not None:
            return geometry
    return Geometry(tensor.shape, contiguous_strides(tensor.shape))


def whole(x: Any) -> bool:
    """True if ``x`` shows all elements of its storage, in the order of memory."""
    storage = x._storage
    if type(storage) is not ViewStorage:
        return True
    geometry = storage.geometry
    return geometry.offset == 0 and math.prod(geometry.shape) == storage.extent and geometry.is_contiguous


def link(result: Any, source: Any, geometry: Geometry | None) -> Any:
    """Makes ``result``, a fresh copy of elements of ``source``, a view: of the root of ``source``, by ``geometry``."""
    if geometry is None or 0 in geometry.shape:
        return result
    fresh = result._storage
    storage = _view_storage(source, geometry)
    storage.kind = type(result)
    storage.buffer = fresh.buffer
    storage.array = fresh.array
    storage.allocation = fresh.allocation
    storage.persistent = fresh.persistent
    recording = result.engine.recording
    storage.recording = None if recording is None else weakref.ref(recording)
    result._storage = storage
    return result


def stale(source: Any, geometry: Geometry) -> Any:
    """Returns a view of the root of ``source`` by ``geometry``; its elements are gathered at its first use."""
    storage = _view_storage(source, geometry)
    storage.buffer = storage.array = storage.allocation = storage.recording = None
    storage.persistent = False
    storage.given = True
    storage.invalidate()
    result = source._on(storage, geometry.shape, source.dtype)
    storage.kind = type(result)
    return result


def repeated(args: tuple[Any, ...], result: Any) -> Callable[[tuple[Any, ...]], Any] | None:
    """Returns the function that repeats ``result``, a view of the tensor ``args[0]``, on arguments of the same shapes;
    it returns None for a tensor that is a view itself, as strides may differ. Returns None if ``result`` is a copy or
    the tensor is a view.
    """
    if not args or type(args[0]._storage) is ViewStorage:
        return None
    shape, storage = result.shape, result._storage
    if storage is args[0]._storage:
        return lambda args: None if type(args[0]._storage) is ViewStorage else args[0]._alias(shape)
    if type(storage) is not ViewStorage:
        return None
    geometry = storage.geometry

    def view(args: tuple[Any, ...]) -> Any:
        x = args[0]
        origin = x._storage
        if type(origin) is ViewStorage or origin.deferred is not None or x.engine.recording is not None or released(x):
            return None
        return stale(x, geometry)

    return view


class _Snapshot(Storage):
    """The memory of a view's copy, without a reference to the root; its writes are counted here as long as it is there;
    while the view is there too, they may change the copy. ``facts`` are the view's.
    """

    __slots__ = ("counted", "facts", "root", "view")

    root: weakref.ref[Storage]
    view: weakref.ref[ViewStorage]
    counted: int
    facts: tuple[Any, ...]

    @property
    def identity(self) -> int:
        """That of the view as long as it is there."""
        view = self.view()
        return id(self) if view is None else id(view)

    @property
    def version(self) -> int:
        """The number of writes in place into the root."""
        root = self.root()
        return self.counted if root is None else root.version

    @version.setter
    def version(self, version: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.counted = version

    def invalidate(self) -> None:
        """Called when the root has changed."""
        self.counted = self.version

    def changed(self, root: Storage) -> None:
        """Called when an uncounted write has changed the root: its elements are gathered at the next use."""
        again = ViewStorage()
        again.kind, again.engine, again.dtype, again.geometry, again.extent = self.facts
        again.buffer = again.array = again.allocation = again.recording = again.upload = again.views = None
        again.persistent = again.pinned = again.gathering = False
        again.root, again.gather, again.given, self.counted = root, None, True, root.version
        again.invalidate()
        self.deferred = _Again(self, again), 0


class _Again:
    """The computation of a snapshot after a write into its root that is not counted."""

    def __init__(self, copy: _Snapshot, source: ViewStorage) -> None:
        self._copy = weakref.ref(copy)
        self._source = source

    def materialize(self) -> None:
        """Gathers the elements of the root."""
        copy = self._copy()
        if copy is not None:
            self._source.materialize()
            copy.fill(self._source)

    def keep(self, tensor: Any) -> None:
        """Nothing: what is on the storage computes it."""


@contextmanager
def uncounted(target: Any) -> Iterator[None]:
    """A scope in which writes into ``target`` are not counted as writes in place."""
    root = root_of(target)
    version = root.version
    yield
    root.version = version + UNCOUNTED
    for ref in root.views or ():
        kept = ref()
        if type(kept) is _Snapshot:
            kept.changed(root)


def snapshot(x: Any) -> Any:
    """``x`` on the memory of its copy alone if it is a view that is up to date, so that the root may be freed; else
    ``x`` itself. The result is outside of the graph, and has the version of ``x``.
    """
    storage = x._storage
    if type(storage) is not ViewStorage or x.engine.recording is not None:
        return x
    with lock:
        if storage.deferred is not None:
            return x
        storage.pinned = True
        copy = _Snapshot()
        copy.buffer, copy.array, copy.allocation = storage.buffer, storage.array, storage.allocation
        copy.persistent, copy.upload = storage.persistent, storage.upload
        copy.deferred = copy.views = None
        root = storage.root
        copy.facts = storage.kind, storage.engine, storage.dtype, storage.geometry, storage.extent
        copy.root, copy.view, copy.counted = weakref.ref(root), weakref.ref(storage), root.version
        _follow(root, copy)
    return x._on(copy, x.shape, x.dtype)


def released(x: Any) -> bool:
    """True if the memory of ``x`` was given back to its pool: it may be another tensor's by now."""
    allocation = x._storage.allocation
    return allocation is not None and allocation.buffer is None


def _view_storage(source: Any, geometry: Geometry) -> ViewStorage:
    """Storage without memory of a view of the root of ``source``, which has a reference to it."""
    base = source._storage
    storage = ViewStorage()
    if type(base) is ViewStorage:
        root, storage.extent = base.root, base.extent
    else:
        root, storage.extent = base, math.prod(source.shape)
    storage.upload = None
    storage.deferred = None
    storage.views = None
    storage.root = root
    storage.geometry = geometry
    storage.engine = source.engine
    storage.dtype = source.dtype
    storage.gather = None
    storage.given = storage.pinned = storage.gathering = False
    _follow(root, storage)
    return storage


def _follow(root: Storage, storage: Storage) -> None:
    """Has ``storage`` invalidated by each write into ``root``, as long as it is there."""
    views = root.views
    if views is None:
        root.views = [weakref.ref(storage)]
        return
    count = len(views)
    if count >= 8 and count & (count - 1) == 0:  # from time to time, without storages that are gone
        views = root.views = [ref for ref in views if ref() is not None]
    views.append(weakref.ref(storage))


def rows_of_one(tensors: Sequence[Any]) -> tuple[Any, list[int]] | None:
    """Returns the table with the elements of ``tensors`` as rows, and the rows; None unless all are stale views of
    whole rows of one storage, and none is in the gradient graph.
    """
    first = tensors[0]
    if type(first._storage) is not ViewStorage:
        return None
    root, count, rows = first._storage.root, math.prod(first.shape), []
    for x in tensors:
        storage = x._storage
        if type(storage) is not ViewStorage or storage.root is not root or not storage.given or x._requires_grad:
            return None
        geometry = storage.geometry
        if count == 0 or geometry.offset % count or storage.extent % count or not geometry.is_contiguous:
            return None
        rows.append(geometry.offset // count)
    return root_tensor(first)._alias((first._storage.extent // count, count)), rows


def reshaped(x: Any, shape: Shape) -> Any:
    """``x`` in another shape: on the same storage if strides give it, else a copy."""
    storage = x._storage
    if type(storage) is ViewStorage and storage.geometry.reshaped(shape) is None:
        return copied(x, shape)
    return x._alias(shape)


def copied(x: Any, shape: Shape) -> Any:
    """The elements of a view ``x`` as a tensor of ``shape`` with storage of its own."""
    other = x._storage.handed_over()
    if other is None:
        fresh = x.engine.empty(shape, x.dtype)
        strides = contiguous_strides(shape)
        x.engine.copy(x, fresh, shape=shape, source_strides=strides, source_offset=0, out_strides=strides, out_offset=0)
        return fresh
    return x._on(other, shape, x.dtype)


def separate(x: Any) -> Any:
    """``x`` with storage that is no view: a view's copy becomes storage of its own."""
    return copied(x, x.shape) if type(x._storage) is ViewStorage else x


def owned(result: Any, x: Any) -> Any:
    """``result``, which an op has just made of ``x``, on storage of its own: a copy if it shares that of ``x``."""
    if root_of(result) is not root_of(x):
        return result
    storage = result._storage
    if type(storage) is ViewStorage and storage is not x._storage:
        own = storage.handed_over()
        if own is not None:
            result._storage, result._base = own, None
            return result
    return result.clone()


def mark_several(results: Sequence[Any]) -> Any:
    """Notes in the graph that ``results`` are views that one function returns together; returns them."""
    for result in results:
        if getattr(result._base, "several", None) is False:
            result._base.several = True
    return results


def flush(targets: Iterable[Any]) -> None:
    """Scatters what kernels have written into the copies of views among ``targets``."""
    for target in targets:
        if target is not None and type(target._storage) is ViewStorage:
            target._storage.scatter()


class UntypedStorage:
    """The memory that a tensor shares with its views, for comparison: ``data_ptr()``, ``nbytes()``, ``==``."""

    def __init__(self, tensor: Any, nbytes: int) -> None:
        self._root = root_of(tensor)
        self._tensor = tensor
        self._nbytes = nbytes
        self.device: Any = tensor.device

    def read(self, dtype: Any) -> Any:
        """Returns the vector of all elements, on this memory; raises DTypeError for another dtype than the tensor's."""
        if dtype != self._tensor.dtype:
            raise DTypeError(
                f"a storage of {self._tensor.dtype} cannot be read as {dtype}; write dtype=x.dtype, and convert values "
                "by x.to(dtype)"
            )
        return root_tensor(self._tensor.detach()).reshape(-1)

    def data_ptr(self) -> int:
        """A number that only tensors on this storage have: the address on NumPy, else the identity of the buffer."""
        root = self._root
        if root.deferred is not None:
            root.materialize()
        if root.array is not None:
            return int(root.array.__array_interface__["data"][0])
        return int(getattr(root.buffer, "int_ptr", id(root)))

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._nbytes

    size = nbytes

    def __len__(self) -> int:
        return self._nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._root is self._root

    def __hash__(self) -> int:
        return hash(id(self._root))


def store(target: Any, value: Any) -> bool:
    """Writes ``value``, which broadcasts, into the elements of the view ``target``; False if it has to be converted."""
    storage = target._storage
    geometry = storage.geometry
    if geometry.shape != target.shape:
        return False
    if value.dtype != target.dtype:
        if not geometry.overlaps:
            return False
        value = value.astype(target.dtype)
    before_write(target, value)
    strides = [0 if size == 1 else step for size, step in zip(value.shape, contiguous_strides(value.shape))]
    if value._storage is storage or value._storage is storage.root:
        return False
    storage.scatter(value, aligned_strides(strides, len(target.shape)))
    return True


def _overlapping() -> UnsupportedError:
    return UnsupportedError(
        "writing in place into an expanded tensor: several of its elements are one element in memory; write into a "
        "clone(), or into the tensor before expand"
    )


def overlaps(target: Any) -> bool:
    """True if elements of ``target`` share memory with each other."""
    return type(target._storage) is ViewStorage and target._storage.geometry.overlaps


def check_writable(target: Any) -> None:
    """UnsupportedError if elements of ``target`` share memory with each other, so that a write is ambiguous."""
    if overlaps(target):
        raise _overlapping()
