"""Checks that sibling ranges admit the siblings in the tree and point down the layers; `--fix` rewrites them.

The ranges are in each pyproject.toml, and again as REQUIRES in `__about__.py`, which the layer checks at import. Names
that were deprecated two minor versions ago must be removed.
"""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import sys
from pathlib import Path

from monorepo import OWNED, PLUGINS, ROOT, Package, load_released, requirement_name

removal = runpy.run_path(str(ROOT / "packages/netcl-core/src/netcl/core/process/deprecation.py"))["removal"]


def expected_range(name: str, version: str) -> str:
    """Returns `netcl-core`, `0.1.3` -> `netcl-core>=0.1,<0.2`: the compatible series of `version`."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return f"{name}>={major}.{minor},<{major}.{minor + 1}"


def check(root: Path = ROOT, fix: bool = False) -> list[str]:
    """Returns the faults found under `root`; with `fix`, write the right ranges into the pyproject files first."""
    packages = load_released(root)
    layers = [*OWNED, *PLUGINS]
    faults = []
    for package in packages.values():
        path = package.folder / "pyproject.toml"
        text = path.read_text(encoding="utf-8")
        requirements = [*package.dependencies, *(line for extra in package.extras.values() for line in extra)]
        for requirement in dict.fromkeys(requirements):
            name = requirement_name(requirement)
            # An extra may be another name of an extra of the same package.
            if name not in packages or name == package.name:
                continue
            if layers.index(name) >= layers.index(package.name):
                faults.append(f"{package.name} requires {name}, which is not below it")
                continue
            extras = re.search(r"\[.*\]", requirement)
            wanted = expected_range(name + (extras[0] if extras else ""), packages[name].version)
            if requirement == wanted:
                continue
            if fix:
                text = re.sub(rf'(["\']){re.escape(requirement)}\1', f'"{wanted}"', text)
            else:
                faults.append(f"{package.name} requires {requirement}, the tree has {packages[name].version}: {wanted}")
        if fix:
            path.write_text(text, encoding="utf-8")
    for package in load_released(root).values():
        faults.extend(_check_about(package, fix))
        faults.extend(_overdue(package))
    return faults


def _overdue(package: Package) -> list[str]:
    """Returns the names marked by ``@deprecated(since, instead)`` that this version should no longer have."""
    faults = []
    for path in package.modules():
        text = path.read_text(encoding="utf-8")
        if "deprecated(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("deprecated"):
                    removed = removal(ast.literal_eval(mark.args[0]))
                    if _series(package.version) >= _series(removed):
                        name = f"{path.relative_to(package.source.parent).as_posix()}: {getattr(node, 'name', '')}"
                        faults.append(f"{package.name} {package.version} still has {name}, which ends in {removed}")
    return faults


def _series(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _check_about(package: Package, fix: bool) -> list[str]:
    """Compares REQUIRES of `__about__.py` with pyproject.toml; netcl-core requires no layer, and a plugin checks the
    version of its framework alone.
    """
    if package.name in PLUGINS:
        return []
    lines = [*package.dependencies, *(line for extra in package.extras.values() for line in extra)]
    wanted = tuple(dict.fromkeys(line for line in lines if re.match(r"netcl-\w+>=", line)))
    text = package.about.read_text(encoding="utf-8")
    assignment = re.search(r"^REQUIRES = (\(.*?\))$", text, re.MULTILINE | re.DOTALL)
    declared = ast.literal_eval(assignment[1]) if assignment else ()
    if declared == wanted:
        return []
    if fix and assignment:
        new = "REQUIRES = (\n" + "".join(f'    "{line}",\n' for line in wanted) + ")"
        package.about.write_text(text.replace(assignment[0], new), encoding="utf-8")
        return []
    return [f"{package.name} has REQUIRES = {declared} in __about__.py, and pyproject.toml says {wanted}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="rewrite the ranges in the pyproject.toml of each package")
    faults = check(fix=parser.parse_args().fix)
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
