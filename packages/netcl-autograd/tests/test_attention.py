"""Attention as it is called: what sees what, grouped heads, dropout, rotary positions, capture, what does not fit."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.testing import assert_close

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def test_a_query_that_sees_nothing_gives_nothing(handle: Any) -> None:
    q, k, v = (Tensor.from_host(normal(2, 4, 8), requires_grad=True) for _ in range(3))
    seen = np.ones((2, 4, 4), bool)
    seen[0, 1] = False
    out = ag.scaled_dot_product_attention(q, k, v, mask=Tensor.from_host(seen))
    assert not out.numpy()[0, 1].any()
    assert np.isfinite(out.numpy()).all()
    for grad in ag.grad(ag.sum(ag.mul(out, out)), [q, k, v]):
        assert np.isfinite(grad.numpy()).all()
    assert (
        not ag.grad(ag.sum(ag.scaled_dot_product_attention(q, k, v, Tensor.from_host(seen))), [q])[0]
        .numpy()[0, 1]
        .any()
    )


def test_causal_by_flag_mask_and_addition_agree(handle: Any) -> None:
    q, k, v = (Tensor.from_host(normal(2, 5, 8)) for _ in range(3))
    flag = ops.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = ops.causal_mask(5)
    assert mask.dtype == "bool"
    assert_close(ops.scaled_dot_product_attention(q, k, v, mask), flag)
    bias = np.where(np.tri(5) > 0, 0, -np.inf).astype(np.float32)
    assert_close(ops.scaled_dot_product_attention(q, k, v, Tensor.from_host(bias)), flag)
    # The first query sees the first key alone.
    assert_close(flag.numpy()[:, 0], v.numpy()[:, 0])


def test_grouped_heads_are_repeated_ones(handle: Any) -> None:
    q, k, v = (
        Tensor.from_host(normal(2, 6, 3, 4)),
        Tensor.from_host(normal(2, 2, 3, 4)),
        Tensor.from_host(normal(2, 2, 3, 4)),
    )
    found = ops.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    many = [Tensor.from_host(np.repeat(x.numpy(), 3, axis=1)) for x in (k, v)]
    assert_close(found, ops.scaled_dot_product_attention(q, *many, is_causal=True))


def test_second_derivatives_of_attention(numpy_device: Any) -> None:
    q, k, v = (ag.Parameter(Tensor.from_host(RNG.normal(size=(2, 3, 2)), "float64")) for _ in range(3))
    bias = ag.Parameter(Tensor.from_host(RNG.normal(size=(3, 3)), "float64"))

    def attention(*operands: Any) -> Any:
        return ag.scaled_dot_product_attention(*operands)

    assert ag.gradcheck(attention, (q, k, v, bias))
    assert ag.gradgradcheck(attention, (q, k, v, bias))


def test_dropout_of_weights(handle: Any) -> None:
    q, k, v = (Tensor.from_host(normal(1, 8, 4)) for _ in range(3))
    state = ops.get_rng_state()
    ops.manual_seed(3)
    first = ops.scaled_dot_product_attention(q, k, v, dropout_p=0.5).numpy()
    ops.manual_seed(3)
    np.testing.assert_array_equal(ops.scaled_dot_product_attention(q, k, v, dropout_p=0.5).numpy(), first)
    ops.set_rng_state(state)
    assert not np.allclose(first, ops.scaled_dot_product_attention(q, k, v).numpy())


@pytest.mark.parametrize("dtype, rounding", [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_scores_of_half_types_are_not_rounded(numpy_device: Any, dtype: str, rounding: float) -> None:
    rng = np.random.default_rng(3)
    half = [Tensor.from_host(rng.uniform(-9, 9, (2, 5, 8)), dtype, requires_grad=True) for _ in range(3)]
    wide = [Tensor.from_host(x.detach().numpy().astype(np.float64), requires_grad=True) for x in half]
    for operands in (half, wide):
        ag.scaled_dot_product_attention(*operands, is_causal=True).sum().backward()
    for x, exact in zip(half, wide):
        scale = np.abs(exact.grad.numpy()).max()
        np.testing.assert_allclose(x.grad.numpy().astype(np.float64), exact.grad.numpy(), atol=2 * rounding * scale)


@pytest.mark.deep
def test_float16_scores_stay_in_range(handle: Any) -> None:
    q = Tensor.full((1, 2, 64), 60.0, "float16")
    out = ops.scaled_dot_product_attention(q, q, Tensor.ones((1, 2, 64), "float16"), scale=1 / 64)
    assert out.dtype == "float16"
    np.testing.assert_array_equal(out.numpy(), np.ones((1, 2, 64), np.float16))


@pytest.mark.level("capture")
def test_attention_is_replayed(handle: Any) -> None:
    from netcl.runtime.capture import capture

    q, k, v = (Tensor.from_host(normal(2, 4, 8)) for _ in range(3))

    def step(q: Any, k: Any, v: Any) -> Any:
        turned = ops.rope(q, positions=2)
        return ops.scaled_dot_product_attention(turned, ops.rope(k), v, ops.causal_mask(4, offset=1))

    eager = step(q, k, v).numpy()
    np.testing.assert_array_equal(capture(step, q, k, v).replay(q, k, v).numpy(), eager)


def test_no_queries_no_keys(handle: Any) -> None:
    q, k = Tensor.zeros((2, 0, 4)), Tensor.zeros((2, 3, 4))
    assert ops.scaled_dot_product_attention(q, k, k).shape == (2, 0, 4)
    assert not ops.scaled_dot_product_attention(k, q, q).numpy().any()
    assert ops.causal_mask(0, 3).shape == (0, 3)


def test_turned_vectors_keep_length_and_distance(handle: Any) -> None:
    q, k = normal(1, 6, 8), normal(1, 6, 8)
    for interleaved in (False, True):
        a, b = (ops.rope(Tensor.from_host(x), interleaved=interleaved).numpy() for x in (q, k))
        np.testing.assert_allclose(np.linalg.norm(a, axis=-1), np.linalg.norm(q, axis=-1), rtol=1e-5)
        # Products depend on the distance of positions alone.
        far = [ops.rope(Tensor.from_host(x), positions=5, interleaved=interleaved).numpy() for x in (q, k)]
        np.testing.assert_allclose(a @ b.swapaxes(1, 2), far[0] @ far[1].swapaxes(1, 2), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ops.rope(Tensor.from_host(q)).numpy()[:, 0], q[:, 0], rtol=1e-6)
    given = ops.rope(Tensor.from_host(q), positions=Tensor.from_host(np.arange(6) + 5)).numpy()
    np.testing.assert_array_equal(given, ops.rope(Tensor.from_host(q), positions=5).numpy())


def test_what_does_not_fit(numpy_device: Any) -> None:
    attention = ops.scaled_dot_product_attention
    q, k = Tensor.zeros((2, 3, 4)), Tensor.zeros((2, 5, 4))
    with pytest.raises(ShapeError, match=r"q \(2, 3, 4\), k \(2, 5, 4\), v \(2, 6, 4\)"):
        attention(q, k, Tensor.zeros((2, 6, 4)))
    with pytest.raises(ShapeError, match="scaled_dot_product_attention"):
        attention(q, Tensor.zeros((3, 5, 4)), Tensor.zeros((3, 5, 4)))
    with pytest.raises(ShapeError, match="grouped heads"):
        attention(Tensor.zeros((3, 2, 4)), Tensor.zeros((2, 2, 4)), Tensor.zeros((2, 2, 4)), enable_gqa=True)
    with pytest.raises(ValueError, match="either a mask or is_causal"):
        attention(q, k, k, mask=ops.causal_mask(3, 5), is_causal=True)
    with pytest.raises(DTypeError, match="int32"):
        attention(*(Tensor.zeros((2, 3, 4), "int32") for _ in range(3)))
    with pytest.raises(ShapeError, match=r"\(2, 3, 5\).* \(4, 5\)"):
        attention(q, k, k, mask=Tensor.zeros((4, 5)))
    with pytest.raises(ShapeError, match=r"rope: x \(3, 5\)"):
        ops.rope(Tensor.zeros((3, 5)))


def as_separate_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets netcl-core compute attention as products around a softmax from here on, as it does for few scores on NumPy;
    another core has one form only.
    """
    if find_spec("netcl.ops.tiled_attention"):
        monkeypatch.setattr("netcl.ops.tiled_attention.WORTH", {"cl": 1 << 40, "cpu": 1 << 40})


