"""The line search of L-BFGS: a step that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netcl.core import Tensor

# Sufficient decrease and curvature of the strong Wolfe conditions.
_DECREASE, _FLATTER = 1e-4, 0.9


@dataclass(frozen=True)
class Point:
    """A point of a line: the step, the loss, the gradient there and its product with the direction.

    ``largest`` and ``size`` are the largest elements of the gradient and of the direction, ``value`` is what the
    closure returned.
    """

    step: float
    loss: float
    grad: Tensor
    slope: float
    largest: float
    size: float
    value: Any


def strong_wolfe(
    at: Callable[[float], Point], start: Point, step: float, max_calls: int, tolerance: float = 1e-9
) -> tuple[Point, int]:
    """Returns a point that satisfies the strong Wolfe conditions, or the best one after ``max_calls`` iterations, and
    the number of calls of ``at`` (Nocedal and Wright 2006, algorithms 3.5 and 3.6, with cubic interpolation).

    A bracket in which no element of the parameters changes by ``tolerance`` ends the search.
    """
    previous, new, calls, rounds = start, at(step), 1, 0
    bracket: list[Point] | None = None
    while rounds < max_calls:
        too_high = new.loss > start.loss + _DECREASE * new.step * start.slope
        if too_high or (rounds > 1 and new.loss >= previous.loss):
            bracket = [previous, new]
            break
        if abs(new.slope) <= -_FLATTER * start.slope:
            return new, calls
        if new.slope >= 0:
            bracket = [previous, new]
            break
        bounds = (new.step + 0.01 * (new.step - previous.step), new.step * 10)
        step = _cubic_minimum(previous, new, bounds)
        previous, new = new, at(step)
        calls += 1
        rounds += 1
    if bracket is None:
        bracket = [start, new]
    low, high = sorted(bracket, key=lambda point: point.loss)
    stalled = False
    while rounds < max_calls:
        width = abs(high.step - low.step)
        if width * new.size < tolerance:
            break
        left, right = sorted((low.step, high.step))
        step = _cubic_minimum(low, high, (left, right))
        margin = 0.1 * width
        if min(right - step, step - left) < margin:
            # Near an end twice, or at it: a tenth of the bracket away from that end.
            if stalled or step >= right or step <= left:
                step = right - margin if abs(step - right) < abs(step - left) else left + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        new = at(step)
        calls += 1
        rounds += 1
        if new.loss > start.loss + _DECREASE * new.step * start.slope or new.loss >= low.loss:
            low, high = sorted((low, new), key=lambda point: point.loss)
        else:
            if abs(new.slope) <= -_FLATTER * start.slope:
                return new, calls
            if new.slope * (high.step - low.step) >= 0:
                high = low
            low = new
    return low, calls


def _cubic_minimum(first: Point, second: Point, bounds: tuple[float, float]) -> float:
    """Returns the minimum within ``bounds`` of the cubic through two points with their slopes, or the middle."""
    left, right = sorted((first, second), key=lambda point: point.step)
    width = right.step - left.step
    middle = (bounds[0] + bounds[1]) / 2
    if not width:
        return middle
    a = left.slope + right.slope - 3 * (right.loss - left.loss) / width
    square = a * a - left.slope * right.slope
    if not square >= 0:
        return middle
    root = math.sqrt(square)
    below = right.slope - left.slope + 2 * root
    if not below:
        return middle
    return min(max(right.step - width * (right.slope + root - a) / below, bounds[0]), bounds[1])
