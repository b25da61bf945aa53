"""Recurrent nets, attention and transformers against NumPy, and through files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.io import load_model, save_model

Array = np.ndarray[Any, Any]


def host(tensors: Any) -> list[Array]:
    """Returns nested results as a list of arrays."""
    if isinstance(tensors, tuple):
        return [array for part in tensors for array in host(part)]
    return [] if tensors is None else [tensors.to_host()]


def state_of(module: nn.Module) -> dict[str, Array]:
    return {name: tensor.to_host().astype(np.float64) for name, tensor in module.state_dict().items()}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def step(name: str, x: Array, state: tuple[Array, ...], s: dict[str, Array], suffix: str) -> tuple[Array, ...]:
    """Returns one step of a net in NumPy: x (N, in), states (N, H)."""
    a = x @ s[f"weight_ih{suffix}"].T + s[f"bias_ih{suffix}"]
    b = state[0] @ s[f"weight_hh{suffix}"].T + s[f"bias_hh{suffix}"]
    if name == "RNN":
        return (np.tanh(a + b),)
    if name == "LSTM":
        i, f, g, o = np.split(a + b, 4, axis=1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (ar, az, an), (br, bz, bn) = np.split(a, 3, axis=1), np.split(b, 3, axis=1)
    z = sigmoid(az + bz)
    return ((1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * state[0],)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_two_layers_in_both_directions(name: str, normal: Callable[..., Tensor]) -> None:
    net, x = getattr(nn, name)(4, 6, 2, bidirectional=True), normal(3, 2, 4)
    s, y, ends = state_of(net), x.to_host().astype(np.float64), []
    states = 2 if name == "LSTM" else 1
    for layer in range(2):
        outputs = []
        for ending, order in (("", 1), ("_reverse", -1)):
            state: tuple[Array, ...] = (np.zeros((2, 6)),) * states
            seen = []
            for row in y[::order]:
                state = step(name, row, state, s, f"_l{layer}{ending}")
                seen.append(state[0])
            outputs.append(np.stack(seen[::order]))
            ends.append(state)
        y = np.concatenate(outputs, -1)
    out, *last = host(net(x))
    np.testing.assert_allclose(out, y, rtol=1e-4, atol=1e-5)
    for got, expected in zip(last, zip(*ends), strict=True):
        np.testing.assert_allclose(got, np.stack(expected), rtol=1e-4, atol=1e-5)
    ag.sum(net(x)[0]).backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def projected(x: Array, starts: list[tuple[Array, Array]], s: dict[str, Array], layers: int) -> list[Array]:
    """Returns the outputs and final states of a bidirectional LSTM with projections, by PyTorch's formula in NumPy."""
    ends, y = [], x
    for layer in range(layers):
        outputs = []
        for ending, order in (("", 1), ("_reverse", -1)):
            suffix, seen = f"_l{layer}{ending}", []
            state: tuple[Array, ...] = starts[len(ends)]
            for row in y[::order]:
                h, c = step("LSTM", row, state, s, suffix)
                state = (h @ s[f"weight_hr{suffix}"].T, c)
                seen.append(state[0])
            outputs.append(np.stack(seen[::order]))
            ends.append(state)
        y = np.concatenate(outputs, -1)
    return [y, *(np.stack(parts) for parts in zip(*ends))]


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
def test_a_projected_lstm_and_its_gradients(given: bool, normal: Callable[..., Tensor]) -> None:
    net, x = nn.LSTM(4, 6, 2, bidirectional=True, proj_size=3), normal(5, 2, 4)
    rng = np.random.default_rng(3)
    s, states = state_of(net), [rng.normal(size=(4, 2, width)) for width in (3, 6)]
    if not given:
        states = [np.zeros_like(state) for state in states]
    weights = [rng.normal(size=shape) for shape in ((5, 2, 6), (4, 2, 3), (4, 2, 6))]

    def loss(s: dict[str, Array], y: Array, states: list[Array]) -> float:
        found = projected(y, list(zip(*states)), s, 2)
        return float(sum((part * weight).sum() for part, weight in zip(found, weights, strict=True)))

    data, start = ag.Parameter(x), [ag.Parameter(Tensor.from_host(state.astype(np.float32))) for state in states]
    out, last = net(data, tuple(start) if given else None)
    wide = x.to_host().astype(np.float64)
    for got, expected in zip((out, *last), projected(wide, list(zip(*states)), s, 2), strict=True):
        np.testing.assert_allclose(got.to_host(), expected, rtol=1e-4, atol=1e-5)
    parts = [ag.sum(part * Tensor.from_host(w.astype(np.float32))) for part, w in zip((out, *last), weights)]
    (parts[0] + parts[1] + parts[2]).backward()
    watched = [(p.grad, s[name]) for name, p in net.named_parameters()] + [(data.grad, wide)]
    watched += [(p.grad, state) for p, state in zip(start, states)] if given else []
    for gradient, values in watched:
        at = tuple(rng.integers(0, size) for size in values.shape)
        begin, sides = values[at], []
        for moved in (begin + 1e-5, begin - 1e-5):
            values[at] = moved
            sides.append(loss(s, wide, states))
        values[at] = begin
        np.testing.assert_allclose(gradient.to_host()[at], (sides[0] - sides[1]) / 2e-5, rtol=1e-3, atol=1e-4)


