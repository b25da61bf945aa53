"""Arguments that PyTorch's functions take: weights of losses, dtypes, hints, samplers of ranks, integers with grad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl as nc
import netcl.nn.functional as nf
import netcl.torch as facade

X = np.random.default_rng(3).normal(0, 2, (3, 4)).astype(np.float32)
T = np.random.default_rng(4).normal(0, 2, (3, 4)).astype(np.float32)
W = np.random.default_rng(5).uniform(0.1, 2, (3, 4)).astype(np.float32)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("name", "options"), [("mse_loss", {}), ("l1_loss", {}), ("huber_loss", {"delta": 0.7})])
def test_weighted_losses(name: str, options: dict[str, Any], reduction: str) -> None:
    ours, theirs = ([make(a, requires_grad=True) for a in (X, T, W)] for make in (nc.tensor, torch.tensor))
    mine = getattr(nf, name)(ours[0], ours[1], weight=ours[2], reduction=reduction, **options)
    other = getattr(F, name)(theirs[0], theirs[1], weight=theirs[2], reduction=reduction, **options)
    np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-5)
    mine.sum().backward()
    other.sum().backward()
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_a_weight_of_another_shape_is_refused(name: str) -> None:
    for module, make in ((F, torch.tensor), (nf, nc.tensor)):
        with pytest.raises(ValueError, match="(?i)weight"):
            getattr(module, name)(make(X), make(T), weight=make(W[0]))


def test_softmin_takes_a_dtype() -> None:
    for dim in (0, 1):
        mine = nf.softmin(nc.tensor(X).half(), dim, dtype=nc.float32)
        other = F.softmin(torch.tensor(X).half(), dim, dtype=torch.float32)
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-6)


def test_gumbel_softmax_by_position() -> None:
    for module, make in ((F, torch.tensor), (nf, nc.tensor)):
        np.testing.assert_array_equal(module.gumbel_softmax(make(X), 1.0, True, 1e-10, 0).numpy().sum(0), np.ones(4))


def test_is_causal_needs_a_mask() -> None:
    for module, make in ((F, torch.ones), (nf, nc.ones)):
        x, weights = make(3, 1, 4), (make(12, 4), make(12), None, None, False, 0.0, make(4, 4), make(4))
        with pytest.raises(RuntimeError, match="attn_mask"):
            module.multi_head_attention_forward(x, x, x, 4, 2, *weights, is_causal=True)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_integers_cannot_require_grad(dtype: str) -> None:
    for module in (torch, nc):
        for way in (
            lambda m: m.zeros(3, dtype=getattr(m, dtype)).requires_grad_(),
            lambda m: m.zeros(3, dtype=getattr(m, dtype), requires_grad=True),
            lambda m: setattr(m.zeros(3, dtype=getattr(m, dtype)), "requires_grad", True),
        ):
            with pytest.raises(RuntimeError, match="(?i)only tensors of floating"):
                way(module)


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"seed": 2**31 + 5}, {"shuffle": False}])
def test_the_shards_of_ranks(options: dict[str, Any]) -> None:
    theirs = torch.utils.data.distributed.DistributedSampler
    ours = facade.utils.data.distributed.DistributedSampler
    for length, replicas in ((23, 4), (8, 4), (2, 3)):
        for rank in range(replicas):
            a, b = (kind(range(length), replicas, rank, **options) for kind in (ours, theirs))
            for epoch in (None, 0, 7):
                if epoch is not None:
                    a.set_epoch(epoch)
                    b.set_epoch(epoch)
                assert list(a) == list(map(int, b))
                assert len(a) == len(b)


def test_uninitialized_tensors_are_given_a_shape() -> None:
    for module in (torch.nn.parameter, facade.nn.parameter):
        for kind in ("UninitializedBuffer", "UninitializedParameter"):
            made = getattr(module, kind)()
            made.materialize((2, 3))
            assert tuple(made.shape) == (2, 3)
            assert type(made) is (module.Parameter if kind.endswith("Parameter") else type(made.data))


@pytest.mark.parametrize("mode", ["RNN_TANH", "RNN_RELU", "LSTM", "GRU"])
def test_the_base_class_of_recurrent_layers(mode: str) -> None:
    theirs = torch.nn.RNNBase(mode, 3, 4, 2, bidirectional=True)
    ours = facade.nn.RNNBase(mode, 3, 4, 2, bidirectional=True)
    ours.load_state_dict({key: nc.tensor(value.numpy()) for key, value in theirs.state_dict().items()})
    assert isinstance(getattr(facade.nn, mode.partition("_")[0])(1, 1), facade.nn.RNNBase)
    assert [[tuple(w.shape) for w in part] for part in ours.all_weights] == [
        [tuple(w.shape) for w in part] for part in theirs.all_weights
    ]
    assert ours.mode == theirs.mode
