"""Writes the types of what the op table makes: methods of tensors, the functions of ``netcl``, ``netcl.ops``,
``netcl.autograd``, ``netcl.linalg`` and ``netcl.special``, as ``.pyi`` files.

    python tools/write_stubs.py [--package netcl-core]

The build of a package from a checkout runs this (``hatch_build.py``); git does not have the files. After a change of an
op, run it for the editor and the type checkers.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = Path(__file__).resolve().parent.parent / "packages"
sys.path[:0] = [str(PACKAGES / name / "src") for name in ("netcl-core", "netcl-autograd")]

import netcl  # noqa: E402
import netcl.linalg  # noqa: E402
import netcl.ops  # noqa: E402
import netcl.special  # noqa: E402
from netcl.core.dtypes import OBJECTS  # noqa: E402
from netcl.core.ops_table.table import TABLE, OpRow, row_of  # noqa: E402
from netcl.core.tensor import methods  # noqa: E402
from netcl.ops.signatures import annotations_of  # noqa: E402

_IMPORTS = """
from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from netcl.core import Tensor
from netcl.ops.ranked import Ranked
from netcl.ops.signatures import Axis, Ints, Operand
"""
_METHODS = '''"""The types of the methods of tensors; written by tools/write_stubs.py."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, overload

from typing_extensions import Self

from netcl.core.tensor import Tensor, memory_format
from netcl.core.tensor.operators import Operators, ResultT
from netcl.core.tensor.sparse import SparseTensor
from netcl.ops.ranked import Ranked
from netcl.ops.signatures import Axis, Ints, Operand

ROWS: dict[str, str]
IN_PLACE: list[str]
NEVER: tuple[str, ...]
RESTRUCTURING: tuple[str, ...]
FUNCTIONS: dict[str, Callable[..., Any]]

def describe() -> None:
    """Gives methods the signatures and docstrings of their rows."""

