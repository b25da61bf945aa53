"""torch.signal.windows: computed in float64 by NumPy, and rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import netcl as nc
from netcl.core import Tensor
from netcl.core.dtypes import canonical
from netcl.core.errors import DTypeError

TORCH_NAMES = __all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
    "hann", "kaiser", "nuttall",
]  # fmt: skip


def _window(
    name: str,
    M: int,
    function: Callable[[Any, int], Any],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns ``function`` of the positions 0 .. M - 1 and of the length of a period, M - 1 or M; 1 of a single one."""
    kind = canonical(nc.get_default_dtype() if dtype is None else dtype)
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if kind not in ("float32", "float64"):
        raise DTypeError(f"{name}: expected the dtype float32 or float64, got {kind}")
    if layout is not None and layout is not nc.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    values = function(np.arange(M, dtype=np.float64), M - 1 if sym else M) if M > 1 else np.ones(M)
    made: Tensor = nc.tensor(values, dtype=kind, device=device, requires_grad=requires_grad)
    return made


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """The sum of (-1)^j a[j] cos(2 pi j k / N), N = M - 1, or M if not ``sym``."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = [*a]
    if not weights:
        raise ValueError("Coefficients cannot be empty")

    def values(k: Any, n: int) -> Any:
        return sum((-1) ** j * weight * np.cos(2 * np.pi * j * k / n) for j, weight in enumerate(weights))

    return _window("general_cosine", M, values, sym, **options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi k / N)."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.54 - 0.46 cos(2 pi k / N)."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """(1 - cos(2 pi k / N)) / 2."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N)."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Nuttall's window of four terms, which is nearly 0 at its ends."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """1 - |2 k / N - 1|."""
    return _window("bartlett", M, lambda k, n: 1 - abs(2 * k / n - 1), sym, **options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """sin(pi (k + 1/2) / (N + 1))."""
    return _window("cosine", M, lambda k, n: np.sin(np.pi * (k + 0.5) / (n + 1)), sym, **options)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(-|k - center| / tau), of which the center of a symmetric window is N / 2. Raises ValueError for another."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return _window(
        "exponential", M, lambda k, n: np.exp(-abs(k - (n / 2 if center is None else center)) / tau), sym, **options
    )


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(-((k - N / 2) / std)^2 / 2)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, lambda k, n: np.exp(-(((k - n / 2) / std) ** 2) / 2), sym, **options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """i0(beta sqrt(1 - (2 k / N - 1)^2)) / i0(beta)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values(k: Any, n: int) -> Any:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * k / n - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser", M, values, sym, **options)
