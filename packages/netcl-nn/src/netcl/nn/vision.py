"""Models for images: a small VGG and a vision transformer."""

from __future__ import annotations

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import init
from netcl.nn.activation import ReLU
from netcl.nn.attention import MultiheadAttention
from netcl.nn.container import Sequential
from netcl.nn.conv import Conv2d
from netcl.nn.dropout import Dropout
from netcl.nn.linear import Flatten, Linear
from netcl.nn.module import Module
from netcl.nn.norm import BatchNorm2d, LayerNorm
from netcl.nn.placement import new_parameter
from netcl.nn.pool import AdaptiveAvgPool2d, MaxPool2d
from netcl.nn.registry import register
from netcl.nn.transformer import TransformerEncoder, TransformerEncoderLayer


@register
class SmallVGG(Module):
    """Three stages of two 3x3 convolutions, with 32, 64 and 128 channels, each followed by a pool (after Simonyan and
    Zisserman 2014): (N, 3, H, W), H and W at least 8, gives (N, num_classes).
    """

    def __init__(self, num_classes: int = 10, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_classes, self.dropout = num_classes, dropout
        layers: list[Module] = []
        before = 3
        for channels in (32, 64, 128):
            for inputs in (before, channels):
                layers += [Conv2d(inputs, channels, 3, padding=1, bias=False), BatchNorm2d(channels), ReLU()]
            layers.append(MaxPool2d(2))
            before = channels
        self.features = Sequential(*layers)
        self.avgpool = AdaptiveAvgPool2d(4)
        self.classifier = Sequential(
            Flatten(), Linear(before * 16, 256), ReLU(), Dropout(dropout), Linear(256, num_classes)
        )
        for module in self.features:
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))  # type: ignore[no-any-return]


@register
class VisionTransformer(Module):
    """Patches as tokens after a class token, learned positions, ``depth`` pre-norm encoder layers, and a linear layer
    on the class token (Dosovitskiy et al. 2020): (N, 3, image_size, image_size) gives (N, num_classes).
    """

    def __init__(
        self,
        image_size: int = 32,
        patch_size: int = 4,
        num_classes: int = 10,
        dim: int = 192,
        depth: int = 6,
        heads: int = 3,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"patch_size={patch_size} does not divide image_size={image_size}")
        self.image_size, self.patch_size, self.num_classes, self.dim = image_size, patch_size, num_classes, dim
        self.depth, self.heads, self.mlp_ratio, self.dropout = depth, heads, mlp_ratio, dropout
        self.patch_embed = Conv2d(3, dim, patch_size, patch_size)
        self.cls_token = init.zeros_(new_parameter((1, 1, dim)))
        self.pos_embed = init.trunc_normal_(new_parameter((1, (image_size // patch_size) ** 2 + 1, dim)), std=0.02)
        layer = TransformerEncoderLayer(
            dim, heads, int(dim * mlp_ratio), dropout, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = TransformerEncoder(layer, depth, LayerNorm(dim))
        self.head = Linear(dim, num_classes)
        for name, module in self.named_modules():
            if isinstance(module, Linear) and name != "head":
                # Copies of one layer would have equal initial values.
                init.xavier_uniform_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, MultiheadAttention):
                module.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1:] != (3, self.image_size, self.image_size):
            raise ShapeError(
                f"VisionTransformer: expected x (N, 3, {self.image_size}, {self.image_size}), got {x.shape}",
                op="VisionTransformer",
            )
        n = x.shape[0]
        tokens = ag.transpose(ag.reshape(self.patch_embed(x), (n, self.dim, -1)), 1, 2)
        tokens = ag.cat([ag.expand(self.cls_token, (n, 1, self.dim)), tokens], axis=1)
        y = self.encoder(ag.add(tokens, self.pos_embed))
        return self.head(ag.squeeze(ag.narrow(y, 1, 0, 1), 1))
