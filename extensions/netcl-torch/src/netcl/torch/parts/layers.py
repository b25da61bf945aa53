"""torch.nn: names beyond those of netcl.nn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import netcl.nn
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.nn import Module
from netcl.nn import NLLLoss as NLLLoss2d
from netcl.torch.parts import functional
from netcl.torch.parts.parallel import DataParallel as DataParallel

TORCH_NAMES = ("DataParallel", "NLLLoss2d", "_ntuple", "_pair", "_quadruple", "_single", "_triple")
__all__ = ["DataParallel", "LogSoftmax", "NLLLoss2d", "Softmax", "Softmin"]

EXTRA_STATE = "_extra_state"  # the end of the key of ``Module.get_extra_state`` in a state


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """The function that repeats a number n times and makes a tuple of a sequence."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Returns fan_in or fan_out of a weight, as ``mode`` says."""
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {list(modes)}")
    return netcl.nn.init.fans(tensor)[modes.index(mode.lower())]


class CrossMapLRN2d(Module):
    """Refused: raises UnsupportedError; LocalResponseNorm computes it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError("CrossMapLRN2d: write nn.LocalResponseNorm")


class Softmax(netcl.nn.Softmax):
    """exp(x) / sum(exp(x)) along ``dim``, which is guessed from the number of axes if it is None, with a warning."""

    def __init__(self, dim: int | None = None) -> None:
        _begin(self, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the softmax of ``x``."""
        return functional.softmax(x, self.dim, _stacklevel=5)


class LogSoftmax(netcl.nn.LogSoftmax):
    """log(softmax(x)) along ``dim``, which is guessed from the number of axes if it is None, with a warning."""

    def __init__(self, dim: int | None = None) -> None:
        _begin(self, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the log softmax of ``x``."""
        return functional.log_softmax(x, self.dim, _stacklevel=5)


class Softmin(netcl.nn.Softmin):
    """softmax(-x) along ``dim``, which is guessed from the number of axes if it is None, with a warning."""

    def __init__(self, dim: int | None = None) -> None:
        _begin(self, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the softmin of ``x``."""
        return functional.softmin(x, self.dim, _stacklevel=5)


def _begin(layer: Any, dim: int | None) -> None:
    """Gives a layer its axis, which may be None until it is called."""
    Module.__init__(layer)
    layer.axis = layer.dim = dim
