"""The programs of examples/ learn on the device, and the how-to has the command of each."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# Its library, the pattern of the last line, and bounds of the number in it.
PROGRAMS = {
    "train_transformers": ("transformers", r"loss \S+ to (\S+); counts \[3, 4, 5, 6", 0.0, 0.5),
    "train_diffusers": ("diffusers", r"loss \S+ to (\S+); 2 images", 0.0, 0.45),
    "train_lora": ("peft", r"loss \S+ to (\S+); (\S+) and merged \2,", 0.0, 2.3),
    "train_yolo": ("ultralytics", r"overlap of boxes 0.0\d to (\S+)", 0.5, 1.0),
    "train_lightning": ("lightning", r"loss \S+ to (\S+); (?:9\d|100)% right", 0.0, 0.35),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_learns(name: str) -> None:
    library, pattern, least, most = PROGRAMS[name]
    pytest.importorskip(library)
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--device", "ocl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    match = re.fullmatch(rf"ocl:0: .*{pattern}.*", last)
    assert match is not None, last
    assert least <= float(match[1]) <= most


def test_each_program_is_tested_and_has_its_command_in_the_how_to() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(PROGRAMS)
    page = ROOT / "docs/how-to/use-netcl-from-pytorch.md"
    if page.is_file():
        text = page.read_text(encoding="utf-8")
        assert {name for name in names if f"python extensions/torch-netcl/examples/{name}.py" in text} == names
