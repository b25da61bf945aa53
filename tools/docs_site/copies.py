"""Writes the pages of the site that are files elsewhere in the repository, and the page of changes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from monorepo import ROOT, load_packages

from docs_site.pages import keep

# Files that become pages, by their names below docs/generated.
PAGES = {"contributing": "CONTRIBUTING.md", "security": "SECURITY.md", "examples": "examples/README.md"}
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
_KINDS = {"feature": "Added", "bugfix": "Fixed", "removal": "Removed", "doc": "Documentation", "misc": "Other"}


def write(folder: Path) -> None:
    """Writes all of them to ``folder``, which is docs/generated."""
    for name, source in PAGES.items():
        keep(folder / f"{name}.md", moved((ROOT / source).read_text(encoding="utf-8"), ROOT / source, folder))
    keep(folder / "changes.md", moved(changes(), ROOT / "CHANGELOG.md", folder))


def moved(text: str, source: Path, folder: Path) -> str:
    """Returns a page with its relative links as they are from ``folder``."""
    names = {(ROOT / path).resolve(): f"{name}.md" for name, path in PAGES.items()}
    names[(ROOT / "CHANGELOG.md").resolve()] = "changes.md"

    def lead(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = (source.parent / target).resolve()
        place = names.get(path) or Path(os.path.relpath(path, folder)).as_posix()
        return f"]({place}{anchor})"

    return _LINK.sub(lead, text)


def changes() -> str:
    """Returns the changes of all packages: unreleased ones first, then the changes of releases."""
    lines = [
        "# Changes",
        "",
        "Releases of one series (0.1) work with each other ([stability](docs/reference/stability.md)).",
        "",
    ]
    for name, package in load_packages().items():
        lines += [f"## {name}", ""]
        groups: dict[str, list[str]] = {}
        for file in sorted((package.folder / "changes").glob("*.md")):
            kind = file.name.split(".")[1]
            words = " ".join(file.read_text(encoding="utf-8").split())
            if words:
                groups.setdefault(kind, []).append(words)
        if groups:
            lines += [f"### {name}: not released yet", ""]
        for kind, title in _KINDS.items():
            if groups.get(kind):
                lines += [f"**{title}**", "", *(f"* {words}" for words in groups[kind]), ""]
        released = (
            (package.folder / "CHANGELOG.md")
            .read_text(encoding="utf-8")
            .partition("<!-- towncrier release notes start -->")[2]
        )
        lines += [re.sub(r"^(#+) ", rf"\1# {name} ", released.strip(), flags=re.MULTILINE), ""]
    return "\n".join(lines)
