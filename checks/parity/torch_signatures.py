"""The signatures of netcl against PyTorch's, name by name: parameters, order, defaults.

Every public name of netcl, netcl.nn, netcl.nn.functional, netcl.optim and Tensor that PyTorch has too is compared. Each
difference is listed in docs/reference/differences.md, between two marks; a difference that is not listed fails, and so
does a listed one that no longer exists. ``python checks/parity/torch_signatures.py`` writes the list.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import netcl as nc
import netcl.nn
import netcl.nn.functional
import netcl.optim
from netcl.core import Tensor
from netcl.core.ops_table.table import TABLE, names_of
from netcl.core.tensor.methods import ROWS

PAGE = Path(__file__).parents[2] / "docs/reference/differences.md"
BEGIN, END = "<!-- signatures -->", "<!-- end of signatures -->"

# Parameters of PyTorch that are not compared: the page says about all of them together what they are here.
NOT_COMPARED = frozenset(
    (
        *("out", "layout", "pin_memory", "memory_format", "names", "implicit"),
        *("size_average", "reduce", "min_value", "max_value"),
        *("foreach", "fused", "capturable", "differentiable"),
        *("sparse_grad", "sparse", "cudnn_enabled", "cudnn_enable", "enable_nested_tensor", "mask_check"),
        *("custom_encoder", "custom_decoder"),
    )
)
# Defaults that mean what None, or an empty sequence, means in PyTorch.
MEANS_NONE: dict[str, tuple[Any, ...]] = {
    "dtype": ("float32", "int64"), "indexing": ("ij",), "nan": (0.0,), "modules": ((),), "dim": ((),), "dims": ((),),
    "stride": ((),), "num_classes": (-1,), "value": (0.0,), "retain_graph": (False,),
    "align_corners": (False,),
}  # fmt: skip
# Names of which PyTorch's stubs say something else than its documentation, and what takes any arguments there.
LEFT_OUT = frozenset(
    (
        *("Tensor.requires_grad_", "Tensor.copy_", "Tensor.map_", "nc.from_numpy", "nc.tensor", "nc.cast"),
        *("nc.enable_grad", "nc.inference_mode", "nc.set_default_dtype", "nc.einsum"),
        *("nn.Parameter", "nn.Module", "nc.batch_norm", "nc.embedding", "nc.instance_norm", "nc.ctc_loss"),
    )
)
POSITIONAL, KEYWORD, REST = "positional", "keyword", "rest"
NONE = object()


class Parameter(NamedTuple):
    """A parameter: its name, ``positional``, ``keyword`` or ``rest`` (``*sizes``), and its default, NONE for none."""

    name: str
    kind: str
    default: Any = NONE


Signature = tuple[Parameter, ...]


# -- PyTorch's signatures ----------------------------------------------------------------------------------------------


def _stub(name: str) -> ast.Module:
    return ast.parse((Path(torch.__file__).parent / "_C" / name).read_text(encoding="utf-8"))


def _functions(body: list[ast.stmt]) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


_FUNCTIONS = _functions(_stub("_VariableFunctions.pyi").body)
_NN = _functions(_stub("_nn.pyi").body)
(_BASE,) = [node for node in _stub("__init__.pyi").body if isinstance(node, ast.ClassDef) and node.name == "TensorBase"]
_METHODS = _functions(_BASE.body)


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _parsed(node: ast.FunctionDef) -> Signature:
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [NONE] * (len(positional) - len(args.defaults)) + [_value(one) for one in args.defaults]
    found = [Parameter(arg.arg, POSITIONAL, default) for arg, default in zip(positional, defaults)]
    if args.vararg is not None:
        found.append(Parameter(args.vararg.arg, REST))
    for arg, default in zip(args.kwonlyargs, args.kw_defaults):
        found.append(Parameter(arg.arg, KEYWORD, NONE if default is None else _value(default)))
    return tuple(one for one in found if one.name != "self")


def _inspected(function: Any) -> Signature:
    found = []
    for p in inspect.signature(function).parameters.values():
        if p.name == "self" or p.kind is p.VAR_KEYWORD:  # what it takes is not known
            continue
        kind = REST if p.kind is p.VAR_POSITIONAL else KEYWORD if p.kind is p.KEYWORD_ONLY else POSITIONAL
        found.append(Parameter(p.name, kind, NONE if p.default is p.empty else p.default))
    return tuple(found)


def theirs(space: str, name: str) -> list[Signature]:
    """PyTorch's signatures of a name, one for each overload; none if it is no function or class."""
    home = {"Tensor": torch.Tensor, "nc": torch, "nn": torch.nn, "F": F, "optim": torch.optim}[space]
    value = getattr(home, name, None) or getattr(torch.optim.lr_scheduler, name, None)
    if not callable(value):
        return []
    if space in ("nn", "optim"):
        return [_inspected(value.__init__)] if inspect.isclass(value) else []
    stubs = {"Tensor": _METHODS, "nc": _FUNCTIONS, "F": {**_FUNCTIONS, **_NN}}[space]
    other = getattr(F, f"{name}_with_indices", None)  # F.max_pool2d itself is a dispatcher without parameters
    if space == "F" and other is not None:
        return [_inspected(other)]
    try:
        own = _inspected(value)
    except ValueError:
        own = None
    if own is not None and not all(p.kind == REST for p in own):
        return [own]
    return [_parsed(node) for node in stubs.get(name, ())] or ([] if own is None else [own])


