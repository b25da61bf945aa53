"""Dropout of elements and of whole channels."""

from __future__ import annotations

from typing import ClassVar

from netcl.core import Tensor
from netcl.nn import functional
from netcl.nn.layer import Layer


class Dropout(Layer, shown=("p", "inplace")):
    """In training, zeroes each element with probability p and divides the others by 1 - p (Srivastava et al. 2014); a
    new mask per call. With ``inplace`` the result is written into x, and x is returned.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"expected a dropout probability in [0, 1], got {p}")
        self.p: float = p
        self.inplace: bool = inplace

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training, self.inplace)


class _ChannelDropout(Dropout):
    rank: ClassVar[int]

    def forward(self, x: Tensor) -> Tensor:
        return getattr(functional, f"dropout{self.rank}d")(x, self.p, self.training, self.inplace)  # type: ignore[no-any-return]


class Dropout1d(_ChannelDropout, rank=1):
    """Dropout of whole channels of x (N, C, L)."""


class Dropout2d(_ChannelDropout, rank=2):
    """Dropout of whole channels of x (N, C, H, W) (Tompson et al. 2015)."""


class Dropout3d(_ChannelDropout, rank=3):
    """Dropout of whole channels of x (N, C, D, H, W)."""


class AlphaDropout(Dropout):
    """Dropout for nets of SELU, which keeps mean 0 and variance 1 (Klambauer et al. 2017)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.alpha_dropout(x, self.p, self.training, self.inplace)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels of x (N, C, ...)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.feature_alpha_dropout(x, self.p, self.training, self.inplace)
