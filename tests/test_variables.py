"""Every NETCL_* variable that a source names is declared in `netcl.core.config`, read there alone, and documented."""

from __future__ import annotations

import re
from pathlib import Path

import document_variables
from monorepo import load_packages

from netcl.core import config

NAME = re.compile(r"NETCL_[A-Z][A-Z0-9_]*")
READ = re.compile(r"\bos\.(getenv|environ\.get|environ\[[^\]]*NETCL_)")


def declared() -> set[str]:
    return {variable.environment for variable in config.VARIABLES.values()}


def test_every_variable_in_the_sources_is_declared(root: Path) -> None:
    for package in load_packages(root).values():
        for path in package.modules():
            unknown = set(NAME.findall(path.read_text(encoding="utf-8"))) - declared()
            assert not unknown, f"{path}: {sorted(unknown)} not in netcl.core.config"


def test_the_environment_is_read_in_one_place(root: Path) -> None:
    for package in load_packages(root).values():
        for path in package.modules():
            if path != package.source / "core/config.py":
                for line in path.read_text(encoding="utf-8").splitlines():
                    assert not (READ.search(line) and "NETCL_" in line), f"{path}: {line.strip()}"


def test_the_reference_page_is_the_table(root: Path) -> None:
    page = (root / "docs/reference/variables.md").read_text(encoding="utf-8")
    assert page == document_variables.page(), "run: python tools/document_variables.py"
