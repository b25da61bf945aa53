"""Launches that wait for their programs: the order, the values, and the errors are as of launches made at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from netcl.core import DeviceHandle, Tensor, config, manager
from netcl.core.backend.opencl.queue.builds import build_processes, deferred_launches
from netcl.core.backend.opencl.queue.builds.build_processes import BuildProcesses
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.errors import CaptureError, KernelBuildError
from netcl.core.kernels.primitives import KernelSpec
from netcl.core.process import late_launches
from netcl.runtime.capture import capture


@pytest.fixture
def engine(handle: DeviceHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yields an engine of its own, without built programs, with one child process that may build."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    other = manager._new_handle(handle.platform_name, handle.device)
    monkeypatch.setattr(build_processes, "_of_devices", {})
    with config.override(BUILD_PROCESSES=1, CACHE_DIR=tmp_path), device(other):
        found = engine_for(other)
        yield found
        late_launches.enqueue()
    build_processes.processes_for(found.queue.device).close()


def _armed(engine: Any) -> Tensor:
    """Returns a tensor of 0 to 5, after a program that was missing."""
    x: Tensor = Tensor.from_host(np.arange(6, dtype=np.float32))
    engine.finish()
    x + 0.5  # built at once
    assert engine.launcher.deferred.armed
    assert not engine.launcher.deferred.waits
    return x


def test_launches_wait_until_a_read(engine: Any) -> None:
    x = _armed(engine)
    engine.launcher.launched.clear()
    y = x * 3.0
    z = (y - x).exp()
    assert engine.launcher.deferred.waits
    assert not engine.launcher.launched
    np.testing.assert_allclose(z.numpy(), np.exp(2 * np.arange(6.0)), rtol=1e-6)
    assert not engine.launcher.deferred.waits
    assert not engine.launcher.deferred.armed
    w = x * 3.0
    assert not engine.launcher.deferred.waits  # its program is there
    np.testing.assert_array_equal(w.numpy(), 3 * np.arange(6.0))


def test_a_first_missing_program_is_built_at_once(engine: Any) -> None:
    x = Tensor.from_host(np.arange(6, dtype=np.float32))
    engine.finish()
    for function in (Tensor.sqrt, Tensor.sin, Tensor.exp):
        found = function(x)
        assert not engine.launcher.deferred.waits
        expected = getattr(np, function.__name__)(np.arange(6.0))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_calls_are_fast_again_after_many_without_a_missing_program(engine: Any) -> None:
    x = _armed(engine)
    for _ in range(300):
        y = x + 0.5
    assert not engine.launcher.deferred.armed
    assert not engine.intercepting
    assert not late_launches.waiting
    np.testing.assert_array_equal(y.numpy(), np.arange(6) + 0.5)


@pytest.mark.parametrize("how", [{"BUILD_PROCESSES": 0}, {"CACHE": False}])
def test_nothing_waits_where_no_other_process_can_build(engine: Any, how: dict[str, Any]) -> None:
    with config.override(**how):
        x = Tensor.from_host(np.arange(6, dtype=np.float32))
        y = (x + 2.0).exp() * x.cos()
        assert not engine.launcher.deferred.waits
        np.testing.assert_allclose(y.numpy(), np.exp(np.arange(6) + 2.0) * np.cos(np.arange(6)), rtol=1e-5)


def test_copies_and_writes_in_place_keep_their_order(engine: Any) -> None:
    x = _armed(engine)
    y = x * 7.0
    engine.write(x, np.full(6, 2, np.float32))  # small: it waits with the launches
    assert engine.launcher.deferred.waits
    z = x.exp()
    x += 1.0
    engine.write(x, np.full(6, 5, np.float32))
    w = x - y
    np.testing.assert_array_equal(y.numpy(), 7 * np.arange(6.0))
    np.testing.assert_allclose(z.numpy(), np.full(6, np.exp(2.0)), rtol=1e-6)
    np.testing.assert_array_equal(w.numpy(), 5 - 7 * np.arange(6.0))
    np.testing.assert_array_equal(x.numpy(), np.full(6, 5.0))


def test_a_view_is_copied_before_the_launch_that_reads_it(engine: Any) -> None:
    """Both programs are missing: the launch would be made at once, the copy that it needs would wait."""
    x = Tensor.from_host(np.arange(6, dtype=np.float32))
    engine.finish()
    y = x[1:4] * 3.0
    np.testing.assert_array_equal(y.numpy(), [3.0, 6.0, 9.0])


def test_launches_whose_turn_it_is_do_not_end_the_waiting(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More launches than end it are enqueued while the program of a later one is missing."""
    kept: list[Any] = []
    monkeypatch.setattr(BuildProcesses, "add", lambda self, build: kept.append(build))
    monkeypatch.setattr(BuildProcesses, "claim", lambda self, build=None: None)
    monkeypatch.setattr(BuildProcesses, "wait", lambda self, build: None)
    x = _armed(engine)
    first = x.exp()  # waits, and with it all that follows
    y = x
    for _ in range(300):
        y = y + 0.5
    last = y.sin()
    assert len(kept) == 2
    kept[0].done = True
    _ = x + 0.5  # the launches up to the sine are enqueued
    assert engine.launcher.deferred.waits
    assert late_launches.waiting
    total = last + y
    np.testing.assert_allclose(first.numpy(), np.exp(np.arange(6.0)), rtol=1e-6)
    expected = np.arange(6.0) + 150
    np.testing.assert_allclose(total.numpy(), np.sin(expected) + expected, rtol=1e-5)


