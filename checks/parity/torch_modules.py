"""Layers, packed sequences, parametrizations, hooks and conversions of modules against PyTorch, from one state dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor

U, V = nn.utils, torch.nn.utils
RNG = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def close(ours: Tensor, theirs: torch.Tensor, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(ours.to_host(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def load(ours: Any, theirs: Any) -> None:
    """Loads PyTorch's state without renaming; the keys are equal and in one order."""
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)


def gradients(ours: Any, theirs: Any, tolerance: float = 1e-3) -> None:
    for (name, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert name == other
        close(p.grad, q.grad, tolerance)


LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("ChannelShuffle", (3,), {}, (2, 6, 4, 4)),
    ("LocalResponseNorm", (3,), {"alpha": 0.3, "k": 2.0}, (2, 6, 4, 4)),
    ("LPPool1d", (2.0, 3), {"stride": 2}, (2, 3, 9)),
    ("LPPool2d", (4.0, 2), {}, (2, 3, 6, 6)),
    ("LPPool3d", (2.0, 2), {}, (1, 2, 4, 4, 4)),
    ("Softmax2d", (), {}, (2, 3, 4, 4)),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, (1, 2, 3, 3)),
    ("UpsamplingBilinear2d", (), {"size": (5, 7)}, (1, 2, 3, 3)),
    ("CircularPad1d", (2,), {}, (2, 3, 5)),
    ("CircularPad2d", ((1, 2, 0, 1),), {}, (2, 3, 5, 5)),
    ("CircularPad3d", (1,), {}, (1, 2, 3, 3, 3)),
    ("SyncBatchNorm", (3,), {}, (4, 3, 5)),
    ("LazyLinear", (4,), {}, (5, 3)),
    ("LazyConv1d", (4, 3), {}, (2, 3, 8)),
    ("LazyConv2d", (4, 3), {"groups": 2, "padding": 1}, (2, 6, 5, 5)),
    ("LazyConv3d", (2, 2), {}, (1, 2, 4, 4, 4)),
    ("LazyConvTranspose1d", (4, 3), {}, (2, 3, 5)),
    ("LazyConvTranspose2d", (4, 3), {"stride": 2}, (2, 3, 5, 5)),
    ("LazyConvTranspose3d", (2, 2), {}, (1, 3, 3, 3, 3)),
    ("LazyBatchNorm1d", (), {}, (6, 3)),
    ("LazyBatchNorm2d", (), {}, (4, 3, 4, 4)),
    ("LazyBatchNorm3d", (), {}, (2, 3, 2, 2, 2)),
    ("LazyInstanceNorm1d", (), {}, (2, 3, 6)),
    ("LazyInstanceNorm2d", (), {}, (2, 3, 4, 4)),
    ("LazyInstanceNorm3d", (), {}, (2, 3, 2, 2, 2)),
    ("FractionalMaxPool2d", (2,), {"output_size": (3, 2)}, (2, 3, 7, 6)),
    ("FractionalMaxPool3d", (2,), {"output_ratio": 0.5}, (1, 2, 6, 6, 6)),
    ("RReLU", (), {}, (3, 4)),
    ("AlphaDropout", (0.3,), {}, (3, 4)),
    ("FeatureAlphaDropout", (0.3,), {}, (3, 4, 2)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "args", "options", "shape"), LAYERS, ids=[one[0] for one in LAYERS])
def test_layers(name: str, args: Any, options: Any, shape: tuple[int, ...]) -> None:
    ours, theirs = (getattr(library, name)(*args, **options) for library in (nn, torch.nn))
    random = name in ("RReLU", "AlphaDropout", "FeatureAlphaDropout")
    if random or name == "SyncBatchNorm":  # PyTorch's SyncBatchNorm trains on GPUs only
        ours.eval(), theirs.eval()
    x = array(*shape)
    if name.startswith("Fractional"):
        samples = RNG.random((*shape[:2], len(shape) - 2)).astype(np.float32)
        ours._random_samples, theirs._random_samples = Tensor.from_host(samples), torch.tensor(samples)
    a, b = ag.Parameter(Tensor.from_host(x)), torch.tensor(x, requires_grad=True)
    if name.startswith("Lazy"):
        theirs(torch.tensor(x))
    load(ours, theirs)
    assert type(ours).__name__ == type(theirs).__name__, "a lazy layer is one no longer"
    y, z = ours(a), theirs(b)
    close(y, z)
    weight = array(*y.shape)
    ag.sum(ag.mul(y, Tensor.from_host(weight))).backward()
    (z * torch.tensor(weight)).sum().backward()
    close(a.grad, b.grad)
    gradients(ours, theirs)