def extended(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of a row, or one that also takes the arguments of the method of the same name."""

def with_zero_gradient(value: Any, *operands: Any) -> Any:
    """Returns ``value``, a constant of the operands, with a gradient of zero for each."""

class Methods(Operators[ResultT], Generic[ResultT]):
    """The methods of tensors."""

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
    def is_meta(self) -> builtins.bool: ...
    @property
    def is_cpu(self) -> builtins.bool: ...
    @property
    def is_sparse(self) -> builtins.bool: ...
    @property
    def layout(self) -> memory_format.layout: ...
    @property
    def itemsize(self) -> builtins.int: ...
    @property
    def is_leaf(self) -> builtins.bool: ...
'''
_KNOWN = {
    "Self",
    *("int", "float", "bool", "str", "None", "Any", "Sequence", "Mapping", "Callable", "list", "tuple", "dict"),
    *("Tensor", "SparseTensor", "Ranked", "Axis", "Ints", "Operand", "Literal", "True", "False"),
}
_NAME = re.compile(r"[A-Za-z_]\w*")
_HIDDEN = re.compile(r"(?<![\w.])(float|int|bool|type)\b")  # names that tensors give to methods and netcl to dtypes
# Other names of a parameter, which are accepted as keywords.
_SYNONYMS = (
    *(("axis", "dim"), ("axes", "dims"), ("keepdims", "keepdim"), ("padding", "pad")),
    *(("correction", "unbiased"), ("correction", "ddof")),
)
# Ops with a second result on demand: the parameter that demands it.
_FLAGS = {
    **{f"{kind}{n}d": ("return_indices",) for kind in ("max_pool", "adaptive_max_pool") for n in (1, 2, 3)},
    "dropout": ("return_mask",), "nonzero": ("as_tuple",), "unique": ("return_inverse", "return_counts"),
    "unique_consecutive": ("return_inverse", "return_counts"),
}  # fmt: skip
_RANKED = ("max", "min", "median")  # a value, or along an axis values and indices
# Functions over tensors that are no rows, with another result than one tensor.
_OTHERS = {
    "type": "Any",
    "svd": "tuple[Tensor, Tensor, Tensor]",
    "nanmedian": "Any",
    "unique": "Tensor | tuple[Tensor, ...]",
    **dict.fromkeys(("to_sparse", "to_sparse_coo", "to_sparse_csr", "sparse_mask"), "SparseTensor"),
}


class Parameter(NamedTuple):
    name: str
    kind: Any
    annotation: str
    default: str | None

    @property
    def text(self) -> str:
        star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(self.kind, "")
        default = "" if self.default is None else f" = {self.default}"
        return f"{star}{self.name}: {_unhidden(self.annotation)}{default}"


def _unhidden(annotation: str) -> str:
    return _HIDDEN.sub(r"builtins.\1", annotation)


def _known(annotation: str) -> str:
    return annotation if set(_NAME.findall(annotation)) <= _KNOWN else "Any"


def _parameters(signature: inspect.Signature, annotations: dict[str, str]) -> list[Parameter]:
    return [
        Parameter(name, p.kind, _known(annotations[name]), None if p.default is p.empty else repr(p.default))
        for name, p in signature.parameters.items()
    ]


def _keywords(parameters: Iterable[Parameter]) -> list[Parameter]:
    return [p._replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]


def _from(parameters: list[Parameter], name: str, change: Parameter) -> list[Parameter]:
    """Returns the parameters with another one at ``name``; from there on all are given by keyword."""
    at = [p.name for p in parameters].index(name)
    return parameters[:at] + _keywords([change, *parameters[at + 1 :]])


def _forms(name: str, parameters: list[Parameter], result: str) -> Iterator[tuple[list[Parameter], str]]:
    """Yields the overloads of an op: parameters and result."""
    known = {p.name: p for p in parameters}
    if name in _RANKED:
        axis = known["axis"]
        at = [p.name for p in parameters].index("axis")
        for annotation, default, gives in (
            ("None", "None", "Tensor"),
            ("int", None, "Ranked"),
            *([("Tensor", None, "Tensor")] if name != "median" else []),
        ):
            changed = axis._replace(annotation=annotation, default=default)
            yield [*parameters[:at], changed, *parameters[at + 1 :]], gives
        yield _from(parameters, "axis", Parameter("dim", None, "int", None)), "Ranked"
        return
    if name in _FLAGS:
        flags = _FLAGS[name]
        never = [p._replace(annotation="Literal[False]") if p.name in flags else p for p in parameters]
        yield never, "Tensor"
        several = result.split(" | ", 1)[1]
        for flag in flags:
            yield _from(parameters, flag, known[flag]._replace(annotation="Literal[True]", default=None)), several
        yield parameters, result
        return
    yield parameters, result
    for own, other in _SYNONYMS:
        if own in known and known[own].default is None and other not in known and parameters[0].name != own:
            yield _from(parameters, own, known[own]._replace(name=other)), result


def _completed(parameters: list[Parameter], more: Iterable[Parameter]) -> str:
    """Returns the text of a list of parameters, with the other names of parameters with a default, and ``more``."""
    known = {p.name: p for p in parameters}
    added = [
        Parameter(other, None, _optional(known[own].annotation), "None")
        for own, other in _SYNONYMS
        if own in known and other not in known and known[own].default is not None and known[own].annotation != "None"
    ]
    added += [p for p in more if p.name not in known]
    rest = [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    shown: list[str] = []
    starred = False
    for p in [*(p for p in parameters if p not in rest), *_keywords(added), *rest]:
        if p.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred |= p.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
        shown.append(p.text)
    return ", ".join(shown)


def _optional(annotation: str) -> str:
    return annotation if annotation in ("Any", "Axis") or annotation.endswith("None") else f"{annotation} | None"


def _first_sentences(doc: str | None, indent: str) -> str:
    text = " ".join((doc or "").split("\n\n")[0].split()).replace("\\", "\\\\").replace('"""', "'''")
    return f'\n{indent}    """{text}{" " if text.endswith(chr(34)) else ""}"""' if text else " ..."


def _definition(
    name: str,
    forms: list[tuple[list[Parameter], str]],
    doc: str | None,
    more: Iterable[Parameter] = (),
    indent: str = "",
) -> str:
    decorator = f"{indent}@overload\n" if len(forms) > 1 else ""
    body = _first_sentences(doc, indent)
    return "\n".join(
        f"{decorator}{indent}def {name}({_completed(parameters, more)}) -> {_unhidden(_known(result))}:{body}"
        for parameters, result in forms
    )


def _row_forms(row: OpRow) -> list[tuple[list[Parameter], str]]:
    annotations, result = annotations_of(row)
    return list(_forms(row.name, _parameters(row.signature, annotations), result))


_OUT = (Parameter("out", None, "Tensor | None", "None"), Parameter("pool", None, "Any", "None"))
_TAPE = Parameter("tape", None, "Any", "None")


def _function(row: OpRow, name: str, *more: Parameter) -> str:
    return _definition(name, _row_forms(row), row.doc, (*_OUT, *more))


def _plain(function: Any, name: str) -> str:
    """Returns the definition of a function over tensors that is no row."""
    signature = inspect.signature(function)
    annotations = {key: str(p.annotation).strip("'") for key, p in signature.parameters.items()}
    parameters = _parameters(signature, annotations)
    first = parameters[0]._replace(annotation="Tensor")
    result = str(signature.return_annotation).strip("'")
    return _definition(name, [([first, *parameters[1:]], _OTHERS.get(name, _result(result)))], function.__doc__)


def _result(annotation: str) -> str:
    """Returns the result of a function over tensors: ``Any`` is a tensor there."""
    return re.sub(r"\bAny\b", "Tensor", _known(annotation)) if annotation != "Any" else "Tensor"


def _exported(names: Iterable[str]) -> str:
    return "\n\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n"


def _ops(packages: Any, about: str, *more: Parameter) -> str:
    """Returns the stub of a namespace of ops: rows are defined, other functions imported from their modules."""
    imported, defined = [], []
    for name in (*packages.__all__, *vars(packages).get("_OPTIONAL", ())):
        function = getattr(packages, name)
        row = getattr(function, "row", None)
        if row is None:
            imported.append(f"from {function.__module__} import {name} as {name}")
        else:
            defined.append(_function(row, name, *more))
    return f'"""{about}; written by tools/write_stubs.py."""\n' + "\n".join(
        [_IMPORTS + "\n".join(sorted(imported)) + _exported(packages.__all__), *defined, ""]
    )


def method_names() -> str:
    """Returns the module that lists the methods of rows, by their ``forms``."""
    rows = {name: row.name for row in TABLE.values() for name in row.names("x")}
    lists = {
        "ROWS": ("Methods of rows; after = the row's name if it is another.",
                 [name if name == row else f"{name}={row}" for name, row in rows.items()]),
        "IN_PLACE": ("Those with the form ``name_``.",
                     [name for row in TABLE.values() for name in row.names("x", written=True)]),
        "FRONT": ("Functions of the form ``name_``.",
                  [name for row in TABLE.values() for name in row.names("nc", written=True)]),
    }  # fmt: skip
    text = '''"""The methods that rows of the op table state by ``forms``; written by tools/write_stubs.py."""

from __future__ import annotations
'''
    for name, (about, words) in lists.items():
        filled = textwrap.fill(" ".join(sorted(words)), 120, break_long_words=False, break_on_hyphens=False)
        text += f'\n# {about}\n{name} = """\n{filled}\n"""\n'
    return text


def method_stub() -> str:
    """Returns the methods of tensors."""
    typed: dict[str, tuple[list[tuple[list[Parameter], str]], str | None]] = {}
    for name, row_name in methods.ROWS.items():
        row = TABLE[row_name]
        typed[name] = _row_forms(row), row.doc
    for name, function in methods._FUNCTIONS.items():
        signature = inspect.signature(function)
        annotations = {key: str(p.annotation).strip("'") for key, p in signature.parameters.items()}
        result = str(signature.return_annotation).strip("'")
        result = "Self" if name.endswith("_") else _OTHERS.get(name, _result(result))
        parameters = _parameters(signature, annotations)
        typed[name] = (
            list(_forms(name, parameters, result)) if name in _FLAGS else [(parameters, result)],
            function.__doc__,
        )
    for name, function_name in (("ndimension", "dim"), ("nelement", "numel")):
        typed[name] = typed[function_name]
    lines = [f"    @property\n    def {name}(self) -> builtins.bool: ..." for name in methods.NEVER]
    for name in sorted(typed):
        forms, doc = typed[name]
        lines.append(_method(name, forms, doc))
    for name in sorted(methods.IN_PLACE):
        forms, _ = typed[name]
        lines.append(_method(f"{name}_", [(forms[0][0], "Self"), *((p, "Self") for p, _ in forms[1:])], None))
    return _METHODS + "\n".join(lines) + "\n"


def _method(name: str, forms: list[tuple[list[Parameter], str]], doc: str | None) -> str:
    own = Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD, "", None)
    text = _definition(name, [([own, *p[1:]], result) for p, result in forms], doc, indent="    ")
    return re.sub(
        r"(?<=-> )(.*?)(?=:(?: \.\.\.)?$)",
        lambda match: re.sub(r"\bTensor\b", "ResultT", match[1]),
        text.replace("self: ,", "self,").replace("self: )", "self)").replace("-> Any", "-> Any"),
        flags=re.MULTILINE,
    )


