"""Random numbers: one process-wide seed and offset, Philox on every device, so the same draws everywhere.

Element i of a draw is word i % 4 of the Philox counter base + offset + i // 4 under the seed. Seed and base are stored
on the device, in ``engine.rng_state``, where the base is 0; the offset is the host's count of counters used so far, and
each draw advances it by ceil(n / 4), so eager draws never write to the device. A captured step has a state of its own
(``StepDraws``): its recorded offsets begin at 0, each replay takes its counters from the host's count, begins with the
base at their first, and its last launch advances the base, so that a replay that follows writes nothing. NETCL_SEED
seeds the process; without it each process is different. Inside of ``drawing_from(generator)`` draws use that generator.
On CPUs a generator with other ``numbers`` than "philox" draws on the host; dropout keeps Philox.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from netcl.core.dtypes import canonical, is_floating
from netcl.core.engine.recording import open_here
from netcl.core.engine.registry import engine_for
from netcl.core.errors import ArgumentError, CaptureError, DTypeError, ShapeError
from netcl.core.expr import Index, Load, Scalar, apply, cast
from netcl.core.layout import broadcast_shapes, normalize_axes
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.storage.host import check_shape
from netcl.core.tensor import Tensor
from netcl.core.tensor.generator import (
    Generator,
    default_generator,
    generator_of_thread,
    lock,
    process_generator,
    standing_in,
)
from netcl.core.tensor.host_draws import draw_on_host
from netcl.ops.domains import compared
from netcl.ops.index import index_select
from netcl.ops.table import OpFunction, as_dtype, composite, computed, elementwise, engine_of

_generator = default_generator
_UNTESTED = Domain(gradient=False)  # draws have no reference; their statistics and bits are tested by name


class _Held:
    """The seed in an engine's ``rng_state``: a new list for each write, empty while it is under way."""

    def __init__(self) -> None:
        self.seed: list[int] = []


_held: WeakKeyDictionary[Any, _Held] = WeakKeyDictionary()


def _seeded(engine: Any, seed: int, draw: Callable[[], Tensor]) -> Tensor:
    """Returns ``draw()`` with ``seed`` in the engine's ``rng_state``; the lock is held, so that only a signal handler
    or a finalizer of this thread can write another one in the middle. Then it draws again.
    """
    held = _held.setdefault(engine, _Held())
    while True:
        seed_words = held.seed
        if seed_words != [seed]:
            seed_words = held.seed = []
            engine.write(engine.rng_state, _words(seed, 0))
            if held.seed is not seed_words:
                continue
            seed_words = held.seed = [seed]
        result = draw()
        if held.seed is seed_words:
            return result


def _words(seed: int, base: int) -> Any:
    return np.array([seed % 2**64, base % 2**64], np.uint64).view(np.int64)


def manual_seed(seed: int) -> Generator:
    """Seeds the generator of this process for all devices, resets its counter, and returns it; any int, taken modulo
    2**64. Factories, random ops, initializers, dropout and the orders of netcl.data follow from it.
    """
    return process_generator().manual_seed(seed)


def get_rng_state() -> dict[str, int]:
    """Returns the state of the generator, {"seed", "offset"}, for ``set_rng_state`` or for storage."""
    return process_generator().get_state()


def set_rng_state(state: Mapping[str, int]) -> None:
    """Restores a state that ``get_rng_state`` returned."""
    process_generator().set_state(state)


def tell() -> int:
    """Returns the number of counters used so far."""
    return process_generator().offset


def skip(count: int) -> None:
    """Counts ``count`` counters as used."""
    process_generator().take(count)


def drawing_at(state: Mapping[str, int]) -> AbstractContextManager[Generator]:
    """Makes draws of the calling thread within the block begin at ``state``, as ``get_rng_state`` returned it, and
    afterwards where they were before; draws of other threads go on as they are.
    """
    return standing_in(Generator().set_state(state))


