"""The text of kernels in OpenCL C with the arguments that they declare, and KernelSource: one kernel in its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Role(Enum):
    """Access of a kernel to an argument: a read-only buffer, a written buffer, a scalar, or local memory."""

    READ = "read"
    WRITE = "write"
    SCALAR = "scalar"
    LOCAL = "local"


class Argument(NamedTuple):
    """A parameter of a kernel; ``type`` is the type of the scalar or of the buffer's elements. ``alone``: no other
    argument gives access to the same memory.
    """

    role: Role
    type: str
    name: str
    alone: bool = False

    @property
    def holder(self) -> str:
        """The declaration without the name: ``__global const float *``."""
        if self.role is Role.SCALAR:
            return f"const {self.type} "
        space = "__local" if self.role is Role.LOCAL else "__global"
        constant = "const " if self.role is Role.READ else ""
        return f"{space} {constant}{self.type} *{'restrict ' if self.alone else ''}"

    def __str__(self) -> str:
        return self.holder + self.name


class KernelText(str):
    """OpenCL C with the declared arguments of its kernels, by the name of the kernel."""

    kernels: Mapping[str, tuple[Argument, ...]]

    def __new__(cls, text: str, kernels: Mapping[str, tuple[Argument, ...]]) -> KernelText:
        whole = super().__new__(cls, text)
        whole.kernels = kernels
        return whole


@dataclass(frozen=True)
class KernelSource:
    """One kernel: its name, its arguments, the text before it, its statements and attributes.

    ``workgroup_size`` is the number of work-items of a group that the text was written for, None for any.

    A kernel that horizontal fusion may merge declares the number of its work-item by the statement ``item``, after the
    statements ``head`` and before ``body``. No other statement depends on the work-item. With ``by_group`` it is the
    number of the group, and statements may depend on the place in the group too. In other kernels ``item`` and ``head``
    are empty.
    """

    name: str
    arguments: tuple[Argument, ...]
    preamble: str
    body: str
    attributes: str = ""
    workgroup_size: int | None = None
    head: str = ""
    item: str = ""
    by_group: bool = False

    @property
    def params(self) -> tuple[str, ...]:
        """The declarations of the parameters."""
        return tuple(map(str, self.arguments))

    @property
    def statements(self) -> str:
        """All statements of the kernel."""
        return "\n    ".join(part for part in (self.head, self.item, self.body) if part)

    def to_source(self) -> KernelText:
        """Returns the whole OpenCL C text: the preamble, then the ``__kernel`` function."""
        text = kernel_text(self.name, self.params, self.preamble, self.statements, self.attributes)
        return KernelText(text, {self.name: self.arguments})


def kernel_text(name: str, params: Sequence[str], preamble: str, statements: str, attributes: str = "") -> str:
    """Returns the OpenCL C text of a kernel with these declarations of parameters, after its preamble."""
    return joined(preamble, f"{kernel_head(name, params, attributes)}\n    {statements}\n}}\n")


def kernel_head(name: str, params: Iterable[object], attributes: str = "") -> str:
    """Returns the head of a kernel with these declarations of parameters, up to its brace."""
    declared = ",\n    ".join(map(str, params))
    return f"__kernel {attributes + ' ' if attributes else ''}void {name}(\n    {declared}) {{"


def joined(preamble: str, text: str) -> str:
    """Returns the text after its preamble, if there is one."""
    return f"{preamble.rstrip()}\n\n{text}" if preamble else text
