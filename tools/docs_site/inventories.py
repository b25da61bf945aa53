"""Makes Sphinx's inventories of other projects from the lists in docs/_inventories; a build needs no network."""

from __future__ import annotations

import zlib
from pathlib import Path


def inventories(lists: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Writes an inventory for each list, and returns intersphinx's mapping: address and file of each project."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for file in sorted(lists.glob("*.txt")):
        _, first, *names = file.read_text(encoding="utf-8").splitlines()
        address, version = first.split()
        body = "".join(f"{name} py:{kind} 1 {at} -\n" for name, kind, at in (line.split() for line in names))
        head = f"# Sphinx inventory version 2\n# Project: {file.stem}\n# Version: {version}\n"
        made = folder / f"{file.stem}.inv"
        data = (head + "# The remainder of this file is compressed using zlib.\n").encode() + zlib.compress(
            body.encode()
        )
        if not made.is_file() or made.read_bytes() != data:
            made.write_bytes(data)
        mapping[file.stem] = (address, str(made))
    return mapping
