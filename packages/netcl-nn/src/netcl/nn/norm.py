"""Normalization layers: batch, layer, group, instance and root mean square."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.core.expr import Load
from netcl.core.ops_table.dispatch import evaluate
from netcl.core.process.user_frame import level_outside
from netcl.nn import functional, init
from netcl.nn.conv import AXES
from netcl.nn.layer import Layer
from netcl.nn.module import Module, check_precision
from netcl.nn.placement import new_buffer, new_parameter

_COUNT = (Load(0, "int64") + 1,)


class _Affine(Layer):
    """Base class with a weight initialized with ones and a bias initialized with zeros, each may be None."""

    def _register(self, shape: Sequence[int], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        self.register_parameter("weight", new_parameter(shape, device, dtype) if weight else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if bias else None)

    def reset_parameters(self) -> None:
        """Sets the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _Running(_Affine):
    """Normalization per channel with optional running statistics."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features: int = num_features
        self.eps: float = eps
        self.momentum: float | None = momentum
        self.affine: bool = affine
        self.track_running_stats: bool = track_running_stats
        self._register((num_features,), affine, affine and bias, device, dtype)
        for name, shape, value, kind in (
            ("running_mean", (num_features,), 0, dtype),
            ("running_var", (num_features,), 1, dtype),
            ("num_batches_tracked", (), 0, "int64"),
        ):
            self.register_buffer(name, new_buffer(shape, value, device, kind) if track_running_stats else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Sets the running mean to zero, the variance to one and the count to zero."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    _version = 2

    def _complete_state(self, state: dict[str, Any], prefix: str, version: int | None) -> None:
        """Adds the count, which PyTorch's layers have had since version 2."""
        name = f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and f"{prefix}running_mean" in state:
            state.setdefault(name, self.num_batches_tracked)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Running):
    ranks: ClassVar[tuple[int, ...]]
    # The function that computes the layer; synchronized batch normalization over several devices replaces it.
    normalize: Callable[..., Tensor] = staticmethod(ag.batch_norm)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim - 2 not in self.ranks or x.shape[1] != self.num_features:
            wanted = " or ".join(
                f"({', '.join(('N', str(self.num_features), *AXES.get(rank, ())))})" for rank in self.ranks
            )
            raise ShapeError(f"{self!r}: expected x {wanted}, got {x.shape}", op=type(self).__name__)
        check_precision(self, x, self.weight)
        tracked = self.training and self.track_running_stats
        momentum = self.momentum
        if tracked:
            evaluate(_COUNT, (self.num_batches_tracked,), out=(self.num_batches_tracked,))
            if momentum is None:
                momentum = 1.0 / self.num_batches_tracked.item()
        return self.normalize(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=self.training or not self.track_running_stats,
            momentum=0.0 if momentum is None else momentum,
            eps=self.eps,
        )


class BatchNorm1d(_BatchNorm, ranks=(0, 1)):
    """Batch normalization of x (N, C) or (N, C, L); see BatchNorm2d."""


class BatchNorm2d(_BatchNorm, ranks=(2,)):
    """y = (x - mean) / sqrt(var + eps) weight + bias per channel of x (N, C, H, W) (Ioffe and Szegedy 2015).

    Training uses the statistics of the batch and moves the running ones by ``momentum`` (None: their cumulative
    average, which reads the count on the host); evaluation uses the running ones.
    """


class BatchNorm3d(_BatchNorm, ranks=(3,)):
    """Batch normalization of x (N, C, D, H, W); see BatchNorm2d."""


