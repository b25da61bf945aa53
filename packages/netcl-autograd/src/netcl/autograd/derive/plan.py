"""Gradient plans: the tensors that a recorded program saves, and the programs for the gradients of its inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netcl.autograd.derive.gradient_cse import extract_common
from netcl.autograd.derive.problem import GradientProblem, Gradients, Shape
from netcl.core.errors import UnsupportedError
from netcl.core.expr import Expr, Index, Load, Reduce, Scalar
from netcl.core.expr.rewrite import axes_of, slots, substitute_all, walk
from netcl.core.layout import aligned
from netcl.core.ops_table.dispatch import OpRow, Program, program_row


@dataclass(frozen=True)
class GradientProgram:
    """One program of a plan: ``row`` over ``sources`` (positions among saved tensors and gradients of outputs). Its
    results are the gradients of ``inputs``, then values that later programs load from the positions ``shared``.
    """

    row: OpRow
    sources: tuple[int, ...]
    inputs: tuple[int, ...]
    shared: tuple[int, ...] = ()


@dataclass(frozen=True)
class GradientPlan:
    """The programs for the gradients of the inputs of a program.

    ``inputs`` and ``outputs`` are saved in the forward pass; ``programs`` run in the backward pass; ``passed`` are
    pairs (input, output) with the same gradient. ``used``: outputs with gradients that the programs load. ``shapes``:
    the outputs' in the iteration space. ``absent``: inputs with the gradient None although a program computes one.
    ``refusal``: the error that the backward pass raises, of an op without a gradient.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    programs: tuple[GradientProgram, ...]
    passed: tuple[tuple[int, int], ...]
    used: frozenset[int]
    shapes: tuple[Shape, ...]
    absent: frozenset[int] = frozenset()
    refusal: UnsupportedError | None = None


def refused_plan(problem: GradientProblem, refusal: UnsupportedError) -> GradientPlan:
    """Returns the plan of a program without gradients: it saves nothing, and the backward pass raises."""
    return GradientPlan((), (), (), (), frozenset(), problem.program.shapes, refusal=refusal)


@dataclass(frozen=True)
class _Draft:
    """A gradient program before slots are numbered: gradients with their shapes by input slot, and ``shared`` values,
    loaded by later programs, with their shapes by slot; ``sources`` are the slots that it loads.
    """

    gradients: Mapping[int, tuple[Expr, Shape]]
    shared: Mapping[int, tuple[Expr, Shape]]
    sources: Sequence[int]


def gradient_plan(
    problem: GradientProblem, gradients: Gradients, entire: GradientPlan | None = None, eliminate: bool = False
) -> GradientPlan | None:
    """Returns the plan for ``gradients``: one program for each shape of inputs, and none for gradients that are sums in
    another program: that program returns them.

    With ``entire`` the plan uses only what that plan saved, or is None if this is not enough. With ``eliminate``
    programs share values with transcendental functions.
    """
    passed, by_shape = _split(problem, gradients)
    drafts, present = _drafts(problem, by_shape, eliminate)
    used = {slot for draft in drafts for slot in draft.sources}
    n, m = problem.inputs, len(problem.outputs)
    if entire is None:
        inputs, outputs = tuple(sorted(s for s in used if s < n)), tuple(sorted(s - n for s in used if n <= s < n + m))
    else:
        inputs, outputs = entire.inputs, entire.outputs
    # Values at run time: saved tensors, gradients of outputs, shared results.
    shared = [slot for draft in drafts for slot in draft.shared]
    order = (*inputs, *(n + output for output in outputs), *range(n + m, n + 2 * m), *shared)
    positions = {slot: position for position, slot in enumerate(order)}
    if not used <= set(positions):
        return None
    programs = tuple(_program(problem.program, draft, present, positions) for draft in drafts)
    loaded = frozenset(slot - n - m for slot in used if n + m <= slot < n + 2 * m)
    return GradientPlan(inputs, outputs, programs, passed, loaded, problem.program.shapes)


def _split(
    problem: GradientProblem, gradients: Gradients
) -> tuple[tuple[tuple[int, int], ...], dict[Shape, dict[int, Expr]]]:
    """Splits off inputs with an output's gradient as theirs, and groups the others by the shape of their input."""
    passed: list[tuple[int, int]] = []
    by_shape: dict[Shape, dict[int, Expr]] = {}
    first = problem.inputs + len(problem.outputs)
    for slot, gradient in gradients.items():
        if gradient is None:
            continue
        shape = problem.shapes[slot]
        output = gradient.slot - first if isinstance(gradient, Load) else -1
        if output >= 0 and problem.program.finals[output] == shape:
            passed.append((slot, output))
        else:
            by_shape.setdefault(shape, {})[slot] = gradient
    return tuple(passed), by_shape


