"""Rewrites of expressions: traversal, substitution, simplification, and gradients in vector-Jacobian form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from netcl.core.dtypes import is_floating
from netcl.core.expr.nodes import Apply, Const, Expr, Index, Load, Reduce, apply, cast, reduce


def walk(roots: Iterable[Expr]) -> list[Expr]:
    """Returns every node below ``roots`` once, arguments before their users; iterative, for any depth."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))
    return order


def is_exact(expr: Expr) -> bool:
    """Returns True if all its functions have one result on every driver, on vectors and on scalars."""
    return all(node.prim.exact for node in walk((expr,)) if isinstance(node, Apply))


def rebuild(roots: Sequence[Expr], change: Callable[[Expr], Expr | None]) -> tuple[Expr, ...]:
    """Returns ``roots`` with every node replaced by ``change(node)``, after its children; None keeps a node."""
    done: dict[Expr, Expr] = {}
    for node in walk(roots):
        new = node
        if isinstance(node, Apply):
            new = Apply(node.prim, tuple(done[arg] for arg in node.args), node.dtype)
        elif isinstance(node, Reduce):
            new = Reduce(node.kind, done[node.arg], node.axes)
        changed = change(new)
        done[node] = new if changed is None else changed
    return tuple(done[root] for root in roots)


def substitute(expression: Expr, replacements: Mapping[Expr, Expr]) -> Expr:
    """Returns ``expression`` with each key of ``replacements`` replaced by its value, the outermost match first."""
    return substitute_all((expression,), replacements)[0]


def substitute_all(roots: Sequence[Expr], replacements: Mapping[Expr, Expr]) -> tuple[Expr, ...]:
    """Applies ``substitute`` to several expressions at once."""
    done: dict[Expr, Expr] = dict(replacements)
    for node in walk(roots):
        if node in done:
            continue
        if isinstance(node, Apply):
            done[node] = Apply(node.prim, tuple(done[arg] for arg in node.args), node.dtype)
        elif isinstance(node, Reduce):
            done[node] = Reduce(node.kind, done[node.arg], node.axes)
        else:
            done[node] = node
    return tuple(done[root] for root in roots)


def slots(roots: Iterable[Expr]) -> list[int]:
    """Returns the input slots that the expressions load, in order."""
    return sorted({node.slot for node in walk(roots) if isinstance(node, Load)})


def axes_of(node: Expr, present: Mapping[int, frozenset[int]], memo: dict[Expr, frozenset[int]]) -> frozenset[int]:
    """Returns the axes along which the value of ``node`` varies, given the axes ``present`` in each input slot."""
    for item in walk((node,)):
        if item in memo:
            continue
        if isinstance(item, Load):
            memo[item] = present[item.slot]
        elif isinstance(item, Index):
            memo[item] = frozenset((item.axis,))
        else:
            axes = frozenset[int]().union(*(memo[child] for child in item.children))
            memo[item] = axes - frozenset(item.axes) if isinstance(item, Reduce) else axes
    return memo[node]


def _is(node: Expr, value: float) -> bool:
    return isinstance(node, Const) and not isinstance(node.value, bool) and node.value == value


def _simplify_node(node: Expr) -> Expr | None:
    """Applies rules that change no bit: x*1, x/1, x-0 and negations; x+0 and x*0 would change -0, NaN and Inf."""
    if not isinstance(node, Apply):
        return None
    name, args = node.prim.name, node.args
    if name == "mul" and _is(args[1], 1):
        return args[0]
    if name == "mul" and _is(args[0], 1):
        return args[1]
    if name == "div" and _is(args[1], 1):
        return args[0]
    if name == "neg" and isinstance(args[0], Apply) and args[0].prim.name == "neg":
        return args[0].args[0]
    if name == "neg" and isinstance(args[0], Const) and is_floating(node.dtype):
        return Const(-args[0].value, node.dtype)
    if name == "where" and args[1] is args[2]:
        return args[1]
    return None


def simplify(expression: Expr) -> Expr:
    """Returns ``expression`` without operations that cannot change its value, bit for bit."""
    return rebuild((expression,), _simplify_node)[0]


