"""torch: names of the top level beyond those of netcl."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import netcl as nc
from netcl import amp
from netcl.core.dtypes import canonical
from netcl.core.errors import OutOfMemoryError as OutOfMemoryError
from netcl.torch.parts.devices.cuda import Event as Event
from netcl.torch.parts.devices.cuda import Stream as Stream

TORCH_NAMES = ("_assert", "is_autocast_cpu_enabled")
AcceleratorError = RuntimeError

_warn_always = False


class _Limits(NamedTuple):
    eps: float
    max: float
    min: float
    smallest_normal: float
    bits: int = 8


# Of dtypes that programs only compare: limits are asked for when libraries are imported.
_EIGHT_BITS = {
    "float8_e4m3fn": _Limits(0.125, 448.0, -448.0, 2.0**-6),
    "float8_e4m3fnuz": _Limits(0.125, 240.0, -240.0, 2.0**-7),
    "float8_e5m2": _Limits(0.25, 57344.0, -57344.0, 2.0**-14),
    "float8_e5m2fnuz": _Limits(0.125, 57344.0, -57344.0, 2.0**-15),
}


class finfo:
    """The limits of a floating dtype: ``bits``, ``eps``, ``max``, ``min``, ``tiny`` and ``smallest_normal`` (the least
    positive normal number), ``resolution``, and the name ``dtype``.
    """

    def __init__(self, type: Any = None) -> None:
        of = nc.get_default_dtype() if type is None else getattr(type, "dtype", type)
        limits = _EIGHT_BITS.get(of) or nc.finfo(of)
        self.bits: int = int(limits.bits)
        self.eps: float = limits.eps
        self.max: float = limits.max
        self.min: float = limits.min
        self.smallest_normal: float = limits.smallest_normal
        self.tiny: float = limits.smallest_normal
        self.dtype: str = of._name if limits.bits == 8 else str(canonical(of))
        digits = {"float64": 1e-15, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
        self.resolution: float = digits.get(self.dtype, 1.0)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        numbers = ", ".join(f"{name}={getattr(self, name):.6g}" for name in names)
        return f"finfo({numbers}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: ``bits``, ``max``, ``min``, and the name ``dtype``."""

    def __init__(self, type: Any) -> None:
        of = getattr(type, "dtype", type)
        limits = nc.iinfo(of)
        self.bits: int = int(limits.bits)
        self.max: int = limits.max
        self.min: int = limits.min
        self.dtype: str = str(canonical(of))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:.6g}, max={self.max:.6g}, dtype={self.dtype})"


def is_warn_always_enabled() -> bool:
    """The flag of ``set_warn_always``."""
    return _warn_always


def set_warn_always(b: bool) -> None:
    """Keeps a flag; warnings here follow Python's filters."""
    global _warn_always
    _warn_always = b


def get_autocast_gpu_dtype() -> Any:
    """The dtype of the current autocast block on a GPU."""
    return amp.get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    """The dtype of the current autocast block on a CPU."""
    return amp.get_autocast_dtype("cpu")


def is_autocast_cpu_enabled() -> bool:
    """True within an autocast block."""
    return amp.is_autocast_enabled("cpu")


def is_autocast_cache_enabled() -> bool:
    """True: casts of parameters are kept until the block ends."""
    return True


def clear_autocast_cache() -> None:
    """Does nothing: casts are dropped when their block ends."""


def get_device_module(device: Any = None) -> Any:
    """torch.cuda, whose functions answer for GPUs, or torch.cpu."""
    kind = str(device).partition(":")[0] if device is not None else "cuda"
    return sys.modules[f"netcl.torch.{'cpu' if kind == 'cpu' else 'cuda'}"]


def _assert(condition: Any, message: str) -> None:
    """Raises AssertionError with ``message`` if ``condition``, a bool or a tensor of one element, is False."""
    if not condition:
        raise AssertionError(message)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """``true_fn(*operands)`` if ``pred`` is true, else ``false_fn(*operands)``; reads ``pred`` on the host."""
    return (true_fn if bool(pred) else false_fn)(*operands)


def is_deterministic() -> bool:
    """True if deterministic algorithms are asked for."""
    return bool(nc.are_deterministic_algorithms_enabled())
