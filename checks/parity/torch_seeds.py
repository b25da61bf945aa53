"""What follows from a seed on "cpu" against PyTorch: weights of layers, initializers, orders of samples, samples of
distributions, and states that cross.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import netcl as nc
import netcl.torch as ours

Make = Callable[[Any], Any]  # of the module torch or netcl.torch

LAYERS: dict[str, Make] = {
    "Linear": lambda t: t.nn.Linear(20, 30),
    "Bilinear": lambda t: t.nn.Bilinear(3, 4, 5),
    "Conv1d": lambda t: t.nn.Conv1d(4, 8, 3, groups=2),
    "Conv2d": lambda t: t.nn.Conv2d(3, 8, 3),
    "Conv3d": lambda t: t.nn.Conv3d(2, 3, 3),
    "ConvTranspose2d": lambda t: t.nn.ConvTranspose2d(3, 8, 3),
    "LSTM": lambda t: t.nn.LSTM(5, 7, 2, bidirectional=True),
    "GRU": lambda t: t.nn.GRU(5, 7),
    "RNN": lambda t: t.nn.RNN(5, 7),
    "LSTMCell": lambda t: t.nn.LSTMCell(5, 7),
    "GRUCell": lambda t: t.nn.GRUCell(5, 7),
    "RNNCell": lambda t: t.nn.RNNCell(5, 7),
    "Embedding": lambda t: t.nn.Embedding(10, 7, padding_idx=2),
    "EmbeddingBag": lambda t: t.nn.EmbeddingBag(10, 7),
    "MultiheadAttention": lambda t: t.nn.MultiheadAttention(16, 4),
    "MultiheadAttention, other widths": lambda t: t.nn.MultiheadAttention(16, 4, kdim=8, vdim=12),
    "TransformerEncoder": lambda t: t.nn.TransformerEncoder(t.nn.TransformerEncoderLayer(16, 4, 32), 2),
    "TransformerDecoderLayer": lambda t: t.nn.TransformerDecoderLayer(16, 4, 32),
    "Transformer": lambda t: t.nn.Transformer(16, 4, 1, 1, 32),
    "AdaptiveLogSoftmaxWithLoss": lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10]),
    "weight_norm": lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 5)),
    "spectral_norm": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 5)),
    "spectral_norm by hooks": lambda t: t.nn.utils.spectral_norm(t.nn.Linear(4, 5)),
    "orthogonal": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(4, 5)),
}
INITIALIZERS: dict[str, dict[str, Any]] = {
    "uniform_": {},
    "normal_": {},
    "trunc_normal_": {},
    "trunc_normal_ of a tail": {"a": 1.0, "b": 2.0},
    "xavier_uniform_": {},
    "xavier_normal_": {},
    "kaiming_uniform_": {"mode": "fan_out"},
    "kaiming_normal_": {"nonlinearity": "relu"},
    "orthogonal_": {"gain": 2.0},
}
SAMPLES: dict[str, Make] = {
    "Normal": lambda t: t.distributions.Normal(t.zeros(3), t.ones(3)).sample(),
    "Uniform": lambda t: t.distributions.Uniform(0.0, t.ones(4)).sample(),
    "Bernoulli": lambda t: t.distributions.Bernoulli(t.tensor([0.2, 0.3, 0.5])).sample(),
    "Laplace": lambda t: t.distributions.Laplace(t.zeros(3), t.ones(3)).sample(),
    "LogNormal": lambda t: t.distributions.LogNormal(t.zeros(3), t.ones(3)).sample(),
    "Cauchy": lambda t: t.distributions.Cauchy(t.zeros(3), t.ones(3)).sample(),
    "Gumbel": lambda t: t.distributions.Gumbel(t.zeros(3), t.ones(3)).sample(),
    "Geometric": lambda t: t.distributions.Geometric(t.tensor([0.3, 0.3])).sample(),
    "MultivariateNormal": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.eye(2)).sample(),
    "Categorical": lambda t: t.distributions.Categorical(t.tensor([0.2, 0.3, 0.5])).sample((7,)),
    "Multinomial": lambda t: t.distributions.Multinomial(5, t.tensor([0.3, 0.3])).sample(),
    "normal of tensors": lambda t: t.normal(t.zeros(4), 2.0),
    "randint_like": lambda t: t.randint_like(t.zeros(4), 5),
    "rand_like": lambda t: t.rand_like(t.zeros(20)),
    "randn float64": lambda t: t.randn(20, dtype=t.float64),
    "bernoulli_ of a tensor": lambda t: t.zeros(9).bernoulli_(t.linspace(0, 1, 9)),
}
# PyTorch on Intel's CPUs takes these from MKL's generator.
BY_EXPONENTIAL: dict[str, Make] = {
    "Exponential": lambda t: t.distributions.Exponential(t.ones(3)).sample(),
    "one Categorical": lambda t: t.distributions.Categorical(t.tensor([0.2, 0.3, 0.5])).sample(),
    "multinomial": lambda t: t.multinomial(t.tensor([0.2, 0.3, 0.5]), 2),
    "gumbel_softmax": lambda t: t.nn.functional.gumbel_softmax(t.zeros(4)),
    "bernoulli_": lambda t: t.zeros(9).bernoulli_(0.3),
}
_INTEL = "GenuineIntel" in Path("/proc/cpuinfo").read_text()


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = nc.default_generator.numbers
    yield
    nc.default_generator.numbers = before


def _both(make: Make, seed: int = 3) -> tuple[Any, Any]:
    """The results of ``make`` under PyTorch and here; the next number after them is equal too."""
    torch.manual_seed(seed)
    theirs, their_next = make(torch), torch.rand(1).item()
    ours.manual_seed(seed)
    found, our_next = make(ours), ours.rand(1).item()
    assert our_next == their_next
    return theirs, found


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:.*_norm.*:FutureWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_weights_of_layers(name: str) -> None:
    theirs, found = (layer.state_dict() for layer in _both(LAYERS[name]))
    assert list(theirs) == list(found)
    for key, value in theirs.items():
        np.testing.assert_allclose(found[key].numpy(), value.numpy(), 1e-6, 1e-6, err_msg=key)


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (4, 3, 3, 3)])
@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers(name: str, shape: tuple[int, ...]) -> None:
    options = INITIALIZERS[name]
    theirs, found = _both(lambda t: getattr(t.nn.init, name.split()[0])(t.empty(shape), **options))
    np.testing.assert_allclose(found.numpy(), theirs.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    theirs, found = _both(SAMPLES[name])
    np.testing.assert_allclose(found.numpy(), theirs.numpy(), 1e-5, 1e-6)


@pytest.mark.skipif(_INTEL, reason="needs a CPU that is not Intel's: PyTorch takes these numbers from MKL there")
@pytest.mark.parametrize("name", BY_EXPONENTIAL)
def test_samples_by_exponential_numbers(name: str) -> None:
    theirs, found = _both(BY_EXPONENTIAL[name])
    np.testing.assert_allclose(found.numpy(), theirs.numpy(), 1e-5, 1e-6)


def _orders(t: Any, data: Any) -> list[Any]:
    """Two epochs of each kind of loader, and parts of a data set."""
    found: list[Any] = []
    samples = data.TensorDataset(t.arange(23))
    kinds: list[dict[str, Any]] = [
        {"shuffle": False},
        {"shuffle": True},
        {"shuffle": True, "generator": t.Generator().manual_seed(9)},
        {"shuffle": True, "drop_last": True},
        {"sampler": data.WeightedRandomSampler([1.0, 2.0, 3.0, 4.0], 9)},
        {"sampler": data.SubsetRandomSampler(list(range(5)))},
        {"sampler": data.RandomSampler(samples, replacement=True, num_samples=40)},
        {"sampler": data.RandomSampler(samples, num_samples=30, generator=t.Generator().manual_seed(2))},
    ]
    for kind in kinds:
        loader = data.DataLoader(samples, batch_size=4, **kind)
        found += [[batch.tolist() for (batch,) in loader] for _ in range(2)]
    found += [list(part.indices) for part in data.random_split(samples, [10, 13])]
    found += [list(part.indices) for part in data.random_split(samples, [0.5, 0.5], t.Generator().manual_seed(2))]
    return found


def test_orders_of_samples() -> None:
    theirs, found = _both(lambda t: _orders(t, t.utils.data))
    assert found == theirs


def test_states_cross() -> None:
    torch.manual_seed(5)
    torch.randn(3)
    ours.set_rng_state(ours.tensor(torch.get_rng_state().numpy()))
    np.testing.assert_allclose(ours.randn(5).numpy(), torch.randn(5).numpy(), 1e-5, 1e-6)
    ours.nn.functional.dropout(ours.ones(100))  # counts of Philox in the state do not disturb PyTorch
    torch.set_rng_state(torch.from_numpy(ours.get_rng_state().numpy()))
    np.testing.assert_array_equal(torch.rand(9).numpy(), ours.rand(9).numpy())


def test_states_of_generators_cross() -> None:
    theirs, found = torch.Generator().manual_seed(4), ours.Generator().manual_seed(4)
    np.testing.assert_array_equal(found.get_state().numpy(), theirs.get_state().numpy())
    torch.rand(700, generator=theirs)
    found.set_state(ours.tensor(theirs.get_state().numpy()))
    assert ours.randperm(30, generator=found).tolist() == torch.randperm(30, generator=theirs).tolist()
