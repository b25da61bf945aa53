"""torch.autograd: names beyond those of netcl.autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import netcl as nc
import netcl.autograd as ag
from netcl.autograd.backward import backward_from
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

TORCH_NAMES = ("Variable", "gradcheck", "gradgradcheck", "once_differentiable")


class _Variables(type):
    def __call__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        tensor = data if isinstance(data, Tensor) else ag.tensor(data)
        return tensor.detach().requires_grad_() if requires_grad and not tensor.requires_grad else tensor

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_Variables):
    """A call returns the tensor itself, which requires grad if asked: tensors are variables."""


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Adds the gradients of the tensors, weighted by ``grad_tensors``, to the leaves, or to ``inputs`` alone."""
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    weights = grad_tensors if grad_tensors is not None else grad_variables
    factors = [None] * len(given) if weights is None else [weights] if isinstance(weights, Tensor) else list(weights)
    if len(factors) != len(given):
        raise RuntimeError(f"backward: expected a gradient for each of {len(given)} tensors, got {len(factors)}")
    backward_from(given, factors, bool(retain_graph), create_graph, inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of sum(outputs * grad_outputs) with respect to ``inputs``: ``netcl.autograd.grad``.

    An input that does not influence the outputs has None with ``allow_unused``, zeros with ``materialize_grads``; it is
    an error otherwise. ``only_inputs`` is ignored, as in PyTorch; ``is_grads_batched`` is refused.
    """
    if is_grads_batched:
        raise UnsupportedError("grad: is_grads_batched is not in netcl; write torch.func.vmap over torch.func.vjp")
    unused = materialize_grads if allow_unused is None else allow_unused
    found = ag.grad(outputs, inputs, grad_outputs, create_graph, unused, retain_graph)
    if not materialize_grads:
        return found
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    return tuple(nc.zeros_like(x) if value is None else value for x, value in zip(given, found))


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **options: Any,
) -> bool:
    """Compares the gradients of ``func`` with central differences; raises an error, or returns False, for others."""
    return _checked(ag.gradcheck, func, inputs, eps, atol, rtol, raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **options: Any,
) -> bool:
    """``gradcheck`` of the gradients of ``func``."""
    return _checked(ag.gradgradcheck, func, inputs, eps, atol, rtol, raise_exception)


def _checked(
    check: Callable[..., bool], func: Any, inputs: Any, eps: float, atol: float, rtol: float, raises: bool
) -> bool:
    given: Sequence[Any] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        return check(func, given, eps, rtol=rtol, atol=atol)
    except (AssertionError, RuntimeError, ValueError):
        if raises:
            raise
        return False


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates ``backward`` of a Function that cannot be differentiated: it runs without a graph, and a derivative of
    its gradients raises RuntimeError.
    """

    @wraps(fn)
    def call(ctx: Any, *grads: Any) -> Any:
        with nc.no_grad():
            results = fn(ctx, *grads)
        given = tuple([grad for grad in grads if isinstance(grad, Tensor) and grad.requires_grad])
        if not nc.is_grad_enabled() or not given:
            return results
        if isinstance(results, tuple):
            return tuple([_refusing(result, given) for result in results])
        return _refusing(results, given)

    return call


def _refusing(result: Any, given: tuple[Tensor, ...]) -> Any:
    """A gradient of which the derivative raises."""
    return _Once.apply(result, *given) if isinstance(result, Tensor) else result


class _Once(ag.Function):
    @staticmethod
    def forward(ctx: Any, result: Tensor, *given: Tensor) -> Tensor:
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
