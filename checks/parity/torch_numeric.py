"""Elementary functions, reductions, products, attention, norms, losses and promotion against PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl.autograd as ag
from netcl import ops
from netcl.core import Tensor

RNG = np.random.default_rng(4)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def uniform(low: float, high: float, *shape: int) -> np.ndarray:
    return RNG.uniform(low, high, shape)


SEEN = RNG.random((2, 1, 4, 5)) > 0.4
SEEN[0, 0, 1] = False
IDS = np.array([[1, 2, 2], [3, 1, 1], [2, 1, 3]])
STEPS, COUNTS = [8, 7, 6], [3, 2, 1]
POSITIVE = uniform(0.5, 2, 5)
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0])

# name: (netcl, PyTorch, inputs); every input is differentiated, in float64.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]] = {
    **{
        name: (getattr(ag, name), getattr(torch, name), [normal(33)])
        for name in ("exp2", "erfc", "asinh", "sinh", "expm1")
    },
    "acosh": (ag.acosh, torch.acosh, [uniform(1.1, 4, 33)]),
    "atanh": (ag.atanh, torch.atanh, [uniform(-0.9, 0.9, 33)]),
    "erfinv": (ag.erfinv, torch.erfinv, [uniform(-0.99, 0.99, 33)]),
    "lgamma": (ag.lgamma, torch.lgamma, [uniform(0.1, 9, 33)]),
    "lgamma below 0": (ag.lgamma, torch.lgamma, [uniform(-0.9, -0.1, 33)]),
    "digamma": (ag.digamma, torch.digamma, [uniform(0.1, 9, 33)]),
    "log10": (ag.log10, torch.log10, [uniform(0.1, 9, 33)]),
    "logit": (ag.logit, torch.logit, [uniform(0.1, 0.9, 33)]),
    "logit limited": (lambda x: ag.logit(x, eps=0.2), lambda x: torch.logit(x, eps=0.2), [uniform(0, 1, 33)]),
    "hypot": (ag.hypot, torch.hypot, [normal(33), normal(33)]),
    "logaddexp": (ag.logaddexp, torch.logaddexp, [normal(33), normal(33)]),
    "lerp": (ag.lerp, torch.lerp, [normal(33), normal(33), uniform(0, 1, 33)]),
    "softshrink": (ag.softshrink, F.softshrink, [normal(33)]),
    "hardshrink": (ag.hardshrink, F.hardshrink, [normal(33)]),
    "tanhshrink": (ag.tanhshrink, F.tanhshrink, [normal(33)]),
    "mish": (ag.mish, F.mish, [normal(33)]),
    "logsigmoid": (ag.logsigmoid, F.logsigmoid, [normal(33)]),
    "celu": (lambda x: ag.celu(x, alpha=2.0), lambda x: F.celu(x, 2.0), [normal(33)]),
    "selu": (ag.selu, F.selu, [normal(33)]),
    "gelu tanh": (lambda x: ag.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh"), [normal(33)]),
    "glu": (ag.glu, F.glu, [normal(3, 6)]),
    "norm 3": (lambda x: ag.norm(x, p=3, axis=1), lambda x: torch.linalg.vector_norm(x, 3, 1), [normal(4, 5)]),
    "norm inf": (
        lambda x: ag.norm(x, p=float("inf"), axis=(0, 2)),
        lambda x: torch.linalg.vector_norm(x, float("inf"), (0, 2)),
        [normal(2, 3, 4)],
    ),
    "norm -1": (lambda x: ag.norm(x, p=-1, axis=1), lambda x: torch.linalg.vector_norm(x, -1, 1), [normal(4, 5)]),
    "std": (lambda x: ag.std(x, axis=1, ddof=1), lambda x: x.std(1), [normal(4, 5)]),
    "prod": (lambda x: ag.prod(x, axis=1), lambda x: x.prod(1), [normal(4, 5)]),
    "logsumexp": (lambda x: ag.logsumexp(x, axis=(0, 1)), lambda x: x.logsumexp((0, 1)), [normal(4, 5)]),
    "addmm": (
        lambda x, a, b: ag.addmm(x, a, b, beta=0.5, alpha=2.0),
        lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2.0),
        [normal(4), normal(3, 5), normal(5, 4)],
    ),
    "baddbmm": (ag.baddbmm, torch.baddbmm, [normal(2, 3, 4), normal(2, 3, 5), normal(2, 5, 4)]),
    "tensordot": (
        lambda a, b: ag.tensordot(a, b, axes=([0, 2], [1, 0])),
        lambda a, b: torch.tensordot(a, b, dims=([0, 2], [1, 0])),
        [normal(2, 3, 4), normal(4, 2, 5)],
    ),
    "kron": (ag.kron, torch.kron, [normal(2, 3), normal(4, 2)]),
    "einsum": (
        lambda a, b, c: ag.einsum("bij,bjk,...k->i...", a, b, c),
        lambda a, b, c: torch.einsum("bij,bjk,...k->i...", a, b, c),
        [normal(2, 3, 4), normal(2, 4, 5), normal(3, 2, 5)],
    ),
    "einsum of a diagonal": (
        lambda a: ag.einsum("...ii->...i", a),
        lambda a: torch.einsum("...ii->...i", a),
        [normal(2, 3, 3)],
    ),
    "attention": (
        ag.scaled_dot_product_attention,
        F.scaled_dot_product_attention,
        [normal(2, 3, 4, 6), normal(2, 3, 5, 6), normal(2, 3, 5, 7)],
    ),
    "attention masked": (
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, Tensor.from_host(SEEN)),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.tensor(SEEN)),
        [normal(2, 3, 4, 6), normal(2, 3, 5, 6), normal(2, 3, 5, 6)],
    ),
    "attention biased": (
        lambda q, k, v, bias: ag.scaled_dot_product_attention(q, k, v, bias, scale=0.3),
        lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, bias, scale=0.3),
        [normal(2, 4, 6), normal(2, 5, 6), normal(2, 5, 6), normal(4, 5)],
    ),
    "attention causal": (
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [normal(2, 4, 6), normal(2, 5, 6), normal(2, 5, 6)],
    ),
    "attention grouped": (
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        [normal(2, 6, 4, 5), normal(2, 2, 3, 5), normal(2, 2, 3, 5)],
    ),
    "group_norm": (
        lambda x, w, b: ag.group_norm(x, 3, w, b),
        lambda x, w, b: F.group_norm(x, 3, w, b),
        [normal(2, 6, 4), normal(6), normal(6)],
    ),
    "instance_norm": (
        ag.instance_norm,
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        [normal(2, 3, 4, 5), normal(3), normal(3)],
    ),
    "rms_norm": (
        lambda x, w: ag.rms_norm(x, 5, w),
        lambda x, w: F.rms_norm(x, (5,), w, eps=1e-6),
        [normal(3, 5), normal(5)],
    ),
    "layer_norm": (
        lambda x, w, b: ag.layer_norm(x, (4, 5), w, b),
        lambda x, w, b: F.layer_norm(x, (4, 5), w, b),
        [normal(3, 4, 5), normal(4, 5), normal(4, 5)],
    ),
    "l2_normalize": (ag.l2_normalize, lambda x: F.normalize(x, dim=-1), [normal(3, 5)]),
    "huber_loss": (
        lambda x, y: ag.huber_loss(x, y, delta=0.7),
        lambda x, y: F.huber_loss(x, y, delta=0.7),
        [normal(4, 5), normal(4, 5)],
    ),
    "smooth_l1_loss": (
        lambda x, y: ag.smooth_l1_loss(x, y, beta=0.7, reduction="sum"),
        lambda x, y: F.smooth_l1_loss(x, y, beta=0.7, reduction="sum"),
        [normal(4, 5), normal(4, 5)],
    ),
    "kl_div": (
        lambda x, y: ag.kl_div(x, y, reduction="batchmean"),
        lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        [normal(4, 5), uniform(0.1, 1, 4, 5)],
    ),
    "bce_with_logits": (
        lambda x, y: ag.binary_cross_entropy_with_logits(x, y, pos_weight=Tensor.from_host(POSITIVE, "float64")),
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(POSITIVE)),
        [normal(4, 5), uniform(0, 1, 4, 5)],
    ),
    "cosine_embedding_loss": (
        lambda a, b: ag.cosine_embedding_loss(a, b, Tensor.from_host(SIGNS, "float64"), margin=0.2),
        lambda a, b: F.cosine_embedding_loss(a, b, torch.tensor(SIGNS), margin=0.2),
        [normal(5, 4), normal(5, 4)],
    ),
    "ctc_loss": (
        lambda x: ag.ctc_loss(ag.log_softmax(x, axis=-1), Tensor.from_host(IDS), STEPS, COUNTS),
        lambda x: F.ctc_loss(F.log_softmax(x, -1), torch.tensor(IDS), torch.tensor(STEPS), torch.tensor(COUNTS)),
        [normal(8, 3, 5)],
    ),
    "ctc_loss of each": (
        lambda x: ag.ctc_loss(
            ag.log_softmax(x, axis=-1), Tensor.from_host(IDS - 1), STEPS, COUNTS, blank=4, reduction="none"
        ),
        lambda x: F.ctc_loss(
            F.log_softmax(x, -1),
            torch.tensor(IDS - 1),
            torch.tensor(STEPS),
            torch.tensor(COUNTS),
            blank=4,
            reduction="none",
        ),
        [normal(8, 3, 5)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, theirs, inputs = CASES[name]
    nodes = [ag.Parameter(Tensor.from_host(array, "float64")) for array in inputs]
    leaves = [torch.tensor(array, requires_grad=True) for array in inputs]
    out, expected = ours(*nodes), theirs(*leaves)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    weight = normal(*expected.shape)
    ag.sum(ag.mul(out, Tensor.from_host(weight, "float64"))).backward()
    (expected * torch.tensor(weight)).sum().backward()
    for node, leaf in zip(nodes, leaves, strict=True):
        np.testing.assert_allclose(node.grad.numpy(), leaf.grad.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_bits(name: str, dtype: str) -> None:
    a, b = (RNG.integers(0, 2 if dtype == "bool" else 100, 9).astype(dtype) for _ in range(2))
    found = getattr(ops, name)(Tensor.from_host(a, dtype), Tensor.from_host(b, dtype))
    np.testing.assert_array_equal(found.numpy(), getattr(torch, name)(torch.tensor(a), torch.tensor(b)).numpy())
    np.testing.assert_array_equal((~Tensor.from_host(a, dtype)).numpy(), (~torch.tensor(a)).numpy())


DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8", "bool")


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
def test_promotion(a: str, b: str) -> None:
    found = ops.add(Tensor.ones(2, a), Tensor.ones(2, b)).dtype
    assert found == str(torch.promote_types(getattr(torch, a), getattr(torch, b))).removeprefix("torch.")


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("number", [True, 2, 2.5])
def test_promotion_of_python_numbers(a: str, number: float) -> None:
    found = ops.mul(Tensor.ones(2, a), number).dtype
    assert found == str((torch.ones(2, dtype=getattr(torch, a)) * number).dtype).removeprefix("torch.")
