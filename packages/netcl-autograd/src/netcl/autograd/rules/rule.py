"""Gradient rules: functions of the recorded call and of the gradient of its output, with the tensors they save."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.autograd.blocks import Partial
from netcl.autograd.grad_node import (
    FLOATING,
    Edge,
    GradContext,
    GradNode,
    Grads,
    TensorMeta,
    edge_of,
    output_again,
    to_save,
)
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.ops_table.dispatch import OpRow
from netcl.core.storage.gradients import take_kept


@dataclass(frozen=True)
class GradientRule:
    """``backward(call, grad)`` returns gradients by operand; ``saves`` lists per operand what its gradient needs."""

    backward: Callable[[RecordedCall, Any], Mapping[str, Any]]
    saves: Mapping[str, tuple[str, ...]]


RULES: dict[str, GradientRule] = {}


def rule_of(row: OpRow, arguments: Mapping[str, Any], results: int) -> GradientRule | None:
    """Returns the row's own gradient (``OpRow.vjp``), else the rule of its name; None if it has neither."""
    if row.vjp is None:
        return RULES.get(row.name)
    everything = (*arguments, "out", *(f"out{index}" for index in range(1, results)))
    saves = row.saves if row.saves is not None else dict.fromkeys(arguments, everything)
    return GradientRule(row.vjp, saves)


def rule(name: str, **saves: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the rule of row ``name``: ``@rule("matmul", a="b", b="a")``; ``out`` and ``out1`` are outputs."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES[name] = GradientRule(function, {operand: tuple(names.split()) for operand, names in saves.items()})
        return function

    return decorate


class RecordedCall:
    """A recorded call as its rule sees it: arguments by name, saved tensors as Tensor, other tensors as TensorMeta.

    ``grads``: of all outputs. ``op(name, *args)`` runs an op of the table. ``again``: the gradients are differentiated.
    ``kept``: what the core has kept of the call for its gradient.
    """

    def __init__(
        self,
        context: GradContext,
        arguments: Mapping[str, Any],
        wanted: frozenset[str],
        grads: Sequence[Tensor | None],
        kept: Any = None,
    ) -> None:
        self.__dict__.update(arguments)
        self.grads = grads
        self.kept = kept
        self.op: Callable[..., Any] = context.call
        self.again: bool = context.create_graph
        self._wanted = wanted

    def wants(self, name: str) -> bool:
        """Returns True if the gradient of this operand is wanted."""
        return name in self._wanted

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class _Saved(NamedTuple):
    """Stands for a tensor argument: its position among the saved tensors."""

    position: int


class _Static(NamedTuple):
    row: OpRow
    rule: GradientRule | None
    arguments: dict[str, Any]
    places: tuple[tuple[str, int | None], ...]
    inputs: tuple[TensorMeta, ...]
    outputs: dict[int, int]
    filled: tuple[str, ...] = ()  # the names of arguments that are saved tensors, or hold some
    kept: Any = None  # the core's kept value, or its position among the saved tensors


class RuleStep:
    """Makes the nodes of calls with one key and the same tensors that require grad. It has what these calls share, the
    ways to the arguments that take a gradient, the ways to saved arguments, and the positions of saved results.
    """

    __slots__ = ("_edges", "_results", "_saves", "_shapes", "_static")

    def __init__(self, row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], results: Sequence[Any]) -> None:
        bound = arguments_of(row, args, kwargs)
        ways = row.signature.bind(*range(len(args)), **{name: name for name in kwargs}).arguments
        places: list[tuple[str, int | None]] = []
        inputs: list[TensorMeta] = []
        self._edges: list[_Way] = []
        for name, value in bound.items():
            several = isinstance(value, (list, tuple))
            for position, each in enumerate(value if several else (value,)):
                if isinstance(each, Tensor) and each.requires_grad and each.dtype in FLOATING:
                    places.append((name, position if several else None))
                    inputs.append(TensorMeta(each.shape, each.dtype, each.queue))
                    self._edges.append(_way(ways[name], *(position,) * several))
        known = rule_of(row, bound, len(results))
        needed = {saved for name, _ in places for saved in known.saves.get(name, ())} if known is not None else set()
        self._saves: list[_Way] = []
        self._results: list[int] = []
        arguments: dict[str, Any] = {}
        outputs: dict[int, int] = {}
        if known is not None:
            arguments = {name: self._kept(value, name in needed, ways.get(name)) for name, value in bound.items()}
            for index, result in enumerate(results):
                name = "out" if index == 0 else f"out{index}"
                if isinstance(result, Tensor):
                    arguments[name] = TensorMeta(result.shape, result.dtype, result.queue)
                    if name in needed:
                        outputs[len(self._saves) + len(self._results)] = index
                        arguments[name] = _Saved(len(self._saves) + len(self._results))
                        self._results.append(index)
        filled = tuple(name for name, value in arguments.items() if isinstance(value, (_Saved, list)))
        self._static = _Static(row, known, arguments, tuple(places), tuple(inputs), outputs, filled)
        self._shapes: list[Any] = [getattr(result, "shape", None) for result in results]

    def fits(self, results: Sequence[Any]) -> bool:
        """Returns False if results have other shapes, which may depend on values, such as the number of true ones."""
        return [getattr(result, "shape", None) for result in results] == self._shapes

    def _kept(self, value: Any, needed: bool, where: Any, *among: int) -> Any:
        """Returns an argument as nodes keep it: ``needed`` tensors are saved, others become TensorMeta."""
        if isinstance(value, Tensor):
            if not needed:
                return TensorMeta(value.shape, value.dtype, value.queue)
            self._saves.append(_way(where, *among))
            return _Saved(len(self._saves) - 1)
        if _holds_tensors(value):
            return [self._kept(each, needed, where, *among, position) for position, each in enumerate(value)]
        return tuple(value) if type(value) is list else value  # later nodes must not see what the caller does to it

    def node(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], results: Sequence[Any]) -> GradNode:
        """Returns the node of a call that returned ``results``."""
        static = self._static
        edges = tuple([edge_of(args[way] if type(way) is int else _at(args, kwargs, way)) for way in self._edges])
        saved = [to_save(args[way] if type(way) is int else _at(args, kwargs, way)) for way in self._saves]
        for index in self._results:
            saved.append(results[index].detach())
        if static.row.vjp is not None and isinstance(results[0], Tensor):
            kept = take_kept(results[0])
            if kept is not None and kept.saves:
                saved.append(kept)
                kept = len(saved) - 1
            static = static._replace(kept=kept)
        return GradNode(static.row.name, run_rule, edges, tuple(saved), len(results), static)


