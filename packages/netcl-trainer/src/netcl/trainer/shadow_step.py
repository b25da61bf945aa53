"""ShadowStep: runs a captured step and the same step op by op from one state, and compares the bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl import ops
from netcl.core import config
from netcl.ops.random import drawing_at, skip
from netcl.trainer.step import TrainingStep
from netcl.trainer.training_state import TrainingState


class ShadowStep:
    """Compares all weights, buffers, optimizer states and metrics after a replay of ``step`` and after a call of it,
    every NETCL_CHECK_CAPTURE steps; the values of the call are kept.
    """

    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._since = 0

    def due(self) -> bool:
        """Counts a step; returns True if it must be compared."""
        self._since += 1
        every = config.get("CHECK_CAPTURE")
        return bool(every) and self._since >= every

    def __call__(self, replay: Callable[[], Any], call: Callable[[], Any]) -> str | None:
        """Returns the sentences of a warning, with the name of the first tensor that differs, else None."""
        self._since = 0
        state = TrainingState(self._step)
        before, randomness = state.read(), ops.get_rng_state()
        with drawing_at(randomness):  # both draw the same numbers, whatever other threads draw meanwhile
            replay()
        replayed = state.read()
        state.write(before)
        with drawing_at(randomness):
            call()
            after = ops.get_rng_state()
        skip(after["offset"] - randomness["offset"])
        hosts = {name: state for name, state in after.items() if name not in ("seed", "offset")}
        if hosts:
            ops.set_rng_state({**ops.get_rng_state(), **hosts})
        name = state.read().first_difference(replayed)
        if name is None:
            return None
        return (
            f"a captured training step gives another result than the same step op by op, first in {name}. A capture "
            "freezes what Python code of the model computes; what changes from step to step has to be a tensor"
        )
