"""Reads the parameters of a kernel from its source, to check and convert arguments before the launch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from netcl.core.expr.kernel_source import Role

_SCALARS: dict[str, type[np.generic]] = {
    "char": np.int8,
    "uchar": np.uint8,
    "unsigned char": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "unsigned short": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "unsigned": np.uint32,
    "unsigned int": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "unsigned long": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
}
# The C type of a tensor's dtype in a buffer, as dtypes.c_type names it; byte pointers and void accept every dtype.
_ANY_DTYPE = frozenset({"void", "char", "uchar", "unsigned char"})
_QUALIFIERS = re.compile(
    r"\b(const|restrict|volatile|__?(global|local|constant|private|restrict))\b|\b(global|local|constant|private)\b"
)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter: ``text`` as declared, its ``base`` type without qualifiers. ``space`` is global, local or
    constant for a pointer, empty for a value; ``writes``: the kernel may write to it.
    """

    text: str
    name: str
    base: str
    space: str
    writes: bool

    @property
    def role(self) -> Role:
        """The access of the kernel to the argument."""
        if self.space in ("", "local"):
            return Role.LOCAL if self.space else Role.SCALAR
        return Role.WRITE if self.writes else Role.READ

    @property
    def scalar(self) -> type[np.generic] | None:
        """The NumPy type of a value; None for pointers and for types that are not OpenCL's scalars."""
        return None if self.space else _SCALARS.get(self.base)

    def takes(self, c_type: str) -> bool:
        """True if a pointer parameter accepts a tensor with elements of that C type."""
        base = re.sub(r"\d+$", "", self.base)  # float4* is a float buffer
        return base in _ANY_DTYPE or base not in _SCALARS or _SCALARS[base] is _SCALARS.get(c_type)


def parameters_of(source: str, kernel_name: str) -> tuple[Parameter, ...] | None:
    """Returns the parameters of ``__kernel void kernel_name(...)``, or None if macros make that text."""
    text = _COMMENTS.sub(" ", source)
    match = re.search(rf"\b(?:__)?kernel\b[^;{{}}]*?\bvoid\b[^;{{}}()]*?\b{re.escape(kernel_name)}\s*\(([^)]*)\)", text)
    if match is None:
        return None
    inside = match[1].strip()
    if inside in ("", "void"):
        return ()
    return tuple(_parameter(" ".join(part.split())) for part in inside.split(","))


def _parameter(text: str) -> Parameter:
    space = next((name for name in ("global", "local", "constant") if re.search(rf"\b(__)?{name}\b", text)), "")
    pointee = text.partition("*")[0] if "*" in text else text
    words = _QUALIFIERS.sub(" ", text.replace("*", " ")).split()
    name = words[-1] if words else ""
    writes = space == "global" and not re.search(r"\bconst\b", pointee)
    return Parameter(text, name, " ".join(words[:-1]), space if "*" in text else "", writes)


def convert_scalar(parameter: Parameter, value: Any) -> Any:
    """Returns ``value`` as the NumPy scalar of the parameter; raises OverflowError or ValueError if it does not fit."""
    kind: Any = parameter.scalar
    if kind is None:
        return value
    if np.issubdtype(kind, np.integer):
        number = int(value)
        limits = np.iinfo(kind)
        if number != value or not limits.min <= number <= limits.max:
            raise ValueError(f"expected a number that fits {parameter.base}, got {value!r}")
        return kind(number)
    return kind(float(value))
