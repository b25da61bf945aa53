"""Checks that the metadata of all packages names the repository of pyproject.toml; `--fix` writes `[project.urls]`."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from monorepo import FOLDERS, ROOT, tomllib

_SECTION = re.compile(r"^\[project\.urls\]\n(?:[^\[\n].*\n)*\n?", re.MULTILINE)


def repository(root: Path = ROOT) -> str:
    """Returns the address that `[tool.netcl]` of pyproject.toml names, "" if there is none."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return str(settings["tool"]["netcl"]["repository"]).rstrip("/")


def released(root: Path = ROOT) -> list[Path]:
    """Returns the settings of all that is released: the packages, and the kit that checks a netcl-core."""
    packages = [path for folder in FOLDERS for path in sorted((root / folder).glob("*/pyproject.toml"))]
    return [*packages, *root.glob("alternatives/netcl-conformance/*.toml")]


def urls(address: str, folder: str) -> dict[str, str]:
    """Returns the links of the page of a package in ``folder`` on the index: {} without a repository."""
    if not address:
        return {}
    links = {
        "Homepage": address,
        "Documentation": f"{address}/tree/main/docs",
        "Source": f"{address}/tree/main/{folder}",
        "Changelog": f"{address}/blob/main/{folder}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    if folder.startswith("alternatives/"):  # the kit changes with netcl-core's contract
        links["Changelog"] = f"{address}/blob/main/CHANGELOG.md"
    return links


def check(root: Path = ROOT, fix: bool = False) -> list[str]:
    """Returns the packages with other links than the repository's; with ``fix``, writes them first."""
    address, faults = repository(root), []
    for path in released(root):
        text = path.read_text(encoding="utf-8")
        wanted = urls(address, path.parent.relative_to(root).as_posix())
        if tomllib.loads(text)["project"].get("urls", {}) == wanted:
            continue
        if not fix:
            faults.append(f"{path.parent.name}: [project.urls] is not that of {address or 'no repository'}")
            continue
        text = _SECTION.sub("", text)
        section = "[project.urls]\n" + "".join(f'{name} = "{link}"\n' for name, link in wanted.items()) + "\n"
        before, mark, after = text.partition("[project.optional-dependencies]")
        path.write_text(before + (section if wanted else "") + mark + after, encoding="utf-8")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="write the links into the pyproject.toml of each package")
    faults = check(fix=parser.parse_args().fix)
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
