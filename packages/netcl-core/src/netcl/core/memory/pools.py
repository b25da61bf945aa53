"""Pools of device buffers; ``netcl.core.memory`` exports their public names.

A pool keeps one stack of free buffers per bucket (a rounded size). ``allocate`` pops the stack or makes a buffer;
``BufferHandle.release``, or the handle's finalizer, gives it back. Giving back only appends to a deque, without a lock
or an OpenCL call, so it is safe from the garbage collector, in the middle of pool code, and at interpreter shutdown;
the next ``allocate`` sorts the returned buffers into the stacks.

A buffer may be given back while an enqueued kernel still uses it: an in-order queue runs the next user's kernels after
it. That holds for one queue, hence one PersistentBufferPool per queue. ``BufferPool`` and ``PinnedBufferPool`` serve a
context: as soon as netcl uses a second queue of it, a returned buffer waits for markers on all of them. netcl does not
know queues that were never passed to it: give back a buffer that such a queue still uses with ``release_after(event)``.

Tensors of a training step have many sizes, and one part of the step must reuse the buffers that another has released,
or the pool holds twice the peak use. So a PersistentBufferPool serves a request with a larger buffer if it has none of
the right size, and before it makes one it drops the least recently used ones, down to a share that keeps the next steps
from making them again. On CPU devices that allow it large buffers have regions of memory instead, which are split for
requests and merged as soon as their buffers are given back (``regions.py``).

Drivers allocate lazily: a buffer that was made may not exist yet, and the driver's error then comes with its first use.
Launches and transfers turn that error into ``out_of_memory`` too, after ``release_cached``.
"""

from __future__ import annotations

import contextlib
import operator
import os
import threading
from bisect import bisect_left
from collections import deque
from math import inf
from typing import Any

from netcl.core import config
from netcl.core.device.health import check_lost, forked_error, is_lost, mark_lost, queues_of
from netcl.core.errors import ShapeError
from netcl.core.memory.allocation import BufferHandle, PoolStats
from netcl.core.memory.huge_pages import LARGE, advise_huge_pages, has_huge_pages
from netcl.core.memory.out_of_memory import (
    is_out_of_memory,
    largest_buffer,
    out_of_memory,
    register_pool,
    release_cached,
)
from netcl.core.memory.regions import PAGE, Regions, allocates_late, check_room
from netcl.core.process import late_launches
from netcl.core.process.opencl import cl

__all__ = ["BufferHandle", "BufferPool", "PersistentBufferPool", "PinnedBufferPool", "PoolStats"]

_MIB = 1 << 20
_SMALLEST_BUCKET = 64
_REMEMBERED_SIZES = 1 << 16
_OVERSIZE_LIMIT = 3  # largest ratio of a buffer to its request
_LEAST_CACHED = 32 * _MIB  # unused bytes that are always kept, or an eighth of the peak use if that is more
_REGION_FROM = (256 << 10) + 1  # bytes of a buffer that has a region, in pools with regions


_new_handle = BufferHandle.__new__


