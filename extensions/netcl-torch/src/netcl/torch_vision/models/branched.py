"""``torchvision.models.densenet``, ``shufflenetv2`` and ``googlenet``: layers whose results are joined by channels."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.torch_vision.models.blocks import builders

__all__ = ["BasicConv2d", "DenseNet", "GoogLeNet", "GoogLeNetOutputs", "Inception", "InvertedResidual", "ShuffleNetV2"]


class _DenseLayer(nn.Module):
    def __init__(self, width: int, growth_rate: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        self.norm1: nn.Module = nn.BatchNorm2d(width)
        self.relu1: nn.Module = nn.ReLU(inplace=True)
        self.conv1: nn.Module = nn.Conv2d(width, bn_size * growth_rate, 1, bias=False)
        self.norm2: nn.Module = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2: nn.Module = nn.ReLU(inplace=True)
        self.conv2: nn.Module = nn.Conv2d(bn_size * growth_rate, growth_rate, 3, padding=1, bias=False)
        self.drop_rate: float = drop_rate

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))
        return nn.functional.dropout(y, self.drop_rate, self.training) if self.drop_rate > 0 else y


class _DenseBlock(nn.ModuleDict):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.values():
            x = ag.cat([x, layer(x)], 1)
        return x


class DenseNet(nn.Module):
    """Blocks in which each layer reads the results of all before (Huang et al. 2017)."""

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, ...] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        width = num_init_features
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, width, 7, 2, 3, bias=False),
            norm0=nn.BatchNorm2d(width),
            relu0=nn.ReLU(inplace=True),
            pool0=nn.MaxPool2d(3, 2, 1),
        )
        for number, count in enumerate(block_config, 1):
            block: dict[str, nn.Module] = {}
            for at in range(1, count + 1):
                block[f"denselayer{at}"] = _DenseLayer(width, growth_rate, bn_size, drop_rate)
                width += growth_rate
            layers[f"denseblock{number}"] = _DenseBlock(block)
            if number < len(block_config):
                layers[f"transition{number}"] = nn.Sequential(
                    OrderedDict(
                        norm=nn.BatchNorm2d(width),
                        relu=nn.ReLU(inplace=True),
                        conv=nn.Conv2d(width, width // 2, 1, bias=False),
                        pool=nn.AvgPool2d(2, 2),
                    )
                )
                width //= 2
        layers["norm5"] = nn.BatchNorm2d(width)
        self.features: nn.Module = nn.Sequential(layers)
        self.classifier: nn.Module = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.relu(self.features(x))
        return self.classifier(nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1))  # type: ignore[no-any-return]


def _layer(width: int, out: int, kernel: int, stride: int = 1, own: bool = False, relu: bool = True) -> list[nn.Module]:
    conv = nn.Conv2d(width, out, kernel, stride, kernel // 2, groups=width if own else 1, bias=False)
    return [conv, nn.BatchNorm2d(out), *([nn.ReLU(inplace=True)] if relu else [])]


class InvertedResidual(nn.Module):
    """A block of ShuffleNetV2: half of the channels are computed, then the halves are interleaved."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        self.stride: int = stride
        half = oup // 2
        first = [*_layer(inp, inp, 3, stride, own=True, relu=False), *_layer(inp, half, 1)] if stride > 1 else []
        self.branch1: nn.Module = nn.Sequential(*first)
        self.branch2: nn.Module = nn.Sequential(
            *_layer(inp if stride > 1 else half, half, 1),
            *_layer(half, half, 3, stride, own=True, relu=False),
            *_layer(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        first, second = ag.chunk(x, 2, 1) if self.stride == 1 else (self.branch1(x), x)
        y = ag.cat([first, self.branch2(second)], 1)
        batch, channels, *size = y.shape
        swapped = y.reshape(batch, 2, channels // 2, *size).transpose(1, 2)
        return swapped.reshape(batch, channels, *size)


class ShuffleNetV2(nn.Module):
    """Three stages of blocks (Ma et al. 2018)."""

    def __init__(
        self, stages_repeats: tuple[int, ...], stages_out_channels: tuple[int, ...], num_classes: int = 1000
    ) -> None:
        super().__init__()
        width, *stages, last = stages_out_channels
        self.conv1: nn.Module = nn.Sequential(*_layer(3, width, 3, 2))
        self.maxpool: nn.Module = nn.MaxPool2d(3, 2, 1)
        for number, (count, out) in enumerate(zip(stages_repeats, stages), 2):
            blocks = [InvertedResidual(width, out, 2), *(InvertedResidual(out, out, 1) for _ in range(count - 1))]
            setattr(self, f"stage{number}", nn.Sequential(*blocks))
            width = out
        self.conv5: nn.Module = nn.Sequential(*_layer(width, last, 1))
        self.fc: nn.Module = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x)))))
        return self.fc(self.conv5(x).mean([2, 3]))  # type: ignore[no-any-return]


