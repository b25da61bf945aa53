"""Horizontal fusion: which launches of a recording are merged, and that a merged launch gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.backend.opencl.queue.horizontal_fusion import independent, joined
from netcl.core.expr import Load
from netcl.core.expr.kernel_source import Role
from netcl.core.expr.opencl_c import render
from netcl.core.expr.schedule import Target, make_plan
from netcl.core.expr.scopes import Layout
from netcl.runtime.capture import capture

X, Y = Load(0, "float32"), Load(1, "float32")
CPU = Target(width=8, group=1, units=2, is_cpu=True)


class _Buffer:
    def __init__(self, address: int) -> None:
        self.int_ptr = address


class _Prepared:
    options = ""
    local_size = (1,)

    def __init__(self) -> None:
        launch = make_plan([X + Y], [(64, 3)], [(64, 3), (64, 3)], (64, 3), CPU).launches[0]
        self.kernel = launch.kernel
        self.global_size = (launch.items,)
        self.args = [None, None, None, *map(np.uint64, launch.numbers)]


class _Device:
    max_parameter_size = 1024


class _Launcher:
    device = _Device()

    def prepare(self, source: str, *args: object) -> str:
        return source


def _sums(*addresses: tuple[int, int, int]) -> list[Any]:
    return [(n, (_Prepared(), [_Buffer(one) for one in row])) for n, row in enumerate(addresses)]


@pytest.mark.parametrize(
    ("second", "groups"),
    [
        ((1, 2, 4), [[0, 1]]),  # shares what it reads
        ((3, 2, 4), []),  # reads what the first writes
        ((5, 6, 1), []),  # writes what the first reads
        ((5, 6, 3), []),  # writes the same buffer
    ],
)
def test_a_group_has_no_launch_that_writes_what_another_one_accesses(
    second: tuple[int, int, int], groups: list[list[int]]
) -> None:
    found = independent(_sums((1, 2, 3), second))
    assert [[number for number, _ in group] for group in found] == groups


def test_shared_arguments_become_one_parameter() -> None:
    group = [launch for _, launch in _sums((1, 2, 3), (1, 5, 6))]
    made = joined(_Launcher(), group)
    assert made is not None
    source, buffers = made
    assert [buffer.int_ptr for buffer in buffers] == [1, 2, 3, 5, 6]
    assert source.count("__kernel") == 1


@pytest.mark.parametrize(
    ("output", "layout"),
    [
        (X + 1.0, Layout(1, {0: (0,)}, ((0,),), (), group=1)),
        (X + 1.0, Layout(1, {0: (0,)}, ((0,),), (), cpu=True, streams=True, aligned=True)),
        (X + 1.0, Layout(1, {0: (0,)}, ((0,),), (), cpu=True, item="other")),
    ],
    ids=["gpu", "past_the_caches", "numbered_elsewhere"],
)
def test_other_kernels_do_not_declare_their_item_separately(output: Load, layout: Layout) -> None:
    kernel = render((output,), layout)
    assert (kernel.head, kernel.item) == ("", "")


def test_a_kernel_names_the_roles_of_its_arguments() -> None:
    kernel = _Prepared().kernel
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
