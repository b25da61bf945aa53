"""Metrics without a host read per step: weighted sums that stay on the device until they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import netcl.autograd as ag
from netcl import ops
from netcl.core import Tensor
from netcl.core.dispatch import evaluate
from netcl.core.errors import ShapeError, from_here
from netcl.core.expr import Expr, Load, Scalar, apply, cast

__all__ = ["DeviceMeans", "Metric", "accuracy"]

Metric = Callable[[Tensor, Tensor], Any]


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Returns the fraction of samples with the maximum of ``output`` (N, C, ...) at the class of ``target``: ids (N,
    ...) or probabilities (N, C, ...).
    """
    ids = ops.argmax(target, axis=1) if target.shape == output.shape else target
    if output.ndim < 2 or ids.shape != (output.shape[0], *output.shape[2:]):
        raise ShapeError(
            f"accuracy: output has shape {output.shape}, target {target.shape}; expected (N, C, ...) and (N, ...)"
        )
    predicted = ops.argmax(output, axis=1)
    return ops.mean(ops.eq(predicted, ops.cast(ids, dtype=predicted.dtype)))


@lru_cache(maxsize=64)
def _update(dtypes: tuple[str, ...], skipping: bool) -> tuple[Expr, ...]:
    """Returns total + n * value for each of ``dtypes``, as one kernel; inputs are all totals, then all values.

    With ``skipping`` the last total counts the skipped samples, and the last input is a flag: if it is not 0, only that
    count changes.
    """
    n, count = Scalar("n", "float32"), len(dtypes) + skipping
    added: list[Expr] = [n * cast(Load(count + number, dtype), "float32") for number, dtype in enumerate(dtypes)]
    if skipping:
        skipped = Load(count + len(dtypes), "float32") > 0
        added = [apply("where", skipped, 0.0, value) for value in added] + [apply("where", skipped, n, 0.0)]
    return tuple(Load(number, "float32") + value for number, value in enumerate(added))


