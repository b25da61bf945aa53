"""The complete device state that a training step changes, copied to the host and restored bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.core import Tensor
from netcl.distributed.optim import ZeroRedundancyOptimizer
from netcl.trainer.step import TrainingStep

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Snapshot:
    """Host copies: tensors by name, and the ``state_dict`` of optimizer, average and scaler with arrays for tensors."""

    tensors: Mapping[str, Array]
    states: Mapping[str, Mapping[str, Any]]
    names: Mapping[int, str]

    def items(self) -> Iterator[tuple[str, Array]]:
        """Yields every value with a name for messages."""
        yield from self.tensors.items()
        for index, states in self.states["optimizer"]["state"].items():
            for name, value in states.items():
                yield f"the optimizer's {name} of {self.names.get(index, f'parameter {index}')}", np.asarray(value)
        if "ema" in self.states:
            yield "the number of updates of the average", np.asarray(self.states["ema"]["updates"])
            for name, value in self.states["ema"]["shadow"].items():
                yield f"the average of {name}", value
        for name, value in self.states.get("scaler", {}).items():
            yield f"the scaler's {name.strip('_')}", np.asarray(value)

    def first_difference(self, other: Snapshot) -> str | None:
        """Returns the name of the first value with other bits than in ``other``; None if all agree."""
        mine, theirs = dict(self.items()), dict(other.items())
        for name, value in mine.items():
            if name not in theirs or not _same_bits(value, theirs[name]):
                return name
        return next((name for name in theirs if name not in mine), None)

    def is_finite(self) -> bool:
        """Returns True if no value is NaN or infinite."""
        return all(value.dtype.kind != "f" or bool(np.isfinite(value).all()) for _, value in self.items())


class TrainingState:
    """The state that a step changes: parameters, buffers, optimizer states, averages, loss scale, sums of gradients and
    metrics.
    """

    def __init__(self, step: TrainingStep) -> None:
        # If the optimizer's state is divided among ranks, the part that this rank's step changes.
        divided = isinstance(step.optimizer, ZeroRedundancyOptimizer)
        optimizer = step.optimizer.optim if divided else step.optimizer
        objects = {"optimizer": optimizer, "ema": step.ema, "scaler": step.scaler}
        self._objects = {name: thing for name, thing in objects.items() if thing is not None}
        self._tensors: dict[str, Tensor] = dict(step.model.named_parameters())
        self._tensors.update(step.model.named_buffers())
        for part in (step.measures.means, step.sums, step.guard):
            self._tensors.update({} if part is None else part.tensors())
        name_of = {id(p): name for name, p in step.model.named_parameters()}
        stepped = [p for group in optimizer.param_groups for p in group["params"]]
        self._names = {index: name_of[id(p)] for index, p in enumerate(stepped) if id(p) in name_of}

    def read(self) -> Snapshot:
        """Returns a copy of all values on the host."""
        tensors = {name: tensor.to_host() for name, tensor in self._tensors.items()}
        return Snapshot(
            tensors, {name: _host(thing.state_dict()) for name, thing in self._objects.items()}, self._names
        )

    def write(self, snapshot: Snapshot) -> None:
        """Restores all values of ``snapshot``, in place."""
        for name, values in snapshot.tensors.items():
            self._tensors[name].write(values)
        for name, thing in self._objects.items():
            thing.load_state_dict(snapshot.states[name])


def _host(value: Any) -> Any:
    """Returns the same nested dicts and lists with arrays in place of tensors."""
    if isinstance(value, Tensor):
        return value.to_host()
    if isinstance(value, dict):
        return {key: _host(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_host(item) for item in value]
    return value


def _same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
