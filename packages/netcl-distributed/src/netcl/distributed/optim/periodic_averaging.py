"""Local SGD: each rank takes steps of its own, and the parameters are averaged over the ranks every few steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from netcl.core import Tensor
from netcl.distributed.captured import refuse_capture
from netcl.distributed.collectives import _group
from netcl.distributed.flat import move_flat
from netcl.distributed.group import ProcessGroup
from netcl.optim import Optimizer, Rule


class PeriodicModelAverager:
    """Averages parameters over the ranks at every ``period``-th call after ``warmup_steps`` calls.

    ``step`` counts the calls. ``process_group`` None: the group of this thread or process. Raises ValueError if
    ``period`` is below 1 or ``warmup_steps`` is negative.

        >>> import numpy as np, netcl.autograd as ag
        >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
        >>> averager.average_parameters([ag.Parameter(np.ones(2, np.float32))])
        >>> averager.step
        1
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None) -> None:
        if warmup_steps < 0:
            raise ValueError(f"expected warmup_steps of at least 0, got {warmup_steps}")
        if period < 1:
            raise ValueError(f"expected a period of at least 1, got {period}")
        self.period: int = period
        self.warmup_steps: int = warmup_steps
        self.process_group: ProcessGroup = _group(process_group)
        self.step: int = 0

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Counts a step; replaces the parameters by their means over the ranks, in place, if it is one of the period.

        ``params``: parameters, or groups ``{"params": [...]}``; all with ``requires_grad`` are averaged, in one
        collective for each dtype.
        """
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            tensors: list[Tensor] = []
            for entry in params:
                tensors += entry["params"] if isinstance(entry, Mapping) else [entry]
            move_flat(self.process_group.all_reduce, (p for p in tensors if p.requires_grad), "mean")
        self.step += 1


class WrappedOptimizer(Optimizer):
    """An optimizer that does more after each step of ``optim``, with the groups, options and states of ``optim``."""

    def __init__(self, optim: Optimizer) -> None:
        if not isinstance(optim, Optimizer):
            raise TypeError(f"{type(self).__name__}: expected an optimizer of netcl.optim, got {type(optim).__name__}")
        self.optim: Optimizer = optim
        self.found_inf: Tensor | None = None
        self.grad_scale: Tensor | None = None

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        """The groups of the wrapped optimizer."""
        return self.optim.param_groups

    @property
    def defaults(self) -> Any:  # type: ignore[override]
        """The options of new groups."""
        return self.optim.defaults

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The states of the wrapped optimizer."""
        return self.optim.state

    @property
    def _hooks(self) -> Any:  # type: ignore[override]
        return self.optim._hooks

    def check(self, group: Mapping[str, Any]) -> None:
        """Raises ValueError if an option of ``group`` is invalid for the wrapped optimizer."""
        self.optim.check(group)

    def rule(self, group: Mapping[str, Any]) -> Rule:
        """Returns the rule of the wrapped optimizer for the options of ``group``."""
        return self.optim.rule(group)

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        """Returns the scalars that the rule reads."""
        return self.optim.numbers(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Adds a group to the wrapped optimizer."""
        self.optim.add_param_group(group)

    def clip_grad_norm(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Calls ``clip_grad_norm`` of the wrapped optimizer."""
        return self.optim.clip_grad_norm(max_norm, norm_type)

    def _local_step(self, closure: Callable[[], Any] | None) -> Any:
        """Takes a step of the wrapped optimizer and returns its loss."""
        params = [p for group in self.param_groups for p in group["params"]]
        if params:
            refuse_capture(
                params[0],
                f"{type(self).__name__} counts its steps in Python, which a replay does not run; step eagerly",
            )
        self.optim.found_inf, self.optim.grad_scale = self.found_inf, self.grad_scale
        try:
            return self.optim.step(closure)
        finally:
            self.optim.found_inf = self.optim.grad_scale = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.optim!r})"

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)


class PostLocalSGDOptimizer(WrappedOptimizer):
    """Takes a step of ``optim`` and then calls ``averager.average_parameters`` (local SGD: Stich 2019; with a warmup of
    synchronous steps: Lin et al. 2020).

    After the warmup the gradients of the ranks must stay local: the model is not wrapped, or its ``no_sync()`` is
    active. The count of steps is a part of ``state_dict()``, under "step".

        >>> import numpy as np, netcl.autograd as ag
        >>> from netcl.optim import SGD
        >>> p = ag.Parameter(np.ones(2, np.float32))
        >>> optimizer = PostLocalSGDOptimizer(SGD([p], lr=0.5), PeriodicModelAverager(period=4))
        >>> p.sum().backward()
        >>> optimizer.step()
        >>> p.tolist()
        [0.5, 0.5]
    """

    def __init__(self, optim: Optimizer, averager: PeriodicModelAverager) -> None:
        super().__init__(optim)
        self.averager: PeriodicModelAverager = averager

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes one step, and averages the parameters if the period has ended; returns the loss of ``closure``."""
        loss = self._local_step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the wrapped optimizer, of this rank, and "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state; one without "step" begins a new count, with a warning."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warnings.warn("PostLocalSGDOptimizer: the state has no 'step', so the averager counts from 0", stacklevel=2)
        self.averager.step = int(state_dict.get("step", 0))
