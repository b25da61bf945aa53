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
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.core import Tensor
from netcl.core.errors import CollectiveMismatchError, CollectiveTimeoutError, ShapeError, UnsupportedError
from netcl.distributed import run
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
    """Removes variables of a launcher, and the group after the test."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    yield
    dist.destroy_process_group()


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


def test_numbers_and_addresses_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"port at which the ranks meet.*netcl\.distributed\.run"):
        dist.init_process_group("gloo", rank=1, world_size=2)
    with pytest.raises(ValueError, match="rank 2 of 2"):
        dist.init_process_group("gloo", rank=2, world_size=2)
    with pytest.raises(ValueError, match="rank 1 of -1"):
        dist.init_process_group("gloo", rank=1)
    with pytest.raises(UnsupportedError, match="expected rank 1 of 2, got rank 0 of 1 of transport 'local'"):
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
        (("-n", "0", "x.py"), "expected -n of at least 1"),
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
    assert "expected rank 1 of 3, got rank 1 of 2 of transport 'shared'" in done.stderr or "rank 0 of 3" in done.stderr
