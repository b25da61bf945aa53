"""Reads the sources and checks imports between packages, uses of pyopencl, and that OpenCL text stays in core."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from monorepo import ADDED, OWNED, OWNER, ROOT, Package, load_packages, requirement_name

# Modules with another name than the distribution that brings them.
DISTRIBUTION_OF = {
    "PIL": "pillow",
    "opt_einsum": "opt-einsum",
    "mlflow": "mlflow-skinny",
    "tensorboardX": "tensorboardx",
}
OPENCL_TEXT = re.compile(r"\b(__kernel|__global|__local|get_(global|local|group)_id|barrier\(CLK_)|#pragma\s+OPENCL")
# netcl.data needs NumPy alone; these two modules may import the extra `device`.
DEVICE_MODULES = (Path("data/augment_gpu.py"), Path("data/device_augment.py"))
# Modules of core that may load one of a layer above by its name, inside a function: the rows of the op table are in
# netcl.ops, what measures kernels is in netcl.profiling (docs/design/layers.md). Statements: tools/check_layers.py.
LOADED_BY_NAME = {
    Path("core/ops_table/table.py"): "netcl.ops",
    Path("core/tensor/tensor.py"): "netcl.array_api",
    Path("core/testing/conformance.py"): "netcl.ops",
    Path("core/testing/extremes.py"): "netcl.ops",
    Path("core/testing/special_values.py"): "netcl.ops",
    Path("core/tuning/measurements.py"): "netcl.profiling.autotuner",
}
# The files directly in netcl/, which every netcl-core has; each layer imports the check of versions.
FRONT, SIBLINGS = Path("__init__.py"), Path("siblings.py")
# A module for test suites, which nothing of netcl imports: pytest comes with the extra `test`.
PYTEST_MODULE = Path("core/testing/pytest_plugin.py")
# It takes the list of names from netcl-conformance, which comes from alternatives/, if that is installed.
CONTRACT_MODULE = Path("core/testing/conformance.py")
# `netcl bench` measures PyTorch if it is installed.
PEER_MODULE = Path("trainer/cli/peer.py")
# PyInstaller runs it while it freezes a program; nothing of netcl imports it.
PYINSTALLER_HOOK = Path("core/pyinstaller/hooks/hook-netcl.py")


@dataclass(frozen=True)
class Place:
    """The context of an import: a function, a `try` that catches its absence, or a block for type checkers only."""

    in_function: bool = False
    guarded: bool = False
    typing_only: bool = False


@dataclass(frozen=True)
class Import:
    """One imported module: its full name, its line and its place."""

    module: str
    line: int
    place: Place
    by_name: bool = False  # import_module("literal")


def imports_of(tree: ast.Module, package: str) -> Iterator[Import]:
    """Yields every import in `tree`, a module of `package`, with `import_module("literal")` and imports inside
    functions.
    """
    yield from _walk(tree, package, Place())


def _walk(node: ast.AST, package: str, place: Place) -> Iterator[Import]:
    for module in _imported(node, package):
        yield Import(module, getattr(node, "lineno", 0), place, isinstance(node, ast.Call))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        place = replace(place, in_function=True)
    for field, value in ast.iter_fields(node):
        inside = place
        if field == "body" and isinstance(node, ast.Try) and any(map(_catches_import_error, node.handlers)):
            inside = replace(place, guarded=True)
        if field == "body" and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            inside = replace(place, typing_only=True)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, package, inside)


def _imported(node: ast.AST, package: str) -> list[str]:
    """Returns the full names of what one statement or call imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parents, base]).rstrip(".")
        # `from netcl import nn` and `from netcl.core import tensor` name a module in the last place.
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return [first.value]
    return []


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rsplit(".", 1)[-1]


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    return handler.type is not None and bool(
        re.search(r"\b(ImportError|ModuleNotFoundError)\b", ast.unparse(handler.type))
    )


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the string constants that are not docstrings, with their lines."""
    bodies = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, bodies) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def check_module(package: Package, path: Path) -> list[str]:
    """Returns the faults of one source file of `package`."""
    inside = path.relative_to(package.source)
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    faults = []
    required = {requirement_name(r) for r in package.dependencies}
    if "netcl-core" in required:
        # netcl-core takes and gives NumPy arrays: who uses it has NumPy.
        required.add("numpy")
    extras = {requirement_name(r) for extra in package.extras.values() for r in extra}
    parent = ".".join(["netcl", *inside.parent.parts])
    for imported in imports_of(tree, parent):
        fault = _fault(package, inside, imported, required, extras)
        if fault:
            faults.append(f"{package.name}: netcl/{inside}:{imported.line}: {fault}")
    if package.name != "netcl-core":
        for line, text in _strings(tree):
            if OPENCL_TEXT.search(text):
                faults.append(f"{package.name}: netcl/{inside}:{line}: OpenCL text belongs into netcl-core")
    return faults


def _fault(package: Package, inside: Path, imported: Import, required: set[str], extras: set[str]) -> str | None:
    top, _, rest = imported.module.partition(".")
    if top == "netcl":
        return _sibling_fault(package, inside, imported, rest.split(".")[0], required, extras)
    # Type checkers bring typing_extensions themselves.
    if (
        top in sys.stdlib_module_names
        or top == "tomllib"
        or (top == "typing_extensions" and imported.place.typing_only)
    ):
        return None
    distribution = DISTRIBUTION_OF.get(top, top.lower().replace("_", "-"))
    optional = imported.place.guarded or imported.place.typing_only
    if distribution == "pyopencl":
        if package.name != "netcl-core":
            return "pyopencl is imported by netcl-core alone"
        return None if optional else "pyopencl needs a guard: try: ... except ImportError: ..."
    if distribution in required or (distribution in extras and (optional or imported.place.in_function)):
        return None
    if (distribution, inside) in (("pytest", PYTEST_MODULE), ("pyinstaller", PYINSTALLER_HOOK)):
        return None
    if imported.place.in_function and (top, inside) in (("torch", PEER_MODULE), ("netcl_conformance", CONTRACT_MODULE)):
        return None
    if distribution in extras:
        return f"{top} comes with an extra: import it in the function that needs it, or guard it"
    return f"{top} is not among the dependencies"


def _sibling_fault(
    package: Package, inside: Path, imported: Import, sub: str, required: set[str], extras: set[str]
) -> str | None:
    if inside == Path("__init__.py"):
        return (
            None
            if imported.place.in_function or imported.place.typing_only
            else "netcl/__init__.py imports nothing of netcl at import"
        )
    if not sub and inside.parts[0] == "torch":  # PyTorch's names over the names that users type
        return None
    if sub == SIBLINGS.stem:
        return None
    if sub not in OWNER:
        return "bare netcl is for users: import the subpackage that owns the name"
    if imported.by_name and inside.parts[0] == "core" and sub != "core":
        allowed = LOADED_BY_NAME.get(inside)
        if allowed is None or not f"{imported.module}.".startswith(f"{allowed}.") or not imported.place.in_function:
            return f"netcl.core does not load netcl.{sub}, which is built on it"
    owner = OWNER[sub]
    if owner == package.name or owner in required:
        return None
    if owner in extras and inside in DEVICE_MODULES:
        return None
    return f"{owner} is not among the dependencies"


def check_package(package: Package) -> list[str]:
    """Returns the faults of all of a package's sources and of their layout."""
    faults = []
    for path in package.modules():
        inside = path.relative_to(package.source)
        if inside in (FRONT, SIBLINGS):
            if package.name != "netcl-core":
                faults.append(f"{package.name}: netcl/{inside} belongs to netcl-core alone")
                continue
        elif inside.parts[0] not in OWNED[package.name] and inside.as_posix() not in ADDED.get(package.name, ()):
            faults.append(f"{package.name}: netcl/{inside} lies in a subpackage that {package.name} does not own")
        faults.extend(check_module(package, path))
    if package.name != "netcl-core":
        faults.extend(
            f"{package.name}: {path.name}: OpenCL text belongs into netcl-core" for path in package.source.rglob("*.cl")
        )
    return faults


def check(root: Path = ROOT) -> list[str]:
    """Returns every fault found in `packages/*/src` under `root`."""
    return [fault for package in load_packages(root).values() for fault in check_package(package)]


def main() -> int:
    faults = check()
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
