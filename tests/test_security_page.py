"""SECURITY.md: every promise names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<held>.+) \|$", re.MULTILINE)
HELD = re.compile(r"`([^`]+)`")


def promises(root: Path) -> list[tuple[str, str]]:
    """Returns the promises of the page, each with a test that it names."""
    text = (root / "SECURITY.md").read_text(encoding="utf-8")
    rows = [match for match in ROW.finditer(text) if match["promise"].strip() != "promise"]
    return [(row["promise"], test) for row in rows if row["held"].strip() != "-" for test in HELD.findall(row["held"])]


def test_each_promise_names_a_test_that_exists(root: Path) -> None:
    missing = []
    for promise, named in promises(root):
        file, _, function = named.partition("::")
        path = root / file
        if not path.exists():
            missing.append((promise, named))
        elif function:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
            if function not in names:
                missing.append((promise, named))
    assert missing == []


@pytest.mark.parametrize("heading", ["Reporting", "Files from strangers", "Saving and resuming", "Caches", "Processes"])
def test_the_page_has_its_parts(root: Path, heading: str) -> None:
    assert re.search(rf"^##+ {heading}$", (root / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_there_are_promises(root: Path) -> None:
    assert len(promises(root)) > 15
