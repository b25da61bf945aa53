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
    exact = np.broadcast_to(w.unpack().numpy().sum(0), (2, 64))
    np.testing.assert_allclose(x.grad.numpy(), exact, rtol=0, atol=1e-4 * np.abs(exact).max())
    assert bias.grad.numpy().tolist() == [2.0] * 5
