"""Recurrent nets, attention, transformers and whole models against PyTorch with copied weights: outputs, gradients,
state after three steps; run by `nox -s parity`.
"""

from __future__ import annotations

import copy
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor, config

Array = np.ndarray[Any, Any]


@pytest.fixture
def rng() -> np.random.Generator:
    torch.manual_seed(5)
    return np.random.default_rng(5)


def close(ours: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    ours, theirs = ours.to_host(), theirs.detach().numpy()
    assert ours.shape == theirs.shape
    scale = max(1.0, float(np.abs(theirs).max(initial=0)))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=0.2 * tolerance * scale)


def flat(result: Any) -> list[Any]:
    """The tensors of nested tuples, without what is None."""
    if isinstance(result, (tuple, list)):
        return [each for part in result for each in flat(part)]
    return [] if result is None else [result]


def copy_weights(ours: nn.Module, theirs: Any) -> None:
    state = {name: value.numpy().copy() for name, value in theirs.state_dict().items()}
    assert {name: tuple(t.shape) for name, t in ours.state_dict().items()} == {n: v.shape for n, v in state.items()}
    ours.load_state_dict(state)


def compare(
    ours: nn.Module,
    theirs: Any,
    inputs: Callable[[], Sequence[Array]],
    options: dict[str, Any] | None = None,
    rng: Any = None,
    steps: int = 3,
    tolerance: float = 1e-4,
) -> None:
    """Three steps of gradient descent on copied weights: outputs, gradients of floating inputs and of all parameters,
    the state afterwards, and the outputs in evaluation mode.
    """
    copy_weights(ours, theirs)
    mine, other = {}, {}
    for name, value in (options or {}).items():
        array = isinstance(value, np.ndarray)
        mine[name], other[name] = (Tensor.from_host(value), torch.tensor(value)) if array else (value, value)
    for _ in range(steps):
        data = [np.asarray(array) for array in inputs()]
        real = [array.dtype == np.float32 for array in data]
        xs: list[Any] = [ag.Parameter(Tensor.from_host(a)) if r else Tensor.from_host(a) for a, r in zip(data, real)]
        ys = [torch.tensor(array, requires_grad=r) for array, r in zip(data, real)]
        out, expected = flat(ours(*xs, **mine)), flat(theirs(*ys, **other))
        assert len(out) == len(expected)
        weights = [rng.standard_normal(y.shape).astype(np.float32) / 8 for y in expected]
        for x, y in zip(out, expected):
            close(x, y, tolerance)
        total = ag.sum(ag.mul(out[0], Tensor.from_host(weights[0])))
        for x, weight in zip(out[1:], weights[1:]):
            total = ag.add(total, ag.sum(ag.mul(x, Tensor.from_host(weight))))
        total.backward()
        sum((y * torch.tensor(weight)).sum() for y, weight in zip(expected, weights)).backward()
        for x, y, r in zip(xs, ys, real):
            if r:
                close(x.grad, y.grad, tolerance)
        for (name, one), (_, two) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
            assert one.grad is not None, name
            close(one.grad, two.grad, tolerance)
            one.write(one.to_host() - 0.1 * one.grad.to_host())
            with torch.no_grad():
                two -= 0.1 * two.grad
            one.grad = two.grad = None
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name], value, tolerance)
    data = [np.asarray(array) for array in inputs()]
    out = flat(ours.eval()(*map(Tensor.from_host, data), **mine))
    with torch.no_grad():
        expected = flat(theirs.eval()(*map(torch.tensor, data), **other))
    for x, y in zip(out, expected, strict=True):
        close(x, y, tolerance)


