"""Gradients of every row of the op table: float64 on NumPy against central differences, the devices against that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.autograd.rules import RULES
from netcl.core import Tensor
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.testing import TOLERANCE, Case, masked, op_cases

NAMES = [name for name, row in TABLE.items() if row.domain.gradient and next(op_cases(name), None) is not None]
# Composites are made of these; a device needs to show each kernel once.
# (``transfer`` goes to the active device by itself; test_backward.py takes it across devices.)
COMPUTING = [name for name in NAMES if TABLE[name].composite is None and name != "transfer"]
FAMILIES = (
    "add",
    "sigmoid",
    "sum",
    "softmax",
    "batch_norm",
    "cross_entropy_ids",
    "matmul",
    "conv2d",
    "max_pool2d",
    "index_select",
)
SMOOTH = [name for name in NAMES if TABLE[name].domain.second]


def floats(case: Case) -> int:
    return sum(
        operand.size for operand in case.operands if isinstance(operand, np.ndarray) and operand.dtype.kind == "f"
    )


def weighted(outputs: list[Tensor], weights: list[Any]) -> float:
    return float(sum(np.sum(out.numpy().astype(np.float64) * weight) for out, weight in zip(outputs, weights)))


def directional(value: Callable[[], float], leaf: Tensor, direction: Any, step: float = 1e-5) -> float:
    start = leaf.numpy()
    sides = []
    for sign in (1.0, -1.0):
        leaf.write(start + sign * step * direction)
        sides.append(value())
    leaf.write(start)
    return (sides[0] - sides[1]) / (2 * step)


@pytest.mark.parametrize("name", NAMES)
def test_first_derivative(name: str, numpy_device: Any, place: Any) -> None:
    cases = [case for case in op_cases(name) if 0 < floats(case) < 2000]
    assert cases
    for case in cases:
        first_derivative(place(name, case, numpy_device.queue))


def first_derivative(placed: Any) -> None:
    rng = np.random.default_rng(1)
    outputs = placed.run()
    weights = [rng.uniform(-1, 1, out.shape) for out in outputs]
    pairs = [(out, Tensor.from_host(weight, "float64")) for out, weight in zip(outputs, weights) if out.requires_grad]
    grads: Any = [None] * len(placed.leaves)
    if pairs:
        grads = ag.grad([out for out, _ in pairs], placed.leaves, [seed for _, seed in pairs], allow_unused=True)
    for leaf, grad in zip(placed.leaves, grads):
        assert grad is None or (grad.shape, grad.dtype) == (leaf.shape, leaf.dtype)
        direction = rng.uniform(0.5, 1, leaf.shape) * rng.choice([-1, 1], leaf.shape)
        found = 0.0 if grad is None else float(np.sum(grad.numpy() * direction))
        wanted = directional(lambda: weighted(placed.run(), weights), leaf, direction)
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-7), (placed.name, leaf.shape, placed.attributes)


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivative(name: str, numpy_device: Any, place: Any) -> None:
    for case in op_cases(name):
        if 0 < floats(case) < 300:
            second_derivative(place(name, case, numpy_device.queue))


def second_derivative(placed: Any) -> None:
    """Checks the gradients, each along a direction of its own, differentiated by the operands and the gradients of the
    outputs.
    """
    rng = np.random.default_rng(2)
    seeds = [Tensor.from_host(rng.uniform(-1, 1, out.shape), "float64", requires_grad=True) for out in placed.run()]
    directions = [rng.uniform(-1, 1, leaf.shape) for leaf in placed.leaves]

    def gradients() -> list[tuple[Tensor, Any]]:
        found = ag.grad(placed.run(), placed.leaves, seeds, create_graph=True, allow_unused=True)
        return [(grad, direction) for grad, direction in zip(found, directions) if grad is not None]

    def value() -> float:
        return weighted(*(list(part) for part in zip(*gradients())))  # type: ignore[arg-type]

    pairs = [(g, Tensor.from_host(d, "float64")) for g, d in gradients() if g.requires_grad]
    assert pairs  # they are at least linear in the gradients of the outputs
    inputs = [*placed.leaves, *seeds]
    second = ag.grad([grad for grad, _ in pairs], inputs, [seed for _, seed in pairs], allow_unused=True)
    for leaf, grad in zip(inputs, second):
        direction = rng.uniform(-1, 1, leaf.shape)
        found = 0.0 if grad is None else float(np.sum(grad.numpy() * direction))
        wanted = directional(value, leaf, direction)
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-6), (placed.name, leaf.shape, placed.attributes)


def chosen(name: str) -> Case:
    """Returns the case that asks most of a device without asking for long: the largest below a few thousand elements,
    broadcast if any.
    """
    cases = [case for case in op_cases(name) if 0 < floats(case) < 3000]
    mixed = [c for c in cases if len({getattr(o, "shape", None) for o in c.operands if isinstance(o, np.ndarray)}) > 1]
    return max(mixed or cases, key=floats)


def gradients_of(place: Any, name: str, case: Case, queue: Any, dtype: str) -> list[Any]:
    placed = place(name, case, queue, dtype)
    rng = np.random.default_rng(3)
    outputs = [(out, rng.uniform(0.25, 1, out.shape)) for out in placed.run()]
    reached = [(out, Tensor.from_host(queue, weight, out.dtype)) for out, weight in outputs if out.requires_grad]
    if not reached:
        return [None] * len(placed.leaves)
    grads = ag.grad([o for o, _ in reached], placed.leaves, [w for _, w in reached], allow_unused=True)
    return [None if grad is None else grad.numpy().astype(np.float64) for grad in grads]


@pytest.mark.parametrize("name", COMPUTING)
def test_float32_on_devices(name: str, handle: Any, place: Any) -> None:
    agrees_with_float64(name, "float32", handle, place)


@pytest.mark.parametrize("name", FAMILIES)
def test_float16_on_devices(name: str, handle: Any, place: Any) -> None:
    agrees_with_float64(name, "float16", handle, place)


@pytest.mark.parametrize("name", COMPUTING)
def test_float16_on_numpy(name: str, numpy_device: Any, place: Any) -> None:
    agrees_with_float64(name, "float16", numpy_device, place)


# If groups of a device share rows, a reduction inside another one of other axes needs a kernel of its own.
@pytest.mark.parametrize("name", ["softmax", "var"])
def test_float32_where_groups_share_rows(name: str, handle: Any, place: Any) -> None:
    agrees_as_a_gpu(name, handle, place)


@pytest.mark.deep
@pytest.mark.timeout(300)  # PoCL takes a minute for a kernel of many barriers
@pytest.mark.parametrize("name", COMPUTING)
def test_every_float32_as_a_gpu(name: str, handle: Any, place: Any) -> None:
    agrees_as_a_gpu(name, handle, place)


def agrees_as_a_gpu(name: str, handle: Any, place: Any) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs the level opencl-kernels: NumPy has no groups")
    with masked(handle, is_cpu=False) as seen:
        agrees_with_float64(name, "float32", seen, place)


def agrees_with_float64(name: str, dtype: str, handle: Any, place: Any) -> None:
    case = chosen(name)
    rounded = Case(tuple(as_stored(operand, dtype) for operand in case.operands), case.attributes)
    wanted = gradients_of(place, name, rounded, cpu(), "float64")
    found = gradients_of(place, name, rounded, handle.queue, dtype)
    relative = 10 * TOLERANCE[dtype][0]
    for ours, exact in zip(found, wanted):
        assert (ours is None) == (exact is None)
        if exact is not None:
            scale = max(1.0, float(np.abs(exact).max(initial=0.0)))
            np.testing.assert_allclose(
                ours, exact, rtol=relative, atol=relative * scale, err_msg=f"{name} {case.attributes}"
            )


def as_stored(operand: Any, dtype: str) -> Any:
    if isinstance(operand, list):
        return [as_stored(one, dtype) for one in operand]
    if isinstance(operand, np.ndarray) and operand.dtype.kind == "f":
        return operand.astype(dtype).astype(np.float64)
    return operand


def cpu() -> Any:
    from netcl.core import manager

    found = manager.default("cpu")
    assert found is not None
    return found.queue


def test_rows_without_a_gradient_say_so() -> None:
    """A computed row has a gradient of its own or a rule, or its domain says that it has no gradient."""
    computed = [name for name, row in TABLE.items() if row.call is not None and row.domain.gradient]
    assert [name for name in computed if TABLE[name].vjp is None and name not in RULES] == []


@pytest.mark.level("programs")  # a core without it has rows of other names, each with a gradient of its own
def test_no_rule_without_a_row() -> None:
    assert [name for name in RULES if name not in TABLE] == []
