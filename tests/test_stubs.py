"""The types of methods and ops are those of their tables, and are seen by jedi and inspect.signature."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_stub_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "tools/write_stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
