"""``torchvision.models.regnet``, ``convnext`` and ``vision_transformer``: stages of one kind of block."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.torch_vision.models.blocks import (
    Conv2dNormActivation,
    LayerNorm2d,
    Permute,
    SqueezeExcitation,
    StochasticDepth,
    builders,
    divisible,
    initialize,
    normal_01,
    truncated,
)

__all__ = ["CNBlock", "ConvNeXt", "EncoderBlock", "RegNet", "VisionTransformer"]

Norm = Callable[..., nn.Module]


class _ResBottleneck(nn.Module):
    def __init__(self, width: int, out: int, stride: int, norm: Norm, group_width: int, se_ratio: float) -> None:
        super().__init__()
        made = partial(Conv2dNormActivation, norm_layer=norm)
        self.proj: nn.Module | None = (
            made(width, out, 1, stride, activation_layer=None) if width != out or stride != 1 else None
        )
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            a=made(width, out, 1), b=made(out, out, 3, stride, groups=out // group_width)
        )
        if se_ratio:
            layers["se"] = SqueezeExcitation(out, round(se_ratio * width), partial(nn.ReLU, inplace=True))
        layers["c"] = made(out, out, 1, activation_layer=None)
        self.f: nn.Module = nn.Sequential(layers)
        self.activation: nn.Module = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation((x if self.proj is None else self.proj(x)) + self.f(x))  # type: ignore[no-any-return]


def _stages(depth: int, w_0: int, w_a: float, w_m: float, group_width: int) -> list[tuple[int, int, int]]:
    """Returns (channels, blocks, channels of a group) of the stages of a RegNet, from its four parameters."""
    exponents = (round(math.log((at * w_a + w_0) / w_0) / math.log(w_m)) for at in range(depth))
    widths = [round(w_0 * w_m**exponent / 8) * 8 for exponent in exponents]
    found = []
    for width in dict.fromkeys(widths):
        group = min(group_width, width)
        found.append((divisible(width, group), widths.count(width), group))
    return found


class RegNet(nn.Module):
    """Four stages of residual bottlenecks with groups (Radosavovic et al. 2020)."""

    def __init__(
        self,
        parameters: tuple[Any, ...],
        se_ratio: float = 0.0,
        num_classes: int = 1000,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        self.stem: nn.Module = Conv2dNormActivation(3, 32, 3, 2, norm_layer=norm)
        width = 32
        stages: OrderedDict[str, nn.Module] = OrderedDict()
        for number, (out, count, group) in enumerate(_stages(*parameters), 1):
            blocks: OrderedDict[str, nn.Module] = OrderedDict()
            for at in range(count):
                blocks[f"block{number}-{at}"] = _ResBottleneck(width, out, 2 if at == 0 else 1, norm, group, se_ratio)
                width = out
            stages[f"block{number}"] = nn.Sequential(blocks)
        self.trunk_output: nn.Module = nn.Sequential(stages)
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d((1, 1))
        self.fc: nn.Module = nn.Linear(width, num_classes)
        initialize(self, _normal_of_outputs, normal_01)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(1))  # type: ignore[no-any-return]


def _normal_of_outputs(weight: Tensor) -> None:
    out, _, height, width = weight.shape
    nn.init.normal_(weight, 0.0, math.sqrt(2.0 / (height * width * out)))


class CNBlock(nn.Module):
    """A 7 x 7 convolution per channel, a norm and two linear layers, scaled per channel."""

    def __init__(self, dim: int, layer_scale: float, stochastic_depth_prob: float, norm_layer: Norm) -> None:
        super().__init__()
        self.block: nn.Module = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim),
            Permute([0, 2, 3, 1]),
            norm_layer(dim),
            *(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale: ag.Parameter = ag.Parameter(Tensor.full((dim, 1, 1), layer_scale, "float32"))
        self.stochastic_depth: nn.Module = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, x: Tensor) -> Tensor:
        return self.stochastic_depth(self.layer_scale * self.block(x)) + x  # type: ignore[no-any-return]


class ConvNeXt(nn.Module):
    """Stages of CNBlocks: rows (channels, blocks) in ``block_setting`` (Liu et al. 2022)."""

    def __init__(
        self,
        block_setting: Any,
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        norm, norm2d = partial(nn.LayerNorm, eps=1e-6), partial(LayerNorm2d, eps=1e-6)
        width, total, done = block_setting[0][0], sum(count for _, count in block_setting), 0
        layers: list[nn.Module] = [
            Conv2dNormActivation(3, width, 4, 4, 0, norm_layer=norm2d, activation_layer=None, bias=True)
        ]
        for at, (channels, count) in enumerate(block_setting):
            if at:
                layers.append(nn.Sequential(norm2d(width), nn.Conv2d(width, channels, 2, 2)))
                width = channels
            dropped = [stochastic_depth_prob * (done + each) / (total - 1.0) for each in range(count)]
            layers.append(nn.Sequential(*(CNBlock(channels, layer_scale, each, norm) for each in dropped)))
            done += count
        self.features: nn.Module = nn.Sequential(*layers)
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d(1)
        self.classifier: nn.Module = nn.Sequential(norm2d(width), nn.Flatten(1), nn.Linear(width, num_classes))
        initialize(self, truncated, truncated)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))  # type: ignore[no-any-return]


class EncoderBlock(nn.Module):
    """Self-attention and two linear layers, each after a norm and around a residual connection."""

    def __init__(
        self, heads: int, hidden_dim: int, mlp_dim: int, dropout: float, attention_dropout: float, norm_layer: Norm
    ) -> None:
        super().__init__()
        self.num_heads: int = heads
        self.ln_1: nn.Module = norm_layer(hidden_dim)
        self.self_attention: nn.Module = nn.MultiheadAttention(
            hidden_dim, heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout: nn.Module = nn.Dropout(dropout)
        self.ln_2: nn.Module = norm_layer(hidden_dim)
        self.mlp: nn.Module = nn.Sequential(
            *(nn.Linear(hidden_dim, mlp_dim), nn.GELU(), nn.Dropout(dropout)),
            *(nn.Linear(mlp_dim, hidden_dim), nn.Dropout(dropout)),
        )
        for layer in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        y = self.dropout(self.self_attention(y, y, y, need_weights=False)[0]) + x
        return y + self.mlp(self.ln_2(y))  # type: ignore[no-any-return]


class _Encoder(nn.Module):
    def __init__(self, length: int, layers: int, width: int, dropout: float, norm: Norm, made: Any) -> None:
        super().__init__()
        self.pos_embedding: ag.Parameter = ag.Parameter(Tensor.zeros((1, length, width), "float32"))
        nn.init.normal_(self.pos_embedding, std=0.02)
        self.dropout: nn.Module = nn.Dropout(dropout)
        self.layers: nn.Module = nn.Sequential(OrderedDict((f"encoder_layer_{at}", made()) for at in range(layers)))
        self.ln: nn.Module = norm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))  # type: ignore[no-any-return]


class VisionTransformer(nn.Module):
    """Patches as tokens of a transformer (Dosovitskiy et al. 2021): (N, 3, S, S) gives (N, num_classes)."""

    def __init__(
        self,
        image_size: int = 224,
        patch_size: int = 16,
        num_layers: int = 12,
        num_heads: int = 12,
        hidden_dim: int = 768,
        mlp_dim: int = 3072,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"VisionTransformer: patches of {patch_size} do not fill an image of {image_size}")
        self.image_size: int = image_size
        self.patch_size: int = patch_size
        self.hidden_dim: int = hidden_dim
        self.conv_proj: nn.Module = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        length = (image_size // patch_size) ** 2 + 1
        self.class_token: ag.Parameter = ag.Parameter(Tensor.zeros((1, 1, hidden_dim), "float32"))
        made = partial(EncoderBlock, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.encoder: nn.Module = _Encoder(length, num_layers, hidden_dim, dropout, norm_layer, made)
        self.seq_length: int = length
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"], heads["act"] = nn.Linear(hidden_dim, representation_size), nn.Tanh()
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads: nn.Module = nn.Sequential(heads)
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * patch_size**2)))
        nn.init.zeros_(self.conv_proj.bias)
        if representation_size is not None:
            nn.init.trunc_normal_(heads["pre_logits"].weight, std=math.sqrt(1 / hidden_dim))
            nn.init.zeros_(heads["pre_logits"].bias)
        nn.init.zeros_(heads["head"].weight)
        nn.init.zeros_(heads["head"].bias)

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[2:]) != (self.image_size, self.image_size):
            raise ValueError(f"expected images of {self.image_size} x {self.image_size}, got {tuple(x.shape[2:])}")
        tokens = self.conv_proj(x).flatten(2).permute(0, 2, 1)
        first = ag.expand(self.class_token, (x.shape[0], -1, -1))
        return self.heads(self.encoder(ag.cat([first, tokens], 1))[:, 0])  # type: ignore[no-any-return]


# Depth, w_0, w_a, w_m and the channels of a group.
_REGNETS: dict[str, tuple[Any, ...]] = {
    "y_400mf": (16, 48, 27.89, 2.09, 8),
    "y_800mf": (14, 56, 38.84, 2.4, 16),
    "y_1_6gf": (27, 48, 20.71, 2.65, 24),
    "y_3_2gf": (21, 80, 42.63, 2.66, 24),
    "y_8gf": (17, 192, 76.82, 2.19, 56),
    "y_16gf": (18, 200, 106.23, 2.48, 112),
    "y_32gf": (20, 232, 115.89, 2.53, 232),
    "y_128gf": (27, 456, 160.83, 2.52, 264),
    "x_400mf": (22, 24, 24.48, 2.54, 16),
    "x_800mf": (16, 56, 35.73, 2.28, 16),
    "x_1_6gf": (18, 80, 34.01, 2.25, 24),
    "x_3_2gf": (25, 88, 26.31, 2.25, 48),
    "x_8gf": (23, 80, 49.56, 2.88, 120),
    "x_16gf": (22, 216, 55.59, 2.1, 128),
    "x_32gf": (23, 320, 69.86, 2.0, 168),
}
_WIDTHS = {"tiny": (96, 9, 0.1), "small": (96, 27, 0.4), "base": (128, 27, 0.5), "large": (192, 27, 0.5)}
_VITS = {
    "vit_b_16": (16, 12, 12, 768, 3072),
    "vit_b_32": (32, 12, 12, 768, 3072),
    "vit_l_16": (16, 24, 16, 1024, 4096),
    "vit_l_32": (32, 24, 16, 1024, 4096),
    "vit_h_14": (14, 32, 16, 1280, 5120),
}
_VIT_FIELDS = ("patch_size", "num_layers", "num_heads", "hidden_dim", "mlp_dim")
globals().update(
    builders(
        RegNet,
        "RegNet",
        {
            f"regnet_{name}": {
                "parameters": row,
                "se_ratio": 0.25 if name[0] == "y" else 0.0,
                "norm_layer": partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1),
            }
            for name, row in _REGNETS.items()
        },
    )
    | builders(
        ConvNeXt,
        "ConvNeXt",
        {
            f"convnext_{name}": {
                "block_setting": [(width, 3), (2 * width, 3), (4 * width, count), (8 * width, 3)],
                "stochastic_depth_prob": dropped,
            }
            for name, (width, count, dropped) in _WIDTHS.items()
        },
    )
    | builders(
        VisionTransformer, "VisionTransformer", {name: dict(zip(_VIT_FIELDS, row)) for name, row in _VITS.items()}
    )
)
