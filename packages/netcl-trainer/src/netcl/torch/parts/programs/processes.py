"""torch.multiprocessing: Python's multiprocessing, and ``spawn``."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

TORCH_NAMES = (
    "Event", "Lock", "Manager", "Pipe", "Pool", "Process", "Queue", "RLock", "Semaphore", "SimpleQueue", "cpu_count",
    "current_process", "get_context", "get_sharing_strategy", "get_start_method", "set_sharing_strategy",
    "set_start_method", "spawn",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """The names of Python's multiprocessing."""
    return getattr(multiprocessing, name)


def get_sharing_strategy() -> str:
    """``"file_system"``: tensors are pickled as arrays."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Does nothing: tensors are pickled as arrays."""


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> Any:  # fmt: skip
    """Starts processes that call ``fn(number, *args)`` and waits for them; raises RuntimeError if one fails."""
    context: Any = multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(at, *args), daemon=daemon) for at in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    failed = [at for at, process in enumerate(processes) if process.exitcode]
    if failed:
        raise RuntimeError(f"process {failed[0]} ended with exit code {processes[failed[0]].exitcode}")
    return None
