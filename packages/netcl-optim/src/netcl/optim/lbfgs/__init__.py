"""L-BFGS: a quasi-Newton method for a loss of all data, with a line search by the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, replace
from typing import Any

import netcl.autograd as ag
from netcl.autograd.prediction import boundary, changes_gradients, event
from netcl.core import Tensor
from netcl.core.errors import BackendMismatchError, UnsupportedError
from netcl.optim.lbfgs.history import History
from netcl.optim.lbfgs.strong_wolfe import Point, strong_wolfe
from netcl.optim.optimizer import require
from netcl.optim.options import Declared, with_options


class _Loop:
    """Evaluations of one kind, which are predicted together: the first ones of steps, or the evaluations of line
    searches.
    """


class _Memory:
    """Keeps values from a step to the next one that are no states; a copy begins without them."""

    def __init__(self) -> None:
        self.history: History | None = None
        self.rows: list[Tensor] | None = None  # in the states, if they are of ``history``
        self.first, self.search = _Loop(), _Loop()

    def __reduce__(self) -> Any:
        return _Memory, ()


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
        self._memory = _Memory()

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        known = (None, "strong_wolfe")
        require(
            group["line_search_fn"] in known,
            f"line_search_fn: expected one of {known}, got {group['line_search_fn']!r}",
        )
        require(group["history_size"] >= 1, f"expected history_size of at least 1, got {group['history_size']}")
        for p in group["params"][1:]:
            first = group["params"][0]
            if p.queue is not first.queue or p.dtype != first.dtype:
                raise BackendMismatchError("LBFGS takes parameters on one device and of one dtype")

    @property
    def _params(self) -> list[Tensor]:
        return list(self.param_groups[0]["params"])

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes up to ``max_iter`` iterations and returns the loss before them."""
        if closure is None:
            raise TypeError(
                "LBFGS computes the loss several times per step; write optimizer.step(closure), and let closure() call "
                "zero_grad(), compute the loss, call its backward() and return it"
            )
        with ag.no_grad():
            return self._iterate(closure)

    def clip_grad_norm(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Raises UnsupportedError: a step computes its gradients itself."""
        raise UnsupportedError(
            "LBFGS computes gradients in its step; write nn.utils.clip_grad_norm_(parameters, max_norm) in closure()"
        )

    def _evaluated(self, closure: Callable[[], Any], line: tuple[Tensor, float, Tensor] | None) -> Point:
        """Returns the point where the parameters are, or at a step along a ``line`` (start, step, direction).

        The calls are a period of their own, which is predicted after some evaluations: one replay and one read.
        """
        params, memory = self._params, self._memory
        engine = params[0].engine
        boundary(memory.first if line is None else memory.search, engine)
        step, direction = 0.0, None
        if line is not None:
            start, step, direction = line
            _move(params, start, _number(step, start), direction)
        with ag.enable_grad():
            value = closure()
        self.state[params[0]]["func_evals"] += 1
        grad = _flat_gradients(params)
        numbers = [_largest(grad)]
        if direction is not None:
            numbers += [_product(grad, direction), _largest(direction)]
        is_read = isinstance(value, Tensor) and value.engine is engine and value.dtype == grad.dtype and value.size == 1
        numbers.append(ag.reshape(value, ()) if is_read else numbers[0])
        read = ag.stack(numbers)
        boundary(None, engine)
        largest, *others, loss = read.tolist()
        slope, size = others or (0.0, 0.0)
        return Point(step, loss if is_read else float(value), grad, slope, largest, size, value)

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group, params = self.param_groups[0], self._params
        lr, max_iter, max_eval = float(group["lr"]), group["max_iter"], group["max_eval"]
        state = self.state[params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = point = self._evaluated(closure, None)
        evaluations = 1
        if point.largest <= group["tolerance_grad"]:
            return first.value
        for iteration in range(1, max_iter + 1):
            state["n_iter"] += 1
            direction, slope, longest = self._direction(state, point.grad, group["history_size"])
            state.update(d=direction, prev_flat_grad=point.grad, prev_loss=point.loss)
            state["t"] = t = longest * lr
            if slope > -group["tolerance_change"]:
                break
            start, before, moved = _flat(params), point, [0.0]

            def at(step: float) -> Point:
                moved[0] = step  # noqa: B023, in this iteration
                return self._evaluated(closure, (start, step, direction))  # noqa: B023

            if group["line_search_fn"] is not None:
                point, calls = strong_wolfe(at, replace(point, step=0.0, slope=slope), t, max_eval - evaluations)
                evaluations += calls
                state["t"] = t = point.step
            elif iteration < max_iter:
                point = at(t)
                evaluations += 1
            if moved[0] != t:
                _move(params, start, _number(t, start), direction)
            if iteration == max_iter or evaluations >= max_eval or point.largest <= group["tolerance_grad"]:
                break
            smallest = group["tolerance_change"]
            if point.size * t <= smallest or abs(point.loss - before.loss) < smallest:
                break
        return first.value

    def _direction(self, state: dict[str, Any], grad: Tensor, size: int) -> tuple[Tensor, float, float]:
        """Returns the direction of an iteration, its product with the gradient, and the longest step to begin with."""
        memory = self._memory
        known = memory.history if memory.rows is state.get("old_dirs") else None
        if state["n_iter"] == 1:
            history = History(grad, size)
            direction = ag.neg(grad)
            total, square = ag.stack([ag.sum(ag.abs(grad)), _product(grad, grad)]).tolist()
            slope, longest = -square, min(1.0, 1.0 / total)
        else:
            history = History.of(state, grad, size) if known is None or known.size != size else known
            history.push(ag.mul(state["d"], state["t"]), ag.sub(grad, state["prev_flat_grad"]), grad)
            direction, slope = history.direction()
            longest = 1.0
        state.update(history.state())
        memory.history, memory.rows = history, state["old_dirs"]
        return direction, slope, longest


@event
def _move(params: Sequence[Tensor], start: Tensor, step: Tensor, direction: Tensor) -> None:
    """Writes ``start`` + step * direction into the parameters."""
    target = ag.add(start, ag.mul(direction, step))
    offset = 0
    for p in params:
        p.write(ag.reshape(ag.narrow(target, 0, offset, p.size), p.shape))
        offset += p.size


@changes_gradients
def _flat_gradients(params: Sequence[Tensor]) -> Tensor:
    """Returns the gradients of all parameters as one vector, zeros for those without."""
    grads = [Tensor.zeros(p.shape, p.dtype, queue=p.queue) if p.grad is None else p.grad.detach() for p in params]
    return _flat(grads)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the elements of all tensors as one new vector."""
    parts = [ag.reshape(each.detach(), (-1,)) for each in tensors]
    return ag.clone(parts[0]) if len(parts) == 1 else ag.cat(parts, axis=0)


def _number(value: float, like: Tensor) -> Tensor:
    return Tensor.from_host(like.queue, value, like.dtype)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return ag.sum(ag.mul(a, b))


def _largest(x: Tensor) -> Tensor:
    return ag.amax(ag.abs(x))
