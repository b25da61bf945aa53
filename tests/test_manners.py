"""The rules for every source file that a program can check."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from monorepo import load_packages

SOURCES = [path for package in load_packages().values() for path in package.modules()]


def faults(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    role = (ast.get_docstring(tree) or "").split("\n\n")[0]
    if not role.endswith("."):
        yield "does not open with a sentence that says its role"
    if path.stem in ("utils", "util", "helpers", "misc", "common") or path.stem.endswith("_v2"):
        yield "has a name that does not say what is in it"
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc and ast.unparse(node.exc).startswith("NotImplementedError"):
            yield f"has a stub in line {node.lineno}"
        if isinstance(node, ast.ExceptHandler) and [type(statement) for statement in node.body] == [ast.Pass]:
            caught = ast.unparse(node.type) if node.type else "everything"
            if caught in ("Exception", "BaseException", "everything"):
                yield f"passes over {caught} in line {node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.as_posix().partition("/src/")[2])
def test_a_source_file_keeps_to_the_manners(path: Path) -> None:
    assert list(faults(path)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conv.py", "x = 1"),
        ("conv.py", '"""convolution"""'),
        ("utils.py", '"""Says something."""'),
        ("conv.py", '"""Says something."""\ndef f():\n    raise NotImplementedError'),
        ("conv.py", '"""Says something."""\ntry:\n    f()\nexcept Exception:\n    pass'),
    ],
)
def test_a_planted_fault_is_seen(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert len(list(faults(tmp_path / name))) == 1


def undocumented(module: str) -> Iterator[str]:
    """Yields the public functions, classes, methods and properties of a module that say nothing of themselves."""
    home = import_module(module)
    own = [
        name
        for name in vars(home)
        if not name.startswith("_") and getattr(vars(home)[name], "__module__", "") == module
    ]
    for name in getattr(home, "__all__", own):
        value = getattr(home, name)
        if callable(value) and not inspect.getdoc(value):
            yield name
        for inner, member in vars(value).items() if inspect.isclass(value) else ():
            tells = isinstance(member, property) or inspect.isfunction(getattr(member, "__func__", member))
            if tells and not inspect.getdoc(getattr(value, inner)) and not inner.startswith("_"):
                yield f"{name}.{inner}"


@pytest.mark.parametrize(
    "module",
    [
        *("netcl.core", "netcl.core.errors", "netcl.core.expr", "netcl.core.kernel_selector", "netcl.core.testing"),
        *("netcl.core.memory", "netcl.core.kernels.primitives", "netcl.ops"),
        *(f"netcl.runtime.{name}" for name in ("cache", "capture", "graph", "stream")),
        *(f"netcl.profiling.{name}" for name in ("autotuner", "report", "timing", "trace")),
    ],
)
def test_public_names_are_documented(module: str) -> None:
    assert list(undocumented(module)) == []
