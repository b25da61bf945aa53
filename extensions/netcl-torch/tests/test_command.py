"""``netcl run``: the command that netcl-torch adds to ``netcl``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "netcl.trainer.cli"]


@pytest.mark.level("front")
def test_run_is_the_runner_of_pytorch_scripts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\nprint(sys.argv[1:], torch.ones(2).sum().item())\nsys.exit(5)\n")
    environment = {**os.environ, "NETCL_DEVICE": "cpu"}
    command = [*COMMAND, "run", "--report", str(script), "--lr", "3"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert ran.returncode == 5
    assert ran.stdout == "['--lr', '3'] 2.0\n"
    assert "names of torch were used" in ran.stderr