def test_the_names_and_shapes_of_a_projected_lstm(normal: Callable[..., Tensor]) -> None:
    net = nn.LSTM(4, 6, 2, proj_size=3, batch_first=True, dropout=0.5, bias=False)
    assert {name: value.shape for name, value in net.state_dict().items()} == {
        "weight_ih_l0": (24, 4),
        "weight_hh_l0": (24, 3),
        "weight_hr_l0": (3, 6),
        "weight_ih_l1": (24, 3),
        "weight_hh_l1": (24, 3),
        "weight_hr_l1": (3, 6),
    }
    assert repr(net) == "LSTM(4, 6, proj_size=3, num_layers=2, bias=False, batch_first=True, dropout=0.5)"
    assert [[p.shape for p in group] for group in net.all_weights] == [
        [(24, 4), (24, 3), (3, 6)],
        [(24, 3)] * 2 + [(3, 6)],
    ]
    out, (h, c) = net(normal(2, 5, 4))
    assert (out.shape, h.shape, c.shape) == ((2, 5, 3), (2, 2, 3), (2, 2, 6))
    out, (h, c) = net.eval()(normal(1, 4), (normal(2, 3), normal(2, 6)))
    assert (out.shape, h.shape, c.shape) == ((1, 3), (2, 3), (2, 6))
    with pytest.raises(ShapeError, match=r"\(h, c\) of shape \(2, 2, 3\) and \(2, 2, 6\), got"):
        net(normal(2, 5, 4), (normal(2, 2, 6), normal(2, 2, 6)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_projected_lstm_of_half_types(dtype: str, normal: Callable[..., Tensor]) -> None:
    wide, x = nn.LSTM(4, 6, bidirectional=True, proj_size=2), normal(5, 3, 4)
    half = nn.LSTM(4, 6, bidirectional=True, proj_size=2, dtype=dtype)
    half.load_state_dict(wide.state_dict())
    out, (h, c) = half(x.astype(dtype))
    for one, two in zip(host(wide(x)), (out, h, c), strict=True):
        assert two.dtype == dtype
        bound = {"float16": 2e-3, "bfloat16": 2e-2}[dtype]
        np.testing.assert_allclose(two.to_host().astype(np.float32), one, atol=bound)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_cell_is_one_step_of_its_net(name: str, normal: Callable[..., Tensor]) -> None:
    net, cell = getattr(nn, name)(4, 6, batch_first=True), getattr(nn, f"{name}Cell")(4, 6)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in net.state_dict().items()})
    x = normal(2, 3, 4)
    state = None
    for at in range(3):
        state = cell(x[:, at], state)
        last = state[0] if isinstance(state, tuple) else state
        np.testing.assert_allclose(net(x)[0].to_host()[:, at], last.to_host(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_half_types_are_near_the_net_in_float32(name: str, dtype: str, normal: Callable[..., Tensor]) -> None:
    wide, x = getattr(nn, name)(4, 6, bidirectional=True), normal(5, 3, 4)
    half = getattr(nn, name)(4, 6, bidirectional=True, dtype=dtype)
    half.load_state_dict(wide.state_dict())
    bound = {"float16": 2e-3, "bfloat16": 2e-2}[dtype]
    outputs = []
    for net in (wide, half):
        out, last = net(x if net is wide else x.astype(dtype))
        states = last if isinstance(last, tuple) else (last,)
        ag.sum(ag.sin(ag.cast(out, dtype="float32"))).backward()
        outputs.append((out, *states, *(p.grad for p in net.parameters())))
    for one, two in zip(*outputs, strict=True):
        assert two.dtype == dtype
        expected = one.to_host()
        np.testing.assert_allclose(two.to_host().astype(np.float32), expected, atol=bound * max(1, abs(expected).max()))


def test_a_net_runs_few_ops_however_long_the_sequence(normal: Callable[..., Tensor]) -> None:
    """The inputs' products are one for all steps, and so are the steps, forth and back."""
    from netcl.core.ops_table import dispatch

    names: list[str] = []

    def count(run: Any, row: Any, args: Any, kwargs: Any) -> Any:
        names.append(row.name)
        return run(row, args, kwargs)

    net = nn.LSTM(4, 6)
    counts = []
    for steps in (2, 9):
        x = normal(steps, 2, 4)
        names.clear()
        net.zero_grad()
        dispatch.push_hook(count)
        try:
            ag.sum(net(x)[0]).backward()
        finally:
            dispatch.pop_hook(count)
        counts.append(len(names))
        assert names.count("linear") == names.count("recurrence") == 1
        if "recurrence_back" in dispatch.TABLE:  # else the row has a gradient of its own
            assert names.count("recurrence_back") == 1
    assert counts[0] == counts[1]


def attention(q: Array, k: Array, v: Array, hidden: Array) -> tuple[Array, Array]:
    scores = np.where(hidden, -np.inf, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights @ v, weights


def test_attention_with_masks(normal: Callable[..., Tensor]) -> None:
    layer, query, memory = nn.MultiheadAttention(8, 2, batch_first=True), normal(3, 4, 8), normal(3, 5, 8)
    layer.in_proj_bias.write(np.linspace(-1, 1, 24).astype(np.float32))
    s = state_of(layer)
    padding = np.zeros((3, 5), bool)
    padding[1, 3:] = True
    hidden = np.triu(np.ones((4, 5), bool), 2)
    parts = zip(np.split(s["in_proj_weight"], 3), np.split(s["in_proj_bias"], 3), (query, memory, memory))
    heads = [(x.to_host() @ w.T + b).reshape(3, -1, 2, 4).transpose(0, 2, 1, 3) for w, b, x in parts]
    y, weights = attention(*heads, hidden | padding[:, None, None])
    y = y.transpose(0, 2, 1, 3).reshape(3, 4, 8) @ s["out_proj.weight"].T + s["out_proj.bias"]
    masks = {"key_padding_mask": Tensor.from_host(padding), "attn_mask": Tensor.from_host(hidden)}
    out, mean = layer(query, memory, memory, **masks)
    np.testing.assert_allclose(out.to_host(), y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean.to_host(), weights.mean(1), rtol=1e-4, atol=1e-5)
    out, each = layer(query, memory, memory, **masks, average_attn_weights=False)
    np.testing.assert_allclose(each.to_host(), weights, rtol=1e-4, atol=1e-5)
    out, none = layer(query, memory, memory, **masks, need_weights=False)
    np.testing.assert_allclose(out.to_host(), y, rtol=1e-4, atol=1e-5)
    assert none is None


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_causal_encoder_sees_nothing_ahead(norm_first: bool, normal: Callable[..., Tensor]) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, norm_first=norm_first)
    encoder, x = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8)).eval(), normal(5, 2, 8)
    changed = x.to_host()
    changed[3:] *= -1
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    one, two = (encoder(t, mask, is_causal=True).to_host() for t in (x, Tensor.from_host(changed)))
    np.testing.assert_allclose(one[:3], two[:3], rtol=1e-5, atol=1e-6)
    assert np.abs(one[3:] - two[3:]).max() > 1e-3
    np.testing.assert_allclose(encoder(x, mask).to_host(), one, rtol=1e-5, atol=1e-6)


