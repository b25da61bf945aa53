"""``torchvision.models.resnet``: the ResNet family (He et al. 2015) with torchvision's names and initial values.

``netcl.nn.resnet`` has the same networks for programs of netcl; these take torchvision's arguments and have its
children, which programs cut and replace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from netcl import nn
from netcl.core import Tensor
from netcl.torch_vision.models.blocks import builders
from netcl.torch_vision.refused import Refusals

__all__ = [
    "BasicBlock",
    "Bottleneck",
    "ResNet",
    "conv1x1",
    "conv3x3",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "resnext50_32x4d",
    "wide_resnet101_2",
    "wide_resnet50_2",
]

Norm = Callable[..., nn.Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """Returns a 3 x 3 convolution that keeps the size at stride 1, without bias."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """Returns a 1 x 1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a residual connection."""

    expansion: ClassVar[int] = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        if groups != 1 or base_width != 64 or dilation != 1:
            raise ValueError("BasicBlock takes groups=1, base_width=64 and dilation=1 only")
        norm = nn.BatchNorm2d if norm_layer is None else norm_layer
        self.conv1: nn.Module = conv3x3(inplanes, planes, stride)
        self.bn1: nn.Module = norm(planes)
        self.relu: nn.Module = nn.ReLU(inplace=True)
        self.conv2: nn.Module = conv3x3(planes, planes)
        self.bn2: nn.Module = norm(planes)
        self.downsample: nn.Module | None = downsample
        self.stride: int = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        identity = x if self.downsample is None else self.downsample(x)
        return self.relu(out + identity)  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride) and 1 x 1 convolutions with a residual connection."""

    expansion: ClassVar[int] = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        norm = nn.BatchNorm2d if norm_layer is None else norm_layer
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1: nn.Module = conv1x1(inplanes, width)
        self.bn1: nn.Module = norm(width)
        self.conv2: nn.Module = conv3x3(width, width, stride, groups, dilation)
        self.bn2: nn.Module = norm(width)
        self.conv3: nn.Module = conv1x1(width, planes * self.expansion)
        self.bn3: nn.Module = norm(planes * self.expansion)
        self.relu: nn.Module = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = downsample
        self.stride: int = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out)))))
        identity = x if self.downsample is None else self.downsample(x)
        return self.relu(out + identity)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """Four stages of ``layers[i]`` blocks: (N, 3, H, W) gives (N, num_classes).

    ``groups`` and ``width_per_group`` make ResNeXt and wide networks; ``replace_stride_with_dilation`` says for each of
    the last three stages whether it is dilated in place of its stride; ``zero_init_residual`` begins each block as the
    identity.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        dilated = [False] * 3 if replace_stride_with_dilation is None else list(replace_stride_with_dilation)
        if len(dilated) != 3:
            raise ValueError(f"replace_stride_with_dilation must be None or three booleans, got {dilated}")
        self._norm_layer: Norm = nn.BatchNorm2d if norm_layer is None else norm_layer
        self.inplanes: int = 64
        self.dilation: int = 1
        self.groups: int = groups
        self.base_width: int = width_per_group
        self.conv1: nn.Module = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1: nn.Module = self._norm_layer(64)
        self.relu: nn.Module = nn.ReLU(inplace=True)
        self.maxpool: nn.Module = nn.MaxPool2d(3, 2, 1)
        self.layer1: nn.Module = self._make_layer(block, 64, layers[0])
        self.layer2: nn.Module = self._make_layer(block, 128, layers[1], 2, dilated[0])
        self.layer3: nn.Module = self._make_layer(block, 256, layers[2], 2, dilated[1])
        self.layer4: nn.Module = self._make_layer(block, 512, layers[3], 2, dilated[2])
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d((1, 1))
        self.fc: nn.Module = nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (BasicBlock, Bottleneck)) and zero_init_residual:
                last = module.bn2 if isinstance(module, BasicBlock) else module.bn3
                if last.weight is not None:
                    nn.init.zeros_(last.weight)

    def _make_layer(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        planes: int,
        blocks: int,
        stride: int = 1,
        dilate: bool = False,
    ) -> nn.Sequential:
        first_dilation = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        wide, shortcut = planes * block.expansion, None
        if stride != 1 or self.inplanes != wide:
            shortcut = nn.Sequential(conv1x1(self.inplanes, wide, stride), self._norm_layer(wide))
        shape = (self.groups, self.base_width)
        made = [block(self.inplanes, planes, stride, shortcut, *shape, first_dilation, self._norm_layer)]
        self.inplanes = wide
        for _ in range(1, blocks):
            made.append(block(wide, planes, 1, None, *shape, self.dilation, self._norm_layer))
        return nn.Sequential(*made)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))  # type: ignore[no-any-return]


def _builder(name: str, block: Any, layers: Sequence[int], doc: str, **shape: int) -> Callable[..., ResNet]:
    """Returns the function ``name`` that builds a network of these blocks, with ``doc`` as its docstring."""
    build = builders(partial(ResNet, block, layers), name, {name: shape})[name]
    build.__doc__ = doc
    return build


resnet18: Callable[..., ResNet] = _builder(
    "resnet18",
    BasicBlock,
    (2, 2, 2, 2),
    "ResNet-18 with new weights; ``weights`` other than None raises UnsupportedError.",
)
resnet34: Callable[..., ResNet] = _builder("resnet34", BasicBlock, (3, 4, 6, 3), "ResNet-34; see resnet18.")
resnet50: Callable[..., ResNet] = _builder("resnet50", Bottleneck, (3, 4, 6, 3), "ResNet-50; see resnet18.")
resnet101: Callable[..., ResNet] = _builder("resnet101", Bottleneck, (3, 4, 23, 3), "ResNet-101; see resnet18.")
resnet152: Callable[..., ResNet] = _builder("resnet152", Bottleneck, (3, 8, 36, 3), "ResNet-152; see resnet18.")
resnext50_32x4d: Callable[..., ResNet] = _builder(
    "resnext50_32x4d",
    Bottleneck,
    (3, 4, 6, 3),
    "ResNeXt-50 32x4d (Xie et al. 2017); see resnet18.",
    groups=32,
    width_per_group=4,
)
resnext101_32x8d: Callable[..., ResNet] = _builder(
    "resnext101_32x8d", Bottleneck, (3, 4, 23, 3), "ResNeXt-101 32x8d; see resnet18.", groups=32, width_per_group=8
)
resnext101_64x4d: Callable[..., ResNet] = _builder(
    "resnext101_64x4d", Bottleneck, (3, 4, 23, 3), "ResNeXt-101 64x4d; see resnet18.", groups=64, width_per_group=4
)
wide_resnet50_2: Callable[..., ResNet] = _builder(
    "wide_resnet50_2",
    Bottleneck,
    (3, 4, 6, 3),
    "Wide ResNet-50-2 (Zagoruyko and Komodakis 2016); see resnet18.",
    groups=1,
    width_per_group=128,
)
wide_resnet101_2: Callable[..., ResNet] = _builder(
    "wide_resnet101_2", Bottleneck, (3, 4, 23, 3), "Wide ResNet-101-2; see resnet18.", groups=1, width_per_group=128
)


_refusals = Refusals(
    "models.resnet",
    "ResNet18_Weights ResNet34_Weights ResNet50_Weights ResNet101_Weights ResNet152_Weights ResNeXt50_32X4D_Weights "
    "ResNeXt101_32X8D_Weights ResNeXt101_64X4D_Weights Wide_ResNet50_2_Weights Wide_ResNet101_2_Weights",
    "trained weights are downloads, which netcl does not make",
)


def __getattr__(name: str) -> Any:
    return _refusals.find(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_refusals.names])
