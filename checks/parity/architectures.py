"""Image models of the well-known kinds, small, in one text that runs under PyTorch and under netcl.torch.

``models(torch)`` returns them by name, each a function that makes the model. Widths and depths are of no published
model; the parts are: residual blocks, depthwise and grouped convolutions, layer scale, squeeze and excitation, inverted
residuals, class tokens, shifted windows with relative positions, token mixing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["models"]


def models(torch: Any) -> dict[str, Callable[[], Any]]:
    """Returns the models by name, made of the layers of ``torch``; they take images (N, 3, 32, 32), give (N, 10)."""
    nn, functional = torch.nn, torch.nn.functional

    class ConvNormAct(nn.Sequential):
        def __init__(self, width, out, kernel=3, stride=1, groups=1, act=nn.ReLU):
            conv = nn.Conv2d(width, out, kernel, stride, kernel // 2, groups=groups, bias=False)
            super().__init__(conv, nn.BatchNorm2d(out), act() if act is not None else nn.Identity())

    class Classifier(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(width, 10)

        def forward(self, x):
            return self.fc(torch.flatten(self.pool(x), 1))

    # -- residual networks

    class Bottleneck(nn.Module):
        def __init__(self, width, out, stride=1, groups=1, middle=None, excited=False):
            super().__init__()
            middle = middle or out // 4
            self.body = nn.Sequential(
                ConvNormAct(width, middle, 1),
                ConvNormAct(middle, middle, 3, stride, groups),
                SqueezeExcite(middle, middle // 4) if excited else nn.Identity(),
                ConvNormAct(middle, out, 1, act=None),
            )
            self.shortcut = None
            if stride != 1 or width != out:
                self.shortcut = ConvNormAct(width, out, 1, stride, act=None)

        def forward(self, x):
            y = self.body(x)
            y += x if self.shortcut is None else self.shortcut(x)
            return functional.relu(y, inplace=True)

    class SqueezeExcite(nn.Module):
        def __init__(self, width, inner, gate=nn.Sigmoid):
            super().__init__()
            self.reduce = nn.Conv2d(width, inner, 1)
            self.expand = nn.Conv2d(inner, width, 1)
            self.gate = gate()

        def forward(self, x):
            s = x.mean((2, 3), keepdim=True)
            return x * self.gate(self.expand(functional.relu(self.reduce(s))))

    def resnet():
        stem = nn.Sequential(ConvNormAct(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1))
        stages = [Bottleneck(16, 32), Bottleneck(32, 32), Bottleneck(32, 64, 2), Bottleneck(64, 64)]
        model = nn.Sequential(stem, *stages, Classifier(64))
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        return model

    def regnet():
        stages = [
            Bottleneck(16, 24, 2, 3, 24, True),
            Bottleneck(24, 48, 2, 6, 48, True),
            Bottleneck(48, 48, 1, 6, 48, True),
        ]
        return nn.Sequential(ConvNormAct(3, 16, 3, 2), *stages, Classifier(48))

    # -- inverted residuals

    class InvertedResidual(nn.Module):
        def __init__(self, width, out, expand, kernel, stride, act, gate=None):
            super().__init__()
            inner = width * expand
            parts = [ConvNormAct(width, inner, 1, act=act)] if expand != 1 else []
            parts.append(ConvNormAct(inner, inner, kernel, stride, inner, act))
            if gate is not None:
                parts.append(SqueezeExcite(inner, max(4, inner // 4), gate))
            parts.append(ConvNormAct(inner, out, 1, act=None))
            self.body = nn.Sequential(*parts)
            self.skips = stride == 1 and width == out

        def forward(self, x):
            return x + self.body(x) if self.skips else self.body(x)

    def mobilenet_v3():
        blocks = [
            InvertedResidual(16, 16, 1, 3, 2, nn.ReLU, nn.Hardsigmoid),
            InvertedResidual(16, 24, 4, 3, 2, nn.ReLU),
            InvertedResidual(24, 24, 3, 5, 1, nn.Hardswish, nn.Hardsigmoid),
            InvertedResidual(24, 40, 4, 5, 1, nn.Hardswish, nn.Hardsigmoid),
        ]
        head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(80, 64, 1), nn.Hardswish(), nn.Flatten(1), nn.Linear(64, 10)
        )
        stem, last = ConvNormAct(3, 16, 3, 2, act=nn.Hardswish), ConvNormAct(40, 80, 1, act=nn.Hardswish)
        return nn.Sequential(stem, *blocks, last, head)

    def efficientnet():
        blocks = [
            InvertedResidual(16, 16, 1, 3, 1, nn.SiLU, nn.Sigmoid),
            InvertedResidual(16, 24, 6, 3, 2, nn.SiLU, nn.Sigmoid),
            InvertedResidual(24, 24, 6, 5, 1, nn.SiLU, nn.Sigmoid),
        ]
        stem, last = ConvNormAct(3, 16, 3, 2, act=nn.SiLU), ConvNormAct(24, 64, 1, act=nn.SiLU)
        return nn.Sequential(stem, *blocks, last, Classifier(64))

    # -- convolutions with the manners of transformers

    class LayerNorm2d(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class ConvNeXtBlock(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.gamma = nn.Parameter(1e-1 * torch.ones(width))

        def forward(self, x):
            y = self.dwconv(x).permute(0, 2, 3, 1)
            return x + (self.gamma * self.mlp(self.norm(y))).permute(0, 3, 1, 2)

    def convnext():
        down = nn.Sequential(LayerNorm2d(24, eps=1e-6), nn.Conv2d(24, 48, 2, 2))
        stem = nn.Sequential(nn.Conv2d(3, 24, 4, 4), LayerNorm2d(24, eps=1e-6))
        return nn.Sequential(stem, ConvNeXtBlock(24), down, ConvNeXtBlock(48), ConvNeXtBlock(48), Classifier(48))

    # -- transformers

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(width, 3 * width)
            self.proj = nn.Linear(width, width)

        def forward(self, x, bias=None):
            n, length, width = x.shape
            q, k, v = (
                self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            )
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            return self.proj(y.transpose(1, 2).reshape(n, length, width))

    def mlp(width, inner, out=None):
        return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, out or width))

    class EncoderBlock(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn, self.mlp = Attention(width, heads), mlp(width, 4 * width)

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class VisionTransformer(nn.Module):
        def __init__(self, width=48, heads=4, depth=3, patch=8):
            super().__init__()
            self.patch_embed = nn.Conv2d(3, width, patch, patch)
            self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
            self.pos_embed = nn.Parameter(torch.empty(1, (32 // patch) ** 2 + 1, width))
            nn.init.trunc_normal_(self.pos_embed, std=0.02)
            self.blocks = nn.ModuleList([EncoderBlock(width, heads) for _ in range(depth)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x):
            x = self.patch_embed(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)[:, 0])

    class WindowBlock(nn.Module):
        """Attention within windows of 4 x 4, every second time of an image rolled by half a window."""

        def __init__(self, width, heads, side, shift):
            super().__init__()
            self.side, self.shift, self.window = side, shift, 4
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn, self.mlp = Attention(width, heads), mlp(width, 2 * width)
            self.table = nn.Parameter(torch.empty((2 * self.window - 1) ** 2, heads))
            nn.init.trunc_normal_(self.table, std=0.5)
            at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
            apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + self.window - 1
            self.register_buffer("index", apart[..., 0] * (2 * self.window - 1) + apart[..., 1])
            regions = torch.zeros(1, side, side, 1)
            if shift:
                cuts = (slice(0, -self.window), slice(-self.window, -shift), slice(-shift, None))
                for number, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
                    regions[:, rows, columns] = number
            parts = self.cut(regions).squeeze(-1)
            mask = (
                (parts.unsqueeze(1) - parts.unsqueeze(2))
                .ne(0)
                .float()
                .masked_fill_((parts.unsqueeze(1) - parts.unsqueeze(2)).ne(0), -100.0)
            )
            self.register_buffer("mask", mask, persistent=False)

        def cut(self, x):
            n, side, _, width = x.shape
            x = x.view(n, side // 4, 4, side // 4, 4, width).permute(0, 1, 3, 2, 4, 5)
            return x.reshape(-1, 16, width)

        def forward(self, x):
            n, length, width = x.shape
            y = self.norm1(x).view(n, self.side, self.side, width)
            y = self.cut(torch.roll(y, (-self.shift, -self.shift), dims=(1, 2)))
            bias = self.table[self.index.view(-1)].view(16, 16, -1).permute(2, 0, 1)
            bias = bias.unsqueeze(0) + self.mask.repeat(n, 1, 1).unsqueeze(1)
            y = self.attn(y, bias).view(n, self.side // 4, self.side // 4, 4, 4, width)
            y = y.permute(0, 1, 3, 2, 4, 5).reshape(n, self.side, self.side, width)
            x = x + torch.roll(y, (self.shift, self.shift), dims=(1, 2)).reshape(n, length, width)
            return x + self.mlp(self.norm2(x))

    class PatchMerging(nn.Module):
        def __init__(self, width, side):
            super().__init__()
            self.side = side
            self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

        def forward(self, x):
            n, _, width = x.shape
            x = x.view(n, self.side, self.side, width)
            corners = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
            return self.reduction(self.norm(torch.cat(corners, -1).view(n, -1, 4 * width)))

    class Swin(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(3, 24, 2, 2)
            self.stages = nn.Sequential(
                WindowBlock(24, 2, 16, 0), WindowBlock(24, 2, 16, 2), PatchMerging(24, 16), WindowBlock(48, 4, 8, 2)
            )
            self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

        def forward(self, x):
            x = self.stages(self.embed(x).flatten(2).transpose(1, 2))
            return self.head(self.norm(x).mean(1))

    class MixerBlock(nn.Module):
        def __init__(self, tokens, width):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.tokens, self.channels = mlp(tokens, 2 * tokens), mlp(width, 3 * width)

        def forward(self, x):
            x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 40, 8, 8)
            self.blocks = nn.Sequential(*[MixerBlock(16, 40) for _ in range(3)])
            self.norm, self.head = nn.LayerNorm(40), nn.Linear(40, 10)

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.stem(x).flatten(2).mT)).mean(dim=1))

    return {
        "ResNet": resnet,
        "RegNet": regnet,
        "MobileNetV3": mobilenet_v3,
        "EfficientNet": efficientnet,
        "ConvNeXt": convnext,
        "ViT": VisionTransformer,
        "Swin": Swin,
        "MLP-Mixer": Mixer,
    }
