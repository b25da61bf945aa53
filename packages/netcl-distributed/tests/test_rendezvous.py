"""The file where ranks meet: private from its first moment, and refused if it was tampered with."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from netcl.distributed.transports.shared import MappedBuffer, create

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX, which has owners and modes of files")


@pytest.fixture
def rendezvous():
    path = create(2, 4096)
    yield path
    path.unlink(missing_ok=True)


def test_it_is_private_under_any_umask() -> None:
    before = os.umask(0)
    try:
        path = create(2, 4096)
    finally:
        os.umask(before)
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        MappedBuffer(path, 1)
    finally:
        path.unlink()


@pytest.mark.parametrize("mode", [0o620, 0o666, 0o602])
def test_a_file_that_others_may_write_is_refused(rendezvous: Path, mode: int) -> None:
    rendezvous.chmod(mode)
    with pytest.raises(RuntimeError, match=f"mode {mode:04o}"):
        MappedBuffer(rendezvous, 0)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, who may give files away")
def test_a_file_of_another_user_is_refused(rendezvous: Path) -> None:
    os.chown(rendezvous, 54321, 54321)
    with pytest.raises(RuntimeError, match="user 54321"):
        MappedBuffer(rendezvous, 0)


@pytest.mark.parametrize("seed", range(40))
def test_a_head_that_was_tampered_with_is_refused_or_means_the_same(rendezvous: Path, seed: int) -> None:
    """A window or number of ranks beyond the file gave buffers of other sizes, or an error of NumPy."""
    rng = np.random.default_rng(seed)
    content = bytearray(rendezvous.read_bytes())
    word = 2 + seed % 3
    value = [int(rng.integers(-(2**62), 2**62)), int(rng.integers(-3, 9)), 2**40, 0][seed % 4]
    changed = content[8 * word : 8 * word + 8] != value.to_bytes(8, "little", signed=True)
    content[8 * word : 8 * word + 8] = value.to_bytes(8, "little", signed=True)
    rendezvous.write_bytes(content)
    if changed:
        with pytest.raises(RuntimeError, match="rendezvous|damaged"):
            MappedBuffer(rendezvous, 0)
    else:
        MappedBuffer(rendezvous, 0)


def test_a_fifo_and_a_short_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RuntimeError, match="no regular file"):
        MappedBuffer(tmp_path / "fifo", 0)
    (tmp_path / "short").write_bytes(b"x" * 100)
    (tmp_path / "short").chmod(0o600)
    with pytest.raises(RuntimeError, match="no rendezvous"):
        MappedBuffer(tmp_path / "short", 0)