def front_stub() -> str:
    """Returns the stub of ``import netcl as nc``: the names that the lazy front finds."""
    # An import in a stub exports a name only under the same name, and once.
    imports = _IMPORTS.replace("from netcl.core import Tensor\n", "")
    lines = ['"""The names of ``import netcl as nc``; written by tools/write_stubs.py."""', imports]
    taken = {*netcl._NAMES, *netcl._CONSTANTS, *netcl._SUBPACKAGES, *OBJECTS}
    own = {name: function for name, function in methods.FUNCTIONS.items() if name not in taken}
    taken |= {*own}
    lines += [f"from netcl import {name} as {name}" for name in sorted(netcl._SUBPACKAGES)]
    lines += ["from netcl.core.dtypes import DType"]
    lines += [f"from {module} import {name} as {name}" for name, module in sorted(netcl._NAMES.items())]
    extended = {name: more for name, more in methods._EXTENDED.items() if name not in taken}
    taken |= {*extended}
    lines += [f"from netcl.ops import {name} as {name}" for name in netcl.ops.__all__ if name not in taken]
    taken |= {*netcl.ops.__all__}
    others = {name: row for name, row in methods.ROWS.items() if name not in taken}
    lines += ["", *(f"{name}: DType" for name in OBJECTS)]
    lines += [f"{name}: {'None' if value is None else 'builtins.float'}" for name, value in netcl._CONSTANTS.items()]
    lines += [_function(TABLE[row], name) for name, row in others.items()]
    for name, more in extended.items():
        lines.append(_function(TABLE[name], name, Parameter(more, None, "Any", "None")))
    lines += [_plain(function, name) for name, function in own.items()]
    return "\n".join([*lines, ""])


