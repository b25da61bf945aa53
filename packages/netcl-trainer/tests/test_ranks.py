"""The Trainer in a group of processes: steps are captured on all ranks, and have the bits of eager ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "trained_by_ranks.py"


@pytest.mark.parametrize("kind", ["whole", "divided"])
@pytest.mark.parametrize(
    ("place", "staging"),
    [
        pytest.param("cpu", "on", marks=pytest.mark.level("staging")),
        ("cpu", "auto"),
        pytest.param("opencl", "on", marks=pytest.mark.deep),
    ],
)
def test_ranks_replay_their_steps_together(place: str, staging: str, kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "netcl.distributed.run", "-n", "2", "--timeout", "60", str(SCRIPT)]
    env = {**os.environ, "NETCL_DEVICE": place, "NETCL_DIST_STAGING": staging, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(tmp_path / "found.json"), kind],
        capture_output=True,
        text=True,
        env=env,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["replayed"] == (staging == "on")  # gradients that pass over the host cannot be captured
    assert found["compiled"] == found["eager"]
    assert "goes on op by op" not in done.stderr
