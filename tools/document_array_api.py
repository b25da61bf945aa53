"""Writes the last section of docs/reference/array-api.md from the lists of checks/array_api."""

from __future__ import annotations

from pathlib import Path

from monorepo import ROOT

PAGE = ROOT / "docs/reference/array-api.md"
HEADING = "## Tests that do not pass, by name\n"
INTRODUCTION = """
Of each list, a test is a line below the reason for it. `checks/array_api/suite.py` compares a run with these lists.
"""


def section() -> str:
    """Returns the section as text."""
    parts = [HEADING, INTRODUCTION]
    for path, title in (("failures.txt", "Failures"), ("skips.txt", "Tests that the suite skips")):
        parts.append(f"\n### {title}\n")
        for reason, names in listed(ROOT / "checks/array_api" / path):
            parts.append(f"\n{len(names)}: {reason}.\n\n```text\n" + "".join(f"{name}\n" for name in names) + "```\n")
    return "".join(parts)


def listed(path: Path) -> list[tuple[str, list[str]]]:
    """Returns the reasons of a list, and the tests of each without the name of the suite's folder."""
    sections: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            sections.append((line[2:], []))
        elif line:
            sections[-1][1].append(line.removeprefix("array_api_tests/"))
    return sections


def page() -> str:
    """Returns the page with the section in its present state."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[0] + section()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
