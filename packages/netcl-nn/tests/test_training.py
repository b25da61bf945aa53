"""Small models learn, compiled models compute the same, and functional has torch's names."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import netcl as nc
import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import Tensor
from netcl.core.errors import CaptureError
from netcl.nn import functional as F


def descend(model: nn.Module, lr: float) -> None:
    for p in model.parameters():
        p.write(ag.sub(p.detach(), ag.mul(p.grad.detach(), lr)))
    model.zero_grad()


def test_a_convolutional_network_learns(rng) -> None:
    # Two kinds of picture: a bright column or a bright row.
    labels = rng.integers(0, 2, 64)
    pictures = rng.standard_normal((64, 1, 6, 6)).astype(np.float32) * 0.3
    for picture, label in zip(pictures, labels):
        at = rng.integers(6)
        picture[0][(slice(None), at) if label else (at, slice(None))] += 1.5
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(54, 2),
    )
    x, y, loss_of = Tensor.from_host(pictures), Tensor.from_host(labels), nn.CrossEntropyLoss()
    losses = []
    for _ in range(40):
        with ag.Tape() as tape:
            loss = loss_of(model(x), y)
        tape.backward(loss)
        descend(model, 0.3)
        losses.append(loss.item())
    assert losses[-1] < 0.25 * losses[0]
    predicted = model.eval()(x).to_host().argmax(1)
    assert (predicted == labels).mean() > 0.95


@pytest.mark.level("capture")
def test_compile_replays_the_forward_pass(normal) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).eval()
    x, y = normal(5, 4), normal(5, 4)
    forward = model.compile(x)
    for given in (y, x):
        np.testing.assert_array_equal(forward(given).to_host(), model(given).to_host())
    model[0].bias.write(model[0].bias.to_host() + 1)
    np.testing.assert_array_equal(forward(y).to_host(), model(y).to_host())
    with pytest.raises(CaptureError, match=r"\(6, 4\)"):
        forward(normal(6, 4))
    model.train()
    with pytest.raises(CaptureError, match="changed"):
        forward(y)


@pytest.mark.level("capture")
def test_a_replay_is_refused_after_the_model_has_moved(normal) -> None:
    x = normal(2, 3)
    if x.device.backend == "cpu":
        pytest.skip("needs an OpenCL device, from which the model moves to NumPy")
    model = nn.Linear(3, 2)
    forward = model.compile(x)
    forward(x)
    model.to("cpu")
    with pytest.raises(CaptureError, match="changed"):
        forward(x)


def _trained(compiled: str) -> tuple[list[float], nn.Module]:
    """Losses of a model that is trained as PyTorch's tutorials do, and the model."""
    ops.manual_seed(0)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 3))
    called = nc.compile(model) if compiled == "by compile" else model
    if compiled == "in place":
        assert model.compile(fullgraph=True, mode="reduce-overhead") is None
    losses = []
    for size in (6, 6, 6, 5, 6):
        x, y = (
            Tensor.from_host(rng.standard_normal((size, 4)).astype(np.float32)),
            Tensor.from_host(np.arange(size) % 3),
        )
        loss = F.cross_entropy(called(x), y)
        loss.backward()
        descend(model, 0.1)
        losses.append(loss.item())
    return losses, model


@pytest.mark.parametrize("compiled", ["by compile", "in place"])
def test_a_compiled_model_trains_in_an_ordinary_loop(compiled: str, normal) -> None:
    losses, plain = _trained("not")
    found, model = _trained(compiled)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    x = normal(3, 4)
    expected = plain.eval()(x).to_host()
    for other in (model.eval(), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_allclose(other(x).to_host(), expected, rtol=1e-4, atol=1e-5)
    assert list(model.state_dict()) == list(plain.state_dict())


def test_a_module_compiled_in_place_computes_by_its_own_copy_and_calls_its_hooks(normal) -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    model.compile()
    calls: list[tuple[int, ...]] = []
    model.register_forward_hook(lambda module, inputs, output: calls.append(output.shape))
    x, other = normal(3, 4), copy.deepcopy(model)
    other[0].weight.write(other[0].weight.to_host() * 0.0)
    other[0].bias.write(other[0].bias.to_host() * 0.0)
    assert other(x).to_host().max() == 0.0
    assert model(x).to_host().max() > 0.0
    assert calls == [(3, 2), (3, 2)]
    model.forward = lambda x: x * 2.0
    model.compile()
    assert model(x).tolist() == (x * 2.0).tolist()
    with pytest.raises(TypeError, match="expected samples to capture or options"):
        model.compile(x, fullgraph=True)


def test_functional(normal) -> None:
    x = normal(4, 6)
    host = x.to_host()
    np.testing.assert_allclose(F.relu(x).to_host(), np.maximum(host, 0))
    np.testing.assert_allclose(F.hardtanh(x).to_host(), np.clip(host, -1, 1))
    unit = host / np.sqrt((host**2).sum(1, keepdims=True))
    np.testing.assert_allclose(F.normalize(x).to_host(), unit, rtol=1e-5)
    np.testing.assert_array_equal(F.one_hot(np.array([0, 2]), 3).to_host(), np.eye(3)[[0, 2]])
    assert F.dropout(x, training=False) is x
    assert F.dropout(x, 0.0) is x
    assert (F.dropout(x, 0.5).to_host() == 0).any()
    picture = normal(1, 1, 2, 2)
    np.testing.assert_array_equal(
        F.interpolate(picture, scale_factor=2).to_host(), picture.to_host().repeat(2, 2).repeat(2, 3)
    )
    weight, bias = normal(3, 6), normal(3)
    np.testing.assert_allclose(
        F.linear(x, weight, bias).to_host(), host @ weight.to_host().T + bias.to_host(), rtol=1e-4, atol=1e-5
    )
    normalised = F.batch_norm(x, None, None, training=True).to_host()
    np.testing.assert_allclose(normalised.std(0), 1, rtol=1e-3)
    with pytest.raises(AttributeError, match="no_such_function"):
        F.no_such_function(x)
