"""Plain Python values, arrays and tensors as bytes, without pickle: a decoded value runs no code of its sender."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.distributed.reductions import Array

_PLAIN = (bool, int, float, str)
# Kinds of NumPy dtypes with numbers as bytes: bool, integers, floating and complex numbers.
_NUMBERS = "biufc"


def encode(value: Any, op: str) -> Array:
    """Returns the bytes of a value: None, bool, int, float, str, bytes, lists, tuples, dicts, NumPy arrays and scalars
    of numbers, and tensors (their values are read).

    The form is a header of JSON, its length in eight bytes first, and then the bytes of the arrays. Raises TypeError
    for any other value; ``op`` is named in the message.
    """
    blocks: list[bytes] = []
    text = json.dumps(_form(value, blocks, op), separators=(",", ":")).encode()
    return np.frombuffer(b"".join((len(text).to_bytes(8, "little"), text, *blocks)), np.uint8)


def _form(value: Any, blocks: list[bytes], op: str) -> Any:
    kind: type[Any] = type(value)
    if value is None or kind in _PLAIN:
        return value
    if kind in (list, tuple) or (isinstance(value, tuple) and kind.__name__ == "Size"):
        return ["list" if kind is list else "tuple", [_form(item, blocks, op) for item in value]]
    if kind in (dict, OrderedDict):
        pairs = [[_form(key, blocks, op), _form(item, blocks, op)] for key, item in dict(value).items()]
        return ["dict" if kind is dict else "ordered", pairs]
    if kind in (bytes, bytearray):
        blocks.append(bytes(value))
        return [kind.__name__, len(value)]
    if isinstance(value, Tensor):
        host = np.asarray(value.to_host(), order="C")
        blocks.append(host.tobytes())
        return ["tensor", list(host.shape), host.dtype.str, str(value.dtype), bool(value.requires_grad)]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _NUMBERS:
        blocks.append(value.tobytes())
        return ["array" if isinstance(value, np.ndarray) else "scalar", list(value.shape), value.dtype.str]
    raise TypeError(
        f"{op} sends None, bool, int, float, str, bytes, lists, tuples, dicts, arrays of numbers and tensors, not "
        f"{kind.__module__}.{kind.__qualname__}: no rank unpickles what another one has sent. Send the fields of the "
        "object in a dict"
    )


def decode(data: Array, queue: Any = None) -> Any:
    """Returns the value that ``encode`` was given; tensors are on ``queue``, None: on the active device."""
    raw = data.tobytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    at = end

    def take(count: int) -> bytes:
        nonlocal at
        at += count
        return raw[at - count : at]

    return _value(json.loads(raw[8:end]), take, queue)


def _value(form: Any, take: Callable[[int], bytes], queue: Any) -> Any:
    if not isinstance(form, list):
        return form
    kind, content = form[0], form[1]
    if kind in ("list", "tuple"):
        items = [_value(item, take, queue) for item in content]
        return items if kind == "list" else tuple(items)
    if kind in ("dict", "ordered"):
        pairs = [(_value(key, take, queue), _value(item, take, queue)) for key, item in content]
        return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    if kind in ("bytes", "bytearray"):
        taken = take(content)
        return taken if kind == "bytes" else bytearray(taken)
    dtype = np.dtype(form[2])
    count = int(np.prod(content, dtype=np.int64)) * dtype.itemsize
    values = np.frombuffer(take(count), dtype).reshape(content).copy()
    if kind == "scalar":
        return values[()]
    if kind == "array":
        return values
    made: Tensor = Tensor.from_host(values, form[3]) if queue is None else Tensor.from_host(queue, values, form[3])
    made.requires_grad = form[4]
    return made
