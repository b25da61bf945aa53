"""Averages of a model's weights over the steps: exponential moving average (EMA) and stochastic weight
averaging (SWA).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError, from_here
from netcl.core.expr import Expr, Load, Scalar, apply, cast
from netcl.core.ops_table.dispatch import evaluate
from netcl.optim.fused import compute_dtype


class WeightAverage:
    """Averages of the parameters of ``model`` (anything with ``named_parameters()``), stored in float32 (float64 for
    float64).

    ``update()`` after each step adds the current weights, on the device and without a host read; a captured step may
    contain it. ``store()`` saves the weights and copies the averages into the model, ``restore()`` copies the weights
    back; ``averaged()`` does both around a block.
    """

    def __init__(self, model: Any) -> None:
        self._params: dict[str, Tensor] = dict(model.named_parameters())
        if not self._params:
            raise ValueError("the model has no parameters to average")
        self.shadow: dict[str, Tensor] = {name: _copy(p, compute_dtype(p.dtype)) for name, p in self._params.items()}
        self._aside: dict[str, Tensor] | None = None
        queues = {id(p.queue): p.queue for p in self._params.values()}
        self._counts = {key: Tensor.zeros((), queue=queue, persistent=True) for key, queue in queues.items()}
        self._rates = {key: Tensor.zeros((), queue=queue, persistent=True) for key, queue in queues.items()}

    def _rate(self, count: Expr) -> Expr:
        """Returns the weight of the current parameters in the average at update ``count``, from 1."""
        raise TypeError(f"{type(self).__name__} has no rate")

    def _scalars(self) -> dict[str, float]:
        return {}

    @property
    def updates(self) -> int:
        """The number of updates; reads the device."""
        return int(next(iter(self._counts.values())).item())

    def update(self, model: Any = None) -> None:
        """Adds the current weights to the averages. ``model`` may be given, as in other libraries; ValueError if its
        parameters are others.
        """
        if model is not None and {id(p) for _, p in model.named_parameters()} != {id(p) for p in self._params.values()}:
            raise ValueError(
                f"{type(self).__name__} averages the parameters of the model that it was made of; make "
                "one of this model"
            )
        if self._aside is not None:
            raise RuntimeError("the model holds the averages now; call restore() before update()")
        count = Load(0, "float32") + 1.0
        for key, counter in self._counts.items():
            evaluate((count, self._rate(count)), (counter,), self._scalars(), out=(counter, self._rates[key]))
        for name, p in self._params.items():
            shadow = self.shadow[name]
            evaluate(_move(shadow.dtype, p.dtype), (shadow, p, self._rates[id(p.queue)]), out=(shadow,))

    def store(self) -> None:
        """Saves the weights and copies the averages into the model."""
        if self._aside is not None:
            raise RuntimeError("the weights are set aside already; call restore() first")
        self._aside = {name: _copy(p, p.dtype) for name, p in self._params.items()}
        for name, p in self._params.items():
            p.write(self.shadow[name])

    def restore(self) -> None:
        """Copies back the weights that ``store`` saved."""
        if self._aside is None:
            raise RuntimeError("no weights are set aside; call store() first")
        for name, p in self._params.items():
            p.write(self._aside[name])
        self._aside = None

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Puts the averages into the model inside the block."""
        self.store()
        try:
            yield
        finally:
            self.restore()

    def state_dict(self) -> dict[str, Any]:
        """Returns ``{"updates": int, "shadow": {name: T}}``; tensors are not copied."""
        return {"updates": self.updates, "shadow": dict(self.shadow)}

    def check_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Raises ValueError or ShapeError if ``load_state_dict`` would; writes nothing."""
        shadow = state_dict["shadow"]
        if set(shadow) != set(self.shadow):
            raise ValueError(f"the state and the model differ in {sorted(set(shadow) ^ set(self.shadow))}")
        for name, value in shadow.items():
            if tuple(value.shape) != self.shadow[name].shape:
                raise ShapeError(
                    f"average {name!r} has shape {tuple(value.shape)}, its parameter {self.shadow[name].shape}",
                    parameter=name,
                )

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state; names and shapes are checked before anything is written."""
        self.check_state_dict(state_dict)
        for name, value in state_dict["shadow"].items():
            self.shadow[name].write(value)
        for counter in self._counts.values():
            counter.write(float(state_dict["updates"]))


class ModelEMA(WeightAverage):
    """average = d average + (1 - d) weights, with d = ``decay``; with ``warmup`` d = min(decay, (1 + n) / (10 + n)) at
    update n.
    """

    def __init__(self, model: Any, decay: float = 0.999, warmup: bool = True) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"expected a decay in [0, 1], got {decay}")
        self.decay: float = decay
        self.warmup: bool = warmup
        super().__init__(model)

    def _scalars(self) -> dict[str, float]:
        # 1 - decay in double precision: in float32 it would lose four digits.
        return {"rest": 1.0 - self.decay}

    def _rate(self, count: Expr) -> Expr:
        rest = Scalar("rest", "float32")
        return apply("maximum", rest, 9.0 / (10.0 + count)) if self.warmup else rest + 0.0 * count


class SWA(WeightAverage):
    """The mean of the weights at all updates (Izmailov et al. 2018)."""

    def _rate(self, count: Expr) -> Expr:
        return 1.0 / count


@lru_cache(maxsize=64)
def _move(shadow_dtype: str, p_dtype: str) -> tuple[Expr, ...]:
    shadow, p = Load(0, shadow_dtype), cast(Load(1, p_dtype), shadow_dtype)
    return (shadow + cast(Load(2, "float32"), shadow_dtype) * (p - shadow),)


def _copy(p: Tensor, dtype: str) -> Tensor:
    return Tensor.empty(p.shape, dtype, queue=p.queue, persistent=True).write(p.detach())


def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Recomputes the running statistics of batch normalization over ``loader`` (batches, or tuples that begin with
    one; moved to ``device``); weights do not change.

    Every layer with ``running_mean`` is reset and averages all batches equally; modes and momenta are restored at the
    end.
    """
    layers = [module for module in model.modules() if getattr(module, "running_mean", None) is not None]
    if not layers:
        return
    modes, momenta = [(m, m.training) for m in model.modules()], [layer.momentum for layer in layers]
    queue = layers[0].running_mean.queue
    try:
        model.train()
        for layer in layers:
            layer.reset_running_stats()
        with ag.no_grad():
            for at, batch in enumerate(loader, 1):
                for layer in layers:
                    layer.momentum = 1.0 / at
                x = batch[0] if isinstance(batch, (tuple, list)) else batch
                x = x if isinstance(x, Tensor) else Tensor.from_host(queue, x)
                model(x if device is None else x.to(device))
    finally:
        for module, mode in modes:
            module.training = mode
        for layer, momentum in zip(layers, momenta):
            layer.momentum = momentum


from_here(globals())
