"""Writes docs/reference/core-contract.md and the contract of netcl-conformance from the names, levels and docstrings.

    python tools/write_contract.py [--check]

``--check`` writes nothing and ends with 1 if a file is not as this would write it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any

from monorepo import OWNED, ROOT

from netcl.autograd.decompositions import NAMES
from netcl.core.dispatch import OpRow
from netcl.core.ops_table.table import SYNONYMS
from netcl.core.testing import CONTRACT, signature_of
from netcl.core.testing.conformance import resolve
from netcl.core.testing.contract_levels import BASIC, LEVELS, level_of
from netcl.core.testing.contract_meaning import CHAPTERS, MEANINGS

PAGE = ROOT / "docs/reference/core-contract.md"
DATA = ROOT / "alternatives/netcl-conformance/src/netcl_conformance/data/contract.json"

# The tests' own: a core needs none of it.
OWN = "netcl.core.testing"

HEAD = """# The contract of netcl-core

Written by `python tools/write_contract.py` from `netcl.core.testing.contract`, its levels and the docstrings.

The six packages above use the names below of netcl-core, and no others: no further attribute of these classes, no form
of an expression. A distribution named netcl-core that keeps them can take its place; `python -m netcl_conformance` (in
`alternatives/netcl-conformance`) checks it against values, gradients and these signatures. The names are in levels,
and a core declares the levels that it keeps:

```python
# netcl/core/contract.py
LEVELS = frozenset({{"tensor", "ops-basic", "ops-full", "gradient"}})
```

| Level | Names | | Without it |
|-|-|-|-|
{levels}

A name is given with its signature; a parameter after `*` is given by keyword. `Tensor` in a signature of an op is a
tensor, of elementwise ops also a NumPy array or a number. Modules are the places from which the packages import a
name; a core may define it elsewhere. `netcl/__init__.py`, the lazy front, is netcl-core's own file, which an
alternative copies. `netcl.core.testing` is no part of the contract. Names of the front come from modules of netcl-core
that the contract does not list (`netcl.core.tensor.factories`, `functions` and others); a core without such a module
lacks these names, which only `netcl.torch` and programs use.

A core need not write everything: `alternatives/netcl-core-kit` is a distribution that has what is equal in every core
(errors, configuration, dtypes, the op table and its hooks, expressions and their texts, methods of Tensor that are made
of rows, devices and selectors, and rows made of others), and its README says what a core tells it. Functions that may
be absent are added by netcl-autograd (level ops-full).
"""


def names() -> dict[str, str]:
    """The names of the contract with their signatures; nodes of expressions, whose metaclass hides them, with the
    parameters of ``__init__``.
    """
    found = {name: signature for name, signature in CONTRACT.items() if not name.startswith(OWN)}
    for name, signature in found.items():
        if signature == "(*args, **kwargs)":
            found[name] = signature_of(resolve(name).__init__)
    return found


def typed(found: Any, plain: str) -> str:
    """The signature with types; ``plain`` if it cannot be had."""
    row = getattr(found, "row", None)
    try:
        made = found.__init__ if isinstance(found, type) else found  # a metaclass hides the parameters of nodes
        signature = row.signature if isinstance(row, OpRow) else inspect.signature(made)
    except (TypeError, ValueError):
        return plain
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    parts, star = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star |= p.kind is p.VAR_POSITIONAL
        kind = "" if p.annotation is p.empty else str(p.annotation).strip("'").replace("Expr", "Tensor")
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f" = {p.default!r}" if kind else f"={p.default!r}"
        parts.append(f"{mark}{p.name}{': ' + kind if kind else ''}{default}")
    result = "" if signature.return_annotation is inspect.Signature.empty else str(signature.return_annotation)
    result = result.strip("'")
    return f"({', '.join(parts)})" + (f" -> {result}" if result and row is None else "")


def meaning(name: str, found: Any) -> str:
    """The docstring of an entry in one paragraph, or what ``MEANINGS`` says."""
    text = MEANINGS.get(name)
    if text is None:
        text = inspect.getdoc(found) or ""
    return " ".join(text.split())


def entry(name: str, signature: str, place: str) -> str:
    """One item of the list of a module or class."""
    found = resolve(name)
    short = name.removeprefix(f"{place}.")
    shown = typed(found, signature) if signature or isinstance(getattr(found, "row", None), OpRow) else ""
    row = getattr(found, "row", None)
    notes = ""
    if isinstance(row, OpRow) and place == "netcl.ops":
        made = "made of ops" if row.composite else "primitive"
        made += ", may be absent" if row.name in NAMES else ""
        notes = f" *{made}, amp {row.amp}{'' if row.dtypes == 'any' else f', {row.dtypes}'}.*"
    return f"* `{short}{shown}`{notes} {meaning(name, found)}"


def places(level: str) -> Iterator[tuple[str, list[str]]]:
    """The modules and classes of a level with their names."""
    found: dict[str, list[str]] = {}
    for name in names():
        if level_of(name) == level:
            found.setdefault(name.rpartition(".")[0], []).append(name)
    yield from found.items()


def page() -> str:
    """The document."""
    known = names()
    lines = []
    for level, what in LEVELS.items():
        count = sum(level_of(name) == level for name in known)
        lines.append(f"| [{level}](#{level}) | {count} | {what.meaning} | {what.without or '*required*'} |")
    parts = [HEAD.format(levels="\n".join(lines))]
    for level, what in LEVELS.items():
        parts.append(f"## {level}\n\n{what.meaning[0].upper()}{what.meaning[1:]}.\n\n{CHAPTERS[level].strip()}\n")
        if level == "ops-basic":
            spelled = ", ".join(f"`{name}` for {' or '.join(f'`{o}`' for o in own)}" for name, own in SYNONYMS.items())
            parts.append(f"**Spellings.** Of the candidates the one that a row has: {spelled}.\n")
        for place, inside in places(level):
            parts.append(f"### {place}\n\n" + "\n".join(entry(name, known[name], place) for name in inside) + "\n")
    return "\n".join(parts)


def data() -> str:
    """The contract as netcl-conformance reads it."""
    importlib.import_module("netcl.ops")
    content = {
        "levels": {name: {"meaning": level.meaning, "without": level.without} for name, level in LEVELS.items()},
        "basic": list(BASIC),
        "decomposed": [f"netcl.ops.{name}" for name in sorted(NAMES)],
        "packages": OWNED,
        "names": {name: [level_of(name), signature] for name, signature in names().items()},
    }
    return json.dumps(content, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Writes or checks both files."""
    wanted = {PAGE: page(), DATA: data()}
    if "--check" in arguments:
        stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run python tools/write_contract.py")
        return int(bool(stale))
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
