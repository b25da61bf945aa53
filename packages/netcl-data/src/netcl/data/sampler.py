"""Samplers: the order of an epoch as a function of (seed, epoch), with an exact position that can be saved."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from netcl.data.dataset import Indices
from netcl.data.device_transfer import configured
from netcl.data.sample_random import SeedSource, check_seed


class Sampler(ABC):
    """An order of sample indices, a new one for each epoch.

    Each ``iter(sampler)`` runs one epoch and increments the epoch number; ``set_epoch(e)`` makes the next iteration
    epoch e. A subclass defines ``order(epoch)``.

    ``state_dict()`` holds the seed, the epoch and the number of samples yielded in it. After ``load_state_dict`` the
    next iteration yields the rest of that epoch. A DataLoader counts the samples of the batches that it has yielded.
    """

    def __init__(self, seed: int | None = None, *, generator: SeedSource | None = None) -> None:
        self.seed: int = check_seed(seed, generator)
        self._next = (0, 0)  # epoch and first position of the next iteration
        self._current = (0, 0)  # epoch and position now
        self._order: tuple[int, Indices] | None = None
        self._expected_check: int | None = None

    @abstractmethod
    def order(self, epoch: int) -> Indices:
        """Returns the sample indices of an epoch, int64 (n,); a function of the seed and the epoch only."""

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of samples of an epoch."""

    @property
    def epoch(self) -> int:
        """The epoch of the next iteration."""
        return self._next[0]

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration run epoch ``epoch``: from its start, or from a loaded position inside that epoch."""
        if isinstance(epoch, bool) or not isinstance(epoch, (int, np.integer)) or epoch < 0:
            raise ValueError(f"epoch must be a non-negative int, got {epoch!r}")
        if self._next[0] == epoch and self._next[1]:
            return  # a loop that sets its epochs must not discard the position that was just loaded
        self._next = self._current = (int(epoch), 0)
        self._expected_check = None

    def begin(self) -> tuple[int, Indices]:
        """Starts the next epoch and returns its number and the remaining sample indices, int64 (n,).

        Raises:
            ValueError: a loaded state does not belong to the order of this sampler.
        """
        epoch, start = self._next
        order = self._order_of(epoch)
        if self._expected_check is not None and zlib.crc32(order.tobytes()) != self._expected_check:
            raise ValueError(
                f"cannot resume inside epoch {epoch}: this {type(self).__name__} orders its {len(order)} samples "
                "otherwise than the one that was saved (another dataset, other weights or another NumPy version); "
                f"to go on with a whole epoch, set_epoch({epoch + 1})"
            )
        self._expected_check = None
        self._current = (epoch, start)
        self._next = (epoch + 1, 0)
        return epoch, order[start:]

    def record(self, epoch: int, position: int) -> None:
        """Records that ``position`` samples of ``epoch`` have been yielded."""
        self._current = (epoch, position)

    def finish(self, epoch: int) -> None:
        """Records that ``epoch`` is complete, unless another one has been started since."""
        if self._next == (epoch + 1, 0):
            self._current = self._next

    def __iter__(self) -> Iterator[int]:
        epoch, order = self.begin()
        return self._samples(epoch, order)

    def _samples(self, epoch: int, order: Indices) -> Iterator[int]:
        start = self._current[1]
        for position, index in enumerate(order.tolist(), start + 1):
            self.record(epoch, position)
            yield index
        self.finish(epoch)

    def _order_of(self, epoch: int) -> Indices:
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, np.ascontiguousarray(self.order(epoch), dtype=np.int64))
        return self._order[1]

    def state_dict(self) -> dict[str, Any]:
        """Returns plain ints: ``seed epoch position length``, and ``check``, a checksum of the order (None at position
        0).
        """
        epoch, position = self._current
        check = zlib.crc32(self._order_of(epoch).tobytes()) if position else None
        return {"seed": self.seed, "epoch": epoch, "position": position, "length": len(self), "check": check}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores seed and position; the next iteration yields the rest of the saved epoch.

        Raises:
            ValueError: a key is missing, or the state was saved for another number of samples.
        """
        missing = {"seed", "epoch", "position", "length", "check"} - set(state)
        if missing:
            raise ValueError(f"the state of a sampler lacks {sorted(missing)}, it has {sorted(state)}")
        if state["length"] != len(self):
            raise ValueError(
                f"the state was saved for {state['length']} samples per epoch, this {type(self).__name__} has "
                f"{len(self)}"
            )
        self.seed = check_seed(state["seed"])
        self._order = None
        self._next = self._current = (int(state["epoch"]), int(state["position"]))
        self._expected_check = state["check"]

    def _generator(self, epoch: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, epoch])))


