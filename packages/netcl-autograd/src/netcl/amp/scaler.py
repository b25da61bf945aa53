"""GradScaler: dynamic loss scaling, so that small half gradients do not underflow; its state is on the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import netcl.autograd as ag
from netcl.autograd.prediction import changes_gradients, event, postponing, refused
from netcl.core import Tensor
from netcl.core.expr import Expr, Load, Scalar, apply, cast, reduce
from netcl.core.ops_table.dispatch import evaluate, evaluate_each, reduce_each

_WIDE = ("float32", "float64")


class GradScaler:
    """Loss scaling with a factor that halves at an overflow and doubles after ``growth_interval`` good steps.

    ``scaler.scale_loss(loss).backward(); scaler.step(optimizer)``. The factor, the count of good steps and the
    overflow flags are tensors on the loss's device: a step reads nothing on the host, and an optimizer step is
    skipped on the device, by the optimizer's ``found_inf``. ``update`` adjusts the factor; if it is not called, the
    next ``scale_loss`` does so.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not (init_scale > 0 and growth_factor > 1 and 0 < backoff_factor < 1 and growth_interval >= 1):
            raise ValueError(
                f"GradScaler: init_scale {init_scale} > 0, growth_factor {growth_factor} > 1, 0 < backoff_factor "
                f"{backoff_factor} < 1, "
                f"growth_interval {growth_interval} >= 1 are needed"
            )
        self.growth_factor: float = growth_factor
        self.backoff_factor: float = backoff_factor
        self.growth_interval: int = growth_interval
        self.enabled: bool = enabled
        self._start = (float(init_scale), 0.0)
        self._scale: Tensor | None = None
        self._good: Tensor | None = None
        self._found: dict[int, Tensor] = {}  # by id of the optimizer: 1 if a gradient was not finite
        self._unscaled: set[int] = set()
        self._pending = False

    def _on(self, queue: Any) -> Tensor:
        """Returns the factor, allocated on the device of the first loss."""
        if self._scale is None:
            scale, good = self._start
            self._scale = Tensor.full((), scale, queue=queue, persistent=True)
            self._good = Tensor.full((), good, queue=queue, persistent=True)
        return self._scale

    # The host's own values change here, and not in events: a predicted event is not run.

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Returns ``loss`` times the factor, for ``backward``; adjusts the factor first if a step is not counted."""
        if not self.enabled:
            return ag.tensor(loss)
        if self._pending:
            self.update()
        return self._scaled(loss)

    @event
    def _scaled(self, loss: Tensor) -> Tensor:
        return ag.mul(loss, self._on(loss.queue))

    def scale(self, outputs: Any) -> Any:
        """Returns ``scale_loss`` of a tensor, or of each tensor of a list or tuple: PyTorch's name."""
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(output) for output in outputs])
        return self.scale_loss(outputs)

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of the optimizer's parameters by the factor, in float32, and sets a flag on the device
        if one is not finite.

        RuntimeError for a second call before ``step``.
        """
        if not self.enabled:
            return
        if id(optimizer) in self._unscaled:
            raise RuntimeError(
                "unscale_: the gradients of this optimizer are unscaled already; call it once, before step"
            )
        self._divide(optimizer)
        self._unscaled.add(id(optimizer))

    @changes_gradients
    def _divide(self, optimizer: Any) -> None:
        owners, scale, _ = self._checked(optimizer)
        results: dict[int, Tensor] = {}
        for same in _by_dtype(owners):
            results.update(zip(map(id, same), _unscaled(same, scale)))
        for p in owners:
            p.grad = results[id(p.grad)]

    def _checked(self, optimizer: Any) -> tuple[list[Tensor], Tensor, Tensor]:
        """Returns the parameters with gradients, the factor, and the flag: 1 if a gradient is not finite."""
        grads = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not grads:
            raise RuntimeError(
                "GradScaler: no parameter of the optimizer has a gradient; call scale_loss(loss).backward() first"
            )
        scale = self._on(grads[0].queue)
        flag = self._found.get(id(optimizer))
        if flag is None:
            flag = self._found[id(optimizer)] = Tensor.full((), 0.0, queue=scale.queue, persistent=True)
        for same in _by_dtype(grads):
            _note_broken(same, flag)
        return grads, scale, flag

    def step(self, optimizer: Any, *args: Any) -> Any:
        """Steps the optimizer with the unscaled gradients; nothing changes if one was not finite.

        If ``unscale_`` has not been called, an optimizer with a ``grad_scale`` unscales them in its own pass.
        """
        if not self.enabled:
            return optimizer.step(*args)
        result = _stepped(self, optimizer, id(optimizer) not in self._unscaled, *args)
        self._unscaled.discard(id(optimizer))
        self._pending = True
        return result

    def _step(self, optimizer: Any, unscales: bool, *args: Any) -> Any:
        scale = None
        if unscales:
            if getattr(optimizer, "grad_scale", self) is None and not args and _is_wide(optimizer):
                _, scale, _ = self._checked(optimizer)
            else:
                self._divide(optimizer)
        before, optimizer.found_inf = optimizer.found_inf, self._found[id(optimizer)]
        if scale is not None:
            optimizer.grad_scale = scale
        try:
            return optimizer.step(*args)
        finally:
            optimizer.found_inf = before
            if scale is not None:
                optimizer.grad_scale = None

    def update(self) -> None:
        """Shrinks the factor after an overflow, grows it after ``growth_interval`` steps without one."""
        self._pending = False
        if self.enabled and self._scale is not None:
            options = {"interval": self.growth_interval, "growth": self.growth_factor, "backoff": self.backoff_factor}
            self._updated(options)

    @event
    def _updated(self, scalars: dict[str, float]) -> None:
        assert self._scale is not None
        assert self._good is not None
        flags = list(self._found.values())
        scale, good = Load(0, "float32"), Load(1, "float32")
        flagged: Expr = Load(2, "float32") if flags else cast(0.0, "float32")
        for at in range(1, len(flags)):
            flagged = apply("maximum", flagged, Load(2 + at, "float32"))
        bad = flagged > 0
        due = good + 1.0 >= Scalar("interval", "float32")
        grown = scale * Scalar("growth", "float32")
        up = apply("where", due & apply("isfinite", grown), grown, scale)
        new_scale = apply("where", bad, scale * Scalar("backoff", "float32"), up)
        new_good = apply("where", bad | due, 0.0, good + 1.0)
        inputs = (self._scale, self._good, *flags)
        outputs = (new_scale, new_good, *(Load(2 + at, "float32") * 0.0 for at in range(len(flags))))
        evaluate(outputs, inputs, scalars, out=inputs)

    def get_scale(self) -> float:
        """Returns the factor, read from the device; 1 if the scaler is not enabled."""
        if not self.enabled:
            return 1.0
        return self._start[0] if self._scale is None else float(self._scale)

    def is_enabled(self) -> bool:
        """True if it scales."""
        return self.enabled

    def get_growth_factor(self) -> float:
        """Returns the factor of growth."""
        return self.growth_factor

    def get_backoff_factor(self) -> float:
        """Returns the factor after an overflow."""
        return self.backoff_factor

    def get_growth_interval(self) -> int:
        """Returns the number of good steps before the factor grows."""
        return self.growth_interval

    def state_dict(self) -> dict[str, Any]:
        """Returns factor, options and the count of good steps in PyTorch's layout; empty if not enabled."""
        if not self.enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": int(self._start[1] if self._good is None else float(self._good)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of ``state_dict``; ValueError if its factor is not a positive number."""
        if not self.enabled:
            return
        scale = float(state["scale"])
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"GradScaler: the state has scale {scale}; a positive number is needed")
        self.growth_factor, self.backoff_factor = float(state["growth_factor"]), float(state["backoff_factor"])
        self.growth_interval = int(state["growth_interval"])
        self._start = (scale, float(state["_growth_tracker"]))
        self._pending = False
        if self._scale is not None and self._good is not None:
            self._scale.write(scale)
            self._good.write(self._start[1])


