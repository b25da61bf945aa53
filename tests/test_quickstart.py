"""examples/quickstart.py: what it trains and saves is what a second process loads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def quickstart(root: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(root / "examples/quickstart.py"), *arguments]
    # On a busy machine, BLAS threads that spin for each other take ten times as long as one alone.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110, env=env)
    assert not check or done.returncode == 0, done.stderr
    return done


def test_a_second_process_reads_as_the_first(root: Path, tmp_path: Path) -> None:
    trained = quickstart(
        root, "--device", "cpu", "--epochs", "1", "--batch-size", "16", "--output", str(tmp_path)
    ).stdout
    loaded = quickstart(root, "--device", "cpu", "--evaluate", str(tmp_path / "digits.netcl")).stdout
    pattern = re.compile(r"^NumPy \S+ .*: accuracy (\d+\.\d{4}) % \((\d+) of 359 scans held out\)", re.MULTILINE)
    first, second = pattern.search(trained), pattern.search(loaded)
    assert first is not None, trained
    assert second is not None, loaded
    assert first.groups() == second.groups()
    assert float(first[1]) > 50
    assert re.search(r"loss \d.*accuracy \d.*\d s\b", trained)


def test_two_devices_share_the_work(root: Path, tmp_path: Path) -> None:
    trained = quickstart(
        root, "--device", "cpu", "--devices", "2", "--epochs", "1", "--batch-size", "64", "--output", str(tmp_path)
    ).stdout
    found = re.search(r"accuracy (\d+\.\d{4}) % \(\d+ of 359 scans held out\)", trained)
    assert found is not None, trained
    assert float(found[1]) > 50


def test_an_unknown_device_is_one_message(root: Path) -> None:
    done = quickstart(root, "--device", "no such thing", check=False)
    assert done.returncode == 1
    assert "no such thing" in done.stderr
    assert "Traceback" not in done.stderr
