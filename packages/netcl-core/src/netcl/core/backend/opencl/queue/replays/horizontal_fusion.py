"""Horizontal fusion: merges independent recorded launches, and chains of launches of a single work-item, into one
kernel.

A kernel becomes a function of the number of a work-item, and the merged kernel calls it for the launch's range of
numbers; the first work-item calls the functions of a chain one after the other. On a GPU the ranges are of whole
groups, and a kernel that counts groups gets the number of its group; none has barriers. The arithmetic is unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from netcl.core.backend.opencl.queue.replays.launch_groups import Recorded, argument_keys
from netcl.core.expr.c_types import LOOPING
from netcl.core.expr.kernel_source import Argument, KernelSource, Role

_SPARE_BYTES = 128  # of the largest size of a kernel's arguments


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


def most_arguments(device: Any) -> int:
    """Returns the arguments that a merged kernel may have on a device."""
    return (int(device.max_parameter_size) - _SPARE_BYTES) // 8


def joined(launcher: Launches, launches: Sequence[Recorded]) -> tuple[Any, Sequence[Any]]:
    """Returns one launch that replaces the launches of a group, in order, with its buffers."""
    kernels: dict[KernelSource, None] = {}
    calls: list[str] = []
    names: dict[Any, str] = {}  # of parameters, by type and value
    parameters: list[Argument] = []
    values: list[Any] = []
    buffers: list[Any] = []
    chain: list[str] = []
    total = int(any(launch.prepared is not None and launch.prepared.global_size == (1,) for launch in launches))
    first = launches[0].prepared
    assert first is not None
    assert first.local_size is not None
    (items,) = first.local_size
    for launch in launches:
        kernel, prepared = launch.kernel, launch.prepared
        assert kernel is not None
        assert prepared is not None
        kernels[kernel] = None
        own_buffers = iter(launch.buffers)
        passed = []
        for key, value in zip(argument_keys(launch), prepared.args):
            kind, scalar, _ = key
            buffer = None if scalar else next(own_buffers)
            if key not in names:
                names[key] = f"p{len(names)}"
                parameters.append(Argument(Role.SCALAR if scalar else Role.WRITE, kind, names[key]))
                values.append(value)
                if not scalar:
                    buffers.append(buffer)
            passed.append(names[key])
        if prepared.global_size == (1,):
            chain.append(f"{kernel.name}(0, {', '.join(passed)});")
            continue
        end = total + -(-prepared.global_size[0] // items)
        number = f"item - {total}"
        if items > 1 and not kernel.by_group:
            number = f"({number}) * {items} + get_local_id(0)"
        calls.append(f"if (item < {end}) {{ {kernel.name}({number}, {', '.join(passed)}); return; }}")
        total = end
    if chain:
        calls.insert(0, f"if (item == 0) {{ {' '.join(chain)} return; }}")
    preambles = [block for kernel in kernels for block in _blocks(kernel.preamble)]
    attributes = LOOPING if items == 1 else f"__attribute__((reqd_work_group_size({items}, 1, 1)))"
    preamble = "\n".join([*dict.fromkeys(preambles), "", *map(_function, kernels)])
    item = next(iter(kernels)).item if items == 1 else "const uint item = get_group_id(0);"
    whole = KernelSource("joined", tuple(parameters), preamble, "\n    ".join([item, *calls]), attributes)
    digest = hashlib.sha256(whole.to_source().encode()).hexdigest()[:10]
    whole = replace(whole, name=f"joined_{digest}")
    size = (total * items,), (items,)
    return launcher.prepare(whole.to_source(), whole.name, *size, values, first.options), buffers


def _blocks(preamble: str) -> Iterator[str]:
    """Yields the declarations of a preamble: lines, and functions from their first line to the line of their last
    brace.
    """
    block: list[str] = []
    for line in filter(None, preamble.splitlines()):
        block.append(line)
        if line == "}" or (len(block) == 1 and not line.endswith("{")):
            yield "\n".join(block)
            block = []


def _function(kernel: KernelSource) -> str:
    """Returns the kernel as a function of the number of its work-item, or group."""
    statements = [f"    {part}" for part in (kernel.head, kernel.body) if part]
    number = f"{kernel.item.partition(' ')[0]} item"
    return "\n".join([f"void {kernel.name}({number}, {', '.join(kernel.params)}) {{", *statements, "}", ""])
