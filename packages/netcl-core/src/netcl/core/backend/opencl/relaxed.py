"""An engine seen with fast math: the same queue and buffers, expression kernels built with -cl-fast-relaxed-math."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl import run as _run

if TYPE_CHECKING:
    from netcl.core.backend.opencl import OpenCLBackend
    from netcl.core.backend.opencl.launch import Launcher, PreparedLaunch
    from netcl.core.expr.nodes import Expr
    from netcl.core.tensor import Tensor

Size = tuple[int, ...]
OPTIONS = "-cl-fast-relaxed-math"


class _Launcher:
    """A launcher that builds what it prepares with ``OPTIONS``."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def prepare(
        self,
        program_key: Any,
        source: Any,
        kernel_name: str,
        global_size: Size,
        local_size: Size | None,
        args: Any,
        options: str = "",
    ) -> PreparedLaunch:
        """``Launcher.prepare``, under a key of its own and with ``OPTIONS`` in place of what is exact."""
        key = (program_key, OPTIONS)
        return self._launcher.prepare(key, source, kernel_name, global_size, local_size, args, OPTIONS)


class Relaxed:
    """What ``run`` needs of an engine, with plans of its own."""

    def __init__(self, engine: OpenCLBackend) -> None:
        self._engine = weakref.proxy(engine)
        self.launcher = _Launcher(engine.launcher)
        self.plans: dict[Any, Any] = {}

    def run(
        self,
        outputs: Sequence[Expr],
        inputs: Sequence[Tensor],
        scalars: Mapping[str, float | int] | None = None,
        *,
        shapes: Sequence[Sequence[int]] | None = None,
        out: Sequence[Tensor | None] | None = None,
    ) -> tuple[Tensor, ...]:
        """``DeviceBackend.run`` with fast math."""
        return _run.run(self, outputs, inputs, scalars, shapes=shapes, out=out)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


_engines: weakref.WeakKeyDictionary[OpenCLBackend, Relaxed] = weakref.WeakKeyDictionary()


def relaxed(engine: OpenCLBackend) -> Relaxed:
    """The one of ``engine``."""
    found = _engines.get(engine)
    return found if found is not None else _engines.setdefault(engine, Relaxed(engine))
