"""The coverage table in the reference agrees with the op table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PRINT = """
import sys
sys.path.insert(0, "tools")
import document_coverage
sys.stdout.write(document_coverage.page())
"""


def test_the_coverage_page_is_the_op_table(root: Path) -> None:
    """In a process of its own: what other tests add to the op table is not there."""
    done = subprocess.run([sys.executable, "-c", PRINT], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (root / "docs/reference/coverage.md").read_text(encoding="utf-8")
    assert page == done.stdout, "run: python tools/document_coverage.py"
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) \| (.+?) \|", page, re.MULTILINE)
    listed = {name: rest for name, *rest in rows}
    assert len(rows) == len(listed) == int(re.search(r"^(\d+) ops", page, re.MULTILINE)[1])  # type: ignore[index]
    assert listed["softmax"] == ["derived", "yes", "numbers"]
    assert listed["matmul"][:2] == ["rule", "yes"]
    assert listed["argmax"][:2] == ["-", "-"]