def test_rotary_positions_keep_lengths_and_know_distances(normal: Callable[..., Tensor]) -> None:
    rotary, q, k = nn.RotaryEmbedding(8, base=100), normal(1, 8), normal(1, 8)
    products = [(rotary(q, at).to_host() * rotary(k, at + 3).to_host()).sum() for at in (0, 5)]
    assert products[0] == pytest.approx(products[1], rel=1e-4)
    assert np.linalg.norm(rotary(q, 7).to_host()) == pytest.approx(np.linalg.norm(q.to_host()), rel=1e-5)
    with pytest.raises(ShapeError, match=r"\(\.\.\., T, 8\), got \(3, 6\)"):
        rotary(normal(3, 6))


SAVED: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = {
    "LSTM": (lambda: nn.LSTM(4, 3, 2, dropout=0.5, bidirectional=True, batch_first=True), [(2, 3, 4)]),
    "RNN": (lambda: nn.RNN(4, 3, nonlinearity="relu", bias=False), [(3, 2, 4)]),
    "GRUCell": (lambda: nn.GRUCell(4, 3), [(2, 4)]),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2, kdim=3, bias=False), [(3, 2, 4), (2, 2, 3), (2, 2, 4)]),
    "Transformer": (lambda: nn.Transformer(4, 2, 1, 2, 8, activation="gelu"), [(3, 2, 4), (2, 2, 4)]),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.2, norm_first=True), 2),
        [(3, 2, 4)],
    ),
    "RotaryEmbedding": (lambda: nn.RotaryEmbedding(4, interleaved=True), [(3, 4)]),
}


