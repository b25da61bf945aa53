"""Counts files by folder, import cycles, deferred imports, kernels in another folder than their launchers, and lines of
code. ``python tools/count_structure.py [ROOT]`` prints the numbers.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from check_imports import imports_of
from monorepo import FOLDER_OF, ROOT, load_packages

# Folders of these packages are listed with the files directly in them.
LISTED = ("netcl-core", "netcl-autograd")


@dataclass(frozen=True)
class Module:
    """One source file: the package it belongs to, its folder below ``src`` and its text."""

    name: str
    package: str
    path: Path
    tree: ast.Module
    text: str

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@dataclass(frozen=True)
class Arrow:
    """One import of a module of the repository by another.

    ``kind``: ``module`` level, for ``type`` checkers alone, ``deferred`` to a function, or ``loaded`` by its name: an
    import_module with a literal, for a table to find what registers itself in it (docs/design/layers.md).
    """

    source: str
    target: str
    kind: str


def modules_of(root: Path) -> dict[str, Module]:
    """Returns every module of the packages and extensions, by its full name."""
    modules = {}
    for package in load_packages(root).values():
        for path in package.modules():
            parts = ["netcl", *path.relative_to(package.source).with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            modules[name] = Module(name, package.name, path, ast.parse(text, str(path)), text)
    return modules


def arrows_of(modules: Mapping[str, Module]) -> list[Arrow]:
    """Returns every import statement, and import_module with a literal name, from one module of the repository to
    another.
    """
    arrows = []
    for module in modules.values():
        parent = module.name if module.is_package else module.name.rpartition(".")[0]
        seen = set()
        for imported in imports_of(module.tree, parent):
            # `from package import name` names a module, or a name within the package.
            target = imported.module if imported.module in modules else imported.module.rpartition(".")[0]
            if target not in modules or target == module.name:
                continue
            kind = "type" if imported.place.typing_only else "deferred" if imported.place.in_function else "module"
            kind = "loaded" if imported.by_name else kind
            if (target, kind, imported.line) not in seen:
                seen.add((target, kind, imported.line))
                arrows.append(Arrow(module.name, target, kind))
    return arrows


def cycles(arrows: Iterable[Arrow]) -> list[list[str]]:
    """Returns the strongly connected components of two and more modules, the largest first (Tarjan's algorithm)."""
    graph: dict[str, list[str]] = defaultdict(list)
    for arrow in arrows:
        graph[arrow.source].append(arrow.target)
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []
    for start in sorted(graph):
        work: list[tuple[str, Iterator[str]]] = [] if start in order else [(start, iter(graph[start]))]
        while work:
            node, rest = work[-1]
            if node not in order:
                order[node] = lowest[node] = len(order)
                stack.append(node)
            for target in rest:
                if target not in order:
                    work.append((target, iter(graph.get(target, ()))))
                    break
                if target in stack:
                    lowest[node] = min(lowest[node], order[target])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == order[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        components.append(sorted(stack[at:]))
                    del stack[at:]
    return sorted(components, key=len, reverse=True)


def between_folders(arrows: Iterable[Arrow]) -> Iterator[Arrow]:
    """Yields each arrow as one between two folders, or files, of the same folder: the first names that differ."""
    for arrow in arrows:
        source, target = arrow.source.split("."), arrow.target.split(".")
        depth = next((at for at, pair in enumerate(zip(source, target)) if pair[0] != pair[1]), None)
        if depth is not None:  # else one of the two is the __init__ of a folder around the other
            yield Arrow(".".join(source[: depth + 1]), ".".join(target[: depth + 1]), arrow.kind)


def deferred_imports(arrows: Iterable[Arrow], modules: Mapping[str, Module]) -> Counter[str]:
    """Counts by package the imports of modules of the repository within functions."""
    return Counter(modules[arrow.source].package for arrow in arrows if arrow.kind == "deferred")


def class_assignments(modules: Iterable[Module]) -> list[str]:
    """Returns every ``x.__class__ = ...``, as path:line."""
    return [
        f"{module.path.name}:{node.lineno}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Attribute) and target.attr == "__class__" for target in node.targets)
    ]


def kernels_apart(root: Path) -> list[Path]:
    """Returns each .cl file of packages/*/src that no .py file in its folder, and no row of the candidates for a
    contraction, names as a string: its stem or its file name.
    """
    apart = []
    rows = "".join(path.read_text(encoding="utf-8") for path in root.glob("packages/*/src/**/tuning/candidates.py"))
    for path in sorted(root.glob("packages/*/src/**/*.cl")):
        launchers = rows + "".join(launcher.read_text(encoding="utf-8") for launcher in path.parent.glob("*.py"))
        if f'"{path.stem}"' not in launchers and f'"{path.name}"' not in launchers:
            apart.append(path)
    return apart


def files_by_folder(root: Path, package: str) -> dict[str, int]:
    """Returns the .py files directly in each folder of a package's sources."""
    source = root / FOLDER_OF[package] / package / "src"
    counts = Counter(path.parent.relative_to(source).as_posix() for path in source.rglob("*.py"))
    return dict(sorted(counts.items()))


def code_lines(module: Module) -> int:
    """Lines that hold code: neither blank, nor only a comment, nor part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len([number for number in lines if number <= module.text.count("\n")])


def report(root: Path) -> Iterator[str]:
    """Yields the lines that the command prints."""
    modules = modules_of(root)
    arrows = arrows_of(modules)
    for package in LISTED:
        yield f"{package}: .py files directly in each folder"
        for folder, count in files_by_folder(root, package).items():
            yield f"  {count:4} {folder}"
    yield "import cycles (sizes)"
    kinds = {"module level": ("module",), "all imports": ("module", "type", "deferred")}
    for title, wanted in kinds.items():
        chosen = [arrow for arrow in arrows if arrow.kind in wanted]
        for package in load_packages(root):
            inside = [a for a in chosen if modules[a.source].package == modules[a.target].package == package]
            yield f"  {title}, {package}: {[len(component) for component in cycles(inside)]}"
        yield f"  {title}, whole repository: {[len(component) for component in cycles(chosen)]}"
    for cycle in cycles(arrow for arrow in arrows if arrow.kind != "loaded"):
        yield f"    {' '.join(cycle)}"
    yield "imports: " + ", ".join(f"{count} {kind}" for kind, count in Counter(a.kind for a in arrows).most_common())
    deferred = sorted(deferred_imports(arrows, modules).items())
    yield "deferred imports: " + (", ".join(f"{package} {count}" for package, count in deferred) or "none")
    for arrow in arrows:
        if arrow.kind in ("deferred", "loaded") and modules[arrow.source].package in LISTED:
            yield f"    {arrow.source} -> {arrow.target} ({arrow.kind})"
    swaps = class_assignments(modules.values())
    yield f"assignments to __class__: {len(swaps)} {' '.join(swaps)}".rstrip()
    kernels = list(root.glob("packages/*/src/**/*.cl"))
    yield f".cl files: {len(kernels)}, of them without a .py file in the same folder that names them: " + (
        " ".join(path.name for path in kernels_apart(root)) or "none"
    )
    yield f"files: {len(modules)}"
    whole = {name: (module.text.count("\n"), code_lines(module)) for name, module in modules.items()}
    for package in load_packages(root):
        mine = [whole[name] for name, module in modules.items() if module.package == package]
        yield f"  {package}: {sum(a for a, _ in mine)} lines, {sum(b for _, b in mine)} of code"
    yield f"lines: {sum(a for a, _ in whole.values())}, of code {sum(b for _, b in whole.values())}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    for line in report(parser.parse_args().root):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
