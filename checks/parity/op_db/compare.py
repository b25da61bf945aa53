"""Results against PyTorch's: structure, shape, dtype and values, by a reference in float64 if they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Relative to an element, and to the largest magnitude of its tensor.
TOLERANCE = {
    torch.float64: (1e-7, 1e-9),
    torch.float32: (1e-4, 2e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
}

Reference = Callable[[], Any]


class Different(Exception):
    """Raised with the kind of a difference ("value", "dtype", "shape", "structure") and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text


def compare(
    mine: Any, wanted: Any, *, values: bool = True, reference: Reference | None = None, scale: float = 0.0
) -> None:
    """Raises Different if ``mine``, in PyTorch's types, is not ``wanted``; ``reference`` gives it in float64.

    Differences are relative to ``scale`` if that is more than the largest element of a tensor.
    """
    _compare(mine, wanted, "", values, reference, (), scale)


def largest(x: Any) -> float:
    """The largest finite magnitude of the floating tensors of a result."""
    if isinstance(x, (tuple, list)):
        return max(map(largest, x), default=0.0)
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return 0.0
    finite = x.double()[x.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _compare(
    mine: Any, wanted: Any, where: str, values: bool, reference: Reference | None, path: Any, scale: float
) -> None:
    if isinstance(wanted, torch.Tensor):
        if not isinstance(mine, torch.Tensor):
            raise Different("structure", f"{where}expected a tensor, got {type(mine).__name__}")
        if mine.shape != wanted.shape:
            raise Different("shape", f"{where}expected shape {list(wanted.shape)}, got {list(mine.shape)}")
        wrong = mine.dtype != wanted.dtype
        if values:
            text = _difference(mine.to(wanted.dtype) if wrong else mine, wanted, reference, path, scale)
            if text:
                raise Different("value", where + text)
        if wrong:
            raise Different("dtype", f"{where}expected {wanted.dtype}, got {mine.dtype}")
    elif isinstance(wanted, torch.Size):
        if list(mine) != list(wanted):
            raise Different("shape", f"{where}expected {wanted}, got {mine}")
    elif isinstance(wanted, (tuple, list)):
        if not isinstance(mine, (tuple, list)) or len(mine) != len(wanted):
            got = len(mine) if isinstance(mine, (tuple, list)) else type(mine).__name__
            raise Different("structure", f"{where}expected {len(wanted)} results, got {got}")
        for i, (one, other) in enumerate(zip(mine, wanted)):
            _compare(one, other, f"{where}[{i}] ", values, reference, (*path, i), scale)
    elif isinstance(wanted, float):
        _compare(torch.tensor(mine), torch.tensor(wanted), where, values, None, (), scale)
    elif mine != wanted:
        raise Different("value", f"{where}expected {wanted}, got {mine}")


def _difference(
    mine: torch.Tensor, wanted: torch.Tensor, reference: Reference | None, path: Any, scale: float
) -> str | None:
    if not wanted.is_floating_point():
        wrong = mine != wanted
        if not wrong.any():
            return None
        i = int(wrong.flatten().nonzero()[0])
        return f"{int(wrong.sum())} of {wanted.numel()} differ, first {mine.flatten()[i]} for {wanted.flatten()[i]}"
    wrong = _far(mine, wanted, scale)
    if not wrong.any():
        return None
    if reference is not None and _is_as_near(mine, wanted, reference, path, scale):
        return None
    i = int(wrong.flatten().nonzero()[0])
    return f"{int(wrong.sum())} of {wanted.numel()} differ, first {mine.flatten()[i]:.7g} for {wanted.flatten()[i]:.7g}"


def _far(mine: torch.Tensor, wanted: torch.Tensor, scale: float) -> torch.Tensor:
    relative, absolute = TOLERANCE[wanted.dtype]
    scale = max(scale, largest(wanted), 1e-6)
    mine, wanted = mine.double(), wanted.double()
    same = (mine == wanted) | (mine.isnan() & wanted.isnan())
    return ~(same | ((mine - wanted).abs() <= relative * wanted.abs() + absolute * scale))


def _is_as_near(mine: torch.Tensor, wanted: torch.Tensor, reference: Reference, path: Any, scale: float) -> bool:
    """True if the result is at most about twice as far from a reference in float64 as PyTorch's."""
    try:
        exact = reference()
        for i in path:
            exact = exact[i]
    except Exception:  # noqa: BLE001
        return False
    if not isinstance(exact, torch.Tensor) or exact.shape != wanted.shape:
        return False
    exact = exact.double()
    exact = torch.where(exact.abs() > torch.finfo(wanted.dtype).max, exact.sign() * float("inf"), exact)
    relative, absolute = TOLERANCE[wanted.dtype]
    scale = max(scale, largest(exact), 1e-6)
    mine, wanted = mine.double(), wanted.double()
    far = (wanted - exact).abs()
    far = far[far.isfinite()]
    allowed = 2.5 * (float(far.max()) if far.numel() else 0.0) + relative * exact.abs() + absolute * scale
    same = (mine == exact) | (mine.isnan() & (exact.isnan() | wanted.isnan())) | (mine == wanted)
    return bool((same | ((mine - exact).abs() <= allowed)).all())
