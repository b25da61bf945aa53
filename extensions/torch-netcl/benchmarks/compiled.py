"""The time of a training step under ``torch.compile(backend="netcl")``, by turns with inductor and eager PyTorch.

    NETCL_DEVICE=intel python benchmarks/compiled.py --backend netcl --backend inductor --backend eager vit gpt resnet

Tensors are on the CPU. It prints the median of each backend's steps in milliseconds, and netcl's speed as a multiple of
each other backend's. With ``--cpu-time`` the time is that of all threads of the process, for a machine that others use:
set OMP_WAIT_POLICY=passive then, so that threads of PyTorch do not spin.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

F = nn.functional


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.one, self.two, self.heads, self.causal = nn.LayerNorm(width), nn.LayerNorm(width), heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.one(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.two(x))))


class Transformer(nn.Module):
    """A GPT of tokens, or a ViT of patches of images, with a label for each row of its result."""

    def __init__(self, depth: int, width: int, heads: int, tokens: int = 0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width) if tokens else nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(torch.randn(256, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, bool(tokens)) for _ in range(depth)], nn.LayerNorm(width))
        self.head, self.is_text = nn.Linear(width, tokens or 100), bool(tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) if self.is_text else self.tokens(x).flatten(2).transpose(1, 2)
        x = self.blocks(x + self.places[: x.shape[1]])
        return self.head(x.flatten(0, 1) if self.is_text else x.mean(1))


class Residual(nn.Module):
    """A basic block of a ResNet."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip
        same = stride == 1 and before == width
        short = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.short = nn.Identity() if same else short

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.main(x) + self.short(x))


def resnet18() -> nn.Module:
    """Returns a ResNet-18 for 100 classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    before = 64
    for width in (64, 128, 256, 512):
        layers += [Residual(before, width, 1 if width == 64 else 2), Residual(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))


def images(size: int, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, size, size), torch.randint(0, 100, (batch,))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, torch.Tensor]]]] = {
    "resnet": (resnet18, lambda: images(64, 8)),
    "vit": (lambda: Transformer(12, 192, 3), lambda: images(224, 2)),
    "gpt": (
        lambda: Transformer(6, 384, 6, tokens=512),
        lambda: (torch.randint(0, 512, (2, 128)), torch.randint(0, 512, (256,))),
    ),
}


def step_of(model: nn.Module, batch: Any, backend: str) -> Callable[[], float]:
    """Returns a training step, forward and backward, without an optimizer."""
    model = copy.deepcopy(model)
    compiled = model if backend == "eager" else torch.compile(model, backend=backend)
    x, y = batch

    def step() -> float:
        model.zero_grad(set_to_none=True)
        loss = F.cross_entropy(compiled(x), y)
        loss.backward()
        return float(loss.item())

    return step


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--backend", action="append", help="netcl, inductor or eager; all of them by default")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    backends = options.backend or ["netcl", "inductor", "eager"]
    print("device", torch.ocl.device_name(), "threads", torch.get_num_threads(), flush=True)
    for name in options.models:
        torch.manual_seed(0)
        model, batch = (make() for make in MODELS[name])
        torch._dynamo.reset()
        steps = {backend: step_of(model, batch, backend) for backend in backends}
        losses = {backend: [step() for _ in range(3)][0] for backend, step in steps.items()}
        times: dict[str, list[float]] = {backend: [] for backend in backends}
        for _ in range(options.turns):
            for backend, step in steps.items():
                begun = clock()
                step()
                times[backend].append(1e3 * (clock() - begun))
        medians = {backend: statistics.median(values) for backend, values in times.items()}
        text = ", ".join(f"{backend} {value:.1f} ms" for backend, value in medians.items())
        ratios = ", ".join(f"{medians[b] / medians['netcl']:.2f} of {b}" for b in backends if b != "netcl")
        far = max(abs(value - losses["netcl"]) for value in losses.values())
        print(f"{name}: {text}; netcl's speed {ratios}; losses differ by {far:.1e}", flush=True)


if __name__ == "__main__":
    main()
