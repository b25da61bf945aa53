"""RunView: the attributes of a Trainer that callbacks and checkpoints read and set, as a Protocol."""

from __future__ import annotations

from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Protocol

from netcl.trainer.batches import StepInputs
from netcl.trainer.history import History
from netcl.trainer.metrics import DeviceMeans
from netcl.trainer.step import TrainingStep


class RunView(Protocol):
    """A Trainer as its callbacks see it; ``Trainer`` has all of these.

    Attributes:
        epoch: number of the current epoch, from 1. epochs: epochs of this fit.
        step: updates of the weights over all fits. samples: samples of the current epoch so far.
        steps_per_epoch: None if the loader has no length. accumulation_steps: batches per update.
        should_stop: set it to end the run after the current epoch.
        history: one dict per finished epoch. means: loss and metrics of the current epoch.
        recent: the inputs of the steps since the loss was last read, for TerminateOnNaN.
    """

    epoch: int
    epochs: int
    step: int
    samples: int
    steps_per_epoch: int | None
    accumulation_steps: int
    should_stop: bool
    model: Any
    optimizer: Any
    scheduler: Any
    scaler: Any
    ema: Any
    queue: Any
    history: History
    recent: list[StepInputs]

    @property
    def means(self) -> DeviceMeans:
        """See ``Trainer.means``."""
        ...

    @property
    def training_step(self) -> TrainingStep:
        """See ``Trainer.training_step``."""
        ...

    def announce(self, text: str) -> None:
        """See ``Trainer.announce``."""
        ...

    def averaged(self) -> AbstractContextManager[None]:
        """See ``Trainer.averaged``."""
        ...

    def save_checkpoint(self, path: str | PathLike[str]) -> None:
        """See ``Trainer.save_checkpoint``."""
        ...