# -- the comparison ----------------------------------------------------------------------------------------------------


def _same_default(name: str, a: Any, b: Any) -> bool:
    if a is NONE or b is NONE:
        return a is b
    if a is Ellipsis or b is Ellipsis:
        return True  # a stub that does not say it
    if callable(a) and not isinstance(a, type):
        a = a.__name__
    for one, other in ((a, b), (b, a)):
        if one is None and other in MEANS_NONE.get(name, ()):
            return True
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    simple = (str(a).replace("torch.", "").strip("()[] ,"), str(b).replace("torch.", "").strip("()[] ,"))
    return simple[0] == simple[1]


def _shown(value: Any) -> str:
    if inspect.ismodule(value):
        return value.__name__
    return "none" if value is NONE else repr(value).replace("torch.", "")


def differences(ours: Signature, theirs: Signature, known: dict[str, str]) -> list[str]:
    """What a call that is right for ``theirs`` does not find in ``ours``; ``known``: other names of our parameters."""
    found: list[str] = []
    left_out = (NOT_COMPARED - {"reduce"}) & {p.name for p in theirs}
    ours = tuple(p for p in ours if p.name not in left_out)
    wanted = [
        p
        for p in theirs
        if (p.name not in NOT_COMPARED or (p.name == "reduce" and p.default is NONE)) and not p.name.startswith("_")
    ]
    names = {p.name: at for at, p in enumerate(ours)}
    rest = next((p for p in ours if p.kind == REST), None)
    positional = [p for p in ours if p.kind == POSITIONAL]
    for at, p in enumerate(p for p in wanted if p.kind != KEYWORD):
        if p.kind == REST:
            if rest is None:
                found.append(f"no `*{p.name}`")
            continue
        here = positional[at] if at < len(positional) else None
        own = p.name if p.name in names else known.get(p.name)
        if own is None or own not in names:
            if rest is not None and here is None:
                continue  # one sequence, or one by one
            if (
                here is not None
                and here.name not in {q.name for q in wanted}
                and here.name not in _taken(wanted, known)
            ):
                found.append(f"`{p.name}` is `{here.name}`")
                found += _default(p, here)
            else:
                found.append(f"no `{p.name}`")
            continue
        mine = ours[names[own]]
        if mine.kind == KEYWORD and here is not None and here.name in (known.get(p.name), f"{p.name}s", "axis"):
            mine = here  # both spellings are parameters
        elif mine.kind == KEYWORD and p.name not in ("device", "dtype"):  # the page says so of all layers
            found.append(f"`{p.name}` by name only")
        elif here is not None and here.name != own and mine is not here:
            found.append(f"`{p.name}` at another position")
        found += _default(p, mine)
    for p in wanted:
        if p.kind == KEYWORD:
            own = p.name if p.name in names else known.get(p.name)
            if own is None or own not in names:
                found.append(f"no `{p.name}`")
            else:
                found += _default(p, ours[names[own]])
    given = {p.name for p in wanted} | _taken(wanted, known)
    replaced = {text.split("`")[3] for text in found if "` is `" in text}
    found += [
        f"`{p.name}` is required"
        for p in ours
        if p.default is NONE and p.kind != REST and p.name not in given | replaced
    ]
    return found


