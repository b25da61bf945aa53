"""Parametrizations, packed sequences, lazy layers, lists of parameters and hooks against closed forms in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.nn.utils import parametrizations, parametrize, rnn
from netcl.nn.utils.stateless import functional_call


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def tensor(values: Any) -> Tensor:
    return Tensor.from_host(np.asarray(values, np.float32))


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 6), (6, 3)])
def test_orthogonal_weights_stay_orthogonal(orthogonal_map: str, sizes: tuple[int, int]) -> None:
    layer = parametrizations.orthogonal(nn.Linear(*sizes), orthogonal_map=orthogonal_map)
    layer.parametrizations.weight.original.write(
        layer.parametrizations.weight.original.to_host() + np.tril(np.full(sizes[::-1], 0.1, np.float32), -1)
    )
    weight = layer.weight.to_host().astype(np.float64)
    tall = weight if weight.shape[0] >= weight.shape[1] else weight.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(tall.shape[1]), atol=1e-5)


def test_the_spectral_norm_is_one(rng) -> None:
    layer = parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=30)
    layer(tensor(rng.standard_normal((2, 5))))
    assert np.linalg.norm(layer.weight.to_host(), 2) == pytest.approx(1.0, rel=1e-4)


def test_a_weight_by_norm_and_direction(rng) -> None:
    layer = nn.Linear(5, 4)
    before = layer.weight.to_host()
    parametrizations.weight_norm(layer)
    np.testing.assert_allclose(layer.weight.to_host(), before, rtol=1e-5, atol=1e-6)
    assert sorted(layer.state_dict()) == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1",
    ]  # fmt: skip
    layer.parametrizations.weight.original0.write(np.full((4, 1), 2.0, np.float32))
    np.testing.assert_allclose(np.linalg.norm(layer.weight.to_host(), axis=1), 2.0, rtol=1e-5)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    np.testing.assert_allclose(np.linalg.norm(layer.weight.to_host(), axis=1), 2.0, rtol=1e-5)


def test_what_parametrizations_refuse() -> None:
    class Longer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return ag.cat([x, x])

    with pytest.raises(ValueError, match="unsafe=True"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", Longer())
    with pytest.raises(ValueError, match="'other'"):
        parametrize.register_parametrization(nn.Linear(2, 2), "other", nn.Identity())


@pytest.mark.parametrize(
    ("kind", "options"), [("RNN", {}), ("LSTM", {}), ("LSTM", {"proj_size": 2}), ("GRU", {})], ids=str
)
@pytest.mark.parametrize("given", [False, True])
def test_each_packed_sequence_is_as_one_by_itself(kind: str, options: dict[str, int], given: bool, rng) -> None:
    layer = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True, **options)
    parts = [tensor(rng.standard_normal((n, 3))) for n in (3, 5, 1)]
    widths = (options.get("proj_size", 4), 4) if kind == "LSTM" else (4,)
    starts = [tuple(tensor(rng.standard_normal((4, width))) for width in widths) for _ in parts]
    hx = [tuple(ag.stack(states, axis=1) for states in zip(*starts)), *starts] if given else [None] * 4
    if kind != "LSTM" and given:
        hx = [states[0] for states in hx]
    output, state = layer(rnn.pack_sequence(parts, enforce_sorted=False), hx[0])
    for at, (part, out) in enumerate(zip(parts, rnn.unpack_sequence(output))):
        expected, end = layer(part, hx[1 + at])
        np.testing.assert_allclose(out.to_host(), expected.to_host(), rtol=1e-4, atol=1e-6)
        one, two = (s[0] if kind == "LSTM" else s for s in (state, end))
        np.testing.assert_allclose(one.to_host()[:, at], two.to_host(), rtol=1e-4, atol=1e-6)


def test_lengths_that_do_not_fit() -> None:
    x = Tensor.zeros((4, 2, 3))
    with pytest.raises(ValueError, match="enforce_sorted=False"):
        rnn.pack_padded_sequence(x, [2, 3])
    with pytest.raises(ValueError, match="from 1 to 4"):
        rnn.pack_padded_sequence(x, [5, 3])
    with pytest.raises(ValueError, match="total_length"):
        rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [3, 3]), total_length=2)


def test_a_lazy_layer_keeps_its_parameters_for_an_optimizer(rng) -> None:
    layer = nn.LazyLinear(2)
    before = list(layer.parameters())
    assert isinstance(before[0], nn.UninitializedParameter)
    x = rng.standard_normal((3, 4))
    y = layer(tensor(x))
    assert type(layer) is nn.Linear
    assert all(p is q for p, q in zip(before, layer.parameters()))
    np.testing.assert_allclose(y.to_host(), x @ layer.weight.to_host().T + layer.bias.to_host(), rtol=1e-4, atol=1e-5)
    other = nn.LazyConv2d(4, 3, groups=2)
    other.load_state_dict(nn.Conv2d(6, 4, 3, groups=2).state_dict())
    assert other.in_channels == 6


def test_an_adaptive_softmax_sums_to_one(rng) -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 6], div_value=2.0)
    x, target = tensor(rng.standard_normal((5, 6))), Tensor.from_host(np.array([0, 9, 4, 3, 6]))
    log = layer.log_prob(x).to_host().astype(np.float64)
    np.testing.assert_allclose(np.exp(log).sum(1), 1.0, rtol=1e-5)
    found = layer(x, target)
    np.testing.assert_allclose(found.output.to_host(), log[np.arange(5), target.to_host()], rtol=1e-5)
    assert found.loss.item() == pytest.approx(-found.output.to_host().mean(), rel=1e-5)
    assert layer.predict(x).tolist() == log.argmax(1).tolist()


def test_triplets_with_a_distance_of_their_own(rng) -> None:
    a, p, n = rng.standard_normal((3, 5, 4))

    def largest(x: Tensor, y: Tensor) -> Tensor:
        return ag.amax(ag.abs(ag.sub(x, y)), axis=1)

    layer = nn.TripletMarginWithDistanceLoss(distance_function=largest, margin=2.0, swap=True, reduction="none")
    near = np.abs(a - p).max(1)
    far = np.minimum(np.abs(a - n).max(1), np.abs(p - n).max(1))
    found = layer(*map(tensor, (a, p, n))).to_host()
    np.testing.assert_allclose(found, np.maximum(near - far + 2.0, 0), rtol=1e-5)
    with pytest.raises(ValueError, match="margin"):
        nn.TripletMarginWithDistanceLoss(margin=0.0)


def test_a_call_with_other_tensors_changes_nothing(rng) -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight
    weight = ag.Parameter(tensor(rng.standard_normal((2, 3))))
    x = rng.standard_normal((4, 3))
    y = functional_call(layer, {"weight": weight}, (tensor(x),))
    np.testing.assert_allclose(y.to_host(), x @ weight.to_host().T + layer.bias.to_host(), rtol=1e-4, atol=1e-5)
    ag.sum(y).backward()
    np.testing.assert_allclose(weight.grad.to_host(), np.tile(x.sum(0), (2, 1)), rtol=1e-4, atol=1e-5)
    assert layer.weight is before
    assert before.grad is None
    with pytest.raises(KeyError, match="other"):
        functional_call(layer, {"other": weight}, (tensor(x),))


def test_hooks_of_all_modules_and_after_errors() -> None:
    seen: list[str] = []
    handle = nn.hooks.register_module_forward_hook(lambda module, args, out: seen.append(type(module).__name__))
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model(Tensor.zeros((1, 2)))
    handle.remove()
    assert seen == ["Linear", "ReLU", "Sequential"]
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, args, out: seen.append(f"after {out}"), always_call=True)
    with pytest.raises(Exception, match="Linear"):
        layer(Tensor.zeros((1, 3)))
    assert seen[-1] == "after None"


def test_a_backward_pre_hook_replaces_the_gradient() -> None:
    layer = nn.Linear(2, 2, bias=False)
    layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 3.0,))
    ag.sum(layer(Tensor.ones((1, 2)))).backward()
    np.testing.assert_array_equal(layer.weight.grad.to_host(), np.full((2, 2), 3.0))


def test_conversions_keep_the_parameters_and_their_gradients() -> None:
    layer = nn.Linear(2, 2)
    weight = layer.weight
    ag.sum(layer(Tensor.ones((1, 2)))).backward()
    assert layer.to(nn.Linear(1, 1, dtype="float64").weight) is layer
    assert layer.weight is weight
    assert (weight.dtype, weight.grad.dtype) == ("float64", "float64")
    assert layer.half().bias.dtype == "float16"
    with pytest.raises(TypeError, match="int64"):
        layer.to("int64")
    assert layer.to_empty(device="cpu").weight.shape == (2, 2)


def test_hooks_of_registrations() -> None:
    seen: list[str] = []

    def note(kind: str) -> Any:
        return lambda module, name, value: seen.append(f"{kind} {type(module).__name__}.{name}")

    handles = [
        nn.hooks.register_module_parameter_registration_hook(note("parameter")),
        nn.hooks.register_module_buffer_registration_hook(note("buffer")),
        nn.hooks.register_module_module_registration_hook(note("module")),
    ]
    nn.Sequential(nn.BatchNorm1d(2))
    for handle in handles:
        handle.remove()
    nn.Linear(2, 2)
    parts = ("parameter BatchNorm1d.weight", "parameter BatchNorm1d.bias", "buffer BatchNorm1d.running_mean")
    assert [one for one in seen if one in parts] == list(parts)
    assert seen[-1] == "module Sequential.0"
    assert not any("Linear" in one for one in seen)


def test_a_registration_hook_replaces_what_is_registered() -> None:
    other, holder = nn.Linear(1, 1), nn.Module()
    with nn.hooks.register_module_module_registration_hook(lambda module, name, child: other):
        holder.part = nn.Linear(2, 2)
        holder.add_module("second", nn.ReLU())
    assert holder.part is other
    assert holder.second is other
    half = ag.Parameter(Tensor.zeros((2, 2)))
    with nn.hooks.register_module_parameter_registration_hook(lambda module, name, value: half):
        layer = nn.Linear(2, 2, bias=False)
        layer.weight = ag.Parameter(Tensor.ones((2, 2)))
    assert layer.weight is half
    layer.register_buffer("state", Tensor.zeros((1,)))
    with nn.hooks.register_module_buffer_registration_hook(lambda module, name, value: value + 1.0):
        layer.state = Tensor.ones((1,))
    assert layer.state.tolist() == [2.0]


def test_hooks_with_options_in_the_tables_of_pytorch() -> None:
    seen: list[Any] = []
    layer = nn.Linear(2, 2)
    before = layer.register_forward_pre_hook(lambda m, args, kwargs: seen.append(kwargs), with_kwargs=True)
    after = layer.register_forward_hook(lambda m, args, kwargs, out: seen.append(out.shape), with_kwargs=True)
    layer(x=Tensor.zeros((1, 2)))
    assert [list(seen[0]), seen[1]] == [["x"], (1, 2)]
    assert list(layer._forward_pre_hooks) == [before.id]
    layer._forward_hooks.clear()
    before.remove()
    after.remove()
    seen.clear()
    layer(Tensor.zeros((1, 2)))
    assert seen == []


def test_backward_hooks_of_all_modules() -> None:
    seen: list[str] = []
    layer = nn.Linear(2, 2)
    handles = [
        nn.hooks.register_module_full_backward_pre_hook(lambda m, grads: seen.append("before")),
        nn.hooks.register_module_full_backward_hook(lambda m, grads, out: seen.append(type(m).__name__)),
    ]
    ag.sum(layer(ag.Parameter(Tensor.ones((1, 2))))).backward()
    for handle in handles:
        handle.remove()
    ag.sum(layer(ag.Parameter(Tensor.ones((1, 2))))).backward()
    assert seen == ["before", "Linear"]
