"""Parts that the classification models share: builders by name, blocks, and initial values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

BUILDERS: dict[str, Callable[..., Any]] = {}


def builders(make: Callable[..., Any], title: str, rows: Mapping[str, dict[str, Any]]) -> dict[str, Callable[..., Any]]:
    """Returns the builders of a family by name: each calls ``make`` with its row and the caller's keywords."""

    def builder(name: str, shape: dict[str, Any]) -> Callable[..., Any]:
        def build(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> Any:
            if weights is not None or kwargs.pop("pretrained", False):
                raise UnsupportedError(
                    f"{name}: trained weights are downloads, which netcl does not make: pass weights=None and load a "
                    "file by model.load_state_dict(torch.load(path))",
                    op=name,
                )
            return make(**{**kwargs, **{key: value for key, value in shape.items() if key not in kwargs}})

        build.__name__ = build.__qualname__ = name
        build.__doc__ = f"{title} with new weights; ``weights`` other than None raises UnsupportedError."
        return build

    made = {name: builder(name, shape) for name, shape in rows.items()}
    BUILDERS.update(made)
    return made


def divisible(value: float, by: int = 8) -> int:
    """Returns the multiple of ``by`` nearest to a number of channels, not below nine tenths of it."""
    nearest = max(by, int(value + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * value else nearest


class Conv2dNormActivation(nn.Sequential):
    """A convolution, a norm and an activation, as children 0, 1 and 2."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        stride: int = 1,
        padding: int | None = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: int = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        around = (kernel_size - 1) // 2 * dilation if padding is None else padding
        with_bias = norm_layer is None if bias is None else bias
        layers: list[nn.Module] = [
            nn.Conv2d(in_channels, out_channels, kernel_size, stride, around, dilation, groups, bias=with_bias)
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer() if inplace is None else activation_layer(inplace=inplace))
        super().__init__(*layers)
        self.out_channels: int = out_channels


class SqueezeExcitation(nn.Module):
    """Scales channels by a function of their means (Hu et al. 2018)."""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d(1)
        self.fc1: nn.Module = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2: nn.Module = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation: nn.Module = activation()
        self.scale_activation: nn.Module = scale_activation()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x  # type: ignore[no-any-return]


class StochasticDepth(nn.Module):
    """Drops the whole value of a sample with probability ``p`` in training (Huang et al. 2016), ``mode="row"``."""

    def __init__(self, p: float, mode: str = "row") -> None:
        super().__init__()
        self.p: float = p
        self.mode: str = mode

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        shape = [x.shape[0] if self.mode == "row" else 1] + [1] * (x.ndim - 1)
        kept = nn.functional.dropout(Tensor.ones(shape, x.dtype, queue=x.queue), self.p, True)
        return x * kept


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permute(nn.Module):
    """Permutes axes."""

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims: list[int] = list(dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(*self.dims)


def initialize(model: nn.Module, conv: Any = None, linear: Any = None) -> None:
    """Sets weights by functions of a weight, one of convolutions and one of linear layers; biases become 0."""
    for module in model.modules():
        rule = conv if isinstance(module, nn.Conv2d) else linear if isinstance(module, nn.Linear) else None
        if rule is not None:
            rule(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


fan_out: Callable[..., Any] = partial(nn.init.kaiming_normal_, mode="fan_out")
fan_out_relu: Callable[..., Any] = partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")
normal_01: Callable[..., Any] = partial(nn.init.normal_, mean=0.0, std=0.01)
truncated: Callable[..., Any] = partial(nn.init.trunc_normal_, std=0.02)


def uniform_of_outputs(weight: Tensor) -> None:
    """Fills the weight of a linear layer with uniform numbers in +-1 / sqrt(its outputs)."""
    limit = 1.0 / math.sqrt(weight.shape[0])
    nn.init.uniform_(weight, -limit, limit)
