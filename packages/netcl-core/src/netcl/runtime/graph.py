"""A graph of named ops with declared results, and its executor, which frees each result after its last use.

graph = Graph()
hidden = graph.add_op("hidden", lambda x, w: nc.relu(x @ w), [x, w], (32, 64), "float32")
graph.add_op("total", ops.sum, [hidden], (), "float32")
GraphExecutor().run(graph)["total"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from netcl.core.dtypes import canonical
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.tensor import Tensor


class GraphOp(NamedTuple):
    """An op: ``fn`` of the results of ``inputs`` (names of earlier ops, or tensors) returns ``shape`` and ``dtype``."""

    name: str
    fn: Callable[..., Tensor]
    inputs: tuple[str | Tensor, ...]
    shape: tuple[int, ...]
    dtype: str


class Graph:
    """Ops by name, in topological order; iteration yields the ops."""

    def __init__(self) -> None:
        self._ops: dict[str, GraphOp] = {}

    def add_op(
        self,
        name: str,
        fn: Callable[..., Tensor],
        inputs: Sequence[GraphOp | str | Tensor],
        shape: Sequence[int],
        dtype: str = "float32",
    ) -> GraphOp:
        """Adds ``fn(*inputs)``, which returns a tensor of ``shape`` and ``dtype``; an input is an op of this graph, its
        name, or a tensor. Raises ValueError if the name is taken or an input is not in the graph yet.
        """
        if name in self._ops:
            raise ValueError(f"the graph has an op {name!r} already")
        read = tuple(operand.name if isinstance(operand, GraphOp) else operand for operand in inputs)
        for operand in read:
            if not isinstance(operand, (str, Tensor)):
                raise TypeError(
                    f"{name}: expected an op of the graph, its name, or a tensor as an input, got {operand!r}"
                )
            if isinstance(operand, str) and operand not in self._ops:
                known = ", ".join(self._ops) or "none"
                raise ValueError(f"{name}: there is no op {operand!r} in the graph yet; there are {known}")
        self._ops[name] = GraphOp(name, fn, read, tuple(shape), canonical(dtype))
        return self._ops[name]

    def __iter__(self) -> Iterator[GraphOp]:
        return iter(self._ops.values())

    def __len__(self) -> int:
        return len(self._ops)

    def __getitem__(self, name: str) -> GraphOp:
        return self._ops[name]


class GraphExecutor:
    """Runs graphs; the memory of their results comes from ``pool`` (None: the queue's own)."""

    def __init__(self, pool: Any = None) -> None:
        self.pool: Any = pool

    def run(self, graph: Graph) -> dict[str, Tensor]:
        """Returns the results of the ops that no other op reads, by name; others are freed after their last reader.

        Raises ShapeError or DTypeError if a result differs from the declared shape or dtype.
        """
        last_reader = {operand: op.name for op in graph for operand in op.inputs if isinstance(operand, str)}
        results: dict[str, Tensor] = {}
        for op in graph:
            operands = [results[operand] if isinstance(operand, str) else operand for operand in op.inputs]
            pooled = self.pool is not None and operands
            with operands[0].engine.allocating_from(self.pool) if pooled else nullcontext():
                result = results[op.name] = op.fn(*operands)
            if not isinstance(result, Tensor):
                raise TypeError(f"op {op.name!r}: expected a tensor as the result, got {type(result).__name__}")
            if tuple(result.shape) != op.shape:
                raise ShapeError(f"op {op.name!r} gave shape {result.shape}, it was added with {op.shape}", op=op.name)
            if result.dtype != op.dtype:
                raise DTypeError(f"op {op.name!r} gave {result.dtype}, it was added with {op.dtype}", op=op.name)
            del operands, result
            for operand in [name for name in results if last_reader.get(name) == op.name]:
                del results[operand]
        return results
