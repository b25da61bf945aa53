"""The ResNet family (He et al. 2015), with torchvision's names, shapes and initial values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn import init
from netcl.nn.activation import ReLU
from netcl.nn.container import Sequential
from netcl.nn.conv import Conv2d
from netcl.nn.layer_count import check_layers
from netcl.nn.linear import Flatten, Identity, Linear
from netcl.nn.module import Module
from netcl.nn.norm import BatchNorm2d
from netcl.nn.pool import AdaptiveAvgPool2d, MaxPool2d
from netcl.nn.registry import register


@register
class BasicBlock(Module):
    """Two 3x3 convolutions with a residual connection: (N, inplanes, H, W) to (N, planes, H / stride, W / stride)."""

    expansion: ClassVar[int] = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: Module | None = None) -> None:
        super().__init__()
        self.inplanes, self.planes, self.stride = inplanes, planes, stride
        self.conv1 = Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = BatchNorm2d(planes)
        self.relu = ReLU()
        self.conv2 = Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = BatchNorm2d(planes)
        self.add_module("downsample", downsample)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(ag.add(y, shortcut))


@register
class Bottleneck(Module):
    """1x1, 3x3 and 1x1 convolutions with a residual connection: (N, inplanes, H, W) to (N, 4 planes, H / stride, W /
    stride).
    """

    expansion: ClassVar[int] = 4

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: Module | None = None) -> None:
        super().__init__()
        self.inplanes, self.planes, self.stride = inplanes, planes, stride
        self.conv1 = Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = BatchNorm2d(planes)
        # The stride is in the 3x3 convolution, as in torchvision, not in the first as in the paper.
        self.conv2 = Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = BatchNorm2d(planes)
        self.conv3 = Conv2d(planes, planes * self.expansion, 1, bias=False)
        self.bn3 = BatchNorm2d(planes * self.expansion)
        self.relu = ReLU()
        self.add_module("downsample", downsample)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(ag.add(self.bn3(self.conv3(y)), shortcut))


@register
class ResNet(Module):
    """Four stages of ``layers[i]`` blocks with 64, 128, 256 and 512 planes: (N, 3, H, W) gives (N, num_classes).

    ``stem``: "imagenet", a 7x7 convolution of stride 2 and a pool, or "cifar", a 3x3 convolution of stride 1.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        stem: str = "imagenet",
    ) -> None:
        super().__init__()
        if stem not in ("imagenet", "cifar"):
            raise ValueError(f"stem: expected 'imagenet' or 'cifar', got {stem!r}")
        self.block, self.layers, self.num_classes, self.stem = block, tuple(layers), num_classes, stem
        large = stem == "imagenet"
        self.conv1 = Conv2d(3, 64, 7, 2, 3, bias=False) if large else Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = BatchNorm2d(64)
        self.relu = ReLU()
        self.maxpool = MaxPool2d(3, 2, 1) if large else Identity()
        inplanes = 64
        for at, (count, planes) in enumerate(zip(self.layers, (64, 128, 256, 512)), 1):
            setattr(self, f"layer{at}", _stage(block, inplanes, planes, count, 1 if at == 1 else 2))
            inplanes = planes * block.expansion
        self.avgpool = AdaptiveAvgPool2d(1)
        self.flatten = Flatten()
        self.fc = Linear(inplanes, num_classes)
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for at in range(1, len(self.layers) + 1):
            x = getattr(self, f"layer{at}")(x)
        return self.fc(self.flatten(self.avgpool(x)))


def _stage(
    block: type[BasicBlock] | type[Bottleneck], inplanes: int, planes: int, count: int, stride: int
) -> Sequential:
    wide = planes * block.expansion
    shortcut = None
    if stride != 1 or inplanes != wide:
        shortcut = Sequential(Conv2d(inplanes, wide, 1, stride, bias=False), BatchNorm2d(wide))
    first = block(inplanes, planes, stride, shortcut)
    check_layers("blocks of a stage", count)
    return Sequential(first, *(block(wide, planes) for _ in range(count - 1)))


def resnet18(num_classes: int = 1000, stem: str = "imagenet") -> ResNet:
    """Returns 18 layers, 11.7 million parameters for 1000 classes."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, stem)


def resnet34(num_classes: int = 1000, stem: str = "imagenet") -> ResNet:
    """Returns 34 layers, 21.8 million parameters for 1000 classes."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes, stem)


def resnet50(num_classes: int = 1000, stem: str = "imagenet") -> ResNet:
    """Returns 50 layers, 25.6 million parameters for 1000 classes."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes, stem)


def resnet101(num_classes: int = 1000, stem: str = "imagenet") -> ResNet:
    """Returns 101 layers, 44.5 million parameters for 1000 classes."""
    return ResNet(Bottleneck, (3, 4, 23, 3), num_classes, stem)


def resnet152(num_classes: int = 1000, stem: str = "imagenet") -> ResNet:
    """Returns 152 layers, 60.2 million parameters for 1000 classes."""
    return ResNet(Bottleneck, (3, 8, 36, 3), num_classes, stem)


ResNet18: Callable[..., ResNet] = resnet18
ResNet34: Callable[..., ResNet] = resnet34
ResNet50: Callable[..., ResNet] = resnet50
ResNet101: Callable[..., ResNet] = resnet101
ResNet152: Callable[..., ResNet] = resnet152