class BasicConv2d(nn.Module):
    """A convolution without bias, a norm with eps 0.001 and ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv: nn.Module = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn: nn.Module = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    """Convolutions of 1 x 1, 3 x 3 (twice) and a pooling, next to each other."""

    def __init__(self, width: int, ch1: int, ch3red: int, ch3: int, ch5red: int, ch5: int, pool_proj: int) -> None:
        super().__init__()
        made = BasicConv2d
        self.branch1: nn.Module = made(width, ch1, kernel_size=1)
        self.branch2: nn.Module = nn.Sequential(
            made(width, ch3red, kernel_size=1), made(ch3red, ch3, kernel_size=3, padding=1)
        )
        self.branch3: nn.Module = nn.Sequential(
            made(width, ch5red, kernel_size=1), made(ch5red, ch5, kernel_size=3, padding=1)
        )
        self.branch4: nn.Module = nn.Sequential(
            nn.MaxPool2d(3, 1, 1, ceil_mode=True), made(width, pool_proj, kernel_size=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]
        return ag.cat(parts, 1)


class _InceptionAux(nn.Module):
    def __init__(self, width: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.conv: nn.Module = BasicConv2d(width, 128, kernel_size=1)
        self.fc1: nn.Module = nn.Linear(2048, 1024)
        self.fc2: nn.Module = nn.Linear(1024, num_classes)
        self.dropout: nn.Module = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(nn.functional.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(nn.functional.relu(self.fc1(x))))  # type: ignore[no-any-return]


class GoogLeNetOutputs(NamedTuple):
    """The results of training: of the network and its two auxiliary classifiers."""

    logits: Any
    aux_logits2: Any
    aux_logits1: Any


# By the child's name, the channels of an inception block; "pool" are max poolings of a size.
_INCEPTIONS: dict[str, Any] = {
    "inception3a": (192, 64, 96, 128, 16, 32, 32),
    "inception3b": (256, 128, 128, 192, 32, 96, 64),
    "maxpool3": 3,
    "inception4a": (480, 192, 96, 208, 16, 48, 64),
    "inception4b": (512, 160, 112, 224, 24, 64, 64),
    "inception4c": (512, 128, 128, 256, 24, 64, 64),
    "inception4d": (512, 112, 144, 288, 32, 64, 64),
    "inception4e": (528, 256, 160, 320, 32, 128, 128),
    "maxpool4": 2,
    "inception5a": (832, 256, 160, 320, 32, 128, 128),
    "inception5b": (832, 384, 192, 384, 48, 128, 128),
}


class GoogLeNet(nn.Module):
    """Inception blocks with two auxiliary classifiers in training (Szegedy et al. 2015)."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: Any = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        if blocks is not None:
            raise ValueError("GoogLeNet takes blocks=None only; replace children of the model instead")
        self.aux_logits: bool = aux_logits
        self.transform_input: bool = transform_input
        self.conv1: nn.Module = BasicConv2d(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1: nn.Module = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2: nn.Module = BasicConv2d(64, 64, kernel_size=1)
        self.conv3: nn.Module = BasicConv2d(64, 192, kernel_size=3, padding=1)
        self.maxpool2: nn.Module = nn.MaxPool2d(3, 2, ceil_mode=True)
        for name, row in _INCEPTIONS.items():
            setattr(self, name, nn.MaxPool2d(row, 2, ceil_mode=True) if isinstance(row, int) else Inception(*row))
        self.aux1: nn.Module | None = _InceptionAux(512, num_classes, dropout_aux) if aux_logits else None
        self.aux2: nn.Module | None = _InceptionAux(528, num_classes, dropout_aux) if aux_logits else None
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout: nn.Module = nn.Dropout(dropout)
        self.fc: nn.Module = nn.Linear(1024, num_classes)
        if init_weights is not False:
            for module in self.modules():
                if isinstance(module, (nn.Conv2d, nn.Linear)):
                    nn.init.trunc_normal_(module.weight, 0.0, 0.01, -2, 2)

    def forward(self, x: Tensor) -> Any:
        if self.transform_input:
            scale, shift = ((0.229, 0.224, 0.225), (0.485, 0.456, 0.406))
            x = ag.cat([x[:, c : c + 1] * (scale[c] / 0.5) + (shift[c] - 0.5) / 0.5 for c in range(3)], 1)
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        extra: dict[str, Any] = {"aux1": None, "aux2": None}
        for name in _INCEPTIONS:
            x = getattr(self, name)(x)
            aux = {"inception4a": "aux1", "inception4d": "aux2"}.get(name)
            if aux and self.training and self.aux_logits:
                extra[aux] = getattr(self, aux)(x)
        x = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        return GoogLeNetOutputs(x, extra["aux2"], extra["aux1"]) if self.training and self.aux_logits else x


_DENSE = {121: (6, 12, 24, 16), 161: (6, 12, 36, 24), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}
_SHUFFLE = {
    "x0_5": (24, 48, 96, 192, 1024),
    "x1_0": (24, 116, 232, 464, 1024),
    "x1_5": (24, 176, 352, 704, 1024),
    "x2_0": (24, 244, 488, 976, 2048),
}
globals().update(
    builders(
        DenseNet,
        "DenseNet",
        {
            f"densenet{n}": {"block_config": c, **({"growth_rate": 48, "num_init_features": 96} if n == 161 else {})}
            for n, c in _DENSE.items()
        },
    )
    | builders(
        ShuffleNetV2,
        "ShuffleNetV2",
        {
            f"shufflenet_v2_{name}": {"stages_repeats": (4, 8, 4), "stages_out_channels": channels}
            for name, channels in _SHUFFLE.items()
        },
    )
    | builders(GoogLeNet, "GoogLeNet", {"googlenet": {}})
)
