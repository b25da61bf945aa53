"""Replaces kernels that a driver does not build: an interceptor of engine calls, idle until a build has failed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from netcl.core.engine.interceptors import Interceptor, Layer
from netcl.core.errors import KernelBuildError
from netcl.core.process.user_frame import level_outside
from netcl.core.tuning.choices import only_plain


class _Way(NamedTuple):
    """The replacement of failed kernels: a ``variant`` of the call, and the names of both kernels in the warning."""

    variant: str
    kernels: str
    instead: str


_CONTRACTION = _Way("plain", "matrix products and convolutions", "a plain and slower one is used")
_ATTENTION = _Way("blocks", "attention", "products of matrices take its place")
_WAYS = {"matmul": _CONTRACTION, "conv": _CONTRACTION, "attention": _ATTENTION, "attention_grad": _ATTENTION}
WITH_A_PLAINER_KERNEL: frozenset[str] = frozenset(_WAYS)


class KernelFallback(Interceptor):
    """Computes calls by another variant if their kernels do not build: after one warning for each dtype, until the
    process ends. A variant that the caller names is not replaced: it raises KernelBuildError.
    """

    layer = Layer.FALLBACK

    def __init__(self) -> None:
        self.failed: dict[tuple[_Way, str], KernelBuildError | None] = {}  # the error while it is to be warned of

    @property
    def idle(self) -> bool:  # type: ignore[override]
        return not self.failed

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        way = _WAYS.get(name)
        if way is None:
            return proceed(*args, **kwargs)
        dtype = _dtype(args)
        if (way, dtype) not in self.failed:
            try:
                return proceed(*args, **kwargs)
            except KernelBuildError as error:
                self._note(engine, way, dtype, error)
        result = proceed(*args, **kwargs, variant=way.variant)
        news, self.failed[way, dtype] = self.failed[way, dtype], None
        if news is not None:
            warnings.warn(
                f"{news.device} (driver {news.driver}) does not build the {dtype} kernel of {way.kernels}, "
                f"{way.instead}: {news.log.strip()[:400]}",
                RuntimeWarning,
                stacklevel=level_outside(),
            )
        return result

    def recovers(self, engine: Any, error: KernelBuildError, name: str, args: tuple[Any, ...]) -> bool:
        way = _WAYS.get(name)
        if way is None or (way, _dtype(args)) in self.failed:
            return False
        self._note(engine, way, _dtype(args), error)
        return True

    def _note(self, engine: Any, way: _Way, dtype: str, error: KernelBuildError) -> None:
        self.failed.setdefault((way, dtype), error)
        if way is _CONTRACTION:
            only_plain(engine.queue, dtype)


def _dtype(args: tuple[Any, ...]) -> str:
    return next(arg.dtype for arg in args if hasattr(arg, "dtype"))  # type: ignore[no-any-return]
