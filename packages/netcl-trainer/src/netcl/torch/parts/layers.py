"""torch.nn: names beyond those of netcl.nn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.nn import Module
from netcl.nn import NLLLoss as NLLLoss2d
from netcl.torch.parts.parallel import DataParallel as DataParallel

TORCH_NAMES = ("DataParallel", "NLLLoss2d", "_ntuple", "_pair", "_quadruple", "_single", "_triple")
__all__ = ["DataParallel", "NLLLoss2d"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """The function that repeats a number n times and makes a tuple of a sequence."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


class CrossMapLRN2d(Module):
    """Refused: raises UnsupportedError; LocalResponseNorm computes it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError("CrossMapLRN2d: write nn.LocalResponseNorm")
