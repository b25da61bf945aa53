"""Gradient clipping with the arguments and results of PyTorch's functions."""

from __future__ import annotations

from collections.abc import Iterable

import netcl.autograd as ag
from netcl.autograd import clipping
from netcl.autograd.prediction import changes_gradients
from netcl.core import Tensor
from netcl.core.errors import NonFiniteError


def _given(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Returns the norm of the tensors as one vector, 0-d. With ``error_if_nonfinite`` it is read on the host, and
    NonFiniteError is raised if it is NaN or infinite. ``foreach`` is accepted: one launch reads all tensors.
    """
    present = _given(tensors)
    if not present:
        return Tensor.zeros(())
    norm, _ = clipping.norm_and_factor(present, float("inf"), float(norm_type))
    _check(norm, error_if_nonfinite)
    return norm


def _check(norm: Tensor, error_if_nonfinite: bool) -> None:
    if error_if_nonfinite:
        value = float(norm.item())
        if not value - value == 0.0:
            raise NonFiniteError(f"the norm of the gradients is {value}", op="clip_grad_norm_")


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients, in place, so that their norm as one vector is at most ``max_norm``; returns the norm before
    as a 0-d tensor, without a host read unless ``error_if_nonfinite``.
    """
    tensors = _given(parameters)
    if not error_if_nonfinite:
        return clipping.clip_grad_norm_device(tensors, float(max_norm), float(norm_type))
    with_grads = [p for p in tensors if p.grad is not None]
    norm, factor = clipping.clipping(with_grads, float(max_norm), float(norm_type))
    _check(norm, error_if_nonfinite)
    if factor is not None:
        clipping.scale([p.grad for p in with_grads if p.grad is not None], factor)
    return norm


clip_grad_norm = clip_grad_norm_


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiplies the gradients, in place, by min(1, max_norm / (total_norm + 1e-6))."""
    _scaled(_given(parameters), max_norm, total_norm)


@changes_gradients
def _scaled(parameters: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    grads = [p.grad for p in parameters if p.grad is not None]
    if grads:
        clipping.scale(grads, ag.minimum(ag.div(float(max_norm), ag.add(total_norm.detach(), 1e-6)), 1.0))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limits every element of the gradients, in place, to [-clip_value, clip_value]."""
    clipping.clip_grad_value(_given(parameters), float(clip_value))
