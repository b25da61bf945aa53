"""What a program becomes on a device: its kernels with their texts, launch sizes and build logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.expressions.relaxed import relaxed
from netcl.core.expr.schedule import make_plan
from netcl.core.kernel_text import KernelText
from netcl.core.layout import broadcast_shapes

try:
    import pyopencl as cl
except ImportError:
    cl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from netcl.core.backend.opencl import OpenCLBackend
    from netcl.core.ops_table.program import Program


def describe(engine: OpenCLBackend, program: Program, shapes: Sequence[tuple[int, ...]]) -> list[KernelText]:
    """The kernels of ``program`` on inputs of ``shapes``, in the order of their launches."""
    space = broadcast_shapes([*shapes, *program.shapes], program.name)
    plan = make_plan(program.outputs, program.shapes, shapes, space, engine.target)
    options = (relaxed(engine) if program.relaxed else engine).build_options
    launcher = engine.launcher
    found = []
    for launch in plan.launches:
        built: Any = launcher.programs.get_program(launcher.context, launch.source, launcher.device, options)
        log = str(built.get_build_info(launcher.device, cl.program_build_info.LOG)).strip()
        items = -(-launch.items // launch.group) * launch.group
        found.append(KernelText(launch.name, program.name, launch.source, (items,), (launch.group,), options, log))
    return found
