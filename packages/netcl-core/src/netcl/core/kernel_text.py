"""How programs look on a device: the kernels that they become, and the engine that builds them with fast math."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netcl.core.ops_table.program import Program


@dataclass(frozen=True)
class KernelText:
    """One kernel of a program: its OpenCL C, the work-items of a launch and of a group, and what the compiler said."""

    name: str
    program: str
    source: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    options: str = ""
    build_log: str = ""


def describe(engine: Any, program: Program, shapes: Sequence[tuple[int, ...]]) -> list[KernelText]:
    """The kernels of ``program`` on inputs of ``shapes``, in the order of their launches; NumPy has none."""
    if engine.name != "cl":
        return []
    from netcl.core.backend.opencl.expressions.describe import describe as of_opencl

    return of_opencl(engine, program, shapes)


def relaxed(engine: Any) -> Any:
    """The engine whose ``run`` builds kernels with -cl-fast-relaxed-math; NumPy has but one arithmetic."""
    if engine.name != "cl":
        return engine
    from netcl.core.backend.opencl.expressions.relaxed import relaxed as of_opencl

    return of_opencl(engine)
