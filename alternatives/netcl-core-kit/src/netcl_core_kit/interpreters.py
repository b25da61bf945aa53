"""Subinterpreters: refused when netcl is imported. Its drivers, signals and locks belong to the process."""

from __future__ import annotations


def is_main_interpreter() -> bool:
    """True in the interpreter that the process began with."""
    try:
        import ctypes
    except ImportError as error:
        # With a GIL of its own an interpreter cannot import it; a Python without libffi has none either.
        return "subinterpreter" not in str(error)
    api = getattr(ctypes, "pythonapi", None)
    if api is None:  # another Python than CPython
        return True
    current, number = api.PyInterpreterState_Get, api.PyInterpreterState_GetID
    current.restype, number.argtypes, number.restype = ctypes.c_void_p, [ctypes.c_void_p], ctypes.c_int64
    return int(number(current())) == 0


def refuse_subinterpreters() -> None:
    """Raises ImportError in a subinterpreter, as mod_wsgi makes them."""
    if not is_main_interpreter():
        raise ImportError(
            "netcl runs in the main interpreter of a process alone: OpenCL drivers, signal handlers and NumPy do not "
            "support subinterpreters. Start a process (multiprocessing with spawn), or give mod_wsgi "
            "WSGIApplicationGroup %{GLOBAL}"
        )