def _check_count(num_samples: int | None, default: int) -> int:
    if num_samples is None:
        return default
    if isinstance(num_samples, bool) or not isinstance(num_samples, (int, np.integer)) or num_samples < 0:
        raise ValueError(f"num_samples must be a non-negative int or None, got {num_samples!r}")
    return int(num_samples)


class SequentialSampler(Sampler):
    """0, 1, ..., ``len(data_source)`` - 1."""

    def __init__(self, data_source: Sized) -> None:
        super().__init__(seed=0)
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def order(self, epoch: int) -> Indices:
        return np.arange(len(self.data_source), dtype=np.int64)


class RandomSampler(Sampler):
    """A new permutation each epoch, or draws with replacement.

    ``num_samples`` (default: all): if it exceeds the dataset without replacement, further permutations follow.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: SeedSource | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, generator=generator)
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples: int | None = None if num_samples is None else _check_count(num_samples, 0)
        if self.num_samples and not len(data_source):
            raise ValueError(f"cannot draw num_samples={num_samples} from an empty dataset")

    def __len__(self) -> int:
        return len(self.data_source) if self.num_samples is None else self.num_samples

    def order(self, epoch: int) -> Indices:
        rng, n, count = self._generator(epoch), len(self.data_source), len(self)
        if count == 0:
            return np.empty(0, np.int64)
        if self.replacement:
            return rng.integers(0, n, count)
        if count <= n:
            return rng.permutation(n)[:count]
        return np.concatenate([rng.permutation(n) for _ in range(-(-count // n))])[:count]


class WeightedRandomSampler(Sampler):
    """``num_samples`` draws with probabilities proportional to ``weights``, shape (n,).

    Raises:
        ValueError: weights that are negative, not finite, all zero or not one-dimensional; without replacement, more
            draws than weights above zero.
    """

    def __init__(
        self,
        weights: npt.ArrayLike,
        num_samples: int,
        replacement: bool = True,
        generator: SeedSource | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, generator=generator)
        self.weights: npt.NDArray[np.float64] = np.array(weights, np.float64)
        self.num_samples: int = _check_count(num_samples, 0)
        self.replacement = replacement
        if self.weights.ndim != 1:
            raise ValueError(f"weights must be one-dimensional, got shape {self.weights.shape}")
        if not np.isfinite(self.weights).all() or (self.weights < 0).any() or not self.weights.sum() > 0:
            raise ValueError("weights must be finite, not negative and not all zero")
        positive = int(np.count_nonzero(self.weights))
        if not replacement and self.num_samples > positive:
            raise ValueError(
                f"cannot draw num_samples={num_samples} without replacement from {positive} weights above zero"
            )

    def __len__(self) -> int:
        return self.num_samples

    def order(self, epoch: int) -> Indices:
        probabilities = self.weights / self.weights.sum()
        return self._generator(epoch).choice(
            len(self.weights), self.num_samples, replace=self.replacement, p=probabilities
        )


class SubsetRandomSampler(Sampler):
    """The given sample indices in a new order each epoch."""

    def __init__(
        self,
        indices: Sequence[int] | npt.NDArray[Any],
        generator: SeedSource | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, generator=generator)
        self.indices: np.ndarray[Any, Any] = np.array(indices, np.int64)
        if self.indices.ndim != 1:
            raise ValueError(f"indices must be one-dimensional, got shape {self.indices.shape}")

    def __len__(self) -> int:
        return len(self.indices)

    def order(self, epoch: int) -> Indices:
        return self._generator(epoch).permutation(self.indices)


class DistributedSampler(Sampler):
    """The shard of rank ``rank``: every ``num_replicas``-th sample of an order that all ranks share.

    All shards have the same length: the order is padded from its beginning, or truncated with ``drop_last``. ``seed``
    must be the same on all ranks. ``num_replicas`` and ``rank`` default to the launcher's variables (NETCL_WORLD_SIZE,
    NETCL_RANK).

    Raises:
        ValueError: rank is outside of [0, num_replicas), or is neither given nor set.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(seed)
        self.dataset = dataset
        replicas = configured("WORLD_SIZE") if num_replicas is None else num_replicas
        own_rank = configured("RANK") if rank is None else rank
        if replicas is None or own_rank is None:
            raise ValueError("DistributedSampler outside of netcl.distributed.run: give num_replicas= and rank=")
        if not 0 <= own_rank < replicas:
            raise ValueError(f"rank must be in [0, num_replicas), got rank={own_rank}, num_replicas={replicas}")
        self.num_replicas: int = int(replicas)
        self.rank: int = int(own_rank)
        self.shuffle: bool = shuffle
        self.drop_last: bool = drop_last

    def __len__(self) -> int:
        n = len(self.dataset)
        return n // self.num_replicas if self.drop_last else -(-n // self.num_replicas)

    def order(self, epoch: int) -> Indices:
        n = len(self.dataset)
        order = self._generator(epoch).permutation(n) if self.shuffle else np.arange(n)
        return np.resize(order, len(self) * self.num_replicas)[self.rank :: self.num_replicas]