def normal(rng: np.random.Generator, *shapes: tuple[int, ...]) -> Callable[[], list[Array]]:
    return lambda: [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


# -- recurrent ---------------------------------------------------------------------------------------------------------

RECURRENT: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("RNN", {}, (5, 3, 4)),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2, "bias": False}, (5, 3, 4)),
    ("LSTM", {}, (5, 4)),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, (5, 3, 4)),
    ("LSTM", {"batch_first": True, "bias": False}, (3, 1, 4)),
    ("LSTM", {"proj_size": 2}, (5, 4)),
    ("LSTM", {"proj_size": 3, "num_layers": 2, "bidirectional": True}, (5, 3, 4)),
    ("LSTM", {"proj_size": 5, "batch_first": True, "bias": False}, (3, 1, 4)),
    ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}, (3, 5, 4)),
    ("GRU", {"bias": False}, (4, 1, 4)),
]


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")  # of PyTorch itself
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("at", range(len(RECURRENT)), ids=lambda at: f"{RECURRENT[at][0]}-{at}")
def test_recurrent(at: int, given: bool, rng: np.random.Generator) -> None:
    name, options, shape = RECURRENT[at]
    ours, theirs = getattr(nn, name)(4, 6, **options), getattr(torch.nn, name)(4, 6, **options)
    assert repr(ours) == repr(theirs)
    batch = () if len(shape) == 2 else (shape[0 if options.get("batch_first") else 1],)
    states = (options.get("num_layers", 1) * (1 + options.get("bidirectional", False)), *batch, 6)
    if not given:
        compare(ours, theirs, normal(rng, shape), rng=rng)
    elif name == "LSTM":
        widths = (options.get("proj_size", 6), 6)
        hx = tuple(rng.standard_normal((*states[:-1], width)).astype(np.float32) for width in widths)
        data = rng.standard_normal(shape).astype(np.float32)
        copy_weights(ours, theirs)
        out = flat(ours(Tensor.from_host(data), tuple(map(Tensor.from_host, hx))))
        for x, y in zip(out, flat(theirs(torch.tensor(data), tuple(map(torch.tensor, hx)))), strict=True):
            close(x, y)
    else:
        compare(ours, theirs, normal(rng, shape, states), rng=rng)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "rank"), [("RNNCell", 2), ("LSTMCell", 2), ("GRUCell", 2), ("GRUCell", 1)])
def test_cells(name: str, rank: int, bias: bool, rng: np.random.Generator) -> None:
    ours, theirs = getattr(nn, name)(4, 6, bias=bias), getattr(torch.nn, name)(4, 6, bias=bias)
    assert repr(ours) == repr(theirs)
    shape: tuple[int, ...] = (3, 4)[2 - rank :]
    compare(ours, theirs, normal(rng, shape), rng=rng)


def test_dropout_between_layers(rng: np.random.Generator) -> None:
    net, x = nn.GRU(4, 6, num_layers=2, dropout=0.5), Tensor.from_host(normal(rng, (5, 3, 4))()[0])
    assert (net(x)[0].to_host() != net(x)[0].to_host()).any()
    net.eval()
    assert (net(x)[0].to_host() == net(x)[0].to_host()).all()


# -- attention ---------------------------------------------------------------------------------------------------------


