"""Counts by use the methods and properties of tensors in programs written for PyTorch, and the share that exists here.

    python checks/parity/methods_used.py FOLDER_OR_FILE...

A use is an attribute with the name of a member of torch.Tensor. Its receiver is not known to Python's parser, so that
uses are left out of which the receiver is an imported module, ``self`` or a class, a string, or a call of ``split``,
``index`` or ``values`` as strings, lists and dicts have it. The exit status is 1 if a member is missing that is
not among those that netcl does not have by design.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

import netcl.autograd  # noqa: F401  members that need gradients
from netcl.core import Tensor
from netcl.core.tensor.absent import ABSENT

NAMES = frozenset(name for name in dir(torch.Tensor) if not name.startswith("_"))
# Members of other objects of these programs too: dicts, lists, queues, files, configurations, enumerations.
_OTHERS = frozenset(("index", "values", "indices", "name", "names", "put", "layout", "new"))


def _modules(tree: ast.AST) -> frozenset[str]:
    """The names that are bound by imports and by classes."""
    found = {"self", "cls", "super"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
    return frozenset(found)


def _is_module(node: ast.expr, modules: frozenset[str]) -> bool:
    """True for ``torch``, ``torch.nn.functional``, ``self`` and the like."""
    while isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        node = node.value
    return isinstance(node, ast.Name) and node.id in modules


def uses(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The name and the line of each use in a program."""
    modules = _modules(tree)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in NAMES or node.attr in _OTHERS:
            continue
        receiver = node.value
        if isinstance(receiver, (ast.Constant, ast.JoinedStr)) or _is_module(receiver, modules):
            continue
        call = calls.get(id(node))
        if call is None and callable(getattr(torch.Tensor, node.attr)):
            continue  # a method that is not called: a field of another object
        if node.attr == "split" and call is not None:
            first = call.args[0] if call.args else None
            if first is None or (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                continue  # str.split
        yield node.attr, node.lineno


def files(paths: list[str]) -> Iterator[Path]:
    """The Python files under ``paths``."""
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def main(paths: list[str]) -> int:
    """Prints the share, and each missing member with its first use."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for file in files(paths):
        for name, line in uses(ast.parse(file.read_text(encoding="utf-8"))):
            counts[name] += 1
            first.setdefault(name, f"{file}:{line}")
    missing = {name: count for name, count in counts.items() if not hasattr(Tensor, name)}
    total = sum(counts.values())
    print(f"{total} uses of {len(counts)} members; {total - sum(missing.values())} exist: ", end="")
    print(f"{100 * (1 - sum(missing.values()) / max(total, 1)):.2f} % by use")
    for name, count in sorted(missing.items(), key=lambda item: -item[1]):
        print(f"{count:5d} {name}  {first[name]}  {ABSENT.get(name, 'missing')}")
    return int(any(name not in ABSENT for name in missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
