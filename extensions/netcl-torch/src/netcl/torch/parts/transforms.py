"""torch.func: derivatives of functions of nested values, and maps over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import netcl as nc
import netcl.autograd as ag
from netcl.autograd.functional import depends_on_others
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.distributed.training.pytree import flatten, unflatten
from netcl.nn.utils.stateless import functional_call as functional_call

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


class _Call(NamedTuple):
    """A call of a function with tensors to differentiate by: inputs and outputs with their structures, other results,
    and True if the outputs depend on tensors of the caller that require grad.
    """

    inputs: list[Tensor]
    inputs_form: Any
    outputs: list[Tensor]
    outputs_form: Any
    aux: Any
    outer: bool

    def value(self) -> Any:
        """The result of the function, in the caller's graph if it has a part there."""
        return unflatten(self.outputs_form, iter(self.outside(self.outputs)))

    def outside(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors without the graph of this call, unless it is a part of the caller's."""
        return list(tensors) if self.outer else [x.detach() for x in tensors]

    def shaped(self, gradients: Sequence[Tensor]) -> Any:
        """Gradients in the structure of the inputs."""
        return unflatten(self.inputs_form, iter(gradients))


def _flat(what: str, value: Any) -> tuple[list[Tensor], Any]:
    found: list[Tensor] = []
    try:
        return found, flatten(value, found, only_tensors=True)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None


# The tensors to differentiate by of calls inside of the one that runs: they end with their calls.
_ended: ContextVar[list[Tensor] | None] = ContextVar("_ended", default=None)


def _called(name: str, func: Function, chosen: Any, has_aux: bool) -> _Call:
    leaves, form = _flat(f"{name}: arguments to differentiate by", chosen)
    recorded, before = ag.is_grad_enabled(), _ended.get()
    inside: list[Tensor] = []
    token = _ended.set(inside)
    try:
        with ag.enable_grad():
            inputs = [_linked(leaf) for leaf in leaves]
            result = func(unflatten(form, iter(inputs)))
    finally:
        _ended.reset(token)
    inside += inputs
    if before is not None:
        before += inside
    aux = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError(f"{name}: with has_aux the function returns a tuple (output, aux)")
        result, aux = result
    outputs, outputs_form = _flat(f"{name}: results", result)
    outer = recorded and depends_on_others(outputs, inside)
    if has_aux:
        others: list[Tensor] = []
        aux_form = flatten(aux, others)
        aux = unflatten(aux_form, iter(others if outer else [x.detach() for x in others]))
    return _Call(inputs, form, outputs, outputs_form, aux, outer)


def _linked(leaf: Tensor) -> Tensor:
    """A tensor to differentiate by, which keeps the caller's graph, for derivatives of derivatives."""
    if not leaf.is_floating_point():
        raise RuntimeError(f"derivatives are by tensors of floating dtypes, not {leaf.dtype}")
    return ag.clone(leaf) if leaf.requires_grad else leaf.detach().requires_grad_()


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor] | None, create_graph: bool
) -> list[Tensor]:
    """The gradients by the inputs; zeros for an input that the outputs do not depend on."""
    used = [at for at, y in enumerate(outputs) if y.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if used:
        found = ag.grad(
            [outputs[at] for at in used],
            list(inputs),
            None if weights is None else [weights[at] for at in used],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    return [x.new_zeros(x.shape) if g is None else g for g, x in zip(found, inputs)]


def _by_argnums(func: Function, argnums: Argnums, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Function]:
    """The arguments to differentiate by, and the function of them alone."""
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not places or any(not isinstance(at, int) for at in places):
        raise RuntimeError(f"argnums is an int or a tuple of ints, not {argnums!r}")
    for at in places:
        if not -len(args) <= at < len(args):
            raise RuntimeError(f"argnums {at} names no argument: there are {len(args)} by position")
    if len({at % len(args) for at in places}) != len(places):
        raise RuntimeError(f"argnums {argnums} names an argument twice")

    def partly(chosen: Any) -> Any:
        new = list(args)
        for at, value in zip(places, (chosen,) if isinstance(argnums, int) else chosen):
            new[at] = value
        return func(*new, **kwargs)

    return args[argnums] if isinstance(argnums, int) else tuple(args[at] for at in places), partly


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Returns the function that gives the gradient of ``func``, by the arguments at ``argnums``, and its value.

    With ``has_aux`` ``func`` returns (value, others) and the result is (gradient, (value, others)).
    """

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        chosen, partly = _by_argnums(func, argnums, args, kwargs)
        call = _called("grad", partly, chosen, has_aux)
        if not isinstance(value := unflatten(call.outputs_form, iter(call.outputs)), Tensor) or value.ndim:
            shape = (
                f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            )
            raise RuntimeError(f"grad: the function returns a tensor of 0 axes, not {shape}; write vjp or jacrev")
        gradients = call.shaped(_gradients(call.outputs, call.inputs, None, call.outer))
        return gradients, (call.value(), call.aux) if has_aux else call.value()

    return derived


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Returns the function that gives the gradient of ``func`` by the arguments at ``argnums``; (gradient, others) with
    ``has_aux``.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return derived


def _matching(name: str, given: Any, like: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of vectors, with the shapes of others."""
    vectors, _ = _flat(name, given)
    shapes, expected = [tuple(x.shape) for x in vectors], [tuple(x.shape) for x in like]
    if shapes != expected:
        raise ShapeError(f"{name} have shapes {shapes}; expected {expected}", op=name.partition(":")[0])
    return vectors


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Returns func(*primals) and the function that multiplies a vector, in the structure of the result, with the
    Jacobian from the left: a tuple with one gradient per primal.
    """
    call = _called("vjp", lambda given: func(*given), primals, has_aux)

    def product(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        weights = _matching("vjp: cotangents", cotangents, call.outputs)
        kept = call.outer or any(w.requires_grad for w in weights)
        if create_graph is False or not ag.is_grad_enabled():
            kept = False
        return call.shaped(_gradients(call.outputs, call.inputs, weights, kept))

    return (call.value(), product, call.aux) if has_aux else (call.value(), product)


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Returns func(*primals) and the product of the Jacobian with the tangents, in the structure of the result; with
    ``strict`` raises RuntimeError for results that do not depend on the primals.
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: primals and tangents are tuples, as func(*primals) is called")
    call = _called("jvp", lambda given: func(*given), primals, has_aux)
    vectors = _matching("jvp: tangents", tangents, call.inputs)
    if strict and not all(y.requires_grad for y in call.outputs):
        raise RuntimeError("jvp: with strict, all results depend on the primals")
    outer = call.outer or (ag.is_grad_enabled() and any(v.requires_grad for v in vectors))
    with ag.enable_grad():
        # u J, a linear function of u, whose product with the tangents from the left is J v.
        duals = [y.new_zeros(y.shape).requires_grad_() for y in call.outputs]
        rows = _gradients(call.outputs, call.inputs, duals, True)
        found = _gradients(rows, duals, vectors, outer)
    if (enclosing := _ended.get()) is not None:
        enclosing += duals
    product = unflatten(call.outputs_form, iter(found))
    return (call.value(), product, call.aux) if has_aux else (call.value(), product)


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Returns the function that gives the Jacobian of ``func`` by the arguments at ``argnums``: in the structure of the
    result, for each of its tensors of shape S, in the structure of the arguments, tensors of shape S + T.

    Rows are computed one by one; ``chunk_size`` changes nothing.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: chunk_size should be greater than 0")

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        chosen, partly = _by_argnums(func, argnums, args, kwargs)
        call = _called("jacrev", partly, chosen, has_aux)
        with ag.enable_grad():
            blocks = [call.shaped(_rows(call, y)) for y in call.outputs]
        found = unflatten(call.outputs_form, iter(blocks))
        return (found, call.aux) if has_aux else found

    return derived


def _rows(call: _Call, y: Tensor) -> list[Tensor]:
    """The Jacobians of one result by all inputs."""
    elements = ag.reshape(y, (-1,))
    rows = [
        _gradients([ag.squeeze(ag.narrow(elements, 0, at, 1), 0)], call.inputs, None, call.outer)
        for at in range(y.numel())
    ]
    return [
        ag.reshape(ag.stack([row[at] for row in rows], axis=0), (*y.shape, *x.shape))
        if rows
        else x.new_zeros((*y.shape, *x.shape))
        for at, x in enumerate(call.inputs)
    ]


def jacfwd(func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """Returns the same function as ``jacrev``; the rows are computed in reverse mode."""
    _check_randomness(randomness)
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """Returns the function that gives the second derivatives of ``func``: the Jacobian of its Jacobian."""
    return jacrev(jacrev(func, argnums), argnums)


# -- maps over a batch


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """Returns the function that calls ``func`` for each element of a batch and stacks the results: exact for any
    function, at the cost of its calls.

    ``in_dims`` is one axis for all arguments, or one for each, None for an argument without a batch, nested as the
    arguments are; ``out_dims`` is the axis of the results, None for one that is the same object for all elements.
    ``randomness``: "different" random numbers for each element, the "same", or an "error" if some are drawn;
    ``chunk_size`` changes nothing. Raises ValueError for axes that do not fit, RuntimeError for random numbers.
    """
    _check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be greater than 0, not {chunk_size}")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if not isinstance(in_dims, (int, tuple)):
            raise ValueError(f"vmap: in_dims is an int or a tuple in the structure of the arguments, not {in_dims!r}")
        dims = _axes("in_dims", args, in_dims)
        leaves: list[Tensor] = []
        form = flatten(args, leaves)
        sizes = {leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None}
        if not sizes:
            raise ValueError("vmap: no argument has a batch axis: in_dims is None for all of them, or there are none")
        if len(sizes) != 1:
            raise ValueError(f"vmap: the batch axes of the arguments have one size, not {sorted(sizes)}")
        (size,) = sizes
        if not size:
            raise ValueError("vmap: the batch axis has size 0, so that no call gives the shape of the result")
        columns = [None if dim is None else ag.unbind(leaf, dim) for leaf, dim in zip(leaves, dims)]
        results = []
        for at, _ in enumerate(_elements(size, randomness)):
            row = (leaf if column is None else column[at] for leaf, column in zip(leaves, columns))
            results.append(func(*unflatten(form, row), **kwargs))
        return _stacked(results, out_dims)

    return mapped


def _check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"randomness is 'error', 'different' or 'same', not {randomness!r}")


def _elements(size: int, randomness: str) -> Iterator[None]:
    """Yields once for each element, with the random numbers that are wanted."""
    generator = nc.default_generator
    state = generator.get_state() if randomness != "different" else {}
    for _ in range(size):
        if randomness == "same":
            generator.set_state(state)
        yield
        if randomness == "error" and generator.get_state() != state:
            raise RuntimeError(
                "vmap: the function draws random numbers; write randomness='different' or 'same', or draw them before"
            )


def _axes(name: str, value: Any, dim: Any) -> list[int | None]:
    """The axis of each tensor of nested values; one axis stands for all tensors of a container."""
    if isinstance(value, Tensor):
        if dim is not None and not isinstance(dim, int):
            raise ValueError(f"vmap: {name} does not fit: {dim!r} for a tensor")
        if dim is not None and not -value.ndim <= dim < value.ndim:
            raise ValueError(f"vmap: {name}: axis {dim} of a tensor of shape {tuple(value.shape)}, which lacks it")
        return [dim]
    if isinstance(value, dict):
        if isinstance(dim, dict) and dim.keys() != value.keys():
            raise ValueError(f"vmap: {name} has keys {sorted(dim)} for a dict with keys {sorted(value)}")
        parts = [(one, dim[key] if isinstance(dim, dict) else dim) for key, one in value.items()]
    elif isinstance(value, (tuple, list)):
        if isinstance(dim, (tuple, list)) and len(dim) != len(value):
            raise ValueError(f"vmap: {name} has {len(dim)} entries for {len(value)} values")
        parts = list(zip(value, dim if isinstance(dim, (tuple, list)) else [dim] * len(value)))
    else:
        if dim is not None:
            raise ValueError(f"vmap: {name} is {dim!r} for a {type(value).__name__}; write None for it")
        return []
    return [axis for one, part in parts for axis in _axes(name, one, part)]


def _stacked(results: list[Any], out_dims: Any) -> Any:
    if out_dims is not None and not isinstance(out_dims, (int, tuple)):
        raise ValueError(f"vmap: out_dims is an int, None or a tuple in the structure of the results, not {out_dims!r}")
    first = results[0]
    if isinstance(first, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        (out_dims,) = out_dims
    dims = _axes_of_results(first, out_dims)
    form = flatten(first, [])
    rows: list[list[Tensor]] = []
    for result in results:
        rows.append([])
        flatten(result, rows[-1])
    return unflatten(form, (_column(list(column), dim) for column, dim in zip(zip(*rows), dims)))


def _axes_of_results(first: Any, out_dims: Any) -> list[int | None]:
    """The axes of the results; an axis may be the one after the last of an element."""
    leaves: list[Tensor] = []
    form = flatten(first, leaves)
    return _axes("out_dims", unflatten(form, (leaf.unsqueeze(0) for leaf in leaves)), out_dims)


def _column(column: list[Tensor], dim: int | None) -> Tensor:
    if dim is not None:
        return ag.stack(column, axis=dim)
    if any(one is not column[0] for one in column):
        raise ValueError("vmap: a result differs from element to element, but its out_dims is None")
    return column[0]


# -- modules


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Returns the parameters and the buffers of modules of one class and mode, stacked by name along a new first
    axis.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if any(model.training is not models[0].training for model in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked_by_name(parameters), _stacked_by_name(buffers)


def _stacked_by_name(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        if len({x.requires_grad for x in tensors}) != 1:
            raise RuntimeError(f"stack_module_state: {name} requires grad in some of the models only")
        stacked = ag.stack(tensors, axis=0).detach()
        found[name] = stacked.requires_grad_() if tensors[0].requires_grad else stacked
    return found
