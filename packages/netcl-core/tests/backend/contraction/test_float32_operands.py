"""Contractions in a half type of tensors that are stored in float32: the bits of the contractions between casts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.process import naming
from netcl.runtime.capture import capture

HALVES = ("float16", "bfloat16")
# m, k, n, transposed A, transposed B, A's batch; some are read in place, some packed, some split along k.
PRODUCTS = [
    (5, 7, 9, False, False, ()),
    (64, 10, 64, False, False, ()),
    (33, 300, 70, False, True, ()),
    (70, 65, 40, True, False, ()),
    (8, 4100, 24, True, True, ()),
    (130, 200, 530, False, True, ()),
    (6, 11, 21, False, True, (3,)),
]
CONVOLUTIONS = {
    "few channels": ((3, 3, 40, 44), (24, 3, 3, 3), (1, 1), (1, 1)),
    "few channels, strided": ((2, 3, 64, 64), (40, 3, 7, 7), (2, 2), (3, 3)),
    "minimal filtering": ((2, 48, 20, 22), (56, 48, 3, 3), (1, 1), (1, 1)),
    "padded": ((2, 5, 9, 8), (12, 5, 3, 3), (1, 1), (1, 1)),
    "in place": ((3, 20, 8, 8), (9, 20, 1, 1), (1, 1), (0, 0)),
    "strided": ((2, 20, 11, 10), (16, 20, 3, 3), (2, 2), (1, 1)),
}


def numbers(seed: int, *shape: int) -> Any:
    return Tensor.from_host(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def check(engine: Any, name: str, args: tuple[Any, ...], half: str, options: dict[str, Any]) -> None:
    """Checks the call with each operand, both, and the result in float32, against the call between casts."""
    if not hasattr(engine, "float32_roles"):
        pytest.skip("needs an OpenCL device: NumPy computes between casts")
    *kind, a, b = args
    rounded = [x.astype(half) for x in (a, b)]
    roles = engine.float32_roles(name, (*kind, *rounded), half, options)
    if engine.handle.device_type != "cpu" and not any(roles):
        pytest.skip("needs a kernel that stores float32: on a GPU the matrix units have one")
    assert any(roles)
    want = getattr(engine, name)(*kind, *rounded, **options)
    call = engine.kernel(name)
    for which in ((True, False), (False, True), (True, True)):
        chosen = [x if takes and one else y for x, y, takes, one in zip((a, b), rounded, roles, which)]
        got = call(engine, *kind, *chosen, half=half, **options)
        assert got.dtype == half
        np.testing.assert_array_equal(got.astype("float32").numpy(), want.astype("float32").numpy())
        if roles[2]:
            wide = call(engine, *kind, *chosen, half=half, wide=True, **options)
            assert wide.dtype == "float32"
            np.testing.assert_array_equal(wide.numpy(), want.astype("float32").numpy())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("case", PRODUCTS)
def test_products(engine: Any, case: Any, half: str) -> None:
    m, k, n, transpose_a, transpose_b, batch = case
    a = numbers(0, *batch, *((k, m) if transpose_a else (m, k)))
    b = numbers(1, *((n, k) if transpose_b else (k, n)))
    check(engine, "matmul", (a, b), half, {"transpose_a": transpose_a, "transpose_b": transpose_b})


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("kind", ["forward", "grad_input", "grad_weight"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(engine: Any, case: str, kind: str, half: str) -> None:
    x, weight, stride, padding = CONVOLUTIONS[case]
    options: dict[str, Any] = {"stride": stride, "padding": tuple((p, p) for p in padding), "dilation": (1, 1)}
    options["groups"] = 1
    pairs = zip(x[2:], weight[2:], stride, padding)
    grad = (x[0], weight[0], *((size + 2 * p - taps) // s + 1 for size, taps, s, p in pairs))
    shapes = {"forward": (x, weight), "grad_input": (grad, weight), "grad_weight": (x, grad)}[kind]
    if kind != "forward":
        options["shape"] = x if kind == "grad_input" else weight
    check(engine, "conv", (kind, *(numbers(at, *shape) for at, shape in enumerate(shapes))), half, options)


@pytest.mark.parametrize("half", HALVES)
def test_small_products_read_a_in_place_or_packed(engine: Any, half: str) -> None:
    a, b = numbers(0, 9, 40).astype(half), numbers(1, 40, 33).astype(half)
    if not hasattr(engine, "float32_roles"):
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    found = [engine.kernel("matmul")(engine, a, b, variant=variant) for variant in ("rows", "packed")]
    np.testing.assert_array_equal(*(one.astype("float32").numpy() for one in found))


@pytest.mark.parametrize("variant", ["wide", "tiled", "slices", "direct", "windows", "plain"])
@pytest.mark.parametrize("half", HALVES)
def test_results_of_the_kernels_of_gpus_in_float32_are_rounded_first(engine: Any, half: str, variant: str) -> None:
    if not hasattr(engine, "float32_roles"):
        pytest.skip("needs an OpenCL device: NumPy has no variants")
    a, b = numbers(0, 9, 700).astype(half), numbers(1, 700, 33).astype(half)
    want = engine.kernel("matmul")(engine, a, b, variant=variant)
    wide = engine.kernel("matmul")(engine, a, b, variant=variant, half=half, wide=True)
    assert (want.dtype, wide.dtype) == (half, "float32")
    np.testing.assert_array_equal(wide.numpy(), want.astype("float32").numpy())


@pytest.mark.parametrize("size, named", [(1, "netcl"), (20, "netcl"), (20, "torch")])
@pytest.mark.parametrize("half", HALVES)
def test_casts_in_a_captured_step_are_part_of_its_products(
    handle: DeviceHandle, half: str, size: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of results, and of large parameters and inputs; not of a tensor that is written between its cast and the
    product. The text of a dtype, which is PyTorch's in a program written for it, changes nothing.
    """
    monkeypatch.setattr(naming, "library", named)
    w = numbers(1, 20 * size, 16 * size)
    changed = Tensor.from_host(numbers(2, 16 * size, 12 * size).numpy(), persistent=True)
    start = changed.numpy().copy()

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        before = changed.astype(half)
        changed.write(changed * 0.5)
        rounded = x.astype(half)
        product = ops.matmul(rounded, w.astype(half))
        gradient = ops.matmul(ops.transpose(rounded), product).astype("float32")
        return gradient, ops.matmul(product, before).astype("float32")

    captured = capture(step, numbers(0, 12 * size, 20 * size))
    for seed in (3, 4):
        found = []
        for work in (captured.replay, step):
            changed.write(start)
            found.append([one.numpy() for one in work(numbers(seed, 12 * size, 20 * size))])
        for got, want in zip(*found):
            np.testing.assert_array_equal(got, want)
    if handle.backend == "cl" and handle.device_type == "cpu":
        # Of large tensors the casts of x, w and the gradient are gone, of small ones the gradient's; the other two are
        # one launch.
        engine = changed.engine
        monkeypatch.setattr(type(engine), "float32_roles", lambda *args: (False, False, False))
        assert len(captured) < len(capture(step, numbers(0, 12 * size, 20 * size)))
