"""torch.multiprocessing: Python's multiprocessing, and ``spawn``."""

from __future__ import annotations

import multiprocessing
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import connection
from types import ModuleType
from typing import Any

TORCH_NAMES = (
    "Event", "Lock", "Manager", "Pipe", "Pool", "Process", "Queue", "RLock", "Semaphore", "SimpleQueue", "cpu_count",
    "current_process", "get_context", "get_sharing_strategy", "get_start_method", "set_sharing_strategy",
    "set_start_method", "spawn", "start_processes",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """The names of Python's multiprocessing."""
    return getattr(multiprocessing, name)


def get_sharing_strategy() -> str:
    """``"file_system"``: tensors are pickled as arrays."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Does nothing: tensors are pickled as arrays."""


class ProcessExitedException(RuntimeError):
    """A process of ``spawn`` has ended with an exit code other than 0."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None, exit_code: int | None) -> None:
        super().__init__(msg)
        self.error_index: int = error_index
        self.error_pid: int | None = error_pid
        self.exit_code: int | None = exit_code


class ProcessRaisedException(RuntimeError):
    """The function of a process of ``spawn`` has raised; the message has the traceback of that process."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None) -> None:
        super().__init__(msg)
        self.error_index: int = error_index
        self.error_pid: int | None = error_pid


class ProcessContext:
    """The processes of ``spawn`` with ``join=False``."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes: list[Any] = processes
        self._errors = errors
        self._left = dict(enumerate(processes))

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Waits until a process ends; True if all have. Ends the others and raises if one has failed."""
        waiting = [process.sentinel for process in self._left.values()]
        ended = connection.wait(waiting, timeout=timeout) if waiting else []
        for at, process in list(self._left.items()):
            if process.sentinel in ended:
                process.join()
                del self._left[at]
                if process.exitcode:
                    self._fail(at)
        return not self._left

    def _fail(self, at: int) -> None:
        for process in self._left.values():
            process.terminate()
            process.join()
        failed, errors = self.processes[at], self._errors[at]
        if errors.poll():
            text = errors.recv()
            raise ProcessRaisedException(f"process {at} of spawn raised; its traceback:\n\n{text}", at, failed.pid)
        raise ProcessExitedException(
            f"process {at} of spawn ended with exit code {failed.exitcode}", at, failed.pid, failed.exitcode
        )


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Starts processes that call ``fn(number, *args)`` and waits for them; ``torch`` means netcl.torch in them if it
    does here.

    Raises ProcessRaisedException or ProcessExitedException for the first process that fails, and ends the others.
    """
    context: Any = multiprocessing.get_context(start_method)
    installed = sys.modules.get("torch") is sys.modules["netcl.torch"]
    begin = _Begin(getattr(sys.modules["__main__"], "__file__", None), installed)
    processes, errors = [], []
    for at in range(nprocs):
        received, sent = context.Pipe(duplex=False)
        process = context.Process(target=_called, args=(begin, at, fn, args, sent), daemon=daemon)
        with _main_hidden():
            process.start()
        sent.close()
        processes.append(process)
        errors.append(received)
    made = ProcessContext(processes, errors)
    if not join:
        return made
    while not made.join():
        pass
    return None


start_processes = spawn


@contextmanager
def _main_hidden() -> Iterator[None]:
    """A block in which a new process does not find the main script, which it runs after ``torch`` has its meaning."""
    names = vars(sys.modules["__main__"])
    hidden: tuple[str, ...] = ("__file__", "__spec__")
    kept = {name: names.pop(name) for name in hidden if name in names}
    names["__spec__"] = None
    try:
        yield
    finally:
        names.update(kept)


class _Begin:
    """The first argument of a new process: to unpickle it prepares the process for the other ones."""

    def __init__(self, path: str | None, installed: bool) -> None:
        self.arguments = path, installed

    def __reduce__(self) -> tuple[Any, ...]:
        return _begin, self.arguments


def _begin(path: str | None, installed: bool) -> None:
    """Gives ``torch`` its meaning, then runs the main script as ``__mp_main__``, as Python does."""
    if installed:
        import_module("netcl.torch").install()
    if path is not None:
        main = ModuleType("__mp_main__")
        main.__dict__.update(runpy.run_path(path, run_name="__mp_main__"))
        sys.modules["__main__"] = sys.modules["__mp_main__"] = main


def _called(begun: Any, at: int, fn: Callable[..., Any], args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(at, *args)
    except KeyboardInterrupt:
        return
    except Exception:  # noqa: BLE001 - the parent raises it
        errors.send(traceback.format_exc())
        sys.exit(1)
