"""Common-subexpression elimination between gradient programs: transcendental functions are loaded, not recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netcl.autograd.derive.problem import Gradients
from netcl.core.expr import Expr, Load
from netcl.core.expr.cost import has_transcendental
from netcl.core.expr.rewrite import substitute_all, walk


def load_outputs(gradients: Gradients, loads: Mapping[Expr, Expr]) -> Gradients:
    """Returns the gradients; outputs in ``loads`` with transcendental functions are loaded."""
    known = {slot: gradient for slot, gradient in gradients.items() if gradient is not None}
    saved = {output: load for output, load in loads.items() if has_transcendental((output,))}
    return {**gradients, **dict(zip(known, substitute_all([*known.values()], saved)))}


def extract_common(
    groups: Sequence[tuple[Expr, ...]], first: int
) -> tuple[list[tuple[Expr, ...]], list[dict[int, Expr]]]:
    """Lets gradient programs load values with transcendental functions that an earlier program has computed. ``first``
    is the first free slot. Returns the changed programs, and for each the expressions that it must store, by slot.
    """
    nodes = [walk(group) for group in groups]
    uses: dict[Expr, int] = {}
    for each in nodes:
        for node in each:
            uses[node] = uses.get(node, 0) + 1
    changed, shared, known = [], [], dict[Expr, Expr]()
    for group, own in zip(groups, nodes):
        repeated = {node for node in own if uses[node] > 1 and node not in known and has_transcendental((node,))}
        inner = {child for node in own if node in repeated for child in node.children}
        stored = {first + len(known) + k: node for k, node in enumerate(n for n in own if n in repeated - inner)}
        changed.append(substitute_all(group, known))
        shared.append(dict(zip(stored, substitute_all([*stored.values()], known))))
        known.update({node: Load(slot, node.dtype) for slot, node in stored.items()})
    return changed, shared
