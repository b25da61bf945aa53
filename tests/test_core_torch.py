"""netcl-core-torch: its own files, its length, and where torch is a dependency."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

from monorepo import FOLDERS

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "alternatives/netcl-core-torch/src/netcl"
FIRST = ROOT / "packages/netcl-core/src/netcl"
# netcl-core-kit has what every core needs.
MOST_LINES = 2500
LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def lines_of_code(text: str) -> int:
    """Returns the lines with a token of code: no blank lines, comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for one in tokens if one.type not in LAYOUT for line in range(one.start[0], one.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def test_lines_are_counted_without_docstrings_and_comments() -> None:
    assert (
        lines_of_code('"""Doc."""\n\n# why\nx = (1,\n     2)  # note\n\ndef f():\n    """Doc."""\n    return x\n') == 4
    )


def test_no_file_but_the_front_and_its_check_is_that_of_netcl_core() -> None:
    first = {path.read_bytes(): path for path in FIRST.rglob("*.py") if path.stat().st_size > 200}
    equal = sorted(str(path.relative_to(OWN)) for path in OWN.rglob("*.py") if path.read_bytes() in first)
    assert equal == ["__init__.py", "siblings.py"]


def test_it_has_a_length() -> None:
    files = [path for path in OWN.rglob("*.py") if path.parent != OWN]
    assert len(files) > 20
    assert sum(lines_of_code(path.read_text(encoding="utf-8")) for path in files) <= MOST_LINES


def test_torch_is_a_dependency_of_this_distribution_and_of_its_device_alone() -> None:
    projects = [path for folder in (*FOLDERS, "alternatives") for path in ROOT.glob(f"{folder}/*/pyproject.toml")]
    dependents = [path.parent.name for path in projects if '"torch' in path.read_text(encoding="utf-8")]
    assert dependents == ["torch-netcl", "netcl-core-torch"]
