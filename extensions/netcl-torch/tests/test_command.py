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


@pytest.mark.level("front")
def test_the_traceback_of_a_script_begins_at_its_own_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.ones(2).view(3)\n")
    environment = {**os.environ, "NETCL_DEVICE": "cpu"}
    ran = subprocess.run([*COMMAND, "run", str(script)], capture_output=True, text=True, env=environment, timeout=100)
    title, first, *_ = ran.stderr.splitlines()
    assert (ran.returncode, title) == (1, "Traceback (most recent call last):")
    assert first == f'  File "{script}", line 2, in <module>'
