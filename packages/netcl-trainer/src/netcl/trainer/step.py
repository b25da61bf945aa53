"""The training step, from forward to optimizer and metrics: run op by op, or captured and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

from netcl import ops
from netcl.autograd import Node, is_grad_enabled
from netcl.core import Tensor, config
from netcl.core.errors import CaptureError
from netcl.optim import Optimizer, clip_grad_norm_device
from netcl.runtime.capture import CapturedStep, capture
from netcl.trainer.batches import Batch, describe, on_device
from netcl.trainer.metrics import Measures
from netcl.trainer.state import TrainingState

__all__ = ["CompiledStep", "TrainingStep"]

_EAGER_STEPS = 2
# Each captured step keeps its own intermediate buffers; batches of very many shapes stay eager.
_CAPTURES_MAX = 8


class TrainingStep:
    """``step(*inputs, target)`` on tensors of the model's device: one update of the weights, without a host read."""

    def __init__(self, model: Any, optimizer: Any, measures: Measures, grad_clip: float | None, ema: Any) -> None:
        self.model, self.optimizer, self.measures = model, optimizer, measures
        self.grad_clip, self.ema = grad_clip, ema

    def __call__(self, *fields: Tensor) -> None:
        *inputs, target = fields
        output = self.model(*inputs)
        loss = self.measures.loss(output, target)
        if not (isinstance(loss, Node) and loss.requires_grad):
            raise RuntimeError(
                "the loss has no gradient: the model's parameters are frozen, or the loss function uses netcl.ops, "
                "which is forward only, in place of netcl.autograd"
            )
        loss.backward()
        if self.grad_clip is not None:
            clip_grad_norm_device([p for group in self.optimizer.param_groups for p in group["params"]], self.grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.ema is not None:
            self.ema.update()
        self.measures.add(output, target, loss)

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
        self._eager_steps: dict[Hashable, int] = {}
        self._captured: dict[Hashable, CapturedStep] = {}
        self._since_check = 0

    def __call__(self, batch: Batch) -> None:
        """One step on ``batch``."""
        self._run(batch)
        self.step.measures.means.count(len(batch))

    def _run(self, batch: Batch) -> None:
        key = describe(batch.fields)
        captured = self._captured.get(key)
        if not self.enabled:
            self._eager(batch)
        elif captured is not None:
            self._replay(batch, key, captured)
        elif self._eager_steps.get(key, 0) < _EAGER_STEPS or len(self._captured) >= _CAPTURES_MAX:
            self._eager_steps[key] = self._eager_steps.get(key, 0) + 1
            self._eager(batch)
        else:
            self._capture(batch, key)

    def _replay(self, batch: Batch, key: Hashable, captured: CapturedStep) -> None:
        every = config.get("CHECK_CAPTURE")
        self._since_check += 1
        try:
            if every and self._since_check >= every:
                self._shadow(batch, captured)
            else:
                captured.replay(*batch.fields)
                self.replays += 1
        except CaptureError:
            # What the captures depend on has changed: begin anew, as new optimizer states may have to be made first.
            self.forget()
            self._eager_steps[key] = 1
            self._eager(batch)

    def forget(self) -> None:
        """Drops all captures."""
        self._captured.clear()
        self._eager_steps.clear()

    def _tensors(self, batch: Batch) -> list[Tensor]:
        return [on_device(value, self.queue) for value in batch.fields]

    def _eager(self, batch: Batch) -> None:
        self.step(*self._tensors(batch))

    def _capture(self, batch: Batch, key: Hashable) -> None:
        try:
            captured = self._captured[key] = capture(self.step, *self._tensors(batch), watch=self.step.watched)
            self._shadow(batch, captured)
        except CaptureError as error:
            self.step.optimizer.zero_grad()
            self._stay_eager(f"the training step cannot be captured ({error})")
            self._eager(batch)

    def _shadow(self, batch: Batch, captured: CapturedStep) -> None:
        """One step, replayed and then run op by op from the same state; the values of the latter stay."""
        self._since_check = 0
        state = TrainingState(self.step)
        before, randomness = state.read(), ops.get_rng_state()
        captured.replay(*batch.fields)
        replayed = state.read()
        state.write(before)
        ops.set_rng_state(randomness)
        self._eager(batch)
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
