"""Cache, the keys and values of earlier positions of a batch, in tensors that grow by pages."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.packed import PackedTensor, quantize
from netcl.llm.config import Config

__all__ = ["CACHES", "PAGE", "Cache", "check", "size_of"]

CACHES = ("float32", "float16", "bfloat16", "float64", "Q8_0")

# Places of the smallest cache; a larger one has twice as many as the one before, so that few steps are captured.
PAGE = 256


def size_of(count: int, most: int) -> int:
    """Returns the places of a cache for ``count`` positions, ``most`` at most."""
    size = PAGE
    while size < count:
        size *= 2
    return max(min(size, most), count)


def check(config: Config, dtype: str) -> None:
    """Raises ValueError if a model cannot have a cache of this dtype."""
    if dtype not in CACHES or (dtype == "Q8_0" and config.head_dim % 32):
        raise ValueError(
            f"expected a cache in {', '.join(CACHES)}, the last one for heads of whole 32 numbers, got {dtype!r} for "
            f"heads of {config.head_dim}"
        )


class Cache:
    """Keys and values (rows, heads, places, head_dim) of each layer, and ``used`` (rows,): the positions of the next
    tokens, on the device. ``dtype`` may be Q8_0: keys and values are int8 then, and their scales follow them.

    ``counts`` are the same numbers on the host, which ``advance`` and ``keep`` change.
    """

    config: Config
    rows: int
    queue: Any
    dtype: str

    def __init__(self, config: Config, rows: int, places: int, queue: Any, dtype: str = "float32") -> None:
        self.config, self.rows, self.queue, self.dtype = config, rows, queue, dtype
        check(config, dtype)
        self.length: int = places
        self.counts: np.ndarray[Any, Any] = np.zeros(rows, np.int32)
        self.used: Tensor = Tensor.zeros((rows,), "int32", queue=queue)
        self._ranges: dict[int, Tensor] = {}
        self.layers: list[tuple[Tensor, ...]] = [self._zeros(places) for _ in range(config.layers)]

    def _zeros(self, places: int) -> tuple[Tensor, ...]:
        size = self.config.head_dim
        kinds = [(size, "int8"), (size // 32, "float16")] if self.dtype == "Q8_0" else [(size, self.dtype)]
        heads = self.rows, self.config.kv_heads, places
        return tuple(Tensor.zeros((*heads, n), kind, queue=self.queue) for n, kind in kinds for _ in range(2))

    def range(self, count: int) -> Tensor:
        """Returns 0 .. count - 1 on the device; made once, since a captured step writes nothing from the host."""
        if count not in self._ranges:
            self._ranges[count] = Tensor.arange(count, dtype="int32", queue=self.queue)
        return self._ranges[count]

    def begin(self, count: int) -> Extension:
        """Returns the places of ``count`` new tokens of each row."""
        return Extension(self, count)

    def grow(self, places: int) -> None:
        """Makes room for ``places`` positions; what is there is kept."""
        if places <= self.length:
            return
        kept = self.length
        self.length = places
        for at, tables in enumerate(self.layers):
            longer = self._zeros(places)
            for new, old in zip(longer, tables):
                ag.setitem(new, (slice(None), slice(None), slice(0, kept)), old)
            self.layers[at] = longer

    def advance(self, counts: Any) -> None:
        """Counts so many positions more of each row as used."""
        self.keep(self.counts + np.asarray(counts, np.int32))

    def keep(self, counts: Any) -> None:
        """Sets the number of used positions of each row; positions behind are written again."""
        self.counts = np.broadcast_to(np.asarray(counts, np.int32), (self.rows,)).copy()
        self.used.write(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values on the device."""
        return sum(table.nbytes for tables in self.layers for table in tables)


class Extension:
    """The places of new tokens in a cache: ``positions`` (rows, T), for all layers of one pass. In an empty cache the
    new tokens see each other alone (``is_first``).
    """

    def __init__(self, cache: Cache, count: int) -> None:
        self.cache = cache
        self.is_first: bool = count > 1 and not cache.counts.any()  # a captured step of one token serves all places
        self.positions: Tensor = ag.add(ag.unsqueeze(cache.used, 1), ag.unsqueeze(cache.range(count), 0))
        # Keys are rows of one table, whose numbers broadcast over rows, heads and new tokens.
        heads = cache.config.kv_heads
        first = ag.reshape(ag.mul(cache.range(cache.rows * heads), cache.length), (cache.rows, heads, 1))
        self._places = ag.reshape(ag.add(first, ag.unsqueeze(self.positions, 1)), (-1,))

    @property
    def keys(self) -> Tensor:
        """The positions of all places, (length,)."""
        return self.cache.range(self.cache.length)

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Writes keys and values (rows, heads, T, head_dim); returns what is seen: all places, or the new."""
        keys, values, *scales = self.cache.layers[layer]
        rows = [ag.reshape(new, (-1, new.shape[-1])) for new in (k, v)]
        if not scales:
            for table, new in zip((keys, values), rows):
                self._write(table, new if new.dtype == table.dtype else ag.cast(new, dtype=table.dtype))
            return (k, v) if self.is_first else (keys, values)
        read = []
        for table, factors, new in zip((keys, values), scales, rows):
            tables, packed = (factors, table), quantize(new, "Q8_0")
            flat = [self._write(part, new_part) for part, new_part in zip(tables, packed.parts)]
            if not self.is_first:
                numbers = PackedTensor(flat, (table.size // table.shape[-1], table.shape[-1]), "Q8_0").unpack(k.dtype)
                read.append(ag.reshape(numbers, table.shape))
        return (k, v) if self.is_first else (read[0], read[1])

    def _write(self, table: Tensor, new: Tensor) -> Tensor:
        """Writes rows at the places of the new tokens; returns the table as rows."""
        flat: Tensor = ag.reshape(table, (-1, table.shape[-1]))
        ag.setitem(flat, self._places, new)
        return flat
