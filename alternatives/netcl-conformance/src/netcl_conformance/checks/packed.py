"""Level packed: the formats, bytes and numbers of packed matrices, and the linear layer of one."""

from __future__ import annotations

import numpy as np

import netcl.ops as ops
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.core.packed import FORMATS, PackedTensor, quantize
from netcl_conformance.checks.gradient import autograd
from netcl_conformance.checks.tensor import raises
from netcl_conformance.registry import check

# GGUF's number of each format, the numbers and the bytes of a block.
SIZES = {
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "IQ4_NL": (20, 32, 18),
    "MXFP4": (39, 32, 17),
}


@check("packed")
def formats_are_those_of_gguf() -> None:
    assert {row.name: (row.type_id, row.block, row.nbytes) for row in FORMATS.values()} == SIZES
    assert all(row.bits == 8 * row.nbytes / row.block for row in FORMATS.values())


@check("packed")
def bytes_come_back_and_numbers_are_scaled_quants() -> None:
    quants = np.arange(-32, 32, dtype=np.int8).reshape(2, 32)
    scales = np.array([[0.5], [-2.0]], np.float16)
    blocks = np.concatenate([scales.view(np.uint8), quants.view(np.uint8)], 1)
    w = PackedTensor.from_blocks(blocks.tobytes(), (2, 32), "Q8_0")
    assert w.to_blocks().tobytes() == blocks.tobytes()
    assert (w.shape, w.format, len(w.parts) > 0) == ((2, 32), "Q8_0", True)
    assert w.unpack().numpy().tolist() == (scales.astype(np.float32) * quants).tolist()
    assert w.rows(Tensor.from_host(np.array([1, 0, 1]))).numpy().tolist() == w.unpack().numpy()[[1, 0, 1]].tolist()
    assert w.to("cpu").to_blocks().tobytes() == blocks.tobytes()
    raises(ShapeError, lambda: PackedTensor.from_blocks(blocks.tobytes()[1:], (2, 32), "Q8_0"))
    raises(ShapeError, lambda: PackedTensor.from_blocks(blocks.tobytes(), (2, 33), "Q8_0"))


@check("packed")
def the_linear_layer_multiplies_by_the_unpacked_numbers() -> None:
    rng = np.random.default_rng(0)
    x, bias = rng.standard_normal((3, 256)).astype(np.float32), rng.standard_normal(5).astype(np.float32)
    for name in ("Q8_0", "Q4_0", "Q4_K"):
        w = quantize(rng.standard_normal((5, 256)).astype(np.float32), name)
        exact = x.astype(np.float64) @ w.unpack().numpy().T + bias
        given = Tensor.from_host(x), w, Tensor.from_host(bias)
        np.testing.assert_allclose(ops.packed_linear(*given).numpy(), exact, rtol=0, atol=1e-4 * np.abs(exact).max())


@check("packed")
def x_and_the_bias_have_gradients() -> None:
    rng = np.random.default_rng(1)
    w = quantize(rng.standard_normal((5, 64)).astype(np.float32), "Q8_0")
    x = Tensor.from_host(rng.standard_normal((2, 64)).astype(np.float32), requires_grad=True)
    bias = Tensor.zeros((5,), requires_grad=True)
    autograd().packed_linear(x, w, bias).sum().backward()
    assert x.grad is not None
    assert bias.grad is not None
    exact = np.broadcast_to(w.unpack().numpy().sum(0), (2, 64))
    np.testing.assert_allclose(x.grad.numpy(), exact, rtol=0, atol=1e-4 * np.abs(exact).max())
    assert bias.grad.numpy().tolist() == [2.0] * 5


@check("packed")
def the_linear_layer_has_a_norm_a_gate_and_a_residual() -> None:
    rng = np.random.default_rng(2)
    x, norm, bias, residual = (rng.standard_normal(n).astype(np.float32) for n in ((2, 64), 64, 6, (2, 3)))
    w = quantize(rng.standard_normal((6, 64)).astype(np.float32), "Q8_0")
    tensors = [Tensor.from_host(each) for each in (x, bias, norm, residual)]
    found = ops.packed_linear(tensors[0], w, *tensors[1:], eps=1e-5, gate="silu").numpy()
    wide = x.astype(np.float64)
    y = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * norm @ w.unpack().numpy().T + bias
    exact = y[:, :3] / (1 + np.exp(-y[:, :3])) * y[:, 3:] + residual
    np.testing.assert_allclose(found, exact, rtol=0, atol=3e-4 * np.abs(exact).max())


@check("packed")
def a_new_token_attends_to_the_cache_and_is_written_to_it() -> None:
    rng = np.random.default_rng(3)
    x, cache = (
        rng.standard_normal((1, 4, 8)).astype(np.float32),
        rng.standard_normal((2, 1, 1, 5, 8)).astype(np.float32),
    )
    tables = [Tensor.from_host(table) for table in cache]
    turns = Tensor.from_host(np.repeat([[1.0, 1.0, 0.0, 0.0]], 5, 0).astype(np.float32))  # no rotation
    used = Tensor.from_host(np.array([3], np.int32))
    found = ops.cached_attention(Tensor.from_host(x.reshape(1, -1)), *tables, used, turns, scale=0.5).numpy()
    keys, values = cache[0, 0, 0], cache[1, 0, 0]
    keys[3], values[3] = x[0, 2], x[0, 3]
    weights = np.exp(x[0, :2] @ keys[:4].T * 0.5)
    exact = weights / weights.sum(-1, keepdims=True) @ values[:4]
    np.testing.assert_allclose(found.reshape(2, 8), exact, rtol=0, atol=1e-5)
    np.testing.assert_allclose(tables[0].numpy()[0, 0, 3], x[0, 2], rtol=0, atol=1e-6)
    np.testing.assert_allclose(tables[1].numpy()[0, 0], values, rtol=0, atol=1e-6)
