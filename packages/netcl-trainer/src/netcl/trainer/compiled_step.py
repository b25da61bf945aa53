"""CompiledStep: runs training steps op by op, or captured and replayed, and checks that both give the same bits."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from netcl import ops
from netcl.autograd.levels import LEVELS, without
from netcl.core import Tensor, config
from netcl.core.errors import CaptureError
from netcl.core.user_frame import level_outside
from netcl.distributed import DataParallel
from netcl.ops.random import drawing_at, skip
from netcl.trainer.batches import Batch, describe, on_device
from netcl.trainer.devices_step import DevicesStep
from netcl.trainer.step import TrainingStep
from netcl.trainer.training_state import TrainingState, differs

if TYPE_CHECKING or "capture" in LEVELS:
    from netcl.runtime.capture import CapturedStep, capture

__all__ = ["CompiledStep"]

# Shapes and dtypes of a batch, and two flags: the batch is the first, and the last, of its accumulation group.
Shape = tuple[Hashable, bool, bool]
# The same, and the numbers of samples of all ranks.
Key = tuple[Hashable, bool, bool, Hashable]

_EAGER_STEPS = 2
# Each captured step has its own intermediate buffers; after this number of batch shapes, steps run eagerly.
_CAPTURES_MAX = 8


class CompiledStep:
    """Runs the first two steps of a batch shape eagerly, then captures the step and replays it.

    After each capture one shadow step runs from the same state eagerly and replayed, and the bits of all weights,
    buffers, optimizer states and metrics are compared. If they differ, the Trainer warns once with the name of the
    first tensor that differs, keeps the values of the eager step, and stops capturing. NETCL_CHECK_CAPTURE=n repeats
    the shadow step every n steps. Steps of a DataParallel model on several devices of this process run by a
    ``DevicesStep``, if the loss is a mean over samples.
    """

    def __init__(self, step: TrainingStep, queue: Any, enabled: bool) -> None:
        self.step: TrainingStep = step
        self.queue: Any = queue
        self._devices = DevicesStep(step) if enabled and DevicesStep.serves(step) else None
        enabled = enabled and not (isinstance(step.model, DataParallel) and not step.model.capturable)
        self.enabled: bool = enabled and not without("capture", "training steps run eagerly")
        self._replays = 0
        self._eager_steps: dict[Shape, int] = {}
        self._captured: dict[Key, CapturedStep] = {}
        self._since_check = 0

    @property
    def replays(self) -> int:
        """The number of steps that were replayed from a capture."""
        return self._replays + (0 if self._devices is None else self._devices.replays)

    def begin(self) -> None:
        """Takes the state of model and optimizer as it is: a fit begins."""
        if self._devices is not None:
            self._replays += self._devices.replays
            self._devices.reset()

    def __call__(self, batch: Batch, first: bool = True, last: bool = True) -> None:
        """Runs one step on ``batch``; ``first`` and ``last`` give its position in its accumulation group."""
        if self._devices is not None and self._devices.takes(batch):
            self._devices(batch)
        else:
            self._run(batch, first, last)
            if self._devices is not None:
                self._devices.reload()
        self.step.measures.means.count(len(batch))

    def finish(self) -> None:
        """Ends a group before its last batch."""
        self.step.finish()

    def _run(self, batch: Batch, first: bool, last: bool) -> None:
        shape = (describe(batch.fields), first, last)
        eager = self._eager_steps.get(shape, 0) < _EAGER_STEPS
        counts, repeats = self._agreed(len(batch), self.enabled and not eager)
        key = (*shape, counts)
        captured = self._captured.get(key)
        if not repeats or (captured is None and len(self._captured) >= _CAPTURES_MAX):
            self._eager_steps[shape] = self._eager_steps.get(shape, 0) + 1
            self._eager(batch, first, last)
        elif captured is not None:
            self._replay(batch, key, captured)
        else:
            self._capture(batch, key)

    def _agreed(self, count: int, repeats: bool) -> tuple[Hashable, bool]:
        """Returns the numbers of samples of all ranks of the model, and True if all of them capture or replay."""
        model = self.step.model
        return model.agree(count, repeats) if isinstance(model, DataParallel) else (count, repeats)

    def _replay(self, batch: Batch, key: Key, captured: CapturedStep) -> None:
        every = config.get("CHECK_CAPTURE")
        self._since_check += 1
        try:
            if every and self._since_check >= every:
                self._shadow(batch, key, captured)
            else:
                captured.replay(*batch.fields)
                self._replays += 1
        except CaptureError:
            # The state that the captures depend on has changed. Capture again after an eager step, which may have to
            # create new optimizer states.
            self.forget()
            self._eager_steps[key[:3]] = 1
            self._eager(batch, *key[1:3])

    def forget(self) -> None:
        """Drops all captures."""
        self._captured.clear()
        self._eager_steps.clear()

    def _tensors(self, batch: Batch) -> list[Tensor]:
        return [on_device(value, self.queue) for value in batch.fields]

    def _eager(self, batch: Batch, first: bool, last: bool) -> None:
        self.step(*self._tensors(batch), first=first, last=last)

    def _capture(self, batch: Batch, key: Key) -> None:
        _, first, last, _ = key
        try:
            step = partial(self.step, first=first, last=last)
            captured = self._captured[key] = capture(step, *self._tensors(batch), watch=self.step.capture_key)
            self._shadow(batch, key, captured)
        except CaptureError as error:
            self.step.optimizer.zero_grad()
            self._stay_eager(f"the training step cannot be captured ({error})")
            self._eager(batch, first, last)

    def _shadow(self, batch: Batch, key: Key, captured: CapturedStep) -> None:
        """Replays one step and runs it eagerly from the same state; the values of the eager step are kept."""
        self._since_check = 0
        state = TrainingState(self.step)
        before, randomness = state.read(), ops.get_rng_state()
        with drawing_at(randomness):  # both draw the same numbers, whatever other threads draw meanwhile
            # Copies, as the step may write into its batch.
            captured.replay(*[field.clone() if isinstance(field, Tensor) else field for field in batch.fields])
        replayed = state.read()
        state.write(before)
        with drawing_at(randomness):
            self._eager(batch, *key[1:3])
            after = ops.get_rng_state()
        skip(after["offset"] - randomness["offset"])
        hosts = {name: state for name, state in after.items() if name not in ("seed", "offset")}
        if hosts:
            ops.set_rng_state({**ops.get_rng_state(), **hosts})
        difference = state.read().first_difference(replayed)
        if difference is not None:
            self._stay_eager(differs(difference))

    def _stay_eager(self, reason: str) -> None:
        self.enabled = False
        self.forget()
        warnings.warn(f"{reason}; training goes on op by op", UserWarning, stacklevel=level_outside())
