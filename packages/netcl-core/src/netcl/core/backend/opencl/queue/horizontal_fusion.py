"""Launches of a recording that do not depend on each other as one kernel, where work-items do not work together.

The kernels become functions of the number of a work-item, and the one that is launched gives each its range of numbers.
Nothing of what they compute changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from netcl.core.expr.c_types import LOOPING

_ITEM = "    size_t item = get_global_id(0);\n"
_READ = "    __global const "  # what a kernel only reads comes first among its parameters
_KERNEL = re.compile(rf"__kernel {re.escape(LOOPING)} void (\w+)\(\n(.*?)\) \{{\n(.*)\Z", re.DOTALL)
_SPARE_BYTES = 128  # of the largest size of a kernel's arguments
_TYPES = {"ulong": np.uint64, "float": np.float32, "double": np.float64, "int": np.int32, "long": np.int64}


class Prepared(Protocol):
    """What is read of a PreparedLaunch."""

    source: str
    args: Sequence[Any]
    options: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None


class Launches(Protocol):
    """What is asked of a Launcher."""

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


# A launch of a recording: what was prepared, and the buffers that it got.
Recorded = tuple[Prepared, Sequence[Any]]


def independent(launches: Sequence[tuple[int, Recorded | None]]) -> list[list[tuple[int, Recorded]]]:
    """Neighbours of the same text, none of which writes what another of them reads or writes; None stands alone.

    Kernels of different texts could be joined too, but take a driver as long to compile as all of them again.
    """
    found: list[list[tuple[int, Recorded]]] = [[]]
    read: set[int] = set()
    written: set[int] = set()
    for number, launch in launches:
        if launch is None:
            found.append([])
            continue
        prepared, buffers = launch
        own = [buffer.int_ptr for buffer in buffers]
        reads = set(own[: prepared.source.count(_READ)])
        writes = set(own) - reads | set(own[prepared.source.count(_READ) :])
        other = not found[-1] or found[-1][-1][1][0].source != prepared.source
        if other or writes & (read | written) or reads & written:
            found.append([])
            read, written = set(), set()
        found[-1].append((number, launch))
        read |= reads
        written |= writes
    return [group for group in found if len(group) > 1]


def joined(launcher: Launches, launches: Sequence[Recorded]) -> tuple[Any, Sequence[Any]] | None:
    """One launch in place of several; None where their texts do not allow it."""
    heads: dict[str, None] = {}
    functions: dict[str, str] = {}
    calls: list[str] = []
    parameters: dict[Any, str] = {}  # what is given, with its type, to its declaration
    given: list[Any] = []
    total = 0
    for prepared, buffers in launches:
        parts = _parts(prepared)
        if parts is None:
            return None
        head, name, declared, body = parts
        heads.update(dict.fromkeys(head))
        functions[name] = f"void {name}(size_t item, {', '.join(declared)}) {{\n{body}"
        filled = iter(buffers)
        values = [next(filled) if arg is None else arg for arg in prepared.args]
        names = []
        for declaration, value in zip(declared, values):
            kind = declaration.rsplit(" ", 1)[0].replace("const ", "")
            key = (kind, value.int_ptr if hasattr(value, "int_ptr") else value.tobytes())
            if key not in parameters:
                parameters[key] = f"{kind} {'*' if '*' in declaration else ''}p{len(parameters)}"
                given.append(value)
            names.append(parameters[key].rsplit(" ", 1)[1].lstrip("*"))
        end = total + prepared.global_size[0]
        calls.append(f"    if (item < {end}) {{ {name}(item - {total}, {', '.join(names)}); return; }}")
        total = end
    if 8 * len(given) > launcher.device.max_parameter_size - _SPARE_BYTES:
        return None
    opening = f"__kernel {LOOPING} void NAME("
    body = "\n".join([opening, ",\n".join(f"    {p}" for p in parameters.values()), ") {", _ITEM.rstrip(), *calls, "}"])
    text = "\n".join([*heads, "", *functions.values(), body, ""])
    name = f"joined_{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    args = [None if hasattr(value, "int_ptr") else value for value in given]
    options = launches[0][0].options
    whole = launcher.prepare(text.replace("NAME", name), name, (total,), (1,), args, options)
    return whole, [value for value in given if hasattr(value, "int_ptr")]


def _parts(prepared: Prepared) -> tuple[list[str], str, list[str], str] | None:
    """Pragmas and types, the kernel's name, its parameters and the rest but for the number of the work-item."""
    found = _KERNEL.search(prepared.source)
    if found is None or prepared.local_size != (1,) or len(prepared.global_size) != 1:
        return None
    name, declared, body = found.groups()
    head = [line for line in prepared.source[: found.start()].splitlines() if line]
    before, _, after = body.partition(_ITEM)
    alone = after and "get_" not in before + after and "__kernel" not in after
    if not alone or not all(line.startswith(("#pragma", "typedef")) for line in head):
        return None
    return head, name, [line.strip().rstrip(",") for line in declared.splitlines()], before + after


__all__ = ["Recorded", "independent", "joined"]
