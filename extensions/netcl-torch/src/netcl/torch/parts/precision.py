"""torch.amp: autocast and GradScaler with PyTorch's arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from netcl import amp
from netcl.core import Tensor
from netcl.core.dtypes import is_floating


class GradScaler(amp.GradScaler):
    """``netcl.amp.GradScaler`` with PyTorch's arguments: the first may be the device, which the loss decides here."""

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval, enabled)


class CudaGradScaler(amp.GradScaler):
    """``GradScaler`` without the device."""


class autocast(amp.autocast):
    """``netcl.amp.autocast``, whose dtypes are PyTorch's on CPUs too: ops that gain nothing do not stay in float32."""

    _everywhere = True


class CudaAutocast(autocast):
    """``torch.cuda.amp.autocast(enabled, dtype, cache_enabled)``: float16 by default."""

    def __init__(self, enabled: bool = True, dtype: Any = "float16", cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype, enabled=enabled)


class CpuAutocast(autocast):
    """``torch.cpu.amp.autocast(enabled, dtype, cache_enabled)``: bfloat16 by default."""

    def __init__(self, enabled: bool = True, dtype: Any = "bfloat16", cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled)


def is_autocast_available(device_type: str) -> bool:
    """True: every device has autocast."""
    return True


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Decorates the ``forward`` of a Function: with ``cast_inputs`` floating tensors are cast and autocast is off."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or not amp.is_autocast_enabled():
            return fwd(*args, **kwargs)

        def changed(value: Any) -> Any:
            return value.to(cast_inputs) if isinstance(value, Tensor) and is_floating(value.dtype) else value

        with amp.autocast(enabled=False):
            return fwd(*[changed(arg) for arg in args], **{name: changed(value) for name, value in kwargs.items()})

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Any:
    """Decorates the ``backward`` of a Function, which runs without autocast."""
    return bwd if bwd is not None else custom_bwd
