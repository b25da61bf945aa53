"""netcl.autograd: the gradient tape, differentiable ops and losses. Importing it installs the recorder."""

from __future__ import annotations

from typing import Any

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-autograd needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

with _Checked("autograd"):
    from netcl.autograd import ops as _ops
    from netcl.autograd.__about__ import __version__
    from netcl.autograd.backward import grad
    from netcl.autograd.checkpoint import checkpoint
    from netcl.autograd.compiler import AutogradPrimitive, get_primitive, jit_compile, register_primitive
    from netcl.autograd.function import Function, apply_op
    from netcl.autograd.gradcheck import gradcheck, gradgradcheck
    from netcl.autograd.mode import (
        detect_anomaly,
        enable_grad,
        inference_mode,
        is_grad_enabled,
        no_grad,
        set_detect_anomaly,
        set_grad_enabled,
    )
    from netcl.autograd.node import Methods as _Methods
    from netcl.autograd.node import Node, Parameter, tensor
    from netcl.autograd.ops import *  # noqa: F403
    from netcl.autograd.recorder import recorder as _recorder
    from netcl.autograd.tape import Tape, get_current_tape, set_current_tape
    from netcl.core.ops_table.dispatch import set_recorder as _set_recorder
    from netcl.core.storage.gradients import register as _register

_set_recorder(_recorder)
_register(_Methods())

__all__ = [
    "AutogradPrimitive",
    "Function",
    "Node",
    "Parameter",
    "Tape",
    "__version__",
    "apply_op",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "get_current_tape",
    "get_primitive",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "jit_compile",
    "no_grad",
    "register_primitive",
    "set_current_tape",
    "set_detect_anomaly",
    "set_grad_enabled",
    "tensor",
    *_ops.__all__,
]


def __getattr__(name: str) -> Any:
    """Returns the module ``functional`` at its first use, or a differentiable op registered after the import."""
    if name == "functional":
        from importlib import import_module

        return import_module("netcl.autograd.functional")
    return getattr(_ops, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
