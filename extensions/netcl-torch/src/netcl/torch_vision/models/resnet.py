"""``torchvision.models.resnet``: the ResNet family (He et al. 2015) with torchvision's names and initial values.

They are the networks of ``netcl.nn.resnet`` with torchvision's arguments and children, which programs cut and replace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from netcl import nn
from netcl.core import Tensor
from netcl.nn.resnet import BasicBlock as PlainBasicBlock
from netcl.nn.resnet import Bottleneck as PlainBottleneck
from netcl.nn.resnet import ResNet as PlainResNet
from netcl.torch_vision.models.blocks import builders
from netcl.torch_vision.refused import refused

Norm = Callable[..., nn.Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """Returns a 3 x 3 convolution that keeps the size at stride 1, without bias."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """Returns a 1 x 1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(PlainBasicBlock):
    """Two 3 x 3 convolutions with a residual connection."""

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
        nn.Module.__init__(self)
        if groups != 1 or base_width != 64 or dilation != 1:
            raise ValueError("BasicBlock takes groups=1, base_width=64 and dilation=1 only")
        self.stride: int = stride
        self._build(inplanes, planes, stride, norm_layer or nn.BatchNorm2d, inplace=True)
        self.downsample: nn.Module | None = downsample


class Bottleneck(PlainBottleneck):
    """1 x 1, 3 x 3 (with the stride) and 1 x 1 convolutions with a residual connection."""

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
        nn.Module.__init__(self)
        self.stride: int = stride
        norm = norm_layer or nn.BatchNorm2d
        self._build(inplanes, planes, stride, norm, True, base_width, groups, dilation)
        self.downsample: nn.Module | None = downsample


class ResNet(PlainResNet):
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
        nn.Module.__init__(self)
        dilated = [False] * 3 if replace_stride_with_dilation is None else list(replace_stride_with_dilation)
        if len(dilated) != 3:
            raise ValueError(f"replace_stride_with_dilation must be None or three booleans, got {dilated}")
        self.groups: int = groups
        self.base_width: int = width_per_group
        self._build_stages(block, layers, True, dilated, norm_layer or nn.BatchNorm2d, inplace=True)
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d((1, 1))
        self._build_head(num_classes)
        for module in self.modules() if zero_init_residual else ():
            if isinstance(module, (BasicBlock, Bottleneck)):
                last: Any = module.bn2 if isinstance(module, BasicBlock) else module.bn3
                if last.weight is not None:
                    nn.init.zeros_(last.weight)

    def _make_block(self, block: Any, planes: int, stride: int, shortcut: nn.Module | None, dilation: int) -> Any:
        shape = (self.groups, self.base_width, dilation, self._norm_layer)
        return block(self.inplanes, planes, stride, shortcut, *shape)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self._pooled(x).flatten(1))  # type: ignore[no-any-return]


# Of each builder: the block, the layers of the stages, the title, and its keywords.
RESNETS: dict[str, tuple[Any, tuple[int, ...], str, dict[str, int]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2), "ResNet-18", {}),
    "resnet34": (BasicBlock, (3, 4, 6, 3), "ResNet-34", {}),
    "resnet50": (Bottleneck, (3, 4, 6, 3), "ResNet-50", {}),
    "resnet101": (Bottleneck, (3, 4, 23, 3), "ResNet-101", {}),
    "resnet152": (Bottleneck, (3, 8, 36, 3), "ResNet-152", {}),
    "resnext50_32x4d": (
        Bottleneck, (3, 4, 6, 3), "ResNeXt-50 32x4d (Xie et al. 2017)", {"groups": 32, "width_per_group": 4},
    ),
    "resnext101_32x8d": (Bottleneck, (3, 4, 23, 3), "ResNeXt-101 32x8d", {"groups": 32, "width_per_group": 8}),
    "resnext101_64x4d": (Bottleneck, (3, 4, 23, 3), "ResNeXt-101 64x4d", {"groups": 64, "width_per_group": 4}),
    "wide_resnet50_2": (
        Bottleneck, (3, 4, 6, 3), "Wide ResNet-50-2 (Zagoruyko and Komodakis 2016)", {"width_per_group": 128},
    ),
    "wide_resnet101_2": (Bottleneck, (3, 4, 23, 3), "Wide ResNet-101-2", {"width_per_group": 128}),
}  # fmt: skip


for _name, (_block, _layers, _title, _shape) in RESNETS.items():
    globals().update(builders(partial(ResNet, _block, _layers), _title, {_name: _shape}))
__all__ = ["BasicBlock", "Bottleneck", "ResNet", "conv1x1", "conv3x3", *RESNETS]

__getattr__, __dir__ = refused("models.resnet", globals())
