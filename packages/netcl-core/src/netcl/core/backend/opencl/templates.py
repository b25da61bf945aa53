"""Reads the OpenCL C templates of the package and tells what of a device their parameters depend on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

_UNITS_ON_CPU = 64
_CPU = 2  # CL_DEVICE_TYPE_CPU


class Traits(NamedTuple):
    """What the templates need to know of a device."""

    is_cpu: bool
    vector: int  # float lanes of one explicit vector
    local_memory: int


_traits: WeakKeyDictionary[Any, Traits] = WeakKeyDictionary()


def traits(engine: Any) -> Traits:
    """The traits of the device behind an engine, asked for once."""
    known = _traits.get(engine)
    if known is None:
        device = engine.queue.device
        # PoCL reports the 16 lanes of the host but compiles for fewer, and its LLVM aborts on wider multiply-adds.
        widest = 8 if "Portable Computing" in device.platform.name else 16
        known = Traits(
            is_cpu=bool(int(device.type) & _CPU),
            vector=max(4, min(widest, int(device.native_vector_width_float))),
            local_memory=int(device.local_mem_size),
        )
        _traits[engine] = known
    return known


@lru_cache(maxsize=256)
def source(names: tuple[str, ...], defines: tuple[tuple[str, object], ...]) -> str:
    """The texts ``names`` of ``kernels/cl`` behind their definitions; only contractions may round a*b+c once."""
    folder = files("netcl.core") / "kernels" / "cl"
    head = "" if any(name.startswith("contract") for name in names) else "#pragma OPENCL FP_CONTRACT OFF\n"
    head += "".join(f"#define {name} {value}\n" for name, value in defines)
    return head + "".join((folder / f"{name}.cl").read_text(encoding="utf-8") for name in names)


def struct(*values: int | Iterable[int]) -> Any:
    """The values as one kernel argument: a C struct of longs, passed by value."""
    flat: list[int] = []
    for value in values:
        if isinstance(value, int):
            flat.append(value)
        else:
            flat.extend(value)
    array = np.array(flat, dtype=np.int64)
    return array.view(f"V{array.nbytes}")[0]


def share(units: int, device: Traits) -> int:
    """Units per work-item: one on devices with many cores, else so many that few work-items remain."""
    return -(-units // _UNITS_ON_CPU) if device.is_cpu else 1
