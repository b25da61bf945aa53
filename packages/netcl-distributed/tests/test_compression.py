"""Gradients in half of their bytes: rounding, sums in float32, and the error that DataParallel states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.distributed as dist
from netcl.core import DeviceHandle, Tensor
from netcl.distributed.reductions import BFLOAT16, from_bfloat16, reduce_in_order, to_bfloat16
from netcl.distributed.training.wire import compress, decompress

nn = pytest.importorskip("netcl.nn", reason="trains models of netcl-nn, which is not installed")

UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def test_bfloat16_rounds_to_nearest_even_and_keeps_special_values() -> None:
    given = np.array(
        [1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, 1.0 + 2**-8 + 2**-20, -0.0, np.inf, -np.inf, 3.4e38, 2e-45, np.nan],
        np.float32,
    )
    short = to_bfloat16(given)
    assert short.dtype == BFLOAT16
    got = from_bfloat16(short)
    expected = [1.0, 1.0, 1.0 + 2**-6, 1.0 + 2**-7, -0.0, np.inf, -np.inf, np.inf, 0.0]
    assert got[:-1].tolist() == expected
    assert np.signbit(got[4])
    assert np.isnan(got[-1])
    host = Tensor.from_host(given[:-1], "bfloat16").to_host()
    assert (host == got[:-1]).all()
    payload = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(from_bfloat16(to_bfloat16(payload))).all()


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
def test_bfloat16_is_reduced_in_float32_and_rounded_once(op: str) -> None:
    rng = np.random.default_rng(1)
    parts = [to_bfloat16(rng.standard_normal(1000).astype(np.float32)) for _ in range(5)]
    out = np.empty(1000, BFLOAT16)
    reduce_in_order(parts, op, out)
    wide = np.empty(1000, np.float32)
    reduce_in_order([from_bfloat16(part) for part in parts], op, wide)
    assert out.tobytes() == to_bfloat16(wide).tobytes()


@pytest.mark.parametrize("kind", list(UNITS))
@pytest.mark.parametrize("size", [2, 3])
def test_the_error_of_a_sum_against_float64_is_within_the_stated_bound(kind: str, size: int) -> None:
    rng = np.random.default_rng(size)
    values = (rng.standard_normal((size, 600_000)) * 2.0 ** rng.integers(-6, 6, 600_000)).astype(np.float32)

    def rank(group: Any) -> Any:
        short = compress(values[group.rank], kind)
        group.all_reduce(short)
        out = np.empty(short.shape, np.float32)
        decompress(short, out)
        return out

    found = dist.run_on_devices(rank, ["cpu"] * size)
    exact = values.astype(np.float64).sum(axis=0)
    bound = UNITS[kind] * (abs(values.astype(np.float64)).sum(axis=0) + abs(exact))
    error = abs(found[0] - exact)
    floor = 2.0**-24 * (size + 1) if kind == "float16" else 0.0
    assert (error <= 1.01 * bound + floor).all()
    assert (error > 0.3 * bound).any()
    assert all(one.tobytes() == found[0].tobytes() for one in found)


@pytest.mark.parametrize("kind", list(UNITS))
def test_models_with_compressed_gradients_stay_within_their_error(handles: list[DeviceHandle], kind: str) -> None:
    def gradients(compression: str | None) -> list[np.ndarray[Any, Any]]:
        module = nn.Linear(6, 3)
        rng = np.random.default_rng(0)
        for p in module.parameters():
            p.write(rng.standard_normal(p.shape).astype(np.float32))
        model = dist.DataParallel(module, devices=handles, compression=compression)
        x = Tensor.from_host(rng.standard_normal((9, 6)).astype(np.float32))
        model(x).mean().backward()
        return [p.grad.numpy() for p in module.parameters() if p.grad is not None]

    from netcl.core.device import device

    with device(handles[0]):
        wide, short = gradients(None), gradients(kind)
    different = False
    for one, other in zip(wide, short):
        assert abs(one - other).max() <= 4 * UNITS[kind] * max(abs(one).max(), 0.5)
        different = different or bool((one != other).any())
    assert different


def test_another_compression_is_refused() -> None:
    with pytest.raises(ValueError, match="None, 'float16' or 'bfloat16', got 'int8'"):
        dist.DataParallel(nn.Linear(1, 1), compression="int8")
    assert ag.is_grad_enabled()