@pytest.mark.parametrize("name", SAVED)
def test_files(name: str, normal: Callable[..., Tensor], tmp_path: Path) -> None:
    make, shapes = SAVED[name]
    model, inputs = make().eval(), [normal(*shape) for shape in shapes]
    save_model(model, tmp_path / "m.netcl")
    again = load_model(tmp_path / "m.netcl")
    assert repr(again) == repr(model)
    for one, two in zip(host(model(*inputs)), host(again(*inputs)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: nn.LSTM(4, 3)(x(2, 3, 5)), r"LSTM\(4, 3\): expected x \(T, N, 4\) or \(T, 4\).*\(2, 3, 5\)"),
        (lambda x: nn.GRU(4, 3, batch_first=True)(x(2, 0, 4)), r"\(N, T, 4\).*not empty, got \(2, 0, 4\)"),
        (lambda x: nn.LSTM(4, 3)(x(2, 3, 4), x(1, 3, 3)), r"\(h, c\) of shape \(1, 3, 3\), got \(1, 3, 3\)$"),
        (lambda x: nn.GRU(4, 3)(x(2, 3, 4), x(3, 3)), r"h of shape \(1, 3, 3\), got \(3, 3\)"),
        (lambda x: nn.RNNCell(4, 3)(x(2, 3, 4)), r"RNNCell\(4, 3\): expected x \(N, 4\) or \(4,\)"),
        (lambda x: nn.MultiheadAttention(4, 2)(x(2, 3, 4), x(2, 1, 4), x(2, 1, 4)), r"query \(L, N, 4\).*\(2, 1, 4\)"),
        (
            lambda x: nn.MultiheadAttention(4, 2)(x(2, 3, 4), x(2, 3, 4), x(2, 3, 4), attn_mask=x(3, 3)),
            r"attn_mask has shape \(3, 3\), expected \(2, 2\) or \(6, 2, 2\)",
        ),
        (
            lambda x: nn.MultiheadAttention(4, 2)(x(2, 3, 4), x(2, 3, 4), x(2, 3, 4), key_padding_mask=x(2, 3)),
            r"key_padding_mask has shape \(2, 3\), expected \(3, 2\)",
        ),
    ],
)
def test_shapes_that_do_not_fit(call: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call(lambda *shape: Tensor.zeros(shape))


def test_wrong_arguments() -> None:
    for make, message in (
        (lambda: nn.MultiheadAttention(5, 2), "num_heads=2"),
        (lambda: nn.RNN(2, 3, nonlinearity="sin"), "'sin'"),
        (lambda: nn.LSTM(2, 3, dropout=2), "in \\[0, 1\\], got 2"),
        (lambda: nn.LSTM(2, 3, proj_size=3), "expected proj_size 0, for none, or below hidden_size=3, got 3"),
        (lambda: nn.LSTM(2, 3, proj_size=-1), "expected proj_size 0"),
        (lambda: nn.GRU(2, 0), "hidden_size=0"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="sin"), "'sin'"),
        (lambda: nn.RotaryEmbedding(3), "dim=3"),
        (lambda: nn.TransformerEncoder(nn.Identity(), 0), "num_layers must be from 1 to 4096, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_a_transformer_takes_stacks_of_its_own() -> None:
    own = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1)
    made = nn.Transformer(4, 2, 1, 1, 8, 0.0, "relu", own, None, 1e-5, True)
    assert made.encoder is own
    assert made.custom_encoder is own
    assert made.custom_decoder is None
    assert made.batch_first
