"""Gradient clipping by norm and by value: the functions of ``netcl.autograd.clipping``."""

from __future__ import annotations

from netcl.autograd.clipping import clip_grad_norm, clip_grad_norm_device, clip_grad_value, clipping

__all__ = ["clip_grad_norm", "clip_grad_norm_device", "clip_grad_value", "clipping"]
