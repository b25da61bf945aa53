"""Splits the batches of a loader into inputs and target, and copies them to the model's device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netcl.core import Tensor


class Batch:
    """The inputs of the model, and the target if there is one: NumPy arrays (or tensors) with a common first axis."""

    __slots__ = ("inputs", "target")

    def __init__(self, inputs: tuple[Any, ...], target: Any | None) -> None:
        self.inputs: tuple[Any, ...] = inputs
        self.target: Any | None = target

    @property
    def fields(self) -> tuple[Any, ...]:
        """Inputs and target, in this order."""
        return self.inputs if self.target is None else (*self.inputs, self.target)

    def __len__(self) -> int:
        """Returns the number of samples."""
        return int(self.fields[-1].shape[0])


@dataclass
class StepInputs:
    """The inputs of one step: the random state before it, and its batches."""

    randomness: Mapping[str, int]
    batches: list[Batch]


def _field(value: Any) -> Any:
    """Returns an array or tensor with a first axis; raises TypeError for anything else."""
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
            raise TypeError(
                f"a batch is made of arrays of numbers; the loader gave {type(value).__name__} of {array.dtype}"
            )
        value = array
    if not value.shape:
        raise TypeError("a batch is made of arrays with the samples along the first axis; the loader gave a 0-d one")
    return value


def split(batch: Any, *, targets: bool) -> Batch:
    """Splits a tuple or list (inputs..., target); a single array is an input only. Raises TypeError if a target is
    missing.
    """
    if isinstance(batch, dict):
        raise TypeError(
            f"expected a batch (inputs..., target), got a dict of {', '.join(map(str, batch))}; give a collate_fn"
        )
    fields: Sequence[Any] = batch if isinstance(batch, (tuple, list)) else (batch,)
    arrays = tuple(_field(value) for value in fields)
    if not arrays:
        raise TypeError("the loader gave an empty batch; a batch is (inputs..., target)")
    if len(arrays) == 1:
        if targets:
            raise TypeError(
                "a batch is (inputs..., target); the loader gave inputs alone, so there is nothing to compare with"
            )
        return Batch(arrays, None)
    return Batch(arrays[:-1], arrays[-1])


def check_loader(loader: Any, name: str) -> None:
    """Raises TypeError if ``loader`` is an array, or a tuple of arrays, in place of an iterable of batches."""
    arrays = np.ndarray, Tensor
    if isinstance(loader, arrays):
        raise TypeError(
            f"{name} must give batches (inputs, target), got an array of shape {tuple(loader.shape)}; write "
            "DataLoader((x, y), batch_size=...)"
        )
    if isinstance(loader, tuple) and loader and all(isinstance(part, (*arrays, list)) for part in loader):
        raise TypeError(
            f"{name} must give batches (inputs, target), got a tuple of {len(loader)} arrays; write "
            "DataLoader((x, y), batch_size=...), or [(x, y)] for one batch"
        )
    if not isinstance(loader, Iterable):
        raise TypeError(f"{name} must be an iterable of batches (inputs, target), such as a DataLoader, got {loader!r}")


def batches(loader: Iterable[Any], *, targets: bool = True) -> Iterator[Batch]:
    """Yields the batches of one pass over ``loader``; batches without samples are skipped.

    Raises TypeError for an array in place of a loader: its elements would be read as batches.
    """
    check_loader(loader, "the loader")
    for item in loader:
        batch = split(item, targets=targets)
        if len(batch):
            yield batch


def on_device(value: Any, queue: Any) -> Tensor:
    """Returns ``value`` as a tensor on ``queue``; host arrays and tensors of other devices are copied there."""
    tensor: Tensor = value if isinstance(value, Tensor) else Tensor.from_host(queue, value)
    return tensor if tensor.queue is queue else tensor.to(queue)


def describe(fields: Iterable[Any]) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Returns shape and dtype of each field: steps with the same description share a captured step."""
    return tuple(
        (tuple(value.shape), value.dtype if isinstance(value, Tensor) else str(value.dtype)) for value in fields
    )