# The way to a tensor among the arguments of a call: its position, or its position or name and its positions in lists.
_Way = Any


def _way(where: Any, *among: int) -> _Way:
    # The arguments of *tensors are at positions of their own.
    way = (where[among[0]], *among[1:]) if isinstance(where, tuple) else (where, *among)
    return way[0] if len(way) == 1 and type(way[0]) is int else way


def _at(args: tuple[Any, ...], kwargs: Mapping[str, Any], way: _Way) -> Any:
    where, *among = way
    value = args[where] if type(where) is int else kwargs[where]
    for position in among:
        value = value[position]
    return value


def rule_step(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], results: Sequence[Any]) -> RuleStep | None:
    """Returns what makes the nodes of calls like this one, which returned ``results``; None if none is floating."""
    if not any(isinstance(result, Tensor) and result.dtype in FLOATING for result in results):
        return None
    return RuleStep(row, args, kwargs, results)


def _back(value: Any, saved: Sequence[Tensor]) -> Any:
    """Returns an argument with its saved tensors put back."""
    if isinstance(value, _Saved):
        return saved[value.position]
    return [_back(each, saved) for each in value] if isinstance(value, list) else value


def saved_arguments(node: GradNode, saved: Sequence[Tensor]) -> Iterator[tuple[str, Any]]:
    """The arguments of the call of a node by name, as far as it has saved them, and its saved results."""
    recorded: _Static = node.static
    for name, value in recorded.arguments.items():
        if isinstance(value, _Saved) and value.position in recorded.outputs:
            yield (
                name,
                output_again(
                    saved[value.position], node, recorded.outputs[value.position], saved[value.position].shape
                ),
            )
        elif not isinstance(value, TensorMeta):
            yield name, _back(value, saved)


_names: dict[OpRow, tuple[str, ...] | None] = {}


def arguments_of(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all arguments by name, defaults included; without a full binding for plain positional calls."""
    if row not in _names:
        parameters = row.signature.parameters.values()
        plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        _names[row] = tuple(p.name for p in parameters) if plain else None
    names = _names[row]
    if names is not None and not kwargs and len(args) == len(names):
        return dict(zip(names, args))
    bound = row.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def node_of(row: OpRow, arguments: dict[str, Any], x: TensorMeta, edge: Edge) -> GradNode:
    """Returns the node of a row with one tensor ``x`` that saves nothing; the gradient of ``x`` goes to ``edge``."""
    return GradNode(
        row.name,
        run_rule,
        (edge,),
        (),
        1,
        _Static(row, rule_of(row, arguments, 1), arguments, (("x", None),), (x,), {}),
    )


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value)


def run_rule(context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    """Runs the rule of a node: the backward function of nodes with a rule."""
    saved = list(node.unpack())
    recorded: _Static = node.static
    known = recorded.rule
    if known is None:
        raise UnsupportedError(
            f"{node.name} has no gradient; detach() its input, or give it one with netcl.autograd.Function",
            op=node.name,
        )
    if context.create_graph:
        for position, index in recorded.outputs.items():
            saved[position] = output_again(saved[position], node, index, saved[position].shape)

    arguments = dict(recorded.arguments)
    for name in recorded.filled:
        arguments[name] = _back(arguments[name], saved)
    names = frozenset([name for (name, _), wants in zip(recorded.places, wanted) if wants])
    kept = saved[recorded.kept] if isinstance(recorded.kept, int) else recorded.kept
    gradients = known.backward(RecordedCall(context, arguments, names, grads, kept), grads[0])
    results: list[Partial | None] = []
    for (name, among), meta, wants in zip(recorded.places, recorded.inputs, wanted):
        grad = gradients.get(name) if wants else None
        if grad is not None and among is not None:
            grad = grad[among]
        if isinstance(grad, Tensor) and grad.dtype != meta.dtype:
            grad = context.call("cast", grad, dtype=meta.dtype)
        results.append(grad)
    return results
