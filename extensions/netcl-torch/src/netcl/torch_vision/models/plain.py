"""``torchvision.models.alexnet``, ``vgg`` and ``squeezenet``: convolutions in a row, then a classifier."""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.torch_vision.models.blocks import builders, fan_out_relu, initialize, normal_01

__all__ = ["VGG", "AlexNet", "Fire", "SqueezeNet", "make_layers"]


class AlexNet(nn.Module):
    """Five convolutions and three linear layers (Krizhevsky 2014): (N, 3, H, W) gives (N, num_classes)."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for at, (channels, kernel, stride, padding) in enumerate(
            ((64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1))
        ):
            layers += [nn.Conv2d(width, channels, kernel, stride, padding), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(3, 2)] if at in (0, 1, 4) else []
            width = channels
        self.features: nn.Module = nn.Sequential(*layers)
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier: nn.Module = nn.Sequential(
            *(nn.Dropout(dropout), nn.Linear(256 * 36, 4096), nn.ReLU(inplace=True)),
            *(nn.Dropout(dropout), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, num_classes)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))  # type: ignore[no-any-return]


class VGG(nn.Module):
    """``features``, a pooling to 7 x 7 and three linear layers (Simonyan and Zisserman 2015)."""

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features: nn.Module = features
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier: nn.Module = nn.Sequential(
            *(nn.Linear(512 * 49, 4096), nn.ReLU(True), nn.Dropout(dropout)),
            *(nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(dropout), nn.Linear(4096, num_classes)),
        )
        if init_weights:
            initialize(self, fan_out_relu, normal_01)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))  # type: ignore[no-any-return]


def make_layers(cfg: list[Any], batch_norm: bool = False) -> nn.Sequential:
    """Returns 3 x 3 convolutions of the numbers of channels in a list, with poolings at "M"."""
    layers: list[nn.Module] = []
    width = 3
    for channels in cfg:
        if channels == "M":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(width, channels, 3, padding=1), *([nn.BatchNorm2d(channels)] if batch_norm else [])]
        layers.append(nn.ReLU(inplace=True))
        width = channels
    return nn.Sequential(*layers)


def _vgg(counts: tuple[int, ...], batch_norm: bool, **kwargs: Any) -> VGG:
    stages = ([channels] * count + ["M"] for channels, count in zip((64, 128, 256, 512, 512), counts))
    return VGG(make_layers([each for stage in stages for each in stage], batch_norm), **kwargs)


class Fire(nn.Module):
    """A 1 x 1 convolution, then 1 x 1 and 3 x 3 convolutions next to each other."""

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.squeeze: nn.Module = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation: nn.Module = nn.ReLU(inplace=True)
        self.expand1x1: nn.Module = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation: nn.Module = nn.ReLU(inplace=True)
        self.expand3x3: nn.Module = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation: nn.Module = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        parts = [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))]
        return ag.cat(parts, 1)


class SqueezeNet(nn.Module):
    """Fire modules and a convolution to the classes (Iandola et al. 2016), ``version`` "1_0" or "1_1"."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in ("1_0", "1_1"):
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        first, pools = ((96, 7), (2, 6)) if version == "1_0" else ((64, 3), (1, 3))
        layers: list[nn.Module] = [nn.Conv2d(3, *first, stride=2), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        width = first[0]
        for at, planes in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
            layers.append(Fire(width, planes, planes * 4, planes * 4))
            layers += [nn.MaxPool2d(3, 2, ceil_mode=True)] if at in pools else []
            width = planes * 8
        self.features: nn.Module = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, 1)
        self.classifier: nn.Module = nn.Sequential(
            nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )
        initialize(self, lambda weight: (normal_01 if weight is last.weight else nn.init.kaiming_uniform_)(weight))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)  # type: ignore[no-any-return]


_COUNTS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
globals().update(
    builders(AlexNet, "AlexNet", {"alexnet": {}})
    | builders(
        _vgg,
        "VGG",
        {f"{name}{end}": {"counts": c, "batch_norm": bool(end)} for name, c in _COUNTS.items() for end in ("", "_bn")},
    )
    | builders(SqueezeNet, "SqueezeNet", {f"squeezenet{v}": {"version": v} for v in ("1_0", "1_1")})
)
