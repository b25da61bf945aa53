"""Checks that sibling ranges admit the siblings in the tree and point down the layers; `--fix` rewrites them."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from monorepo import OWNED, ROOT, load_packages, requirement_name


def expected_range(name: str, version: str) -> str:
    """`netcl-core`, `0.1.3` -> `netcl-core>=0.1,<0.2`: the compatible series of `version`."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return f"{name}>={major}.{minor},<{major}.{minor + 1}"


def check(root: Path = ROOT, fix: bool = False) -> list[str]:
    """Return the faults found under `root`; with `fix`, write the right ranges into the pyproject files first."""
    packages = load_packages(root)
    layers = list(OWNED)
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
            wanted = expected_range(name, packages[name].version)
            if requirement == wanted:
                continue
            if fix:
                text = re.sub(rf'(["\']){re.escape(requirement)}\1', f'"{wanted}"', text)
            else:
                faults.append(f"{package.name} requires {requirement}, the tree has {packages[name].version}: {wanted}")
        if fix:
            path.write_text(text, encoding="utf-8")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="rewrite the ranges in packages/*/pyproject.toml")
    faults = check(fix=parser.parse_args().fix)
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