def test_adaptive_log_softmax() -> None:
    options: dict[str, Any] = {"cutoffs": [4, 7], "div_value": 2.0, "head_bias": True}
    ours, theirs = (library.AdaptiveLogSoftmaxWithLoss(8, 12, **options) for library in (nn, torch.nn))
    load(ours, theirs)
    x, target = array(20, 8), RNG.integers(0, 12, 20)
    mine = ours(Tensor.from_host(x), Tensor.from_host(target))
    other = theirs(torch.tensor(x), torch.tensor(target))
    close(mine.output, other.output)
    close(mine.loss, other.loss)
    mine.loss.backward(), other.loss.backward()
    gradients(ours, theirs)
    close(ours.log_prob(Tensor.from_host(x)), theirs.log_prob(torch.tensor(x)))
    assert ours.predict(Tensor.from_host(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")  # of PyTorch itself
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "projected", "GRU"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"batch_first": True}])
@pytest.mark.parametrize("given", [False, True])
def test_packed_sequences(kind: str, options: dict[str, Any], given: bool) -> None:
    width = 4
    if kind == "projected":
        kind, width, options = "LSTM", 2, {**options, "proj_size": 2}
    ours, theirs = (getattr(library, kind)(3, 4, **options) for library in (nn, torch.nn))
    load(ours, theirs)
    x, lengths = array(5, 5, 3), [2, 5, 1, 4, 5]
    a, b = ag.Parameter(Tensor.from_host(x)), torch.tensor(x, requires_grad=True)
    how = {"batch_first": bool(options.get("batch_first")), "enforce_sorted": False}
    packed, expected = U.rnn.pack_padded_sequence(a, lengths, **how), V.rnn.pack_padded_sequence(b, lengths, **how)
    close(packed.data, expected.data)
    assert packed.batch_sizes.tolist() == expected.batch_sizes.tolist()
    start: Any = (None, None)
    if given:
        count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        states = [array(count, 5, size) for size in (width, 4)[: 2 if kind == "LSTM" else 1]]
        both = [tuple(map(Tensor.from_host, states)), tuple(map(torch.tensor, states))]
        start = both if kind == "LSTM" else [one[0] for one in both]
    (y, h), (z, i) = ours(packed, start[0]), theirs(expected, start[1])
    padded, sizes = U.rnn.pad_packed_sequence(y, padding_value=2.0, total_length=7)
    wanted, counts = V.rnn.pad_packed_sequence(z, padding_value=2.0, total_length=7)
    close(padded, wanted)
    assert sizes.tolist() == counts.tolist() == lengths
    for mine, other in zip(h if isinstance(h, tuple) else (h,), i if isinstance(i, tuple) else (i,)):
        close(mine, other)
    ag.sum(ag.square(padded)).backward()
    (wanted**2).sum().backward()
    close(a.grad, b.grad)
    gradients(ours, theirs)


def test_padding_of_sequences() -> None:
    parts = [array(n, 2) for n in (3, 1, 4)]
    for options in ({}, {"batch_first": True, "padding_value": 3.0}, {"padding_side": "left"}):
        mine = U.rnn.pad_sequence([Tensor.from_host(p) for p in parts], **options)
        close(mine, V.rnn.pad_sequence([torch.tensor(p) for p in parts], **options))
    packed = U.rnn.pack_sequence([Tensor.from_host(p) for p in parts], enforce_sorted=False)
    for part, back in zip(parts, U.rnn.unpack_sequence(packed)):
        np.testing.assert_array_equal(back.to_host(), part)


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "orthogonal"])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 6), (6, 3)])
def test_parametrizations(kind: str, sizes: tuple[int, int]) -> None:
    ours, theirs = (
        getattr(u.parametrizations, kind)(library.Linear(*sizes)) for u, library in ((U, nn), (V, torch.nn))
    )
    load(ours, theirs)
    ours.eval(), theirs.eval()
    x = array(2, sizes[0])
    y, z = ours(Tensor.from_host(x)), theirs(torch.tensor(x))
    close(y, z, 1e-3)
    ag.sum(ag.square(y)).backward()
    (z**2).sum().backward()
    gradients(ours, theirs, 5e-3)
    weight = ours.weight.to_host()
    U.parametrize.remove_parametrizations(ours, "weight")
    V.parametrize.remove_parametrizations(theirs, "weight")
    assert type(ours) is nn.Linear
    assert set(ours.state_dict()) == set(theirs.state_dict())
    np.testing.assert_allclose(ours.weight.to_host(), weight, atol=1e-6)


def made(library: Any, parametrize: Any) -> Any:
    class Symmetric(library.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    layer = library.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


def test_own_parametrizations() -> None:
    ours, theirs = made(nn, U.parametrize), made(torch.nn, V.parametrize)
    load(ours, theirs)
    close(ours.weight, theirs.weight)
    new = array(3, 3)
    new = new + new.T
    ours.weight, theirs.weight = Tensor.from_host(new), torch.tensor(new)
    close(ours.weight, theirs.weight)
    np.testing.assert_allclose(ours.weight.to_host(), new, rtol=1e-6)
    assert U.parametrize.is_parametrized(ours, "weight")
    with U.parametrize.cached():
        assert ours.weight is ours.weight


def events(library: Any, make: Any) -> list[Any]:
    """The calls of all kinds of hooks over one forward and backward pass and one state."""
    seen: list[Any] = []
    model = library.Sequential(library.Linear(2, 3), library.ReLU())
    layer = model[0]
    layer.register_forward_pre_hook(
        lambda m, args, kwargs: seen.append(("pre", len(args), len(kwargs))), with_kwargs=True
    )
    layer.register_forward_pre_hook(lambda m, args: seen.append("first"), prepend=True)
    layer.register_forward_hook(lambda m, args, out: seen.append(("out", tuple(out.shape))))
    layer.register_full_backward_pre_hook(lambda m, grad: seen.append(("before", tuple(grad[0].shape))))
    layer.register_full_backward_hook(lambda m, i, o: seen.append(("after", tuple(o[0].shape))))
    model.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("reads", prefix)))
    model.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(more=0) or None)
    layer.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: seen.append(("loads", prefix)))
    model.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    x = make(np.ones((4, 2), np.float32))
    x.requires_grad = True
    model(x).sum().backward()
    state = model.state_dict()
    seen.append(sorted(state))
    del state["more"], state["0.bias"]
    model.load_state_dict(state)
    return seen


