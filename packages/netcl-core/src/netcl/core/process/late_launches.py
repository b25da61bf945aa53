"""The queues with launches that may not be enqueued yet, since their programs are still being built.

Only launches may wait (``backend/opencl/builds/deferred_launches.py``). Whatever else goes to a driver comes after them
in the order of the program, and so calls ``enqueue`` first: copies, markers, waits, and the release of memory.
"""

from __future__ import annotations

from collections.abc import Callable

# By the address of a queue: the function that enqueues what waits there. Empty but while programs are missing.
waiting: dict[int, Callable[[], None]] = {}


def enqueue() -> None:
    """Enqueues all launches that wait, on all queues, as soon as their programs are built; returns after the last.

    Raises KernelBuildError if a program does not build: the launches after it are dropped, and the tensors that they
    would have computed raise an error at their next use.
    """
    for enqueue_there in tuple(waiting.values()):
        enqueue_there()
