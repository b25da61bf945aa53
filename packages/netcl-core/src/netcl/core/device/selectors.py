"""Ranks devices, excludes unsuitable ones, and parses device selectors."""

from __future__ import annotations

import re
from typing import Any

from netcl.core.device.capabilities import type_of

TYPE_WORDS = {"gpu": "gpu", "accel": "accel", "accelerator": "accel", "cpu": "cpu", "other": "other"}
# "cpu" alone is NumPy and is handled before this pattern.
TYPE_SELECTOR = re.compile(
    r"(?:opencl|(?:opencl:)?(?P<type>gpu|accel|accelerator|other)|opencl:(?P<cpu>cpu))(?::(?P<index>\d+))?"
)

# Selectors and backends of netcl itself, which a backend of another distribution cannot have for a name.
OWN_NAMES = frozenset(
    ("cl", "cpu", "numpy", "auto", *TYPE_WORDS, "opencl", "pocl", "intel", "cuda", "hip", "mps", "xpu")
)

_ALIASES = {"pocl": "portable computing language"}
_MAKERS = frozenset(("amd", "apple", "arm", "intel"))
_TYPE_ORDER = {"gpu": 0, "accel": 1, "cpu": 2, "other": 3}
_SIMULATOR = re.compile(r"oclgrind|emulat|simulat", re.IGNORECASE)
# Platforms that reach hardware through another project's compiler rank after the vendor's own (rank 0). For CPUs that
# puts Intel's runtime before PoCL: on the same kernels it is 1.4 times as fast (230 to 165 GFLOP/s) with explicit
# vectors and 5 times with scalar work-items, has half arithmetic and sub-groups, and builds 3 times as fast.
_PLATFORM_ORDER = (("rusticl", 1), ("portable computing language", 2), ("clover", 3))


def in_platform(words: str, platform_name: str) -> bool:
    """True if lower-case ``words`` are part of the platform's name, or netcl's short name of it."""
    return _ALIASES.get(words, words) in platform_name.lower()


def driver_word(platform_name: str) -> str:
    """Returns netcl's short name of a platform, which selects its devices: ``pocl``, ``intel``, ``nvidia``, ``amd``."""
    name = platform_name.lower()
    words = [*(word for word, full in _ALIASES.items() if full in name), *re.findall(r"[a-z]+", name)]
    return words[0] if words else name


def rank(platform: Any, dev: Any) -> tuple[int, ...]:
    """Returns the sort key: GPU, accelerator, CPU, simulators; then discrete, vendor's own driver, more memory."""
    kind = type_of(dev)
    # Oclgrind sets the bits of all types and Intel's FPGA emulator the accelerator's: neither is hardware.
    simulated = bool(_SIMULATOR.search(f"{platform.name} {dev.name}"))
    shared_memory = kind == "gpu" and bool(dev.host_unified_memory)
    indirect = next((rank for part, rank in _PLATFORM_ORDER if part in platform.name.lower()), 0)
    return int(simulated), _TYPE_ORDER[kind], int(shared_memory), indirect, -int(dev.global_mem_size)


def usable(dev: Any) -> bool:
    """True if the device can run kernels; an FPGA without an online compiler cannot."""
    return bool(dev.available) and bool(dev.compiler_available)


def matching(ranked: list[tuple[Any, Any]], words: str) -> list[tuple[Any, Any]]:
    """Returns the (platform, device) pairs with the words in their names; matching platforms before devices."""
    by_platform = [pair for pair in ranked if in_platform(words, pair[0].name)]
    # PoCL's device name contains the processor's: on an Intel processor, "intel" does not mean PoCL but a missing
    # driver.
    named_by_maker = [pair for pair in ranked if words not in _MAKERS or not in_platform("pocl", pair[0].name)]
    return by_platform or [pair for pair in named_by_maker if words in pair[1].name.lower()]


def device_line(numbered: tuple[str, Any, Any]) -> str:
    """Returns a line of text for a (selector, platform, device)."""
    selector, platform, dev = numbered
    return f"  {selector}  {type_of(dev):5} {dev.name.strip()} ({platform.name.strip()})"
