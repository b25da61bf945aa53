"""Calls that were seen before make their gradient nodes by records: gradients are those of the first call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.ops_table.dispatch import call
from netcl.core.ops_table.records import call_key
from netcl.core.ops_table.table import TABLE

pytestmark = pytest.mark.level("programs")

RNG = np.random.default_rng(0)
Work = Callable[[Tensor, Tensor, Tensor], Tensor]
OPS: dict[str, Work] = {
    "add": lambda x, w, b: x + b,
    "numbers": lambda x, w, b: 2.0 * x - 3,
    "matmul": lambda x, w, b: x @ w,
    "linear": lambda x, w, b: ag.linear(x, w, b),
    "layer_norm": lambda x, w, b: ag.layer_norm(x, (4,), b, b),
    "reshape": lambda x, w, b: x.reshape(-1, 6) * 2,
    "transpose": lambda x, w, b: x.transpose(0, 1) * 2,
    "slice": lambda x, w, b: x[1:, ::2] * x[0, 1],
    "concatenate": lambda x, w, b: nc.cat((x, w, x)),
    "split": lambda x, w, b: x.split([1, 3], 1)[1] * x.split(3, 1)[0],
    "none by keyword": lambda x, w, b: ag.binary_cross_entropy_with_logits(w, w / 3, weight=None, pos_weight=b),
    "all none": lambda x, w, b: ag.binary_cross_entropy_with_logits(w, w / 3, weight=None, pos_weight=None),
    "weight by keyword": lambda x, w, b: ag.binary_cross_entropy_with_logits(w, w / 3, weight=b),
    "out is saved": lambda x, w, b: nc.exp(x) / nc.sum(x * x, 1, keepdims=True),
}


def operands(*requiring: bool) -> list[Tensor]:
    tensors = [nc.tensor(RNG.uniform(0.5, 2, shape).astype(np.float32)) for shape in ((6, 4), (4, 4), (4,))]
    for tensor, requires in zip(tensors, requiring):
        tensor.requires_grad = requires
    return tensors


def gradients(work: Work, tensors: list[Tensor]) -> list[Any]:
    result = work(*tensors)
    (result * result).sum().backward()
    return [result.numpy(), *(None if tensor.grad is None else tensor.grad.numpy() for tensor in tensors)]


@pytest.mark.parametrize("name", OPS)
def test_later_calls_have_the_gradients_of_the_first(name: str) -> None:
    given = operands(True, True, True)
    first = gradients(OPS[name], given)
    for _ in range(2):
        gradients(OPS[name], operands(True, True, True))
    for tensor in given:
        tensor.grad = None
    again = gradients(OPS[name], given)
    assert all(one is other or np.array_equal(one, other) for one, other in zip(first, again))


def test_operands_that_are_none_by_keyword_leave_a_record() -> None:
    _, w, b = operands()
    row = TABLE["binary_cross_entropy_with_logits"]
    assert call_key(row, (w, w), {"weight": None, "pos_weight": None}) is not None
    assert call_key(row, (w, w), {"weight": None, "pos_weight": b}) is None


@pytest.mark.parametrize("name", ["matmul", "linear", "add", "concatenate"])
def test_a_record_tells_apart_which_operands_require_grad(name: str) -> None:
    kinds = [(True, True, True), (True, False, False), (False, True, True), (True, False, True)]
    for _ in range(3):
        for kind in kinds:
            tensors = operands(*kind)
            whole = gradients(OPS[name], tensors)
            for tensor in tensors:
                tensor.grad, tensor.requires_grad = None, True
            full = gradients(OPS[name], tensors)
            for requires, one, other in zip(kind, whole[1:], full[1:]):
                assert one is None if not requires else other is None or np.array_equal(one, other)


def test_shapes_of_results_may_depend_on_values() -> None:
    for count in (3, 3, 3, 5, 1, 3):
        x = nc.tensor(np.arange(8, dtype=np.float32), requires_grad=True)
        mask = nc.tensor(np.arange(8) < count)
        (nc.masked_select(x, mask) * 2).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0] * count + [0.0] * (8 - count)


def test_numbers_are_those_of_the_call() -> None:
    for number in (2.0, 3.0, -1.0, 0.0, 0.5):
        x = nc.tensor(np.ones(4, np.float32), requires_grad=True)
        (x * number).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [number] * 4


def test_axes_given_as_a_list_are_those_of_the_call() -> None:
    axes = [1, 0, 2]
    x = nc.tensor(RNG.uniform(size=(2, 3, 4)).astype(np.float32), requires_grad=True)
    for _ in range(3):
        y = x.permute(axes)
        axes[:] = [0, 1, 2]
        (y * nc.tensor(np.arange(24, dtype=np.float32).reshape(3, 2, 4))).sum().backward()
        axes[:] = [1, 0, 2]
        assert x.grad is not None
        assert np.array_equal(x.grad.numpy(), np.arange(24.0).reshape(3, 2, 4).transpose(1, 0, 2))
        x.grad = None


FEW: dict[str, tuple[Work, int]] = {
    "matmul": (OPS["matmul"], 90),
    "reshape": (lambda x, w, b: x.reshape(3, 8), 48),
    "transpose": (lambda x, w, b: x.transpose(0, 1), 60),
    "slice": (lambda x, w, b: x[1:], 72),
}


def test_a_list_that_changes_after_the_call_changes_no_gradient() -> None:
    for begin in (1, 1, 1, 2):
        (x,), starts, sizes = operands(True)[:1], [begin, 0], [2, 4]
        y = call("strided_slice", x, starts, [1, 1], sizes, record=True)
        starts[0] = 4
        y.sum().backward()
        assert x.grad is not None
        assert np.flatnonzero(x.grad.numpy().any(1)).tolist() == [begin, begin + 1]


@pytest.mark.parametrize("name", FEW)
def test_a_call_seen_before_makes_few_calls_of_python(name: str) -> None:
    tensors = operands(True, True, True)
    work, most = FEW[name]
    for _ in range(3):
        work(*tensors)
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        # Calls of netcl alone: the guards of netcl_conformance, under which other cores run this, would be counted.
        count += event == "call" and frame.f_globals.get("__name__", "").startswith("netcl.")

    sys.setprofile(note)
    try:
        work(*tensors)
    finally:
        sys.setprofile(None)
    assert count <= most
