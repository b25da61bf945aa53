"""Ranks of the shared transport that die, raise, sleep or call something else: all others say so; nothing is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from netcl.distributed.transports import shared, shared_folder

FAULTS = Path(__file__).parent / "ranks" / "faults.py"

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for orphans in /proc, which Linux has")


def left_over() -> set[Path]:
    """Returns the files of dead launchers; other tests may have living ones at the same time."""
    found = shared_folder.segment_folder().glob("netcl-*-*")
    return {path for path in found if shared_folder.is_abandoned(path.name) and path.name[-4:] != "test"}


def orphans(mark: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it ended in between
                continue
            if mark in command:
                found.append(command)
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    """Yields an argument that all processes of one test carry; none is left, and no file, when it ends."""
    name = f"mark-{uuid4().hex}"
    yield name
    limit = time.monotonic() + 30
    while (orphans(name) or left_over()) and time.monotonic() < limit:  # another test's launcher may just have died
        time.sleep(0.05)
    assert orphans(name) == []
    assert left_over() == set()


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    ("fault", "code", "seen"),
    [
        ("kill", 137, "RankFailedError LAST: rank LAST was killed by SIGKILL"),
        ("raise", 1, "RankFailedError LAST: rank LAST raised ValueError: too bad"),
        ("end", 1, "RankFailedError LAST: rank LAST has ended, the others wait for it"),
        ("sleep", 1, "CollectiveTimeoutError: rank LAST did not come within 2 s; rank . waited"),
        ("other", 1, r"CollectiveMismatchError: .*rank 0 called #2 all_reduce .*rank LAST called #2 broadcast"),
        ("shape", 1, r"CollectiveMismatchError: .*rank 0 called .*\(8\).*rank LAST called .*\(9\)"),
        ("dtype", 1, "CollectiveMismatchError: .*dtype float32.*rank LAST called .*dtype int32"),
    ],
)
def test_the_others_say_what_is_wrong_with_a_rank(
    fault: str, code: int, seen: str, size: int, mark: str, launch: Callable[..., Any]
) -> None:
    timeout = 2 if fault == "sleep" else 90
    done = launch(size, FAULTS, fault, mark, options=("--timeout", str(timeout)))
    assert done.returncode == code, done.stderr
    pattern = re.compile(r"([\d.]+) rank (\d) " + seen.replace("LAST", str(size - 1)))
    found = [match for line in done.stdout.splitlines() if (match := pattern.match(line))]
    everyone = size if "Mismatch" in seen else size - 1
    assert {int(match[2]) for match in found} == set(range(everyone)), done.stdout + done.stderr
    assert "is well" not in done.stdout
    if fault != "sleep":  # no rank waits for the timeout
        (failed,) = (float(line.split()[0]) for line in done.stdout.splitlines() if line.endswith("fails"))
        assert max(float(match[1]) for match in found) - failed < timeout / 2


def test_a_group_is_started_again_after_each_of_two_deaths(
    tmp_path: Path, mark: str, launch: Callable[..., Any]
) -> None:
    done = launch(2, FAULTS, "twice", str(tmp_path), mark, options=("--max-restarts", "2"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("rank 1 was killed by SIGKILL; starting all again") == 2
    assert sorted(line[-14:] for line in done.stdout.splitlines()[-2:]) == ["rank 0 is well", "rank 1 is well"]


@pytest.mark.deep
def test_no_more_restarts_than_allowed(tmp_path: Path, mark: str, launch: Callable[..., Any]) -> None:
    done = launch(2, FAULTS, "twice", str(tmp_path), mark, options=("--max-restarts", "1"))
    assert done.returncode == 137
    assert "is well" not in done.stdout


def test_a_file_of_a_dead_run_is_removed_and_a_living_one_kept() -> None:
    name = "from netcl.distributed.transports.shared_folder import segment_prefix; print(segment_prefix(), end='')"
    dead = subprocess.run([sys.executable, "-c", name], capture_output=True, check=True, text=True).stdout
    folder, own = shared_folder.segment_folder(), shared_folder.segment_prefix()
    number, namespace, start = dead.split("-")[1:4]
    left, living = folder / f"{dead}test", folder / f"{own}test"
    of_a_container = folder / f"netcl-{number}-{int(namespace) + 1}-{start}-test"
    reused = folder / f"netcl-{os.getpid()}-{namespace}-{int(start) - 1}-test"
    try:
        for path in (left, living, of_a_container, reused):
            path.write_bytes(b"left over")
        shared.sweep()
        assert [path.exists() for path in (left, reused)] == [False, False]
        assert [path.exists() for path in (living, of_a_container)] == [True, True]
        with pytest.raises(RuntimeError, match="is no rendezvous of netcl"):
            shared.MappedBuffer(living, 0)
    finally:
        living.unlink()
        of_a_container.unlink()


def test_no_room_for_shared_memory_is_said_before_a_rank_starts(mark: str) -> None:
    resource = pytest.importorskip("resource", reason="needs limits of a process, which this system has not")
    command = [sys.executable, "-m", "netcl.distributed.run", "-n", "2", str(FAULTS), "none", mark]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=60, check=False)
    assert done.returncode == 1
    assert re.search("6.* MiB of shared memory for 2 ranks do not fit into", done.stderr), done.stderr
    assert done.stdout == ""


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGKILL"])
def test_ranks_end_with_their_launcher(number: str, mark: str) -> None:
    import signal

    command = [sys.executable, "-m", "netcl.distributed.run", "-n", "2", str(FAULTS), "stay", mark]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as launcher:
        limit = time.monotonic() + 60
        while len(orphans(mark)) < 5 and time.monotonic() < limit:  # the launcher, two ranks, a child of each
            time.sleep(0.02)
        assert len(orphans(mark)) == 5
        launcher.send_signal(getattr(signal, number))
        launcher.wait(30)