def as_one_operation(monkeypatch: pytest.MonkeyPatch, workspace: int) -> None:
    """Lets netcl-core compute attention as one operation from here on, in blocks of a few scores if it uses blocks;
    another core has one form only.
    """
    if find_spec("netcl.ops.tiled_attention"):
        monkeypatch.setattr("netcl.ops.tiled_attention.WORTH", {"cl": 0, "cpu": 0})
        monkeypatch.setattr("netcl.core.backend.attention_blocks._WORKSPACE", workspace)


def of_products(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: Any = None, enable_gqa: bool = False
) -> Any:
    """Computes attention by two products, an added mask, and a softmax; a row with all masked gives zeros."""
    if enable_gqa:
        k, v = (ag.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    scores = ag.matmul(q, k, transpose_b=True) * (q.shape[-1] ** -0.5 if scale is None else scale)
    seen = np.ones(scores.shape, bool)
    if is_causal:
        seen &= np.tril(seen)
    if mask is not None and mask.dtype == "bool":
        seen &= mask.numpy()
    elif mask is not None:
        scores = scores + mask
    scores = scores + Tensor.from_host(np.where(seen, 0, -1e9).astype(np.float32))
    some = seen.any(-1, keepdims=True).astype(np.float32)
    return ag.matmul(ag.softmax(scores) * Tensor.from_host(some), v)


@pytest.mark.parametrize("workspace", [100, pytest.param(2000, marks=pytest.mark.deep)])
def test_one_operation_gives_what_its_parts_give(handle: Any, workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    mask = rng.random((2, 1, 9, 11)) > 0.4
    mask[0, 0, 3] = False
    for q_shape, k_shape, values, options in (
        ((2, 4, 9, 6), (2, 4, 11, 6), 5, {}),
        ((2, 4, 9, 6), (2, 4, 11, 6), 6, {"mask": Tensor.from_host(mask)}),
        ((2, 4, 9, 6), (2, 4, 11, 6), 6, {"mask": Tensor.from_host(rng.random((4, 1, 11), dtype=np.float32))}),
        ((2, 4, 11, 6), (2, 2, 11, 6), 6, {"is_causal": True, "enable_gqa": True, "scale": 0.3}),
        ((9, 6), (11, 6), 6, {"mask": Tensor.from_host(mask[0, 0])}),
    ):
        shapes = (q_shape, k_shape, (*k_shape[:-1], values))
        operands = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

        results = []
        for form in ("one", "separate", "products"):
            if form == "one":
                as_one_operation(monkeypatch, workspace)
            elif form == "separate":
                as_separate_operations(monkeypatch)
            leaves = [Tensor.from_host(x, requires_grad=True) for x in operands]
            attention = of_products if form == "products" else ag.scaled_dot_product_attention
            out = attention(*leaves, **options)
            ag.sum(out * out).backward()
            results.append([out.numpy(), *(leaf.grad.numpy() for leaf in leaves)])
        for one, separate, wanted in zip(*results):
            np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(separate, wanted, rtol=1e-4, atol=1e-5)


def test_second_derivatives_of_attention_as_one_operation(handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    as_one_operation(monkeypatch, 30)
    q, k, v = (ag.Parameter(Tensor.from_host(RNG.normal(size=(1, 3, 2)), "float64")) for _ in range(3))

    def attention(*operands: Any) -> Any:
        return ag.scaled_dot_product_attention(*operands, is_causal=True)

    assert ag.gradcheck(attention, (q, k, v))
    assert ag.gradgradcheck(attention, (q, k, v))


def test_one_operation_in_half_types(handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    as_one_operation(monkeypatch, 50)
    operands = [normal(2, 7, 4) * 0.5 for _ in range(3)]
    half = [Tensor.from_host(x, "float16", requires_grad=True) for x in operands]
    out = ag.scaled_dot_product_attention(*half)
    wide = of_products(*(Tensor.from_host(x) for x in operands)).numpy()
    np.testing.assert_allclose(out.numpy().astype(np.float32), wide, atol=5e-3)
    ag.sum(out).backward()
    assert all(x.grad.dtype == "float16" and np.isfinite(x.grad.numpy().astype(np.float32)).all() for x in half)
