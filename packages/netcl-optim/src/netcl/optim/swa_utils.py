"""Averages of a model as a module (SWA and EMA) under the names of PyTorch's module of this name."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.nn import Module
from netcl.optim.ema import update_bn as update_bn
from netcl.optim.schedules import SWALR as SWALR

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def _check_decay(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(f"expected a decay in [0, 1], got {decay}")


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Returns f(average, current, count) = decay average + (1 - decay) current."""
    _check_decay(decay)

    def ema_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with ag.no_grad():
            return ag.add(ag.mul(averaged_param, decay), ag.mul(current_param, 1 - decay))

    return ema_update


def get_swa_avg_fn() -> Average:
    """Returns f(average, current, count) = average + (current - average) / (count + 1)."""

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with ag.no_grad():
            step = ag.div(ag.sub(current_param, averaged_param), ag.add(num_averaged, 1))
            return ag.add(averaged_param, ag.cast(step, dtype=averaged_param.dtype))

    return swa_update


def _each(average: Average) -> MultiAverage:
    def update(averaged_params: Sequence[Tensor], current_params: Sequence[Tensor], num_averaged: Any) -> None:
        for averaged, current in zip(averaged_params, current_params):
            averaged.write(average(averaged.detach(), current.detach(), num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Returns f(averages, currents, count), which writes ``get_ema_avg_fn(decay)`` into each of the averages."""
    return _each(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """Returns f(averages, currents, count), which writes ``get_swa_avg_fn()`` into each of the averages."""
    return _each(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of ``model``, on ``device``, with averages of the model's parameters: equal weights (SWA) by default, or
    ``avg_fn(averaged, current, num_averaged)``, or ``multi_avg_fn`` of lists, which writes into the first.

    ``update_parameters(model)`` adds the model's current values; buffers are averaged with ``use_buffers``, otherwise
    copied. The state has the keys ``n_averaged`` and ``module.`` followed by the model's.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("give avg_fn or multi_avg_fn, not both")
        self.module: Module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        first = next(itertools.chain(self.module.parameters(), self.module.buffers()), None)
        queue = None if first is None else first.queue
        self.register_buffer("n_averaged", Tensor.zeros((), "int64", queue=queue, persistent=True))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers: bool = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Adds the current values of ``model`` to the averages; the first call copies them. Reads the count."""
        ours: list[Tensor] = list(self.module.parameters())
        theirs: list[Tensor] = list(model.parameters())
        buffers = list(zip(self.module.buffers(), model.buffers()))
        if self.use_buffers:
            ours += [mine for mine, _ in buffers]
            theirs += [current for _, current in buffers]
            buffers = []
        with ag.no_grad():
            # An average of whole numbers would be rounded at each step: they are copied.
            averaged = [is_floating(mine.dtype) and int(self.n_averaged.item()) > 0 for mine in ours]
            buffers += [pair for pair, average in zip(zip(ours, theirs), averaged) if not average]
            pairs = [(mine, _on(current, mine)) for mine, current, average in zip(ours, theirs, averaged) if average]
            if pairs:
                multi = self.multi_avg_fn or _each(self.avg_fn or get_swa_avg_fn())
                groups: dict[Any, list[tuple[Tensor, Tensor]]] = {}
                for mine, current in pairs:
                    groups.setdefault((id(mine.queue), mine.dtype), []).append((mine, current))
                for group in groups.values():
                    count = _on(self.n_averaged, group[0][0])
                    multi([mine for mine, _ in group], [current for _, current in group], count)
            for target, source in buffers:
                target.write(_on(source, target))
            self.n_averaged.write(ag.add(self.n_averaged, 1))


def _on(tensor: Tensor, other: Tensor) -> Tensor:
    """Returns the values of ``tensor`` on the device of ``other``, without its history."""
    if tensor.queue is other.queue:
        return tensor.detach()
    return Tensor.empty(tensor.shape, tensor.dtype, queue=other.queue).write(tensor.detach())
