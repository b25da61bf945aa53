"""Allocates large buffers of a CPU device in regions of this process's memory, which are split and merged.

A CPU driver's own buffers each take and keep pages, so a training step with tensors of many sizes holds more than it
uses, and dropping buffers for others makes the system clear their pages in each step. Here buffers of all sizes share
chunks of memory: a request takes the smallest free region that fits and leaves the rest free, and a returned region is
merged with its free neighbours. A chunk is a range of addresses, with pages from their first use on; it is used from
its start on, and grows only if no free region fits.

A buffer is made on its region by CL_MEM_USE_HOST_PTR, which these drivers use in place. As with all buffers of an
in-order queue, the next one on a region is used after the work that is still enqueued on the last. Returned buffers are
kept for the next request that takes the same region; one that is dropped gives its region back when the driver's object
is gone.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from netcl.core.process.opencl import cl

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


Array = np.ndarray[Any, Any]
PAGE = 4096
_CHUNK = 256 << 20
_CHUNK_BITS = 48  # a place is the number of its chunk and, below, the offset there
_OFFSET = (1 << _CHUNK_BITS) - 1
# Drivers that use aligned memory of the host in place: others copy it at each map.
_PLATFORMS = ("Intel(R) OpenCL", "Portable Computing Language")
_RESERVE = 64 << 20  # bytes of address space
_RESERVE_OF_CHUNKS = 192 << 20  # more, so that small buffers can be had after a large one could not
_MOST_KEPT = 1024  # buffers of free regions


def has_regions(queue: Any) -> bool:
    """True if the device of a queue is a CPU, and its driver works in place on memory of this process."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # Linux: elsewhere mapped memory may count as used at once
        return False
    device = queue.device
    return bool(device.type & cl.device_type.CPU) and device.platform.name.strip() in _PLATFORMS


def allocates_late(context: Any) -> bool:
    """True if the driver gives a buffer its memory at its first use, without a check: PoCL ends the process with
    SIGSEGV if there is none. With ALLOC_HOST_PTR it allocates at once, and reports an error.
    """
    return any(device.platform.name == "Portable Computing Language" for device in context.devices)


def check_room(nbytes: int, reserve: int = _RESERVE) -> None:
    """Raises OSError if the address space is limited (``ulimit -v``) and has no room for ``nbytes`` and a reserve:
    drivers end the process if they cannot allocate as they compile and run kernels.
    """
    if resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] >= 0:
        mmap.mmap(-1, nbytes + reserve).close()


class _Place:
    """The region of a buffer, and True while the buffer is given out."""

    __slots__ = ("at", "size", "used")

    def __init__(self, at: int, size: int) -> None:
        self.at, self.size, self.used = at, size, True


