"""Graphs that PyTorch exports compute the same here, with the same gradients; graphs from here run in onnxruntime."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from netcl import nn
from netcl.core import Tensor
from netcl.io import export_onnx, import_onnx
from netcl.nn.resnet import resnet18
from netcl.ops import manual_seed


class Mobile(torch.nn.Module):
    """Strided, depthwise and pointwise convolutions, squeeze and excitation, channels shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 6, 3, 2, 1, bias=False)
        self.bn = torch.nn.BatchNorm2d(6)
        self.depthwise = torch.nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.squeeze, self.excite = torch.nn.Conv2d(6, 3, 1), torch.nn.Conv2d(3, 6, 1)
        self.pool = torch.nn.MaxPool2d(3, 2, 1)
        self.head = torch.nn.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        x = F.hardswish(self.depthwise(F.relu6(self.bn(self.conv(x)))))
        x = self.pool(x * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1))))))
        halves = torch.stack(x.chunk(2, 1), 2).transpose(1, 2)
        return self.head(F.dropout(halves.reshape(x.shape[0], 6, *x.shape[2:]).mean((2, 3)), 0.2, self.training))


class Language(torch.nn.Module):
    """Embedding, a causal encoder layer, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.place = torch.nn.Embedding(11, 8), torch.nn.Parameter(torch.randn(1, 6, 8))
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.head = torch.nn.Linear(8, 11)

    def forward(self, x: Any) -> Any:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
        return self.head(self.layer(self.embedding(x) + self.place, mask))


class Attention(torch.nn.Module):
    """Attention as vision transformers write it out."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).reshape(x.shape[0], x.shape[1], 3, 2, 4).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape))


def decoder() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.ConvTranspose2d(3, 4, 4, 2, 1),
        torch.nn.Upsample(scale_factor=2),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.InstanceNorm2d(4, affine=True),
        torch.nn.GroupNorm(2, 4),
        torch.nn.PReLU(),
        torch.nn.ReflectionPad2d(1),
        torch.nn.AvgPool2d(2),
    )


MODELS: dict[str, Any] = {
    "mobile": (Mobile, lambda: torch.randn(2, 3, 16, 16)),
    "language": (Language, lambda: torch.randint(0, 11, (2, 6))),
    "attention": (Attention, lambda: torch.randn(2, 5, 8)),
    "decoder": (decoder, lambda: torch.randn(2, 3, 4, 4)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_what_pytorch_exports_can_be_trained_on(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, sample = MODELS[name]
    model, x = make().eval(), sample()
    for parameter in model.parameters():  # equal ones would be written once
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    path = tmp_path / "m.onnx"
    torch.onnx.export(model, (x,), str(path), opset_version=17, dynamo=False, dynamic_axes={"x": {0: "n"}},
                      input_names=["x"])  # fmt: skip
    found = import_onnx(path)
    for given in (x, torch.cat([x, x[:1]])):
        expected = model(given).detach().numpy()
        np.testing.assert_allclose(found(given.numpy()).to_host(), expected, rtol=1e-4, atol=1e-5)
    y, z = model(x), found(x.numpy())
    y.square().mean().backward()
    (z * z).mean().backward()
    own = dict(found.named_parameters())
    theirs = {key: p.grad for key, p in model.named_parameters() if key in own}
    assert len(theirs) >= 2
    for key, grad in theirs.items():
        np.testing.assert_allclose(own[key].grad.to_host(), grad.numpy(), rtol=1e-3, atol=1e-5, err_msg=key)


EXPORTED: dict[str, Any] = {
    "resnet18": (lambda: resnet18(num_classes=10, stem="cifar"), (2, 3, 16, 16)),
    "vision transformer": (lambda: nn.VisionTransformer(depth=2), (2, 3, 32, 32)),
    "gpt": (lambda: nn.GPT(11, block_size=8, n_layer=2, n_head=2, n_embd=8), (2, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 6, 8)),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_what_is_exported_runs_in_onnxruntime(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs the optional package onnxruntime")
    manual_seed(0)
    make, shape = EXPORTED[name]
    model, rng, path = make(), np.random.default_rng(0), tmp_path / "m.onnx"

    def sample(batch: int) -> np.ndarray:
        sizes = (batch, *shape[1:])
        return rng.integers(0, 11, sizes) if name == "gpt" else rng.standard_normal(sizes).astype(np.float32)

    export_onnx(model, sample(2), path)
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch in (2, 5, 1):
        x = sample(batch)
        expected = model(Tensor.from_host(x)).to_host()
        np.testing.assert_allclose(session.run(None, {"input": x})[0], expected, rtol=2e-4, atol=2e-5)
