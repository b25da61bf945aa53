"""KernelSource: the OpenCL C of one kernel in its parts, as the code generator writes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelSource:
    """One kernel: its name, the declarations of its parameters, the text before it, its statements and attributes.

    ``workgroup_size`` is the number of work-items of a group that the text was written for, None for any.
    """

    name: str
    params: tuple[str, ...]
    preamble: str
    body: str
    attributes: str = ""
    workgroup_size: int | None = None

    def to_source(self) -> str:
        """The whole OpenCL C text: the preamble, then the ``__kernel`` function."""
        params = ",\n    ".join(self.params)
        head = f"__kernel {self.attributes + ' ' if self.attributes else ''}void {self.name}"
        return joined(self.preamble, f"{head}(\n    {params}) {{\n    {self.body}\n}}\n")


def joined(preamble: str, text: str) -> str:
    """The text behind its preamble, if there is one."""
    return f"{preamble.rstrip()}\n\n{text}" if preamble else text
