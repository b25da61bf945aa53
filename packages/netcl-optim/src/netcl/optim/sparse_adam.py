"""SparseAdam: a name of PyTorch that netcl refuses, because its gradients are dense."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.optim.optimizer import Optimizer


class SparseAdam(Optimizer):
    """Raises UnsupportedError: gradients of netcl are dense, also of an embedding."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        raise UnsupportedError(
            "SparseAdam updates the rows of a sparse gradient, and gradients of netcl are dense; write "
            f"optim.Adam(params, lr={lr}, betas={tuple(betas)}, eps={eps}), which also decays the averages of rows "
            "without a gradient"
        )
