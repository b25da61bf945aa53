"""The training step, from forward to optimizer and metrics: run op by op, or captured and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from netcl import ops
from netcl.amp import GradScaler, autocast
from netcl.autograd import Node, is_grad_enabled
from netcl.core import Tensor, config
from netcl.core.errors import CaptureError
from netcl.optim import Optimizer, clip_grad_norm_device
from netcl.runtime.capture import CapturedStep, capture
from netcl.trainer.accumulate import GradientSums
from netcl.trainer.batches import Batch, describe, on_device
from netcl.trainer.guard import NonFiniteGuard
from netcl.trainer.metrics import Measures
from netcl.trainer.state import TrainingState

__all__ = ["CompiledStep", "TrainingStep", "precision"]

# Shapes and dtypes of a batch, and whether it is the first and the last of its group.
Key = tuple[Hashable, bool, bool]

_EAGER_STEPS = 2
# Each captured step keeps its own intermediate buffers; batches of very many shapes stay eager.
_CAPTURES_MAX = 8


def precision(dtype: str | None) -> AbstractContextManager[Any]:
    """autocast in ``dtype``; None: nothing."""
    return nullcontext() if dtype is None else autocast(dtype=dtype)


class TrainingStep:
    """``step(*inputs, target)`` on tensors of the model's device: one update of the weights, without a host read.

    With ``sums`` a step is one batch of a group: ``first`` and ``last`` say where in the group it stands, and the
    weights are updated at its end.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        measures: Measures,
        grad_clip: float | None = None,
        ema: Any = None,
        *,
        autocast_dtype: str | None = None,
        scaler: GradScaler | None = None,
        sums: GradientSums | None = None,
        guard: NonFiniteGuard | None = None,
    ) -> None:
        self.model, self.optimizer, self.measures = model, optimizer, measures
        self.grad_clip, self.ema = grad_clip, ema
        self.autocast_dtype, self.scaler, self.sums, self.guard = autocast_dtype, scaler, sums, guard

    def __call__(self, *fields: Tensor, first: bool = True, last: bool = True) -> None:
        if self.guard is not None and first:
            self.guard.begin()
        output, loss = self.forward(*fields)
        if not (isinstance(loss, Node) and loss.requires_grad):
            raise RuntimeError(
                "the loss has no gradient: the model's parameters are frozen, or the loss function uses netcl.ops, "
                "which is forward only, in place of netcl.autograd"
            )
        (loss if self.scaler is None else self.scaler.scale_loss(loss)).backward()
        if self.guard is not None:
            self.guard.look(loss)
        target = fields[-1]
        if self.sums is not None:
            self.sums.add(target.shape[0])
        if last:
            self.update()
        self.measures.add(output, target, loss, None if self.guard is None else self.guard.found)
        if self.guard is not None and last:
            self.guard.end()

    def finish(self) -> None:
        """The update of a group that an epoch's end has cut short."""
        self.update()
        if self.guard is not None:
            self.guard.end()

    def forward(self, *fields: Tensor) -> tuple[Any, Tensor]:
        """The model's output and the loss, in mixed precision where that was asked for."""
        *inputs, target = fields
        with precision(self.autocast_dtype):
            output = self.model(*inputs)
            return output, self.measures.loss(output, target)

    def update(self) -> None:
        """From gradients to new weights and averages."""
        if self.sums is not None:
            self.sums.spread()
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        members = [p for group in self.optimizer.param_groups for p in group["params"]]
        if self.guard is not None:
            # Gradients that overflow are the scaler's affair: it skips the step and lowers its factor.
            if self.scaler is None:
                self.guard.look_at_gradients(members)
            self.optimizer.found_inf = self.guard.found
        if self.grad_clip is not None:
            if isinstance(self.optimizer, Optimizer):
                self.optimizer.clip_grad_norm(self.grad_clip)  # in the pass that updates
            else:
                clip_grad_norm_device(members, self.grad_clip)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad()
        if self.ema is not None:
            self.ema.update()

    def watched(self) -> Hashable:
        """The Python state that the step depends on; where it changes, a captured step is not that step any more."""
        modules = tuple((id(module), module.training) for module in self.model.modules())
        tensors = (*self.model.parameters(), *self.model.buffers())
        params = tuple((id(t), t.dtype, id(t.queue), t.requires_grad) for t in tensors)
        groups = tuple(self._group(group) for group in self.optimizer.param_groups)
        return modules, params, groups, is_grad_enabled()

    def _group(self, group: Any) -> Hashable:
        members = tuple(id(p) for p in group["params"])
        if isinstance(self.optimizer, Optimizer):
            # The numbers of our optimizers lie on the device, where replays see them; the rule is the kernel's form.
            return members, self.optimizer.rule(group)
        return members, tuple((key, repr(value)) for key, value in group.items() if key != "params")


