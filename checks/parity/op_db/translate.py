"""Samples, functions and constants of PyTorch as netcl's, and results back."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import OpInfo

import netcl.torch as ours


class Skip(Exception):
    """Raised for a sample that no task of netcl covers: complex, sparse, quantized or nested tensors."""


class Missing(Exception):
    """Raised for a name that netcl.torch lacks."""


def at(root: Any, path: str) -> Any:
    """The attribute of ``root`` at a dotted path; raises Missing if it is absent."""
    for part in path.split("."):
        try:
            root = getattr(root, part)
        except AttributeError:
            raise Missing(path) from None
    return root


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_covered(x: torch.Tensor) -> bool:
    plain = x.layout == torch.strided and not x.is_quantized and not x.is_nested
    return plain and not x.dtype.is_complex and x.device.type == "cpu"


def tensor(x: torch.Tensor) -> Any:
    """A leaf of netcl with the values and dtype of ``x``; requires a gradient if ``x`` does."""
    if not is_covered(x):
        raise Skip
    name = name_of(x.dtype)
    if not hasattr(ours, name):
        raise Skip
    x = x.resolve_neg()
    wide = x.detach().float() if name == "bfloat16" else x.detach()
    made = ours.tensor(np.ascontiguousarray(wide.numpy()).reshape(x.shape), dtype=getattr(ours, name))
    return made.requires_grad_() if x.requires_grad else made


def back(x: Any) -> Any:
    """A result of netcl with PyTorch's tensors and dtypes in place of netcl's."""
    if isinstance(x, ours.Tensor):
        name = str(x.dtype).removeprefix("torch.")
        wide = x.detach().float() if name == "bfloat16" else x.detach()
        return torch.from_numpy(np.array(wide.numpy())).to(getattr(torch, name)).reshape(tuple(x.shape))
    if isinstance(x, ours.Size):
        return torch.Size(x)
    if isinstance(x, (tuple, list)):
        return [back(part) for part in x]
    if isinstance(x, dict):
        return {key: back(part) for key, part in x.items()}
    return getattr(torch, str(x).removeprefix("torch.")) if isinstance(x, type(ours.float32)) else x


def value(x: Any) -> Any:
    """``x`` with netcl's tensors, dtypes, functions and constants in place of PyTorch's."""
    if isinstance(x, torch.Tensor):
        return tensor(x)
    if isinstance(x, torch.dtype):
        if not hasattr(ours, name_of(x)):
            raise Skip
        return getattr(ours, name_of(x))
    if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
        return None
    if isinstance(x, (torch.memory_format, torch.layout)):
        return at(ours, str(x).removeprefix("torch."))
    if isinstance(x, torch.Size):
        return ours.Size(x)
    if isinstance(x, torch.Generator):
        return ours.Generator().manual_seed(x.initial_seed())
    if isinstance(x, complex):
        raise Skip
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return tuple(map(value, x))
    if isinstance(x, (tuple, list)):
        return type(x)(map(value, x))
    if isinstance(x, dict):
        return {key: value(part) for key, part in x.items()}
    if isinstance(x, torch.nn.Module):
        return at(ours.nn, type(x).__name__)()
    if callable(x) and not isinstance(x, (type, OpInfo)):
        return function(x)
    return x


def function(x: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """The function of the same name in netcl.torch, or a function of PyTorch's tests that reads netcl.torch as torch.

    ``name`` is that of the sample's operator, which builtin functions do not know.
    """
    if isinstance(x, functools.partial):
        return functools.partial(function(x.func), *value(x.args), **value(x.keywords))
    module = getattr(x, "__module__", None) or ""
    if isinstance(x, types.FunctionType) and module.startswith("torch.testing"):
        return _rebound(x)
    if hasattr(x, "__objclass__") or getattr(x, "__qualname__", "").startswith(("Tensor.", "TensorBase.")):
        method = x.__name__
        if not hasattr(ours.Tensor, method):
            raise Missing(f"Tensor.{method}")
        return lambda self, *args, **kwargs: getattr(self, method)(*args, **kwargs)
    if module in ("operator", "_operator", "builtins", "math"):
        return x
    if name is not None:
        try:
            same = at(torch, name) is x
        except Missing:
            same = False
        if same:
            return at(ours, name)  # type: ignore[no-any-return]
    plain = getattr(x, "__name__", "")
    for path in (f"{module.removeprefix('torch').removeprefix('.')}.{plain}".removeprefix("."), plain):
        try:
            if at(torch, path) is x:
                return at(ours, path)  # type: ignore[no-any-return]
        except Missing as absent:
            if hasattr(torch, path.split(".")[0]) and plain in str(absent):
                raise
    raise Missing(f"{module}.{plain}")


_FUNCTIONS: dict[types.FunctionType, Callable[..., Any]] = {}


def _rebound(x: types.FunctionType) -> Callable[..., Any]:
    """A function of PyTorch's tests with the globals and cells of netcl."""
    if x.__name__ == "wrapper_set_seed":
        return _with_seed
    if x not in _FUNCTIONS:
        known = dict(x.__globals__)
        cells = None if x.__closure__ is None else tuple(types.CellType() for _ in x.__closure__)
        made = types.FunctionType(x.__code__, known, x.__name__, None, cells)
        _FUNCTIONS[x] = made
        for cell, kept in zip(cells or (), x.__closure__ or ()):
            cell.cell_contents = ours if kept.cell_contents is torch else value(kept.cell_contents)
        made.__defaults__ = value(x.__defaults__)
        made.__kwdefaults__ = value(x.__kwdefaults__)
        for name in _names(x.__code__):
            used = known.get(name)
            if used is torch:
                known[name] = ours
            elif isinstance(used, types.ModuleType) and used.__name__.startswith("torch."):
                known[name] = at(ours, used.__name__.removeprefix("torch."))
            elif isinstance(used, (types.FunctionType, torch.dtype)):
                known[name] = value(used)
    return _FUNCTIONS[x]


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _with_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    ours.manual_seed(42)
    return op(*args, **kwargs)
