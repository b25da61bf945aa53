"""Compares the lines of each package with tools/size_budget.toml; ``--write`` stores the present ones.

A package may grow by 1 %. Beyond that an entry of ``grown`` states the number of added lines, their purpose, and the
code removed for them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monorepo import ROOT, tomllib

BUDGET = Path("tools/size_budget.toml")
GROWTH = 0.01
HEAD = """# Lines of the .py files in src of each package; tools/size_budget.py compares them, --write stores them.
# A package that grows by more than 1 % needs a line here, for example
# grown = [{ lines = 900, purpose = "kernels for fp8", removed = "the second table of tiles, 350 lines" }]
"""


def counted(root: Path = ROOT) -> dict[str, int]:
    """Returns the lines of the .py files in ``src`` of each package and each extension, by its name."""
    folders = [
        path.parent for path in (*root.glob("packages/*/pyproject.toml"), *root.glob("extensions/*/pyproject.toml"))
    ]
    return {folder.name: sum(map(_lines, folder.glob("src/**/*.py"))) for folder in sorted(folders)}


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def faults(lines: Mapping[str, int], budget: Mapping[str, Any]) -> list[str]:
    """Returns a message for each package that has no figure, exceeds it, or grew without the reason."""
    messages = []
    for name, present in lines.items():
        if name not in budget:
            messages.append(f"{name} has no figure in {BUDGET}: run python tools/size_budget.py --write")
            continue
        stored, grown = budget[name]["lines"], budget[name].get("grown", [])
        for entry in grown:
            if sorted(entry) != ["lines", "purpose", "removed"] or not entry["purpose"] or not entry["removed"]:
                messages.append(f"{name}: expected lines, purpose and removed in an entry of grown, got {entry}")
        most = int(stored * (1 + GROWTH)) + sum(entry.get("lines", 0) for entry in grown)
        if present > most:
            messages.append(
                f"{name} has {present:,} lines, expected at most {most:,} ({stored:,} and 1 %): remove code, or add to "
                f"{BUDGET} the lines, the purpose and what was removed"
            )
    messages += [f"{name} is in {BUDGET} and is no package" for name in budget if name not in lines]
    return messages


def main(arguments: list[str]) -> int:
    """Prints the lines of each package and the faults, or stores the lines."""
    lines = counted()
    if "--write" in arguments:
        text = "".join(f"\n[{name}]\nlines = {number}\n" for name, number in lines.items())
        (ROOT / BUDGET).write_text(HEAD + text, encoding="utf-8")
        return 0
    budget = tomllib.loads((ROOT / BUDGET).read_text(encoding="utf-8"))
    for name, number in lines.items():
        print(f"{name:<20}{number:>8,}{number - budget.get(name, {}).get('lines', 0):>+8,}")
    print(f"{'all':<20}{sum(lines.values()):>8,}")
    messages = faults(lines, budget)
    print(*messages, sep="\n", file=sys.stderr, end="\n" if messages else "")
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