class CompiledStep:
    """Runs steps: the first two of a batch shape op by op, then captured and replayed.

    After each capture one shadow step runs from the same state op by op and replayed, and the bits of all weights,
    buffers, optimizer states and metrics are compared. Where they differ, the Trainer warns once, naming the first
    tensor that differs, keeps the values of the step that ran op by op, and captures no more. NETCL_CHECK_CAPTURE=n
    repeats the shadow step every n steps.
    """

    def __init__(self, step: TrainingStep, queue: Any, enabled: bool) -> None:
        self.step, self.queue, self.enabled = step, queue, enabled
        self.replays = 0
        self._eager_steps: dict[Key, int] = {}
        self._captured: dict[Key, CapturedStep] = {}
        self._since_check = 0

    def __call__(self, batch: Batch, first: bool = True, last: bool = True) -> None:
        """One step on ``batch``; ``first`` and ``last`` in its group, where gradients are accumulated."""
        self._run(batch, first, last)
        self.step.measures.means.count(len(batch))

    def finish(self) -> None:
        """Ends a group before its last batch."""
        self.step.finish()

    def _run(self, batch: Batch, first: bool, last: bool) -> None:
        if not self.enabled:
            self._eager(batch, first, last)
            return
        key = (describe(batch.fields), first, last)
        captured = self._captured.get(key)
        if captured is not None:
            self._replay(batch, key, captured)
        elif self._eager_steps.get(key, 0) < _EAGER_STEPS or len(self._captured) >= _CAPTURES_MAX:
            self._eager_steps[key] = self._eager_steps.get(key, 0) + 1
            self._eager(batch, first, last)
        else:
            self._capture(batch, key)

    def _replay(self, batch: Batch, key: Key, captured: CapturedStep) -> None:
        every = config.get("CHECK_CAPTURE")
        self._since_check += 1
        try:
            if every and self._since_check >= every:
                self._shadow(batch, key, captured)
            else:
                captured.replay(*batch.fields)
                self.replays += 1
        except CaptureError:
            # What the captures depend on has changed: begin anew, as new optimizer states may have to be made first.
            self.forget()
            self._eager_steps[key] = 1
            self._eager(batch, *key[1:])

    def forget(self) -> None:
        """Drops all captures."""
        self._captured.clear()
        self._eager_steps.clear()

    def _tensors(self, batch: Batch) -> list[Tensor]:
        return [on_device(value, self.queue) for value in batch.fields]

    def _eager(self, batch: Batch, first: bool, last: bool) -> None:
        self.step(*self._tensors(batch), first=first, last=last)

    def _capture(self, batch: Batch, key: Key) -> None:
        _, first, last = key
        try:
            step = partial(self.step, first=first, last=last)
            captured = self._captured[key] = capture(step, *self._tensors(batch), watch=self.step.watched)
            self._shadow(batch, key, captured)
        except CaptureError as error:
            self.step.optimizer.zero_grad()
            self._stay_eager(f"the training step cannot be captured ({error})")
            self._eager(batch, first, last)

    def _shadow(self, batch: Batch, key: Key, captured: CapturedStep) -> None:
        """One step, replayed and then run op by op from the same state; the values of the latter stay."""
        self._since_check = 0
        state = TrainingState(self.step)
        before, randomness = state.read(), ops.get_rng_state()
        captured.replay(*batch.fields)
        replayed = state.read()
        state.write(before)
        ops.set_rng_state(randomness)
        self._eager(batch, *key[1:])
        difference = state.read().first_difference(replayed)
        if difference is not None:
            self._stay_eager(
                f"a captured training step gives another result than the same step op by op, first in {difference}. "
                "A capture freezes what Python code of the model computes; what changes from step to step has to be a "
                "tensor"
            )

    def _stay_eager(self, reason: str) -> None:
        self.enabled = False
        self.forget()
        warnings.warn(f"{reason}; training goes on op by op", UserWarning, stacklevel=2)