@pytest.mark.level("capture")
def test_what_waits_is_launched_before_a_capture_and_not_recorded(engine: Any) -> None:
    from netcl.runtime.capture import capture

    x = _armed(engine)
    total = Tensor.zeros((6,), persistent=True)
    total.write(x * 3.0)
    y = (total - x).exp()
    assert engine.launcher.deferred.waits
    captured = capture(lambda x: total.write(total + x), x)
    np.testing.assert_array_equal(total.numpy(), 3 * np.arange(6.0))
    np.testing.assert_allclose(y.numpy(), np.exp(2 * np.arange(6.0)), rtol=1e-6)
    for number in (1, 2):
        captured.replay(x)
        np.testing.assert_array_equal(total.numpy(), (3 + number) * np.arange(6.0))


def test_memory_is_used_again_in_order(engine: Any) -> None:
    x = _armed(engine)
    expected = np.arange(6, dtype=np.float64)
    y = x
    for step in range(30):  # each takes the memory of the one before the last
        y = (y * 0.5 if step % 2 else y.sin()) + float(step)
        expected = (expected * 0.5 if step % 2 else np.sin(expected)) + float(step)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
    x = x.cosh()
    engine.pool.clear()
    np.testing.assert_allclose(x.numpy(), np.cosh(np.arange(6.0)), rtol=1e-5)


def test_a_kernel_of_the_user_and_the_buffer_come_after_what_waits(engine: Any) -> None:
    import pyopencl as cl

    x = _armed(engine)
    y = x.exp() + x
    spec = KernelSpec("twice", ["__global float* x"], "x[get_global_id(0)] *= 2.0f;")
    spec.build(engine.queue).run(engine.queue, (6,), None, y)
    out = np.empty(6, np.float32)
    z = y.sin() * 4.0
    assert engine.launcher.deferred.waits
    cl.enqueue_copy(engine.queue, out, z.buffer)
    expected = 2 * (np.exp(np.arange(6.0)) + np.arange(6.0))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(out, 4 * np.sin(expected), rtol=1e-3, atol=1e-4)


def test_a_thread_that_records_launches_what_others_have_waiting(engine: Any) -> None:
    x = _armed(engine)
    found = []

    def work() -> None:
        with device(engine.handle):
            found.append((x * 3.0).exp())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert engine.launcher.deferred.waits
    engine.launcher.recording = recording = engine.new_recording()
    try:
        late_launches.enqueue()
        assert len(recording) == 0
    finally:
        engine.launcher.recording = None
    np.testing.assert_allclose(found[0].numpy(), np.exp(3 * np.arange(6.0)), rtol=1e-6)


def test_threads_share_a_queue(engine: Any) -> None:
    x = _armed(engine)
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        with device(engine.handle):
            y = x * float(number + 2)
            for _ in range(5):
                y = (y + float(number)).sqrt() * 3.0
            found[number] = y.numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        expected = np.arange(6) * float(number + 2)
        for _ in range(5):
            expected = np.sqrt(expected + number) * 3
        np.testing.assert_allclose(found[number], expected, rtol=1e-5)


