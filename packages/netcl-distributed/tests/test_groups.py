"""Every collective of a process group over the local and the shared transport, and what makes a group."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.core import config
from netcl.core.errors import CollectiveMismatchError, CollectiveTimeoutError
from netcl.distributed import ProcessGroup, RankFailedError, local_groups, run_on_devices

RANKS = Path(__file__).parent / "ranks"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads_agree_on_every_collective(size: int) -> None:
    check_all = runpy.run_path(str(RANKS / "collectives.py"))["check_all"]
    run_on_devices(check_all, ["cpu"] * size)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_processes_agree_on_every_collective(size: int, launch: Callable[..., Any]) -> None:
    done = launch(size, RANKS / "collectives.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of {size} is well" for rank in range(size)]


def test_a_thread_that_raises_ends_the_others() -> None:
    seen: list[RankFailedError] = []

    def work(group: ProcessGroup) -> None:
        if group.rank == 1:
            raise KeyError("lost")
        with pytest.raises(RankFailedError, match="rank 1 raised KeyError") as caught:
            group.barrier()
        seen.append(caught.value)

    with pytest.raises(KeyError, match="lost"):
        run_on_devices(work, ["cpu", "cpu"])
    assert seen[0].rank == 1


def test_a_thread_that_ends_or_is_late_is_named() -> None:
    def ends(group: ProcessGroup) -> None:
        if group.rank == 0:
            group.barrier()

    with pytest.raises(RankFailedError, match="rank 1 has ended"):
        run_on_devices(ends, ["cpu", "cpu"])
    early, late = local_groups(2, timeout=0.05)
    with pytest.raises(CollectiveTimeoutError, match=r"rank 1 did not come within 0\.05 s"):
        early.barrier()
    with pytest.raises(CollectiveTimeoutError, match="rank 1 did not come"):
        late.barrier()
    handle = local_groups(2)[0].barrier(async_op=True)
    with pytest.raises(CollectiveTimeoutError, match="barrier has not ended"):
        handle.wait(timeout=0.01)


def test_a_letter_of_another_shape_is_refused() -> None:
    first, second = local_groups(2, timeout=5)
    first.send(np.zeros(3), 1)
    with pytest.raises(CollectiveMismatchError, match=r"rank 0 sent shape \(3,\) .* expected shape \(4,\)"):
        second.recv(np.zeros(4), 0)
    with pytest.raises(CollectiveMismatchError, match="rank 0 sent"):
        first.barrier()
    with pytest.raises(ValueError, match="got rank 0 with itself"):
        first.send(np.zeros(3), 0)


def test_the_parts_of_a_scatter_have_the_rows_of_the_whole() -> None:
    def work(group: ProcessGroup) -> None:
        out = np.zeros((2, 3))
        with pytest.raises(CollectiveMismatchError, match="4 rows in all, the tensor of rank 0 has 5"):
            group.scatter(np.zeros((5, 3)) if group.rank == 0 else None, out)
        with pytest.raises(CollectiveMismatchError, match="other axes"):
            group.scatter(np.zeros((4, 2)) if group.rank == 0 else None, out)

    run_on_devices(work, ["cpu", "cpu"])


def test_what_the_root_does_alone_is_waited_for_and_its_error_told() -> None:
    done: list[int] = []

    def work(group: ProcessGroup) -> None:
        assert dist.on_root(lambda: done.append(group.rank) or "saved") == ("saved" if group.rank == 0 else None)
        assert done == [0]
        dist.on_root(lambda: (_ for _ in ()).throw(OSError("disk full")))

    with pytest.raises(OSError, match="disk full"):
        run_on_devices(work, ["cpu"])
    done.clear()

    def told(group: ProcessGroup) -> None:
        with pytest.raises(OSError if group.rank == 0 else RankFailedError):
            work(group)

    run_on_devices(told, ["cpu", "cpu"])


class _Point:
    name = "elsewhere"

    def load(self) -> Callable[[float], ProcessGroup]:
        return lambda timeout: local_groups(1, timeout + 1)[0]


def test_one_group_at_a_time_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with config.override(DIST_TIMEOUT_S=7):
        group = dist.init_process_group()
    try:
        assert (group.size, group.timeout, dist.get_local_rank()) == (1, 7.0, 0)
        with pytest.raises(RuntimeError, match="in a group already"):
            dist.init_process_group("local")
    finally:
        dist.destroy_process_group()
    assert dist.current_group() is None
    with config.override(RANK=3, WORLD_SIZE=4, LOCAL_RANK=1):
        assert (dist.get_rank(), dist.get_world_size(), dist.get_local_rank()) == (3, 4, 1)
    with pytest.raises(ValueError, match="no transport 'pigeon'; there are local, shared, mpi"):
        dist.init_process_group("pigeon")
    with pytest.raises(RuntimeError, match="needs a launcher"):
        dist.init_process_group("shared")
    with config.override(RANK=0, RENDEZVOUS="/nowhere/netcl-1-0"), pytest.raises(RuntimeError, match="is gone"):
        dist.init_process_group()
    monkeypatch.setattr("netcl.distributed.init_group.entry_points", lambda group: [_Point()])
    try:
        assert dist.init_process_group("elsewhere", timeout=2).timeout == 3
    finally:
        dist.destroy_process_group()
