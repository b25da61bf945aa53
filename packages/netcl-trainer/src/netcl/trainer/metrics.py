"""Metrics without a host read per step: weighted sums that stay on the device until they are read.

A metric of a whole epoch has a collector, which reads the outputs of each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError, from_here
from netcl.core.expr import Expr, Load, Scalar, apply, cast
from netcl.core.ops_table.dispatch import evaluate
from netcl.trainer.epoch_metrics import AllOutputs, Collector
from netcl.trainer.named_metrics import Chosen, collector_of, on_device

Metric = Callable[[Any, Any], Any]


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
    The names with a collector have no mean; ``result`` gives theirs.
    """

    def __init__(self, names: Sequence[str], queue: Any) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.collectors: dict[str, Collector] = {}
        self.waiting: dict[str, Mapping[str, Any]] = {}  # loaded states of functions that have not been called yet
        self.totals: tuple[Tensor, ...] = tuple(Tensor.zeros((), queue=queue, persistent=True) for _ in self.names)
        self.skipped: Tensor = Tensor.zeros((), queue=queue, persistent=True)  # samples of skipped steps
        self._parts: dict[int, tuple[Tensor, ...]] = {}  # the totals of steps on several devices, by their ranks
        self._sums = dict.fromkeys(self.names, 0.0)
        self._samples = 0
        self._left_out = 0

    def add(self, values: Sequence[Tensor], n: int, skip: Tensor | None = None, rank: int | None = None) -> None:
        """Adds one value per name without a collector, each a mean over ``n`` samples; if the flag ``skip`` is not 0,
        they are skipped. ``rank``: the device's, if several compute a step.

        The host counts the samples by ``count``.
        """
        flat = [value.detach().reshape(()) for value in values]
        every = self.totals if rank is None else self._part(rank, flat[0].queue)
        totals = tuple(total for name, total in zip(self.names, every) if name not in self.collectors)
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
        means = {name: value for name, value in self._sums.items() if name not in self.collectors}
        return {name: value / counted if counted else math.nan for name, value in means.items()}

    def result(self) -> dict[str, Any]:
        """Returns the means and the metrics of the epoch, in the order of the names; empty before the first sample."""
        means = self.read()
        return {
            name: self.collectors[name].result() if name in self.collectors else means[name]
            for name in (self.names if means else ())
        }

    def reset(self) -> None:
        """Clears all sums and counts."""
        self._sums = dict.fromkeys(self.names, 0.0)
        for total in self.tensors().values():
            total.write(0.0)
        self.skipped.write(0.0)
        self._samples = self._left_out = 0
        for collector in self.collectors.values():
            collector.reset()
        self.waiting.clear()

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
        collected = {name: collector.state_dict() for name, collector in self.collectors.items()}
        return {
            "sums": dict(self._sums),
            "totals": totals,
            "samples": self._samples,
            "left_out": left_out,
            **({"collected": collected} if collected else {}),
        }

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
        for name, collected in (state.get("collected") or {}).items():
            if name in self.collectors:
                self.collectors[name].load_state_dict(collected)
            else:
                self.waiting[name] = collected


class Measures:
    """The loss and the metrics of a model's output, over an epoch.

    A function of the user's is called with the tensors of the first batch. If it returns a tensor of one element, it
    stays on the device, and its mean over the batches counts. If it returns a number, or takes no tensors, it is called
    once for each epoch, with all outputs and targets as NumPy arrays.
    """

    def __init__(self, loss_fn: Callable[[Any, Any], Tensor], metrics: Chosen, queue: Any) -> None:
        taken = {"loss", "epoch", "step", "seconds", "samples_per_second"} & set(metrics)
        if taken:
            raise ValueError(f"metrics: the names {', '.join(sorted(taken))} are the Trainer's own")
        self.loss_fn = loss_fn
        self.metrics: dict[str, Metric] = {}
        self.undecided: set[str] = set()
        self.means: DeviceMeans = DeviceMeans(("loss", *metrics), queue)
        for name, metric in metrics.items():
            function = on_device(metric, loss_fn)
            if function is not None:
                self.metrics[name] = function
                self.undecided |= set() if isinstance(metric, str) else {name}
            else:
                known = isinstance(metric, str)
                self.means.collectors[name] = collector_of(metric, loss_fn) if known else deepcopy(metric)

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
            plain = detached(output)
            for name in sorted(self.undecided):
                self._decide(name, plain, target)
            values = [loss, *(_value(name, fn(plain, target)) for name, fn in self.metrics.items())]
            self.means.add(values, target.shape[0], skip, rank)

    @property
    def collecting(self) -> bool:
        """True if a metric needs the outputs of each batch on the host."""
        return bool(self.means.collectors)

    def collect(self, output: Any, target: Any) -> None:
        """Adds a batch to the metrics of the epoch; reads it from the device."""
        if self.collecting:
            outputs, targets = _host(output), _host(target)
            for name, collector in self.means.collectors.items():
                try:
                    collector.add(outputs, targets)
                except ValueError as error:
                    raise ShapeError(f"metric {name!r}: {error}") from error

    def _decide(self, name: str, output: Any, target: Tensor) -> None:
        """Finds out if a function of the user's computes on the device, or needs the arrays of an epoch."""
        function, failure = self.metrics[name], None
        try:
            value = function(output, target)
        except Exception as error:  # noqa: BLE001 - a function for arrays may fail on tensors in any way
            value, failure = None, error
        if not isinstance(value, Tensor):
            try:
                float(function(_host(output), _host(target)))
            except Exception as error:
                if failure is None and not isinstance(error, (TypeError, ValueError)):
                    raise
                what = type(value).__name__ if failure is None else f"{type(failure).__name__}: {failure}"
                raise TypeError(
                    f"metric {name!r} gave {what} for tensors, and {type(error).__name__}: {error} for arrays; a "
                    "metric returns a Tensor of one element, the mean over the batch, or a number for an epoch's arrays"
                ) from (failure or error)
            del self.metrics[name]
            self.means.collectors[name] = AllOutputs(function, name)
            if name in self.means.waiting:
                self.means.collectors[name].load_state_dict(self.means.waiting.pop(name))
        self.undecided.discard(name)


def _value(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.size != 1:
        what = f"a tensor of shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"metric {name!r} gave {what}; a metric gives a Tensor of one element, the mean over the batch")
    return value


def detached(output: Any) -> Any:
    """Returns an output without its graph."""
    if isinstance(output, Tensor):
        return output.detach()
    if isinstance(output, (tuple, list)):
        return type(output)(detached(item) for item in output)
    return output


def _host(value: Any) -> Any:
    """Returns tensors as arrays."""
    if isinstance(value, (tuple, list)):
        return tuple(_host(item) for item in value)
    return np.asarray(value.to_host() if isinstance(value, Tensor) else value)


from_here(globals())
