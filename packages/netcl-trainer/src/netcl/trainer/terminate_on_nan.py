"""TerminateOnNaN: handles a NaN or infinite loss or gradient by one of three policies."""

from __future__ import annotations

import warnings
from typing import Any

from netcl.core.errors import NonFiniteError
from netcl.core.process.user_frame import level_outside
from netcl.trainer.batches import on_device
from netcl.trainer.callbacks import Callback
from netcl.trainer.first_non_finite import first_non_finite, is_finite
from netcl.trainer.run_view import RunView
from netcl.trainer.training_state import Snapshot, TrainingState


class TerminateOnNaN(Callback):
    """Checks loss and gradients of every step on the device, without a host read per step; a step that is not finite
    changes no weight, no running statistics and no mean. The ``policy`` determines the rest:

    "raise": nothing changes from the first bad step on, and NonFiniteError is raised when the loss is read next (every
    ``metrics_stride`` steps and at the end of an epoch); that step is run again op by op to name the first op and the
    first parameter. The weights are those before it. "skip": training continues with the next batch; the History counts
    ``skipped_steps``. "rollback": the last good state, copied to host memory every ``keep_every`` steps at least, is
    restored, and training continues with the next batches; after ``max_rollbacks`` in a row without a new good state
    NonFiniteError is raised.
    """

    def __init__(self, policy: str = "raise", keep_every: int = 100, max_rollbacks: int = 3) -> None:
        if policy not in ("raise", "skip", "rollback") or keep_every < 1 or max_rollbacks < 1:
            raise ValueError(
                "policy must be 'raise', 'skip' or 'rollback', keep_every and max_rollbacks at least 1, got "
                f"{policy!r}, {keep_every} and {max_rollbacks}"
            )
        self.policy = policy
        self.keep_every: int = keep_every
        self.max_rollbacks: int = max_rollbacks
        self.rollbacks: int = 0  # in this run
        self._in_a_row = self._skipped = 0
        self._kept: Snapshot | None = None
        self._kept_step = 0

    def on_fit_start(self, trainer: RunView) -> None:
        self.rollbacks = self._in_a_row = self._skipped = 0
        self._kept = None
        self._guard(trainer).reset()

    def on_epoch_start(self, trainer: RunView) -> None:
        if self.policy == "rollback" and self._kept is None:
            self._keep(trainer)

    def on_step_end(self, trainer: RunView, logs: dict[str, float]) -> None:
        if logs:
            self._judge(trainer)

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        self._judge(trainer)
        if self.policy == "skip":
            logs["skipped_steps"] = self._skipped
            self._skipped = 0

    @staticmethod
    def _guard(trainer: RunView) -> Any:
        return trainer.training_step.guard

    def _judge(self, trainer: RunView) -> None:
        guard = self._guard(trainer)
        bad = guard.read()
        if not bad:
            if self.policy == "rollback" and trainer.step - self._kept_step >= self.keep_every:
                self._keep(trainer)
        elif self.policy == "raise":
            raise self._error(trainer, bad)
        elif self.policy == "skip":
            self._skipped += bad
            guard.reset()
        else:
            self._roll_back(trainer, bad)
            guard.reset()

    def _keep(self, trainer: RunView) -> None:
        kept = TrainingState(trainer.training_step).read()
        if kept.is_finite():
            self._kept, self._kept_step, self._in_a_row = kept, trainer.step, 0

    def _roll_back(self, trainer: RunView, bad: int) -> None:
        self._in_a_row += 1
        if self._kept is None or self._in_a_row > self.max_rollbacks:
            raise self._error(trainer, bad)
        self.rollbacks += 1
        warnings.warn(
            f"TerminateOnNaN: loss or gradients were not finite in epoch {trainer.epoch}, step "
            f"{trainer.step - bad + 1}; back to the state of step {self._kept_step}, on with the batches to come",
            UserWarning,
            stacklevel=level_outside(),
        )
        # The means of the epoch are kept: they contain no bad step.
        means = trainer.means.state_dict()
        TrainingState(trainer.training_step).write(self._kept)
        trainer.means.load_state_dict(means)

    def _error(self, trainer: RunView, bad: int) -> NonFiniteError:
        """Runs the first of the last ``bad`` steps again to name its first non-finite values."""
        step = trainer.training_step
        op = parameter = None
        causes = []
        for batch in trainer.recent[-bad].batches if bad <= len(trainer.recent) else ():
            fields = [on_device(value, trainer.queue) for value in batch.fields]
            broken = [number for number, field in enumerate(fields) if not is_finite(field)]
            if broken:
                causes.append(f"the batch itself holds NaN or infinity in field {broken[0]}")
            op, parameter = first_non_finite(step, fields, trainer.recent[-bad].randomness)
            if op is not None:
                causes.append(f"the first op is {op}")
                break
        if parameter is not None:
            causes.append(f"the first parameter with such a gradient is {parameter}")
        where = "; ".join(causes) or "run again op by op, that step is finite"
        after = f" after {self._in_a_row - 1} rollbacks in a row" if self.rollbacks else ""
        return NonFiniteError(
            f"loss or gradients are NaN or infinite in epoch {trainer.epoch}, step {trainer.step - bad + 1}{after}: "
            f"{where}. The weights are those before that step. Look at the data, lower the learning rate, or clip "
            "gradients (grad_clip=)",
            op=op,
            parameter=parameter,
        )
