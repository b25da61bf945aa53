"""Derivatives of functions: products with Jacobians and Hessians, and the matrices themselves.

A product with a Jacobian from the right (``jvp``) is two products from the left: u -> u J is linear, and its own
product from the left with v is J v.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netcl.autograd import ops as ag
from netcl.autograd.backward import grad
from netcl.autograd.grad_node import GradNode
from netcl.autograd.mode import enable_grad
from netcl.core import Tensor
from netcl.core.errors import ShapeError

__all__ = ["depends_on_others", "hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def _tuple(name: str, value: Any) -> Tensors:
    tensors = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: expected tensors, got {type(tensor).__name__}")
    return tensors


def _like(argument: Any, values: Tensors) -> Any:
    """Returns ``values`` as a tuple if ``argument`` is a sequence, else the only one."""
    return values if isinstance(argument, (tuple, list)) else values[0]


def _leaves(inputs: Tensors, create_graph: bool) -> Tensors:
    """Returns the inputs to differentiate by: parts of the caller's graph with ``create_graph``, else new leaves."""
    return tuple(ag.clone(x) if create_graph and x.requires_grad else _leaf(x.detach()) for x in inputs)


def _leaf(x: Tensor) -> Tensor:
    x.requires_grad = True
    return x


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return Tensor.zeros(shape, like.dtype, queue=like.queue)


def _vectors(name: str, v: Any, like: Tensors) -> Tensors:
    if v is None:
        if len(like) == 1 and like[0].size == 1:
            return (Tensor.ones(like[0].shape, like[0].dtype, queue=like[0].queue),)
        raise ValueError(f"{name}: give v, as there is more than one element")
    vectors = _tuple("v", v)
    if [x.shape for x in vectors] != [x.shape for x in like]:
        raise ShapeError(f"{name}: v has shapes {[x.shape for x in vectors]}; expected {[x.shape for x in like]}")
    return vectors


