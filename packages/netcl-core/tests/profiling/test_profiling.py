"""Calls, regions and events are timed; a profile sees kernels, copies, replays and ops, and leaves nothing behind."""

from __future__ import annotations

import gc
import json
import re
import shutil
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.engine.profiler_sink import Size, sizes
from netcl.core.engine.registry import engine_for
from netcl.core.errors import ShapeError
from netcl.core.expr import Load
from netcl.core.ops_table.dispatch import evaluate_each, snapshot
from netcl.profiling import EventTimer, launch_recorder, profile, region, roofline, timing, trace
from netcl.profiling.peaks import Peaks
from netcl.profiling.records import KernelStats, Span, Thread, op_stats
from netcl.runtime.capture import capture


@pytest.fixture
def profiled(handle: DeviceHandle) -> DeviceHandle:
    """Returns each device in turn, on OpenCL by a queue with times in its events."""
    if handle.backend == "cpu":
        return handle
    import pyopencl as cl

    from netcl.core.memory import opencl_queue

    queue = cl.CommandQueue(handle.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    return engine_for(opencl_queue(queue)).handle


def some(handle: DeviceHandle, *shape: int) -> Tensor:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return Tensor.from_host(handle.queue, values)


def is_unwatched(handle: DeviceHandle) -> bool:
    engine = engine_for(handle)
    return (
        engine.sink is None
        and engine not in launch_recorder._recorders
        and not launch_recorder.thread_state.ops
        and not timing.listeners
    )


def test_timing_counts_runs_and_waits(handle: DeviceHandle) -> None:
    calls = []
    found = timing.timing(lambda: calls.append(0), warmup=2, runs=5)
    assert len(calls) == 7
    assert len(found.seconds) == 5
    assert found.best <= found.median == float(found) <= found.worst
    assert found.best <= found.mean <= found.worst
    assert "5 runs" in str(found)
    x = some(handle, 256, 256)
    assert timing.timing(lambda: ops.matmul(x, x), 1, 3).best > 256**3 / 1e13, "the product was waited for"
    for options in ({"runs": 0}, {"warmup": -1}):
        with pytest.raises(ValueError, match="runs"):
            timing.timing(lambda: None, **options)


def test_region_times_a_block_and_a_function(handle: DeviceHandle) -> None:
    x = some(handle, 64, 64)
    one = region("product")

    @one
    def product() -> Tensor:
        return ops.matmul(x, x)

    product()
    assert one.seconds > 0
    with profile() as p, region("outer", wait=False) as outer:
        product()
    found = {span.name: span for span in p.spans if span.kind == "region"}
    assert set(found) == {"product", "outer"}
    assert outer.seconds > one.seconds
    assert found["outer"].began <= found["product"].began <= found["product"].ended <= found["outer"].ended


def test_event_timer(profiled: DeviceHandle) -> None:
    timer = EventTimer(profiled)
    assert timer.by_events is (profiled.backend == "cl")
    x = some(profiled, 100_000)
    if profiled.backend == "cl":
        import pyopencl as cl

        out = np.empty(x.shape, np.float32)
        seconds = [timer.time_event(cl.enqueue_copy(profiled.queue, out, x.buffer, is_blocking=False), "copy")]
    else:
        seconds = [timer.time_event(None, "copy")]
    assert 0 < seconds[0] < 1
    assert timer.seconds == {"copy": seconds}
    assert "copy: " in str(timer)


def test_event_timer_by_the_wall_clock(handle: DeviceHandle) -> None:
    with config.override(PROFILE_EVENTS=False):
        timer = EventTimer(handle)
        assert not timer.by_events
        assert timer.time_event(None) > 0
        assert len(timer.seconds[""]) == 1


def seen_step(handle: DeviceHandle, p: profile) -> None:
    """Does the work in the tests of a profile: an expression, a product, a replay, and a copy to the host."""
    x = some(handle, 64, 48)
    step = capture(lambda a: ops.exp(ops.matmul(a, ops.transpose(a))), x)
    with p:
        y = ops.relu(x)
        z = ops.matmul(x, ops.transpose(y))
        w = step.replay(x)
        z.to_host()
        w.to_host()


def test_an_operand_that_a_kernel_gets_twice_is_counted_once(handle: DeviceHandle) -> None:
    first, second = np.zeros((3, 4), np.float32), np.zeros(5)
    assert list(sizes([first, (second, first), np.int64(3), [first]])) == [Size((3, 4), 48), Size((5,), 40)]
    # A product on a CPU device passes B in place of an operand of an epilogue.
    a, b = (Tensor.from_host(handle, np.ones(shape, np.float32)) for shape in ((40, 50), (50, 70)))
    with profile(handle) as seen:
        ops.matmul(a, b)
    moved = sum(row.nbytes for row in seen.kernels)
    assert moved == 4 * (40 * 50 + 50 * 70 + 40 * 70)


@pytest.mark.parametrize("clock", ["events", "wall"])
def test_a_profile_sees_kernels_copies_replays_and_ops(
    handle: DeviceHandle, profiled: DeviceHandle, clock: str
) -> None:
    if clock == "wall" and handle.backend == "cl" and timing.has_event_times(handle.queue):
        pytest.skip("NETCL_PROFILE_EVENTS gives every queue event times")
    chosen = profiled if clock == "events" else handle
    p = profile(chosen)
    seen_step(chosen, p)
    assert p.event_times is (clock == "events" and chosen.backend == "cl")
    assert is_unwatched(chosen)

    by_op = {row.op: row for row in p.kernels if row.flops}
    assert by_op["relu"].flops == 64 * 48
    assert by_op["relu"].calls == 1
    assert by_op["relu"].nbytes == 2 * 64 * 48 * 4
    assert by_op["matmul"].flops == 2 * 64 * 64 * 48
    assert by_op[""].flops in (2 * 64 * 64 * 48, 64 * 64), "the replay's kernels belong to no op"
    replayed = [one.flops for one in p.launches if one.kind == "kernel" and not one.op]
    assert 2 * 64 * 64 * 48 in replayed
    assert 64 * 64 in replayed
    assert [row.calls for row in p.copies] == ([2] if chosen.backend == "cl" else [])
    assert sum(row.nbytes for row in p.copies) == (2 * 64 * 64 * 4 if chosen.backend == "cl" else 0)

    spans = {(span.kind, span.name) for span in p.spans}
    assert {("op", "relu"), ("op", "matmul"), ("op", "transpose")} <= spans
    assert any(kind == "replay" for kind, _ in spans)
    for one in p.launches:
        # Events are brought to the host's clock, which costs some accuracy.
        assert one.start <= one.end
        assert p.began - 1e-3 <= one.start
        assert one.end <= p.ended + 1e-3
        assert one.asked <= one.end + 1e-3
        assert one.thread.name == "MainThread"
    for row in p.kernels:
        assert row.fastest <= row.mean <= row.slowest
        assert row.seconds > 0
    assert [row.seconds for row in p.kernels] == sorted((row.seconds for row in p.kernels), reverse=True)


def test_the_table(handle: DeviceHandle) -> None:
    p = profile()
    seen_step(handle, p)
    text = p.table()
    assert "relu" in text
    assert "matmul" in text
    assert "Python" in text
    assert p.device in text
    assert max(map(len, text.splitlines()[1:])) < 160
    names = [line.split()[0] for line in p.table(sort_by="name").split("\n\n")[0].splitlines()[3:]]
    shown = [name if name != "to" else "to host" for name in names]
    assert shown == sorted(row.name for row in [*p.kernels, *p.copies])
    calls = [row.calls for row in sorted(p.kernels, key=lambda row: -row.calls)]
    assert calls[0] == max(calls)
    with pytest.raises(ValueError, match="total, mean, calls"):
        p.table(sort_by="cuda_time")
    with profile() as empty:
        pass
    assert "0.000 ms in 0 kernels" in empty.table()


def test_the_chrome_trace_is_what_perfetto_reads(profiled: DeviceHandle, tmp_path) -> None:
    p = profile(profiled, memory=True)
    seen_step(profiled, p)
    path = p.export_chrome(tmp_path / "trace.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    events = content["traceEvents"]
    assert content["displayTimeUnit"] == "ms"
    phases = {event["ph"] for event in events}
    assert phases == {"M", "X", "s", "f", "C"}
    for event in events:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] != "M":
            assert event["ts"] >= -1000
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["cat"] in ("op", "replay", "region", "kernel", "copy")
    processes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert processes == {"Python", p.device}
    tracks = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= tracks
    starts, ends = ({e["id"] for e in events if e["ph"] == phase} for phase in "sf")
    assert starts == ends
    assert len(starts) == len(p.launches)
    # The slices of a track of Python are nested or disjoint, as the format requires.
    slices = sorted(((e["ts"], -e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 1), key=lambda slice: slice)
    open_ends: list[float] = []
    for start, minus in slices:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or start - minus <= open_ends[-1] + 1e-6
        open_ends.append(start - minus)


def test_the_memory_timeline(handle: DeviceHandle) -> None:
    with profile(memory=True) as p:
        x = some(handle, 1 << 18)
        y = ops.exp(x)
        held = p._samples[-1][1]
        del y
        ops.exp(some(handle, 4))
    timeline = p.memory_timeline()
    assert timeline == sorted(timeline)
    assert timeline[0][0] >= 0
    assert max(in_use for _, in_use in timeline) >= held >= 1 << 20
    assert timeline[-1][1] <= held - (1 << 20) + (1 << 14), "what died is counted no longer"
    with profile() as without:
        ops.exp(x)
    with pytest.raises(RuntimeError, match="memory=True"):
        without.memory_timeline()


def test_profiles_nest(handle: DeviceHandle) -> None:
    x = some(handle, 8, 8)
    with profile() as outer:
        ops.exp(x)
        with profile() as inner, inner:
            ops.relu(x)
        ops.exp(x)
    assert [span.name for span in inner.spans] == ["relu"]
    assert len(inner.launches) == 1
    assert [span.name for span in outer.spans] == ["exp", "relu", "exp"]
    assert len(outer.launches) == 3
    assert is_unwatched(handle)


def test_threads_are_seen(handle: DeviceHandle) -> None:
    x = some(handle, 32, 32)
    ops.exp(x)

    def joined() -> None:
        with p:
            ops.exp(x)

    def started() -> None:
        with state.active():
            ops.exp(x)

    with profile() as p:
        state = snapshot()
        threads = [threading.Thread(target=target, name=target.__name__) for target in (joined, started)]
        threads.append(threading.Thread(target=lambda: ops.exp(x), name="stranger"))
        for thread in threads:
            thread.start()
            thread.join()
        ops.exp(x)
    assert len(p.launches) == 4, "kernels are seen from whatever thread they come"
    assert len([span for span in p.spans if span.name == "exp"]) == 3, "ops of strangers are not"
    assert {one.thread.name for one in p.launches} == {"MainThread", "joined", "started", "stranger"}
    assert is_unwatched(handle)


def test_eight_threads_at_once(handle: DeviceHandle) -> None:
    x = some(handle, 1000)
    results: list[np.ndarray] = []
    p = profile()

    def work() -> None:
        with p, profile() as own:
            for _ in range(20):
                y = ops.exp(x)
            results.append(y.to_host())
        assert len([span for span in own.spans if span.name == "exp"]) == 20

    with p:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len([one for one in p.launches if one.kind == "kernel"]) == 160
    assert len(results) == 8
    assert all(np.array_equal(one, results[0]) for one in results)
    assert is_unwatched(handle)


def test_an_exception_passes_and_leaves_nothing(handle: DeviceHandle) -> None:
    x = some(handle, 8, 8)
    with pytest.raises(ShapeError, match="matmul"), profile() as p:
        ops.exp(x)
        ops.matmul(x, some(handle, 3, 3))
    assert [span.name for span in p.spans] == ["exp", "matmul"]
    assert len(p.launches) >= 1
    assert is_unwatched(handle)
    assert np.array_equal(ops.relu(x).to_host(), np.maximum(x.to_host(), 0))


def test_results_are_the_same_and_nothing_is_kept(profiled: DeviceHandle) -> None:
    x = some(profiled, 300, 7)
    plain = ops.softmax(x).to_host()
    with profile(profiled) as p:
        seen = ops.softmax(x)
        dead = weakref.ref(seen)
        assert np.array_equal(seen.to_host(), plain)
        del seen
        gc.collect()
        assert dead() is None, "a profile holds no tensors"
        for _ in range(launch_recorder._PENDING + 10):
            ops.relu(x)
        if profiled.backend == "cl":
            assert len(engine_for(profiled).sink._pending) < launch_recorder._PENDING, "events are let go in between"
    assert len([span for span in p.spans if span.name == "relu"]) == launch_recorder._PENDING + 10
    assert is_unwatched(profiled)


def test_composite_ops_enclose_what_they_are_made_of(handle: DeviceHandle) -> None:
    x = some(handle, 4, 6)
    with profile() as p:
        ops.flatten(x)
    outer, inner = sorted(p.spans, key=lambda span: span.began)
    assert (outer.name, inner.name) == ("flatten", "reshape")
    assert outer.ended >= inner.ended


def test_a_launch_for_several_sets_of_tensors_is_seen(handle: DeviceHandle) -> None:
    sets = [(Tensor.from_host(np.ones(n, np.float32)),) for n in (3, 5, 7)]
    with profile() as p:
        evaluate_each((Load(0, "float32") * 2.0,), sets)
        ops.add(sets[0][0], 1.0)
    assert sum(one.calls for one in p.kernels) == (2 if handle.backend == "cl" else 4)
    assert "add" in p.table()


def test_own_times_add_up() -> None:
    one, other = Thread(1, "one"), Thread(2, "other")
    spans = [Span("op", "a", one, 0.0, 10.0), Span("op", "b", one, 1.0, 4.0), Span("op", "a", one, 2.0, 3.0)]
    spans += [Span("op", "b", other, 0.0, 5.0), Span("op", "c", one, 11.0, 12.0)]
    found = {row.name: (row.calls, row.seconds, row.own) for row in op_stats(spans)}
    assert found == {"a": (2, 10.0, 8.0), "b": (2, 8.0, 7.0), "c": (1, 1.0, 1.0)}


def page_of(handle: DeviceHandle, folder) -> tuple[profile, str]:
    p = profile()
    seen_step(handle, p)
    path = roofline(p, folder / "roofline.html", peaks=Peaks(20e9, 200e9, "hand"))
    return p, path.read_text(encoding="utf-8")


def test_the_roofline_is_one_page_that_says_what_it_does_not_know(handle: DeviceHandle, tmp_path) -> None:
    p, text = page_of(handle, tmp_path)
    assert not re.search(r"(?:src|href)\s*=|https?://|@import|url\(", text), "nothing comes from the network"
    drawn = [row for row in p.kernels if row.flops]
    assert text.count('<circle class="point"') == len(drawn)
    assert text.count("<tr>") == len(p.kernels) + 1
    unknown = [row for row in p.kernels if row.flops is None]
    assert ("operations are not known" in text) is bool(unknown)
    with profile() as empty:
        pass
    page = roofline(empty, tmp_path / "empty.html", peaks=Peaks(20e9, 200e9, "hand")).read_text(encoding="utf-8")
    assert "no kernel with known operations" in page


def test_the_roofline_as_a_picture_has_its_limits_and_every_point(numpy_device, tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from netcl.profiling.roofline_picture import draw_roofline

    p, _ = page_of(numpy_device, tmp_path)
    peaks = Peaks(20e9, 200e9, "hand")
    drawn = [row for row in p.kernels if row.flops]
    assert drawn
    (axes,) = draw_roofline("by hand", p.kernels, peaks).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert len(axes.collections) == len(drawn)
    (roof,) = axes.lines
    assert roof.get_xdata()[1] == 10  # where 20 GB/s and 200 GFLOP/s meet
    assert list(roof.get_ydata()[1:]) == [200, 200]
    texts = " ".join(text.get_text() for text in axes.texts)
    assert "copy: 20 GB/s" in texts
    assert "multiply-adds: 200 GFLOP/s" in texts
    # The shares are those of the whole profile, as in its table, not of the points that are drawn.
    whole = sum(row.seconds for row in p.kernels)
    longest = max(drawn, key=lambda row: row.seconds)
    assert f"{longest.op or longest.name}, {longest.seconds / whole:.0%}" in texts
    # A name is next to its point: the line from the far corner crossed the picture.
    assert all(abs(name.xyann[0]) < 80 for name in axes.texts if hasattr(name, "xyann"))
    (xlow, xhigh), (ylow, yhigh) = axes.get_xlim(), axes.get_ylim()
    for points in axes.collections:
        ((x, y),) = points.get_offsets()
        assert xlow < x < xhigh
        assert ylow < y < yhigh
    for name in ("roofline.png", "roofline.svg"):
        assert roofline(p, tmp_path / name, peaks=peaks).stat().st_size > 5000
    with profile() as empty:
        pass
    (axes,) = draw_roofline("nothing", empty.kernels, peaks).axes
    assert "no kernel with known operations" in " ".join(text.get_text() for text in axes.texts)


def test_names_of_a_roofline_stay_within_the_picture_and_off_the_points(tmp_path) -> None:
    """Long names ran out of the picture at the right, and names of points at the right covered other points."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from netcl.profiling.roofline_picture import draw_roofline

    op = "h.0.mlp.c_proj Linear: gelu again, h.0.mlp.gelu GELU: gelu gradient"
    rows = [
        KernelStats(f"k{n}", op, "expression", 1, 1e-3 * (n + 1), nbytes=10**6, flops=10 ** (6 + n)) for n in range(4)
    ]
    figure = draw_roofline("by hand", rows, Peaks(20e9, 200e9, "hand"))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    names = [text for text in axes.texts if hasattr(text, "xyann")]
    assert len(names) == 4
    assert all("gelu aga ..," in text.get_text() for text in names)
    boxes = [text.get_window_extent() for text in names]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    for points in axes.collections:
        x, y = axes.transData.transform(points.get_offsets()[0])
        assert not any(box.contains(x, y) for box in boxes)


def test_a_roofline_that_cannot_be_written_says_why(numpy_device, tmp_path, monkeypatch) -> None:
    p, _ = page_of(numpy_device, tmp_path)
    with pytest.raises(ValueError, match=r"\.html.*\.png.*got roofline\.txt"):
        roofline(p, tmp_path / "roofline.txt")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "netcl-core\[plot\]"'):
        roofline(p, tmp_path / "roofline.png")


def test_the_roofline_measures_the_device(handle: DeviceHandle) -> None:
    from netcl.profiling.peaks import measure_peaks

    peaks = measure_peaks()
    assert 1e8 < peaks.bytes_per_second < 1e13
    assert 1e8 < peaks.flops_per_second < 1e15


def test_the_roofline_opens_in_a_browser(tmp_path) -> None:
    browser = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("there is no browser here: neither chromium nor google-chrome")
    from netcl.core import manager
    from netcl.core.device import device

    with device(manager.default("cpu")) as handle:
        p, _ = page_of(handle, tmp_path)
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/browser"]
    page = (tmp_path / "roofline.html").as_uri()
    shown = subprocess.run([*command, "--dump-dom", page], capture_output=True, text=True, timeout=120)
    assert shown.stdout.count("<circle") == len([row for row in p.kernels if row.flops])
    picture = tmp_path / "page.png"
    subprocess.run([*command, f"--screenshot={picture}", page], capture_output=True, timeout=120, check=True)
    assert picture.stat().st_size > 10_000


def test_trace_and_timing_are_modules_and_profile_is_at_hand() -> None:
    assert trace.profile is profile
    assert timing.region is region


def test_a_late_index_error_waits_for_the_host_read(profiled: DeviceHandle) -> None:
    x = some(profiled, 4)
    with profile(profiled):
        bad = ops.take(x, Tensor.from_host(profiled.queue, np.array([9])), axis=0)
    with pytest.raises(IndexError, match="take"):
        bad.to_host()
