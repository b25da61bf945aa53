"""``torchvision.models.mobilenetv2``, ``mobilenetv3``, ``mnasnet`` and ``efficientnet``: inverted residual blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from netcl import nn
from netcl.core import Tensor
from netcl.torch_vision.models.blocks import (
    Conv2dNormActivation,
    SqueezeExcitation,
    StochasticDepth,
    builders,
    divisible,
    fan_out,
    fan_out_relu,
    initialize,
    normal_01,
    uniform_of_outputs,
)

__all__ = ["MBConv", "EfficientNet", "FusedMBConv", "InvertedResidual", "MNASNet", "MobileNetV2", "MobileNetV3"]

Norm = Callable[..., nn.Module]


class InvertedResidual(nn.Module):
    """A 1 x 1 convolution to ``expand_ratio`` times the channels, one per channel, and a 1 x 1 convolution back."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: float, norm_layer: Norm | None = None) -> None:
        super().__init__()
        made = partial(Conv2dNormActivation, norm_layer=norm_layer or nn.BatchNorm2d, activation_layer=nn.ReLU6)
        hidden = round(inp * expand_ratio)
        first = [made(inp, hidden, 1)] if expand_ratio != 1 else []
        self.conv: nn.Module = nn.Sequential(
            *first,
            made(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, bias=False),
            (norm_layer or nn.BatchNorm2d)(oup),
        )
        self.stride: int = stride
        self.use_res_connect: bool = stride == 1 and inp == oup

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return x + y if self.use_res_connect else y  # type: ignore[no-any-return]


