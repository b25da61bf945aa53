"""Load balancing: the batch is split in proportion to the measured speed of the devices."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from netcl.core import DeviceHandle, config
from netcl.distributed.training.data_parallel import shard_sizes

# The first steps build kernels, so their times do not measure the speed.
_WARM_UP = 2
_SMOOTHING = 0.5
# Limits the effect of a single slow step, in which another program used the processor.
_AT_MOST = 2.0
# Another split gives another shape for every kernel: the gain must exceed that cost.
_WORTH = 0.05


def kind_of(handle: DeviceHandle) -> int:
    """Returns a number that is equal for devices of one kind: driver, name and compute units."""
    kind = handle.platform_name, handle.device_name, getattr(handle.profile, "compute_units", 0)
    return crc32(repr(kind).encode())


def alike(handles: Sequence[DeviceHandle]) -> bool:
    """Returns True if all devices are of one kind: they are as fast, so that measurements could only unbalance them."""
    return len(set(map(kind_of, handles))) == 1


class LoadBalancer:
    """``weights``: the fraction of the batch for each device, equal at first, then as measured; fixed if they are
    given, if the devices are of one kind (``equal``), or if NETCL_DETERMINISTIC requires the same bits in each run.
    """

    def __init__(self, count: int, weights: Sequence[float] | None = None, equal: bool = False) -> None:
        if weights is not None and (len(weights) != count or min(weights) < 0 or not sum(weights) > 0):
            raise ValueError(f"expected {count} weights of at least 0, not all zero, got {list(weights)}")
        self._fixed = equal or weights is not None
        self.weights: list[float] = [1.0 / count] * count if weights is None else [w / sum(weights) for w in weights]
        self.rates: list[float | None] = [None] * count  # samples per second
        self._seen = 0

    @property
    def measures(self) -> bool:
        """True if the next step should be measured."""
        return not self._fixed and len(self.weights) > 1 and not config.get("DETERMINISTIC")

    def sizes(self, count: int) -> list[int]:
        """Returns the number of samples for each device; at least one if its weight is not zero and there are enough: a
        device without samples would not be measured again, and others may wait for its statistics.
        """
        sizes = shard_sizes(count, len(self.weights), self.weights)
        for at, weight in enumerate(self.weights):
            largest = max(range(len(sizes)), key=sizes.__getitem__)
            if weight and not sizes[at] and sizes[largest] > 1:
                sizes[at] += 1
                sizes[largest] -= 1
        return sizes

    def measured(self, samples: Sequence[int], seconds: Sequence[float]) -> None:
        """Records a step with the number of samples and the seconds of each device."""
        self._seen += 1
        if self._seen <= _WARM_UP:
            return
        for at, (count, spent) in enumerate(zip(samples, seconds)):
            if count and spent > 0:
                rate, old = count / spent, self.rates[at]
                if old is not None:
                    rate = min(max(rate, old / _AT_MOST), old * _AT_MOST)
                    rate = old + _SMOOTHING * (rate - old)
                self.rates[at] = rate
        known = [rate for rate in self.rates if rate is not None]
        if len(known) < len(self.rates):
            return
        fair = [rate / sum(known) for rate in known]
        # The slowest device determines the step: with weights w it takes max(w / rate).
        now = max(weight / rate for weight, rate in zip(self.weights, known))
        if now * sum(known) > 1 + _WORTH:
            self.weights = fair
