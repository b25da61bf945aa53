"""The functions of torch.distributed: collectives that write in place, messages, and properties of groups."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.errors import CollectiveMismatchError, ShapeError, UnsupportedError
from netcl.distributed import RankFailedError, ReduceOp
from netcl.distributed import distributed_c10d as c10d

MEETING = Path(__file__).parent / "ranks" / "meeting.py"


def tensor(values: Any, dtype: str = "float32") -> Tensor:
    return Tensor.from_host(np.asarray(values), dtype)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variables of a launcher, and no group after the test."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    yield
    dist.destroy_process_group()


def test_collectives_write_in_place_on_every_device(handles: list[DeviceHandle]) -> None:
    def rank(group: Any) -> None:
        size, me = group.size, group.rank
        total = size * (size + 1) // 2

        x = tensor(me + 1.0)
        assert c10d.all_reduce(x) is None
        assert x.item() == total
        x = tensor([me + 1.0, 2.0])
        c10d.all_reduce(x, ReduceOp.PRODUCT, group)
        assert x.tolist()[1] == 2.0**size
        x = tensor([me + 1.0])
        c10d.all_reduce(x, op=ReduceOp.AVG)
        assert x.item() == total / size
        for op, wanted in ((ReduceOp.MIN, 1.0), (ReduceOp.MAX, float(size))):
            x = tensor(me + 1.0)
            c10d.all_reduce(x, op)
            assert x.item() == wanted

        x = tensor([[float(me)] * 3])
        assert c10d.broadcast(x, 1) is None
        assert x.tolist() == [[1.0] * 3]
        x = tensor([me + 1.0])
        c10d.reduce(x, dst=1)
        assert x.item() == (total if me == 1 else me + 1.0)

        parts = [tensor(0.0) for _ in range(size)]
        assert c10d.all_gather(parts, tensor(float(me))) is None
        assert [part.item() for part in parts] == list(range(size))
        parts = [tensor(np.zeros((at + 1, 2))) for at in range(size)]
        c10d.all_gather(parts, tensor(np.full((me + 1, 2), me)))
        assert [part.tolist() for part in parts] == [[[at] * 2] * (at + 1) for at in range(size)]

        for shape in ((size * 2, 3), (size, 2, 3)):
            out = tensor(np.zeros(shape))
            c10d.all_gather_into_tensor(out, tensor(np.full((2, 3), me)))
            assert out.numpy().reshape(size, -1).tolist() == [[at] * 6 for at in range(size)]

        out = tensor(np.zeros((2, 2)))
        c10d.reduce_scatter(out, [tensor(np.full((2, 2), me + 10.0 * at)) for at in range(size)])
        assert out.tolist() == [[total - size + 10.0 * me * size] * 2] * 2
        out = tensor(np.zeros(2))
        c10d.reduce_scatter_tensor(out, tensor(np.repeat(np.arange(size), 2) + me), op=ReduceOp.MAX)
        assert out.tolist() == [me + size - 1.0] * 2

        targets = [tensor(np.zeros(2)) for _ in range(size)] if me == 1 else None
        c10d.gather(tensor([me, me]), targets, dst=1)
        assert targets is None or [one.tolist() for one in targets] == [[at, at] for at in range(size)]
        out = tensor(np.zeros((1, 2)))
        c10d.scatter(out, [tensor([[at, at]]) for at in range(size)] if me == 1 else None, src=1)
        assert out.tolist() == [[me, me]]
        c10d.barrier()
        c10d.monitored_barrier()

    dist.run_on_devices(rank, handles)


def test_arrays_and_other_dtypes_are_written_too() -> None:
    def rank(group: Any) -> None:
        whole = np.zeros(2 * group.size, np.int64)
        c10d.all_gather_into_tensor(whole, np.array([group.rank, 7]))
        assert whole.tolist() == [0, 7, 1, 7]
        parts = [tensor([0.0], "bfloat16") for _ in range(2)]
        c10d.all_gather(parts, tensor([group.rank + 0.5], "bfloat16"))
        assert [part.tolist() for part in parts] == [[0.5], [1.5]]
        flags = [tensor([False], "bool") for _ in range(2)]
        c10d.all_gather(flags, tensor([group.rank == 1], "bool"))
        assert [flag.tolist() for flag in flags] == [[False], [True]]

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_handles_end_with_the_collective() -> None:
    def rank(group: Any) -> None:
        x, parts = tensor([1.0, 2.0]), [tensor(0.0), tensor(0.0)]
        works = [c10d.all_reduce(x, async_op=True), c10d.all_gather(parts, tensor(float(group.rank)), async_op=True)]
        works += [c10d.broadcast(y := tensor([float(group.rank)]), 0, async_op=True), c10d.barrier(async_op=True)]
        assert all(work.wait(timedelta(seconds=60)) for work in works)
        assert all(work.is_completed() and work.is_success() and work.exception() is None for work in works)
        assert x.tolist() == [2.0, 4.0]
        assert [part.item() for part in parts] == [0.0, 1.0]
        assert y.item() == 0.0

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_wrong_lists_and_sizes_are_refused_before_the_collective() -> None:
    def rank(group: Any) -> None:
        one = tensor([1.0])
        with pytest.raises(ShapeError, match="a tensor for each of the 2 ranks, got 1 tensors"):
            c10d.all_gather([one], one)
        with pytest.raises(ShapeError, match="got one tensor"):
            c10d.all_gather(one, one)  # type: ignore[arg-type]
        with pytest.raises(ShapeError, match="output_tensor has 3 elements, input_tensor 1 on each of 2 ranks"):
            c10d.all_gather_into_tensor(tensor(np.zeros(3)), one)
        with pytest.raises(ShapeError, match="a part has shape"):
            c10d.reduce_scatter(one, [one, tensor([1.0, 2.0])])
        with pytest.raises(ShapeError, match="input has 3 elements"):
            c10d.reduce_scatter_tensor(one, tensor(np.zeros(3)))
        with pytest.raises(ValueError, match="rank 0, and no other, gives gather_list"):
            c10d.gather(one, None if group.rank == 0 else [one, one])
        with pytest.raises(ValueError, match="gives scatter_list"):
            c10d.scatter(one, [one, one], src=1 - group.rank)
        with pytest.raises(ValueError, match="not both"):
            c10d.broadcast(one, 0, group_src=0)
        with pytest.raises(UnsupportedError, match=r"ReduceOp\.BAND"):
            c10d.all_reduce(one, ReduceOp.BAND)
        with pytest.raises(AttributeError, match="SUMM"):
            _ = ReduceOp.SUMM

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_ranks_that_call_differently_are_told() -> None:
    def rank(group: Any) -> None:
        with pytest.raises(CollectiveMismatchError, match="rank 0 called #1 all_reduce"):
            (c10d.all_reduce if group.rank == 0 else c10d.broadcast)(tensor([1.0]))

    def sizes(group: Any) -> None:
        with pytest.raises(CollectiveMismatchError, match="sent 3 elements in all, the tensors of this rank have 2"):
            c10d.all_gather([tensor([1.0]), tensor([1.0])], tensor(np.ones(group.rank + 1)))

    dist.run_on_devices(rank, ["cpu", "cpu"])
    dist.run_on_devices(sizes, ["cpu", "cpu"])


def test_large_messages_cross() -> None:
    def rank(group: Any) -> None:
        other = 1 - group.rank
        given, taken = np.full(3_000_000, float(group.rank)), np.empty(3_000_000)
        small = [np.empty(1), np.empty(1)]
        works = [c10d.isend(given, other), c10d.isend(np.array([5.0]), other), c10d.irecv(taken, other)]
        works += [c10d.irecv(small[0], other)]
        assert all(work.wait() for work in works)
        assert (taken == other).all()
        assert small[0][0] == 5.0
        listed = [c10d.P2POp(c10d.isend, given, other), c10d.P2POp(c10d.irecv, taken, other)]
        for work in c10d.batch_isend_irecv(listed):
            work.wait()
        if group.rank == 0:
            c10d.send(tensor([3.0]), 1)
        else:
            got = tensor([0.0])
            assert c10d.recv(got, src=0) == 0
            assert got.item() == 3.0

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_tags_any_source_and_wrong_shapes_are_refused() -> None:
    def rank(group: Any) -> None:
        x = np.ones(2)
        with pytest.raises(UnsupportedError, match="no tags"):
            c10d.send(x, 1 - group.rank, tag=3)
        with pytest.raises(UnsupportedError, match="name the other rank by src"):
            c10d.recv(x)
        if group.rank == 0:
            c10d.isend(np.ones(3), 1).wait()
        else:
            with pytest.raises(CollectiveMismatchError, match=r"rank 0 sent shape \(3,\)"):
                c10d.irecv(x, 0).wait()

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_properties_of_a_group() -> None:
    assert dist.is_available()
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="call init_process_group first"):
        dist.get_backend()
    assert c10d.group.WORLD is None
    group = dist.init_process_group("nccl", timeout=timedelta(minutes=2))
    assert group.timeout == 120.0
    assert dist.is_initialized()
    assert dist.get_backend() == "nccl"
    assert c10d.group.WORLD is group
    assert c10d.GroupMember.WORLD is group
    assert (dist.get_rank(group), dist.get_world_size(group), c10d.get_rank(), c10d.get_world_size()) == (0, 1, 0, 1)
    assert c10d.get_process_group_ranks() == [0]
    assert c10d.get_node_local_rank() == 0
    assert dist.new_group() is group
    dist.destroy_process_group(group)
    assert not dist.is_initialized()
    assert c10d.get_node_local_rank(3) == 3
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not set"):
        c10d.get_node_local_rank()
    dist.init_process_group()
    assert dist.get_backend() == "local"


def test_parts_of_a_group() -> None:
    def rank(group: Any) -> None:
        alone = [dist.new_group([0]), dist.new_group([1])]
        mine, other = alone[group.rank], alone[1 - group.rank]
        assert other is c10d.GroupMember.NON_GROUP_MEMBER
        assert (c10d.get_rank(mine), c10d.get_world_size(mine), c10d.get_rank(other)) == (0, 1, -1)
        assert c10d.get_process_group_ranks(mine) == [group.rank]
        assert (c10d.get_group_rank(mine, group.rank), c10d.get_global_rank(mine, 0)) == (0, group.rank)
        x = tensor([1.0])
        c10d.all_reduce(x, group=mine)
        c10d.broadcast(x, group.rank, mine)
        assert x.item() == 1.0
        with pytest.raises(ValueError, match="not in the group"):
            c10d.broadcast(x, 1 - group.rank, mine)
        with pytest.raises(ValueError, match="not a member"):
            c10d.all_reduce(x, group=other)
        assert dist.new_group([1, 0]) is group
        with pytest.raises(UnsupportedError, match="all ranks in their order, or one of them"):
            dist.new_group([1, 0], sort_ranks=False)

    dist.run_on_devices(rank, ["cpu", "cpu"])


def test_a_rank_that_raises_in_a_collective_of_pytorchs_names_is_named() -> None:
    def rank(group: Any) -> None:
        if group.rank == 1:
            raise ValueError("too bad")
        with pytest.raises(RankFailedError, match="rank 1 raised ValueError"):
            c10d.all_gather([tensor(0.0), tensor(0.0)], tensor(1.0))

    with pytest.raises(ValueError, match="too bad"), device("cpu"):
        dist.run_on_devices(rank, ["cpu", "cpu"])
