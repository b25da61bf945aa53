"""What gradient programs of a fused region load instead of computing it again: outputs, and results of one another."""

from __future__ import annotations

from collections.abc import Sequence

from netcl.core.cost import is_dear
from netcl.core.expr import Expr, Load
from netcl.core.expr.rewrite import substitute_all, walk


def loaded(found: dict[int, Expr | None], outputs: Sequence[Expr], n: int) -> dict[int, Expr | None]:
    """The gradients with outputs loaded that elementary functions would have to make again."""
    there = [slot for slot, gradient in found.items() if gradient is not None]
    saved: dict[Expr, Expr] = {o: Load(n + i, o.dtype) for i, o in enumerate(outputs) if is_dear((o,))}
    return {**found, **dict(zip(there, substitute_all([found[slot] for slot in there], saved)))}  # type: ignore[misc]


def share_dear(groups: Sequence[tuple[Expr, ...]], first: int) -> tuple[list[tuple[Expr, ...]], list[dict[int, Expr]]]:
    """Gradient programs that load what an earlier one has, where elementary functions would make it again.

    ``first`` is the first free slot. Beside the programs: what each has to give out, by slot.
    """
    nodes = [walk(group) for group in groups]
    uses: dict[Expr, int] = {}
    for each in nodes:
        for node in each:
            uses[node] = uses.get(node, 0) + 1
    changed, shared, known = [], [], dict[Expr, Expr]()
    for group, own in zip(groups, nodes):
        dear = {node for node in own if uses[node] > 1 and node not in known and is_dear((node,))}
        inner = {child for node in own if node in dear for child in node.children}
        given = {first + len(known) + k: node for k, node in enumerate(n for n in own if n in dear - inner)}
        changed.append(substitute_all(group, known))
        shared.append(dict(zip(given, substitute_all([*given.values()], known))))
        known.update({node: Load(slot, node.dtype) for slot, node in given.items()})
    return changed, shared
