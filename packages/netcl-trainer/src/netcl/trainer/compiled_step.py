"""CompiledStep: runs training steps op by op, or captured and replayed, and checks that both give the same bits."""

from __future__ import annotations

from typing import Any

from netcl.autograd.compiler.compiled_function import CompiledFunction
from netcl.distributed import DataParallel
from netcl.trainer.batches import Batch, describe, on_device
from netcl.trainer.devices_step import DevicesStep
from netcl.trainer.shadow_step import ShadowStep
from netcl.trainer.step import TrainingStep


class CompiledStep:
    """Runs the first two steps of a batch shape eagerly, then captures the step and replays it, by a
    ``CompiledFunction``.

    After each capture, and every NETCL_CHECK_CAPTURE steps, a ``ShadowStep`` compares the bits of a replay with an
    eager step. Steps of a DataParallel model on several devices of this process run by a ``DevicesStep``, if the loss
    is a mean over samples.
    """

    def __init__(self, step: TrainingStep, queue: Any, enabled: bool) -> None:
        self.step: TrainingStep = step
        self.queue: Any = queue
        self._devices = DevicesStep(step) if enabled and DevicesStep.serves(step) else None
        self._compiled = CompiledFunction(
            step,
            check=ShadowStep(step),
            prepare=self._tensors,
            enabled=enabled and not (isinstance(step.model, DataParallel) and not step.model.capturable),
            background=not isinstance(step.model, DataParallel),  # its ranks capture together
        )
        self._replays = 0  # of the devices, in earlier fits

    @property
    def replays(self) -> int:
        """The number of steps that were replayed from a capture."""
        return self._compiled.replays + self._replays + (0 if self._devices is None else self._devices.replays)

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
            fields = batch.fields
            kind = describe(fields), first, last
            repeats = self._compiled.repeats(kind)
            model = self.step.model  # all of its ranks capture or replay, or none
            counts, repeats = model.agree(len(batch), repeats) if isinstance(model, DataParallel) else (None, repeats)
            output = self._compiled.call(kind, fields, counts, repeats, first=first, last=last)
            if output is not None:
                self.step.measures.collect(output, batch.target)
            if self._devices is not None:
                self._devices.reload()
        self.step.measures.means.count(len(batch))

    def finish(self) -> None:
        """Ends a group before its last batch."""
        self.step.finish()

    def _tensors(self, fields: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([on_device(value, self.queue) for value in fields])
