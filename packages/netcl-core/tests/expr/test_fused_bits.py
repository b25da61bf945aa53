"""Random chains of elementwise ops with random broadcasting: one fused kernel gives the bits of the ops one by one, and
both stay within what the stated errors of the ops add up to, against NumPy in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from netcl.core import Tensor
from netcl.core.expr import Expr, Load, apply, cast, evaluate, reduce, schedule
from netcl.core.expr.nodes import rounded_to_dtype, stored
from netcl.core.expr.prims import ULP

UNIT = 2.0**-23  # an upper bound of one unit in the last place, relative to the value
SHAPES = [(2, 19, 37), (37,), (2, 1, 1), (2, 1, 37), (2, 19, 1), (1,), (19, 1)]


class Op(NamedTuple):
    """An op of a chain: its expression, and how errors ``e`` of its operands reach the result ``out``."""

    arity: int
    of: Callable[..., Expr]
    error: Callable[..., Any]
    units: float = 1.0


def _function(name: str, steepest: float, of: Callable[[Expr], Expr] | None = None) -> Op:
    return Op(1, of or (lambda a: apply(name, a)), lambda out, a, e: steepest * e, ULP[name] + 1)


OPS = [
    Op(2, lambda a, b: a + b, lambda out, a, b, e, f: e + f),
    Op(2, lambda a, b: a - b, lambda out, a, b, e, f: e + f),
    Op(2, lambda a, b: a * b, lambda out, a, b, e, f: e * abs(b) + f * abs(a) + e * f),
    Op(2, lambda a, b: a / (abs_(b) + 1.0), lambda out, a, b, e, f: e + 2 * abs(out) * (f + UNIT), ULP["div"] + 1),
    Op(2, lambda a, b: apply("maximum", a, b), lambda out, a, b, e, f: np.maximum(e, f), 0),
    Op(2, lambda a, b: apply("minimum", a, b), lambda out, a, b, e, f: np.maximum(e, f), 0),
    Op(1, lambda a: -a, lambda out, a, e: e, 0),
    Op(1, lambda a: abs_(a), lambda out, a, e: e, 0),
    _function("tanh", 1),
    _function("sigmoid", 0.25),
    _function("erf", 1.2),
    _function("sin", 1),
    _function("atan", 1),
    _function("exp", 3, lambda a: apply("exp", apply("minimum", a, 1.0))),
    _function("log1p", 1, lambda a: apply("log1p", abs_(a))),
    _function("sqrt", 1, lambda a: apply("sqrt", abs_(a) + 0.25)),
    _function("rsqrt", 4, lambda a: apply("rsqrt", abs_(a) + 0.25)),
]
STEPS = st.lists(
    st.tuples(st.integers(0, len(OPS) - 1), st.integers(0, 40), st.integers(0, 40)), min_size=2, max_size=30
)
# A function of a column, alone a vector's work, with a matrix one value for each row: drivers' functions differ there.
COLUMN = [(number, 0, 0) for number in (13, 8, 14, 16, 0)]
LONGEST = [((5 * step) % len(OPS), step if step % 4 else step // 2, 7 * step % 41) for step in range(30)]


def abs_(a: Expr) -> Expr:
    return apply("abs", a)


def samples() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-2, 2, shape).astype(np.float32) for shape in SHAPES]


def calm(values: Any) -> bool:
    """True if a chain may continue from these values without leaving the accurate range of float32."""
    return bool(np.all(np.abs(values) < 1e4))


def check(engine: Any, steps: Sequence[tuple[int, int, int]]) -> None:
    arrays = samples()
    tensors = [Tensor.from_host(array) for array in arrays]
    fused: list[Expr] = [Load(slot, "float32") for slot in range(len(arrays))]
    exact = [array.astype(np.float64) for array in arrays]
    errors: list[Any] = [np.zeros_like(values) for values in exact]
    for number, first, second in steps:
        op = OPS[number]
        # Mostly the last result, so that chains grow long, with anything that is there.
        places = [len(tensors) - 1 - first % 3 % len(tensors), second % len(tensors)][: op.arity]
        wide = op.of(*(Load(slot, "float64") for slot in range(op.arity)))
        out = evaluate((wide,), [exact[place] for place in places])[0]
        if not calm(out):
            continue
        one = op.of(*(Load(slot, "float32") for slot in range(op.arity)))
        given = [errors[place] for place in places]
        errors.append(op.error(out, *(exact[place] for place in places), *given) * 1.01 + op.units * UNIT * np.abs(out))
        exact.append(out)
        tensors.append(engine.run((one,), tuple(tensors[place] for place in places))[0])
        fused.append(op.of(*(fused[place] for place in places)))
    result = tensors[-1].numpy()
    together = engine.run((fused[-1],), tuple(tensors[: len(arrays)]), shapes=(widest(tensors[-1].shape),))[0].numpy()
    np.testing.assert_array_equal(
        together.view(np.int32), np.broadcast_to(result, together.shape).view(np.int32), strict=True
    )
    assert np.all(np.abs(result - exact[-1]) <= errors[-1] + 1e-30)


def widest(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape of rank three that ``shape`` has in the whole space."""
    return (1,) * (3 - len(shape)) + tuple(shape)


