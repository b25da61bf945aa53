"""Batch normalization in evaluation, folded into the convolution or linear layer before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn.module import Module

M = TypeVar("M", bound=Module)


def _fused(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    shape: tuple[int, ...],
) -> tuple[ag.Parameter, ag.Parameter]:
    with ag.no_grad():
        factor = ag.div(1.0, ag.sqrt(ag.add(var, eps)))
        factor = factor if scale is None else ag.mul(factor, scale)
        new = ag.mul(weight, ag.reshape(factor, shape))
        moved = ag.mul(ag.neg(mean) if bias is None else ag.sub(bias, mean), factor)
        moved = moved if shift is None else ag.add(moved, shift)
        return tuple(_parameter(value, weight) for value in (new, moved))  # type: ignore[return-value]


def _parameter(value: Tensor, like: Tensor) -> ag.Parameter:
    kept = Tensor.empty(value.shape, like.dtype, queue=like.queue, persistent=True).write(value.detach())
    return ag.Parameter(kept, like.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[ag.Parameter, ag.Parameter]:
    """Returns weight and bias of a convolution followed by batch normalization with these running statistics."""
    shape = (1, -1) if transpose else (-1, 1)
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (*shape, *(1,) * (conv_w.ndim - 2)))


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[ag.Parameter, ag.Parameter]:
    """Returns weight and bias of a linear layer followed by batch normalization with these running statistics."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _copied(layer: M, norm: Any, fuse: Any, *options: Any) -> M:
    if layer.training or norm.training:
        raise RuntimeError("fusion takes layers in evaluation: call eval() on both first")
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("fusion takes a normalization with running statistics")
    fused = copy.deepcopy(layer)
    statistics = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    fused.weight, fused.bias = fuse(layer.weight, layer.bias, *statistics, *options)
    return fused


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """Returns a copy of the convolution that computes it followed by the normalization, both in evaluation."""
    return _copied(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """Returns a copy of the linear layer that computes it followed by the normalization, both in evaluation."""
    return _copied(linear, bn, fuse_linear_bn_weights)
