"""torch.func: derivatives of functions of nested values, and maps over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import netcl.autograd as ag
from netcl.autograd import functional
from netcl.core import Tensor
from netcl.nn.utils.stateless import functional_call as functional_call

Function = Callable[..., Any]


def _flat(value: Any) -> tuple[list[Any], Function]:
    """The tensors of nested tuples, lists and dicts, and the function that puts others in their places."""
    if isinstance(value, Tensor):
        return [value], lambda leaves: leaves[0]
    if isinstance(value, dict):
        leaves, build = _flat(list(value.values()))
        return leaves, lambda new: dict(zip(value, build(new)))
    if not isinstance(value, (tuple, list)):
        raise TypeError(
            f"derivatives are by tensors, and tuples, lists and dicts of them, not by {type(value).__name__}"
        )
    parts = [_flat(one) for one in value]

    def build_all(new: list[Any]) -> Any:
        built, at = [], 0
        for leaves, build in parts:
            built.append(build(new[at : at + len(leaves)]))
            at += len(leaves)
        return tuple(built) if isinstance(value, tuple) else built

    return [leaf for leaves, _ in parts for leaf in leaves], build_all


def _with(args: tuple[Any, ...], argnums: int | tuple[int, ...], values: Any) -> list[Any]:
    new = list(args)
    for at, value in zip((argnums,) if isinstance(argnums, int) else argnums, values):
        new[at] = value
    return new


def _chosen(args: tuple[Any, ...], argnums: int | tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(args[at] for at in ((argnums,) if isinstance(argnums, int) else argnums))


def grad_and_value(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """Returns the function that gives the gradient of ``func``, by the arguments at ``argnums``, and its value.

    With ``has_aux`` ``func`` returns (value, others) and the result is (gradient, (value, others)).
    """

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        leaves, build = _flat(_chosen(args, argnums))
        with ag.enable_grad():
            inner = [_linked(leaf) for leaf in leaves]
            result = func(*_with(args, argnums, build(inner)), **kwargs)
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise RuntimeError("grad: func returns a tensor of one element; write func.jacrev for others")
            outer = any(leaf.requires_grad for leaf in leaves)
            found = ag.grad(value, inner, create_graph=True, allow_unused=True) if value.requires_grad else inner
            found = [
                x.new_zeros(x.shape) if g is None or g is x else g if outer else g.detach()
                for g, x in zip(found, inner)
            ]
        gradients = build(found)
        gradients = gradients[0] if isinstance(argnums, int) else gradients
        value = value if outer else value.detach()
        return gradients, (value, aux) if has_aux else value

    return derived


def _linked(leaf: Tensor) -> Tensor:
    """A tensor to differentiate by, which keeps the caller's graph, for derivatives of derivatives."""
    return ag.clone(leaf) if leaf.requires_grad else leaf.detach().requires_grad_()


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """Returns the function that gives the gradient of ``func`` by the arguments at ``argnums``; (gradient, others) with
    ``has_aux``.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return derived


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Returns func(*primals) and the function that multiplies a vector with the Jacobian from the left."""
    leaves, build = _flat(primals)
    with ag.enable_grad():
        inner = [_linked(leaf) for leaf in leaves]
        result = func(*build(inner))
    value, aux = result if has_aux else (result, None)
    outputs, shaped = _flat(value)

    def product(*cotangents: Any) -> Any:
        weights, _ = _flat(cotangents[0] if len(cotangents) == 1 else cotangents)
        used = [(y, w) for y, w in zip(outputs, weights) if y.requires_grad]
        found: Any = [None] * len(inner)
        if used:
            found = ag.grad(
                [y for y, _ in used],
                inner,
                [w for _, w in used],
                retain_graph=True,
                allow_unused=True,
                create_graph=True,
            )
        made = [x.new_zeros(x.shape) if g is None else g for g, x in zip(found, inner)]
        return build(made)

    plain = shaped([y.detach() for y in outputs]) if not any(leaf.requires_grad for leaf in leaves) else value
    return (plain, product, aux) if has_aux else (plain, product)


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Returns func(*primals) and the product of the Jacobian with the tangents."""
    if has_aux:
        kept: list[Any] = []

        def first(*args: Any) -> Any:
            value, aux = func(*args)
            kept[:] = [aux]
            return value

        return (*functional.jvp(first, tuple(primals), tuple(tangents)), kept[0])
    return functional.jvp(func, tuple(primals), tuple(tangents))


def jacrev(func: Function, argnums: int | tuple[int, ...] = 0, **options: Any) -> Function:
    """Returns the function that gives the Jacobian of ``func`` by the arguments at ``argnums``."""

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        chosen = _chosen(args, argnums)
        outer = any(x.requires_grad for x in chosen)
        found = functional.jacobian(
            lambda *values: func(*_with(args, argnums, values), **kwargs), chosen, create_graph=outer
        )
        return found[0] if isinstance(argnums, int) and isinstance(found[0], Tensor) else _first(found, argnums)

    return derived


def _first(found: Any, argnums: int | tuple[int, ...]) -> Any:
    """The blocks of several outputs: of the one argument if there is one."""
    if isinstance(argnums, int):
        return tuple(one[0] for one in found)
    return found


jacfwd = jacrev


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """Returns the function that gives the second derivatives of ``func``, which returns one number."""
    return jacrev(grad(func, argnums), argnums)


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """Returns the function that calls ``func`` for each element of a batch and stacks the results: exact for any
    function, at the cost of its calls. ``in_dims`` is one axis for all arguments, or one for each, None for an argument
    without a batch; ``out_dims`` is the axis of the results.
    """

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        dims = tuple(in_dims) if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        parts = [_cut(arg, dim) for arg, dim in zip(args, dims)]
        sizes = {len(part) for part in parts if part is not None}
        if len(sizes) != 1:
            raise ValueError(f"vmap: the batch axes of the arguments have one size, not {sorted(sizes)}")
        results = [
            func(*[arg if part is None else part[at] for arg, part in zip(args, parts)], **kwargs)
            for at in range(sizes.pop())
        ]
        leaves = [_flat(result) for result in results]
        axes = out_dims if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(leaves[0][0])
        return leaves[0][1](
            [ag.stack(list(column), axis=axis) for column, axis in zip(zip(*[l for l, _ in leaves]), axes)]
        )

    return mapped


def _cut(value: Any, dim: Any) -> list[Any] | None:
    """The elements of a value along its batch axis; None if it has none."""
    if dim is None:
        return None
    leaves, build = _flat(value)
    columns = [ag.unbind(leaf, dim) for leaf in leaves]
    return [build(list(row)) for row in zip(*columns)]


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Returns the parameters and the buffers of modules of one kind, stacked by name along a new first axis."""
    models = list(models)
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    stacked = {
        name: ag.stack([each[name] for each in parameters], axis=0).detach().requires_grad_() for name in parameters[0]
    }
    return stacked, {name: ag.stack([each[name] for each in buffers], axis=0) for name in buffers[0]}