class SyncBatchNorm(_BatchNorm, ranks=(0, 1, 2, 3)):
    """BatchNorm of x (N, C, ...) with the statistics of all processes of a group.

    In one process they are the ones of its batch; in ``netcl.distributed`` a replicated model synchronizes the
    statistics of every BatchNorm. Raises ValueError for a ``process_group`` of its own.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        if process_group is not None:
            raise ValueError("SyncBatchNorm takes no process_group: give the group to the replicated model")
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group: Any = None

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Returns the module with a SyncBatchNorm, of the same tensors, in place of every BatchNorm."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            place = module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
            converted = cls(*place, process_group, bias=module.bias is not None)
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
            return converted
        for name, child in list(module.named_children()):
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module


class LayerNorm(_Affine):
    """Normalizes over the last axes, of shape ``normalized_shape``; weight and bias have that shape (Ba et al.
    2016).
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _shape(normalized_shape)
        self.eps: float = eps
        self.elementwise_affine: bool = elementwise_affine
        self._register(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        _check_trailing(self, x, self.normalized_shape)
        check_precision(self, x, self.weight)
        return ag.layer_norm(x, self.normalized_shape, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, " + (
            f"bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """x / sqrt(mean(x^2) + eps) weight over the last axes, of shape ``normalized_shape`` (Zhang and Sennrich 2019).
    ``eps`` None: the machine epsilon, for narrower dtypes float32's.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _shape(normalized_shape)
        self.eps: float | None = eps
        self.elementwise_affine: bool = elementwise_affine
        self.register_parameter("weight", None)
        if elementwise_affine:
            self.weight: Tensor = init.ones_(new_parameter(self.normalized_shape, device, dtype))

    def reset_parameters(self) -> None:
        """Sets the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        _check_trailing(self, x, self.normalized_shape)
        check_precision(self, x, self.weight)
        eps = float(np.finfo("float64" if x.dtype == "float64" else "float32").eps) if self.eps is None else self.eps
        return ag.rms_norm(x, self.normalized_shape, self.weight, eps=eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Normalizes groups of channels of each sample of x (N, C, ...); weight and bias (C,) (Wu and He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"num_groups={num_groups} does not divide num_channels={num_channels}")
        self.num_groups: int = num_groups
        self.num_channels: int = num_channels
        self.eps: float = eps
        self.affine: bool = affine
        self._register((num_channels,), affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(f"{self!r}: expected x (N, {self.num_channels}, ...), got {x.shape}", op="GroupNorm")
        check_precision(self, x, self.weight)
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, " + (
            f"bias={self.bias is not None}"
        )


class _InstanceNorm(_Running):
    rank: ClassVar[int]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == self.rank + 1:
            return ag.squeeze(self.forward(ag.unsqueeze(x, 0)), 0)
        other = x.ndim == self.rank + 2 and x.shape[1] != self.num_features
        if x.ndim != self.rank + 2 or (other and (self.affine or self.track_running_stats)):
            wanted = ", ".join((str(self.num_features), *AXES[self.rank]))
            raise ShapeError(f"{self!r}: expected x (N, {wanted}) or ({wanted}), got {x.shape}", op=type(self).__name__)
        if other:
            warnings.warn(
                f"{self!r}: got x {x.shape} of other than num_features channels, which are not used without affine",
                stacklevel=level_outside(),
            )
        check_precision(self, x, self.weight)
        return functional.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            use_input_stats=self.training or not self.track_running_stats,
            momentum=0.0 if self.momentum is None else self.momentum,
            eps=self.eps,
        )


class InstanceNorm1d(_InstanceNorm, rank=1):
    """Normalizes each channel of each sample of x (N, C, L) or (C, L); see InstanceNorm2d."""


class InstanceNorm2d(_InstanceNorm, rank=2):
    """Normalizes each channel of each sample of x (N, C, H, W) or (C, H, W) over its plane (Ulyanov et al. 2016)."""


class InstanceNorm3d(_InstanceNorm, rank=3):
    """Normalizes each channel of each sample of x (N, C, D, H, W) or (C, D, H, W); see InstanceNorm2d."""


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _check_trailing(layer: Module, x: Tensor, shape: tuple[int, ...]) -> None:
    if x.shape[max(0, x.ndim - len(shape)) :] != shape:
        wanted = ", ".join(("...", *map(str, shape)))
        raise ShapeError(f"{layer!r}: expected x ({wanted}), got {x.shape}", op=type(layer).__name__)
