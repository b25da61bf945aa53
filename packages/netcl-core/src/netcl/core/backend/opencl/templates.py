"""Reads the OpenCL C templates of the package, and the device traits that their parameters depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from netcl.core.backend.opencl.storage import gathered_text, roles_text, storage_text
from netcl.core.backend.opencl.template_text import expanded
from netcl.core.device.capabilities import DeviceProfile, profile_of
from netcl.core.expr.c_types import LOOPING
from netcl.core.expr.kernel_source import KernelText
from netcl.core.tuning.traits import Traits as Traits
from netcl.core.tuning.traits import traits_of

_ACCESS: dict[str, Callable[[str, int], str]] = {
    "storage": storage_text,
    "gathered": gathered_text,
    "roles": roles_text,
}
_UNITS_ON_CPU = 64
_LEAST_ELEMENTS = 2048  # of a work-item on a CPU: its start takes as long as some hundred elements
# The attribute of functions that PoCL compiles once, by themselves, instead of at each call: kernels of several long
# loops take half the time to build. Their pointers into local memory have to come from arguments of the kernel: with
# arrays declared in the kernel PoCL 3.0 computes wrong results. Other compilers inline them.
_SEPARATE = """#ifdef POCL_DEVICE_ADDRESS_BITS
#define SEPARATE __attribute__((noinline))
#else
#define SEPARATE inline
#endif
"""


def traits(engine: Any) -> Traits:
    """Returns the traits of an engine's device, read once."""
    cached: Traits | None = engine.__dict__.get("_traits")
    if cached is None:
        cached = engine._traits = traits_of(profile_of(engine.queue), engine.queue.device)
    return cached


def profile(engine: Any) -> DeviceProfile:
    """Returns the profile of an engine's device, read once."""
    cached: DeviceProfile | None = engine.__dict__.get("_profile")
    if cached is None:
        cached = engine._profile = profile_of(engine.queue)
    return cached


def _files(folder: Any) -> Iterator[Any]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry)
        elif entry.name.endswith(".cl"):
            yield entry


@cache
def _texts() -> dict[str, str]:
    """Returns the ``.cl`` files of this package by name; each is stored next to the module that launches it."""
    templates = _files(files("netcl.core.backend.opencl"))
    return {file.name.removesuffix(".cl"): file.read_text(encoding="utf-8") for file in templates}


def _text(name: str, defines: Mapping[str, object]) -> str:
    """Returns a ``.cl`` file, or for the names of ``_ACCESS`` the access to elements of the dtype that is defined."""
    write = _ACCESS.get(name)
    if write is None:
        return _texts()[name]
    (dtype,) = (key.removeprefix("DTYPE_").lower() for key in defines if key.startswith("DTYPE_"))
    return write(dtype, int(str(defines.get("VECTOR", 1))))


@lru_cache(maxsize=256)
def source(names: tuple[str, ...], defines: tuple[tuple[str, object], ...]) -> KernelText:
    """Returns the ``.cl`` files ``names`` after their definitions, without other parts."""
    return filled_program(names, defines, {})


def filled_program(
    names: tuple[str, ...], defines: tuple[tuple[str, object], ...], parts: Mapping[str, str], ending: str = ""
) -> KernelText:
    """Returns the ``.cl`` files ``names`` after their definitions, filled with ``parts``, and ``ending`` after them;
    only contractions may round a*b+c once. LOOPS is the attribute of kernels with explicit vector loops in each
    work-item. A driver compiles all kernels of a program, so kernels that are launched separately are in files of their
    own.
    """
    head = "" if any(name.startswith("contract") for name in names) else "#pragma OPENCL FP_CONTRACT OFF\n"
    head += "".join(f"#define {name} {value}\n" for name, value in (*defines, ("LOOPS", LOOPING)))
    text = "".join(_text(name, dict(defines)) for name in names)
    head += _SEPARATE if "SEPARATE" in text else ""
    declared = expanded(text, {**dict.fromkeys(names, 1), **dict(defines)}, parts)
    return KernelText(head + declared + ending, declared.kernels)


def struct(*values: int | Iterable[int], narrow: bool = False) -> Any:
    """Returns the values as one kernel argument: a C struct of longs, or of ints with ``narrow``, passed by value."""
    flat: list[int] = []
    for value in values:
        if isinstance(value, int):
            flat.append(value)
        else:
            flat.extend(value)
    array = np.array(flat, dtype=np.int64).astype(np.int32 if narrow else np.int64)
    return array.view(f"V{array.nbytes}")[0]


def magic(divisor: int) -> tuple[int, int]:
    """Returns the magic number and the shift of division.cl; 0, the size of an empty axis, is treated as 1."""
    divisor = max(divisor, 1)
    shift = (divisor - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift


def divisor(size: int) -> tuple[int, int, int]:
    """Returns a number with its magic number and shift, the struct ``divisor`` of division.cl."""
    return size, *magic(size)


def per_work_item(units: int, device: Traits, size: int = _LEAST_ELEMENTS) -> int:
    """Returns the units of ``size`` elements per work-item: one on many cores, else so many that few items remain."""
    return max(-(-units // _UNITS_ON_CPU), min(units, -(-_LEAST_ELEMENTS // max(size, 1)))) if device.is_cpu else 1


def largest_group(most: int, device: Traits) -> int:
    """Returns the work-items of the largest group, a power of two, that a device takes: at most ``most``."""
    return 1 << min(most, device.group).bit_length() - 1