def _product_of_others(node: Reduce) -> Expr:
    """Returns for each element of a product the product of all others, without dividing by zero."""
    arg, axes = node.arg, node.axes
    zero = apply("eq", arg, 0.0)
    safe = apply("where", zero, 1.0, arg)
    rest = reduce("prod", safe, axes)
    count = reduce("sum", cast(zero, arg.dtype), axes)
    # The sum of the zeros is zero, but its derivative by each of them is one.
    zeros = reduce("sum", apply("where", zero, arg, 0.0), axes)
    with_one_zero = apply("where", zero, rest, zeros * rest / safe)
    with_two = apply("where", zero, (zeros - arg) * rest, 0.0)
    several = apply(
        "where", apply("eq", count, 1.0), with_one_zero, apply("where", apply("eq", count, 2.0), with_two, 0.0)
    )
    return apply("where", apply("eq", count, 0.0), rest / safe, several)


def vjp(
    outputs: Sequence[Expr], grads: Sequence[Expr | None], wrt: Sequence[int], present: Mapping[int, frozenset[int]]
) -> tuple[Expr | None, ...]:
    """Returns the gradient of sum(output * grad) for each input slot in ``wrt``, as expressions over the same iteration
    space.

    ``present`` says along which axes each slot varies (slots of ``grads`` included); contributions of a value that
    was broadcast are summed back over the axes it lacks. None if an input has no influence. Formula: reverse
    accumulation over the DAG (Griewank and Walther, Evaluating Derivatives, 2008, chapter 3).
    """
    memo: dict[Expr, frozenset[int]] = {}
    # Per node its contributions, added up by the axes along which they exist: a node that is used along more axes
    # than it has itself counts once per place, also where the contribution is the same at all of them.
    adjoint: dict[Expr, dict[frozenset[int], Expr]] = {}

    def add(node: Expr, contribution: Expr, along: frozenset[int]) -> None:
        if not is_floating(node.dtype):
            return
        value = cast(contribution, node.dtype)
        parts = adjoint.setdefault(node, {})
        parts[along] = parts[along] + value if along in parts else value

    def gathered(node: Expr) -> Expr:
        """Returns the adjoint of ``node``, summed over axes that the node does not have."""
        node_axes = axes_of(node, present, memo)
        sums = [reduce("sum", part, sorted(along - node_axes)) for along, part in adjoint[node].items()]
        total = sums[0]
        for part in sums[1:]:
            total = total + part
        return total

    for output, grad in zip(outputs, grads):
        if grad is not None:
            add(output, grad, axes_of(grad, present, memo) | axes_of(output, present, memo))
    nodes = walk(outputs)
    reached: set[Expr] = set()  # nodes that an input of ``wrt`` influences
    for node in nodes:
        if (isinstance(node, Load) and node.slot in wrt) or not reached.isdisjoint(node.children):
            reached.add(node)
    for node in reversed(nodes):
        if node not in adjoint or node not in reached:
            continue
        if isinstance(node, Apply) and node.prim.vjp is not None:
            here = axes_of(node, present, memo)
            for arg, part in zip(node.args, node.prim.vjp(gathered(node), node, *node.args)):
                if part is not None:
                    add(arg, part, here)
        elif isinstance(node, Reduce):
            grad, along = gathered(node), axes_of(node, present, memo) | frozenset(node.axes)
            if node.kind == "sum":
                add(node.arg, grad, along)
            elif node.kind == "prod":
                add(node.arg, grad * _product_of_others(node), along)
            else:  # max and min share the gradient evenly among ties, as PyTorch's amax does
                hit = cast(apply("eq", node.arg, node), node.arg.dtype)
                add(node.arg, grad * hit / reduce("sum", hit, node.axes), along)
    result: list[Expr | None] = []
    for slot in wrt:
        loads = [node for node in adjoint if isinstance(node, Load) and node.slot == slot]
        result.append(simplify(gathered(loads[0])) if loads else None)
    return tuple(result)


def derive(expression: Expr, slot: int, *, present: Mapping[int, frozenset[int]] | None = None) -> Expr | None:
    """Returns the derivative of ``expression`` by input ``slot``; axes of broadcast inputs by ``present`` (default: no
    broadcasting).
    """
    if present is None:
        present = dict.fromkeys(slots((expression,)), frozenset[int]())
    (result,) = vjp((expression,), (Const(1.0, expression.dtype),), (slot,), present)
    return result
