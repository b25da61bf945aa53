"""Gradients of expression rows: derived from the program, compiled to programs of their own, cached with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from netcl.autograd.derive.custom_gradients import GIVEN
from netcl.autograd.derive.gradient_cse import loaded, share_dear
from netcl.autograd.grad_node import FLOATING, Grads, Step, belongs
from netcl.core import Tensor
from netcl.core.dispatch import OpRow, Program, call_row, program_row
from netcl.core.errors import KernelBuildError
from netcl.core.expr import Apply, Const, Expr, Index, Load, Reduce, Scalar, apply, cast, mean, reduce, vjp
from netcl.core.expr.rewrite import axes_of, slots, substitute_all, walk
from netcl.core.fusion import Fused
from netcl.core.layout import aligned

if TYPE_CHECKING:
    from netcl.autograd.backward import Walk

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """One gradient program: ``row`` over ``sources`` (positions among saved tensors and gradients), giving gradients
    of ``inputs``, and then what later groups load from the positions ``shared``.
    """

    row: OpRow
    sources: tuple[int, ...]
    inputs: tuple[int, ...]
    shared: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """How the gradients of a program's inputs are computed.

    ``inputs`` and ``outputs`` are saved; ``groups`` compute; ``passed`` are (input, output) whose gradients are one
    and the same. ``used``: outputs whose gradients the groups take. ``shapes`` of the outputs in the iteration space.
    ``absent``: inputs that get no gradient after all.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    groups: tuple[Group, ...]
    passed: tuple[tuple[int, int], ...]
    used: frozenset[int]
    shapes: tuple[Shape, ...]
    absent: frozenset[int] = frozenset()


def plan_of(program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...]) -> Plan | None:
    """The plan for the inputs in ``needs`` (their ``shapes`` are part of the program's key); None where no output is
    floating.
    """
    if needs not in program.gradients:
        floating = tuple(output.dtype in FLOATING for output in program.outputs)
        program.gradients[needs] = _plan(program, shapes, needs, floating) if any(floating) else None
    return program.gradients[needs]  # type: ignore[no-any-return]


def narrowed(program: Program, shapes: Sequence[Shape], needs: tuple[bool, ...], given: tuple[bool, ...]) -> Plan:
    """The plan where only outputs in ``given`` have a gradient, on what the whole plan saved; the whole one if that
    is not enough.
    """
    key = (needs, given)
    if key not in program.gradients:
        entire: Plan = program.gradients[needs]
        smaller = _plan(program, shapes, needs, given, entire)
        if smaller is None:
            smaller = replace(entire, absent=_without_influence(program, needs, given))
        program.gradients[key] = smaller
    return program.gradients[key]  # type: ignore[no-any-return]


def _without_influence(program: Program, needs: tuple[bool, ...], given: tuple[bool, ...]) -> frozenset[int]:
    """Inputs of a fused region from which nothing leads to the outputs in ``given``: no gradient, not zeros."""
    if not isinstance(program, Fused):
        return frozenset()
    from netcl.autograd.derive.region import region_gradients

    n, m = len(needs), len(given)
    loads = [Load(n + m + i, o.dtype) if known else None for i, (o, known) in enumerate(zip(program.outputs, given))]
    return frozenset(slot for slot, gradient in region_gradients(program, loads).items() if gradient is None)


