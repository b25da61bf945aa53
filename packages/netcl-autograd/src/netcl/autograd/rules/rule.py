"""How a gradient rule is written and run: a function over the recorded call, with what it saves said beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.autograd.grad_node import FLOATING, Edge, Fact, Grads, Step, edge_of
from netcl.core import Tensor
from netcl.core.dispatch import OpRow
from netcl.core.errors import UnsupportedError

if TYPE_CHECKING:
    from netcl.autograd.backward import Walk


@dataclass(frozen=True)
class Rule:
    """``backward(call, grad)`` gives gradients by operand name; ``saves`` says which tensors the gradient of an
    operand needs.
    """

    backward: Callable[[Call, Any], Mapping[str, Any]]
    saves: Mapping[str, tuple[str, ...]]


RULES: dict[str, Rule] = {}


def rule(name: str, **saves: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the gradient of row ``name``: ``@rule("matmul", a="b", b="a")``; ``out`` and ``out1`` are outputs."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES[name] = Rule(function, {operand: tuple(names.split()) for operand, names in saves.items()})
        return function

    return decorate


class Call:
    """A recorded call as its rule sees it: arguments by name, saved tensors as tensors, other tensors as Facts."""

    def __init__(
        self, walk: Walk, arguments: Mapping[str, Any], wanted: frozenset[str], grads: Sequence[Tensor | None]
    ) -> None:
        self.__dict__.update(arguments)
        self.grads = grads
        self.op = walk.call
        self.again = walk.create_graph  # whether the gradients get gradients themselves
        self._wanted = wanted

    def wants(self, name: str) -> bool:
        """Whether the gradient of this operand is asked for."""
        return name in self._wanted

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class _Saved(NamedTuple):
    """In place of a tensor among the arguments: its position among the saved ones."""

    position: int


class _Recorded(NamedTuple):
    row: OpRow
    arguments: dict[str, Any]
    places: tuple[tuple[str, int | None], ...]
    facts: tuple[Fact, ...]
    outputs: dict[int, int]


def record_call(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], results: Sequence[Any]) -> Step | None:
    """The step of a call that gave ``results``; None where none of them is floating."""
    if not any(isinstance(result, Tensor) and result.dtype in FLOATING for result in results):
        return None
    given = _arguments(row, args, kwargs)
    edges: list[Edge] = []
    facts: list[Fact] = []
    places: list[tuple[str, int | None]] = []
    for name, value in given.items():
        several = isinstance(value, (list, tuple))
        for position, each in enumerate(value if several else (value,)):
            if isinstance(each, Tensor) and each.requires_grad and each.dtype in FLOATING:
                edges.append(edge_of(each))
                facts.append(Fact(each.shape, each.dtype, each.queue))
                places.append((name, position if several else None))
    known = RULES.get(row.name)
    if known is None:
        static: Any = _Recorded(row, {}, tuple(places), tuple(facts), {})
        return Step(row.name, run_rule, tuple(edges), (), len(results), static)
    needed = {saved for name, _ in places for saved in known.saves.get(name, ())}
    saved: list[Tensor] = []
    outputs: dict[int, int] = {}

    arguments = {name: _keep(value, name in needed, saved) for name, value in given.items()}
    for index, result in enumerate(results):
        name = "out" if index == 0 else f"out{index}"
        if isinstance(result, Tensor):
            if name in needed:
                outputs[len(saved)] = index
                result = result.detach()
            arguments[name] = _keep(result, name in needed, saved)
    static = _Recorded(row, arguments, tuple(places), tuple(facts), outputs)
    return Step(row.name, run_rule, tuple(edges), tuple(saved), len(results), static)


# Not a function inside of another: one that calls itself holds itself, and what it has seen until garbage is collected.
def _keep(value: Any, needed: bool, saved: list[Tensor]) -> Any:
    """An argument as the step keeps it: tensors that are ``needed`` among the saved ones, others as Facts."""
    if isinstance(value, Tensor):
        if not needed:
            return Fact(value.shape, value.dtype, value.queue)
        saved.append(value)
        return _Saved(len(saved) - 1)
    return [_keep(each, needed, saved) for each in value] if _holds_tensors(value) else value


def _back(value: Any, saved: Sequence[Tensor]) -> Any:
    """An argument with its saved tensors in their places."""
    if isinstance(value, _Saved):
        return saved[value.position]
    return [_back(each, saved) for each in value] if isinstance(value, list) else value


_names: dict[OpRow, tuple[str, ...] | None] = {}


def _arguments(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments by name, defaults included; plain positional calls without the cost of a full binding."""
    if row not in _names:
        parameters = row.signature.parameters.values()
        plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        _names[row] = tuple(p.name for p in parameters) if plain else None
    names = _names[row]
    if names is not None and not kwargs and len(args) == len(names):
        return dict(zip(names, args))
    found = row.signature.bind(*args, **kwargs)
    found.apply_defaults()
    return found.arguments


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value)


def run_rule(walk: Walk, step: Step, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    """The backward function of every step that a rule describes."""
    saved = list(step.unpack())
    recorded: _Recorded = step.static
    known = RULES.get(recorded.row.name)
    if known is None:
        raise UnsupportedError(
            f"{step.name} has no gradient; detach() its input, or give it one with netcl.autograd.Function",
            op=step.name,
        )
    if walk.create_graph:
        for position, index in recorded.outputs.items():
            saved[position] = _rejoined(step, saved[position], index)

    arguments = {name: _back(value, saved) for name, value in recorded.arguments.items()}
    names = frozenset(name for (name, _), wants in zip(recorded.places, wanted) if wants)
    found = known.backward(Call(walk, arguments, names, grads), grads[0])
    results: list[Tensor | None] = []
    for (name, among), fact, wants in zip(recorded.places, recorded.facts, wanted):
        grad = found.get(name) if wants else None
        if grad is not None and among is not None:
            grad = grad[among]
        if grad is not None and grad.dtype != fact.dtype:
            grad = walk.call("cast", grad, dtype=fact.dtype)
        results.append(grad)
    return results


def _rejoined(step: Step, tensor: Tensor, index: int) -> Tensor:
    from netcl.autograd.grad_node import belongs
    from netcl.autograd.node import Node

    return belongs(Node(tensor), step, index)
