"""Writes ``netcl/core/tensor/methods.pyi``: the types of the methods of tensors, from their table and the op table.

    python tools/write_method_stubs.py [--check]

``--check`` writes nothing and fails if the file is not what would be written.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from netcl.core.ops_table.table import TABLE, row_of
from netcl.core.tensor import methods

STUB = Path(__file__).parent.parent / "packages/netcl-core/src/netcl/core/tensor/methods.pyi"
_HEAD = '''"""The types of the methods of tensors; written by tools/write_method_stubs.py."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Generic

from typing_extensions import Self

from netcl.core.tensor.operators import Operators, ResultT

SAME: str
ALIASES: dict[str, str]
IN_PLACE: str
NEVER: tuple[str, ...]
FUNCTIONS: dict[str, Callable[..., Any]]

def describe() -> None: ...

class Methods(Operators[ResultT], Generic[ResultT]):
    @property
    def T(self) -> ResultT: ...
    @property
    def mT(self) -> ResultT: ...
    @property
    def H(self) -> ResultT: ...
    @property
    def mH(self) -> ResultT: ...
    @property
    def real(self) -> Self: ...
    @property
    def is_cuda(self) -> builtins.bool: ...
    @property
    def is_cpu(self) -> builtins.bool: ...
    @property
    def is_sparse(self) -> builtins.bool: ...
    @property
    def itemsize(self) -> builtins.int: ...
    @property
    def is_leaf(self) -> builtins.bool: ...
'''
_PLAIN = {"int", "float", "bool", "str", "None", "Any", "Sequence", "Callable", "list", "tuple", "dict"}
_NAME = re.compile(r"[A-Za-z_]\w*")
_HIDDEN = re.compile(r"\b(float|int|bool|type)\b")  # names that the class gives to methods
_BUILTIN = r"builtins.\1"
_RESULTS = {
    "Tensor": "ResultT", "Expr": "ResultT", "Any": "ResultT", "tuple[Any, Any]": "tuple[ResultT, ResultT]",
    "tuple[Tensor, Tensor]": "tuple[ResultT, ResultT]", "tuple[Any, ...]": "tuple[ResultT, ...]",
    "tuple[Tensor, ...]": "tuple[ResultT, ...]", "int": "int", "bool": "bool", "str": "str",
}  # fmt: skip
# Methods of functions whose result is no tensor alone, or depends on their arguments.
_OTHERS = {"type": "Any", "nonzero": "Any", "unique": "Any"}


def _parameter(p: inspect.Parameter) -> str:
    annotation = str(p.annotation).strip("'")
    known = set(_NAME.findall(annotation)) <= _PLAIN and p.annotation is not inspect.Parameter.empty
    shown = _HIDDEN.sub(_BUILTIN, annotation) if known else "Any"
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")  # type: ignore[call-overload]
    default = f" = {p.default!r}" if p.default is not p.empty else ""
    return f"{star}{p.name}: {shown}{default}"


def _signature(name: str, signature: inspect.Signature, result: str) -> str:
    shown, starred = ["self"], False
    for p in list(signature.parameters.values())[1:]:
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred |= p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        shown.append(_parameter(p))
    return f"    def {name}({', '.join(shown)}) -> {_HIDDEN.sub(_BUILTIN, result)}: ..."


def _with_synonyms(signature: inspect.Signature) -> inspect.Signature:
    """The parameters with PyTorch's names of axes too."""
    parameters = list(signature.parameters.values())
    more = [
        inspect.Parameter(other, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
        for own, other in (("axis", "dim"), ("axes", "dims"), ("keepdims", "keepdim"))
        if own in signature.parameters and other not in signature.parameters
    ]
    # An axis that is required may be given as dim: it and the parameters after it have no default of their own.
    if more and any(p.default is p.empty for p in parameters[1:] if p.name in ("axis", "axes")):
        parameters = [
            p.replace(default=None, annotation="Any") if i and p.default is p.empty else p
            for i, p in enumerate(parameters)
        ]
    return signature.replace(parameters=[*parameters, *more])


def stub() -> str:
    """The text of the file."""
    row_of("add")  # loads the rows
    lines, found = [], {**{name: name for name in methods.SAME.split()}, **methods.ALIASES}
    typed: dict[str, tuple[inspect.Signature, str]] = {}
    for name, row_name in found.items():
        row = TABLE[row_name]
        function: Any = row.composite or row.call or row.expression
        annotated = str(getattr(function, "__annotations__", {}).get("return", "Tensor")).strip("'")
        typed[name] = _with_synonyms(row.signature), _OTHERS.get(name, _RESULTS.get(annotated, "Any"))
    for name, function in methods._FUNCTIONS.items():
        signature = inspect.signature(function)
        result = "Self" if name.endswith("_") else _RESULTS.get(str(signature.return_annotation), "Any")
        typed[name] = signature, _OTHERS.get(name, result)
    for name, function_name in (("ndimension", "dim"), ("nelement", "numel")):
        typed[name] = typed[function_name]
    never = [f"    @property\n    def {name}(self) -> builtins.bool: ..." for name in methods.NEVER]
    lines = [_signature(name, *typed[name]) for name in sorted(typed)]
    lines += [_signature(f"{name}_", typed[name][0], "Self") for name in methods.IN_PLACE.split()]
    return _HEAD + "\n".join([*never, *lines]) + "\n"


def main() -> int:
    """Writes the file, or with ``--check`` compares it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the file is out of date")
    options = parser.parse_args()
    text = stub()
    if not options.check:
        STUB.write_text(text, encoding="utf-8")
        return 0
    if STUB.read_text(encoding="utf-8") == text:
        return 0
    print("the types of the methods of tensors are out of date: run python tools/write_method_stubs.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
