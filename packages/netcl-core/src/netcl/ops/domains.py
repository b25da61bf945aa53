"""Test ranges of elementwise rows: away from kinks, and few shapes for rows that one kernel covers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.core.ops_table.dispatch import Cases as Cases
from netcl.core.ops_table.dispatch import Domain

POSITIVE = Domain(0.2, 3.0)
UNIT = Domain(-0.9, 0.9)
KINK = Domain(kinks=(0.0,))
FLAT = Domain(kinks=(-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0), second=False)
BOOLS = Domain(gradient=False)


def compared(cases: Callable[[Any], Cases] | None, reference: Callable[..., Any], **more: Any) -> Domain:
    """Returns the domain of an op that is compared with ``reference`` on samples of its own."""
    return Domain(cases=cases, reference=reference, **more)


def few(
    reference: Any, *ranges: tuple[float, float], kinks: tuple[float, ...] = (), away: float = 0.05, **more: Any
) -> Domain:
    """Returns one shape with a tail, one operand per range: for rows with kernels that differ by one call only."""

    def cases(rng: np.random.Generator) -> Any:
        operands = []
        for low, high in ranges or ((-2.0, 2.0),):
            values = rng.uniform(low, high, (13, 17))
            for kink in kinks:
                values = np.where(np.abs(values - kink) < away, kink + 2 * away, values)
            operands.append(values)
        yield tuple(operands), {}

    return Domain(cases=cases, reference=reference, **more)


def whole(reference: Any, low: int = -100, high: int = 100, bools: bool = True, counts: bool = False) -> Domain:
    """Integers of two dtypes and bool, as many operands as ``reference`` takes."""

    def cases(rng: np.random.Generator) -> Any:
        for dtype in ("int32", "int64"):
            first = rng.integers(low, high, (13, 17)).astype(dtype)
            second = rng.integers(0, 9, (13, 17)) if counts else rng.integers(0, high, (17,))
            yield (first, second.astype(dtype))[: reference.nin], {}
        if bools:
            yield (rng.random((13, 17)) > 0.5, rng.random((13, 17)) > 0.5)[: reference.nin], {}

    return Domain(cases=cases, reference=reference, gradient=False)