def _drafts(
    problem: GradientProblem, by_shape: Mapping[Shape, Mapping[int, Expr]], eliminate: bool
) -> tuple[list[_Draft], Mapping[int, frozenset[int]]]:
    """Returns one draft per shape, and the axes along which a slot (also of a shared value) varies."""
    parts = list(by_shape.items())
    stored: list[dict[int, Expr]] = [{} for _ in parts]
    if eliminate and len(parts) > 1:
        parts.sort(key=lambda part: -math.prod(part[0]))  # the largest program stores what the others load
        expressions, stored = extract_common([tuple(gradients.values()) for _, gradients in parts], problem.end)
        parts = [(shape, dict(zip(gradients, own))) for (shape, gradients), own in zip(parts, expressions)]
    shapes = problem.program.shapes
    space = tuple(max(sizes) for sizes in zip(*(aligned(s, len(shapes[0])) for s in (*problem.shapes, *shapes))))
    present = dict(problem.present)
    wide: dict[int, Shape] = {}
    for values in stored:
        for slot, expression in values.items():
            present[slot] = axes_of(expression, present, {})
            wide[slot] = tuple(size if axis in present[slot] else 1 for axis, size in enumerate(space))
    drafts: list[_Draft] = []
    for (shape, gradients), values in zip(parts, stored):
        results = {slot: (expression, shape) for slot, expression in gradients.items()}
        kept = {slot: (expression, wide[slot]) for slot, expression in values.items()}
        larger = next((draft for draft in drafts if not kept and _holds(draft, gradients.values())), None)
        if larger is not None:
            drafts.remove(larger)
            results, kept = {**larger.gradients, **results}, dict(larger.shared)
        loaded = (*(expression for expression, _ in (*results.values(), *kept.values())),)
        drafts.append(_Draft(results, kept, _sources(problem, loaded, wide)))
    return drafts, present


def _holds(draft: _Draft, gradients: Iterable[Expr]) -> bool:
    """True if all of ``gradients`` are reductions in the program of ``draft``."""
    inside = {
        node for node in walk([expression for expression, _ in draft.gradients.values()]) if isinstance(node, Reduce)
    }
    return inside.issuperset(gradients)


def _needed_axes(expressions: Iterable[Expr]) -> set[int]:
    """Returns the axes with lengths that expressions use: reduced, indexed, or in a size."""
    needed: set[int] = set()
    for node in walk(expressions):
        if isinstance(node, Reduce):
            needed.update(node.axes)
        elif isinstance(node, Index):
            needed.add(node.axis)
        elif isinstance(node, Scalar) and node.name.startswith("size:"):
            needed.update(int(axis) for axis in node.name[5:].split(","))
    return needed


def _sources(problem: GradientProblem, expressions: Sequence[Expr], wide: Mapping[int, Shape]) -> list[int]:
    """Returns the slots that a gradient program takes: loaded ones, and inputs with axes that it would lack."""
    n, outputs = problem.inputs, problem.program.shapes
    sources, needed = slots(expressions), _needed_axes(expressions)

    def spans(shape: Shape) -> set[int]:
        return {axis for axis, size in enumerate(aligned(shape, len(outputs[0]))) if size != 1}

    covered: set[int] = set()
    for slot in sources:
        covered |= spans(problem.shapes[slot] if slot < n else wide.get(slot) or outputs[(slot - n) % len(outputs)])
    for slot, shape in enumerate(problem.shapes):
        if spans(shape) & (needed - covered):
            sources.append(slot)
            covered |= spans(shape)
    return sources


def _program(
    program: Program, draft: _Draft, present: Mapping[int, frozenset[int]], positions: Mapping[int, int]
) -> GradientProgram:
    """Returns a draft as a program with slots numbered from 0."""
    numbers = {slot: number for number, slot in enumerate(draft.sources)}
    made = (*draft.gradients.values(), *draft.shared.values())
    results = tuple(expression for expression, _ in made)
    loads: dict[Expr, Expr] = {
        node: Load(numbers[node.slot], node.dtype) for node in walk(results) if isinstance(node, Load)
    }
    rank = len(program.shapes[0])
    derived = Program(
        name=f"{program.name}_grad",
        outputs=substitute_all(results, loads),
        shapes=tuple(aligned(shape, rank) for _, shape in made),
        finals=tuple(shape for _, shape in made),
        present={number: present[slot] for slot, number in numbers.items()},
        single=len(results) == 1,
        relaxed=program.relaxed,
    )
    row = program_row(f"{program.name} gradient", derived)
    return GradientProgram(
        row,
        tuple(positions[slot] for slot in draft.sources),
        tuple(draft.gradients),
        tuple(positions[slot] for slot in draft.shared),
    )