class DeviceMeans:
    """Means over samples of several 0-d values per batch.

    ``add`` is one launch and may be part of a captured step; ``read`` moves the sums to double precision on the host,
    so that the float32 sums on the device stay short. Steps on several devices at once have sums for each of them.
    """

    def __init__(self, names: Sequence[str], queue: Any) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.totals: tuple[Tensor, ...] = tuple(Tensor.zeros((), queue=queue, persistent=True) for _ in self.names)
        self.skipped: Tensor = Tensor.zeros((), queue=queue, persistent=True)  # samples of skipped steps
        self._parts: dict[int, tuple[Tensor, ...]] = {}  # the totals of steps on several devices, by their ranks
        self._sums = dict.fromkeys(self.names, 0.0)
        self._samples = 0
        self._left_out = 0

    def add(self, values: Sequence[Tensor], n: int, skip: Tensor | None = None, rank: int | None = None) -> None:
        """Adds one value per name, each a mean over ``n`` samples; if the flag ``skip`` is not 0, they are skipped.
        ``rank``: the device's, if several compute a step.

        The host counts the samples by ``count``.
        """
        flat = [value.detach().reshape(()) for value in values]
        totals = self.totals if rank is None else self._part(rank, flat[0].queue)
        if skip is not None:
            totals = (*totals, self.skipped)
        inputs = [*totals, *flat, *(() if skip is None else (skip,))]
        expressions = _update(tuple(value.dtype for value in flat), skip is not None)
        evaluate(expressions, inputs, {"n": float(n)}, out=totals)

    def _part(self, rank: int, queue: Any) -> tuple[Tensor, ...]:
        if rank not in self._parts:
            self._parts[rank] = tuple(Tensor.zeros((), queue=queue, persistent=True) for _ in self.names)
        return self._parts[rank]

    def tensors(self) -> dict[str, Tensor]:
        """Returns the sums on all devices, by names for messages."""
        sums = {f"the sum of {name}": total for name, total in zip(self.names, self.totals)}
        for rank, totals in sorted(self._parts.items()):
            sums.update({f"the sum of {name} on device {rank}": total for name, total in zip(self.names, totals)})
        return sums

    def count(self, n: int) -> None:
        """Counts ``n`` more samples; separate from ``add``, which a replay repeats without Python."""
        self._samples += n

    def read(self) -> dict[str, float]:
        """Returns the means since the last ``reset``; waits for the device. Empty before the first sample, NaN if all
        samples were skipped.
        """
        for totals in (self.totals, *self._parts.values()):
            for name, total in zip(self.names, totals):
                self._sums[name] += float(total.item())
                total.write(0.0)
        self._left_out += int(self.skipped.item())
        self.skipped.write(0.0)
        if not self._samples:
            return {}
        counted = self._samples - self._left_out
        return {name: value / counted if counted else math.nan for name, value in self._sums.items()}

    def reset(self) -> None:
        """Clears all sums and counts."""
        self._sums = dict.fromkeys(self.names, 0.0)
        for total in self.tensors().values():
            total.write(0.0)
        self.skipped.write(0.0)
        self._samples = self._left_out = 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the sums on the host and on the device separately, so that a resumed mean is rounded as without
        interruption.
        """
        devices = (self.totals, *self._parts.values())
        totals = {
            name: sum(float(totals_of_device[number].item()) for totals_of_device in devices)
            for number, name in enumerate(self.names)
        }
        left_out = self._left_out + int(self.skipped.item())
        return {"sums": dict(self._sums), "totals": totals, "samples": self._samples, "left_out": left_out}

    def check_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises the errors of ``load_state_dict``, and writes nothing."""
        if set(state["sums"]) != set(self.names):
            raise ValueError(f"the state has the metrics {sorted(state['sums'])}, the Trainer {sorted(self.names)}")
        for name in self.names:
            float(state["sums"][name]), float(state["totals"][name])
        int(state["samples"]), int(state["left_out"])

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state; raises ValueError if it has other metrics."""
        self.check_state_dict(state)
        self.reset()
        for name, total in zip(self.names, self.totals):
            self._sums[name] = float(state["sums"][name])
            total.write(float(state["totals"][name]))
        self._samples, self._left_out = int(state["samples"]), int(state["left_out"])


class Measures:
    """The loss and the metrics of a model's output, with the means of an epoch."""

    def __init__(self, loss_fn: Callable[[Any, Any], Tensor], metrics: Mapping[str, Metric], queue: Any) -> None:
        taken = {"loss", "epoch", "step", "seconds", "samples_per_second"} & set(metrics)
        if taken:
            raise ValueError(f"metrics: the names {', '.join(sorted(taken))} are the Trainer's own")
        self.loss_fn = loss_fn
        self.metrics: dict[str, Metric] = dict(metrics)
        self.means: DeviceMeans = DeviceMeans(("loss", *self.metrics), queue)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Returns the loss of a batch; raises ShapeError if it is not one number."""
        loss = self.loss_fn(output, target)
        if not isinstance(loss, Tensor):
            raise TypeError(f"expected a Tensor from the loss function, got {type(loss).__name__}")
        if loss.size != 1:
            raise ShapeError(f"the loss has shape {loss.shape}; a step needs one number: use reduction='mean'")
        return loss

    def add(
        self, output: Any, target: Tensor, loss: Tensor, skip: Tensor | None = None, rank: int | None = None
    ) -> None:
        """Adds the batch to the means, unless the flag ``skip`` is set; ``rank`` is the device's, if there are
        several.
        """
        with ag.no_grad():
            plain = _detached(output)
            values = [loss, *(_value(name, fn(plain, target)) for name, fn in self.metrics.items())]
            self.means.add(values, target.shape[0], skip, rank)


def _value(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.size != 1:
        what = f"a tensor of shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"metric {name!r} gave {what}; a metric gives a Tensor of one element, the mean over the batch")
    return value


def _detached(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output.detach()
    if isinstance(output, (tuple, list)):
        return type(output)(_detached(item) for item in output)
    return output


from_here(globals())
