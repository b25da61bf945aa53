"""The ResNet family (He et al. 2015), with torchvision's names, shapes and initial values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

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

Norm = Callable[..., Module]


@register
class BasicBlock(Module):
    """Two 3x3 convolutions with a residual connection: (N, inplanes, H, W) to (N, planes, H / stride, W / stride)."""

    expansion: ClassVar[int] = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: Module | None = None) -> None:
        super().__init__()
        self.inplanes, self.planes, self.stride = inplanes, planes, stride
        self._build(inplanes, planes, stride)
        self.add_module("downsample", downsample)

    def _build(
        self,
        inplanes: int,
        planes: int,
        stride: int,
        norm: Norm = BatchNorm2d,
        inplace: bool = False,
    ) -> None:
        """Makes the children; ``inplace``: of the activation."""
        self.conv1: Module = Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1: Module = norm(planes)
        self.relu: Module = ReLU(inplace)
        self.conv2: Module = Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2: Module = norm(planes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(ag.add(y, shortcut))  # type: ignore[no-any-return]


@register
class Bottleneck(Module):
    """1x1, 3x3 and 1x1 convolutions with a residual connection: (N, inplanes, H, W) to (N, 4 planes, H / stride, W /
    stride).
    """

    expansion: ClassVar[int] = 4

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: Module | None = None) -> None:
        super().__init__()
        self.inplanes, self.planes, self.stride = inplanes, planes, stride
        self._build(inplanes, planes, stride)
        self.add_module("downsample", downsample)

    def _build(
        self,
        inplanes: int,
        planes: int,
        stride: int,
        norm: Norm = BatchNorm2d,
        inplace: bool = False,
        base_width: int = 64,
        groups: int = 1,
        dilation: int = 1,
    ) -> None:
        """Makes the children; ``base_width``, ``groups`` and ``dilation`` are for the 3x3 convolution."""
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1: Module = Conv2d(inplanes, width, 1, bias=False)
        self.bn1: Module = norm(width)
        # The stride is in the 3x3 convolution, as in torchvision, not in the first as in the paper.
        self.conv2: Module = Conv2d(width, width, 3, stride, dilation, dilation, groups, bias=False)
        self.bn2: Module = norm(width)
        self.conv3: Module = Conv2d(width, planes * self.expansion, 1, bias=False)
        self.bn3: Module = norm(planes * self.expansion)
        self.relu: Module = ReLU(inplace)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(ag.add(self.bn3(self.conv3(y)), shortcut))  # type: ignore[no-any-return]


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
        self.block, self.num_classes, self.stem = block, num_classes, stem
        self._build_stages(block, layers, stem == "imagenet")
        self.flatten = Flatten()
        self._build_head(num_classes)

    def _build_stages(
        self,
        block: Any,
        layers: Sequence[int],
        large: bool = True,
        dilated: Sequence[bool] = (False, False, False),
        norm: Norm = BatchNorm2d,
        inplace: bool = False,
    ) -> None:
        """Makes the children up to the pool; ``dilated`` has for each later stage if it keeps its size."""
        self.layers, self._norm_layer, self.inplanes, self.dilation = tuple(layers), norm, 64, 1
        self.conv1: Module = Conv2d(3, 64, 7, 2, 3, bias=False) if large else Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1: Module = norm(64)
        self.relu: Module = ReLU(inplace)
        self.maxpool: Module = MaxPool2d(3, 2, 1) if large else Identity()
        for at, (count, dilate) in enumerate(zip(self.layers, (False, *dilated))):
            setattr(self, f"layer{at + 1}", self._make_layer(block, 64 << at, count, 1 + (at > 0), dilate))
        self.avgpool: Module = AdaptiveAvgPool2d(1)

    def _build_head(self, num_classes: int) -> None:
        self.fc: Module = Linear(self.inplanes, num_classes)
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False) -> Sequential:
        """Returns a stage; with ``dilate`` its convolutions are dilated in place of its stride."""
        dilation, wide, shortcut = self.dilation, planes * block.expansion, None
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        if stride != 1 or self.inplanes != wide:
            shortcut = Sequential(Conv2d(self.inplanes, wide, 1, stride, bias=False), self._norm_layer(wide))
        first = self._make_block(block, planes, stride, shortcut, dilation)
        check_layers("blocks of a stage", blocks)
        self.inplanes = wide
        return Sequential(first, *(self._make_block(block, planes, 1, None, self.dilation) for _ in range(blocks - 1)))

    def _make_block(self, block: Any, planes: int, stride: int, shortcut: Module | None, dilation: int) -> Any:
        return block(self.inplanes, planes, stride, shortcut)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.flatten(self._pooled(x)))  # type: ignore[no-any-return]

    def _pooled(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for at in range(1, len(self.layers) + 1):
            x = getattr(self, f"layer{at}")(x)
        return self.avgpool(x)  # type: ignore[no-any-return]


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