def masks(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Masks for 5 queries, 5 keys, 3 samples and 2 heads; every query sees a key."""
    hidden = rng.random((5, 5)) > 0.6
    hidden[:, 0] = False
    padding = np.zeros((3, 5), bool)
    padding[1, 3:] = padding[2, 4:] = True
    added = rng.standard_normal((6, 5, 5)).astype(np.float32)
    return {
        "none": {},
        "bool": {"attn_mask": hidden},
        "padding": {"key_padding_mask": padding},
        "both": {"attn_mask": hidden, "key_padding_mask": padding},
        "each head": {"attn_mask": added, "average_attn_weights": False},
        "floating both": {
            "attn_mask": added[0],
            "key_padding_mask": np.where(padding, -np.inf, 0).astype(np.float32),
            "need_weights": False,
        },
    }


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("mask", masks(np.random.default_rng(0)))
def test_attention(mask: str, batch_first: bool, rng: np.random.Generator) -> None:
    options = {"bias": not batch_first, "batch_first": batch_first}
    ours, theirs = nn.MultiheadAttention(8, 2, **options), torch.nn.MultiheadAttention(8, 2, **options)
    shape = (3, 5, 8) if batch_first else (5, 3, 8)
    compare(ours, theirs, normal(rng, shape, shape, shape), masks(rng)[mask], rng)


def test_self_attention(rng: np.random.Generator) -> None:
    """One tensor as query, key and value takes one product; also without a batch, and with causal masks."""
    ours, theirs = nn.MultiheadAttention(8, 2), torch.nn.MultiheadAttention(8, 2)
    copy_weights(ours, theirs)
    for shape in ((5, 3, 8), (5, 8)):
        (data,) = normal(rng, shape)()
        x, y = ag.Parameter(Tensor.from_host(data)), torch.tensor(data, requires_grad=True)
        for need in (True, False):
            hidden = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
            options = {"is_causal": True, "need_weights": need}
            out = ours(x, x, x, attn_mask=Tensor.from_host(hidden.numpy()), **options)
            expected = theirs(y, y, y, attn_mask=hidden, **options)
            close(out[0], expected[0])
            ag.sum(ag.square(out[0])).backward()
            expected[0].square().sum().backward()
            close(x.grad, y.grad)
            for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
                close(one.grad, two.grad)


def test_attention_to_other_sizes(rng: np.random.Generator) -> None:
    ours = nn.MultiheadAttention(8, 4, kdim=5, vdim=6)
    theirs = torch.nn.MultiheadAttention(8, 4, kdim=5, vdim=6)
    compare(ours, theirs, normal(rng, (3, 2, 8), (7, 2, 5), (7, 2, 6)), rng=rng)


@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True, "activation": "gelu", "bias": False, "batch_first": True}]
)
def test_transformer_layers(options: dict[str, Any], rng: np.random.Generator) -> None:
    for kind, shapes in (("Encoder", [(3, 5, 8)]), ("Decoder", [(3, 5, 8), (3, 5, 8)])):
        name = f"Transformer{kind}Layer"
        ours, theirs = (getattr(library, name)(8, 2, 16, 0.0, **options) for library in (nn, torch.nn))
        compare(ours, theirs, normal(rng, *shapes), rng=rng)


def test_encoder_and_decoder(rng: np.random.Generator) -> None:
    """Two layers each, with causal and padding masks."""
    ours = nn.Transformer(8, 2, 2, 2, 16, 0.0, batch_first=True)
    theirs = torch.nn.Transformer(8, 2, 2, 2, 16, 0.0, batch_first=True)
    theirs.encoder.use_nested_tensor = theirs.encoder.enable_nested_tensor = False  # that warns of being a prototype
    padding = np.zeros((3, 4), bool)
    padding[1, 2:] = True
    causal = np.triu(np.ones((5, 5), bool), 1)
    options = {"tgt_mask": causal, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    compare(ours, theirs, normal(rng, (3, 4, 8), (3, 5, 8)), options, rng)
    np.testing.assert_array_equal(
        nn.Transformer.generate_square_subsequent_mask(4).to_host(),
        torch.nn.Transformer.generate_square_subsequent_mask(4).numpy(),
    )


def test_a_stack_of_encoder_layers(rng: np.random.Generator) -> None:
    made = []
    for library in (nn, torch.nn):
        layer = library.TransformerEncoderLayer(8, 2, 16, 0.0, norm_first=True)
        nested = {"enable_nested_tensor": False} if library is torch.nn else {}
        made.append(library.TransformerEncoder(layer, 2, library.LayerNorm(8), **nested))
    compare(made[0], made[1], normal(rng, (5, 3, 8)), rng=rng)


@pytest.mark.parametrize(
    "options",
    [
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
        {"add_bias_kv": True, "bias": False, "kdim": 3, "vdim": 5},
    ],
)
def test_attention_with_more_keys(options: dict[str, Any], rng: np.random.Generator) -> None:
    ours, theirs = nn.MultiheadAttention(8, 2, **options), torch.nn.MultiheadAttention(8, 2, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    copy_weights(ours, theirs)
    kdim, vdim = options.get("kdim", 8), options.get("vdim", 8)
    order = (lambda x: x.swapaxes(0, 1)) if options.get("batch_first") else (lambda x: x)
    inputs = [np.ascontiguousarray(order(x)) for x in normal(rng, (4, 3, 8), (5, 3, kdim), (5, 3, vdim))()]
    padding = np.zeros((3, 5), bool)
    padding[1, 3:] = True
    for keep in (True, False):
        out, seen = ours(*map(Tensor.from_host, inputs), Tensor.from_host(padding), need_weights=keep)
        expected, weights = theirs(*map(torch.tensor, inputs), torch.tensor(padding), need_weights=keep)
        close(out, expected)
        if keep:
            close(seen, weights)
    ag.sum(ag.square(out)).backward()
    expected.square().sum().backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert p.grad is not None, name
        close(p.grad, q.grad)
    mask = np.triu(np.ones((4, 5), bool), 1)
    hinted, _ = ours(*map(Tensor.from_host, inputs), attn_mask=Tensor.from_host(mask), is_causal=True)
    close(hinted, theirs(*map(torch.tensor, inputs), attn_mask=torch.tensor(mask), is_causal=True)[0])


def test_attention_as_a_function(rng: np.random.Generator) -> None:
    query, key, whole, bias, last = normal(rng, (4, 8), (5, 8), (24, 8), (24,), (8, 8))()
    static = normal(rng, (2, 6, 4), (2, 6, 4))()
    mask = rng.random((2, 4, 5)) < 0.3
    mask[..., 0] = False

    def results(of: Any, function: Any) -> list[Any]:
        q, k, w, b, o = map(of, (query, key, whole, bias, last))
        place = (q, k, k, 8, 2, w, b, None, None, False, 0.0, o, None)
        parts = [of(np.ascontiguousarray(part)) for part in np.split(whole, 3)]
        separate = dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), parts))
        return [
            *function(*place, attn_mask=of(mask), average_attn_weights=False),
            *function(*place, static_k=of(static[0]), static_v=of(static[1])),
            *function(*place[:5], None, *place[6:], use_separate_proj_weight=True, **separate),
        ]

    ours = results(Tensor.from_host, nn.functional.multi_head_attention_forward)
    theirs = results(torch.tensor, torch.nn.functional.multi_head_attention_forward)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)


# -- embeddings, weights in other coordinates, losses, pools -----------------------------------------------------------


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bag(mode: str, padding: int | None, rng: np.random.Generator) -> None:
    ids = rng.integers(0, 7, 11)
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (ids.reshape(1, 11), None, {}),
        (rng.integers(0, 7, (4, 3)), None, {}),
        (ids, np.array([0, 4, 4, 9]), {}),
        (ids, np.array([0, 2, 11]), {"include_last_offset": True}),
    ]
    for indices, offsets, options in cases:
        ours = nn.EmbeddingBag(7, 3, mode=mode, padding_idx=padding, **options)
        theirs = torch.nn.EmbeddingBag(7, 3, mode=mode, padding_idx=padding, **options)
        assert repr(ours) == repr(theirs)
        copy_weights(ours, theirs)
        given = None if offsets is None else torch.tensor(offsets)
        expected = theirs(torch.tensor(indices), given)
        for form in (lambda x: x, lambda x: None if x is None else Tensor.from_host(x)):
            out = ours(form(indices), form(offsets))
            close(out, expected)
        weight = rng.standard_normal(expected.shape).astype(np.float32)
        ag.sum(ag.mul(out, Tensor.from_host(weight))).backward()
        (expected * torch.tensor(weight)).sum().backward()
        close(ours.weight.grad, theirs.weight.grad)


def test_weighted_bags(rng: np.random.Generator) -> None:
    ids, (weights,) = rng.integers(0, 7, (4, 3)), normal(rng, (4, 3))()
    ours, theirs = nn.EmbeddingBag(7, 3, mode="sum"), torch.nn.EmbeddingBag(7, 3, mode="sum")
    copy_weights(ours, theirs)
    x, y = ag.Parameter(Tensor.from_host(weights)), torch.tensor(weights, requires_grad=True)
    out, expected = ours(ids, per_sample_weights=x), theirs(torch.tensor(ids), per_sample_weights=y)
    close(out, expected)
    ag.sum(ag.square(out)).backward()
    expected.square().sum().backward()
    close(x.grad, y.grad)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim: int | None, rng: np.random.Generator) -> None:
    ours = nn.weight_norm(nn.Conv2d(3, 4, 3), dim=dim)
    theirs = torch.nn.utils.weight_norm(torch.nn.Conv2d(3, 4, 3), dim=dim)
    compare(ours, theirs, normal(rng, (2, 3, 5, 5)), rng=rng)
    x = Tensor.from_host(normal(rng, (2, 3, 5, 5))()[0])
    before = ours(x).to_host()
    np.testing.assert_allclose(nn.remove_weight_norm(ours)(x).to_host(), before, rtol=1e-5, atol=1e-6)
    assert sorted(ours.state_dict()) == ["bias", "weight"]


@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
@pytest.mark.parametrize("name", ["Linear", "Conv2d", "ConvTranspose2d"])
def test_spectral_norm(name: str, rng: np.random.Generator) -> None:
    arguments, shape = ((6, 4), (3, 6)) if name == "Linear" else ((6, 4, 3), (2, 6, 5, 5))
    ours = nn.spectral_norm(getattr(nn, name)(*arguments), n_power_iterations=2)
    theirs = torch.nn.utils.spectral_norm(getattr(torch.nn, name)(*arguments), n_power_iterations=2)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    compare(ours, theirs, normal(rng, shape), rng=rng)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc(reduction: str, rng: np.random.Generator) -> None:
    (data,) = normal(rng, (9, 3, 5))()
    targets, sizes = rng.integers(1, 5, (3, 4)), (np.array([9, 8, 6]), np.array([4, 2, 3]))
    x, y = ag.Parameter(Tensor.from_host(data)), torch.tensor(data, requires_grad=True)
    loss = nn.CTCLoss(reduction=reduction)(ag.log_softmax(x, axis=-1), Tensor.from_host(targets), *sizes)
    log_probs = torch.nn.functional.log_softmax(y, -1)
    expected = torch.nn.CTCLoss(reduction=reduction)(log_probs, torch.tensor(targets), *map(torch.tensor, sizes))
    close(loss, expected)
    ag.sum(loss).backward()
    expected.sum().backward()
    close(x.grad, y.grad)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling(rank: int, rng: np.random.Generator) -> None:
    (data,) = normal(rng, (2, 3, *(6, 8, 4)[:rank]))()
    pools = [getattr(library, f"MaxPool{rank}d")(2, return_indices=True) for library in (nn, torch.nn)]
    back = [getattr(library, f"MaxUnpool{rank}d")(2) for library in (nn, torch.nn)]
    x, y = ag.Parameter(Tensor.from_host(data)), torch.tensor(data, requires_grad=True)
    out, expected = back[0](*pools[0](x)), back[1](*pools[1](y))
    close(out, expected)
    ag.sum(ag.square(out)).backward()
    expected.square().sum().backward()
    close(x.grad, y.grad)


@pytest.mark.parametrize("options", [{}, {"affine": True, "track_running_stats": True}, {"track_running_stats": True}])
def test_instance_norm(options: dict[str, Any], rng: np.random.Generator) -> None:
    ours, theirs = nn.InstanceNorm2d(3, 1e-4, 0.3, **options), torch.nn.InstanceNorm2d(3, 1e-4, 0.3, **options)
    compare(ours, theirs, normal(rng, (4, 3, 5, 5)), rng=rng)


def test_rms_norm(rng: np.random.Generator) -> None:
    compare(nn.RMSNorm((3, 4)), torch.nn.RMSNorm((3, 4)), normal(rng, (5, 3, 4)), rng=rng)


# -- whole models ------------------------------------------------------------------------------------------------------


class TheirBlock(torch.nn.Module):
    """A residual block with torchvision's names: two 3x3 convolutions, or 1x1, 3x3 and 1x1 around ``planes``."""

    def __init__(self, inplanes: int, planes: int, stride: int, wide: int, activation: Any) -> None:
        super().__init__()
        self.activation = activation
        sizes = [(inplanes, planes, 3, stride), (planes, planes, 3, 1)]
        if wide != planes:
            sizes = [(inplanes, planes, 1, 1), (planes, planes, 3, stride), (planes, wide, 1, 1)]
        self.count = len(sizes)
        for at, (before, after, size, step) in enumerate(sizes, 1):
            setattr(self, f"conv{at}", torch.nn.Conv2d(before, after, size, step, size // 2, bias=False))
            setattr(self, f"bn{at}", torch.nn.BatchNorm2d(after))
        self.downsample = None
        if stride != 1 or inplanes != wide:
            self.downsample = torch.nn.Sequential(
                torch.nn.Conv2d(inplanes, wide, 1, stride, bias=False), torch.nn.BatchNorm2d(wide)
            )

    def forward(self, x: Any) -> Any:
        y = x
        for at in range(1, self.count + 1):
            y = getattr(self, f"bn{at}")(getattr(self, f"conv{at}")(y))
            y = self.activation(y) if at < self.count else y
        return self.activation(y + (x if self.downsample is None else self.downsample(x)))


def their_resnet(layers: Sequence[int], expansion: int, classes: int, activation: Any) -> Any:
    stages: dict[str, Any] = {
        "conv1": torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        "bn1": torch.nn.BatchNorm2d(64),
        "relu": activation,
        "maxpool": torch.nn.MaxPool2d(3, 2, 1),
    }
    before = 64
    for at, (count, planes) in enumerate(zip(layers, (64, 128, 256, 512)), 1):
        blocks = []
        for number in range(count):
            stride = 2 if at > 1 and number == 0 else 1
            blocks.append(TheirBlock(before, planes, stride, planes * expansion, activation))
            before = planes * expansion
        stages[f"layer{at}"] = torch.nn.Sequential(*blocks)
    stages.update(pool=torch.nn.AdaptiveAvgPool2d(1), flatten=torch.nn.Flatten(), fc=torch.nn.Linear(before, classes))
    return torch.nn.Sequential(OrderedDict(stages))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize(("name", "layers", "expansion"), [("18", (2, 2, 2, 2), 1), ("50", (3, 4, 6, 3), 4)])
def test_resnets(name: str, layers: tuple[int, ...], expansion: int, smooth: bool, rng: np.random.Generator) -> None:
    """Outputs in both modes, every gradient and the running statistics, as norms of their distance from PyTorch's
    float64: at most four times that of PyTorch's float32, or 1e-5 of what is compared.

    With ReLUs gradients may be 5 % off: a rounding that turns a sum to the other side of 0 changes those of its
    channel by a jump. PyTorch's own are 0.4 to 4 % off, by the seed, ours 1 to 4 % with and without minimal filtering;
    with a smooth activation in their place, gradients stay within the bounds of all others.
    """
    ours = getattr(nn.resnet, f"resnet{name}")(5)
    theirs = their_resnet(layers, expansion, 5, torch.nn.SiLU() if smooth else torch.nn.ReLU())
    if smooth:
        for module in ours.modules():
            if hasattr(module, "relu"):
                module.relu = nn.SiLU()
    copy_weights(ours, theirs)
    exact = copy.deepcopy(theirs).double()
    data, labels = rng.standard_normal((4, 3, 64, 64)).astype(np.float32), np.array([0, 1, 2, 3])
    ag.cross_entropy(out := ours(Tensor.from_host(data)), Tensor.from_host(labels)).backward()
    results = []
    for model, kind in ((theirs, torch.float32), (exact, torch.float64)):
        y = model(torch.tensor(data, dtype=kind))
        torch.nn.functional.cross_entropy(y, torch.tensor(labels)).backward()
        results.append(y.detach().double().numpy())

    def near(one: Array, two: Array, true: Array, name: str, share: float = 1e-5) -> None:
        theirs_off, ours_off = (np.linalg.norm(x - true) for x in (two, one))
        assert ours_off <= 4 * theirs_off + share * np.linalg.norm(true) + 1e-6, (name, ours_off, theirs_off)

    near(out.to_host(), *results, "output")
    parameters = zip(ours.named_parameters(), theirs.parameters(), exact.parameters(), strict=True)
    for (label, one), two, true in parameters:
        near(one.grad.to_host(), two.grad.double().numpy(), true.grad.numpy(), label, 1e-5 if smooth else 0.05)
    states = zip(ours.state_dict().items(), theirs.state_dict().values(), exact.state_dict().values(), strict=True)
    for (label, one), two, true in states:
        near(one.to_host(), two.double().numpy(), true.double().numpy(), label)
    x = torch.tensor(data)
    with torch.no_grad():
        values = theirs.eval()(x).double().numpy(), exact.eval()(x.double()).numpy()
    near(ours.eval()(Tensor.from_host(data)).to_host(), *values, "evaluation")


@pytest.mark.parametrize(("channels", "side"), [(64, 16), (128, 8), (256, 4), (512, 2)])
def test_layers_of_a_resnet_err_like_theirs(channels: int, side: int, rng: np.random.Generator) -> None:
    """All directions of its 3 x 3 convolutions: at most twice PyTorch's distance from float64, or, by minimal
    filtering, 2e-6 of the norm.
    """
    shapes = ((4, channels, side, side), (channels, channels, 3, 3), (4, channels, side, side))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    results = []
    for kind in (torch.float32, torch.float64):
        x, weight, grad = (torch.tensor(array, dtype=kind, requires_grad=True) for array in arrays)
        y = torch.nn.functional.conv2d(x, weight, padding=1)
        y.backward(grad)
        results.append([value.detach().double().numpy() for value in (y, x.grad, weight.grad)])
    for filtering in (False, True):
        with config.override(CONV_WINOGRAD=filtering):
            x, weight, grad = (Tensor.from_host(array) for array in arrays)
            x.requires_grad = weight.requires_grad = True
            y = ag.conv2d(x, weight, padding=1)
            y.backward(grad)
        for one, two, true in zip((y, x.grad, weight.grad), *results, strict=True):
            theirs_off, ours_off = (np.linalg.norm(value - true) for value in (two, one.to_host()))
            assert ours_off <= 2 * theirs_off + (2e-6 if filtering else 1e-7) * np.linalg.norm(true)


def test_both_scripts_of_the_page_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs/how-to/port-a-pytorch-script.md"
    text = page.read_text(encoding="utf-8")
    for kind in ("py", "python"):
        script = re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(script, str(page), "exec"), names)
        assert (names["logits"].argmax(axis=1) == names["y"]).mean() > 0.9


@pytest.mark.parametrize(
    "name",
    ["relu", "leaky_relu", "silu", "elu", "selu", "celu", "mish", "relu6", "hardswish", "hardsigmoid", "hardtanh"],
)
def test_activations_write_in_place_as_pytorchs(name: str) -> None:
    values = np.linspace(-4, 4, 9, dtype=np.float32)
    ours, theirs = Tensor.from_host(values), torch.tensor(values)
    assert getattr(nn.functional, name)(ours, inplace=True) is ours
    getattr(torch.nn.functional, name)(theirs, inplace=True)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


LAYERS_IN_PLACE = [
    ("ReLU", ()), ("ReLU6", ()), ("LeakyReLU", (0.2,)), ("ELU", (0.7,)), ("CELU", (0.7,)), ("SELU", ()), ("SiLU", ()),
    ("Mish", ()), ("Hardsigmoid", ()), ("Hardswish", ()), ("Hardtanh", (-1.5, 2.5)), ("Threshold", (0.5, -2.0)),
    ("RReLU", (0.25, 0.25)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), LAYERS_IN_PLACE)
def test_layers_write_in_place_as_pytorchs(name: str, arguments: tuple[float, ...]) -> None:
    values = np.linspace(-4, 4, 9, dtype=np.float32)
    results = []
    for module, leaf in ((nn, ag.tensor(values, requires_grad=True)), (torch.nn, torch.tensor(values.copy()))):
        layer = getattr(module, name)(*arguments, inplace=True)
        hidden = leaf.requires_grad_() * 1.5
        assert layer(hidden) is hidden
        (hidden * hidden).sum().backward()
        results.append((hidden.detach().numpy(), leaf.grad.numpy()))
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_positional_arguments_of_transformer_layers_are_pytorchs() -> None:
    given = (8, 2, 16, 0.0, "gelu", 1e-3, True, True, False)
    ours, theirs = nn.TransformerEncoderLayer(*given), torch.nn.TransformerEncoderLayer(*given)
    assert ours.norm1.eps == theirs.norm1.eps == 1e-3
    assert ours.self_attn.batch_first is theirs.self_attn.batch_first is True
    assert ours.norm_first is theirs.norm_first is True
    assert ours.linear1.bias is theirs.linear1.bias is None
    assert nn.MultiheadAttention(8, 2, 0.0, True, True).bias_k.shape == (1, 1, 8)
