"""Settings of the process with PyTorch's names: threads of the NumPy engine, and kernels chosen by measurements."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from netcl.core import config

# -- threads -----------------------------------------------------------------------------------------------------------


def _openblas() -> Any:
    """Returns the OpenBLAS that NumPy's wheel has brought, None for another NumPy."""
    package = Path(np.__file__).parent
    for folder, pattern in (
        (package.parent / "numpy.libs", "*openblas*"),
        (package / ".dylibs", "*openblas*"),
    ):
        for file in sorted(folder.glob(pattern)) if folder.is_dir() else ():
            try:
                return ctypes.CDLL(str(file))
            except OSError:
                continue
    return None


def _function(action: str) -> Any:
    library = _openblas()
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        function = getattr(library, f"{prefix}openblas_{action}_num_threads{suffix}", None)
        if function is not None:
            return function
    return None


_interop: int | None = None


def usable_cores() -> int:
    """Returns the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_num_threads() -> int:
    """Returns the number of threads of matrix products on the NumPy engine; the number of cores if it is unknown."""
    getter = _function("get")
    return usable_cores() if getter is None else int(getter())


def set_num_threads(num: int) -> None:
    """Sets the number of threads of matrix products on the NumPy engine. The driver of an OpenCL device has threads of
    its own: to use a part of a CPU, write ``nc.manager.split(handle, n)``.

    Has an effect if NumPy comes with OpenBLAS, as its wheels for Linux and Windows do; for another library set its
    variable of the environment. Raises ValueError for a number below 1.
    """
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise ValueError(f"set_num_threads: expected a whole number from 1, got {num!r}")
    setter = _function("set")
    if setter is not None:
        setter(num)


def get_num_interop_threads() -> int:
    """Returns the number that ``set_num_interop_threads`` was given, 1 by default."""
    return _interop or 1


def set_num_interop_threads(num: int) -> None:
    """Keeps a number of threads for operations that run at the same time (there are none on one queue): only
    ``get_num_interop_threads`` returns it. Raises ValueError for a number below 1.
    """
    global _interop
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise ValueError(f"set_num_interop_threads: expected a whole number from 1, got {num!r}")
    _interop = num


# -- determinism -------------------------------------------------------------------------------------------------------

_deterministic = ExitStack()
_warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Turns NETCL_DETERMINISTIC on or off in this process: no measurement chooses a kernel, so that the same program
    and driver give the same bits. Ops add in a fixed order with it and without it; none is refused.
    """
    global _warn_only
    _deterministic.close()
    _deterministic.enter_context(config.override(DETERMINISTIC=bool(mode)))
    _warn_only = bool(mode) and bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Returns True if NETCL_DETERMINISTIC is on."""
    return bool(config.get("DETERMINISTIC"))


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Returns ``warn_only`` of ``use_deterministic_algorithms``, which changes nothing: no op is refused."""
    return _warn_only


_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Calls ``use_deterministic_algorithms``: 0 or "default" off, 1 or "warn" on with warn_only, 2 or "error" on.
    Raises ValueError for another mode.
    """
    mode = _DEBUG_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise ValueError(f"set_deterministic_debug_mode: expected one of {_DEBUG_MODES}, got {debug_mode!r}")
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """Returns 0, 1 or 2, as ``set_deterministic_debug_mode`` takes them."""
    return 0 if not are_deterministic_algorithms_enabled() else 1 if _warn_only else 2


def set_flush_denormal(mode: bool) -> bool:
    """Returns False: subnormal numbers are kept, or not, as the device does, and ``mode`` has no effect."""
    return False
