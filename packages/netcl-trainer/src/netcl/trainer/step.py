"""TrainingStep: one training step from the forward pass to optimizer and metrics, op by op."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from netcl.amp import GradScaler, autocast
from netcl.autograd import Node
from netcl.core import Tensor
from netcl.optim import Optimizer, clip_grad_norm_device
from netcl.trainer.gradient_accumulation import GradientSums
from netcl.trainer.metrics import Measures, detached
from netcl.trainer.non_finite_guard import NonFiniteGuard


def precision(dtype: str | None) -> AbstractContextManager[Any]:
    """Returns autocast in ``dtype``; a context without effect for None."""
    return nullcontext() if dtype is None else autocast(dtype=dtype)


@dataclass(eq=False)
class TrainingStep:
    """``step(*inputs, target)`` on tensors of the model's device: one update of the weights, without a host read.

    With ``sums`` a step is one batch of an accumulation group: ``first`` and ``last`` mark its first and last batch,
    and the weights are updated at its end.
    """

    model: Any
    optimizer: Any
    measures: Measures
    grad_clip: float | None = None
    ema: Any = None
    autocast_dtype: str | None = None
    scaler: GradScaler | None = None
    sums: GradientSums | None = None
    guard: NonFiniteGuard | None = None

    def __call__(self, *fields: Tensor, first: bool = True, last: bool = True) -> Any:
        """Runs the step; returns the output if a metric of the epoch needs it, else None."""
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
            self.guard.check_loss(loss)
        target = fields[-1]
        if self.sums is not None:
            self.sums.add(target.shape[0])
        if last:
            self.update()
        self.measures.add(output, target, loss, None if self.guard is None else self.guard.found)
        if self.guard is not None and last:
            self.guard.end()
        return detached(output) if self.measures.collecting else None

    def finish(self) -> None:
        """Updates the weights for a group that is incomplete at the end of an epoch."""
        self.update()
        if self.guard is not None:
            self.guard.end()

    def forward(self, *fields: Tensor) -> tuple[Any, Tensor]:
        """Returns the model's output and the loss, in mixed precision if requested."""
        *inputs, target = fields
        with precision(self.autocast_dtype):
            output = self.model(*inputs)
            return output, self.measures.loss(output, target)

    def update(self) -> None:
        """Updates weights and averages from the gradients."""
        if self.sums is not None:
            self.sums.set_mean_gradients()
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        members = [p for group in self.optimizer.param_groups for p in group["params"]]
        if self.guard is not None:
            # Overflowing gradients are handled by the scaler: it skips the step and lowers its factor.
            if self.scaler is None:
                self.guard.check_gradients(members)
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