class BufferPool:
    """Device buffers of one context in power-of-two buckets; thread-safe. ``max_cached_bytes`` bounds the unused
    buffers kept (None: no bound); the least recently used are dropped first. Raises ImportError without pyopencl.
    """

    _extra_flags = 0
    _in_order = False  # True if one queue orders all work on the buffers
    _oversize_from: float = inf  # buckets from this size on may be served by larger buffers, and be dropped for others
    _drops = False
    _regions: Regions | None = None

    def __init__(self, context: Any, max_cached_bytes: int | None = None) -> None:
        if cl is None:
            raise ImportError(f"pyopencl required: {type(self).__name__} holds OpenCL buffers")
        self.context = context
        self._cached_limit: float = inf if max_cached_bytes is None else max_cached_bytes
        self._counted_from, self._most_counted = inf, 0  # buckets from this size on keep at most that many buffers
        self._flags = cl.mem_flags.READ_WRITE | self._extra_flags
        self._late = allocates_late(context)
        self._process = os.getpid()
        # Re-entrant: a finalizer or a signal handler may allocate in the middle of code under this very lock.
        self._lock = threading.RLock()
        self._returned: deque[tuple[Any, Any, Any]] = deque()  # (key, buffer or None if dropped, event or None)
        self._free: dict[Any, list[tuple[int, Any]]] = {}  # key -> stack of (time of return, buffer)
        self._buckets: dict[int, int] = {}  # request -> bucket, so that a repeated request computes nothing
        self._clock = self._hits = self._misses = 0
        self._allocated = self._cached = self._peak = 0
        register_pool(self)

    @property
    def max_cached_bytes(self) -> int | None:
        """The bound of the unused buffers in bytes, or None without one."""
        return None if self._cached_limit == inf else int(self._cached_limit)

    def bucket_for(self, nbytes: int) -> int:
        """Returns the size in bytes of the buffer that serves a request of ``nbytes``."""
        return max(_SMALLEST_BUCKET, 1 << (nbytes - 1).bit_length()) if nbytes > 0 else _SMALLEST_BUCKET

    def allocate(self, nbytes: int, flags: int | None = None, note: Any = None) -> BufferHandle:
        """Allocates a buffer of at least ``nbytes`` bytes (0 gets the smallest one), its contents undefined.

        ``flags`` are cl.mem_flags (default READ_WRITE); for ``note`` see BufferHandle. Raises OutOfMemoryError if the
        device or the pool's budget has no room after every cache of the context was emptied and the request tried
        again.
        """
        key: Any = self._buckets.get(nbytes)
        if key is None:
            key = self._remember(nbytes)
        bucket: int = key
        if flags is not None and flags != self._flags:
            key = (bucket, flags)
        if self._in_order and self._returned:
            handle = self.try_reuse(key, bucket, nbytes, note)
            if handle is not None:
                return handle
        with self._lock:
            if self._returned:
                self._collect()
            stack = self._free.get(key)
            if not stack and bucket >= self._oversize_from and type(key) is int:
                key = bucket = self._larger(bucket)
                stack = self._free.get(key)
            buffer = None
            if stack:
                buffer = stack.pop()[1]
                self._cached -= bucket
            elif self._regions is not None and bucket >= _REGION_FROM and type(key) is int:
                buffer = self._regions.reuse(bucket)
                self._allocated += 0 if buffer is None else bucket
            if buffer is not None:
                self._hits += 1
            else:
                self._misses += 1
                if self._drops and bucket >= self._oversize_from:
                    spare = max(_LEAST_CACHED, self._peak >> 3)
                    self._evict(min(bucket, self._cached - spare), int(self._oversize_from))
            if self._allocated - self._cached > self._peak:
                self._peak = self._allocated - self._cached
        if buffer is None:
            buffer = self._make(bucket, flags)
        return BufferHandle(buffer, nbytes, bucket, self, key, note)

    def try_reuse(self, key: Any, bucket: int, nbytes: int, note: Any) -> BufferHandle | None:
        """Reuses one of the two buffers that were returned last if its key is ``key``, else returns None; for pools of
        one in-order queue.

        It takes no lock: a deque's pop and append are atomic, and buffers on the deque still count as in use.
        """
        returned = self._returned
        try:
            last = returned.pop()
        except IndexError:
            return None
        if last[0] != key or last[1] is None or last[2] is not None:
            other = last
            try:
                last = returned.pop()
            except IndexError:
                returned.append(other)
                return None
            if last[0] != key or last[1] is None or last[2] is not None:
                returned.append(last)
                returned.append(other)
                return None
            returned.append(other)
        self._hits += 1
        # BufferHandle(...) without its __init__: that call goes through C and takes 0.05 microseconds more.
        handle = _new_handle(BufferHandle)
        handle.buffer = last[1]
        handle.nbytes = nbytes
        handle.bucket_size = bucket
        handle.pool = self
        handle.note = note
        handle._entry = last
        handle._live = True
        return handle

    def release(self, handle: BufferHandle) -> None:
        """Releases ``handle``, like ``handle.release()``."""
        handle.release()

    def clear(self) -> None:
        """Drops every unused buffer; the driver keeps one that a kernel still uses until the kernel has finished."""
        with self._lock:
            self._collect()
            self._evict(self._cached)
            while self._returned:
                try:
                    self._allocated -= _size_of(self._returned.popleft()[0])
                except IndexError:  # another thread was faster
                    break
            self._trim()

    @property
    def stats(self) -> PoolStats:
        """The current counters."""
        with self._lock:
            self._collect()
            unused = 0 if self._regions is None else self._regions.unused
            return PoolStats(self._hits, self._misses, self._allocated + unused, self._cached + unused)

    def reset_peak(self) -> None:
        """Makes ``peak_bytes`` start from the bytes in use."""
        with self._lock:
            self._collect()
            self._peak = self._allocated - self._cached

    def get_stats(self) -> dict[str, Any]:
        """Returns the counters as a dict: hits, misses, hit_rate, bytes_allocated (in use and cached), bytes_cached,
        bytes_in_use, peak_bytes (most ever in use), buckets (bucket size -> unused buffers).
        """
        with self._lock:
            stats = self.stats
            buckets: dict[int, int] = {}
            for key, stack in list(self._free.items()):
                if stack:
                    buckets[_size_of(key)] = buckets.get(_size_of(key), 0) + len(stack)
            return {
                "hits": stats.hits,
                "misses": stats.misses,
                "hit_rate": stats.hit_rate,
                "bytes_allocated": stats.bytes_allocated,
                "bytes_cached": stats.bytes_cached,
                "bytes_in_use": stats.bytes_allocated - stats.bytes_cached,
                "peak_bytes": self._peak,
                "buckets": dict(sorted(buckets.items())),
            }

    def _remember(self, nbytes: int) -> int:
        try:
            size = operator.index(nbytes)
        except TypeError:
            raise TypeError(f"expected the size of a buffer as a whole number of bytes, got {nbytes!r}") from None
        if size < 0:
            raise ShapeError(f"expected the size of a buffer in bytes to be at least 0, got {size}")
        if len(self._buckets) >= _REMEMBERED_SIZES:
            self._buckets.clear()
        bucket = self._buckets[size] = self.bucket_for(size)
        return bucket

    def _collect(self) -> None:
        """Sorts the returned buffers into the free stacks; the lock is held."""
        returned = self._returned
        free = self._free
        # read before the markers: a buffer that is returned later may be used by work enqueued after them
        count = len(returned)
        markers = self._markers() if count else None
        for _ in range(count):
            try:
                key, buffer, event = returned.popleft()
            except IndexError:  # a re-entrant call was faster
                break
            size = key if type(key) is int else key[0]
            if event is None:
                event = markers
            if buffer is None or (size >= self._counted_from and len(free.get(key, ())) >= self._most_counted):
                self._allocated -= size
            elif event is not None and not _complete(event):
                returned.append((key, buffer, event))
            elif self._regions is not None and self._regions.give(buffer):
                self._allocated -= size
            else:
                self._clock += 1
                stack = free.get(key)
                if stack is None:
                    stack = free[key] = []
                stack.append((self._clock, buffer))
                self._cached += size
        if self._cached > self._cached_limit:
            self._evict(self._cached - int(self._cached_limit))

    def _markers(self) -> tuple[Any, ...] | None:
        """Returns events after all work enqueued so far on the context's queues, or None if one queue orders it all."""
        queues = () if self._in_order else queues_of(self.context)
        if len(queues) < 2 or os.getpid() != self._process:
            return None
        late_launches.enqueue()
        markers = []
        for queue in queues:
            try:
                markers.append(cl.enqueue_marker(queue))
                queue.flush()
            except cl.Error:
                with contextlib.suppress(cl.Error):  # a lost device does no more work
                    queue.finish()
        return tuple(markers)

    def _larger(self, bucket: int) -> int:
        """Returns the smallest bucket that has an unused buffer and may serve a request of ``bucket``, or ``bucket``
        itself if there is none; the lock is held.
        """
        most = _OVERSIZE_LIMIT * bucket
        fitting = (
            key for key, stack in list(self._free.items()) if stack and type(key) is int and bucket < key <= most
        )
        return min(fitting, default=bucket)

    def _trim(self) -> None:
        """Gives the pages of free regions to the system; the lock is held."""

    def _evict(self, nbytes: int, least: int = 0) -> None:
        """Drops the least recently used free buffers of at least ``least`` bytes until ``nbytes`` are freed, locked."""
        goal = max(0, self._cached - nbytes)
        while self._cached > goal:
            stacks = list(self._free.items())
            candidates = ((stack[0][0], key) for key, stack in stacks if stack and _size_of(key) >= least)
            oldest = min(candidates, default=(0, None))[1]
            if oldest is None:
                return
            size, stack = _size_of(oldest), self._free[oldest]
            if stack:  # a signal handler may have taken it
                del stack[0]
                self._cached -= size
                self._allocated -= size

    def _budget(self) -> int | None:
        """Returns the most bytes that the pool may hold, or None without a limit."""
        return None

    def _make(self, bucket: int, flags: int | None) -> Any:
        """Makes a new buffer; without the lock, since making room empties other pools under their locks."""
        if os.getpid() != self._process:
            raise forked_error()
        check_lost(self.context)
        budget = self._budget()
        buffer = self._try(bucket, flags, budget)
        if buffer is None:
            release_cached(self.context)
            buffer = self._try(bucket, flags, budget)
        if buffer is None:
            free = None if budget is None else max(0, budget - self.stats.bytes_allocated)
            raise out_of_memory(self.context, bucket, free=free)
        return buffer

    def _try(self, bucket: int, flags: int | None, budget: int | None) -> Any:
        """Returns a new buffer, or None if there is no room."""
        if bucket > largest_buffer(self.context):
            return None
        with self._lock:
            if budget is not None and self._allocated + bucket > budget:
                self._evict(self._allocated + bucket - budget)
                if self._allocated + bucket > budget:
                    return None
            self._allocated += bucket
            self._peak = max(self._peak, self._allocated - self._cached)
        buffer = None
        try:
            buffer = self._new_buffer(bucket, self._flags if flags is None else flags | self._extra_flags)
            return buffer
        except cl.Error as error:
            if is_lost(error):
                raise mark_lost(self.context, f"a buffer of {bucket} bytes was made", error) from error
            if is_out_of_memory(error):
                return None
            raise RuntimeError(f"a buffer of {bucket} bytes cannot be made: {error}") from error
        except OSError:
            return None
        finally:
            if buffer is None:
                with self._lock:
                    self._allocated -= bucket

    def _new_buffer(self, bucket: int, flags: int) -> Any:
        """Returns a new buffer; raises the driver's errors, or OSError if the system has no room for it."""
        if self._late:
            check_room(bucket)
            flags |= cl.mem_flags.ALLOC_HOST_PTR
        return cl.Buffer(self.context, flags, bucket)


