"""Writes docs/reference/core-contract.md from the lists of netcl-conformance and the docstrings of netcl-core.

    python tools/write_contract.py [--check]

``--check`` writes nothing and ends with 1 if the file is not as this would write it.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from monorepo import ROOT

ALTERNATIVES = ROOT / "alternatives"
sys.path[:0] = [str(ALTERNATIVES / name / "src") for name in ("netcl-conformance", "netcl-core-kit")]

from netcl_conformance.contract import resolve  # noqa: E402
from netcl_conformance.lists.levels import LEVELS, level_of  # noqa: E402
from netcl_conformance.lists.meaning import CHAPTERS, MEANINGS  # noqa: E402
from netcl_conformance.lists.names import CONTRACT  # noqa: E402
from netcl_core_kit.decompositions import NAMES  # noqa: E402

import netcl.ops  # noqa: E402, F401 - gives Tensor its methods
from netcl.core.ops_table.dispatch import OpRow  # noqa: E402
from netcl.core.ops_table.table import SYNONYMS  # noqa: E402

PAGE = ROOT / "docs/reference/core-contract.md"

HEAD = """# The contract of netcl-core

Written by `python tools/write_contract.py` from `netcl_conformance.lists` and the docstrings of netcl-core.

The six packages above use the names below of netcl-core, and no others: no further attribute of these classes, no form
of an expression. A distribution named netcl-core that keeps them can take its place; `python -m netcl_conformance` (in
`alternatives/netcl-conformance`) checks it against values, gradients and these signatures. The names are in levels,
and a core declares the levels that it keeps:

```python
# netcl/core/process/contract.py
LEVELS = frozenset({{"tensor", "ops-basic", "ops-full", "gradient"}})
```

| Level | Names | | Without it |
|-|-|-|-|
{levels}

A name is given with its signature; a parameter after `*` is given by keyword. `Tensor` in a signature of an op is a
tensor, of elementwise ops also a NumPy array or a number. Modules are the places from which the packages import a
name; a core may define it elsewhere. `netcl/__init__.py`, the lazy front, and `netcl/siblings.py`, the check of
versions, are netcl-core's own files, which an alternative copies. `netcl.core.testing` is no part of the contract.
Names of the front come from modules of netcl-core that the contract does not list (`netcl.core.tensor.factories`,
`functions` and others); a core without such a module lacks these names, which only extensions and programs
use.

A core need not write everything: `alternatives/netcl-core-kit` is a distribution that has what is equal in every core
(errors, configuration, dtypes, the op table and its hooks, expressions and their texts, methods of Tensor that are made
of rows, devices and selectors, and rows made of others), and its README says what a core tells it. It also has
decompositions of functions of the level ops-full.
"""


def typed(value: Any, plain: str) -> str:
    """Returns the signature with types; ``plain`` if it cannot be had."""
    row = getattr(value, "row", None)
    try:
        made = value.__init__ if isinstance(value, type) else value  # a metaclass hides the parameters of nodes
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


def meaning(name: str, value: Any) -> str:
    """Returns the docstring of an entry in one paragraph, or what ``MEANINGS`` says."""
    text = MEANINGS.get(name)
    if text is None:
        text = inspect.getdoc(value) or ""
    return " ".join(text.split())


def entry(name: str, signature: str, place: str) -> str:
    """Returns one item of the list of a module or class."""
    value = resolve(name)
    short = name.removeprefix(f"{place}.")
    shown = typed(value, signature) if signature or isinstance(getattr(value, "row", None), OpRow) else ""
    row = getattr(value, "row", None)
    notes = ""
    if isinstance(row, OpRow) and place == "netcl.ops":
        made = "made of ops" if row.composite else "primitive"
        made += ", decomposed" if row.name in NAMES else ""
        notes = f" *{made}, amp {row.amp}{'' if row.dtypes == 'any' else f', {row.dtypes}'}.*"
    return wrapped(f"* `{short}{shown}`{notes} {meaning(name, value)}")


def wrapped(text: str) -> str:
    """Returns an item of a list in lines of at most 120 characters; code stays in one."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    lines = textwrap.fill(whole, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return lines.replace("\0", " ")


def places(level: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the modules and classes of a level with their names."""
    grouped: dict[str, list[str]] = {}
    for name in CONTRACT:
        if level_of(name) == level:
            grouped.setdefault(name.rpartition(".")[0], []).append(name)
    yield from grouped.items()


def page() -> str:
    """Returns the document."""
    lines = []
    for level, what in LEVELS.items():
        count = sum(level_of(name) == level for name in CONTRACT)
        lines.append(f"| [{level}](#{level}) | {count} | {what.meaning} | {what.without or '*required*'} |")
    parts = [HEAD.format(levels="\n".join(lines))]
    for level, what in LEVELS.items():
        parts.append(f"## {level}\n\n{what.meaning[0].upper()}{what.meaning[1:]}.\n\n{CHAPTERS[level].strip()}\n")
        if level == "ops-basic":
            spelled = ", ".join(f"`{name}` for {' or '.join(f'`{o}`' for o in own)}" for name, own in SYNONYMS.items())
            text = f"**Spellings.** Of the candidates the one that a row has: {spelled}."
            parts.append(wrapped(text).replace("\n  ", "\n") + "\n")
        for place, inside in places(level):
            parts.append(f"### {place}\n\n" + "\n".join(entry(name, CONTRACT[name], place) for name in inside) + "\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Writes or checks the page."""
    text = page()
    if "--check" in arguments:
        current = PAGE.read_text(encoding="utf-8") == text
        if not current:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run python tools/write_contract.py")
        return int(not current)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
