"""DevicesStep: captured training steps of a DataParallel model on several devices of this process."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl import nn
from netcl.amp import autocast
from netcl.core import Tensor
from netcl.core.errors import CaptureError
from netcl.core.process.user_frame import level_outside
from netcl.distributed import DataParallel, TrainStep, current_group
from netcl.optim import Optimizer
from netcl.trainer.batches import Batch
from netcl.trainer.shadow_step import ShadowStep
from netcl.trainer.step import TrainingStep

_CLASSES = ag.cross_entropy, ag.nll_loss
_MEANS = (
    ag.mse_loss,
    ag.l1_loss,
    ag.smooth_l1_loss,
    ag.huber_loss,
    ag.binary_cross_entropy,
    ag.binary_cross_entropy_with_logits,
)
_CLASS_LAYERS = nn.CrossEntropyLoss, nn.NLLLoss
_MEAN_LAYERS = nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss


def is_mean_over_samples(loss_fn: Any, target: Any) -> bool:
    """Returns True if the loss of a batch with this target is known to be the mean of the losses of its samples, so
    that each device can compute that of its samples: losses of netcl without weights, and no class id of an array of
    the host is ignored.
    """
    if loss_fn in _MEANS:
        return True
    kind = type(loss_fn)
    if kind in _MEAN_LAYERS or kind in _CLASS_LAYERS:
        weighted = any(getattr(loss_fn, name, None) is not None for name in ("weight", "pos_weight"))
        if loss_fn.reduction != "mean" or weighted:
            return False
    if kind in _MEAN_LAYERS:
        return True
    if loss_fn in _CLASSES or kind in _CLASS_LAYERS:
        ignored = getattr(loss_fn, "ignore_index", -100)
        return isinstance(target, np.ndarray) and not (target.dtype.kind in "iu" and (target == ignored).any())
    return False


class DevicesStep:
    """Runs the steps of ``step`` for a DataParallel on several devices of this process, by a TrainStep.

    The losses and metrics are of each device's samples, summed per device. After each capture, and every
    NETCL_CHECK_CAPTURE steps, a shadow step runs replayed and operation by operation from the same state, as in
    ``CompiledStep``.
    """

    def __init__(self, step: TrainingStep) -> None:
        self.step: TrainingStep = step
        self.capture: bool = True
        self._train: TrainStep | None = None
        self._check = ShadowStep(step)

    @staticmethod
    def serves(step: TrainingStep) -> bool:
        """Returns True if steps like this can run by a TrainStep: on devices with shares that do not follow their
        measured speeds, without a group of processes, accumulation, float16, and TerminateOnNaN.
        """
        model = step.model
        return (
            isinstance(model, DataParallel)
            and model.group is None
            and len(model.weights) > 1
            and min(model.weights) > 0
            and not model.balances
            and isinstance(step.optimizer, Optimizer)
            and step.sums is None
            and step.scaler is None
            and step.guard is None
        )

    def takes(self, batch: Batch) -> bool:
        """Returns True if a step on this batch can run in parts: each device gets samples, the loss is a mean, and no
        metric needs the outputs.
        """
        measures = self.step.measures
        if measures.collecting or measures.undecided:
            return False
        return len(batch) >= len(self.step.model.weights) and is_mean_over_samples(measures.loss_fn, batch.target)

    @property
    def replays(self) -> int:
        """The number of steps that were replayed since the last ``reset``."""
        return 0 if self._train is None else self._train.replays

    def reset(self) -> None:
        """Forgets the replicas and captures; the next step takes the state of model and optimizer as it is then."""
        if self._train is not None:
            self._train.close()
        self._train = None

    def reload(self) -> None:
        """Takes the optimizer's state after a step that ran otherwise."""
        if self._train is not None:
            self._train.reload()

    def __call__(self, batch: Batch) -> None:
        """Runs one step."""
        try:
            self._run(batch)
        except BaseException:
            self.reset()
            raise
        self.step.optimizer.zero_grad()
        if self.step.ema is not None:
            self.step.ema.update()

    def _run(self, batch: Batch) -> None:
        step, train = self.step, self._train
        if train is None:
            train = self._train = TrainStep(
                step.model,
                self._loss,
                step.optimizer,
                capture=self.capture,
                grad_clip=step.grad_clip,
                autocast=step.autocast_dtype,
            )
        due = self._check.due()
        if train.captures(*batch.fields) or (due and train.replays):
            self._shadow(train, batch)
        else:
            train(*batch.fields)

    def _loss(self, output: Any, target: Tensor) -> Tensor:
        loss = self.step.measures.loss(output, target)
        group = current_group()  # of the devices
        assert group is not None
        with autocast(enabled=False):
            self.step.measures.add(output, target, loss, rank=group.rank)
        return loss

    def _shadow(self, train: TrainStep, batch: Batch) -> None:
        """Replays one step and runs it op by op from the same state; its values are kept."""
        replays = train.replays

        def replay() -> None:
            train(*batch.fields)
            if train.replays == replays:
                raise CaptureError("the step cannot be captured, and ran op by op")

        def call() -> None:
            train.reload()
            train.capture = False
            train(*batch.fields)

        try:
            difference = self._check(replay, call)
        except CaptureError:
            return
        train.capture = self.capture = difference is None
        if difference is not None:
            message = f"the step is not compiled: {difference}; it goes on op by op"
            warnings.warn(message, UserWarning, stacklevel=level_outside())