class PinnedBufferPool(BufferPool):
    """BufferPool of page-locked host buffers (ALLOC_HOST_PTR), for staging. The host cannot swap them out:
    NETCL_PINNED_MAX_MB bounds the bytes the pool holds in all, ``max_cached_bytes`` the unused ones (None: the same).
    """

    def __init__(self, context: Any, max_cached_bytes: int | None = None) -> None:
        if cl is not None:
            self._extra_flags = cl.mem_flags.ALLOC_HOST_PTR
        super().__init__(context, self._budget() if max_cached_bytes is None else max_cached_bytes)

    def room_for(self, nbytes: int) -> bool:
        """True if a request of ``nbytes`` can be served within NETCL_PINNED_MAX_MB."""
        with self._lock:
            self._collect()
            bucket = self.bucket_for(nbytes)
            return bool(self._free.get(bucket)) or self._allocated - self._cached + bucket <= self._budget()

    def _budget(self) -> int:
        return int(config.get("PINNED_MAX_MB")) * _MIB


class PersistentBufferPool(BufferPool):
    """The pool of tensors: buffers of one in-order queue, bounded.

    Up to 1 MB the bucket is the next size of ``BUCKETS``; above, it is the request rounded up to a multiple of one
    eighth of the largest power of two not above it, so at most an eighth of a new buffer is wasted. If the bucket has
    no unused buffer, one up to three times as large serves the request. On CPU devices, unless ``drops`` is False, each
    new buffer replaces unused ones, least recently used first, until as many bytes are freed or the unused bytes are at
    most 32 MB or an eighth of the peak use.

    With ``regions`` buffers of more than 256 KB have a region of these, rounded up to pages, and leave it to others as
    soon as they are given back. With ``drops`` pages of free regions can go back to the system.

    ``max_cached_bytes`` (None: NETCL_MAX_CACHED_GB) bounds the unused buffers; the least recently used are dropped
    first. ``max_buffers_per_bucket`` bounds their number in each bucket of at least ``large_bucket_bytes``; smaller
    buckets are bounded by bytes alone, since a training loop returns hundreds of equal tensors in every step and must
    find them all again. NETCL_POOL_BUDGET_FRAC of the device's memory bounds the bytes the pool holds in all.
    """

    _in_order = True

    BUCKETS = (1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, _MIB, 4 * _MIB, 16 * _MIB, 64 * _MIB, 256 * _MIB)

    def __init__(
        self,
        context: Any,
        queue: Any,
        max_cached_bytes: int | None = None,
        max_buffers_per_bucket: int = 16,
        large_bucket_bytes: int = 256 * _MIB,
        *,
        drops: bool = True,
        regions: Regions | None = None,
    ) -> None:
        super().__init__(context, _max_cached() if max_cached_bytes is None else max_cached_bytes)
        self.queue = queue
        self._counted_from, self._most_counted = large_bucket_bytes, max_buffers_per_bucket
        self._reads_limit = max_cached_bytes is None
        self._device_bytes = min(device.global_mem_size for device in context.devices)
        self._huge_pages = has_huge_pages(context)
        self._regions = regions
        self._oversize_from = _MIB + 1 if regions is None else inf
        # On other devices a driver waits for the device before it frees memory.
        self._drops = drops and all(device.type & cl.device_type.CPU for device in context.devices)

    def bucket_for(self, nbytes: int) -> int:
        """Returns the size in bytes of the buffer that serves a request of ``nbytes``."""
        if self._regions is not None and nbytes >= _REGION_FROM:
            return -(-nbytes // PAGE) * PAGE
        if nbytes <= _MIB:
            return self.BUCKETS[bisect_left(self.BUCKETS, nbytes)]
        step = (1 << (nbytes.bit_length() - 1)) >> 3
        return -(-nbytes // step) * step

    def _collect(self) -> None:
        super()._collect()
        regions, limit = self._regions, self._cached_limit
        if regions is not None and regions.resident > limit and self._cached + regions.unused > limit:
            self._trim()

    def _trim(self) -> None:
        if self._regions is None or not self._regions.unused or os.getpid() != self._process:
            return
        if not self._drops:  # an arena: a replay in another thread may use what no tensor has now
            return
        late_launches.enqueue()
        with contextlib.suppress(cl.Error):  # a lost device keeps its memory
            self.queue.finish()
            self._regions.trim()

    def _new_buffer(self, bucket: int, flags: int) -> Any:
        if self._regions is not None and bucket >= _REGION_FROM and flags == self._flags:
            flags_there = flags | cl.mem_flags.USE_HOST_PTR
            with self._lock:
                buffer = self._regions.take(bucket, lambda memory: cl.Buffer(self.context, flags_there, hostbuf=memory))
                if buffer is not None:
                    return buffer
        buffer = super()._new_buffer(bucket, flags)
        if self._huge_pages and bucket >= LARGE:
            advise_huge_pages(self.queue, buffer, bucket)
        return buffer

    def _budget(self) -> int | None:
        # Read only when a buffer is made: a request that is served from the pool reads no variables.
        if self._reads_limit:
            self._cached_limit = _max_cached()
        return int(config.get("POOL_BUDGET_FRAC") * self._device_bytes)


def _max_cached() -> int:
    return int(config.get("MAX_CACHED_GB") * 1024 * _MIB)


def _size_of(key: Any) -> int:
    return key if isinstance(key, int) else int(key[0])


def _complete(event: Any) -> bool:
    """True if an event, or each of several, is complete."""
    if isinstance(event, tuple):
        return all(map(_complete, event))
    # Negative states are errors: the command will not run any more.
    return bool(event.command_execution_status <= cl.command_execution_status.COMPLETE)