def _take_step(scaler: GradScaler, optimizer: Any, unscales: bool, *args: Any) -> Any:
    with postponing():
        return scaler._step(optimizer, unscales, *args)


def _refuses(leaves: Any, scaler: GradScaler, optimizer: Any, unscales: bool, *args: Any) -> str | None:
    if getattr(optimizer, "_clip", None) is not None:
        return "a step of a scaler that clips"
    refuses = getattr(optimizer, "refuses_prediction", None)
    return "an optimizer of the program" if refuses is None else refuses(*args)


_stepped: Any = refused(_take_step, _refuses)


def _by_dtype(params: Sequence[Tensor]) -> list[list[Any]]:
    """Returns the distinct gradients of parameters, grouped by dtype."""
    grads = {id(p.grad): p.grad for p in params if p.grad is not None}
    groups: dict[str, list[Any]] = {}
    for grad in grads.values():
        groups.setdefault(grad.dtype, []).append(grad)
    return list(groups.values())


def _is_wide(optimizer: Any) -> bool:
    """Returns True if gradients are float32 or float64 like their parameter, and no two parameters share one."""
    params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    wide = all(p.grad.dtype == p.dtype and p.dtype in _WIDE for p in params)
    return wide and len({p.grad.storage_id for p in params}) == len(params)


def _note_broken(grads: Sequence[Tensor], flag: Tensor) -> None:
    """Sets ``found`` to 1 if an element of ``grads``, all of one dtype, is not finite."""
    each = [(grad,) for grad in grads if grad.size]
    if each:
        load = Load(0, grads[0].dtype)
        parts = reduce_each("max", cast(apply("logical_not", apply("isfinite", load)), "float32"), each)
        broken = reduce("max", Load(0, "float32"), (0,))
        evaluate((apply("maximum", Load(1, "float32"), broken),), (parts, flag), shapes=((1,),), out=(flag,))


def _unscaled(grads: Sequence[Tensor], scale: Tensor) -> list[Tensor]:
    """Returns ``grads``, all of one dtype, divided by ``scale`` in float32 at least; in place if it is their dtype."""
    dtype = grads[0].dtype
    wide = dtype if dtype in _WIDE else "float32"
    value = cast(Load(0, dtype), wide) / cast(Load(1, "float32"), wide)
    each = [(grad,) for grad in grads]
    return [result for (result,) in evaluate_each((value,), each, (scale,), out=each if wide == dtype else None)]
