"""Sums on the devices by page-locked memory: the bits of the sums on the host, faults, and captured training."""

from __future__ import annotations

import re
import runpy
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.core import DeviceHandle, Tensor, config, manager
from netcl.core.device import device
from netcl.core.errors import CaptureError, CollectiveMismatchError, CollectiveTimeoutError
from netcl.distributed import RankFailedError, run_on_devices
from netcl.distributed.group import ProcessGroup
from netcl.distributed.staging import exchange as staging_exchange
from netcl.distributed.staging.locked_memory import LockedMemory
from netcl.distributed.training.buckets import Buckets
from netcl.distributed.transports.local import LocalGroup
from netcl.distributed.transports.segment import StagingSegment, segment_bytes
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("staging", "capture")

RANKS = Path(__file__).parent / "ranks"
COUNT = 3_000_017


@pytest.fixture(params=["gathering", "reducing"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns both ways of an exchange, for groups that take the first."""
    monkeypatch.setattr(staging_exchange, "_GATHERING_RANKS", 3 if request.param == "gathering" else 0)
    return str(request.param)


@pytest.fixture
def small_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that the tensors of these tests fill many times."""
    for module in ("netcl.distributed.transports.local", "netcl.distributed.transports.shared"):
        monkeypatch.setattr(sys.modules[module], "SLOT_BYTES", 1 << 20)


def summed(handles: list[DeviceHandle], way: str, op: str, dtype: str) -> list[Any]:
    """Returns the sums of the ranks on ``handles``, by the host or by the devices."""

    def rank(group: ProcessGroup) -> Any:
        values = np.random.default_rng(group.rank).standard_normal(COUNT) * 10
        x = Tensor.from_host(values.astype(np.float32), dtype=dtype)
        group.all_reduce(x, op)
        assert (group.exchange(x.device) is not None) == (way == "on")
        return x.numpy()

    with config.override(DIST_STAGING=way):
        return run_on_devices(rank, handles)


@pytest.mark.usefixtures("small_slots", "way")
@pytest.mark.parametrize(
    ("op", "dtype"),
    [("sum", "float32"), ("mean", "float32"), ("sum", "bfloat16"), ("mean", "float16"), ("sum", "int32")],
)
def test_the_devices_give_the_bits_of_the_host(handles: list[DeviceHandle], op: str, dtype: str) -> None:
    for host, devices in zip(summed(handles, "off", op, dtype), summed(handles, "on", op, dtype)):
        np.testing.assert_array_equal(host, devices)


@pytest.mark.usefixtures("small_slots", "way")
def test_sums_follow_each_other_while_the_queue_computes(handles: list[DeviceHandle]) -> None:
    def rank(group: ProcessGroup) -> Any:
        x = Tensor.from_host(np.arange(600_000, dtype=np.float32))
        exchange = group.exchange(x.device)
        assert exchange is not None
        under_way = []
        for turn in range(6):
            y = x * float(turn + 1)
            under_way.append((y, exchange.all_reduce(y)))
        for _, delivery in under_way:
            delivery.wait()
        return [y.numpy() for y, _ in under_way]

    with config.override(DIST_STAGING="on"):
        for found in run_on_devices(rank, handles):
            for turn, total in enumerate(found):
                expected = len(handles) * (turn + 1) * np.arange(600_000, dtype=np.float64)
                np.testing.assert_allclose(total, expected, rtol=1e-6)


def test_tensors_of_different_lengths_are_gathered_on_the_devices(handles: list[DeviceHandle]) -> None:
    def rank(group: ProcessGroup) -> Any:
        assert group.exchange(Tensor.empty((0,)).device) is not None
        x = Tensor.from_host(np.full((1000 * group.rank, 7), group.rank, np.float32))
        total = Tensor.from_host(np.full((3, 2), group.rank, np.int32))
        return group.all_gather(x).numpy(), group.all_gather(total, async_op=True).wait().numpy()

    with config.override(DIST_STAGING="on"):
        for rows, same in run_on_devices(rank, handles):
            ranks = range(len(handles))
            expected = np.concatenate([np.full((1000 * number, 7), number) for number in ranks])
            np.testing.assert_array_equal(rows, expected)
            np.testing.assert_array_equal(same, np.repeat(list(ranks), 3)[:, None].repeat(2, 1))


@pytest.mark.parametrize("compression", [None, "float16"])
def test_gradients_that_the_host_sums_pass_through_page_locked_memory(
    handles: list[DeviceHandle], compression: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over MPI: without an exchange of the devices. A layer has no gradients, one has some on one rank alone."""
    nn = pytest.importorskip("netcl.nn", reason="trains a model of netcl-nn, which is not installed")
    monkeypatch.setattr(LocalGroup, "exchange", lambda group, handle, always=False: None)

    def rank(group: ProcessGroup) -> Any:
        module = nn.ModuleList([nn.Linear(33, 17), nn.Linear(17, 5), nn.Linear(2, 2), nn.Linear(33, 5)])
        for number, param in enumerate(module.parameters()):
            param.write(np.random.default_rng(number).standard_normal(param.shape).astype(np.float32))
        buckets = Buckets(list(module.parameters()), None, group, 1000, compression)
        assert isinstance(buckets._memory, LockedMemory) == (config.get("DIST_STAGING") == "on")
        found = []
        for step in range(3):
            x = Tensor.from_host(np.random.default_rng(10 * step + group.rank).standard_normal((9, 33)).astype("f4"))
            y = module[1](module[0](x))
            (y + module[3](x) if group.rank == group.size - 1 else y).square().mean().backward()
            buckets.begin()
            for place, param in reversed([*enumerate(module.parameters())]):
                if param.grad is not None:
                    buckets.add(place, param.grad)
                    param.grad = None
            sums = [total if total is None else np.array(total) for total in buckets.finish()]
            assert [place for place, total in enumerate(sums) if total is None] == [4, 5]
            found += [total for total in sums if total is not None]
        return found

    with config.override(DIST_STAGING="off"):
        host = run_on_devices(rank, handles)
    with config.override(DIST_STAGING="on"):
        locked = run_on_devices(rank, handles)
    for theirs, ours in zip(host, locked):
        for expected, found in zip(theirs, ours):
            np.testing.assert_array_equal(found, expected)


def test_small_tensors_arrays_and_other_deliverys_stay_on_the_host() -> None:
    def rank(group: ProcessGroup) -> None:
        small = Tensor.from_host(np.ones(10, np.float32))
        assert float(group.all_reduce(small).sum()) == 20
        large = Tensor.from_host(np.full(1 << 19, group.rank, np.float32))
        assert float(group.all_reduce(large, "max").max()) == 1
        assert group._exchange is None  # type: ignore[attr-defined]

    with config.override(DIST_STAGING="on"):
        run_on_devices(rank, ["cpu", "cpu"])


def test_one_driver_that_refuses_the_memory_makes_all_use_the_host(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = staging_exchange.StagedExchange

    def refusing(buffer: Any, segment: Any, queue: Any) -> Any:
        if buffer.rank == 0:
            raise RuntimeError("no memory can be locked")
        return made(buffer, segment, queue)

    def rank(group: ProcessGroup) -> bool:
        x = Tensor.from_host(np.ones(1 << 19, np.float32))
        group.all_reduce(x)
        return group.exchange(x.device) is None and float(x.sum()) == 1 << 20

    monkeypatch.setattr(sys.modules["netcl.distributed.transports.shared_buffer_group"], "StagedExchange", refusing)
    with config.override(DIST_STAGING="on"):
        assert run_on_devices(rank, ["cpu", "cpu"]) == [True, True]
    assert "no memory can be locked" in caplog.text


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("fault", ["raise", "late", "other"])
def test_threads_say_what_is_wrong_with_a_rank(fault: str) -> None:
    errors = {"raise": RankFailedError, "late": CollectiveTimeoutError, "other": CollectiveMismatchError}
    texts = {"raise": "rank 1 raised KeyError", "late": "rank 1 did not come within 1 s", "other": "a tensor of 400000"}
    ended = threading.Event()

    def rank(group: ProcessGroup) -> None:
        x = Tensor.from_host(np.ones(300_000, np.float32))
        exchange = group.exchange(x.device)
        assert exchange is not None
        exchange.all_reduce(x).wait()
        group.timeout = 1.0
        if group.rank == 1 and fault == "raise":
            raise KeyError("lost")
        if group.rank == 1 and fault == "late":
            ended.wait(30)
            return
        if group.rank == 1:
            x = Tensor.from_host(np.ones(400_000, np.float32))
        with pytest.raises(errors[fault], match=texts[fault]):
            exchange.all_reduce(x).wait()
        with pytest.raises(errors[fault], match=texts[fault]):
            exchange.all_reduce(x)
        ended.set()

    with config.override(DIST_STAGING="on"):
        if fault == "raise":
            with pytest.raises(KeyError):
                run_on_devices(rank, ["cpu", "cpu"])
        else:
            run_on_devices(rank, ["cpu", "cpu"])


def test_what_is_under_way_when_a_group_is_closed_has_an_error() -> None:
    made = threading.Barrier(2)

    def rank(group: ProcessGroup) -> None:
        x = Tensor.from_host(np.ones(300_000, np.float32))
        exchange = group.exchange(x.device)
        assert exchange is not None
        made.wait(30)
        if group.rank == 0:  # the other rank sends nothing
            delivery = exchange.all_gather(x, [Tensor.empty(x.shape)])
            group.close()
            with pytest.raises(RuntimeError, match="the group was closed"):
                delivery.wait()
        made.wait(30)

    with config.override(DIST_STAGING="on"):
        run_on_devices(rank, ["cpu", "cpu"])


def test_the_turns_of_threads_are_as_long_as_before_when_an_exchange_ends() -> None:
    before = sys.getswitchinterval()
    summed([handle for _ in range(2) if (handle := device_of("cpu"))], "on", "sum", "float32")
    assert sys.getswitchinterval() == before


def device_of(selector: str) -> DeviceHandle:
    with device(selector) as handle:
        return handle


def test_a_segment_has_room_for_the_largest_part_of_each_rank() -> None:
    import mmap

    for size in (2, 3, 7):
        nbytes = segment_bytes(size, 6, 1 << 18)
        segment = StagingSegment(mmap.mmap(-1, nbytes), size, 6, 1 << 18)
        places = sorted(
            place
            for rank in range(size)
            for slot in range(6)
            for place in (
                (segment.elements(rank, slot), 1 << 18),
                (segment.sum(rank, slot), -(-(1 << 18) // size) + 512),
            )
        )
        assert all(at + length <= following for (at, length), (following, _) in zip(places, places[1:]))
        assert places[-1][0] + places[-1][1] <= nbytes
        segment.close()


@pytest.mark.parametrize(
    ("fault", "code", "seen"),
    [
        ("kill", 137, "RankFailedError LAST: rank LAST was killed by SIGKILL"),
        ("sleep", 1, "CollectiveTimeoutError: rank LAST did not come within 2 s; rank . waited"),
        (
            "other",
            1,
            r"CollectiveMismatchError: .*rank 0 called .* all_reduce on devices .*rank LAST called .* broadcast",
        ),
        ("shape", 1, r"CollectiveMismatchError: .*rank 0 called .*\(262144, 8\).*rank LAST called .*\(262144, 9\)"),
    ],
)
def test_processes_say_what_is_wrong_with_a_rank(
    fault: str, code: int, seen: str, launch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETCL_DIST_STAGING", "on")
    before = set(Path("/dev/shm").glob("netcl-*"))
    timeout = 2 if fault == "sleep" else 90
    done = launch(2, RANKS / "faults.py", fault, options=("--timeout", str(timeout)))
    assert done.returncode == code, done.stderr
    assert re.search("rank 0 " + seen.replace("LAST", "1"), done.stdout), done.stdout + done.stderr
    made = set(Path("/dev/shm").glob("netcl-*")) - before  # other tests may run at the same time
    assert not [path for path in made if not Path(f"/proc/{path.name.split('-')[1]}").exists()]


@pytest.mark.parametrize("place", ["cpu", pytest.param("opencl", marks=pytest.mark.deep)])
def test_captured_steps_have_the_bits_of_eager_ones(
    place: str, tmp_path: Path, launch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("netcl.nn", reason="trains models of netcl-nn, which is not installed")
    monkeypatch.setenv("NETCL_DIST_STAGING", "on")
    monkeypatch.setenv("NETCL_DEVICE", place)
    done = launch(2, RANKS / "captured.py", str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    eager, captured = (dict(np.load(tmp_path / f"state-{kind}.npz")) for kind in ("eager", "captured"))
    assert eager.keys() == captured.keys()
    for name, values in eager.items():
        np.testing.assert_array_equal(values, captured[name], err_msg=name)
    with device(place):
        alone = runpy.run_path(str(RANKS / "captured.py"))["train"](None, False)
    for name, values in alone.items():
        np.testing.assert_allclose(eager[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["all_reduce", "all_gather"])
def test_collectives_of_tensors_are_not_captured(name: str) -> None:
    def rank(group: ProcessGroup) -> float:
        x = Tensor.ones((COUNT,))
        group.all_reduce(Tensor.ones((COUNT,)))  # makes the exchange

        def step(given: Tensor) -> Any:
            return getattr(group, name)(given * 2.0)

        with pytest.raises(CaptureError, match="which a replay does not run"):
            capture(step, x)
        return float(getattr(group, name)(x).sum())

    handle = manager.default()
    assert handle is not None
    with config.override(DIST_STAGING="on"):
        assert run_on_devices(rank, manager.split(handle, 2)) == [2.0 * COUNT] * 2