class StepDraws:
    """The draws of a captured step on ``engine``: ``count`` counters in each replay, from a ``state`` of its own."""

    def __init__(self, engine: Any) -> None:
        self.state: Tensor = engine.empty((2,), "int64", persistent=True)
        self.count = 0
        self._engine = engine
        self._held: tuple[int, int] | None = None  # the content of the state, None if it is not known

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Counts draws from 0 within the block (the call of a recorded step), and uses no counters of the process."""
        with standing_in(Generator().manual_seed(default_generator.initial_seed())) as generator:
            yield
            self.count = generator.offset
            if self.count:
                self._record_advance()

    def _record_advance(self) -> None:
        """Records the launch that advances the base: the last of the step."""
        state = self.state
        moved = Load(0, "int64") + Scalar("count", "int64")
        advanced = apply("where", apply("eq", Index(0), 1), moved, Load(0, "int64"))
        self._engine.run((advanced,), (state,), {"count": self.count}, out=(state,))

    def begin(self) -> tuple[int, int] | None:
        """Takes the counters of a replay (its offsets are relative to them); returns their place, None for no draws."""
        if not self.count:
            return None
        with lock:
            generator = process_generator()
            place = generator.initial_seed(), generator.take(self.count)
        held, self._held = self._held, None
        if held != place:
            self._engine.write(self.state, _words(*place))
        return place

    def end(self, place: tuple[int, int] | None) -> None:
        """Notes that the last launch of the replay has advanced the base."""
        if place is not None:
            self._held = place[0], place[1] + self.count


def draw(engine: Any, kind: str, shape: tuple[int, ...], dtype: str, seed: int | None = None, **limits: int) -> Tensor:
    """Draws numbers of ``kind`` on ``engine``; with its own ``seed`` the process's state is not used or changed."""
    recording = open_here(engine) is not None
    with lock:
        if seed is not None:
            if recording:
                raise CaptureError(
                    "a draw with a seed of its own cannot be captured: each replay would repeat it; leave seed out"
                )
            return _seeded(engine, seed % 2**64, partial(engine.random, kind, shape, dtype, offset=0, **limits))
        generator, count = generator_of_thread(), -(-int(np.prod(shape, dtype=np.int64)) // 4)
        seed = generator.initial_seed()
        if recording and generator is not process_generator():
            raise CaptureError(
                "a draw with generator= cannot be captured: each replay would repeat it; leave generator out"
            )
        if recording and seed != default_generator.initial_seed():
            raise CaptureError(
                "the generator was seeded while a step is captured, and each replay would repeat its draws; seed it "
                "before"
            )
        drawn = partial(engine.random, kind, shape, dtype, offset=generator.take(count), **limits)
        return drawn() if recording else _seeded(engine, seed, drawn)


def _sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return check_shape(shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape)


def _floating(op: str, dtype: str) -> str:
    name = canonical(dtype)
    if not is_floating(name):
        raise DTypeError(f"{op}: expected floating numbers, got {name}; randint gives whole ones")
    return name


@computed(domain=_UNTESTED)
def rand(*shape: Any, dtype: str = "float32", queue: Any = None) -> Tensor:
    """Returns uniform numbers in [0, 1) of the given lengths, in steps of 2**-24 (float16 2**-11, bfloat16 2**-8)."""
    return _between(0.0, 1.0, _sizes(shape), _floating("rand", dtype), queue)


@computed(domain=_UNTESTED)
def randn(*shape: Any, dtype: str = "float32", queue: Any = None) -> Tensor:
    """Returns standard normal numbers of the given lengths, by Box and Muller."""
    return _around(0.0, 1.0, _sizes(shape), _floating("randn", dtype), queue)


@computed(domain=_UNTESTED)
def randint(low: int, high: int | None = None, shape: Any = (), dtype: str = "int64", queue: Any = None) -> Tensor:
    """Integers in [low, high), or [0, low) if only one is given: low + (word * (high - low)) >> 32.

    Ranges of more than 2**31 are drawn on the host. Raises ValueError for an empty range.
    """
    first, last = (0, low) if high is None else (low, high)
    if not 0 < last - first <= 2**64:
        raise ArgumentError(f"randint: low {first}, high {last}; high - low lies in 1 .. 2**64")
    engine, sizes, name = engine_for(queue), check_shape(shape), canonical(dtype)
    array = draw_on_host(engine, "randint", first, last, sizes, name)
    if array is None and last - first > 2**31:
        array = _on_host(2 * math.prod(sizes)).integers(first, last, sizes)
    if array is not None:
        return engine.tensor(array, name)  # type: ignore[no-any-return]
    kept = name if name in ("int32", "int64") else "int64"
    return as_dtype(draw(engine, "randint", sizes, kept, low=first, high=last), name)


def _constant(name: str) -> Domain:
    """Returns a draw of zero width: no other draw has a reference."""
    limits = {"low": 2.5, "high": 2.5} if name == "uniform" else {"mean": 2.5, "std": 0.0}
    return compared(
        lambda rng: iter([((), {"shape": (3, 5), **limits})]),
        lambda shape, **limits: np.full(shape, 2.5),
        gradient=False,
    )


@computed(domain=_constant("uniform"))
def uniform(low: float = 0.0, high: float = 1.0, shape: Any = (), dtype: str = "float32", queue: Any = None) -> Tensor:
    """Returns uniform numbers in [low, high): low + (high - low) u with the u of ``rand``."""
    if not low <= high:
        raise ArgumentError(f"uniform: low {low} must not be above high {high}")
    return _between(low, high, check_shape(shape), _floating("uniform", dtype), queue)


@computed(domain=_constant("normal"))
def normal(mean: float = 0.0, std: float = 1.0, shape: Any = (), dtype: str = "float32", queue: Any = None) -> Tensor:
    """Returns normal numbers: mean + std z with the z of ``randn``."""
    if not std >= 0:
        raise ArgumentError(f"normal: std {std} must not be negative")
    return _around(mean, std, check_shape(shape), _floating("normal", dtype), queue)


def _between(low: float, high: float, shape: tuple[int, ...], dtype: str, queue: Any) -> Tensor:
    engine: Any = engine_for(queue)
    array = draw_on_host(engine, "uniform", low, high, shape, dtype)
    if array is not None:
        return engine.tensor(array, dtype)  # type: ignore[no-any-return]
    return _spread_out(draw(engine, "uniform", shape, dtype), low, high - low)


def _around(mean: float, std: float, shape: tuple[int, ...], dtype: str, queue: Any) -> Tensor:
    engine: Any = engine_for(queue)
    array = draw_on_host(engine, "normal", mean, std, shape, dtype)
    if array is not None:
        return engine.tensor(array, dtype)  # type: ignore[no-any-return]
    return _spread_out(draw(engine, "normal", shape, dtype), mean, std)


def _spread_out(x: Tensor, start: float, width: float) -> Tensor:
    if (start, width) == (0, 1):
        return x
    moved = Load(0, x.dtype) * Scalar("width", x.dtype) + Scalar("start", x.dtype)
    return x.engine.run((moved,), (x,), {"start": float(start), "width": float(width)})[0]


@computed(domain=_UNTESTED)
def randperm(n: int, dtype: str = "int64", queue: Any = None) -> Tensor:
    """Returns a random order of 0 .. n - 1; drawn on the host from (seed, offset), so equal on every device."""
    if n < 0:
        raise ArgumentError(f"randperm: n {n} must not be negative")
    array = draw_on_host(engine_for(queue), "randperm", n)
    if array is not None:
        return _as(array, dtype, queue)
    with lock:
        generator = generator_of_thread()
        key, start = generator.initial_seed(), generator.take(-(-n // 4))
    words = np.random.Philox(key=np.array([key, 1], np.uint64), counter=start).random_raw(n)
    order = np.argsort(words, kind="stable")
    return engine_for(queue).tensor(order.astype(np.int64), "int64") if dtype == "int64" else _as(order, dtype, queue)


@composite(
    domain=Domain(
        cases=lambda rng: iter([((np.full((4, 3), 1.5),), {}), ((np.full((2, 1), 1.5),), {"axis": 1})]),
        reference=lambda x, axis=0: x,
        gradient=False,  # another order at each call, so differences say nothing; index_select's gradient is tested
        second=False,
    )
)
def permutation(x: Tensor | int, axis: int = 0) -> Tensor:
    """Returns x with its slices along ``axis`` in a random order; of an int n one of 0 .. n - 1, as ``randperm``."""
    if not isinstance(x, Tensor):
        return randperm(x)  # type: ignore[no-any-return]
    if x.ndim == 0:
        raise ShapeError("permutation: a tensor without axes has nothing to put in another order")
    order = randperm(x.shape[normalize_axes(axis, x.ndim, "permutation")[0]], queue=x.queue)
    return index_select(x, axis, order)  # type: ignore[no-any-return]


def _on_host(count: int) -> np.random.Generator:
    """Returns NumPy's generator at the place of the generator of draws, which counts ``count`` numbers as used."""
    with lock:
        generator = generator_of_thread()
        key, start = generator.initial_seed(), generator.take(-(-count // 4))
    return np.random.Generator(np.random.Philox(key=np.array([key, 3], np.uint64), counter=start))


def _drawn(engine: Any, counts: Any, dtype: str) -> Tensor:
    """Counts that were drawn on the host; infinite where the dtype is too narrow."""
    with np.errstate(over="ignore"):
        return engine.tensor(np.asarray(counts), dtype)  # type: ignore[no-any-return]


@computed(
    domain=compared(lambda rng: iter([((np.zeros((3, 4)),), {})]), lambda rate: np.zeros(rate.shape), gradient=False)
)
def poisson(rate: Tensor) -> Tensor:
    """Numbers of the Poisson distribution with the mean that each element is, in x's dtype; drawn on the host.

    Raises ValueError for negative means, DTypeError for integers.
    """
    engine = engine_of("poisson", rate)
    _floating("poisson", rate.dtype)
    means = rate.to_host().astype(np.float64)
    if not (means >= 0).all():
        raise ArgumentError("poisson: means are not negative, and not NaN")
    return _drawn(engine, _on_host(means.size).poisson(means), rate.dtype)


@computed(
    domain=compared(
        lambda rng: iter([((rng.integers(0, 9, (3, 4)).astype(float), np.array([[0.0], [1.0], [1.0]])), {})]),
        lambda count, prob: count * prob,
        gradient=False,
    )
)
def binomial(count: Tensor, prob: Tensor) -> Tensor:
    """Returns the number of successes in ``count`` trials, each with probability ``prob``, which broadcast; drawn on
    the host.

    Raises ValueError for negative counts and for probabilities outside [0, 1], DTypeError for integers.
    """
    engine = engine_of("binomial", count, prob)
    _floating("binomial", count.dtype)
    _floating("binomial", prob.dtype)
    trials, chances = count.to_host().astype(np.float64), prob.to_host().astype(np.float64)
    if not ((trials >= 0).all() and (trials < 2**63).all() and (chances >= 0).all() and (chances <= 1).all()):
        raise ArgumentError("binomial: counts are not negative and below 2**63, and probabilities in [0, 1]")
    shape = broadcast_shapes((count.shape, prob.shape), "binomial")
    drawn = _on_host(int(np.prod(shape))).binomial(trials.astype(np.int64), chances, shape)
    return _drawn(engine, drawn, count.dtype)


def _as(order: Any, dtype: str, queue: Any) -> Tensor:
    return Tensor.from_host(engine_for(queue).queue, order, dtype)


@computed(domain=_UNTESTED)
def bernoulli(p: Any, shape: Any = None, dtype: str = "float32", queue: Any = None) -> Tensor:
    """Returns 1 with probability p, else 0: per element of a tensor p, or of ``shape`` for a number."""
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1 or shape is None:
            raise ArgumentError(f"bernoulli: p {p}, shape {shape}; a number p lies in [0, 1] and comes with a shape")
        engine: Any = engine_for(queue)
        array = draw_on_host(engine, "bernoulli_", p, check_shape(shape))
        if array is not None:
            return engine.tensor(array, canonical(dtype))  # type: ignore[no-any-return]
        u = draw(engine, "uniform", check_shape(shape), "float32")
        hit = apply("lt", Load(0, "float32"), Scalar("p", "float32"))
        return engine.run((cast(hit, canonical(dtype)),), (u,), {"p": float(p)})[0]  # type: ignore[no-any-return]
    if shape is not None and check_shape(shape) != p.shape:
        raise ShapeError(f"bernoulli: shape {shape} for probabilities of shape {p.shape}")
    array = draw_on_host(p.engine, "bernoulli", p, p.dtype)
    if array is not None:
        return p.engine.tensor(array, p.dtype)  # type: ignore[no-any-return]
    u = draw(p.engine, "uniform", p.shape, "float32")
    return p.engine.run((cast(apply("lt", Load(0, "float32"), Load(1, p.dtype)), p.dtype),), (u, p))[0]


@computed(domain=_UNTESTED)
def dropout_mask(x: Tensor, p: float = 0.5, seed: int | None = None) -> Tensor:
    """Returns True with probability 1 - p, for each element of x: the elements that ``dropout`` keeps."""
    engine = engine_of("dropout", x)
    least = math.ceil(float(np.float32(p)) * 2**24)  # of the uniform numbers that are kept, in steps of 2**-24
    return draw(engine, "kept", x.shape, "bool", seed, low=least)


def _kept_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (3, 5)), rng.random((3, 5)) > 0.5), {"scale": 1.25}


dropout_apply: OpFunction = elementwise(
    "dropout_apply",
    "v1 ? v0 * scale : 0.0f",
    "Returns x * scale where the mask is true, else 0: ``dropout`` with a given mask.",
    operands="x mask",
    scale=2.0,
    domain=compared(_kept_cases, lambda x, mask, scale: np.where(mask, x * scale, 0)),
)


@composite(domain=_UNTESTED, forms="nc.*_")
def dropout(
    x: Tensor, p: float = 0.5, training: bool = True, seed: int | None = None, return_mask: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns x with each element zeroed with probability p and the others divided by 1 - p (Srivastava et al. 2014).

    A new mask at every call, or the mask of ``seed``; with ``return_mask`` the result is (y, mask), the mask bool, True
    for kept elements. If not ``training``: x itself.
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout: p {p} is no probability")
    rate = p if training else 0.0
    if rate == 0 and not return_mask:
        return x
    mask = dropout_mask(x, rate, seed)
    y = x if rate == 0 else dropout_apply(x, mask, scale=0.0 if rate == 1 else 1.0 / (1.0 - rate))
    return (y, mask) if return_mask else y