def _taken(wanted: list[Parameter], known: dict[str, str]) -> set[str]:
    return {known[p.name] for p in wanted if p.name in known}


def _default(theirs: Parameter, ours: Parameter) -> list[str]:
    if _same_default(theirs.name, theirs.default, ours.default) or (
        theirs.default is NONE and ours.default is not NONE
    ):
        return []
    return [f"`{theirs.name}={_shown(ours.default)}`, not {_shown(theirs.default)}"]


def names() -> Iterator[tuple[str, str, Any]]:
    """The public names of each namespace that PyTorch has too: (namespace, name, value)."""
    for space, home, theirs in (
        ("nc", nc, torch), ("nn", netcl.nn, torch.nn), ("F", netcl.nn.functional, F),
        ("optim", netcl.optim, torch.optim),
        ("optim", netcl.optim, torch.optim.lr_scheduler), ("Tensor", Tensor, torch.Tensor),
    ):  # fmt: skip
        for name in sorted(dir(theirs)):
            value = getattr(home, name, None)
            if not name.startswith("_") and callable(value) and f"{space}.{name}" not in LEFT_OUT:
                yield space, name, value


def compared() -> Iterator[tuple[str, str, list[str]]]:
    """(namespace, name, differences) of each name that both have; the overload of PyTorch that differs least."""
    for space, name, value in names():
        try:
            signature = _inspected(value.__init__ if inspect.isclass(value) else value)
        except ValueError:
            continue
        overloads = [each for each in theirs(space, name) if any(p.kind != REST for p in each)]
        if overloads:
            in_place = space == "nc" and name.endswith("_")
            plain = name.removesuffix("_") if space == "Tensor" or in_place else name
            known_row = TABLE.get(ROWS.get(plain, plain)) if space == "Tensor" or in_place else None
            row = getattr(value, "row", None) or known_row
            known = {"dim": "axis", "keepdim": "keepdims"} if row is None else names_of(row)
            yield space, name, min((differences(signature, each, known) for each in overloads), key=len)


def listing() -> str:
    """The rows of the page: one for each name with differences."""
    rows = {}
    for space, name, found in compared():
        if found:
            shown = f"`Tensor.{name}`" if space == "Tensor" else f"`{space}.{name}`"
            rows[shown] = "; ".join(dict.fromkeys(found))
    return "\n".join(f"| {name} | {text} |" for name, text in rows.items())


def listed() -> str:
    """The rows that the page has."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(BEGIN)[2].partition(END)[0].split("|-|-|")[-1].strip()


def test_each_difference_of_signatures_is_listed_and_each_listed_one_exists() -> None:
    here, page = set(listing().splitlines()), set(listed().splitlines())
    assert here - page == set(), "not listed"
    assert page - here == set(), "listed, but gone"


def test_many_names_are_compared() -> None:
    counts: dict[str, int] = {}
    for space, _, _ in compared():
        counts[space] = counts.get(space, 0) + 1
    assert counts["Tensor"] > 300
    assert counts["nc"] > 200
    assert counts["nn"] > 100
    assert counts["F"] > 90
    assert counts["optim"] > 20


def main() -> int:
    """Writes the list into the page."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    table = f"\n| name | difference from PyTorch |\n|-|-|\n{listing()}\n"
    PAGE.write_text(f"{head}{BEGIN}{table}{END}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
