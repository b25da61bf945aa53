"""Checks first and second derivatives against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl.autograd.backward import grad
from netcl.autograd.grad_node import FLOATING
from netcl.autograd.mode import enable_grad, no_grad
from netcl.autograd.node import Node
from netcl.core import Tensor

Array = np.ndarray[Any, Any]

# (step, relative and absolute tolerance) by the coarsest dtype among the inputs
_STEPS = {
    "float64": (1e-6, 1e-5, 1e-6),
    "float32": (1e-2, 2e-2, 2e-3),
    "float16": (5e-2, 1e-1, 5e-2),
    "bfloat16": (2e-1, 2e-1, 2e-1),
}


def _floating(results: Any) -> list[Tensor]:
    several = results if isinstance(results, (tuple, list)) else (results,)
    return [result for result in several if isinstance(result, Tensor) and result.dtype in FLOATING]


def gradcheck(
    fn: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    eps: float | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> bool:
    """Returns True if the gradients of ``fn(*inputs)`` with respect to inputs that require grad equal central
    differences, else raises RuntimeError.

    The outputs are weighted randomly and summed, so all are checked. ``eps`` is the step (default 1e-6 in float64);
    dtypes other than float64 are checked coarsely. The error names the input, the element and both numbers.
    """
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    xs = [arg for arg in args if isinstance(arg, Tensor) and arg.requires_grad and arg.dtype in FLOATING]
    if not xs:
        raise ValueError("gradcheck: no input requires grad")
    step, relative, absolute = max(_STEPS[x.dtype] for x in xs)
    step, relative, absolute = eps or step, relative if rtol is None else rtol, absolute if atol is None else atol
    rng = np.random.default_rng(seed)
    outputs = _floating(fn(*args))
    weights = [rng.uniform(0.5, 1.5, output.shape) * rng.choice([-1.0, 1.0], output.shape) for output in outputs]
    reached = [(output, weight) for output, weight in zip(outputs, weights) if output.requires_grad]
    gradients: Sequence[Tensor | None] = [None] * len(xs)
    if reached:
        seeds = [Tensor.from_host(output.queue, weight, output.dtype) for output, weight in reached]
        gradients = grad([output for output, _ in reached], xs, seeds, allow_unused=True)

    def value() -> float:
        with no_grad():
            now = _floating(fn(*args))
        return float(sum(np.sum(output.to_host().astype(np.float64) * weight) for output, weight in zip(now, weights)))

    for number, (x, gradient) in enumerate(zip(xs, gradients)):
        ours = np.zeros(x.shape) if gradient is None else gradient.to_host().astype(np.float64)
        numeric = _differences(value, x, step)
        off = np.abs(ours - numeric) - (absolute + relative * np.abs(numeric))
        if ours.size and not off.max() <= 0:
            at = np.unravel_index(int(np.nanargmax(np.where(np.isnan(off), np.inf, off))), off.shape)
            raise RuntimeError(
                f"gradcheck: by input {number} (shape {x.shape}, {x.dtype}) at {tuple(map(int, at))} the gradient is "
                f"{ours[at]:.8g}, "
                f"central differences give {numeric[at]:.8g}"
            )
    return True


def _differences(value: Callable[[], float], x: Tensor, step: float) -> Array:
    """Returns d value / d x by central differences; x is overwritten and restored."""
    start = x.to_host()
    result = np.zeros(x.shape)
    for at in np.ndindex(*x.shape):
        sides = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[at] += sign * step
            x.detach().write(moved)
            sides.append((float(x.to_host()[at]), value()))
        (high, f_high), (low, f_low) = sides
        result[at] = (f_high - f_low) / (high - low)
    x.detach().write(start)
    return result


def gradgradcheck(
    fn: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Sequence[Tensor] | None = None,
    eps: float | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> bool:
    """``gradcheck`` of the gradients: second derivatives by the inputs and by the gradients of the outputs."""
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    places = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad and a.dtype in FLOATING]
    rng = np.random.default_rng(seed + 1)
    if grad_outputs is None:
        grad_outputs = [
            Tensor.from_host(out.queue, rng.uniform(0.5, 1.5, out.shape), out.dtype)
            for out in _floating(fn(*args))
            if out.requires_grad
        ]
    seeds = [Node(each, requires_grad=True) for each in grad_outputs]

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        now = values[: len(args)]
        outputs = [output for output in _floating(fn(*now)) if output.requires_grad]
        if not outputs:
            return ()
        results = grad(outputs, [now[i] for i in places], values[len(args) :], create_graph=True, allow_unused=True)
        return tuple(each for each in results if each is not None)

    def recorded(*values: Any) -> tuple[Tensor, ...]:
        with enable_grad():
            return gradients(*values)

    return gradcheck(recorded, (*args, *seeds), eps, rtol=rtol, atol=atol, seed=seed)
