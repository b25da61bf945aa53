"""Saving when things go wrong: the old file stays whole, no temporary file stays, the error has path and bytes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from netcl import nn
from netcl.io import CheckpointError, atomic, load_model, save_model, save_safetensors, verify

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs signals and file modes of POSIX")


@pytest.fixture
def old(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "m.netcl"
    save_model(nn.Linear(2, 2), path)
    return path, path.read_bytes()


def assert_untouched(path: Path, content: bytes) -> None:
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    load_model(path)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_failing_call(call: str, old, monkeypatch) -> None:
    path, content = old

    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "write":
        monkeypatch.setattr(np.lib.format, "write_array", fail)
    else:
        monkeypatch.setattr(atomic.os, call, fail)
    with pytest.raises(CheckpointError, match="No space left") as caught:
        save_model(nn.Linear(100, 100), path)
    monkeypatch.undo()
    assert caught.value.path == str(path) and caught.value.bytes > 40_000
    assert isinstance(caught.value.__cause__, OSError)
    assert_untouched(path, content)


def test_the_space_is_looked_at_first(old, monkeypatch) -> None:
    path, content = old
    usage = shutil.disk_usage(path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1000))
    with pytest.raises(CheckpointError, match="1000 bytes free"):
        save_model(nn.Linear(100, 100), path)
    assert_untouched(path, content)


def test_another_error_leaves_the_same_behind(old, monkeypatch) -> None:
    path, content = old

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(nn.Linear(100, 100), path)
    assert_untouched(path, content)


def test_bad_places(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="folder"):
        save_model(model, tmp_path)
    with pytest.raises(CheckpointError, match="No such file"):
        save_model(model, tmp_path / "absent" / "m.netcl")
    with pytest.raises(CheckpointError, match="No such file"):
        save_safetensors(model, tmp_path / "absent" / "m.safetensors")


@POSIX
def test_a_link_keeps_being_one_and_the_mode_stays(old, tmp_path: Path) -> None:
    path, _ = old
    path.chmod(0o640)
    link = tmp_path / "latest"
    link.symlink_to(path)
    model = nn.Linear(5, 2)
    save_model(model, link)
    assert link.is_symlink()
    np.testing.assert_array_equal(load_model(path).weight.to_host(), model.weight.to_host())
    assert path.stat().st_mode & 0o777 == 0o640


def run(code: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=100, **options
    )


@POSIX
def test_a_file_size_limit(old) -> None:
    path, content = old
    code = (
        "import resource, signal, sys\n"
        "from netcl import nn\n"
        "from netcl.io import save_model, CheckpointError\n"
        "model = nn.Linear(300, 300)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    save_model(model, sys.argv[1])\n"
        "except CheckpointError as error:\n"
        "    print('refused', error.bytes)\n"
    )
    done = run(code, str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused 36")
    assert_untouched(path, content)


@POSIX
def test_a_read_only_folder(old) -> None:
    path, content = old
    # Root may write anywhere; the child gives up that right first.
    code = (
        "import os, sys\n"
        "from netcl import nn\n"
        "from netcl.io import save_model, CheckpointError\n"
        "model = nn.Linear(3, 3)\n"
        "model.weight.to_host()\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([])\n"
        "    os.setgid(65534)\n"
        "    os.setuid(65534)\n"
        "try:\n"
        "    save_model(model, sys.argv[1])\n"
        "except CheckpointError as error:\n"
        "    print('refused', 'Permission denied' in str(error))\n"
    )
    path.parent.chmod(0o555)
    try:
        done = run(code, str(path))
    finally:
        path.parent.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused True\n"
    assert_untouched(path, content)


@POSIX
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path, rng) -> None:
    path = tmp_path / "m.netcl"
    code = (
        "import sys\n"
        "from netcl import nn\n"
        "from netcl.io import save_model\n"
        "models = [nn.Linear(400, 400), nn.Linear(200, 300)]\n"
        "at = 0\n"
        "while True:\n"
        "    save_model(models[at % 2], sys.argv[1])\n"
        "    at += 1\n"
        "    print(at, flush=True)\n"
    )
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(int(rng.integers(1, 6))):
            process.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.02)))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
        assert verify(path)["type"] == "Linear"
