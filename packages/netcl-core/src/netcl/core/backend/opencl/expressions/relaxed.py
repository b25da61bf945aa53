"""An engine with fast math: the same queue and buffers, expression kernels built with -cl-fast-relaxed-math."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.expressions import run as _run
from netcl.core.expr.nodes import Expr
from netcl.core.storage.data import TensorData

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext


class Relaxed:
    """The queue context that ``run`` needs, with separate plans."""

    def __init__(self, engine: QueueContext) -> None:
        self._engine = weakref.proxy(engine)
        self.build_options = "-cl-fast-relaxed-math"
        self.plans: dict[Any, Any] = {}

    def run(
        self,
        outputs: Sequence[Expr],
        inputs: Sequence[TensorData],
        scalars: Mapping[str, float | int] | None = None,
        *,
        shapes: Sequence[Sequence[int]] | None = None,
        out: Sequence[TensorData | None] | None = None,
    ) -> tuple[Any, ...]:
        """Runs ``DeviceBackend.run`` with fast math."""
        return _run.run(self, outputs, inputs, scalars, shapes=shapes, out=out)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


_engines: weakref.WeakKeyDictionary[QueueContext, Relaxed] = weakref.WeakKeyDictionary()


def relaxed(engine: QueueContext) -> Relaxed:
    """Returns the Relaxed context of ``engine``."""
    context = _engines.get(engine)
    return context if context is not None else _engines.setdefault(engine, Relaxed(engine))