def _derivatives(
    name: str, outputs: Tensors, inputs: Tensors, vectors: Tensors | None, create_graph: bool, strict: bool
) -> Tensors:
    """Returns the gradients of the outputs, weighted by vectors, with zeros for inputs that they do not depend on."""
    used = [at for at, y in enumerate(outputs) if y.requires_grad]
    gradients: Sequence[Tensor | None] = [None] * len(inputs)
    if used:
        gradients = grad(
            [outputs[at] for at in used],
            list(inputs),
            None if vectors is None else [vectors[at] for at in used],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    if strict and any(g is None for g in gradients):
        raise RuntimeError(f"{name}: the outputs do not depend on input {[g is None for g in gradients].index(True)}")
    return tuple(_zeros(x.shape, x) if g is None else g for g, x in zip(gradients, inputs))


def _finish(values: Tensors, create_graph: bool) -> Tensors:
    return values if create_graph else tuple(value.detach() for value in values)


def depends_on_others(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> bool:
    """Returns True if the graph of the outputs reaches a leaf that is not among the inputs.

    >>> x, y = Tensor.from_host([1.0, 2.0]).requires_grad_(), Tensor.from_host([3.0, 4.0]).requires_grad_()
    >>> depends_on_others([ag.mul(x, x)], [x]), depends_on_others([ag.mul(x, y)], [x])
    (False, True)
    """
    known = {id(x) for x in inputs}
    seen: set[int] = set()
    open_ends: list[Any] = [
        y if y.grad_fn is None else getattr(y.grad_fn, "node", y.grad_fn) for y in outputs if y.requires_grad
    ]
    while open_ends:
        node = open_ends.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, GradNode) and not node.opaque:
            open_ends += [edge[0] for edge in node.edges if edge is not None]
        elif id(node) not in known:
            return True
    return False


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Returns func(*inputs) and v J, the product of ``v`` with the Jacobian of ``func`` from the left.

    ``inputs`` are a tensor or a tuple of them; ``v`` has the shapes of the outputs and may be left out for one number.
    With ``create_graph`` the results can be differentiated again; ``strict`` raises RuntimeError for an input that the
    outputs do not depend on; otherwise its result is zeros.

    >>> x = Tensor.from_host([1.0, 2.0])
    >>> vjp(lambda x: ag.sum(ag.square(x)), x)[1].tolist()
    [2.0, 4.0]
    """
    tensors = _tuple("inputs", inputs)
    with enable_grad():
        leaves = _leaves(tensors, create_graph)
        result = func(*leaves)
        outputs = _tuple("outputs", result)
        products = _derivatives("vjp", outputs, leaves, _vectors("vjp", v, outputs), create_graph, strict)
    return _like(result, _finish(outputs, create_graph)), _like(inputs, _finish(products, create_graph))


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Returns func(*inputs) and J v, the product of the Jacobian of ``func`` with ``v`` of the shapes of the inputs."""
    tensors = _tuple("inputs", inputs)
    with enable_grad():
        leaves = _leaves(tensors, create_graph)
        result = func(*leaves)
        outputs = _tuple("outputs", result)
        vectors = _vectors("jvp", v, leaves)
        # u J, a linear function of u: its product with v from the left is J v.
        duals = tuple(_leaf(_zeros(y.shape, y)) for y in outputs)
        rows = _derivatives("jvp", outputs, leaves, duals, True, strict)
        products = _derivatives("jvp", rows, duals, vectors, create_graph, False)
    return _like(result, _finish(outputs, create_graph)), _like(result, _finish(products, create_graph))


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Returns the Jacobian of ``func``: for an output of shape S and an input of shape T, a tensor of shape S + T.

    Of one input and one output it is a tensor; of a tuple of inputs a tuple; of a tuple of outputs a tuple of those.
    Rows are computed one by one, in reverse mode; ``vectorize`` and ``strategy`` change nothing in the result.

    >>> jacobian(lambda x: ag.mul(x, x), Tensor.from_host([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    tensors = _tuple("inputs", inputs)
    with enable_grad():
        leaves = _leaves(tensors, create_graph)
        result = func(*leaves)
        outputs = _tuple("outputs", result)
        blocks: list[Any] = []
        for y in outputs:
            elements = ag.reshape(y, (-1,))
            rows = [
                _derivatives(
                    "jacobian", (ag.squeeze(ag.narrow(elements, 0, at, 1), 0),), leaves, None, create_graph, strict
                )
                for at in range(y.size)
            ]
            parts = tuple(
                ag.reshape(ag.stack([row[at] for row in rows], axis=0), (*y.shape, *x.shape))
                if rows
                else _zeros((*y.shape, *x.shape), x)
                for at, x in enumerate(leaves)
            )
            blocks.append(_like(inputs, _finish(parts, create_graph)))
    return tuple(blocks) if isinstance(result, (tuple, list)) else blocks[0]


def _scalar(name: str, value: Any) -> Tensor:
    outputs = _tuple("outputs", value)
    if len(outputs) != 1 or outputs[0].size != 1:
        raise ShapeError(f"{name}: func returns one tensor of one element")
    return outputs[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Returns the matrix of second derivatives of ``func``, which returns one number: the Jacobian of its gradient.

    >>> hessian(lambda x: ag.sum(ag.mul(ag.mul(x, x), x)), Tensor.from_host([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """

    def gradient(*leaves: Tensor) -> Any:
        y = _scalar("hessian", func(*leaves))
        gradients = _derivatives("hessian", (ag.reshape(y, ()),), leaves, None, True, strict)
        return _like(inputs, gradients)

    return jacobian(gradient, inputs, create_graph, False)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Returns func(*inputs), one number, and the product of ``v`` with the matrix of its second derivatives."""
    tensors = _tuple("inputs", inputs)
    with enable_grad():
        leaves = _leaves(tensors, create_graph)
        y = _scalar("vhp", func(*leaves))
        first = _derivatives("vhp", (ag.reshape(y, ()),), leaves, None, True, strict)
        products = _derivatives("vhp", first, leaves, _vectors("vhp", v, leaves), create_graph, False)
    return _finish((y,), create_graph)[0], _like(inputs, _finish(products, create_graph))


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Returns the same as ``vhp``, as the matrix of second derivatives is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)