@settings(max_examples=1, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
@example(steps=COLUMN)
@example(steps=LONGEST)
def test_a_fused_chain_has_the_bits_of_its_ops(engine: Any, steps: list[tuple[int, int, int]]) -> None:
    check(engine, steps)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_many_fused_chains_have_the_bits_of_their_ops(engine: Any, steps: list[tuple[int, int, int]]) -> None:
    check(engine, steps)


def test_outputs_that_no_cache_holds(monkeypatch: pytest.MonkeyPatch, engine: Any) -> None:
    """Vectors written past the caches have the bits of any other store; at sizes that a test can afford."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no plans")
    x, y = Load(0, "float32"), Load(1, "float32")
    rng = np.random.default_rng(3)
    for shape in ((1003,), (37, 48), (3, 19)):
        a, b = (Tensor.from_host(rng.uniform(-2, 2, shape).astype(np.float32)) for _ in range(2))
        row = (x - reduce("max", x, len(shape) - 1)) * y
        outputs = (x * y + 1.0, cast(x, "bfloat16"), row, cast(x * 9.0, "int32"))
        kept = [engine.read(result) for result in engine.run(outputs, (a, b))]
        with monkeypatch.context() as patch:
            patch.setattr(schedule, "STREAMED", 1)
            engine.plans.clear()  # known by shapes, and made for another threshold
            streamed = [engine.read(result) for result in engine.run(outputs, (a, b))]
        engine.plans.clear()
        assert all(np.array_equal(one, other) for one, other in zip(kept, streamed))


def _floats() -> Any:
    """Floats of all exponents, next to the numbers that half types have and between two of them, and special ones."""
    rng = np.random.default_rng(1)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.996, 65520, 6.1e-5, 2**-24, 2**-25, 2**-25 * 1.01]
    with np.errstate(all="ignore"):
        halves = np.arange(0, 1 << 16, 7, dtype=np.uint16).view(np.float16).astype(np.float32)
        wide = (np.exp2(rng.uniform(-150, 128, 20001)) * rng.choice([-1, 1], 20001)).astype(np.float32)
        between, above = (halves[:-1] + halves[1:]) / 2, np.nextafter(halves, np.float32(1))
    cut = wide.view(np.uint32) & np.uint32(0xFFFF0000)
    tie = cut | np.uint32(0x8000)
    return np.concatenate(
        [np.float32(special), halves, between, above, wide, *(x.view(np.float32) for x in (cut, tie))]
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_value_inside_of_a_kernel_is_rounded_as_by_a_store(engine: Any, dtype: str) -> None:
    """In vectors and one by one, among numbers of any size; the sign of a NaN stays open."""
    x = Tensor.from_host(_floats())
    for length in (x.size, 3):
        part = Tensor.from_host(x.numpy()[:length])
        (inside,) = engine.run((cast(rounded_to_dtype(cast(Load(0, "float32"), dtype)), "float32"),), (part,))
        outside = part.astype(dtype).astype("float32").numpy()
        np.testing.assert_array_equal(inside.numpy(), outside)
        known = ~np.isnan(outside)
        assert (np.signbit(inside.numpy()) == np.signbit(outside))[known].all()


def test_values_that_a_half_type_holds_are_not_rounded_again() -> None:
    x = Load(0, "bfloat16")
    for held in (x, -x, apply("maximum", x, 0.0), apply("where", x > 0.0, x, 0.0), stored(x * 2.0)):
        assert stored(held) is held
    for open_ in (x + x, apply("maximum", x, x * 2.0), apply("maximum", x, 0.3), cast(Load(0, "float32"), "bfloat16")):
        assert stored(open_) is not open_
    assert stored(Load(0, "float32") + 1.0) is Load(0, "float32") + 1.0
