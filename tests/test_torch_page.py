"""The page of PyTorch's names agrees with netcl.torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PRINT = """
import sys
sys.path.insert(0, "tools")
import document_torch
sys.stdout.write(document_torch.page())
"""


def test_the_page_of_pytorchs_names_is_that_of_the_table(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PRINT], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (root / "docs/reference/torch.md").read_text(encoding="utf-8")
    assert page == done.stdout, "run: python tools/document_torch.py"
    assert int(re.search(r"\*\*(\d+)%\*\* of", page)[1]) >= 70  # type: ignore[index]
