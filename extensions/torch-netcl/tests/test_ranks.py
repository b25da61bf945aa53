"""DistributedDataParallel over gloo, with the device in each process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_two_ranks_give_the_parameters_of_the_cpu() -> None:
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("ranks.py")), "cpu", "ocl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    here, there = done.stdout.splitlines()
    assert here == there
    assert "[3.0, 3.0, 3.0] [[0.0, 0.0], [1.0, 1.0]]" in here
