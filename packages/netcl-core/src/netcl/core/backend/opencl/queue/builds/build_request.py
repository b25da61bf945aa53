"""The requests to a child process that builds programs."""

from __future__ import annotations

from dataclasses import dataclass

READY = b"r"  # the first byte that a child writes

# An argument of a launch: the size of a buffer, the bytes of a number, or the size of an array in local memory.
Argument = tuple[str, "int | bytes"]


@dataclass(frozen=True)
class Launch:
    """The first launch of a program: the kernel's name, its sizes and its arguments."""

    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Request:
    """A program to be built, and its launch if the driver compiles there."""

    source: str
    options: str
    launch: Launch | None
