"""The text of a tensor as PyTorch prints it, for programs written for PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from netcl.autograd import Parameter
from netcl.core import Tensor, dtypes

Array = np.ndarray[Any, Any]

# Beyond these limits, and above a ratio of the largest to the least of 1000, numbers have exponents.
_LARGE, _SMALL, _RATIO = 1e8, 1e-4, 1e3


@dataclass(frozen=True)
class Options:
    """``precision``: digits after the point; above ``threshold`` elements only ``edgeitems`` at each end of an axis are
    shown, in lines of ``linewidth`` characters; ``sci_mode``: numbers with or without exponents, None for a choice by
    size.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


def text_of_tensor(x: Tensor) -> str:
    """Returns the ``repr`` of a tensor."""
    from netcl.core.tensor import printing

    made = x.grad_fn
    device = [] if x.is_cpu else [f"device='{x.device}'"]
    flags = [f"grad_fn={name_of_node(made)}"] if made is not None else ["requires_grad=True"] * x.requires_grad
    before = "Parameter containing:\n" if isinstance(x, Parameter) else ""
    if x.is_meta:
        dtype = [] if x.dtype == dtypes.get_default_dtype() else [f"dtype={x.dtype!r}"]
        return f"{before}{_name(x)}({', '.join(['...', *device, f'size={tuple(x.shape)}', *dtype, *flags])})"
    return before + text_of(x.to_host(), x.dtype, device, Options(**printing.options()), flags, _name(x))


def _name(x: Tensor) -> str:
    """The name in front of a tensor's values: of a class of the program its own."""
    return "tensor" if type(x).__module__.partition(".")[0] in ("netcl", "torch") else type(x).__name__


def name_of_node(grad_fn: Any) -> str:
    """The text of a ``grad_fn`` as PyTorch writes it: ``<MulBackward0>``, of a function its name."""
    named = getattr(grad_fn, "name", None)
    if callable(named):
        return f"<{named()}>"
    text = repr(grad_fn)
    text = f"<{grad_fn.__name__}>" if hasattr(grad_fn, "__name__") else text if text[:1] == "<" else f"<{text}>"
    return f"{text.removesuffix('>')}0>"


def text_of(
    values: Array, dtype: str, before: Sequence[str], options: Options, after: Sequence[str] = (), name: str = "tensor"
) -> str:
    """Returns ``tensor(...)``: the values, the parts ``before``, the dtype if it is not the one that PyTorch gives such
    numbers, and the parts ``after``.
    """
    indent = len(name) + 1
    more = list(before)
    if not values.size:
        body = "[]"
        if values.ndim != 1:
            more.append(f"size={tuple(values.shape)}")
        if dtype != dtypes.get_default_dtype():
            more.append(f"dtype=torch.{dtypes.canonical(dtype)}")
    else:
        body = _body(values, indent, options)
        if dtype not in (dtypes.get_default_dtype(), "int64", "bool"):
            more.append(f"dtype=torch.{dtypes.canonical(dtype)}")
    more += after
    line = len(body) - body.rfind("\n") + 1
    text = f"{name}({body}"
    for part in more:
        if line + len(part) + 2 > options.linewidth:
            text += ",\n" + " " * indent + part
            line = indent + len(part)
        else:
            text += f", {part}"
            line += len(part) + 2
    return f"{text})"


def _body(values: Array, indent: int, options: Options) -> str:
    is_long = values.size > options.threshold
    shown = _shortened(values, options.edgeitems) if is_long else values
    return _nested(values, indent, _formatter(shown, options), is_long, options)


def _shortened(values: Array, edge: int) -> Array:
    """The elements of which the text shows the values."""
    for axis, length in enumerate(values.shape):
        if length > 2 * edge:
            values = np.take(values, [*range(edge), *range(length - edge, length)], axis)
    return values


def _formatter(values: Array, options: Options) -> Callable[[Any], str]:
    """Returns the function that writes one element, of the width of the longest."""
    flat = values.reshape(-1)
    if flat.dtype.kind != "f":
        width = max(len(str(value)) for value in flat.tolist())
        return lambda value: f"{value!s:>{width}}"
    numbers = flat.astype(np.float64)
    numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
    if not numbers.size:
        return lambda value: "0." if math.isfinite(value) else str(value)
    sizes = np.abs(numbers)
    least, most = float(sizes.min()), float(sizes.max())
    is_whole = bool((numbers == np.ceil(numbers)).all())
    scientific = most / least > _RATIO or most > _LARGE or (not is_whole and least < _SMALL)
    if options.sci_mode is not None:
        scientific = options.sci_mode
    if scientific:
        style = f".{options.precision}e"
    elif is_whole:
        style = ".0f"
    else:
        style = f".{options.precision}f"
    dot = "." if is_whole and not scientific else ""

    def written(value: float) -> str:
        return f"{value:{style}}{dot if math.isfinite(value) else ''}"

    width = max(len(written(value)) for value in numbers.tolist())
    return lambda value: f"{written(value):>{width}}"


def _nested(values: Array, indent: int, write: Callable[[Any], str], is_long: bool, options: Options) -> str:
    if values.ndim == 0:
        return write(values.tolist())
    edge = options.edgeitems
    if values.ndim == 1:
        return _vector(values, indent, write, is_long, options)
    length = len(values)
    rows: list[str]
    if is_long and length > 2 * edge:
        rows = [_nested(values[i], indent + 1, write, is_long, options) for i in range(edge)]
        rows.append("...")
        rows += [_nested(values[i], indent + 1, write, is_long, options) for i in range(length - edge, length)]
    else:
        rows = [_nested(row, indent + 1, write, is_long, options) for row in values]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def _vector(values: Array, indent: int, write: Callable[[Any], str], is_long: bool, options: Options) -> str:
    edge, numbers = options.edgeitems, values.tolist()
    if is_long and len(numbers) > 2 * edge:
        words = [*map(write, numbers[:edge]), " ...", *map(write, numbers[-edge:])]
    else:
        words = [*map(write, numbers)]
    width = len(write(numbers[0])) + 2 if numbers else 2
    count = max(1, (options.linewidth - indent) // width)
    lines = [", ".join(words[at : at + count]) for at in range(0, len(words), count)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def offer() -> None:
    """Gives netcl-core the text of tensors for ``use_pytorch_names``; another core may have its own texts."""
    naming = getattr(import_module("netcl.core.process"), "naming", None)
    if naming is not None:
        naming.text_of_tensor = text_of_tensor
        naming.subclassed = _subclassed


def _subclassed(cls: type[Any]) -> None:
    """Gives a class of tensors that a program defines PyTorch's ``__torch_function__``."""
    if not cls.__module__.startswith("netcl."):
        import_module("netcl.torch.parts.overrides").subclassed(cls)
