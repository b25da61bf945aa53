"""Everything on the device that a training step changes, read to the host and written back, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from netcl.core import Tensor

if TYPE_CHECKING:
    from netcl.trainer.step import TrainingStep

Array = npt.NDArray[Any]

__all__ = ["Snapshot", "TrainingState"]


@dataclass(frozen=True)
class Snapshot:
    """Host copies: tensors by name, and the ``state_dict`` of optimizer and average with arrays in place of tensors."""

    tensors: Mapping[str, Array]
    optimizer: Mapping[str, Any]
    ema: Mapping[str, Any] | None
    names: Mapping[int, str]

    def items(self) -> Iterator[tuple[str, Array]]:
        """Every value under a name that a user knows."""
        yield from self.tensors.items()
        for index, states in self.optimizer["state"].items():
            for name, value in states.items():
                yield f"the optimizer's {name} of {self.names.get(index, f'parameter {index}')}", np.asarray(value)
        if self.ema is not None:
            yield "the number of updates of the average", np.asarray(self.ema["updates"])
            for name, value in self.ema["shadow"].items():
                yield f"the average of {name}", value

    def first_difference(self, other: Snapshot) -> str | None:
        """The name of the first value whose bits are not those of ``other``; None where all agree."""
        mine, theirs = dict(self.items()), dict(other.items())
        for name, value in mine.items():
            if name not in theirs or not _same_bits(value, theirs[name]):
                return name
        return next((name for name in theirs if name not in mine), None)


class TrainingState:
    """The parameters, buffers, optimizer states, averages and metric sums of a step."""

    def __init__(self, step: TrainingStep) -> None:
        self._optimizer, self._ema = step.optimizer, step.ema
        self._tensors: dict[str, Tensor] = dict(step.model.named_parameters())
        self._tensors.update(step.model.named_buffers())
        means = step.measures.means
        self._tensors.update({f"the sum of {name}": total for name, total in zip(means.names, means.totals)})
        known = {id(p): name for name, p in step.model.named_parameters()}
        stepped = [p for group in step.optimizer.param_groups for p in group["params"]]
        self._names = {index: known[id(p)] for index, p in enumerate(stepped) if id(p) in known}

    def read(self) -> Snapshot:
        """A copy of all values on the host."""
        tensors = {name: tensor.to_host() for name, tensor in self._tensors.items()}
        ema = None if self._ema is None else _host(self._ema.state_dict())
        return Snapshot(tensors, _host(self._optimizer.state_dict()), ema, self._names)

    def write(self, snapshot: Snapshot) -> None:
        """Puts all values of ``snapshot`` back, in place."""
        for name, values in snapshot.tensors.items():
            self._tensors[name].write(values)
        self._optimizer.load_state_dict(snapshot.optimizer)
        if self._ema is not None:
            self._ema.load_state_dict(snapshot.ema)


def _host(value: Any) -> Any:
    """The same nest of dicts and lists with arrays in place of tensors."""
    if isinstance(value, Tensor):
        return value.to_host()
    if isinstance(value, dict):
        return {key: _host(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_host(item) for item in value]
    return value


def _same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
