"""Losses and their gradients against PyTorch, if it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor

torch = pytest.importorskip("torch", reason="PyTorch, the reference of this file, is not installed")
F = torch.nn.functional

RNG = np.random.default_rng(6)
REDUCTIONS = ("mean", "sum", "none")


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def uniform(*shape: int) -> Any:
    return RNG.uniform(0.05, 0.95, shape).astype(np.float32)


LABELS = RNG.integers(0, 5, 7)
PLANES = RNG.integers(0, 5, (2, 3, 4))
IGNORED = np.where(np.arange(7) % 3 == 0, -100, LABELS)
WEIGHT = uniform(5)
SIGNS = RNG.choice([-1.0, 1.0], 7).astype(np.float32)

# name: (ours, PyTorch's, differentiable inputs, constants)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any], list[Any]]] = {
    "cross_entropy": (ag.cross_entropy, F.cross_entropy, [normal(7, 5)], [LABELS]),
    "cross_entropy, images": (ag.cross_entropy, F.cross_entropy, [normal(2, 5, 3, 4)], [PLANES]),
    "cross_entropy, weights and ignored": (
        lambda x, y, w, **k: ag.cross_entropy(x, y, w, **k),
        lambda x, y, w, **k: F.cross_entropy(x, y, w, **k),
        [normal(7, 5)],
        [IGNORED, WEIGHT],
    ),
    "cross_entropy, smooth": (
        lambda x, y, w, **k: ag.cross_entropy(x, y, w, label_smoothing=0.2, **k),
        lambda x, y, w, **k: F.cross_entropy(x, y, w, label_smoothing=0.2, **k),
        [normal(7, 5)],
        [IGNORED, WEIGHT],
    ),
    "cross_entropy, probabilities": (
        lambda x, y, w, **k: ag.cross_entropy(x, y, w, label_smoothing=0.1, **k),
        lambda x, y, w, **k: F.cross_entropy(x, y, w, label_smoothing=0.1, **k),
        [normal(7, 5), RNG.dirichlet(np.ones(5), 7).astype(np.float32)],
        [WEIGHT],
    ),
    "nll_loss": (ag.nll_loss, F.nll_loss, [normal(7, 5)], [IGNORED, WEIGHT]),
    "mse_loss": (ag.mse_loss, F.mse_loss, [normal(4, 3), normal(4, 3)], []),
    "l1_loss": (ag.l1_loss, F.l1_loss, [normal(4, 3), normal(4, 3)], []),
    "smooth_l1_loss": (
        lambda *a, **k: ag.smooth_l1_loss(*a, beta=0.7, **k),
        lambda *a, **k: F.smooth_l1_loss(*a, beta=0.7, **k),
        [normal(4, 3), normal(4, 3)],
        [],
    ),
    "huber_loss": (
        lambda *a, **k: ag.huber_loss(*a, delta=0.7, **k),
        lambda *a, **k: F.huber_loss(*a, delta=0.7, **k),
        [normal(4, 3), normal(4, 3)],
        [],
    ),
    "binary_cross_entropy": (
        ag.binary_cross_entropy,
        F.binary_cross_entropy,
        [uniform(4, 3)],
        [uniform(4, 3), uniform(4, 3)],
    ),
    "binary_cross_entropy_with_logits": (
        lambda x, t, p, **k: ag.binary_cross_entropy_with_logits(x, t, None, p, **k),
        lambda x, t, p, **k: F.binary_cross_entropy_with_logits(x, t, None, pos_weight=p, **k),
        [normal(4, 3)],
        [uniform(4, 3), uniform(3)],
    ),
    "kl_div": (ag.kl_div, F.kl_div, [normal(4, 3)], [uniform(4, 3)]),
    "multi_margin_loss": (
        lambda x, y, **k: ag.multi_margin_loss(x, y, margin=0.8, **k),
        lambda x, y, **k: F.multi_margin_loss(x, y, margin=0.8, **k),
        [normal(7, 5)],
        [LABELS],
    ),
    "cosine_embedding_loss": (
        lambda a, b, t, **k: ag.cosine_embedding_loss(a, b, t, margin=0.1, **k),
        lambda a, b, t, **k: F.cosine_embedding_loss(a, b, t, margin=0.1, **k),
        [normal(7, 4), normal(7, 4)],
        [SIGNS],
    ),
    "triplet_loss": (
        lambda a, p, n, **k: ag.triplet_loss(a, p, n, distance="euclidean", **k),
        lambda a, p, n, **k: F.triplet_margin_loss(a, p, n, **k),
        [normal(7, 4), normal(7, 4), normal(7, 4)],
        [],
    ),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")  # PyTorch's advice on kl_div
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", CASES)
def test_loss(name: str, reduction: str, numpy_device: Any) -> None:
    ours, theirs, inputs, constants = CASES[name]
    leaves = [ag.Parameter(Tensor.from_host(value)) for value in inputs]
    expected_leaves = [torch.tensor(value, requires_grad=True) for value in inputs]
    found = ours(*leaves, *(Tensor.from_host(value) for value in constants), reduction=reduction)
    wanted = theirs(*expected_leaves, *(torch.tensor(value) for value in constants), reduction=reduction)
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=2e-5, atol=2e-6)
    grad = uniform(*wanted.shape)
    found.backward(grad)
    wanted.backward(torch.tensor(grad))
    for leaf, expected in zip(leaves, expected_leaves):
        np.testing.assert_allclose(leaf.grad.numpy(), expected.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shapes", [((1, 4), (2, 3, 4)), ((4,), (3, 4)), ((2, 3, 4), (4,)), ((), (3,))])
def test_kl_div_divides_by_the_batch_of_the_input(shapes: Any, numpy_device: Any) -> None:
    values = [-uniform(*shapes[0]), uniform(*shapes[1])]
    leaves = [ag.Parameter(Tensor.from_host(value)) for value in values]
    expected_leaves = [torch.tensor(value, requires_grad=True) for value in values]
    found, wanted = ag.kl_div(*leaves, "batchmean"), F.kl_div(*expected_leaves, reduction="batchmean")
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=2e-5)
    found.backward()
    wanted.backward()
    for leaf, expected in zip(leaves, expected_leaves):
        np.testing.assert_allclose(leaf.grad.numpy(), expected.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_gradient_penalty(numpy_device: Any) -> None:
    """The gradient of a gradient's norm, through a product, a convolution and a batch norm."""
    x, w, g = normal(3, 2, 5, 5), normal(4, 2, 3, 3), uniform(4)

    def penalty(x: Any, w: Any, g: Any, conv: Any, norm: Any, grad: Any) -> Any:
        y = norm(conv(x, w), g).tanh()
        (found,) = grad((y * y).sum(), x)
        return (found * found).sum()

    ours = [ag.Parameter(Tensor.from_host(value)) for value in (x, w, g)]
    theirs = [torch.tensor(value, requires_grad=True) for value in (x, w, g)]
    value = penalty(
        *ours,
        lambda x, w: ag.conv2d(x, w, padding=1),
        lambda y, g: ag.batch_norm(y, None, None, g, None, training=True),
        lambda y, x: ag.grad(y, x, create_graph=True),
    )
    wanted = penalty(
        *theirs,
        lambda x, w: F.conv2d(x, w, padding=1),
        lambda y, g: F.batch_norm(y, None, None, g, None, training=True),
        lambda y, x: torch.autograd.grad(y, x, create_graph=True),
    )
    value.backward()
    wanted.backward()
    assert float(value) == pytest.approx(wanted.item(), rel=1e-4)
    for leaf, expected in zip(ours, theirs):
        scale = float(expected.grad.abs().max())
        np.testing.assert_allclose(leaf.grad.numpy(), expected.grad.numpy(), rtol=1e-3, atol=1e-4 * scale)