def linalg_stub() -> str:
    """Returns the stub of ``netcl.linalg``."""
    defined = [
        _function(getattr(netcl.linalg, name).row, name) for name in netcl.linalg.__all__ if name != "LinAlgError"
    ]
    return '"""Linear algebra, recorded for gradients; written by tools/write_stubs.py."""\n' + "\n".join(
        [
            f"{_IMPORTS}from netcl.core.errors import SingularMatrixError as LinAlgError",
            _exported(netcl.linalg.__all__),
            *defined,
            "",
        ]
    )


def special_stub() -> str:
    """Returns the stub of ``netcl.special``."""
    defined = [_function(getattr(netcl.special, name).row, name) for name in netcl.special.__all__]
    return '"""Special functions, recorded for gradients; written by tools/write_stubs.py."""\n' + "\n".join(
        [_IMPORTS, _exported(netcl.special.__all__), *defined, ""]
    )


def core_stubs() -> dict[str, str]:
    """Returns the stubs of netcl-core: the path below ``src/netcl`` and the text."""
    row_of("add")  # loads the rows
    return {
        "core/tensor/methods.pyi": method_stub(),
        "core/tensor/method_names.py": method_names(),
        "__init__.pyi": front_stub(),
        "ops/__init__.pyi": _ops(netcl.ops, "The ops of netcl, forward only"),
        "linalg/__init__.pyi": linalg_stub(),
        "special/__init__.pyi": special_stub(),
    }


def autograd_stubs() -> dict[str, str]:
    """Returns the stub of netcl-autograd: its path below ``src/netcl`` and the text."""
    ops = import_module("netcl.autograd.ops")
    return {"autograd/ops/__init__.pyi": _ops(ops, "The differentiable ops and the losses", _TAPE)}


WRITERS = {"netcl-core": core_stubs, "netcl-autograd": autograd_stubs}


def write(package: str) -> None:
    """Writes the stubs of a package; a file that has the text stays as it is."""
    for place, text in WRITERS[package]().items():
        path = PACKAGES / package / "src/netcl" / place
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            new = path.with_suffix(f".{os.getpid()}")
            new.write_text(text, encoding="utf-8")
            new.replace(path)  # at once: several builds may run at a time


def main() -> None:
    """Writes the stubs of one package or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", choices=WRITERS, action="append", help="a package; by default each")
    for package in parser.parse_args().package or WRITERS:
        write(package)


if __name__ == "__main__":
    main()
