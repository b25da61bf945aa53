"""PyTorch's numbers for a seed on a CPU: MT19937 and the transforms of its words, vectorized in NumPy.

``MT19937(seed)`` draws arrays in the order of PyTorch's CPU generator and is in the same state after each. The words
are those of NumPy's MT19937 with ``init_genrand`` as its seeding. Values of whole numbers, uniform numbers and states
equal PyTorch's; transcendental functions differ in the last digits. PyTorch on Intel's CPUs takes the bits of
``bernoulli_(p)`` and ``exponential_`` from a generator of MKL; those differ from the ones here.
"""

from __future__ import annotations

import math
import struct
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from netcl.core.tensor import generator as _generators

Array: TypeAlias = npt.NDArray[Any]
Words: TypeAlias = npt.NDArray[np.uint64]
Shape: TypeAlias = "int | tuple[int, ...]"

# Bits of the significand. Arrays of bfloat16 are float32 arrays of numbers that bfloat16 has.
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_BITS = {"uint8": 8, "int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32, "uint64": 64}
_WIDE_RANGE = 1 << 28  # PyTorch takes 64 bits for ranges from here on, so that the remainders are nearly uniform
_BLOCK = 16  # numbers of one Box-Muller block: 8 radii and 8 angles
_WORDS = 624
_STATE = struct.Struct("<Qii Q 4992s ddd i4x f?3x")  # the structures of PyTorch's CPU generator: 5,056 bytes


def _stored(values: Array, dtype: str) -> Array:
    """``values`` rounded to ``dtype``; whole numbers are not checked for their range."""
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
        return np.asarray(np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32)))
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype)


