"""PyTorch's names: groups with its arguments, collectives that write in place, messages, and values without pickle."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.errors import CollectiveMismatchError, CollectiveTimeoutError, ShapeError, UnsupportedError
from netcl.distributed import RankFailedError, ReduceOp, run
from netcl.distributed import distributed_c10d as c10d
from netcl.distributed.transports.shared_folder import segment_folder

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


# -- collectives -----------------------------------------------------------------------------------------------------


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


def test_functions_of_netcl_take_pytorchs_keywords() -> None:
    def rank(group: Any) -> None:
        x = tensor([float(group.rank)])
        assert dist.broadcast(x, src=1) is x
        assert x.tolist() == [1.0]
        x = tensor([1.0 + group.rank])
        dist.reduce(x, dst=1)
        assert x.tolist() == ([3.0] if group.rank else [1.0])
        parts = [tensor([0.0]), tensor([0.0])]
        assert dist.all_gather(parts, tensor([float(group.rank)])) is None
        assert [part.item() for part in parts] == [0.0, 1.0]
        assert dist.all_gather(tensor([float(group.rank)])).tolist() == [0.0, 1.0]
        if group.rank:
            dist.send(tensor([7.0]), dst=0)
        else:
            got = tensor([0.0])
            assert dist.recv(got, src=1) is got
            assert got.item() == 7.0
        with pytest.raises(TypeError, match="give the other rank, as to or as dst"):
            dist.send(x)
        with pytest.raises(TypeError, match="as source or as src"):
            dist.recv(x, 0, src=0)

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
        with pytest.raises(ShapeError, match="a tensor for each of the 2 ranks; given is 1 tensors"):
            c10d.all_gather([one], one)
        with pytest.raises(ShapeError, match="given is one tensor"):
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


# -- messages --------------------------------------------------------------------------------------------------------


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


# -- values ----------------------------------------------------------------------------------------------------------


def test_values_of_all_ranks() -> None:
    def rank(group: Any) -> None:
        me = group.rank
        value = {
            "rank": me,
            ("a", 1): [None, True, 0.1, float("inf"), "ü", b"\0\1", bytearray(b"x"), (1, [2])],
            "array": np.arange(3 * (me + 1), dtype=np.int16).reshape(-1, 3),
            "number": np.float32(me),
            "tensor": tensor([[me, 1.5]], "bfloat16"),
            "ordered": OrderedDict(b=1, a=2),
        }
        found: list[Any] = [None] * group.size
        dist.all_gather_object(found, value)
        for at, one in enumerate(found):
            assert (one["rank"], one["number"], one["array"].shape, one["array"].dtype) == (
                at,
                at,
                (at + 1, 3),
                np.int16,
            )
            assert one["a", 1] == value["a", 1]
            assert [type(part) for part in one["a", 1]] == [type(part) for part in value["a", 1]]
            assert (one["tensor"].tolist(), one["tensor"].dtype) == ([[at, 1.5]], "bfloat16")
            assert list(one["ordered"].items()) == [("b", 1), ("a", 2)]

        items: list[Any] = ["from 1", {"x": [1]}] if me == 1 else [None, None]
        dist.broadcast_object_list(items, src=1)
        assert items == ["from 1", {"x": [1]}]

        gathered: list[Any] | None = [None] * group.size if me == 0 else None
        dist.gather_object(str(me), gathered)
        assert gathered == (["0", "1", "2"] if me == 0 else None)

        out: list[Any] = [None]
        dist.scatter_object_list(out, ["a", "b", "c"] if me == 2 else None, src=2)
        assert out == ["abc"[me]]
        dist.broadcast_object_list(items, group=group, group_src=2)
        assert items == ["from 1", {"x": [1]}]

    dist.run_on_devices(rank, ["cpu"] * 3)


class _Unsafe:
    def __reduce__(self) -> Any:
        raise AssertionError("pickled")


@pytest.mark.parametrize("value", [_Unsafe(), {1, 2}, lambda: 0, np.array([_Unsafe()]), 1j, [{"a": object()}]])
def test_other_objects_are_refused_and_not_pickled(value: Any) -> None:
    with pytest.raises(TypeError, match="no rank unpickles"):
        dist.all_gather_object([None], value)
    with pytest.raises(TypeError, match="no rank unpickles"):
        dist.broadcast_object_list([value])


def test_lists_of_other_lengths_are_refused() -> None:
    def rank(group: Any) -> None:
        with pytest.raises(ShapeError, match=r"give \[None\] \* 2"):
            dist.all_gather_object([None], 1)
        with pytest.raises(ValueError, match="gives object_gather_list"):
            dist.gather_object(1, [None, None] if group.rank else None)
        with pytest.raises(ValueError, match="needs an item"):
            dist.scatter_object_list([], None)
        with pytest.raises(CollectiveMismatchError):
            dist.broadcast_object_list([None] * (group.rank + 1))

    dist.run_on_devices(rank, ["cpu", "cpu"])


# -- groups ----------------------------------------------------------------------------------------------------------


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


def test_numbers_and_addresses_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"port at which the ranks meet.*netcl\.distributed\.run"):
        dist.init_process_group("gloo", rank=1, world_size=2)
    with pytest.raises(ValueError, match="rank 2 of 2"):
        dist.init_process_group("gloo", rank=2, world_size=2)
    with pytest.raises(ValueError, match="rank 1 of -1"):
        dist.init_process_group("gloo", rank=1)
    with pytest.raises(UnsupportedError, match="rank 0 of 1 of the transport 'local', not 1 of 2"):
        dist.init_process_group("local", rank=1, world_size=2)
    with pytest.raises(UnsupportedError, match="'env://' or 'tcp://localhost:port'"):
        dist.init_process_group("gloo", "file:///tmp/x", rank=0, world_size=2)
    with pytest.raises(UnsupportedError, match="192.0.2.1 is another host"):
        dist.init_process_group("gloo", "tcp://192.0.2.1:123", rank=0, world_size=2)
    with pytest.raises(UnsupportedError, match="store"):
        dist.init_process_group("gloo", store=object())
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    assert dist.init_process_group("local").size == 1  # a transport by its name has its own numbers
    dist.destroy_process_group()
    with pytest.raises(CollectiveTimeoutError, match="rank 0 did not listen"):
        dist.init_process_group("gloo", timeout=0.2)
    assert not dist.is_initialized()


def test_rank_0_waits_for_ranks_and_refuses_others() -> None:
    port = free_port()
    with pytest.raises(CollectiveTimeoutError, match=r"the ranks \[1\] did not come in 0\.3 s"):
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}?rank=0&world_size=2", timeout=0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(RuntimeError, match="used by another program"):
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=2, timeout=5)
    assert not list(segment_folder().glob(f"netcl-{os.getpid()}-*"))


@pytest.mark.parametrize(
    ("deed", "seen"),
    [
        ("work", None),
        ("end", "RankFailedError: rank 2 has ended"),
        pytest.param(
            "kill",
            "RankFailedError: rank 2 has ended",
            marks=pytest.mark.skipif(os.name == "nt", reason="ends a rank by SIGKILL, which Linux and macOS have"),
        ),
        ("mismatch", "CollectiveMismatchError: the ranks do not call the same collective"),
    ],
)
def test_processes_without_a_launcher_meet_at_a_port(deed: str, seen: str | None) -> None:
    port = str(free_port())
    env = {**os.environ, "NETCL_DEVICE": "cpu"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(MEETING), str(rank), "3", port, deed], env=env, stdout=subprocess.PIPE, text=True
        )
        for rank in (2, 0, 1)
    ]
    try:
        texts = [process.communicate(timeout=100)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [text.splitlines()[0] for text in texts] == [f"rank {rank} of 3: 6 gloo" for rank in (2, 0, 1)]
    for text in texts[1:]:
        assert (seen or "") in "".join(text.splitlines()[1:])
        assert len(text.splitlines()) == (1 if seen is None else 2)
    limit = time.monotonic() + 10
    while (left := list(segment_folder().glob(f"netcl-{processes[1].pid}-*"))) and time.monotonic() < limit:
        time.sleep(0.05)
    assert left == []


def test_a_group_that_a_stranger_and_a_wrong_rank_disturb_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    env = {**os.environ, "NETCL_DEVICE": "cpu"}
    command = [sys.executable, str(MEETING), "1", "2", str(port), "work"]
    zero = subprocess.Popen([*command[:2], "0", *command[3:]], env=env, stdout=subprocess.PIPE, text=True)
    try:
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            try:
                stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
            except OSError:
                time.sleep(0.05)
                continue
            break
        with stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert stranger.recv(100).startswith(b"refused: this is rank 0 of 2")
        with pytest.raises(RuntimeError, match="refused: this is rank 0 of 2, there comes rank 1 of 3"):
            dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=1, world_size=3, timeout=20)
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        assert done.stdout == "rank 1 of 2: 3 gloo\n"
        assert zero.communicate(timeout=60)[0] == "rank 0 of 2: 3 gloo\n"
    finally:
        zero.kill()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the modes of files are those of POSIX systems")
def test_memory_that_another_user_could_write_is_refused(tmp_path: Path) -> None:
    offered = tmp_path / "netcl-1-0"
    offered.write_bytes(bytes(1 << 16))
    offered.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(f"{offered}\n".encode())

        other = threading.Thread(target=answer)
        other.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RuntimeError, match="is not trusted"):
            dist.init_process_group("gloo", address, rank=1, world_size=2, timeout=20)
        other.join()
    assert not dist.is_initialized()


# -- the launcher ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("-n", "2"),
        ("--nproc-per-node", "2", "--standalone", "--nnodes", "1"),
        ("--nproc_per_node=2", "--nnodes=1:1", "--node_rank=0", "--rdzv_backend=c10d", "--rdzv-endpoint=localhost:0"),
    ],
)
def test_the_launcher_takes_options_of_torchrun_and_sets_its_variables(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    script = tmp_path / "variables.py"
    script.write_text(
        "import json, os, sys\n"
        "names = 'RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT'.split()\n"
        "line = json.dumps([sys.argv[1:], {name: os.environ[name] for name in names}])\n"
        "print(line + '\\n', end='', flush=True)\n"  # one write: the ranks share the pipe
    )
    command = [sys.executable, "-m", "netcl.distributed.run", *options, str(script), "--lr", "-n"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    found = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda one: one[1]["RANK"])
    port = found[0][1].pop("MASTER_PORT")
    assert port == found[1][1].pop("MASTER_PORT")
    assert 1024 <= int(port) < 65536
    for rank, (arguments, variables) in enumerate(found):
        assert arguments == ["--lr", "-n"]
        assert variables == {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
        }


def test_the_launcher_refuses_several_hosts_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (("--nnodes", "2", "x.py"), "mpiexec"),
        (("--node-rank", "1", "x.py"), "mpiexec"),
        (("--nproc-per-node", "many", "x.py"), "'many' is no number of processes"),
        (("-n", "0", "x.py"), "-n is at least 1"),
    ):
        with pytest.raises(SystemExit):
            run.parse(arguments)
        assert said in capsys.readouterr().err
    assert run.parse(["--nproc-per-node", "cpu", "x.py"]).n == os.cpu_count()
    assert run.parse(["x.py"]).n == 1
    assert run.parse(["--master-port", "29500", "-m", "x", "-m"]).master_port == 29500
    assert run.parse(["x.py", "--master", "1", "--n", "2"]).arguments == ["--master", "1", "--n", "2"]


def test_a_script_of_the_launcher_joins_by_pytorchs_arguments(tmp_path: Path, launch: Callable[..., Any]) -> None:
    script = tmp_path / "joins.py"
    script.write_text(
        "import os, numpy as np\n"
        "from netcl import distributed as dist\n"
        "rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
        "dist.init_process_group('gloo', 'env://', rank=rank, world_size=size)\n"
        "x = np.ones(3) * rank\n"
        "dist.all_reduce(x, op=dist.ReduceOp.SUM)\n"
        "os.write(1, f'{dist.get_backend()} {x.tolist()}\\n'.encode())\n"  # one write, which no other rank divides
        "dist.destroy_process_group()\n"
        "dist.init_process_group('gloo', rank=rank, world_size=3)\n"
    )
    done = launch(2, script)
    assert done.stdout.splitlines() == ["gloo [1.0, 1.0, 1.0]"] * 2
    assert done.returncode == 1
    assert "is rank 1 of 2 of the transport 'shared', not 1 of 3" in done.stderr or "not 0 of 3" in done.stderr


def test_a_rank_that_raises_in_a_collective_of_pytorchs_names_is_named() -> None:
    def rank(group: Any) -> None:
        if group.rank == 1:
            raise ValueError("too bad")
        with pytest.raises(RankFailedError, match="rank 1 raised ValueError"):
            c10d.all_gather([tensor(0.0), tensor(0.0)], tensor(1.0))

    with pytest.raises(ValueError, match="too bad"), device("cpu"):
        dist.run_on_devices(rank, ["cpu", "cpu"])