def test_hooks_are_called_as_in_pytorch() -> None:
    assert events(nn, Tensor.from_host) == events(torch.nn, torch.tensor)


def test_functional_call_and_fusion() -> None:
    ours, theirs = (
        library.Sequential(library.Conv2d(2, 3, 3), library.BatchNorm2d(3)).eval() for library in (nn, torch.nn)
    )
    with torch.no_grad():
        theirs[1].running_var.mul_(3).add_(0.3)
        theirs[1].running_mean.add_(0.2)
    load(ours, theirs)
    x = array(1, 2, 5, 5)
    close(U.fuse_conv_bn_eval(ours[0], ours[1])(Tensor.from_host(x)), theirs(torch.tensor(x)))
    weight = array(3, 2, 3, 3)
    a, b = ag.Parameter(Tensor.from_host(weight)), torch.tensor(weight, requires_grad=True)
    y = U.stateless.functional_call(ours, {"0.weight": a}, (Tensor.from_host(x),))
    z = torch.func.functional_call(theirs, {"0.weight": b}, (torch.tensor(x),))
    close(y, z)
    ag.sum(ag.square(y)).backward(), (z**2).sum().backward()
    close(a.grad, b.grad, 1e-3)
    assert ours[0].weight is not a
    assert ours[0].weight.grad is None


def test_clipping() -> None:
    values = [array(3, 4), array(5)]
    ours = [ag.Parameter(Tensor.from_host(v)) for v in values]
    theirs = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    for norm_type in (2.0, 1.0, float("inf")):
        for p, q, v in zip(ours, theirs, values):
            p.grad, q.grad = Tensor.from_host(v), torch.tensor(v)
        close(
            U.get_total_norm([p.grad for p in ours], norm_type), V.get_total_norm([q.grad for q in theirs], norm_type)
        )
        close(U.clip_grad_norm_(ours, 0.7, norm_type), V.clip_grad_norm_(theirs, 0.7, norm_type))
        for p, q in zip(ours, theirs):
            close(p.grad, q.grad)
    U.clip_grad_value_(ours, 0.05), V.clip_grad_value_(theirs, 0.05)
    for p, q in zip(ours, theirs):
        close(p.grad, q.grad)
    vector = U.parameters_to_vector(ours)
    close(vector, V.parameters_to_vector(theirs))
    U.vector_to_parameters(ag.mul(vector, 2.0), ours)
    np.testing.assert_allclose(ours[1].to_host(), 2 * values[1], rtol=1e-6)


def test_lists_and_dicts_of_parameters() -> None:
    for library, make in ((nn, Tensor.from_host), (torch.nn, torch.tensor)):
        holder = library.Module()
        holder.many = library.ParameterList([library.Parameter(make(np.ones(n, np.float32))) for n in (1, 2)])
        holder.many.append(make(np.ones(3, np.float32)))
        holder.named = library.ParameterDict({"a": library.Parameter(make(np.zeros(2, np.float32)))})
        holder.named["b"] = make(np.zeros(1, np.float32))
        holder.kept = library.Buffer(make(np.zeros(2, np.float32)))
        assert list(holder.state_dict()) == ["kept", "many.0", "many.1", "many.2", "named.a", "named.b"]
        assert [tuple(p.shape) for p in holder.many[1:]] == [(2,), (3,)]
        assert [name for name, _ in holder.named.items()] == ["a", "b"]


def test_conversions_keep_parameters() -> None:
    for library in (nn, torch.nn):
        model = library.Sequential(library.Linear(2, 2), library.BatchNorm1d(2))
        before = list(model.parameters())
        model.double()
        assert all(p is q for p, q in zip(before, model.parameters()))
        assert {str(p.dtype).removeprefix("torch.") for p in before} == {"float64"}
        assert str(model[1].num_batches_tracked.dtype).removeprefix("torch.") == "int64"
        assert str(model.half()[0].weight.dtype).removeprefix("torch.") == "float16"
        assert model.get_parameter("0.weight") is before[0]
        assert tuple(model.get_buffer("1.running_mean").shape) == (2,)
        model.set_submodule("1", library.Identity())
        assert [name for name, _ in model.named_modules()] == ["", "0", "1"]
