"""Horizontal fusion: launches of a recording become one, and a merged launch gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.backend.opencl.queue.replays.horizontal_fusion import joined, most_arguments
from netcl.core.backend.opencl.queue.replays.launch_groups import Recorded, grouped
from netcl.core.backend.opencl.queue.replays.memory_accesses import Accesses, Span
from netcl.core.device import device
from netcl.core.expr import Load, cast
from netcl.core.expr.kernel_source import Role
from netcl.core.expr.nodes import Expr
from netcl.core.expr.opencl_c import render
from netcl.core.expr.schedule import Target, make_plan
from netcl.core.expr.scopes import Layout
from netcl.core.testing import masked
from netcl.runtime.capture import capture

X, Y = Load(0, "float32"), Load(1, "float32")
CPU = Target(width=8, group=1, units=2, is_cpu=True)
SUM, PRODUCT, ROUNDED = X + Y, X * Y, cast(X + Y, "bfloat16")
_MANY, _FEW = (1 << 14, 3), (8, 3)  # elements of several work-items, and of one


class _Buffer:
    def __init__(self, address: int, size: int = 64) -> None:
        self.int_ptr = address
        self.size = size


class _Prepared:
    options = ""
    local_size = (1,)

    def __init__(self, expression: Expr, shape: tuple[int, ...]) -> None:
        launch = make_plan([expression], [shape], [shape, shape], shape, CPU).launches[0]
        self.kernel = launch.kernel
        self.global_size = (launch.items,)
        self.args = (None, None, None, *map(np.uint64, launch.numbers))


class _Device:
    max_parameter_size = 1024


class _Launcher:
    device = _Device()

    def prepare(self, source: str, *args: Any) -> tuple[str, Any]:
        return source, args[1]


def _launch(
    a: int, b: int, out: int, expression: Expr = SUM, shape: tuple[int, ...] = _MANY, size: int = 64
) -> Recorded:
    """Returns a launch of ``expression`` that reads two addresses and writes one."""
    read = frozenset(Span(address, 0, size) for address in (a, b))
    accesses = Accesses(read, frozenset((Span(out, 0, size),)))
    return Recorded(accesses, _Prepared(expression, shape), [_Buffer(address, size) for address in (a, b, out)])


def _other(a: int, out: int) -> Recorded:
    """Returns a launch of a kernel that cannot be merged."""
    return Recorded(Accesses(frozenset((Span(a, 0, 64),)), frozenset((Span(out, 0, 64),))))


@pytest.mark.parametrize(
    ("second", "together"),
    [
        ((1, 2, 4), True),  # shares what it reads
        ((3, 2, 4), False),  # reads what the first writes
        ((5, 6, 1), False),  # writes what the first reads
        ((5, 6, 3), False),  # writes the same buffer
    ],
)
def test_a_group_has_no_launch_that_writes_what_another_one_accesses(
    second: tuple[int, int, int], together: bool
) -> None:
    found = grouped([_launch(1, 2, 3), _launch(*second)], 100)
    assert found == ([(0, 1)] if together else [(0,), (1,)])


def test_launches_of_one_work_item_that_depend_on_each_other_are_a_chain() -> None:
    chain = [_launch(1, 2, 3, SUM, _FEW), _launch(3, 2, 4, PRODUCT, _FEW), _launch(4, 3, 2, SUM, _FEW)]
    assert grouped(chain, 100) == [(0, 1, 2)]
    assert grouped([*chain, _launch(4, 4, 5)], 100) == [(0, 1, 2), (3,)]  # its work-items would not wait for the chain
    assert grouped([*chain, _launch(1, 1, 5)], 100) == [(0, 1, 2, 3)]


def test_a_launch_is_moved_past_others_that_do_not_touch_its_memory() -> None:
    assert grouped([_launch(1, 2, 3), _other(3, 4), _launch(1, 2, 5)], 100) == [(0, 2), (1,)]
    assert grouped([_launch(1, 2, 3), _other(6, 1), _launch(1, 2, 5)], 100) == [(0,), (1,), (2,)]
    # The first one to the second, which reads what the kernel between writes.
    assert grouped([_launch(1, 2, 3), _other(6, 7), _launch(7, 2, 5)], 100) == [(1,), (0, 2)]
    assert grouped([_launch(1, 2, 3), None, _launch(1, 2, 5)], 100) == [(0,), (1,), (2,)]


def test_different_kernels_are_merged_if_they_are_small_and_few() -> None:
    pair = [_launch(1, 2, 3), _launch(1, 2, 4, PRODUCT)]
    assert grouped(pair, 100) == [(0, 1)]
    assert grouped([pair[0], _launch(1, 2, 4, PRODUCT, size=1 << 20)], 100) == [(0,), (1,)]
    large = [_launch(1, 2, 3, size=1 << 20), _launch(1, 2, 4, size=1 << 20)]
    assert grouped(large, 100) == [(0, 1)]  # of one kernel, neighbours
    assert grouped([large[0], _other(5, 6), large[1]], 100) == [(0,), (1,), (2,)]
    several = [_launch(1, 2, 3 + n, SUM + float(n)) for n in range(10)]
    assert grouped(several, 1000) == [tuple(range(8)), (8, 9)]


def test_a_merged_launch_has_as_many_arguments_as_a_device_takes() -> None:
    launches = [_launch(3 * n, 3 * n + 1, 3 * n + 2) for n in range(60)]
    found = grouped(launches, most_arguments(_Device()))
    assert len(found) > 1
    assert sorted(number for group in found for number in group) == list(range(60))
    for group in found:
        (_, _), buffers = joined(_Launcher(), [launches[number] for number in group])
        assert 8 * len(buffers) < _Device.max_parameter_size


def test_shared_arguments_become_one_parameter() -> None:
    (source, _), buffers = joined(_Launcher(), [_launch(1, 2, 3), _launch(1, 5, 6)])
    assert [buffer.int_ptr for buffer in buffers] == [1, 2, 3, 5, 6]
    assert source.count("__kernel") == 1


def test_functions_of_preambles_are_written_once() -> None:
    group = [_launch(1, 2, 3, ROUNDED), _launch(1, 2, 4, cast(PRODUCT, "bfloat16")), _launch(1, 2, 5, ROUNDED, _FEW)]
    (source, size), _ = joined(_Launcher(), group)
    assert source.count("ushort to_bfloat16(float x)") == 1
    assert size == (sum(launch.prepared.global_size[0] for launch in group if launch.prepared is not None),)


@pytest.mark.parametrize(
    ("output", "layout"),
    [
        (X + 1.0, Layout(1, {0: (0,)}, ((0,),), (), cpu=True, streams=True, aligned=True)),
        (X + 1.0, Layout(1, {0: (0,)}, ((0,),), (), cpu=True, item="other")),
        (X + 1.0, Layout(1, {0: (0,)}, ((0,),), (), group=64, group_item="other")),
    ],
    ids=["past_the_caches", "numbered_elsewhere", "groups_numbered_elsewhere"],
)
def test_other_kernels_do_not_declare_their_item_separately(output: Load, layout: Layout) -> None:
    kernel = render((output,), layout)
    assert (kernel.head, kernel.item) == ("", "")


def test_a_kernel_names_the_roles_of_its_arguments() -> None:
    kernel = _Prepared(SUM, _MANY).kernel
    assert kernel is not None
    assert [one.role for one in kernel.arguments[:3]] == [Role.READ, Role.READ, Role.WRITE]
    assert {one.role for one in kernel.arguments[3:]} == {Role.SCALAR}
    assert all(f"    {one}" in kernel.to_source() for one in kernel.arguments)
    assert kernel.item == "size_t item = get_global_id(0);"


def test_independent_launches_of_a_recording_become_one(handle: DeviceHandle) -> None:
    if handle.backend != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    rng = np.random.default_rng(3)
    others = [Tensor.from_host(rng.standard_normal((9, 7)).astype(np.float32)) for _ in range(5)]

    def step(x: Tensor, count: int = len(others)) -> list[Tensor]:
        return [ops.sum(ops.exp(x * other), axis=1) for other in others[:count]]

    x = Tensor.from_host(rng.standard_normal((9, 7)).astype(np.float32))
    captured = capture(step, x)
    for one, expected in zip(captured.replay(x), step(x)):
        np.testing.assert_array_equal(one.numpy(), expected.numpy())
    if handle.device_type == "cpu":
        assert len(captured) == len(capture(lambda x: step(x, 1), x))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_chains_and_independent_launches_give_the_bits_of_the_calls(handle: DeviceHandle, dtype: str) -> None:
    """Small sums that follow each other, next to larger ones, on both sides of a product."""
    rng = np.random.default_rng(5)
    w = Tensor.from_host(rng.standard_normal((40, 40)).astype(np.float32))
    large = Tensor.from_host(rng.standard_normal((40, 4000)).astype(np.float32))

    def step(x: Tensor) -> tuple[Tensor, ...]:
        mean = ops.mean(x, axis=0)
        spread = ops.mean(ops.square(ops.sub(x, mean)))
        product = ops.matmul(ops.mul(x, spread), w)
        rows = ops.sum(large, axis=1), ops.amax(ops.mul(large, spread), axis=1)
        scaled = ops.softmax(ops.mul(ops.mean(product, axis=0), spread)).astype(dtype)
        return mean, spread, ops.mul(scaled, 3.0), ops.sum(scaled.astype("float32")), *rows

    samples = [Tensor.from_host(rng.standard_normal((30, 40)).astype(np.float32)) for _ in range(3)]
    captured = capture(step, samples[0])
    for x in samples:
        for got, want in zip(captured.replay(x), step(x)):
            np.testing.assert_array_equal(got.astype("float32").numpy(), want.astype("float32").numpy())
    x = samples[0].numpy()
    np.testing.assert_allclose(captured.replay(samples[0])[1].numpy(), np.square(x - x.mean(0)).mean(), rtol=1e-5)
    if handle.backend == "cl" and handle.device_type == "cpu":
        with_every_call = len(capture(lambda x: [step(x)], samples[0])._recording)
        assert with_every_call <= 6


def test_groups_of_a_gpu_become_one_launch_with_the_bits_of_the_calls(handle: DeviceHandle) -> None:
    if handle.backend != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((300, 70), (4096, 130), (5, 3))]

    def step(*tensors: Tensor) -> list[Tensor]:
        rows = [ops.sub(x, ops.mean(x, axis=1, keepdims=True)) for x in tensors]
        return [*rows, *(x.astype("bfloat16") for x in tensors), *(ops.square(x) for x in tensors)]

    with masked(handle, is_cpu=False, compute_units=16, max_work_group_size=256) as gpu, device(gpu):
        tensors = [Tensor.from_host(array) for array in arrays]
        captured = capture(step, *tensors)
        for result, expected in zip(captured.replay(*tensors), step(*tensors)):
            np.testing.assert_array_equal(result.astype("float32").numpy(), expected.astype("float32").numpy())
        assert len(captured) <= 6, "of 9 launches"
