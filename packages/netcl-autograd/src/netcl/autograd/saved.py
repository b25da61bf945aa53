"""The saved tensors and arguments of a node by PyTorch's names: ``y.grad_fn._saved_self``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netcl.autograd import function
from netcl.autograd.derive.execute import run_plan
from netcl.autograd.grad_node import GradNode, output_again
from netcl.autograd.rules.rule import run_rule, saved_arguments
from netcl.core.ops_table.dispatch import TABLE, call_row, program_row

# PyTorch's names of the operands and results of ops -> the rows' names.
_NAMES = {
    "self": ("x", "a", "condition"), "other": ("b",), "exponent": ("b",), "mat2": ("b", "weight"), "mat1": ("a", "x"),
    "result": ("out",), "output": ("out",), "input": ("x", "a"), "dim": ("axis",), "index": ("indices", "index"),
    "indices": ("indices", "out1"),
}  # fmt: skip
_PREFIX = "_saved_"


def attribute_of(node: GradNode, name: str) -> Any:
    """The saved tensor, or the argument, that an attribute of ``grad_fn`` names; of a node of a Function also the
    attributes of its context. AttributeError if there is none, RuntimeError if the graph is freed.
    """
    if isinstance(node.static, function._Static):
        if name in ("saved_tensors", "_saved_tensors"):
            return _of_function(node)
        return getattr(node.static.context, name)
    short = name.removeprefix("_raw")
    if short.startswith(_PREFIX):
        wanted = short[len(_PREFIX) :]
        saved: list[Any] = list(node.unpack())  # once: an unpack hook can destroy what it reads
        for own in (wanted, *_NAMES.get(wanted, ())):
            for own_name, value in _values(node, saved):  # the last one is computed
                if own_name == own:
                    return value
    raise AttributeError(f"the node of {node.op} has no {name!r}", name=name, obj=node)


def _of_function(node: GradNode) -> tuple[Any, ...]:
    saved: list[Any] = list(node.unpack())
    for position, index in node.static.outputs.items():
        saved[position] = output_again(saved[position], node, index, saved[position].shape)
    for at in node.static.context._empty:
        saved.insert(at, None)
    return tuple(saved)


def _values(node: GradNode, saved: list[Any]) -> Iterator[tuple[str, Any]]:
    """The names of rows, with the saved tensors and arguments."""
    if node.backward is run_rule:
        yield from saved_arguments(node, saved)
    elif node.backward is run_plan:
        yield from _of_program(node, saved)


def _of_program(node: GradNode, saved: list[Any]) -> Iterator[tuple[str, Any]]:
    """The numbers, the saved tensors and the leaves among the operands, and the result, computed again if need be."""
    plan, program, _, _, scalars = node.static
    row = TABLE.get(node.op)
    if row is None:  # a fused region, or an op without a row
        return
    numbers = {int(key[1:]): value for key, value in scalars.items() if key[1:].isdecimal()}
    slots = [position for position in range(len(row.operands)) if position not in numbers]
    operands: dict[int, Any] = dict(numbers)
    for slot, edge in enumerate(node.edges):
        if edge is not None and not isinstance(edge[0], GradNode):
            operands[slots[slot]] = edge[0]
    operands.update((slots[slot], tensor) for slot, tensor in zip(plan.inputs, saved))
    yield from ((row.operands[position], value) for position, value in operands.items())
    for index, tensor in zip(plan.outputs, saved[len(plan.inputs) :]):
        yield "out" if index == 0 else f"out{index}", output_again(tensor, node, index, program.finals[index])
    if not plan.outputs and program.single and len(operands) == len(numbers) + len(node.edges):
        inputs = [operands[slot] for slot in slots[: len(node.edges)]]
        result = call_row(program_row(f"{node.op} again", program), tuple(inputs), {"scalars": scalars}, False)
        yield "out", output_again(result, node, 0, program.finals[0])
