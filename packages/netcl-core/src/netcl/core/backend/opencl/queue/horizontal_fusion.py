"""Horizontal fusion: merges independent launches of a recording into one kernel, if their work-items share nothing.

The kernel becomes a function of the number of a work-item, and the merged kernel calls it for each launch's range of
numbers. The arithmetic is unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

from netcl.core.expr.c_types import LOOPING
from netcl.core.expr.kernel_source import KernelSource, Role

_SPARE_BYTES = 128  # of the largest size of a kernel's arguments


class Prepared(Protocol):
    """The attributes of a PreparedLaunch that are read here."""

    kernel: KernelSource | None
    args: Sequence[Any]
    options: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None


class Launches(Protocol):
    """The attributes of a Launcher that are used here."""

    device: Any

    def prepare(
        self,
        source: str,
        kernel_name: str,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        args: Sequence[Any],
        options: str = "",
    ) -> Any: ...


# A launch of a recording: the prepared launch and its buffers.
Recorded = tuple[Prepared, Sequence[Any]]


def independent(launches: Sequence[tuple[int, Recorded | None]]) -> list[list[tuple[int, Recorded]]]:
    """Groups of neighbouring launches of the same kernel in which no launch writes a buffer that another one accesses.

    A launch that cannot be merged (None, or work-items that share something) ends a group. Different kernels could be
    merged too, but the driver takes as long to compile the merged kernel as it took for all of them.
    """
    found: list[list[tuple[int, Recorded]]] = [[]]
    read: set[int] = set()
    written: set[int] = set()
    for number, launch in launches:
        kernel = None if launch is None else _mergeable(launch[0])
        if launch is None or kernel is None:
            found.append([])
            continue
        roles = [argument.role for argument in kernel.arguments if argument.role is not Role.SCALAR]
        own = [(role, buffer.int_ptr) for role, buffer in zip(roles, launch[1])]
        reads = {address for role, address in own if role is Role.READ}
        writes = {address for role, address in own if role is Role.WRITE}
        other = not found[-1] or found[-1][-1][1][0].kernel != kernel
        if other or writes & (read | written) or reads & written:
            found.append([])
            read, written = set(), set()
        found[-1].append((number, launch))
        read |= reads
        written |= writes
    return [group for group in found if len(group) > 1]


def joined(launcher: Launches, launches: Sequence[Recorded]) -> tuple[Any, Sequence[Any]] | None:
    """One launch in place of those of a group that ``independent`` found, with its buffers; None if their arguments
    exceed the device's limit.
    """
    kernel = launches[0][0].kernel
    assert kernel is not None
    calls: list[str] = []
    names: dict[Any, str] = {}  # of parameters, by type and value
    parameters: list[str] = []
    values: list[Any] = []
    buffers: list[Any] = []
    total = 0
    for prepared, given in launches:
        filled = iter(given)
        passed = []
        for argument, value in zip(kernel.arguments, prepared.args):
            scalar = argument.role is Role.SCALAR
            buffer: Any = None if scalar else next(filled)
            key = argument.type, scalar, value.tobytes() if scalar else buffer.int_ptr
            if key not in names:
                names[key] = f"p{len(names)}"
                parameters.append(f"    {argument.type + ' ' if scalar else f'__global {argument.type} *'}{names[key]}")
                values.append(value)
                if not scalar:
                    buffers.append(buffer)
            passed.append(names[key])
        end = total + prepared.global_size[0]
        calls.append(f"    if (item < {end}) {{ {kernel.name}(item - {total}, {', '.join(passed)}); return; }}")
        total = end
    if 8 * len(values) > launcher.device.max_parameter_size - _SPARE_BYTES:
        return None
    head = f"{_function(kernel)}\n__kernel {LOOPING} void"
    body = "\n".join([",\n".join(parameters), ") {", f"    {kernel.item}", *calls, "}", ""])
    digest = hashlib.sha256("".join([head, " NAME(\n", body]).encode()).hexdigest()[:10]
    name = f"joined_{digest}"
    options = launches[0][0].options
    return launcher.prepare(f"{head} {name}(\n{body}", name, (total,), (1,), values, options), buffers


def _mergeable(prepared: Prepared) -> KernelSource | None:
    """The kernel of a launch of single work-items whose parts allow a merge, else None."""
    kernel = prepared.kernel
    single = prepared.local_size == (1,) and len(prepared.global_size) == 1
    return kernel if kernel is not None and kernel.item and single else None


def _function(kernel: KernelSource) -> str:
    """The preamble, and the kernel as a function of the number of its work-item."""
    preamble = [line for line in kernel.preamble.splitlines() if line]
    statements = [f"    {part}" for part in (kernel.head, kernel.body) if part]
    head = f"void {kernel.name}(size_t item, {', '.join(kernel.params)}) {{"
    return "\n".join([*preamble, "", head, *statements, "}", ""])


__all__ = ["Recorded", "independent", "joined"]
