"""The inspection functions of the array API standard: the available dtypes and devices."""

from __future__ import annotations

from typing import Any

from netcl.array_api.data_types import KINDS, type_of
from netcl.core.device.capabilities import profile_of
from netcl.core.device.discovery import DeviceHandle, get_active_device, manager
from netcl.core.engine.registry import engine_for
from netcl.core.tensor.tensor import queue_of

__all__ = ["__array_namespace_info__"]


class Info:
    """The inspection API: ``capabilities``, ``default_device``, ``default_dtypes``, ``devices`` and ``dtypes``."""

    def capabilities(self) -> dict[str, Any]:
        """Returns the supported optional behaviour of the standard; tensors have any number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> DeviceHandle:
        """Returns the active device."""
        return get_active_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Returns the dtypes of Python numbers and of positions; there is none for complex numbers."""
        names = {"real floating": "float32", "integral": "int64", "indexing": "int64"}
        return {kind: type_of(name) for kind, name in names.items()}

    def devices(self) -> list[DeviceHandle]:
        """Returns the handles of NumPy and of every OpenCL device."""
        selectors = [f"opencl:{number}" for number in range(len(manager.discover()))]
        return [handle for name in ("cpu", *selectors) if (handle := manager.default(name)) is not None]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Returns the standard's dtypes that ``device`` computes in, by name, of one kind or several; no complex ones.

        float64 is missing on devices that lack it. Raises ValueError for an unknown kind.
        """
        kinds = tuple(KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        if unknown := [item for item in kinds if item not in KINDS]:
            raise ValueError(f"dtypes: unknown kind {unknown[0]!r}; expected one of {', '.join(KINDS)}")
        names = dict.fromkeys(name for item in kinds for name in KINDS[item])
        if not profile_of(engine_for(queue_of(device)).queue).has_fp64:
            names.pop("float64", None)
        return {name: type_of(name) for name in names}


def __array_namespace_info__() -> Info:
    """Returns the inspection functions."""
    return Info()
