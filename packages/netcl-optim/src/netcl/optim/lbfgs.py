"""L-BFGS: a quasi-Newton method for a loss of all data, with a line search by the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import BackendMismatchError
from netcl.optim.optimizer import require
from netcl.optim.options import Declared, with_options

# The pair of a step and of the change of the gradient is stored if their product exceeds this number.
_CURVATURE = 1e-10
# Sufficient decrease and curvature of the strong Wolfe conditions.
_DECREASE, _FLATTER = 1e-4, 0.9


@dataclass(frozen=True)
class Point:
    """A point of a line search: the step, the loss, the gradient there and its product with the direction."""

    step: float
    loss: float
    grad: Tensor
    slope: float


@with_options
class LBFGS(Declared):
    """Limited-memory BFGS (Liu and Nocedal 1989); ``step(closure)`` takes up to ``max_iter`` iterations and returns the
    first loss.

    ``closure()`` clears the gradients, computes them and returns the loss; an iteration calls it once, or with
    ``line_search_fn="strong_wolfe"`` up to ``max_eval`` times (None: 1.25 ``max_iter``) per step. One group of
    parameters, on one device and of one dtype. Reads the loss and some norms on the host, so a step cannot be captured.
    """

    lr: float = 1
    max_iter: InitVar[int] = 20
    max_eval: InitVar[int | None] = None
    tolerance_grad: InitVar[float] = 1e-7
    tolerance_change: InitVar[float] = 1e-9
    history_size: InitVar[int] = 100
    line_search_fn: InitVar[str | None] = None

    def _set_up(self) -> None:
        require(len(self.param_groups) == 1, "LBFGS takes one group of parameters; give LBFGS(model.parameters())")
        for options in (self.defaults, *self.param_groups):
            if options["max_eval"] is None:
                options["max_eval"] = self.defaults["max_iter"] * 5 // 4

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        known = (None, "strong_wolfe")
        require(
            group["line_search_fn"] in known,
            f"line_search_fn: expected one of {known}, got {group['line_search_fn']!r}",
        )
        for p in group["params"][1:]:
            first = group["params"][0]
            if p.queue is not first.queue or p.dtype != first.dtype:
                raise BackendMismatchError("LBFGS takes parameters on one device and of one dtype")

    @property
    def _params(self) -> list[Tensor]:
        return list(self.param_groups[0]["params"])

    def _flat_grad(self) -> Tensor:
        flat = []
        for p in self._params:
            grad = Tensor.zeros(p.shape, p.dtype, queue=p.queue) if p.grad is None else p.grad.detach()
            flat.append(ag.reshape(grad, (p.size,)))
        return ag.cat(flat, axis=0)

    def _move(self, start: list[Tensor], step: float, direction: Tensor) -> None:
        """Writes ``start`` + step * direction into the parameters."""
        offset = 0
        for p, value in zip(self._params, start):
            part = ag.reshape(ag.narrow(direction, 0, offset, p.size), p.shape)
            p.write(ag.add(value, ag.mul(part, step)))
            offset += p.size

    def _copies(self) -> list[Tensor]:
        return [ag.clone(p.detach()) for p in self._params]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes up to ``max_iter`` iterations and returns the loss before them."""
        if closure is None:
            raise TypeError(
                "LBFGS computes the loss several times per step; write optimizer.step(closure), and let closure() call "
                "zero_grad(), compute the loss, call its backward() and return it"
            )
        with ag.no_grad():
            return self._iterate(closure)

    def _along(
        self, start: list[Tensor], direction: Tensor, evaluated: Callable[[], tuple[Any, float, Tensor]]
    ) -> Callable[[float], Point]:
        """Returns the function of a step that moves the parameters from ``start`` by it and gives the point there."""

        def at(t: float) -> Point:
            self._move(start, t, direction)
            _, loss, grad = evaluated()
            return Point(t, loss, grad, _dot(grad, direction))

        return at

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr, max_iter, max_eval = float(group["lr"]), group["max_iter"], group["max_eval"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluated() -> tuple[Any, float, Tensor]:
            with ag.enable_grad():
                value = closure()
            state["func_evals"] += 1
            return value, float(value), self._flat_grad()

        first, loss, grad = evaluated()
        evaluations = 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, max_iter + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            state.update(d=direction, prev_flat_grad=grad, prev_loss=loss)
            state["t"] = t = min(1.0, 1.0 / ag.sum(ag.abs(grad)).item()) * lr if state["n_iter"] == 1 else lr
            slope = _dot(grad, direction)
            if slope > -group["tolerance_change"]:
                break
            start, before = self._copies(), loss
            if group["line_search_fn"] is not None:
                here = Point(0.0, loss, grad, slope)
                at = self._along(start, direction, evaluated)
                point, calls = strong_wolfe(at, here, t, _largest(direction), max_eval - evaluations)
                t, loss, grad = point.step, point.loss, point.grad
                evaluations += calls
                self._move(start, t, direction)
                state["t"] = t
            else:
                self._move(start, t, direction)
                if iteration == max_iter:
                    break
                _, loss, grad = evaluated()
                evaluations += 1
            if evaluations >= max_eval or _largest(grad) <= group["tolerance_grad"]:
                break
            smallest = group["tolerance_change"]
            if _largest(direction) * t <= smallest or abs(loss - before) < smallest:
                break
        return first

    def _direction(self, state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """Returns minus the inverse Hessian times the gradient, by the two-loop recursion over the stored pairs."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return ag.neg(grad)
        y, s = ag.sub(grad, state["prev_flat_grad"]), ag.mul(state["d"], state["t"])
        changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        product = _dot(y, s)
        if product > _CURVATURE:
            for stored, new in ((changes, y), (steps, s), (ro, 1.0 / product)):
                if len(stored) == history_size:
                    stored.pop(0)
                stored.append(new)
            state["H_diag"] = product / _dot(y, y)
        q, weights = ag.neg(grad), []
        for change, step, inverse in zip(reversed(changes), reversed(steps), reversed(ro)):
            weights.append(ag.mul(ag.sum(ag.mul(step, q)), inverse))
            q = ag.sub(q, ag.mul(weights[-1], change))
        q = ag.mul(q, state["H_diag"])
        for change, step, inverse, weight in zip(changes, steps, ro, reversed(weights)):
            q = ag.add(q, ag.mul(step, ag.sub(weight, ag.mul(ag.sum(ag.mul(change, q)), inverse))))
        return q


def strong_wolfe(
    at: Callable[[float], Point], start: Point, step: float, size: float, max_calls: int, tolerance: float = 1e-9
) -> tuple[Point, int]:
    """Returns a point that satisfies the strong Wolfe conditions, or the best one after ``max_calls`` iterations, and
    the number of calls of ``at`` (Nocedal and Wright 2006, algorithms 3.5 and 3.6, with cubic interpolation).

    ``size`` is the largest element of the direction: a bracket below ``tolerance`` ends the search.
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
        if width * size < tolerance:
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


def _dot(a: Tensor, b: Tensor) -> float:
    return float(ag.sum(ag.mul(a, b)).item())


def _largest(x: Tensor) -> float:
    return float(ag.amax(ag.abs(x)).item()) if x.size else 0.0
