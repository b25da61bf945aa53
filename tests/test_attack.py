"""The runner of tests/attack: it repeats cases by their seed, shrinks, and reports crashes and hangs as failures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CRASH = '''"""Attacks on nothing."""
from __future__ import annotations
import os
from registry import Run, attack

@attack("planted.crash")
def crash(run: Run) -> None:
    for rng in run.cases():
        if run.case == 3:
            os.abort()

@attack("planted.slow", least=50.0, weight=99.0)
def slow(run: Run) -> None:
    run.fail("a slice has no time for this")

@attack("planted.draws")
def draws(run: Run) -> None:
    for rng in run.cases():
        number = rng.randrange(10**9)
        if run.case == 2:
            run.fail(f"drew {number}", data=b"reproducer", suffix=".txt")
            return
'''


@pytest.fixture
def planted(root: Path, tmp_path: Path) -> Path:
    """Returns a copy of the runner with attacks that fail."""
    folder = tmp_path / "attack"
    folder.mkdir()
    for path in (root / "tests" / "attack").glob("*.py"):
        shutil.copy(path, folder)
    (folder / "planted").mkdir()
    (folder / "planted" / "attacks.py").write_text(CRASH)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder), "--keep", str(folder / "kept"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


def test_a_crash_is_a_failure_of_its_case(planted: Path) -> None:
    done = run(planted, "--only", "planted.crash", "--seed", "5", "--seconds", "0.2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "--only planted.crash --seed 5 --case 3" in done.stdout


def test_a_case_is_repeated_by_its_seed_and_number(planted: Path) -> None:
    first = run(planted, "--only", "planted.draws", "--seed", "5", "--seconds", "0.2").stdout
    again = run(planted, "--only", "planted.draws", "--seed", "5", "--case", "2").stdout
    drawn = [line for line in first.splitlines() if "drew" in line]
    assert drawn
    assert drawn[0] in again


def test_a_slice_has_the_attacks_that_need_little(planted: Path) -> None:
    done = run(planted, "--seed", "5", "--seconds", "2").stdout
    assert "left out: needs 50 s" in done
    assert "drew" in done
    assert "no time for this" not in done


def test_the_file_of_a_failure_is_kept(planted: Path) -> None:
    run(planted, "--only", "planted.draws", "--seed", "5", "--seconds", "0.2")
    assert (planted / "kept" / "planted.draws-5-2.txt").read_bytes() == b"reproducer"


def test_shrinking_removes_all_that_is_not_needed(root: Path, run_python: object) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from shrink import minimal; "
        "print(minimal(list(range(100)), lambda part: {17, 62} <= set(part)))"
    )
    done = run_python(code, str(root / "tests" / "attack"))  # type: ignore[operator]
    assert done.stdout.strip() == "[17, 62]"


PLANTED = """
import sys
sys.path.insert(0, sys.argv[1])
import random, warnings
from types import SimpleNamespace
from training import loops
from training.programs import Program
warnings.simplefilter("ignore")
program = Program((("layer", "linear"), ("event", 3, "lr", 0)), "mse_loss", "AdamW", 0, "float32", 5, 6)
wanted = loops.outcome(program, "eager")
print(loops.compared(program, "capture", "cpu", wanted))
right = loops.capture
def wrong(step, *batch):
    made = right(step, *batch)
    return SimpleNamespace(replay=lambda *batch: made.replay(*batch) * 1.0000001)
loops.capture = wrong
print(loops.compared(program, "capture", "cpu", wanted))
"""


def test_a_training_program_is_compared_in_bits(root: Path, run_python: object) -> None:
    done = run_python(PLANTED, str(root / "tests" / "attack"))  # type: ignore[operator]
    assert done.stdout.splitlines() == ["('', '')", "('capture on cpu: loss 2 differs', '')"]
