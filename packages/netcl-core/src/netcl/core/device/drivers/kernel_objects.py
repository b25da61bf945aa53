"""OpenCL programs and kernels made by pyopencl without its caches on disk.

pyopencl keeps Python code that it generates for each kernel in pytools' cache, pickled, in the user's cache folder: it
raises FileNotFoundError at the first kernel if that folder cannot be made, and runs what is stored there. Its cache of
binaries has faults of its own (``program_cache`` has netcl's). Code for the same arguments is kept in memory instead.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import Any

from netcl.core.device.drivers import pocl_folder
from netcl.core.process.opencl import cl


class _InMemory(dict[Any, Any]):
    """The part of pytools' WriteOncePersistentDict that pyopencl uses, for this process alone."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def store_if_not_present(self, key: Any, value: Any) -> None:
        self.setdefault(key, value)


_replaced = False
# Re-entrant: a signal handler or a finalizer may make a kernel while one is made.
_lock = threading.RLock()
_naming = threading.RLock()


def new_kernel(program: Any, name: str) -> Any:
    """Returns a new cl.Kernel of a built program; raises cl.Error if the program has no such kernel."""
    if not _replaced:
        _replace_cache()
    with _naming:  # two threads may choose the same name for generated code, and pytools warns
        return cl.Kernel(program, name)


def raw_program(context: Any, *args: Any) -> Any:
    """Returns pyopencl's program object of a context and a source, or of devices and binaries.

    ``cl.Program`` would read and write pyopencl's own cache of binaries. Raises OSError if the driver would end the
    process at the build, as the disk is full.
    """
    pocl_folder.check_room(context.devices[0].platform)
    pyopencl: Any = cl
    return pyopencl._cl._Program(context, *args)


def _replace_cache() -> None:
    """Makes pyopencl keep the code of its kernels in memory; the module opens its cache as it is imported."""
    global _replaced
    with _lock:
        if _replaced:
            return
        pytools: Any = sys.modules["pytools.persistent_dict"]  # pyopencl has imported it
        on_disk = pytools.WriteOncePersistentDict
        pytools.WriteOncePersistentDict = _InMemory
        try:
            invoker: Any = import_module(f"{cl.__name__}.invoker")
        finally:
            pytools.WriteOncePersistentDict = on_disk
        invoker.invoker_cache = _InMemory()
        _replaced = True