def _plan(
    program: Program,
    shapes: Sequence[Shape],
    needs: tuple[bool, ...],
    given: tuple[bool, ...],
    saved: Plan | None = None,
) -> Plan | None:
    outputs, n, m = program.outputs, len(shapes), len(program.outputs)
    # Slots: inputs, then outputs as they are saved, then the gradients of the outputs.
    present = dict(program.present)
    for position, shape in enumerate(program.shapes):
        axes = frozenset(axis for axis, size in enumerate(shape) if size != 1)
        present[n + position] = present[n + m + position] = axes
    grads = [Load(n + m + i, o.dtype) if known else None for i, (o, known) in enumerate(zip(outputs, given))]
    wanted = [slot for slot, need in enumerate(needs) if need]
    found: dict[int, Expr | None]
    if isinstance(program, Fused):
        from netcl.autograd.derive.region import region_gradients

        every = region_gradients(program, grads)
        found = loaded({slot: every[slot] for slot in wanted}, outputs, n)
        found = _through_outputs(found, outputs, n)
    elif program.name in GIVEN and grads[0] is not None:
        found = GIVEN[program.name].gradients(outputs[0], Load(n, outputs[0].dtype), grads[0], wanted, present)
    elif program.name in FROM_OUTPUT and n == 1:
        found = {
            0: FROM_OUTPUT[program.name](outputs[0], Load(n, outputs[0].dtype), grads[0])  # type: ignore[arg-type]
        }
    elif program.name == "attention_weights":
        found = _attended(outputs[0], Load(n, outputs[0].dtype), grads[0], wanted, present)
    elif program.name in STANDARDIZING and 0 in wanted:
        found = _through_outputs(_standardized(outputs, grads, wanted, present), outputs, n)
    else:
        found = _through_outputs(dict(zip(wanted, vjp(outputs, grads, wanted, present))), outputs, n)
    passed: list[tuple[int, int]] = []
    by_shape: dict[Shape, dict[int, Expr]] = {}
    for slot, gradient in found.items():
        if gradient is None:
            continue
        source = gradient.slot - n - m if isinstance(gradient, Load) else -1
        if source >= 0 and program.finals[source] == shapes[slot]:
            passed.append((slot, source))
        else:
            by_shape.setdefault(shapes[slot], {})[slot] = gradient
    parts = list(by_shape.items())
    shared: list[dict[int, Expr]] = [{} for _ in parts]
    if isinstance(program, Fused) and len(parts) > 1:
        parts.sort(key=lambda item: -math.prod(item[0]))
        exprs, shared = share_dear([tuple(part.values()) for _, part in parts], n + 2 * m)
        parts = [(shape, dict(zip(part, own))) for (shape, part), own in zip(parts, exprs)]
    space = tuple(
        max(sizes) for sizes in zip(*(aligned(s, len(program.shapes[0])) for s in (*shapes, *program.shapes)))
    )
    extra: dict[int, Shape] = {}
    for slot, expression in [item for group in shared for item in group.items()]:
        present[slot] = axes_of(expression, present, {})
        extra[slot] = tuple(size if axis in present[slot] else 1 for axis, size in enumerate(space))
    drafts = [
        (shape, part, more, _sources((*part.values(), *more.values()), program, shapes, n, m, extra))
        for (shape, part), more in zip(parts, shared)
    ]
    used = {source for _, _, _, sources in drafts for source in sources}
    if saved is None:
        inputs, outs = tuple(sorted(s for s in used if s < n)), tuple(sorted(s - n for s in used if n <= s < n + m))
    else:
        inputs, outs = saved.inputs, saved.outputs
    places = {slot: position for position, slot in enumerate((*inputs, *(n + o for o in outs)))}
    places.update({slot: len(inputs) + len(outs) + slot - n - m for slot in (*range(n + m, n + 2 * m), *extra)})
    if not used <= set(places):
        return None
    groups = tuple(
        _group(program, shape, part, {slot: (e, extra[slot]) for slot, e in more.items()}, sources, present, places)
        for shape, part, more, sources in drafts
    )
    gradients = frozenset(s - n - m for s in used if n + m <= s < n + 2 * m)
    return Plan(inputs, outs, groups, tuple(passed), gradients, program.shapes)


def _through_outputs(found: dict[int, Expr | None], outputs: Sequence[Expr], n: int) -> dict[int, Expr | None]:
    """The gradients in terms of saved outputs where these occur, if that keeps no more tensors or spares a sum."""
    there = [slot for slot, gradient in found.items() if gradient is not None]
    plain = [found[slot] for slot in there]
    saved = {output: Load(n + i, output.dtype) for i, output in enumerate(outputs) if output.children}
    through = substitute_all(plain, saved)  # type: ignore[arg-type]
    last = n + len(outputs)

    def count(expressions: Any) -> int:
        return sum(slot < last for slot in slots(expressions))

    reducing = any(isinstance(node, Reduce) for node in walk(outputs))
    if count(through) > count(plain) and not reducing:
        return found
    return {**found, **dict(zip(there, through))}


