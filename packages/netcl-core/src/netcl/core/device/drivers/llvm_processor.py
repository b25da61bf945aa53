"""Names the processor that PoCL 3 compiles for, if its LLVM does not know this machine's (docs/design/pocl.md).

LLVM 14 knows AMD's families up to 25 and calls later ones "generic", a name that its front end then refuses: no kernel
builds. It calls Zen 4, of family 25, "znver3", which has no vectors of sixteen floats. ``name_processor`` gives such
a device the highest level of x86-64 that the processor supports.
"""

from __future__ import annotations

import ctypes
import sys
from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any

# Flags of Linux that each level adds to the one before it, the highest first; every 64-bit processor has the last one.
# https://gitlab.com/x86-psABIs/x86-64-ABI
_LEVELS: tuple[tuple[str, set[str]], ...] = (
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86-64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    ("x86-64", set()),
)
_UNKNOWN = b"generic"
_OLDER = b"znver3"  # LLVM 14's name for Zen 4, too
_TRIPLE = b"x86_64-"
_WORD = ctypes.sizeof(ctypes.c_size_t)
_WORDS = 160  # from the start of PoCL's structure of a device; triple and processor: 79 and 80 in 3.0, 77 and 79 in 3.1


def level(flags: set[str]) -> str:
    """Returns the highest level of x86-64 with all its flags among the ``flags`` of /proc/cpuinfo."""
    for position, (name, _) in enumerate(_LEVELS):
        if all(needed <= flags for _, needed in _LEVELS[position:]):
            return name
    raise AssertionError("the lowest level needs nothing")


def processor_name(device: Any) -> str:
    """Returns the level of x86-64 that PoCL compiles for in place of the processor in its version: "generic", or
    "znver3" on a processor with AVX-512; else "".
    """
    named = device.version.rstrip().rpartition("-")[2].encode()
    level = _own_level()
    return level if named == _UNKNOWN or (named == _OLDER and level == _LEVELS[0][0]) else ""


def name_processor(device: Any) -> None:
    """Lets a pyopencl device of PoCL 3 compile for its ``processor_name`` if it has one; else does nothing.

    PoCL 3 has no option for it, so the name, which follows the target triple in PoCL's structure of the device, is
    replaced there. Sub-devices copy the structure.
    """
    if name := processor_name(device):
        _replace(device.int_ptr, name)


@cache
def _replace(address: int, name: str) -> None:
    """Runs ``name_processor`` on the structure at ``address``, once in a process."""
    place = unknown_processor(address)
    if place is not None:
        copied = ctypes.CDLL(None).strdup
        copied.restype, copied.argtypes = ctypes.c_void_p, [ctypes.c_char_p]  # PoCL may free it
        ctypes.c_size_t.from_address(place).value = copied(name.encode())


def unknown_processor(address: int) -> int | None:
    """Returns the address of the pointer to "generic" or "znver3", one or two words after a pointer to a triple of
    x86-64, in the structure at ``address``; None if there is none.
    """
    readable = _readable()
    triple = None
    for place in range(address, address + _WORDS * _WORD, _WORD):
        if not _bytes(readable, place, _WORD):
            return None
        text = _bytes(readable, ctypes.c_size_t.from_address(place).value, len(_UNKNOWN) + 1)
        if text.startswith(_TRIPLE):
            triple = place
        elif text.partition(b"\0")[0] in (_UNKNOWN, _OLDER) and triple is not None and place - triple <= 2 * _WORD:
            return place
    return None


@cache
def _own_level() -> str:
    """Returns the level of this processor, "" if Linux lists no x86 flags for it, or on another system."""
    flags = _flags()
    return level(flags) if flags else ""


def multiplies_and_adds(device: Any) -> bool:
    """True if PoCL compiles for an x86 processor with an instruction that multiplies and adds with one rounding."""
    named = processor_name(device)  # a level may be below what the processor has
    return named in ("x86-64-v3", "x86-64-v4") if named else "fma" in _flags()


@cache
def _flags() -> set[str]:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, words = line.partition(":")
        if name.strip() == "flags":
            return set(words.split())
    return set()


def _readable() -> list[tuple[int, int]]:
    """Returns the first address and the end of each readable region of this process, sorted."""
    regions = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        region, rights, *_ = line.split()
        if rights.startswith("r"):
            first, _, end = region.partition("-")
            regions.append((int(first, 16), int(end, 16)))
    return regions


def _bytes(readable: list[tuple[int, int]], address: int, count: int) -> bytes:
    """Returns ``count`` bytes of the memory of this process, b"" if they are not in one readable region."""
    position = bisect_right(readable, (address, sys.maxsize)) - 1
    if position < 0 or address + count > readable[position][1]:
        return b""
    return ctypes.string_at(address, count)