class Regions:
    """Free and used regions of the chunks. The caller holds a lock, except to return a region. The garbage collector
    may run code that allocates in the middle of a call: that call finds no room.
    """

    def __init__(self) -> None:
        self._chunks: list[tuple[mmap.mmap, Array]] = []
        self._top = self._end = 0  # places: the first that was never used, and the end of the last chunk
        self._free: list[tuple[int, int]] = []  # (size, place), sorted
        self._size_at: dict[int, int] = {}  # by place
        self._place_to: dict[int, int] = {}  # by end
        self._clean: set[int] = set()  # places of free regions without pages
        self._kept: dict[tuple[int, int], Any] = {}  # buffers that are not given out, by place and size
        self._places: dict[int, tuple[_Place, weakref.ref[Any]]] = {}  # by the identity of the buffer
        self._gone: deque[tuple[int, _Place]] = deque()  # of buffers that were dropped
        self._busy = False
        self.resident = 0  # bytes of pages that exist, at most
        self._unused = 0  # of these, bytes of free regions

    @property
    def unused(self) -> int:
        """Bytes of free regions with allocated pages."""
        with self._alone() as alone:
            if alone:
                self._take_back_gone()
            return self._unused

    def reuse(self, nbytes: int) -> Any:
        """Returns the buffer of ``nbytes`` bytes that was returned on the smallest fitting free region, or None."""
        if self._busy:
            return None
        self._busy = True
        try:
            if self._gone:
                self._take_back_gone()
            position = bisect_left(self._free, (nbytes, 0))
            if position == len(self._free):
                return None
            buffer = self._kept.pop((self._free[position][1], nbytes), None)
            if buffer is not None:
                self._cut(position, nbytes)
                self._places[id(buffer)][0].used = True
            return buffer
        finally:
            self._busy = False

    def take(self, nbytes: int, make: Callable[[Array], Any]) -> Any:
        """Returns ``make`` of ``nbytes`` bytes of memory, a multiple of PAGE; None within another call. Raises OSError
        if the system grants no further chunk, and the errors of ``make``.
        """
        with self._alone() as alone:
            if not alone:
                return None
            self._take_back_gone()
            position = bisect_left(self._free, (nbytes, 0))
            start = self._cut(position, nbytes) if position < len(self._free) else self._grown(nbytes)
            offset = start & _OFFSET
            array: Array = self._chunks[start >> _CHUNK_BITS][1][offset : offset + nbytes]
            try:
                buffer = make(array)
            except BaseException:
                self._merge(start, nbytes)
                raise
            number, place, gone = id(buffer), _Place(start, nbytes), self._gone
            self._places[number] = place, weakref.ref(array, lambda _: gone.append((number, place)))
            return buffer

    def give(self, buffer: Any) -> bool:
        """Makes the region of a buffer free and keeps the buffer; False if it has none, or within another call."""
        entry = self._places.get(id(buffer))
        if entry is None or entry[1]() is None or self._busy:  # without its memory: the buffer no longer exists
            return False
        self._busy = True
        try:
            place = entry[0]
            place.used = False
            self._kept[place.at, place.size] = buffer
            if len(self._kept) > _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._merge(place.at, place.size)
            return True
        finally:
            self._busy = False

    def trim(self) -> None:
        """Gives the pages of free regions to the system. No enqueued work may use them any more."""
        with self._alone() as alone:
            if not alone:
                return
            self._kept.clear()
            self._take_back_gone()
            for size, place in self._free:
                if place not in self._clean:
                    self._chunks[place >> _CHUNK_BITS][0].madvise(mmap.MADV_DONTNEED, place & _OFFSET, size)
                    self._clean.add(place)
                    self.resident -= size
                    self._unused -= size

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """True unless another call has not ended."""
        busy, self._busy = self._busy, True
        try:
            yield not busy
        finally:
            self._busy = busy

    def _cut(self, position: int, nbytes: int) -> int:
        """Returns the place of ``nbytes`` at the start of the free region number ``position``; the rest stays free."""
        size, place = self._free[position]
        self._remove(place)
        if size > nbytes:
            self._add(place + nbytes, size - nbytes)
        return place

    def _grown(self, nbytes: int) -> int:
        """Returns the place of a region at the top; a free region that ends there becomes its start."""
        place = self._place_to.get(self._top, self._top)
        if place + nbytes > self._end:
            size = max(_CHUNK, nbytes)
            try:
                check_room(size, _RESERVE_OF_CHUNKS)
            except OSError:  # less may fit
                size = nbytes
                check_room(size, _RESERVE_OF_CHUNKS)
            chunk = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            chunk.madvise(mmap.MADV_HUGEPAGE)
            place = self._top = len(self._chunks) << _CHUNK_BITS
            self._chunks.append((chunk, np.frombuffer(chunk, np.uint8)))
            self._end = self._top + size
        elif place != self._top:
            self._remove(place)
        self.resident += place + nbytes - self._top
        self._top = place + nbytes
        return place

    def _take_back_gone(self) -> None:
        """Frees the regions of buffers that were dropped without a release."""
        while self._gone:
            number, place = self._gone.popleft()
            entry = self._places.get(number)
            if entry is not None and entry[0] is place:  # else a new buffer has the identity already
                del self._places[number]
            if place.used:
                self._merge(place.at, place.size)

    def _merge(self, place: int, size: int) -> None:
        before = self._place_to.get(place)
        if before is not None:
            size += self._remove(before)
            place = before
        if place + size in self._size_at:
            size += self._remove(place + size)
        self._add(place, size)

    def _add(self, place: int, size: int) -> None:
        insort(self._free, (size, place))
        self._size_at[place] = size
        self._place_to[place + size] = place
        self._unused += size

    def _remove(self, place: int) -> int:
        """Removes a region from the free ones, for use or merging; returns its size."""
        size = self._size_at.pop(place)
        del self._free[bisect_left(self._free, (size, place))]
        del self._place_to[place + size]
        if place in self._clean:
            self._clean.remove(place)
            self.resident += size
        else:
            self._unused -= size
        return size


class RetiredChunks:
    """The memory of regions that are gone, kept until the work that was enqueued before has finished: a driver keeps
    its buffers for that work, and not the memory of this process below them.
    """

    def __init__(self) -> None:
        self._chunks: deque[Any] = deque()
        self._lock = threading.RLock()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def follow(self, regions: Regions) -> None:
        """Takes the chunks of ``regions`` once these are gone. The garbage collector may run that at any time."""
        weakref.finalize(regions, self._chunks.append, regions._chunks).atexit = False

    def free(self, finish: Callable[[], object]) -> None:
        """Calls ``finish()``, which must wait for all enqueued work, and frees the chunks that were there before."""
        with self._lock:
            count = len(self._chunks)
            finish()
            for _ in range(count):
                self._chunks.popleft()
