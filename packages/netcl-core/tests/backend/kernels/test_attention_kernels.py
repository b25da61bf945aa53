"""Attention of the engines against NumPy in float64: every variant, masks, grouped heads, block edges, same bits."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import numpy as np
import pytest

from netcl.core import Tensor, config
from netcl.core.backend.opencl import templates
from netcl.core.backend.opencl.kernels.softmax_attention import attention, attention_unit
from netcl.core.backend.opencl.kernels.softmax_attention.attention_shape import AttentionShape, shape_of
from netcl.core.backend.opencl.queue.fallback import KernelFallback
from netcl.core.device.capabilities import profile_of
from netcl.core.errors import KernelBuildError, UnsupportedError
from netcl.core.tuning import matrix_units
from netcl.core.tuning.unit_table import UNITS

# Errors relative to the largest value of a result. Weights are at most 1, so the bound does not grow with the keys.
TOLERANCE = {"float32": 3e-6, "float64": 1e-13, "float16": 3e-3, "bfloat16": 2e-2}
# Samples, heads, heads that share, queries, keys, sizes of q and of v, mask, causal; just under and over the blocks of
# 32 queries or keys, 48 or 64 rows, tiles of 32 or 64.
LITTLE = [
    (2, 4, 2, 33, 70, 5, 7, None, False), (1, 2, 1, 70, 65, 20, 12, None, True), (2, 3, 3, 31, 40, 3, 4, "seen", False),
]  # fmt: skip
MORE = [
    (1, 1, 1, 1, 1, 1, 1, None, True), (2, 2, 1, 65, 40, 8, 130, "seen", False), (1, 1, 1, 5, 140, 4, 4, "row", False),
    (2, 3, 3, 31, 97, 5, 3, "added", False), (1, 2, 1, 40, 20, 16, 16, None, True),
    (1, 1, 1, 35, 67, 256, 255, None, False),
]  # fmt: skip

# Of two panels of columns, and of tiles with columns that are no power of two.
OF_UNITS = [(1, 2, 1, 40, 50, 96, 72, "added", False), (1, 2, 2, 70, 33, 40, 40, None, True)]


def problem(case: Any, dtype: str, engine: Any) -> tuple[list[Any], Any, float, list[Any]]:
    """Returns q, k, v and a gradient, the mask, the scale, and the results wanted of what was stored."""
    samples, heads, shared, queries, keys, width, values, kind, causal = case
    rng = np.random.default_rng(3)
    kept = heads // shared
    shapes = ((heads, queries, width), (kept, keys, width), (kept, keys, values), (heads, queries, values))
    stored = [Tensor.from_host(engine.queue, rng.standard_normal((samples, *shape)), dtype) for shape in shapes]
    q, k, v, grad = (np.asarray(x.numpy(), np.float64) for x in stored)
    mask = None
    if kind == "seen":
        mask = rng.random((samples, 1, queries, keys)) > 0.4
        mask[0, 0, 3] = False
    elif kind == "row":
        mask = rng.random((1, keys)) > 0.5
    elif kind == "added":
        mask = rng.standard_normal((heads, 1, keys)).astype(np.float32)
    scale = width**-0.5
    all_k, all_v = (np.repeat(x, shared, 1) for x in (k, v))
    scores = q @ all_k.swapaxes(-1, -2) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(queries, keys) > 0, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    by_weights = grad @ all_v.swapaxes(-1, -2)
    slopes = weights * (by_weights - (by_weights * weights).sum(-1, keepdims=True)) * scale

    def folded(x: Any) -> Any:
        return x.reshape(samples, kept, shared, keys, -1).sum(2)

    wanted = [
        weights @ all_v, slopes @ all_k, folded(slopes.swapaxes(-1, -2) @ q), folded(weights.swapaxes(-1, -2) @ grad),
    ]  # fmt: skip
    if mask is not None:
        mask = Tensor.from_host(engine.queue, mask, "bool" if mask.dtype == bool else "float32")
    return stored, mask, scale, wanted


def results(engine: Any, stored: list[Any], mask: Any, causal: bool, scale: float, **variant: Any) -> list[Any]:
    q, k, v, grad = stored
    options = {"causal": causal, "scale": scale, **variant}
    calls = ("attention", "attention_grad")
    forward, back = (partial(engine.kernel(call), engine) if variant else getattr(engine, call) for call in calls)
    out, lse = forward(q, k, v, mask, **options)
    grads = back(grad, q, k, v, mask, out, lse, **options)
    return [np.asarray(x.numpy(), np.float64) for x in (out, *grads)]


def check(engine: Any, case: Any, dtype: str, **variant: Any) -> None:
    stored, mask, scale, wanted = problem(case, dtype, engine)
    found = results(engine, stored, mask, case[-1], scale, **variant)
    for name, one, exact in zip(("out", "q", "k", "v"), found, wanted):
        # One key gives weights of 1, with slopes of 0 up to rounding.
        largest = max(float(np.abs(exact).max()), 1.0 if case[4] == 1 else 1e-3)
        assert np.abs(one - exact).max() <= TOLERANCE[dtype] * largest, (case, dtype, variant, name)
    again = results(engine, stored, mask, case[-1], scale, **variant)
    assert all(np.array_equal(one, other) for one, other in zip(found, again)), (case, dtype, variant)


@pytest.mark.parametrize("case", [*LITTLE, *(pytest.param(case, marks=pytest.mark.deep) for case in MORE)])
def test_attention_agrees_with_numpy(engine: Any, case: Any) -> None:
    check(engine, case, "float32")


@pytest.mark.deep
@pytest.mark.parametrize("variant", ["online", "blocks"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_every_variant_agrees_with_numpy(engine: Any, dtype: str, variant: str) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    for case in (*LITTLE, *MORE):
        stored, mask, *_ = problem(case, dtype, engine)
        shape = shape_of(*stored[:3], mask, case[-1])
        if variant == "online" and not attention._fits(templates.traits(engine), dtype, shape):
            with pytest.raises(UnsupportedError, match="does not fit"):  # more than this device's local memory
                check(engine, case, dtype, variant=variant)
        else:
            check(engine, case, dtype, variant=variant)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("group", [256, 128])
def test_the_kernels_of_other_devices_agree_with_numpy(
    engine: Any, group: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024, group))
    # PoCL takes minutes to optimise what it makes of barriers in loops.
    monkeypatch.setattr(engine, "launch", partial(engine.launch, options="-cl-opt-disable"))
    for case in (*LITTLE, MORE[1]):  # and one of more columns than a tile
        check(engine, case, dtype, variant="online")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", pytest.param("float16", marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "case",
    [LITTLE[1], *(pytest.param(case, marks=pytest.mark.deep) for case in (LITTLE[0], LITTLE[2], *MORE, *OF_UNITS))],
)
def test_attention_on_a_matrix_unit_agrees_with_numpy(
    engine: Any, case: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    parts, profile = 3 if dtype == "float32" else 0, profile_of(engine.queue)
    unit = matrix_units.attention_unit_of(profile, parts)
    if unit is None:
        unit = "mma_twin_3" if parts else "mma_twin"
        # Optimised, it takes tens of seconds to build, and Intel's compiler (2026.0) gets 48 columns wrong.
        monkeypatch.setattr(engine, "launch", partial(engine.launch, options="-cl-opt-disable"))
    if not attention_unit.fits(unit, *case[5:7], matrix_units.local_memory(profile)):
        pytest.skip("needs more local memory for heads of this size")
    check(engine, case, dtype, variant=unit)


@pytest.mark.parametrize(("parts", "error"), [(2, 1e-4), pytest.param(1, 2e-2, marks=pytest.mark.deep)])
def test_attention_of_float32_in_fewer_parts(
    engine: Any, parts: int, error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    unit = matrix_units.attention_unit_of(profile_of(engine.queue), parts)
    if unit is None:
        unit = f"mma_twin_{parts}"
        monkeypatch.setattr(engine, "launch", partial(engine.launch, options="-cl-opt-disable"))
    monkeypatch.setitem(TOLERANCE, "float32", error)
    check(engine, LITTLE[1], "float32", variant=unit)


def test_infinities_on_a_matrix_unit_are_those_of_float32(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    unit = matrix_units.attention_unit_of(profile_of(engine.queue), 3)
    if unit is None:
        unit = "mma_twin_3"
        monkeypatch.setattr(engine, "launch", partial(engine.launch, options="-cl-opt-disable"))
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, rows, 16)).astype(np.float32) for rows in (20, 24, 24))
    q[..., 3] = np.abs(q[..., 3])
    k[0, 0, 5, 3] = -np.inf  # a weight of 0 in each row
    v[0, 0, 7, 2] = np.inf
    v[0, 0, 8, 4] = np.nan
    q[0, 0, 6] = np.nan
    stored = [Tensor.from_host(engine.queue, x) for x in (q, k, v)]
    found, lse = (
        x.numpy() for x in engine.kernel("attention")(engine, *stored, None, causal=False, scale=0.25, variant=unit)
    )
    plain, plain_lse = (
        x.numpy() for x in engine.kernel("attention")(engine, *stored, None, causal=False, scale=0.25, variant="blocks")
    )
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(lse, plain_lse, rtol=1e-5, atol=1e-6)
    assert np.isposinf(np.delete(found[0, 0, :, 2], 6)).all()
    assert np.isnan(found[0, 0, :, 4]).all()
    assert np.isfinite(np.delete(np.delete(found[0, 0], 6, 0), [2, 4], 1)).all()


def test_a_tile_of_a_unit_fits_local_memory() -> None:
    for kernel, tiles in attention_unit._TILES.items():
        for columns in tiles:
            for most in (99 * 1024, 163 * 1024, 227 * 1024):
                tile = attention_unit._tile("mma", kernel, columns, columns, most)
                assert tile is not None
                assert attention_unit._local_bytes(kernel, tile, columns, columns, 0) <= most
    small, large = (attention_unit._tile("mma", "unit_by_q", 128, 128, most * 1024) for most in (99, 227))
    assert small is not None
    assert large is not None
    assert small.rows * small.warps < large.rows * large.warps
    for unit, columns, least in (("mma", 256, 99), ("mma_3", 64, 99), ("mma_3", 128, 227)):
        assert attention_unit.fits(unit, columns, columns, least * 1024)
    assert not attention_unit.fits("mma_3", 128, 128, 99 * 1024)
    assert not attention_unit.fits("mma_3", 129, 64, 227 * 1024)


def test_a_unit_whose_trial_fails_is_not_used(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no matrix units")
    trials = []

    def refused(name: str, *rest: Any, **how: Any) -> bool:
        trials.append(name)
        return False

    profile, known = profile_of(engine.queue), {unit: UNITS[unit] for unit in ("mma", "mma_3")}

    def seen_on(every_device: bool) -> None:
        for unit, row in known.items():
            monkeypatch.setitem(UNITS, unit, row._replace(may_have=lambda profile: every_device))

    seen_on(False)
    assert matrix_units.attention_unit_of(profile) is None
    seen_on(True)
    monkeypatch.setattr(matrix_units, "verdict", refused)
    assert matrix_units.attention_unit_of(profile) is None
    assert trials == ["attention_mma"]
    assert matrix_units.attention_unit_of(profile, 3) is None
    assert trials == ["attention_mma", "attention_mma_3"]
    monkeypatch.setattr(matrix_units, "verdict", lambda *rest, **how: True)
    assert matrix_units.attention_unit_of(profile) == "mma"
    with config.override(KERNEL_STRATEGY="portable"):
        assert matrix_units.attention_unit_of(profile) is None


@pytest.mark.parametrize(
    ("unit", "cores", "also"), [("mma", 8, "attention_mma"), ("mma_3", 8, "attention_mma_3"), ("mma", 7, None)]
)
def test_attention_is_tried_while_products_are(
    engine: Any, monkeypatch: pytest.MonkeyPatch, unit: str, cores: int, also: str | None
) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no matrix units")
    tried, begun = [], Event()

    def verdict(name: str, *rest: Any, **how: Any) -> bool:
        tried.append(name)
        if name.startswith("attention"):
            begun.set()
            return True
        return begun.wait(10 if also else 0)

    monkeypatch.setitem(UNITS, unit, UNITS[unit]._replace(may_have=lambda profile: True))
    monkeypatch.setattr(matrix_units, "verdict", verdict)
    monkeypatch.setattr(matrix_units, "stored", lambda *rest: None)
    monkeypatch.setattr(matrix_units, "usable_cores", lambda: cores)
    assert matrix_units.is_right.__wrapped__(profile_of(engine.queue)._device, unit) == bool(also)
    assert sorted(tried) == sorted([f"matrix_unit_{unit}", *([also] if also else [])])


def test_keys_in_parts_are_added_in_order(engine: Any) -> None:
    # One head alone: its keys are shared out, and each part has gradients by q of its own.
    check(engine, (1, 1, 1, 20, 200, 6, 5, None, False), "float32")


def test_what_does_not_fit_is_computed_in_blocks(engine: Any) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    wide = AttentionShape(1, 2, 1, 8, 9, 257, 4, None, False, False)
    seen = templates.traits(engine)
    assert not attention._fits(seen, "float32", wide)
    assert attention._fits(seen, "float32", wide._replace(width=256))
    assert not attention._fits(seen._replace(is_cpu=False, group=32), "float32", wide._replace(width=8))
    check(engine, (1, 2, 1, 8, 9, 257, 4, None, False), "float32")


def test_where_the_kernel_does_not_build_products_take_its_place(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy builds nothing")
    fallback = next(one for one in engine.interceptors if isinstance(one, KernelFallback))
    monkeypatch.setattr(fallback, "failed", {})
    monkeypatch.setattr(engine, "intercepting", False)

    def refuse(*args: Any) -> None:
        raise KernelBuildError("text", "", "no registers left", "a device", "a driver")

    monkeypatch.setattr(attention, "_enqueue", refuse)
    with pytest.raises(KernelBuildError):
        check(engine, LITTLE[0], "float32", variant="online")
    with pytest.warns(
        RuntimeWarning, match="does not build the float32 kernel of attention.*no registers left"
    ) as seen:
        check(engine, LITTLE[0], "float32")
    assert len(seen) == 1


def test_nans_and_infinities_stay_with_their_queries(engine: Any) -> None:
    stored, _, scale, wanted = problem((1, 2, 1, 40, 50, 6, 5, None, False), "float32", engine)
    q = stored[0].numpy().copy()
    q[0, 1, 7, 2] = np.nan
    q[0, 0, 35] = 1e30  # weights of 0 and 1
    out, lse = engine.attention(Tensor.from_host(engine.queue, q), *stored[1:3], None, causal=False, scale=scale)
    found = out.numpy()
    assert np.isnan(found[0, 1, 7]).all()
    assert np.isfinite(np.delete(found[0, 1], 7, 0)).all()
    assert np.isfinite(found[0, 0]).all()
    assert np.isfinite(lse.numpy()[0, 0]).all()
    np.testing.assert_allclose(np.delete(found[0, 0], 35, 0), np.delete(wanted[0][0, 0], 35, 0), rtol=1e-4, atol=1e-5)