class BatchSampler:
    """Groups the samples of a sampler into lists of ``batch_size``; the last one may be short or dropped.

    ``sampler`` is a Sampler, which keeps the epoch and position, or any iterable of dataset keys.
    """

    def __init__(self, sampler: Sampler | Iterable[Any], batch_size: int, drop_last: bool = False) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise ValueError(f"batch_size must be a positive int, got {batch_size!r}")
        self.sampler = sampler
        self.batch_size: int = int(batch_size)
        self.drop_last = drop_last

    def __len__(self) -> int:
        if not isinstance(self.sampler, Sized):
            raise TypeError(f"the sampler of this BatchSampler, a {type(self.sampler).__name__}, has no length")
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[list[Any]]:
        sampler = self.sampler
        if not _keeps_position(sampler):
            yield from self._group(sampler)
            return
        epoch, order = sampler.begin()
        position = len(sampler) - len(order)
        for batch in self.split(order):
            position += len(batch)
            sampler.record(epoch, position)
            yield batch.tolist()
        sampler.finish(epoch)

    def split(self, order: Indices) -> Iterator[Indices]:
        """Yields ``order``, int64 (n,), in pieces of ``batch_size``."""
        stop = len(order) - len(order) % self.batch_size if self.drop_last else len(order)
        for low in range(0, stop, self.batch_size):
            yield order[low : low + self.batch_size]

    def _group(self, keys: Iterable[Any]) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for key in keys:
            batch.append(key)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


def _keeps_position(sampler: Any) -> TypeGuard[Sampler]:
    """Returns True if ``sampler`` yields its ``order``; a subclass that overrides ``__iter__`` may not."""
    return isinstance(sampler, Sampler) and type(sampler).__iter__ is Sampler.__iter__


def positioned_sampler(batch_sampler: Any) -> Sampler | None:
    """Returns the Sampler that gives a BatchSampler its order; None if either has another type."""
    if type(batch_sampler).__iter__ is BatchSampler.__iter__ and _keeps_position(batch_sampler.sampler):
        return batch_sampler.sampler
    return None
