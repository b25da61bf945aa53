"""Rows that make tensors from numbers of the host, and functions of netcl.ops that are no rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl_core_kit.dispatch import _core, call
from netcl_core_kit.errors import UnsupportedError
from netcl_core_kit.rows import computed

__all__ = ["allclose", "build_matmul_kernel", "equal", "fold_bn_params"]


def _made(array: Any, dtype: Any, device: Any) -> Any:
    return _core.tensor.from_host(_core.engine_for(device).queue, array, dtype)


def _hamming(count: int, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return alpha - beta * np.cos(2 * np.pi * np.arange(count) / max(count - 1, 1))


def _window(name: str, function: Callable[..., Any], parameters: str = "") -> None:
    """A row of a window of symmetric form ``function(length, *parameters)``; a periodic one is a longer one's beginning."""
    names = [one.split("=")[0] for one in parameters.split(", ") if one]

    def compute(window_length: int, periodic: bool = True, *more: Any, **place: Any) -> Any:
        named = dict(zip(names, more)) | {key: place.pop(key) for key in names if key in place}
        longer = periodic and window_length > 1
        value = np.ones(1) if window_length == 1 else function(window_length + longer, *named.values())
        made = _made(value[:window_length], place.get("dtype", "float32"), place.get("device"))
        if place.get("requires_grad"):
            made.requires_grad = True
        return made

    text = f"window_length, periodic=True, {parameters}{', ' if parameters else ''}*, dtype='float32', device=None, "
    scope: dict[str, Any] = {}
    exec(f"def signed({text}requires_grad=False): ...", scope)
    compute.__signature__ = inspect.signature(scope["signed"])  # type: ignore[attr-defined]
    computed(name=name, doc=f"A window of the kind {name}: (window_length,).")(compute)


_window("bartlett_window", np.bartlett)
_window("blackman_window", np.blackman)
_window("hann_window", np.hanning)
_window("hamming_window", _hamming, "alpha=0.54, beta=0.46")
_window("kaiser_window", lambda count, beta=12.0: np.kaiser(count, beta), "beta=12.0")


def _triangle(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(row: int, col: int, offset: int = 0, *, dtype: Any = "int64", device: Any = None) -> Any:
        return _made(np.stack(function(row, offset, col)), dtype, device)

    return compute


computed(name="tril_indices", doc="The positions of the lower triangle: (2, n).")(_triangle(np.tril_indices))
computed(name="triu_indices", doc="The positions of the upper triangle: (2, n).")(_triangle(np.triu_indices))


@computed()
def causal_mask(queries: int, keys: int | None = None, offset: int = 0, queue: Any = None) -> Any:
    """A mask (queries, keys), bool, True if query i may attend to the key: keys 0 .. i + offset."""
    return _made(np.tri(queries, queries if keys is None else keys, offset, dtype=bool), "bool", queue)


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """True if ``isclose`` holds for all elements; the result is read on the host."""
    return bool(call("all", call("isclose", a, b, rtol, atol, equal_nan)).item())


def equal(a: Any, b: Any) -> bool:
    """True if a and b have one shape and equal elements; the result is read on the host."""
    return a.shape == b.shape and bool(call("all", call("eq", a, b)).item())


def fold_bn_params(
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    bn_weight: Any = None,
    bn_bias: Any = None,
    eps: float = 1e-05,
) -> tuple[Any, Any]:
    """(weight, bias) of a convolution that includes the batch normalization after it (for inference)."""
    scale = call("rsqrt", call("add", running_var, eps))
    scale = scale if bn_weight is None else call("mul", scale, bn_weight)
    shift = call("mul", call("neg", running_mean) if bias is None else call("sub", bias, running_mean), scale)
    folded = call("mul", weight, call("reshape", scale, (-1, *(1,) * (weight.ndim - 1))))
    return folded, shift if bn_bias is None else call("add", shift, bn_bias)


def build_matmul_kernel(context: Any = None, tile: int = 16, dtype: str = "float") -> tuple[Any, Any]:
    """UnsupportedError: the devices of this core take no kernels in OpenCL C."""
    raise UnsupportedError("build_matmul_kernel needs the level opencl-kernels, which this netcl-core does not keep")
