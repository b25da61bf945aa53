"""``torchvision.ops``: FrozenBatchNorm2d and parts of models; operations on boxes raise when they are called."""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn import Module
from netcl.torch_vision.models.blocks import Conv2dNormActivation, Permute, SqueezeExcitation, StochasticDepth
from netcl.torch_vision.refused import refused

__all__ = ["Conv2dNormActivation", "FrozenBatchNorm2d", "Permute", "SqueezeExcitation", "StochasticDepth"]


class FrozenBatchNorm2d(Module):
    """y = (x - running_mean) / sqrt(running_var + eps) weight + bias per channel of x (N, C, H, W), with all four in
    buffers, so that training changes none of them.

    A state of a BatchNorm2d loads: its ``num_batches_tracked`` is dropped.

    Example:
        >>> from netcl.core import Tensor
        >>> from netcl.torch_vision.ops import FrozenBatchNorm2d
        >>> FrozenBatchNorm2d(3)(Tensor.full((2, 3, 4, 4), 1.0, "float32")).shape
        (2, 3, 4, 4)
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps: float = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, Tensor.full((num_features,), value, "float32", persistent=True))
        self.register_load_state_dict_pre_hook(_drop_count)

    def forward(self, x: Tensor) -> Tensor:
        shape = (1, -1, 1, 1)
        scale = self.weight.reshape(shape) * ag.rsqrt(self.running_var.reshape(shape) + self.eps)
        result: Tensor = x * scale + (self.bias.reshape(shape) - self.running_mean.reshape(shape) * scale)
        return result

    def __repr__(self) -> str:
        return f"FrozenBatchNorm2d({self.weight.shape[0]}, eps={self.eps})"


def _drop_count(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    state.pop(f"{prefix}num_batches_tracked", None)


__getattr__, __dir__ = refused("ops", globals())
