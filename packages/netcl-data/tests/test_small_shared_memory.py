"""A /dev/shm that is tiny, full, read-only or no memory at all: a named error with a way out, and the way out works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOADER = """
import sys
import numpy as np
from netcl.data import DataLoader

class Data:
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return np.full((100, 100), index, np.float32)

if __name__ == "__main__":
    try:
        with DataLoader(Data(), 16, num_workers=1, use_shared_mem=sys.argv[1] == "shared") as loader:
            print(sum(float(np.asarray(batch).sum()) for batch in loader))
    except MemoryError as error:
        print("MemoryError:", error)
"""
MOUNTS = {
    "tiny": "mount -t tmpfs -o size=64k none /dev/shm",
    "full": "mount -t tmpfs -o size=1m none /dev/shm; head -c 2000000 /dev/zero > /dev/shm/full",
    "read-only": "mount -t tmpfs -o size=1m,ro none /dev/shm",
    "no memory": "mount --bind /proc /dev/shm",
}


def may_mount() -> bool:
    """True if this process may have a mount namespace of its own."""
    if not Path("/dev/shm").is_dir() or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/dev/shm"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not may_mount(), reason="needs Linux and root, who may mount another /dev/shm")
@pytest.mark.parametrize("how", ["tiny", *(pytest.param(how, marks=pytest.mark.deep) for how in list(MOUNTS)[1:])])
def test_shared_memory_that_is_not_there_is_an_error_with_a_way_out(how: str, tmp_path: Path) -> None:
    script = tmp_path / "loader.py"
    script.write_text(LOADER)
    outputs = []
    for use in ("shared", "pipes"):
        command = ["unshare", "-m", "sh", "-c", f"{MOUNTS[how]}; exec {sys.executable} {script} {use}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        outputs.append(done.stdout.strip())
        assert done.returncode == 0, done.stderr
    assert outputs[0].startswith("MemoryError: no shared memory of")
    assert "use_shared_mem=False" in outputs[0]
    assert outputs[1] == "20160000.0"