def _sources(
    gradients: Any, program: Program, shapes: Sequence[Shape], n: int, m: int, extra: Mapping[int, Shape]
) -> list[int]:
    """The slots that a gradient program takes: those it loads, and inputs that span axes of the iteration space it
    lacks.
    """
    gradients = tuple(gradients)
    sources = slots(gradients)
    rank = len(program.shapes[0])
    needed: set[int] = set()
    for node in walk(gradients):
        if isinstance(node, Reduce):
            needed.update(node.axes)
        elif isinstance(node, Index):
            needed.add(node.axis)
        elif isinstance(node, Scalar) and node.name.startswith("size:"):
            needed.update(int(axis) for axis in node.name[5:].split(","))

    def spans(shape: Shape) -> set[int]:
        return {axis for axis, size in enumerate(aligned(shape, rank)) if size != 1}

    covered: set[int] = set()
    for slot in sources:
        covered |= spans(shapes[slot] if slot < n else extra.get(slot) or program.shapes[(slot - n) % m])
    for slot, shape in enumerate(shapes):
        if spans(shape) & (needed - covered):
            sources.append(slot)
            covered |= spans(shape)
    return sources


def _group(
    program: Program,
    shape: Shape,
    part: Mapping[int, Expr],
    more: Mapping[int, tuple[Expr, Shape]],
    sources: Sequence[int],
    present: Mapping[int, frozenset[int]],
    places: Mapping[int, int],
) -> Group:
    """The gradients of equal shape as one program, with its slots numbered anew; ``more`` for later groups."""
    new = {slot: position for position, slot in enumerate(sources)}
    results = (*part.values(), *(expression for expression, _ in more.values()))
    loads: dict[Expr, Expr] = {
        node: Load(new[node.slot], node.dtype) for node in walk(results) if isinstance(node, Load)
    }
    expressions = substitute_all(results, loads)
    also = tuple(wide for _, wide in more.values())
    derived = Program(
        name=f"{program.name}_grad",
        outputs=expressions,
        shapes=(aligned(shape, len(program.shapes[0])),) * len(part) + also,
        finals=(shape,) * len(part) + also,
        present={position: present[slot] for slot, position in new.items()},
        single=len(results) == 1,
        relaxed=program.relaxed,
    )
    row = program_row(f"{program.name} gradient", derived)
    return Group(row, tuple(places[slot] for slot in sources), tuple(part), tuple(places[slot] for slot in more))


