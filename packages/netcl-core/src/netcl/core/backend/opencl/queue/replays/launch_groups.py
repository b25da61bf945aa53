"""Groups of recorded launches that become one: launches that do not depend on each other, and chains of launches of a
single work-item, which it runs one after the other.

Launches keep the order of their dependences. A small launch is moved to an earlier group, or a group to a later one, if
no launch between the two accesses the same memory, unless both only read it; others are merged with neighbours alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

from netcl.core.backend.opencl.queue.replays.memory_accesses import Accesses
from netcl.core.expr.kernel_source import KernelSource, Role

_SMALL = 1 << 20  # bytes of the buffers of a launch that costs little more than its start
_MOST_TEXTS = 8  # different kernels of a group: a driver compiles the merged kernel as long as all of them
_DISTANCE = 64  # groups across which a launch is moved
# A compiler makes one call of a sine and a cosine of one value, with other bits: kernels of both are not merged.
_ANGLES = frozenset(("sin", "cos"))
_ANGLE_CALL = re.compile(r"\b(sin|cos)\(")


class Prepared(Protocol):
    """The attributes of a PreparedLaunch that are read here."""

    kernel: KernelSource | None
    args: tuple[Any, ...]
    options: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None


class Recorded(NamedTuple):
    """A launch of a recording: its memory accesses, and for a generated kernel the prepared launch and its buffers."""

    accesses: Accesses
    prepared: Prepared | None = None
    buffers: Sequence[Any] = ()

    @property
    def kernel(self) -> KernelSource | None:
        """The kernel, None if it may not be merged: it must declare the number of its work-item, or group, separately,
        and have groups along one axis.
        """
        prepared = self.prepared
        if prepared is None or prepared.kernel is None or not prepared.kernel.item:
            return None
        known = prepared.local_size is not None and len(prepared.global_size) == len(prepared.local_size) == 1
        return prepared.kernel if known else None


@lru_cache(maxsize=1024)
def _angles(body: str) -> frozenset[str]:
    return frozenset(_ANGLE_CALL.findall(body))


def argument_keys(launch: Recorded) -> list[tuple[str, bool, Any]]:
    """Returns a key of each argument of a launch: its type, True for a number, and the number or the buffer."""
    kernel, prepared = launch.kernel, launch.prepared
    assert kernel is not None
    assert prepared is not None
    buffers = iter(launch.buffers)
    return [
        (
            argument.type,
            argument.role is Role.SCALAR,
            value.tobytes() if argument.role is Role.SCALAR else next(buffers).int_ptr,
        )
        for argument, value in zip(kernel.arguments, prepared.args)
    ]


@dataclass(frozen=True, eq=False)
class Group:
    """Numbers of launches that run together. Launches in ``apart`` are independent of the rest of the group; launches
    in ``chain`` have one work-item each and run in order.
    """

    apart: tuple[int, ...]
    chain: tuple[int, ...]
    kernels: frozenset[KernelSource]  # none: its launch cannot be merged
    options: tuple[str, int]  # of the compiler, and the work-items of a group
    small: bool
    near: bool  # it may be merged with neighbours alone
    arguments: frozenset[Any]
    of_apart: Accesses
    of_chain: Accesses

    @cached_property
    def accesses(self) -> Accesses:
        return self.of_apart | self.of_chain

    @cached_property
    def angles(self) -> frozenset[str]:
        """The functions among "sin" and "cos" that a kernel calls."""
        return frozenset[str]().union(*[_angles(kernel.body) for kernel in self.kernels])

    def before(self, other: Group, most_arguments: int) -> Group | None:
        """Returns this group followed by another one, None if they cannot be merged."""
        kernels, arguments = self.kernels | other.kernels, self.arguments | other.arguments
        if not self.kernels or not other.kernels or self.options != other.options:
            return None
        if len(arguments) > most_arguments or len(kernels) > (_MOST_TEXTS if self.small and other.small else 1):
            return None
        if len(kernels) > 1 and self.angles | other.angles == _ANGLES:
            return None
        if self.of_apart.conflict(other.accesses) or self.of_chain.conflict(other.of_apart):
            return None
        return Group(
            self.apart + other.apart,
            self.chain + other.chain,
            kernels,
            self.options,
            self.small and other.small,
            self.near or other.near,
            arguments,
            self.of_apart | other.of_apart,
            self.of_chain | other.of_chain,
        )


def grouped(launches: Sequence[Recorded | None], most_arguments: int) -> list[tuple[int, ...]]:
    """Returns the launches in groups, in the order of their runs. ``None`` is a launch with unknown memory
    accesses; no launch is reordered across it. Merged launches have at most ``most_arguments`` together.
    """
    ordered: list[tuple[int, ...]] = []
    groups: list[Group] = []
    for number, launch in enumerate(launches):
        if launch is not None:
            _place(groups, _alone(number, launch), most_arguments)
            continue
        ordered += _numbers(_moved_on(groups, most_arguments))
        ordered.append((number,))
        groups = []
    return ordered + _numbers(_moved_on(groups, most_arguments))


def _numbers(groups: Iterable[Group]) -> list[tuple[int, ...]]:
    return [group.chain + group.apart for group in groups]


def _alone(number: int, launch: Recorded) -> Group:
    kernel, prepared = launch.kernel, launch.prepared
    if kernel is None or prepared is None:
        return Group((number,), (), frozenset(), ("", 0), False, True, frozenset(), launch.accesses, Accesses())
    assert prepared.local_size is not None
    single = prepared.global_size == (1,)
    small = sum(buffer.size for buffer in launch.buffers) <= _SMALL
    arguments = frozenset(argument_keys(launch))
    accesses = (Accesses(), launch.accesses) if single else (launch.accesses, Accesses())
    numbers: tuple[tuple[int, ...], tuple[int, ...]] = ((), (number,)) if single else ((number,), ())
    (items,) = prepared.local_size
    near = not small and items == 1  # on a GPU each launch costs the host and the queue as much as a small one
    return Group(*numbers, frozenset((kernel,)), (prepared.options, items), small, near, arguments, *accesses)


def _place(groups: list[Group], group: Group, most_arguments: int) -> None:
    """Adds a launch to the nearest group that accepts it; a launch of a single work-item preferably to a group with a
    chain.
    """
    chosen: tuple[int, Group] | None = None
    for position in range(len(groups) - 1, max(-1, len(groups) - 1 - (1 if group.near else _DISTANCE)), -1):
        merged = groups[position].before(group, most_arguments)
        if merged is not None and (chosen is None or groups[position].chain):
            chosen = position, merged
        if groups[position].accesses.conflict(group.accesses) or (chosen is not None and groups[chosen[0]].chain):
            break
    if chosen is None:
        groups.append(group)
    else:
        groups[chosen[0]] = chosen[1]


def _moved_on(groups: list[Group], most_arguments: int) -> list[Group]:
    """Returns the groups, with some merged into later ones."""
    moved = list(groups)
    position = 0
    while position < len(moved):
        group = moved[position]
        for later in range(position + 1, min(len(moved), position + 1 + (1 if group.near else _DISTANCE))):
            merged = group.before(moved[later], most_arguments)
            if merged is not None:
                moved[later] = merged
                del moved[position]
                position -= 1
                break
            if group.accesses.conflict(moved[later].accesses):
                break
        position += 1
    return moved
