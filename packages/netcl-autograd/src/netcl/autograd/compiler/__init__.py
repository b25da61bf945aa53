"""Compilation of functions: jit fusion, user-defined primitives, captured graphs and training steps."""

from __future__ import annotations

from netcl.autograd.compiler.jit import Jitted, jit_compile
from netcl.autograd.compiler.primitive import AutogradPrimitive, get_primitive, register_primitive
from netcl.autograd.compiler.torch_compile import compile

__all__ = ["AutogradPrimitive", "Jitted", "compile", "get_primitive", "jit_compile", "register_primitive"]
