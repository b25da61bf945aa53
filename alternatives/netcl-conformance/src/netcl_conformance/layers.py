"""The six upper suites as checks: each runs in a process of its own, under the facade."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from netcl_conformance.report import LevelReport, Report

__all__ = ["UPPER", "check_layers"]

UPPER = ("autograd", "nn", "optim", "data", "distributed", "trainer")
MOST_SKIPPED = 0.1


def _counts(output: str) -> dict[str, int]:
    """The numbers of pytest's last line: passed, failed, skipped, errors."""
    lines = [line for line in output.splitlines() if re.search(r"\d+ (passed|failed|skipped|error)", line)]
    found = re.findall(r"(\d+) (passed|failed|skipped|error)", lines[-1]) if lines else []
    return {what: int(number) for number, what in found}


def check_layers(report: Report, folder: Path, device: str | None = None) -> None:
    """Enters one level per suite, ``folder/netcl-<layer>/tests``: a failed test is a fault, and so are more than 10 %
    of tests skipped.
    """
    environment = {**os.environ, **({"NETCL_DEVICE": device} if device else {})}
    for layer in UPPER:
        suite = folder / f"netcl-{layer}" / "tests"
        found = report.levels[f"suite of netcl-{layer}"] = LevelReport()
        if not suite.is_dir():
            found.faults[str(suite)] = "there is no such folder; give the one with the packages of a checkout"
            continue
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rfE",
            "-p",
            "netcl_conformance.facade",
            "-m",
            "not deep and not timing",
        ]
        done = subprocess.run([*command, str(suite)], env=environment, capture_output=True, text=True, check=False)
        counts = _counts(done.stdout)
        found.held = counts.get("passed", 0)
        for line in re.findall(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", done.stdout, re.M):
            found.faults[line[0]] = line[1] or "failed"
        if done.returncode not in (0, 1) and not found.faults:
            found.faults["pytest"] = (done.stderr.strip() or done.stdout.strip())[-400:]
        skipped = counts.get("skipped", 0)
        if skipped > MOST_SKIPPED * (skipped + found.held):
            found.faults["skipped"] = f"{skipped} of {skipped + found.held} tests are skipped"
        elif skipped:
            found.left_out["skipped"] = f"{skipped} tests"
