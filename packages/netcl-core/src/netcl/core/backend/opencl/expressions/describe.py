"""Describes the kernels of a program on a device: their texts, launch sizes and build logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.engine.protocol import Described, KernelText
from netcl.core.expr.schedule import make_plan
from netcl.core.layout import broadcast_shapes
from netcl.core.process.opencl import cl

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext


def describe(engine: QueueContext, program: Described, shapes: Sequence[tuple[int, ...]]) -> list[KernelText]:
    """Returns the kernels of ``program`` on inputs of ``shapes``, in order of launch, as ``engine`` builds them."""
    space = broadcast_shapes([*shapes, *program.shapes], program.name)
    plan = make_plan(program.outputs, program.shapes, shapes, space, engine.target)
    options, launcher = engine.build_options, engine.launcher
    texts = []
    for launch in plan.launches:
        built: Any = launcher.programs.get_program(launcher.context, launch.source, launcher.device, options)
        log = str(built.get_build_info(launcher.device, cl.program_build_info.LOG)).strip()
        items = -(-launch.items // launch.group) * launch.group
        texts.append(KernelText(launch.name, program.name, launch.source, (items,), (launch.group,), options, log))
    return texts
