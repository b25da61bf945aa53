"""Linear, Bilinear, and layers that only reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import functional, init
from netcl.nn.layer import Layer
from netcl.nn.module import Module, check_precision
from netcl.nn.placement import new_parameter


class Linear(Module):
    """y = x W^T + b: x (..., in_features) gives (..., out_features); weight (out_features, in_features), bias
    (out_features,).

    Both are initialized uniform in +-1/sqrt(in_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features: int = in_features
        self.out_features: int = out_features
        self.weight: ag.Parameter = new_parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", new_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes the parameters again."""
        init.kaiming_uniform(self.weight)
        init.uniform_around_zero_(self.bias, 1 / math.sqrt(max(1, self.in_features)))

    def forward(self, x: Tensor) -> Tensor:
        if not x.shape or x.shape[-1] != self.in_features:
            raise ShapeError(f"{self!r}: expected x (..., {self.in_features}), got {x.shape}", op="Linear")
        weight = self.weight  # once: a parameter is found by __getattr__
        check_precision(self, x, weight)
        return ag.linear(x, weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """y_k = x1^T W_k x2 + b_k: x1 (..., in1), x2 (..., in2) give (..., out); weight (out, in1, in2)."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features: int = in1_features
        self.in2_features: int = in2_features
        self.out_features: int = out_features
        self.weight: ag.Parameter = new_parameter((out_features, in1_features, in2_features), device, dtype)
        self.register_parameter("bias", new_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes the parameters again, uniform in +-1/sqrt(in1)."""
        bound = 1 / math.sqrt(max(1, self.in1_features))
        init.uniform_around_zero_(self.weight, bound)
        init.uniform_around_zero_(self.bias, bound)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        ins = (self.in1_features, self.in2_features)
        if x1.shape[:-1] != x2.shape[:-1] or (x1.shape[-1:], x2.shape[-1:]) != ((ins[0],), (ins[1],)):
            raise ShapeError(
                f"{self!r}: expected x1 (..., {ins[0]}) and x2 (..., {ins[1]}), got {x1.shape} and {x2.shape}",
                op="Bilinear",
            )
        check_precision(self, x1, self.weight)
        check_precision(self, x2, self.weight)
        return functional.bilinear(x1, x2, self.weight, self.bias)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """y = x; arguments are accepted and change nothing, so that it replaces any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Layer, shown=("start_dim", "end_dim")):
    """Merges the axes start_dim..end_dim into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim: int = start_dim
        self.end_dim: int = end_dim

    def forward(self, x: Tensor) -> Tensor:
        return ag.flatten(x, self.start_dim, self.end_dim)


class Unflatten(Module):
    """Splits the axis ``dim`` into axes of ``sizes``; one size may be -1.

    ``unflattened_size`` is PyTorch's name of ``sizes``.
    """

    def __init__(
        self, dim: int, sizes: Sequence[int] | None = None, *, unflattened_size: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        sizes = unflattened_size if sizes is None else sizes
        if sizes is None:
            raise TypeError("Unflatten takes sizes, the shape of the new axes")
        self.dim: int = dim
        self.sizes: tuple[int, ...] = tuple(sizes)
        self.unflattened_size: tuple[int, ...] = self.sizes

    def forward(self, x: Tensor) -> Tensor:
        if not -x.ndim <= self.dim < x.ndim:
            raise ShapeError(f"{self!r} needs an axis {self.dim}; x has shape {x.shape}", op="Unflatten")
        at = self.dim % x.ndim
        known = math.prod(size for size in self.sizes if size != -1)
        unknown = x.shape[at] // known if known else 0
        sizes = tuple(unknown if size == -1 else size for size in self.sizes)
        if math.prod(sizes) != x.shape[at]:
            raise ShapeError(f"{self!r} cannot split axis {at} of shape {x.shape} into {self.sizes}", op="Unflatten")
        return ag.reshape(x, (*x.shape[:at], *sizes, *x.shape[at + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.sizes}"


class PairwiseDistance(Layer, shown=("p", "eps", "keepdim")):
    """The p-norm of x1 - x2 + eps over the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.p: float = p
        self.eps: float = eps
        self.keepdim: bool = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ag.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)


class CosineSimilarity(Layer, shown=("dim", "eps")):
    """The cosine of the angle between x1 and x2 along ``dim``."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim: int = dim
        self.eps: float = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ag.cosine_similarity(x1, x2, axis=self.dim, eps=float(self.eps))
