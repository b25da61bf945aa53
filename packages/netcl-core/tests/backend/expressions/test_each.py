"""Expressions on each of several sets of tensors: the bits of one by one, and few launches."""

from __future__ import annotations

import numpy as np
import pytest

from netcl.core import DeviceHandle, Tensor
from netcl.core.device.health import launch_log
from netcl.core.expr import Load, Scalar, apply, cast, reduce
from netcl.core.ops_table.dispatch import evaluate, evaluate_each, reduce_each
from netcl.runtime.capture import capture

SHAPES = [(3, 5), (1,), (), (7,), (0,), (40013,), (4, 3, 3, 3), *((17 + k,) for k in range(40))]
P, G, M, RATE = (Load(k, "float32") for k in range(4))
NEW = apply("tanh", M * 0.9 + G * 0.1)
STEP = (P - RATE * NEW / (apply("sqrt", apply("abs", NEW)) + Scalar("eps", "float32")), NEW)


pytestmark = pytest.mark.usefixtures("handle")


def sets(shapes=SHAPES, count: int = 3) -> list[list[Tensor]]:
    rng = np.random.default_rng(1)
    return [[Tensor.from_host(rng.standard_normal(s).astype(np.float32)) for _ in range(count)] for s in shapes]


def same(one, other) -> None:
    for a, b in zip(one, other):
        for x, y in zip(a, b):
            assert x.shape == y.shape
            np.testing.assert_array_equal(x.to_host(), y.to_host())


def test_in_place_has_the_bits_of_one_by_one_in_few_launches(handle: DeviceHandle) -> None:
    together, apart, rate = sets(), sets(), Tensor.full((), 0.1)
    queue = handle.queue
    for turn in range(2):
        log = launch_log(queue) if rate.backend == "cl" else []
        log.clear()
        evaluate_each(STEP, together, (rate,), {"eps": 1e-3}, out=[(p, m) for p, _, m in together])
        if rate.backend == "cl":
            room = (queue.device.max_parameter_size - 256) // 24
            assert len(log) <= -(-(len(SHAPES) - 1) // room), (turn, list(log))
    for _ in range(2):
        for p, g, m in apart:
            evaluate(STEP, (p, g, m, rate), {"eps": 1e-3}, out=(p, m), shapes=[p.shape, m.shape])
    same(together, apart)
    assert together[0][0].version == 2
    assert together[0][1].version == 0


def test_fresh_results_and_what_is_not_flat() -> None:
    given, rate = sets(), Tensor.full((), 0.1)
    made = evaluate_each(STEP, given, (rate,), {"eps": 0.5})
    same(made, [evaluate(STEP, (*one, rate), {"eps": 0.5}) for one in given])
    uneven = [[Tensor.from_host(np.ones((4, 3), np.float32)), Tensor.from_host(np.arange(3, dtype=np.float32))]]
    uneven.append([Tensor.from_host(np.ones((2, 2), np.float32)), Tensor.from_host(np.ones((2, 1), np.float32))])
    same(evaluate_each((P + G,), uneven), [evaluate((P + G,), one) for one in uneven])
    centred = P - reduce("sum", P, 0)
    rows = [[Tensor.from_host(np.arange(n, dtype=np.float32))] for n in (3, 9)]
    same(evaluate_each((centred,), rows), [evaluate((centred,), one) for one in rows])
    assert evaluate_each(STEP, []) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_stored_and_read(dtype: str) -> None:
    given = [[Tensor.from_host(np.linspace(-2, 2, n, dtype=np.float32), dtype=dtype)] for n in (5, 70, 1)]
    doubled = cast(cast(Load(0, dtype), "float32") * 1.5, dtype)
    same(evaluate_each((doubled,), given), [evaluate((doubled,), one) for one in given])


def test_reductions_over_all_elements() -> None:
    given = [[p] for p, _, _ in sets()]
    every = np.concatenate([p.to_host().reshape(-1) for (p,) in given]).astype(np.float64)
    for kind, term, wanted in (
        ("sum", P * P, (every**2).sum()),
        ("max", apply("abs", P), np.abs(every).max()),
        ("min", P, every.min()),
    ):
        parts = reduce_each(kind, term, given)
        assert parts.ndim == 1
        whole = evaluate((reduce(kind, Load(0, "float32"), 0),), (parts,), shapes=[(1,)])[0]
        assert whole.item() == pytest.approx(wanted, rel=1e-6)
    assert reduce_each("sum", P, [given[4], given[4]]).to_host().sum() == 0.0


def test_replayed_as_launched() -> None:
    together, apart, rate = sets(), sets(), Tensor.full((), 0.1)

    def step(x, of=together):
        evaluate_each(STEP, of, (rate,), {"eps": 1e-3}, out=[(p, m) for p, _, m in of])
        parts = reduce_each("sum", P * RATE, [[p] for p, *_ in of], [rate, rate, rate])
        return evaluate((reduce("sum", Load(0, "float32"), 0) + Load(1, "float32"),), (parts, x), shapes=[(1,)])[0]

    x = Tensor.from_host(np.ones(1, np.float32))
    replay = capture(step, x).replay
    for _ in range(3):
        np.testing.assert_array_equal(replay(x).to_host(), step(x, apart).to_host())
        rate.write(rate.to_host() * 0.5)
    same(together, apart)