def _accumulated(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


class MT19937:
    """PyTorch's CPU generator: a seed, the state of MT19937, and the second number of a pair of normal ones.

    >>> MT19937(0).rand(2).round(4).tolist() == np.array([0.4963, 0.7682], np.float32).tolist()
    True
    >>> MT19937(0).randperm(5).tolist()
    [4, 0, 1, 3, 2]
    """

    __slots__ = ("_bits", "_fresh", "_second", "_seed")
    numbers = "mt19937"  # their name in netcl

    def __init__(self, seed: int = 67280421310721) -> None:
        self._bits = np.random.MT19937()
        self._seed = 0
        self._second: float | None = None
        self._fresh = True
        self.manual_seed(seed)

    # -- the generator

    def manual_seed(self, seed: int) -> None:
        """Sets the seed, taken modulo 2**64; MT19937 uses its lower 32 bits."""
        self._seed = int(seed) % 2**64
        self._bits._legacy_seeding(self._seed & 0xFFFFFFFF)
        self._second = None
        self._fresh = True

    def initial_seed(self) -> int:
        """Returns the seed that was set last."""
        return self._seed

    def get_state(self) -> npt.NDArray[np.uint8]:
        """Returns the 5,056 bytes of ``torch.Generator.get_state``."""
        state: Any = self._bits.state["state"]
        at = 0 if self._fresh else int(state["pos"])
        left = 1 if self._fresh else _WORDS + 1 - at
        key = np.asarray(state["key"], "<u8").tobytes()
        second = self._second or 0.0
        packed = _STATE.pack(self._seed, left, 1, at, key, 0.0, second, 0.0, self._second is not None, 0.0, False)
        return np.array(np.frombuffer(packed, np.uint8))

    def set_state(self, state: Any) -> None:
        """Sets the state from the bytes of ``get_state`` or of PyTorch's. Raises ValueError for others."""
        data = np.asarray(state, np.uint8).tobytes()
        if len(data) != _STATE.size:
            raise ValueError(f"a state of PyTorch's CPU generator has {_STATE.size} bytes, not {len(data)}")
        seed, left, seeded, at, key, _, second, _, valid, _, _ = _STATE.unpack(data)
        fresh = at == 0 and left == 1
        if not seeded or not (fresh or (0 <= at <= _WORDS and left == _WORDS + 1 - at)):
            raise ValueError("these bytes are no state of PyTorch's CPU generator")
        words = np.frombuffer(key, "<u8").astype(np.uint32)
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": _WORDS if fresh else at}}
        self._seed, self._fresh, self._second = seed, fresh, second if valid else None

    def words(self, count: int) -> Words:
        """Returns the next ``count`` numbers of 32 bits."""
        if count:
            self._fresh = False
        return np.asarray(self._bits.random_raw(count), np.uint64)

    def words64(self, count: int) -> Words:
        """Returns the next ``count`` numbers of 64 bits, the first word of each pair above the second."""
        pairs = self.words(2 * count).reshape(count, 2)
        return np.asarray((pairs[:, 0] << np.uint64(32)) | pairs[:, 1])

    def _unit(self, count: int, dtype: str) -> Array:
        """Uniform numbers in [0, 1) as float64 for float64, and as float32 for other dtypes."""
        digits = DIGITS[_accumulated(dtype)]
        raw = self.words64(count) if dtype == "float64" else self.words(count)
        return np.asarray((raw & np.uint64((1 << digits) - 1)) * 2.0**-digits, _accumulated(dtype))

    def _doubles(self, count: int) -> npt.NDArray[np.float64]:
        return np.asarray(self._unit(count, "float64"))

    # -- floating numbers

    def uniform(self, low: float, high: float, size: Shape, dtype: str = "float32") -> Array:
        """Uniform numbers in [low, high)."""
        kind = np.dtype(_accumulated(dtype)).type
        unit = self._unit(_count(size), dtype)
        lower, upper = kind(low), kind(high)
        values = _stored(_fused(unit, upper - lower, lower), dtype)
        limit = _stored(np.array([upper]), dtype)[0]
        first = _stored(np.array([lower]), dtype)[0]
        return np.where(values == limit, first, values).reshape(size)  # rounded up to ``high``

    def rand(self, size: Shape, dtype: str = "float32") -> Array:
        """Uniform numbers in [0, 1)."""
        return self.uniform(0.0, 1.0, size, dtype)

    def _normal_one_by_one(self, count: int) -> npt.NDArray[np.float64]:
        """Normal numbers in pairs of float64, of which the second of the last pair is stored for the next call."""
        if not count:
            return np.zeros(0)
        begin = [] if self._second is None else [self._second]
        needed = count - len(begin)
        pairs = (needed + 1) // 2
        unit = self._doubles(2 * pairs).reshape(pairs, 2)
        radius = np.sqrt(-2 * np.log1p(-unit[:, 1]))
        angle = 2 * math.pi * unit[:, 0]
        values = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()
        self._second = float(values[-1]) if needed % 2 else None
        return np.concatenate([begin, values])[:count]

    def _normal_blocks(self, count: int, dtype: str) -> Array:
        """Standard normal numbers by Box-Muller over blocks of 16; the last 16 are drawn again for a partial block."""
        tail = count % _BLOCK
        kind = _accumulated(dtype)
        unit = self._unit(count if dtype == kind else count - tail, kind)  # 16-bit dtypes draw whole blocks only
        if tail:
            again = self._unit(_BLOCK, kind)
            unit = np.concatenate([unit[: count - tail], again])  # the last 16 results are of ``again``
        blocks = unit.reshape(-1, 2, 8)
        # In float32 as in PyTorch: the rounding of the angle is a larger difference than those of the functions.
        radius = np.sqrt(-2 * np.log(1 - blocks[:, 0]))
        angle = unit.dtype.type(2 * math.pi) * blocks[:, 1]
        values = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)
        return np.concatenate([values[: count - _BLOCK], values[-_BLOCK:]]) if tail else values

    def normal(self, mean: float, std: float, size: Shape, dtype: str = "float32") -> Array:
        """Normal numbers of one mean and standard deviation."""
        count = _count(size)
        drawn = self._normal_blocks(count, dtype) if count >= _BLOCK else self._normal_one_by_one(count)
        return _stored(drawn * std + mean, dtype).reshape(size)

    def randn(self, size: Shape, dtype: str = "float32") -> Array:
        """Standard normal numbers."""
        return self.normal(0.0, 1.0, size, dtype)

    def log_normal(self, mean: float, std: float, size: Shape, dtype: str = "float32") -> Array:
        """Numbers with normal logarithms."""
        return _stored(np.exp(self._normal_one_by_one(_count(size)) * std + mean), dtype).reshape(size)

    def exponential(self, rate: float, size: Shape, dtype: str = "float32") -> Array:
        """Exponential numbers with the mean 1 / ``rate``."""
        return _stored(-np.log1p(-self._doubles(_count(size))) / rate, dtype).reshape(size)

    def cauchy(self, median: float, sigma: float, size: Shape, dtype: str = "float32") -> Array:
        """Numbers of the Cauchy distribution."""
        return _stored(median + sigma * np.tan(math.pi * (self._doubles(_count(size)) - 0.5)), dtype).reshape(size)

    def geometric(self, p: float, size: Shape, dtype: str = "float32") -> Array:
        """Numbers of trials until the first success, from 1."""
        with np.errstate(divide="ignore"):
            trials = np.ceil(np.log(self._doubles(_count(size))) / math.log1p(-p))
        return _stored(trials, dtype).reshape(size)

    # -- whole numbers

    def randint(self, low: int, high: int, size: Shape, dtype: str = "int64") -> Array:
        """Whole numbers in [low, high)."""
        span = high - low
        if span <= 0:
            raise ValueError(f"randint draws from [low, high), which is empty for {low} and {high}")
        count = _count(size)
        raw = self.words64(count) if span >= _WIDE_RANGE else self.words(count)
        if span < 2**64:
            raw = raw % np.uint64(span)
        values = raw + np.uint64(low % 2**64)
        return _whole(values, dtype).reshape(size)

    def random(self, size: Shape, dtype: str = "float32") -> Array:
        """``random_()`` without limits: whole numbers that ``dtype`` has, from 0."""
        count = _count(size)
        if dtype == "bool":
            return np.asarray(self.words(count) & np.uint64(1), bool).reshape(size)
        if dtype in DIGITS:
            top = 2 ** DIGITS[dtype]
            raw = self.words64(count) if dtype == "float64" else self.words(count)
        else:
            top = 2 ** _BITS[dtype] - 1
            raw = self.words64(count) if top >= 2**32 else self.words(count)
        values = raw % np.uint64(top + 1) if top < 2**64 - 1 else raw
        return _whole(values, dtype).reshape(size)

    def randperm(self, n: int, dtype: str = "int64") -> Array:
        """0 to n - 1 in random order: exchanges from the front."""
        order = list(range(n))
        if n > 1:
            wide = n >= (2**32 - 1) // 20
            raw = self.words64(n - 1) if wide else self.words(n - 1)
            others = (raw % np.arange(n, 1, -1, dtype=np.uint64)).astype(np.int64) + np.arange(n - 1)
            for at, other in enumerate(others.tolist()):
                order[at], order[other] = order[other], order[at]
        return _whole(np.array(order, np.uint64), dtype)

    # -- draws by probabilities

    def bernoulli_(self, p: float, size: Shape, dtype: str = "float32") -> Array:
        """``bernoulli_(p)``: 1 with the probability of a Python number."""
        return (self._doubles(_count(size)) < p).astype(_array_dtype(dtype)).reshape(size)

    def bernoulli(self, p: Array, dtype: str | None = None) -> Array:
        """1 with the probability at each place of ``p``, else 0. A float64 ``p`` takes 64 bits of each draw."""
        kind = "float64" if p.dtype == np.float64 else "float32"
        drawn = self._unit(p.size, kind) < p.ravel().astype(kind)
        return drawn.astype(_array_dtype(dtype or str(p.dtype))).reshape(p.shape)

    def multinomial(self, weights: Array, count: int, replacement: bool = False, dtype: str = "float32") -> Array:
        """Positions drawn in proportion to the weights of the last axis: ``count`` for each row, int64.

        ``dtype`` is that of the weights; sums of 16-bit ones are of float32.
        """
        rows = np.asarray(weights).reshape(-1, weights.shape[-1])
        if replacement and count > 1:
            kind = _accumulated(dtype)
            drawn = self._doubles(rows.shape[0] * count).reshape(-1, count)
            found = np.empty(drawn.shape, np.int64)
            for at, row in enumerate(rows.astype(kind)):
                ends = np.cumsum(row)
                ends /= ends[-1]
                ends[-1] = 1
                found[at] = np.searchsorted(ends.astype(np.float64), drawn[at])
        else:
            waits = self.exponential(1.0, rows.shape, dtype)
            with np.errstate(divide="ignore", invalid="ignore"):
                keys = _stored(rows.astype(_accumulated(dtype)) / waits.astype(_accumulated(dtype)), dtype)
            found = np.argsort(-keys, axis=1, kind="stable")[:, :count]
        return found.reshape(*weights.shape[:-1], count)


