"""torch.optim: optimizers of netcl.optim with PyTorch's defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import netcl.optim


class SGD(netcl.optim.SGD):
    """Gradient descent with momentum; the learning rate is PyTorch's 1e-3 unless given."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            momentum,
            dampening,
            weight_decay,
            nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
