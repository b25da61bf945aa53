"""Golden kernel texts: a change of the generator shows here as a change of OpenCL C, so that a refactor is provably
neutral.

``python packages/netcl-core/tests/expr/test_golden_kernels.py`` writes the texts again; read the difference before you
commit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from netcl.core.expr import Const, Expr, Index, Load, apply, cast, mean, reduce, vjp
from netcl.core.expr.schedule import Plan, Target, make_plan

GOLDEN = Path(__file__).parents[1] / "golden"
CPU = Target(width=8, group=1, units=2, is_cpu=True)
GPU = Target(width=4, group=128, units=16, is_cpu=False)

X, Y = Load(0, "float32"), Load(1, "float32")


def _softmax(x: Expr, axis: int) -> Expr:
    weight = apply("exp", x - apply("stop_gradient", reduce("max", x, axis)))
    return weight / reduce("sum", weight, axis)


def _batch_norm(x: Expr, axes: Sequence[int]) -> tuple[Expr, Expr, Expr]:
    centre = mean(x, axes)
    variance = mean((x - centre) * (x - centre), axes)
    return (x - centre) * apply("rsqrt", variance + 1e-5), centre, variance


def cross_entropy() -> Expr:
    """Returns the mean cross entropy of logits (N, C) and int64 labels (N, 1)."""
    hit = apply("eq", Index(1), cast(Load(1, "int64"), "int32"))
    largest = apply("stop_gradient", reduce("max", X, 1))
    log_sum = apply("log", reduce("sum", apply("exp", X - largest), 1)) + largest
    return mean(log_sum - reduce("sum", apply("where", hit, X, 0.0), 1), 0)


def cross_entropy_gradient() -> Expr:
    """Its gradient by the logits."""
    present = {0: frozenset({0, 1}), 1: frozenset({0})}
    (gradient,) = vjp((cross_entropy(),), (Const(1.0, "float32"),), (0,), present)
    assert gradient is not None
    return gradient


def plans() -> dict[str, Plan]:
    """Returns the plans with kept texts, by name."""

    def plan(
        outputs: Sequence[Expr], shapes: Sequence[tuple[int, ...]], *inputs: tuple[int, ...], target: Target = CPU
    ) -> Plan:
        space = tuple(max(sizes) for sizes in zip(*inputs, *shapes))
        return make_plan(outputs, shapes, inputs, space, target)

    half, brain = Load(0, "float16"), Load(1, "bfloat16")
    named = {
        "add": plan([X + Y], [(64, 96)], (64, 96), (64, 96)),
        "add_row": plan([X + Y], [(64, 96)], (64, 96), (1, 96)),
        "add_column": plan([X + Y], [(64, 96)], (64, 96), (64, 1)),
        "half_to_bfloat16": plan([cast(half * 2.0, "bfloat16"), cast(brain, "float16")], [(100,)] * 2, (100,), (100,)),
        "compare_int64": plan([apply("lt", Load(0, "int64"), Load(1, "int64"))], [(100,)], (100,), (100,)),
        "add_past_the_caches": plan([X + Y], [(1 << 22,)], (1 << 22,), (1 << 22,)),
        "sum_all": plan([reduce("sum", X, (0, 1))], [(1, 1)], (1024, 1024)),
        "sum_columns": plan([reduce("sum", X, 0)], [(1, 96)], (64, 96)),
        "softmax": plan([_softmax(X, 1)], [(64, 96)], (64, 96)),
        "softmax_columns": plan([_softmax(X, 0)], [(64, 96)], (64, 96)),
        "batch_norm": plan(_batch_norm(X, (0, 2)), [(8, 4, 96), (1, 4, 1), (1, 4, 1)], (8, 4, 96)),
        "cross_entropy": plan([cross_entropy()], [(1, 1)], (64, 10), (64, 1)),
        "cross_entropy_gradient": plan([cross_entropy_gradient()], [(64, 10)], (64, 10), (64, 1)),
    }
    named |= {
        "gpu_add": plan([X + Y], [(64, 96)], (64, 96), (64, 96), target=GPU),
        "gpu_softmax": plan([_softmax(X, 1)], [(64, 96)], (64, 96), target=GPU),
    }
    return named


def _text(plan: Plan) -> str:
    return "\n".join(
        f"// {launch.items} work-items in groups of {launch.group}, numbers {launch.numbers}\n{launch.source}\n"
        for launch in plan.launches
    )


@pytest.mark.parametrize("name", list(plans()))
def test_the_text_is_the_golden_one(name: str) -> None:
    assert _text(plans()[name]) == (GOLDEN / f"{name}.cl").read_text(), (
        f"run python {Path(__file__).name} and read the difference"
    )


def test_every_golden_text_belongs_to_a_plan() -> None:
    assert {path.stem for path in GOLDEN.glob("*.cl")} == set(plans())


def test_cross_entropy_and_its_gradient_are_one_kernel_each() -> None:
    named = plans()
    assert len(named["cross_entropy"].launches) == len(named["cross_entropy_gradient"].launches) == 1


def test_a_large_sum_is_cut_into_pieces_for_all_cores() -> None:
    first, second = plans()["sum_all"].launches
    assert first.items >= 2 * CPU.units
    assert second.items == 1


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
def test_a_launch_reads_what_earlier_ones_wrote(target: Target) -> None:
    """The gradient of a similarity by a vector that is broadcast along its axis sums over three kinds of axes, each
    over results of the one before.
    """
    lengths = [apply("sqrt", reduce("sum", x * x, 2)) for x in (X, Y)]
    similarity = reduce("sum", X * Y, 2) / (lengths[0] * lengths[1])
    present = {0: frozenset({0, 1, 2}), 1: frozenset({1}), 2: frozenset({0, 1})}
    (gradient,) = vjp((similarity,), (Load(2, "float32"),), (1,), present)
    assert gradient is not None
    inputs = [(200, 300, 4000), (1, 300, 1), (200, 300, 1)]
    made = make_plan([gradient], [(1, 300, 1)], inputs, (200, 300, 4000), target)
    written = {0, 1, 2}
    for launch in made.launches:
        assert written.issuperset(launch.inputs)
        written.update(launch.outputs)
    assert len(made.launches) > 3
    assert written == {0, 1, 2, 3, *(4 + number for number in range(len(made.temporaries)))}


def test_positions_have_64_bits_where_a_gpu_needs_them() -> None:
    """At 2**31 elements, by the text alone; CPU drivers are faster with size_t throughout."""

    def text(rows: int, target: Target) -> str:
        return (
            make_plan([X + Y], [(rows, 1 << 16)], [(rows, 1 << 16), (1, 1 << 16)], (rows, 1 << 16), target)
            .launches[0]
            .source
        )

    small, large = text((1 << 15) - 17, GPU), text(1 << 15, GPU)
    assert "uint i1" in small
    assert "size_t" not in small
    assert "size_t i1" in large
    assert "uint" not in large
    assert text(1 << 10, CPU) == text(1 << 15, CPU)


def test_vectors_are_read_plainly_where_they_lie_aligned() -> None:
    def text(columns: int, target: Target) -> str:
        shape = (64, columns)
        return make_plan([X + Y], [shape], [shape, (1, columns)], shape, target).launches[0].source

    assert "(__global const float4 *)" in text(96, GPU)
    assert "vload4" in text(97, GPU)
    assert text(96, CPU) == text(97, CPU)


def test_the_exp_of_a_softmax_waits_in_its_output() -> None:
    named = plans()
    for name in ("softmax", "softmax_columns", "gpu_softmax", "cross_entropy_gradient"):
        (launch,) = named[name].launches
        assert "*out0" in launch.source
        # Whole vectors, and the rest: rows of 96 have none on a GPU.
        assert launch.source.count("exp(") == (1 if name == "gpu_softmax" else 2)
    # The other input of the output may be overwritten, so nothing is stored there between passes.
    weighted = make_plan([_softmax(X, 1) * X], [(64, 96)], [(64, 96)], (64, 96), CPU)
    assert weighted.launches[0].source.count("exp(") == 4


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for stale in GOLDEN.glob("*.cl"):
        stale.unlink()
    for name, plan in plans().items():
        (GOLDEN / f"{name}.cl").write_text(_text(plan))