def run_plan(walk: Walk, step: Step, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    """The backward function of every step that a plan describes."""
    saved = step.unpack()
    plan: Plan
    plan, program, shapes, needs, scalars = step.static
    if None in [None if grad is None else 0 for grad in grads]:
        plan = narrowed(program, shapes, needs, tuple([grad is not None for grad in grads]))
    if walk.create_graph and plan.outputs:
        saved = (*saved[: len(plan.inputs)], *_rejoined(step, plan, saved[len(plan.inputs) :]))
    results: list[Tensor | None] = [None] * len(wanted)
    for slot, output in plan.passed:
        results[slot] = grads[output]
    shaped = [_shaped(walk, plan, position, grads) for position in range(len(grads))] if plan.groups else []
    values = [*saved, *shaped]
    for group in plan.groups:
        if group.shared or any(wanted[slot] for slot in group.inputs):
            inputs = tuple([values[source] for source in group.sources])
            try:
                outs = call_row(group.row, inputs, {"scalars": scalars}, walk.create_graph)
            except KernelBuildError:
                if not isinstance(program, Fused) or program.relaxed or walk.create_graph:
                    raise
                from netcl.autograd.derive.unfused import gradients_apart

                return gradients_apart(walk, step, saved, grads)
            outs = outs if isinstance(outs, tuple) else (outs,)
            values.extend(outs[len(group.inputs) :])
            for slot, out in zip(group.inputs, outs):
                if slot not in plan.absent:
                    results[slot] = out
    return results


def _rejoined(step: Step, plan: Plan, saved: Sequence[Tensor]) -> list[Tensor]:
    """Saved outputs as outputs of ``step`` again, so that gradients of gradients flow through them."""
    from netcl.autograd.node import Node

    return [belongs(Node(tensor), step, index) for index, tensor in zip(plan.outputs, saved)]


def _shaped(walk: Walk, plan: Plan, position: int, grads: Sequence[Tensor | None]) -> Any:
    """The gradient of an output in its shape in the iteration space; zeros for one that has none, where it is used at
    all.
    """
    grad, shape = grads[position], plan.shapes[position]
    if grad is None:
        if position not in plan.used:
            return None
        beside = next(other for other in grads if other is not None)
        return Tensor.zeros(shape, beside.dtype, queue=beside.queue)
    return grad if grad.shape == shape else walk.call("reshape", grad, shape)


def _standardized(
    outputs: Sequence[Expr], grads: Sequence[Expr | None], wanted: Sequence[int], present: Mapping[int, frozenset[int]]
) -> dict[int, Expr | None]:
    """Gradients where input 0 is standardized: y = (x - mean) / sqrt(var + eps) has dx = (dy - mean(dy) - y mean(dy
    y)) / sqrt(var + eps) (Ioffe and Szegedy 2015, gathered), two reductions side by side.
    """
    core = next(
        node
        for node in walk(outputs)
        if isinstance(node, Apply)
        and node.prim.name == "mul"
        and [getattr(getattr(arg, "prim", None), "name", "") for arg in node.args] == ["sub", "rsqrt"]
    )
    deviation, scale = core.args
    (axes,) = {node.axes for node in walk((deviation,)) if isinstance(node, Reduce)}
    fresh = Load(max(present) + 1, core.dtype)
    present = {**present, fresh.slot: axes_of(core, present, {})}
    opened = substitute_all(outputs, {core: fresh})
    by_core, *others = vjp(opened, grads, (fresh.slot, *wanted), present)
    found = dict(zip(wanted, others))
    if by_core is not None:
        inner = by_core - mean(by_core, axes) - core * mean(by_core * core, axes)
        by_input = cast(inner * scale, _dtype_of_slot(outputs, 0))
        found[0] = by_input if found[0] is None else by_input + found[0]
    there = [slot for slot in found if found[slot] is not None]
    return {**found, **dict(zip(there, substitute_all([found[slot] for slot in there], {fresh: core})))}  # type: ignore[misc]


def _attended(
    output: Expr, out: Expr, grad: Expr | None, wanted: Sequence[int], present: Mapping[int, frozenset[int]]
) -> dict[int, Expr | None]:
    """Gradients through a softmax of masked scores s: ds = out (grad - sum(grad out)), and from there derived."""
    power = next(node for node in walk((output,)) if isinstance(node, Apply) and node.prim.name == "exp")
    (difference,) = power.args
    scores = difference.children[0]
    value, weight = cast(grad, scores.dtype), cast(out, scores.dtype)  # type: ignore[arg-type]
    by_scores = weight * (value - reduce("sum", value * weight, _reduced_axes(output)))
    return dict(zip(wanted, vjp((scores,), (by_scores,), wanted, present)))


def _dtype_of_slot(outputs: Sequence[Expr], slot: int) -> str:
    return next(node.dtype for node in walk(outputs) if isinstance(node, Load) and node.slot == slot)


# -- gradients that are simpler in terms of the output: (expression, saved output, gradient of the output) -> gradient


def _reduced_axes(output: Expr) -> tuple[int, ...]:
    return next((node.axes for node in walk((output,)) if isinstance(node, Reduce)), ())


def _relu(output: Expr, out: Expr, grad: Expr) -> Expr:
    return apply("where", out <= 0, 0.0, grad)


def _softmax(output: Expr, out: Expr, grad: Expr) -> Expr:
    return out * (grad - reduce("sum", grad * out, _reduced_axes(output)))


def _log_softmax(output: Expr, out: Expr, grad: Expr) -> Expr:
    return grad - apply("exp", out) * reduce("sum", grad, _reduced_axes(output))


def _logsumexp(output: Expr, out: Expr, grad: Expr) -> Expr:
    (x,) = [node for node in walk((output,)) if isinstance(node, Load)]
    return grad * apply("exp", x - out)


def _erfinv(output: Expr, out: Expr, grad: Expr) -> Expr:
    return grad * (0.5 * math.sqrt(math.pi)) * apply("exp", out * out)


def _extremum_along(output: Expr, out: Expr, grad: Expr) -> Expr:
    """The first element along the axis that is the extremum (or NaN) has the gradient."""
    (x,) = [node for node in walk((output,)) if isinstance(node, Load)]
    (axis,) = _reduced_axes(output)
    hit = apply("eq", x, out) | apply("ne", x, x)
    first = reduce("min", apply("where", hit, Index(axis), Const(2**31 - 1, "int32")), axis)
    return apply("where", apply("eq", Index(axis), first), grad, 0.0)


STANDARDIZING = ("standardize", "batch_norm_training")
FROM_OUTPUT: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "erfinv": _erfinv,
    "max_along": _extremum_along,
    "min_along": _extremum_along,
    "relu": _relu,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
}
