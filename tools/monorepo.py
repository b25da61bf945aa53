"""Facts about the repository for the checks: its packages, their metadata and the imports that each one owns."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# The folders of the distributions, each with the table of pyproject.toml that lists its own.
FOLDERS = ("packages", "extensions")
FOLDER_OF: dict[str, str] = {name: folder for folder in FOLDERS for name in SETTINGS["tool"]["netcl"][folder]}
# The subpackages each distribution owns, in the order in which the layers build on each other, extensions last.
OWNED: dict[str, tuple[str, ...]] = {
    name: tuple(SETTINGS["tool"]["netcl"][folder][name]) for name, folder in FOLDER_OF.items()
}
# Files that an extension adds to a package of a layer.
ADDED: dict[str, tuple[str, ...]] = {name: tuple(files) for name, files in SETTINGS["tool"]["netcl"]["added"].items()}
# The module of each plugin of another framework.
PLUGINS: dict[str, str] = dict(SETTINGS["tool"]["netcl"]["plugins"])
FOLDER_OF |= dict.fromkeys(PLUGINS, "extensions")
OWNER = {sub: name for name, subs in OWNED.items() for sub in subs}


@dataclass(frozen=True)
class Package:
    """One distribution of the repository, read from its pyproject.toml and its sources."""

    name: str
    folder: Path
    project: dict[str, Any]

    @property
    def source(self) -> Path:
        return self.folder / "src" / PLUGINS.get(self.name, "netcl")

    @property
    def about(self) -> Path:
        if self.name in PLUGINS:
            return self.source / "__about__.py"
        return self.source / self.name.removeprefix("netcl-") / "__about__.py"

    @property
    def version(self) -> str:
        match = re.search(r'^__version__ = "([^"]+)"$', self.about.read_text(encoding="utf-8"), re.MULTILINE)
        if match is None:
            raise ValueError(f'{self.about}: no line __version__ = "..."')
        return match[1]

    @property
    def dependencies(self) -> list[str]:
        return list(self.project.get("dependencies", ()))

    @property
    def extras(self) -> dict[str, list[str]]:
        return dict(self.project.get("optional-dependencies", {}))

    def modules(self) -> list[Path]:
        return sorted(self.source.rglob("*.py"))


def requirement_name(requirement: str) -> str:
    """Returns `pyopencl>=2024.1; sys_platform == 'linux'` -> `pyopencl`, in the index's spelling."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    if match is None:
        raise ValueError(f"not a requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def load_packages(root: Path = ROOT) -> dict[str, Package]:
    """Returns the packages and extensions under `root`, by name, lowest layer first."""
    return _load(root, tuple(OWNED))


def load_released(root: Path = ROOT) -> dict[str, Package]:
    """Returns the packages, extensions and plugins under `root`, by name, lowest layer first."""
    return _load(root, (*OWNED, *PLUGINS))


def _load(root: Path, names: tuple[str, ...]) -> dict[str, Package]:
    packages = {}
    for name in names:
        folder = root / FOLDER_OF[name] / name
        if (folder / "pyproject.toml").is_file():
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            packages[name] = Package(name, folder, project)
    return packages