def _count(size: Shape) -> int:
    return size if isinstance(size, int) else math.prod(size)


def _fused(x: Array, factor: Any, addend: Any) -> Array:
    """``x * factor + addend`` with one rounding, as the compiled loop has it: PyTorch's CPU code uses FMA."""
    if x.dtype == np.float32:
        return (x.astype(np.float64) * float(factor) + float(addend)).astype(np.float32)
    split = 134217729.0  # 2**27 + 1, Veltkamp's
    product = x * factor
    high_x, high_f = x * split - (x * split - x), factor * split - (factor * split - factor)
    low_x, low_f = x - high_x, factor - high_f
    lost = ((high_x * high_f - product) + high_x * low_f + low_x * high_f) + low_x * low_f
    total = product + addend
    back = total - product
    return np.asarray(total + (((product - (total - back)) + (addend - back)) + lost))


def _array_dtype(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _whole(values: Words, dtype: str) -> Array:
    """Numbers of 64 bits in two's complement as ``dtype``."""
    if dtype in DIGITS:
        signed = values.view(np.int64)
        return _stored(signed.astype(_accumulated(dtype)), dtype)
    return values.astype(dtype)


# netcl-core finds the class by the entry point too, without an import of netcl.torch. Another core may have its own.
getattr(_generators, "HOST_NUMBERS", {})[MT19937.numbers] = MT19937