class MobileNetV2(nn.Module):
    """Inverted residuals (Sandler et al. 2018): rows of (ratio, channels, blocks, stride) in
    ``inverted_residual_setting``.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Any = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Norm | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block, norm = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        rows = inverted_residual_setting or [
            *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
        ]
        made = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        width = divisible(32 * width_mult, round_nearest)
        self.last_channel: int = divisible(1280 * max(1.0, width_mult), round_nearest)
        layers: list[nn.Module] = [made(3, width, 3, 2)]
        for ratio, channels, count, stride in rows:
            out = divisible(channels * width_mult, round_nearest)
            for at in range(count):
                layers.append(block(width, out, stride if at == 0 else 1, expand_ratio=ratio, norm_layer=norm))
                width = out
        self.features: nn.Module = nn.Sequential(*layers, made(width, self.last_channel, 1))
        self.classifier: nn.Module = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        initialize(self, fan_out, normal_01)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))  # type: ignore[no-any-return]


class _Bneck(nn.Module):
    """A block of MobileNetV3: (in, kernel, hidden, out, SE, "RE" or "HS", stride, dilation)."""

    def __init__(self, row: tuple[Any, ...], norm: Norm) -> None:
        super().__init__()
        width, kernel, hidden, out, scaled, kind, stride, dilation = row
        made = partial(
            Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish if kind == "HS" else nn.ReLU
        )
        layers: list[nn.Module] = [made(width, hidden, 1)] if hidden != width else []
        layers.append(made(hidden, hidden, kernel, 1 if dilation > 1 else stride, groups=hidden, dilation=dilation))
        if scaled:
            layers.append(SqueezeExcitation(hidden, divisible(hidden // 4), scale_activation=nn.Hardsigmoid))
        layers.append(Conv2dNormActivation(hidden, out, 1, norm_layer=norm, activation_layer=None))
        self.block: nn.Module = nn.Sequential(*layers)
        self.use_res_connect: bool = stride == 1 and width == out
        self.out_channels: int = out

    def forward(self, x: Tensor) -> Tensor:
        y = self.block(x)
        return x + y if self.use_res_connect else y  # type: ignore[no-any-return]


# kernel, hidden, out, SE, activation, stride; rows with True at the end are of the tail.
_LARGE: tuple[tuple[Any, ...], ...] = (
    *((3, 16, 16, 0, "RE", 1, 0), (3, 64, 24, 0, "RE", 2, 0), (3, 72, 24, 0, "RE", 1, 0), (5, 72, 40, 1, "RE", 2, 0)),
    *((5, 120, 40, 1, "RE", 1, 0), (5, 120, 40, 1, "RE", 1, 0), (3, 240, 80, 0, "HS", 2, 0)),
    *((3, 200, 80, 0, "HS", 1, 0), (3, 184, 80, 0, "HS", 1, 0), (3, 184, 80, 0, "HS", 1, 0)),
    *((3, 480, 112, 1, "HS", 1, 0), (3, 672, 112, 1, "HS", 1, 0), (5, 672, 160, 1, "HS", 2, 1)),
    *((5, 960, 160, 1, "HS", 1, 1), (5, 960, 160, 1, "HS", 1, 1)),
)
_SMALL: tuple[tuple[Any, ...], ...] = (
    *((3, 16, 16, 1, "RE", 2, 0), (3, 72, 24, 0, "RE", 2, 0), (3, 88, 24, 0, "RE", 1, 0), (5, 96, 40, 1, "HS", 2, 0)),
    *((5, 240, 40, 1, "HS", 1, 0), (5, 240, 40, 1, "HS", 1, 0), (5, 120, 48, 1, "HS", 1, 0)),
    *((5, 144, 48, 1, "HS", 1, 0), (5, 288, 96, 1, "HS", 2, 1), (5, 576, 96, 1, "HS", 1, 1)),
    (5, 576, 96, 1, "HS", 1, 1),
)


class MobileNetV3(nn.Module):
    """Blocks with squeeze-and-excitation and hard swish (Howard et al. 2019)."""

    def __init__(
        self,
        rows: Any,
        last_channel: int,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        reduced_tail: bool = False,
        dilated: bool = False,
        norm_layer: Norm | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        halves, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
        made = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish)
        width = divisible(16 * width_mult)
        layers: list[nn.Module] = [made(3, width, 3, 2)]
        tail = 0
        for kernel, hidden, out, scaled, kind, stride, at_tail in rows:
            halved = halves if tail else 1
            target = out // halves if at_tail else out
            hidden, target = divisible(hidden // halved * width_mult), divisible(target * width_mult)
            around = dilation if at_tail else 1
            layers.append(_Bneck((width, kernel, hidden, target, scaled, kind, stride, around), norm))
            width, tail = target, tail + at_tail
        layers.append(made(width, 6 * width, 1))
        self.features: nn.Module = nn.Sequential(*layers)
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d(1)
        inner = divisible(last_channel // halves * width_mult)
        self.classifier: nn.Module = nn.Sequential(
            *(nn.Linear(6 * width, inner), nn.Hardswish(inplace=True), nn.Dropout(dropout, inplace=True)),
            nn.Linear(inner, num_classes),
        )
        initialize(self, fan_out, normal_01)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))  # type: ignore[no-any-return]


class _MnasBlock(nn.Module):
    def __init__(self, width: int, out: int, kernel: int, stride: int, factor: int, momentum: float) -> None:
        super().__init__()
        hidden = width * factor
        self.apply_residual: bool = width == out and stride == 1
        self.layers: nn.Module = nn.Sequential(
            nn.Conv2d(width, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden, momentum=momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden, momentum=momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, out, 1, bias=False),
            nn.BatchNorm2d(out, momentum=momentum),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return y + x if self.apply_residual else y  # type: ignore[no-any-return]


class MNASNet(nn.Module):
    """MNASNet-B1 (Tan et al. 2019) of width ``alpha``."""

    _version: int = 2

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha: float = alpha
        self.num_classes: int = num_classes
        momentum = 1 - 0.9997
        first, second, *rest = (divisible(each * alpha) for each in (32, 16, 24, 40, 80, 96, 192, 320))
        norm = partial(nn.BatchNorm2d, momentum=momentum)
        layers: list[nn.Module] = [
            *(nn.Conv2d(3, first, 3, 2, 1, bias=False), norm(first), nn.ReLU(inplace=True)),
            *(nn.Conv2d(first, first, 3, 1, 1, groups=first, bias=False), norm(first), nn.ReLU(inplace=True)),
            *(nn.Conv2d(first, second, 1, bias=False), norm(second)),
        ]
        width = second
        rows = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))
        for out, (kernel, stride, factor, count) in zip(rest, rows):
            blocks = []
            for at in range(count):
                blocks.append(_MnasBlock(width, out, kernel, stride if at == 0 else 1, factor, momentum))
                width = out
            layers.append(nn.Sequential(*blocks))
        layers += [nn.Conv2d(width, 1280, 1, bias=False), norm(1280), nn.ReLU(inplace=True)]
        self.layers: nn.Module = nn.Sequential(*layers)
        self.classifier: nn.Module = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(1280, num_classes))
        initialize(self, fan_out_relu, partial(nn.init.kaiming_uniform_, mode="fan_out", nonlinearity="sigmoid"))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.layers(x).mean([2, 3]))  # type: ignore[no-any-return]


class MBConv(nn.Module):
    """A block of EfficientNet: expansion, a convolution per channel, squeeze-and-excitation, projection."""

    def __init__(
        self, ratio: float, kernel: int, stride: int, width: int, out: int, depth_prob: float, norm_layer: Norm
    ) -> None:
        super().__init__()
        made = partial(Conv2dNormActivation, norm_layer=norm_layer)
        hidden = divisible(width * ratio)
        layers: list[nn.Module] = [made(width, hidden, 1, activation_layer=nn.SiLU)] if hidden != width else []
        self.block: nn.Module = nn.Sequential(
            *layers,
            made(hidden, hidden, kernel, stride, groups=hidden, activation_layer=nn.SiLU),
            SqueezeExcitation(hidden, max(1, width // 4), activation=partial(nn.SiLU, inplace=True)),
            made(hidden, out, 1, activation_layer=None),
        )
        self.stochastic_depth: nn.Module = StochasticDepth(depth_prob, "row")
        self.use_res_connect: bool = stride == 1 and width == out
        self.out_channels: int = out

    def forward(self, x: Tensor) -> Tensor:
        y = self.block(x)
        return self.stochastic_depth(y) + x if self.use_res_connect else y  # type: ignore[no-any-return]


class FusedMBConv(MBConv):
    """A block of EfficientNetV2: one convolution expands and mixes neighbours."""

    def __init__(
        self, ratio: float, kernel: int, stride: int, width: int, out: int, depth_prob: float, norm_layer: Norm
    ) -> None:
        nn.Module.__init__(self)
        made = partial(Conv2dNormActivation, norm_layer=norm_layer)
        hidden = divisible(width * ratio)
        if hidden == width:
            layers = [made(width, out, kernel, stride, activation_layer=nn.SiLU)]
        else:
            layers = [
                made(width, hidden, kernel, stride, activation_layer=nn.SiLU),
                made(hidden, out, 1, activation_layer=None),
            ]
        self.block: nn.Module = nn.Sequential(*layers)
        self.stochastic_depth: nn.Module = StochasticDepth(depth_prob, "row")
        self.use_res_connect: bool = stride == 1 and width == out
        self.out_channels = out


class EfficientNet(nn.Module):
    """Stages of rows (block, ratio, kernel, stride, in, out, blocks) (Tan and Le 2019, 2021)."""

    def __init__(
        self,
        rows: Any,
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Norm | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        made = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        layers: list[nn.Module] = [made(3, rows[0][4], 3, 2)]
        total, done, width = sum(row[6] for row in rows), 0, rows[0][4]
        for block, ratio, kernel, stride, _, out, count in rows:
            stage = []
            for at in range(count):
                dropped = stochastic_depth_prob * done / total
                stage.append(block(ratio, kernel, stride if at == 0 else 1, width, out, dropped, norm))
                width, done = out, done + 1
            layers.append(nn.Sequential(*stage))
        last = 4 * width if last_channel is None else last_channel
        self.features: nn.Module = nn.Sequential(*layers, made(width, last, 1))
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d(1)
        self.classifier: nn.Module = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        initialize(self, fan_out, uniform_of_outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))  # type: ignore[no-any-return]


def _scaled(width: float, depth: float) -> list[tuple[Any, ...]]:
    rows = (
        *((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3)),
        *((6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1)),
    )
    return [
        (MBConv, ratio, kernel, stride, divisible(i * width), divisible(o * width), math.ceil(count * depth))
        for ratio, kernel, stride, i, o, count in rows
    ]


_F, _M = FusedMBConv, MBConv
_V2: dict[str, tuple[list[tuple[Any, ...]], float]] = {
    "s": (
        [
            *((_F, 1, 3, 1, 24, 24, 2), (_F, 4, 3, 2, 24, 48, 4), (_F, 4, 3, 2, 48, 64, 4), (_M, 4, 3, 2, 64, 128, 6)),
            *((_M, 6, 3, 1, 128, 160, 9), (_M, 6, 3, 2, 160, 256, 15)),
        ],
        0.2,
    ),
    "m": (
        [
            *((_F, 1, 3, 1, 24, 24, 3), (_F, 4, 3, 2, 24, 48, 5), (_F, 4, 3, 2, 48, 80, 5), (_M, 4, 3, 2, 80, 160, 7)),
            *((_M, 6, 3, 1, 160, 176, 14), (_M, 6, 3, 2, 176, 304, 18), (_M, 6, 3, 1, 304, 512, 5)),
        ],
        0.3,
    ),
    "l": (
        [
            *((_F, 1, 3, 1, 32, 32, 4), (_F, 4, 3, 2, 32, 64, 7), (_F, 4, 3, 2, 64, 96, 7), (_M, 4, 3, 2, 96, 192, 10)),
            *((_M, 6, 3, 1, 192, 224, 19), (_M, 6, 3, 2, 224, 384, 25), (_M, 6, 3, 1, 384, 640, 7)),
        ],
        0.4,
    ),
}
_SCALES = (
    *((1.0, 1.0, 0.2), (1.0, 1.1, 0.2), (1.1, 1.2, 0.3), (1.2, 1.4, 0.3)),
    *((1.4, 1.8, 0.4), (1.6, 2.2, 0.4), (1.8, 2.6, 0.5), (2.0, 3.1, 0.5)),
)


def _efficientnets() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for at, (width, depth, dropout) in enumerate(_SCALES):
        norm = {"norm_layer": partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)} if at >= 5 else {}
        found[f"efficientnet_b{at}"] = {"rows": _scaled(width, depth), "dropout": dropout, **norm}
    for name, (rows, dropout) in _V2.items():
        norm = {"norm_layer": partial(nn.BatchNorm2d, eps=0.001)}
        found[f"efficientnet_v2_{name}"] = {"rows": rows, "dropout": dropout, "last_channel": 1280, **norm}
    return found


globals().update(
    builders(MobileNetV2, "MobileNetV2", {"mobilenet_v2": {}})
    | builders(
        MobileNetV3,
        "MobileNetV3",
        {
            "mobilenet_v3_large": {"rows": _LARGE, "last_channel": 1280},
            "mobilenet_v3_small": {"rows": _SMALL, "last_channel": 1024},
        },
    )
    | builders(
        MNASNet,
        "MNASNet",
        {f"mnasnet{a}".replace(".", "_"): {"alpha": float(a)} for a in ("0.5", "0.75", "1.0", "1.3")},
    )
    | builders(EfficientNet, "EfficientNet", _efficientnets())
)