def test_children_build_what_waits(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    answered = BuildProcesses._last

    def last(self: BuildProcesses) -> Any:
        build = answered(self)
        taken.append(build)
        return build

    monkeypatch.setattr(BuildProcesses, "_last", last)
    monkeypatch.setattr(BuildProcesses, "claim", lambda self, build=None: None)  # this process builds nothing
    x = _armed(engine)
    y = (x * 3.0).exp().sum() + x.sin().cumsum(0).max() - x.matmul(x)
    expected = np.exp(3 * np.arange(6.0)).sum() + np.cumsum(np.sin(np.arange(6.0))).max() - 55
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
    assert len([build for build in taken if build is not None]) >= 4
    assert all(build.done for build in taken if build is not None)


@pytest.mark.parametrize(
    "script", ["raise SystemExit(3)", "import time; time.sleep(60)", "print('x'); import os; os.abort()"]
)
def test_a_child_that_ends_or_hangs_costs_nothing_but_time(
    engine: Any, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(build_processes, "_SCRIPT", "import resource\nresource.setrlimit(4, (0, 0))\n" + script)
    x = _armed(engine)
    y = (x * 3.0).exp().sum() + x.sin().cumsum(0).max() - x.matmul(x)
    expected = np.exp(3 * np.arange(6.0)).sum() + np.cumsum(np.sin(np.arange(6.0))).max() - 55
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)


@pytest.fixture
def broken_products(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a mistake into the templates of contractions on a CPU, but not into the plain one."""
    if engine.handle.device_type != "cpu":
        pytest.skip("needs a CPU: the mistake is not in the templates of others")
    from netcl.core.backend.opencl.contraction.cpu import cpu_tiles, thin

    fault = "#error no such kernel\n"
    right = cpu_tiles.cpu_program
    monkeypatch.setattr(cpu_tiles, "cpu_program", lambda *a, **k: right(*a, **k)._replace(text=fault))
    monkeypatch.setattr(thin, "gemv_program", lambda *a: fault)


@pytest.mark.usefixtures("broken_products")
def test_products_that_do_not_build_are_computed_plainly_in_their_place(engine: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((9, 7), (7, 5), (5, 9))]
    a, b, c = (engine.tensor(array, "float32") for array in arrays)
    _armed(engine)
    first = engine.matmul(a, b)
    second = engine.matmul(first, c)
    unnamed = engine.matmul(engine.matmul(a, b), c)  # nothing holds the inner product while it waits
    again = [engine.empty((9, 5), "float32") for _ in range(3)]  # memory that it must not have given back
    for other in again:
        engine.fill(other, 7.0)
    engine.write(a, np.zeros((9, 7), np.float32))  # after the first product
    total = second + 1.0
    assert engine.launcher.deferred.waits
    with pytest.warns(RuntimeWarning, match="does not build the float32 kernel"):
        found = total.numpy()
    np.testing.assert_allclose(found, arrays[0] @ arrays[1] @ arrays[2] + 1, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(engine.read(first), arrays[0] @ arrays[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(engine.read(unnamed), arrays[0] @ arrays[1] @ arrays[2], rtol=1e-4, atol=1e-5)


def test_an_error_leaves_no_wrong_number(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core.backend.opencl.kernels.scans import scan

    x = _armed(engine)
    before = x * 2.0
    updated = Tensor.from_host(np.zeros(6, np.float32))
    with monkeypatch.context() as patch:
        patch.setattr(scan, "scan_program", lambda *a, **k: "#error no such kernel\n")
        sums = before.cumsum(0)
        after = sums + 1.0
        view = after[1:3]
        updated += after
        assert engine.launcher.deferred.waits
        with pytest.raises(KernelBuildError, match="no such kernel"):
            after.numpy()
    assert not engine.launcher.deferred.waits
    np.testing.assert_array_equal(before.numpy(), 2 * np.arange(6.0))
    np.testing.assert_array_equal(updated.numpy(), np.zeros(6))
    with pytest.raises(Exception, match="released|could not be computed"):
        view.numpy()
    for lost in (sums, after):
        with pytest.raises(RuntimeError, match="could not be computed"):
            lost.numpy()
        with pytest.raises(RuntimeError, match="could not be computed"):
            lost * 2.0
    np.testing.assert_array_equal((x + 1.0).numpy(), np.arange(6) + 1.0)


def test_ops_that_are_repeated_by_their_plan_wait_in_their_turn(engine: Any) -> None:
    x = _armed(engine)
    y = x
    for _ in range(4):  # from the third on by its plan
        y = y + x
    waiting = x.sqrt().sin()
    engine.launcher.launched.clear()
    z = waiting + x
    w = z + z
    assert engine.launcher.deferred.waits
    assert not engine.launcher.launched
    expected = np.sin(np.sqrt(np.arange(6.0))) + np.arange(6.0)
    np.testing.assert_allclose(w.numpy(), 2 * expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(y.numpy(), 5 * np.arange(6.0))


def test_an_error_reaches_ops_that_are_repeated_by_their_plan(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.core.backend.opencl.kernels.scans import scan

    x = _armed(engine)
    for _ in range(3):
        x + x
    with monkeypatch.context() as patch:
        patch.setattr(scan, "scan_program", lambda *a, **k: "#error no such kernel\n")
        sums = x.cumsum(0)
        after = sums + x
        last = after + x
        assert engine.launcher.deferred.waits
        with pytest.raises(KernelBuildError, match="no such kernel"):
            last.numpy()
    for lost in (sums, after, last):
        with pytest.raises(RuntimeError, match="could not be computed"):
            lost.numpy()
    np.testing.assert_array_equal((x + x).numpy(), 2 * np.arange(6.0))


def test_a_process_that_ends_leaves_no_child_and_no_folder(handle: DeviceHandle, tmp_path: Path) -> None:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "NETCL_BUILD_PROCESSES": "2", "NETCL_DEVICE": handle.selector}
    folders = {"TMPDIR": "tmp", "NETCL_CACHE_DIR": "cache", "POCL_CACHE_DIR": "pocl"}
    environment |= {name: str(tmp_path / folder) for name, folder in folders.items()}
    code = "import netcl as nc; x = nc.ones((5,)); print((x.exp() + x.sin() * 2).sum().item())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(5 * (np.exp(1) + 2 * np.sin(1)), rel=1e-5)
    assert not list((tmp_path / "tmp").iterdir())
    for command in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has just ended
            assert str(tmp_path).encode() not in command.read_bytes()


@pytest.mark.level("profiling")
def test_a_profiler_sees_only_what_comes_after_it(engine: Any) -> None:
    from netcl.profiling import profile

    x = _armed(engine)
    y = x.exp() + x
    assert engine.launcher.deferred.waits
    with profile(engine.queue) as seen:
        assert not engine.launcher.deferred.waits
        z = y * 2.0
    assert len(seen.launches) == 1
    np.testing.assert_allclose(z.numpy(), 2 * (np.exp(np.arange(6.0)) + np.arange(6.0)), rtol=1e-6)


def test_numbers_of_numpy_are_arguments(engine: Any) -> None:
    """np.float64 is a Python float as well, which a kernel would refuse."""
    if not engine.handle.profile.has_fp64:
        pytest.skip("needs a device with float64")
    rng = np.random.default_rng(1)
    q, k, v = rng.standard_normal((3, 1, 2, 4, 8))
    given = [Tensor.from_host(x, dtype="float64") for x in (q, k, v)]
    _armed(engine)
    out, _ = engine.attention(*given, None, scale=0.5, causal=False)
    assert engine.launcher.deferred.waits
    weights = np.exp(0.5 * q @ k.swapaxes(-1, -2))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)


_STEPS = """
import sys
import numpy as np
from netcl.core import Tensor
from netcl.ops.random import manual_seed
from netcl import nn, optim
from netcl.nn import functional as F
manual_seed(3)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2), nn.Flatten(),
    nn.Linear(128, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10),
)
rng = np.random.default_rng(0)
x = Tensor.from_host(rng.standard_normal((16, 1, 8, 8)).astype(np.float32))
y = Tensor.from_host(rng.integers(0, 10, 16), dtype="int64")
optimizer = optim.AdamW(model.parameters(), lr=1e-2)
for step in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(loss.item().hex(), [float(np.abs(p.detach().numpy()).sum()).hex() for p in model.parameters()])
"""


@pytest.mark.deep
@pytest.mark.timeout(900)  # three processes, each of which builds all kernels and has 300 s
def test_first_steps_have_the_same_bits_with_and_without_children(handle: DeviceHandle, tmp_path: Path) -> None:
    pytest.importorskip("netcl.optim", reason="needs netcl-nn and netcl-optim, which are installed with netcl-trainer")
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    printed = []
    for children in ("0", "1", "3"):
        folder = tmp_path / children
        folder.mkdir()
        environment = {**os.environ, "NETCL_BUILD_PROCESSES": children, "NETCL_DEVICE": handle.selector}
        environment |= {"NETCL_CACHE_DIR": str(folder), "POCL_CACHE_DIR": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", _STEPS], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1] == printed[2]


def _eight_steps(x: Tensor) -> tuple[Tensor, ...]:
    """Returns results that no fusion makes one kernel of: sums over one axis and the other."""
    return tuple((x * float(n + 2)).exp().sum(dim=n % 2).sin() for n in range(8))


def test_programs_of_a_capture_are_built_with_a_child(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = []
    add = BuildProcesses.add
    monkeypatch.setattr(BuildProcesses, "add", lambda self, build: (launches.append(build), add(self, build)))
    x = Tensor.from_host(np.random.default_rng(0).random((4, 4), np.float32))
    expected = [part.numpy() for part in _eight_steps(x)]
    launches.clear()
    step = capture(_eight_steps, x)
    assert launches  # merged kernels, which no call has needed before
    assert all(build.done for build in launches)
    for part, value in zip(step.replay(x), expected):
        np.testing.assert_array_equal(part.numpy(), value)


def test_a_capture_that_does_not_wait_is_ready_when_its_programs_are_built(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_launches, "WORTH_A_CHILD", 1)
    x = Tensor.from_host(np.random.default_rng(0).random((4, 4), np.float32))
    expected = [part.numpy() for part in _eight_steps(x)]
    engine.launcher.deferred._builds.prepare()
    with pytest.raises(CaptureError, match="not built yet") as error:
        capture(_eight_steps, x, wait=False)
    assert error.value.ready is not None
    np.testing.assert_array_equal(_eight_steps(x)[3].numpy(), expected[3])  # meanwhile
    end = monotonic() + 60
    while not error.value.ready():
        assert monotonic() < end
        sleep(0.01)
    monkeypatch.setattr(BuildProcesses, "add", lambda self, build: pytest.fail("a program is missing"))
    step = capture(_eight_steps, x, wait=False)
    for part, value in zip(step.replay(x), expected):
        np.testing.assert_array_equal(part.numpy(), value)


def test_a_capture_is_ready_if_no_child_is_left(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_launches, "WORTH_A_CHILD", 1)
    monkeypatch.setattr(build_processes, "_SCRIPT", "import sys; sys.exit(1)")
    x = Tensor.from_host(np.random.default_rng(0).random((4, 4), np.float32))
    expected = [part.numpy() for part in _eight_steps(x)]
    with pytest.raises(CaptureError) as error:
        capture(_eight_steps, x, wait=False)
    end = monotonic() + 60
    while not error.value.ready():  # type: ignore[misc]
        assert monotonic() < end
        sleep(0.01)
    for part, value in zip(capture(_eight_steps, x).replay(x), expected):
        np.testing.assert_array_equal(part.numpy(), value)


def test_a_child_that_is_started_as_the_process_ends_is_ended_too(engine: Any) -> None:
    started, goes_on = threading.Event(), threading.Event()
    children = []

    class SlowToStart(BuildProcesses):
        @contextmanager
        def _started(self, environment: dict[str, str]) -> Iterator[Any]:
            started.set()
            assert goes_on.wait(30)
            with super()._started(environment) as child:
                children.append(child)
                yield child

    builds = SlowToStart(engine.queue.device)
    builds.prepare()
    assert started.wait(30)
    threading.Timer(0.2, goes_on.set).start()
    builds.close()
    assert not builds.busy
    assert children
    assert all(child.poll() is not None for child in children)
    builds.prepare()  # no other one
    assert not builds.busy
