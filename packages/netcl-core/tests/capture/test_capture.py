"""Capture and replay on netcl-core alone: the bits of eager calls, fresh random numbers, and what is refused."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netcl import ops
from netcl.core import DeviceHandle, Tensor, config
from netcl.core.backend.opencl.queue import event_free
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache
from netcl.core.backend.opencl.queue.replays import command_buffer
from netcl.core.capture import optimize
from netcl.core.capture.optimize import fused_steps
from netcl.core.device import CPUQueue
from netcl.core.device.drivers.kernel_objects import new_kernel
from netcl.core.errors import CaptureError
from netcl.runtime.capture import capture


def _inputs(count: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal((6, 5)).astype(np.float32) for _ in range(count)]


def test_a_replay_gives_the_bits_of_the_call(handle: DeviceHandle) -> None:
    weight = Tensor.from_host(_inputs(1)[0].T.copy(), persistent=True)

    def step(x: Tensor) -> dict[str, Any]:
        y = ops.softmax(ops.matmul(x, weight))
        return {"y": y, "parts": (ops.sum(y), [ops.amax(x, axis=1)])}

    captured = capture(step, Tensor.from_host(_inputs(1)[0]))
    results = [captured.replay(Tensor.from_host(x)) for x in _inputs(5)]
    for x, result in zip(_inputs(5), results):
        expected = step(Tensor.from_host(x))
        np.testing.assert_array_equal(result["y"].numpy(), expected["y"].numpy())
        assert result["parts"][0].item() == expected["parts"][0].item()
        np.testing.assert_array_equal(result["parts"][1][0].numpy(), expected["parts"][1][0].numpy())
    assert len(captured) >= 2


def test_capture_changes_nothing_and_a_replay_updates_state_in_place(handle: DeviceHandle) -> None:
    total = Tensor.zeros((5,), persistent=True)

    def step(x: Tensor) -> None:
        total.write(total + ops.sum(x, axis=0))

    captured = capture(step, Tensor.from_host(_inputs(1)[0]))
    np.testing.assert_array_equal(total.numpy(), np.zeros(5))
    for x in _inputs(4):
        captured.replay(x)
    np.testing.assert_allclose(total.numpy(), np.sum(_inputs(4), axis=(0, 1)), rtol=1e-5)


def test_replays_draw_the_numbers_that_eager_calls_would(handle: DeviceHandle) -> None:
    x = Tensor.from_host(np.ones((40, 5), np.float32))

    def step(x: Tensor) -> Tensor:
        return ops.dropout(x, p=0.5)  # type: ignore[no-any-return]

    ops.manual_seed(5)
    step(x)
    captured = capture(step, x)
    got = [captured.replay(x).numpy(), captured.replay(x).numpy(), step(x).numpy(), captured.replay(x).numpy()]
    ops.manual_seed(5)
    step(x)
    expected = [step(x).numpy() for _ in range(4)]
    for a, b in zip(got, expected):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(got[0], got[1])


def test_memory_of_a_capture_is_its_own(handle: DeviceHandle) -> None:
    def step(x: Tensor) -> Tensor:
        return ops.exp(ops.add(x, 1.0))  # type: ignore[no-any-return]

    captured = capture(step, Tensor.from_host(_inputs(1)[0]))
    others = [Tensor.from_host(x) for x in _inputs(8)]
    first = captured.replay(others[0])
    captured.replay(others[1])
    for x, other in zip(_inputs(8), others):
        np.testing.assert_array_equal(other.numpy(), x)
    np.testing.assert_array_equal(first.numpy(), step(others[0]).numpy())


def test_a_capture_without_a_tensor_says_what_to_write() -> None:
    with pytest.raises(CaptureError, match=r"expected a tensor among the samples, got none; write capture\(step, x\)"):
        capture(lambda number: number, 3)


def test_reading_or_writing_host_values_inside_cannot_be_captured(handle: DeviceHandle) -> None:
    x = Tensor.from_host(_inputs(1)[0])
    for forbidden in (
        lambda x: ops.sum(x).item(),
        lambda x: x.write(np.zeros((6, 5))),
        lambda x: x + Tensor.from_host([1.0]),
    ):
        with pytest.raises(CaptureError, match="captured"):
            capture(forbidden, x)
        np.testing.assert_array_equal(ops.neg(x).numpy(), -_inputs(1)[0])


def test_a_replay_refuses_what_the_capture_did_not_see(handle: DeviceHandle) -> None:
    state = {"training": True}

    def step(x: Tensor, power: int) -> Tensor:
        return ops.pow(x, power)  # type: ignore[no-any-return]

    x = Tensor.from_host(_inputs(1)[0])
    captured = capture(step, x, 2, watch=lambda: state["training"])
    np.testing.assert_allclose(captured.replay(x, 2).numpy(), _inputs(1)[0] ** 2, rtol=1e-5)
    with pytest.raises(CaptureError, match=r"argument 0 has shape \(3, 5\)"):
        captured.replay(x[:3], 2)
    with pytest.raises(CaptureError, match="argument 1 is 3"):
        captured.replay(x, 3)
    with pytest.raises(CaptureError, match="the capture had 2"):
        captured.replay(x)
    state["training"] = False
    with pytest.raises(CaptureError, match="watched state changed"):
        captured.replay(x, 2)


def test_what_nobody_reads_is_left_out_and_neighbours_are_one_launch(handle: DeviceHandle) -> None:
    x, bias = (Tensor.from_host(a) for a in _inputs(2))
    total = Tensor.zeros((6, 5), persistent=True)

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        ops.exp(x)
        shifted = ops.add(ops.mul(x, 2.0), bias)
        total.write(total + 1.0)
        kept = ops.relu(shifted)
        total.write(total * 2.0)
        return kept, ops.sum(ops.sub(kept, x), axis=-1)

    captured = capture(step, x)
    assert handle.backend == "cpu" or len(captured) <= 4
    for count in (2.0, 6.0):
        kept, rows = captured.replay(x)
        want = np.maximum(x.numpy() * 2 + bias.numpy(), 0)
        np.testing.assert_array_equal(kept.numpy(), want)
        np.testing.assert_allclose(rows.numpy(), (want - x.numpy()).sum(-1), rtol=1e-5, atol=1e-5)
        assert (total.numpy() == count).all()


@pytest.mark.parametrize(("side", "programs"), [(512, 2), (8, 1)])
def test_a_large_value_that_is_computed_again_is_not_kept(handle: DeviceHandle, side: int, programs: int) -> None:
    x = Tensor.from_host(np.random.default_rng(3).standard_normal((side, side)).astype(np.float32))
    steps = []

    def step(x: Tensor) -> Tensor:
        product = ops.matmul(ops.layer_norm(x, side, eps=1e-3), x)
        return ops.matmul(product, ops.layer_norm(x, side, eps=1e-3))  # type: ignore[no-any-return]

    def counted(*args: Any) -> Any:
        found = fused_steps(*args)
        steps.extend(
            one for together in found for one in together if one.program is not None or one.call.method == "run"
        )
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimize, "fused_steps", counted)
        captured = capture(step, x)
    assert handle.backend == "cpu" or len(steps) == programs  # NumPy runs the calls as they were recorded
    np.testing.assert_array_equal(captured.replay(x).numpy(), step(x).numpy())


def test_half_precision_is_rounded_where_the_call_rounds(handle: DeviceHandle) -> None:
    x = Tensor.from_host(_inputs(1)[0])

    def step(x: Tensor) -> Tensor:
        half = ops.mul(x, 1.1).astype("bfloat16")
        return ops.mul(ops.add(half, 1.0).astype("float32"), 3.0)  # type: ignore[no-any-return]

    np.testing.assert_array_equal(capture(step, x).replay(x).numpy(), step(x).numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_calls_in_half_precision_are_fused_with_the_bits_of_the_calls(handle: DeviceHandle, dtype: str) -> None:
    """Elementwise calls, sums of rows and the epilogue of a product each read what the one before rounds."""
    rng = np.random.default_rng(3)
    x, w = (Tensor.from_host(rng.standard_normal(shape).astype(np.float32)) for shape in ((33, 40), (40, 24)))

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        product = ops.matmul(x.astype(dtype), w.astype(dtype))
        scaled = ops.relu(ops.add(ops.mul(product, 1.3), 0.7))
        shifted = ops.sub(ops.mul(scaled, scaled), 0.1)
        return shifted, ops.sum(ops.mul(shifted.astype("float32"), 1.1), axis=-1)

    captured = capture(step, x)
    for got, want in zip(captured.replay(x), step(x)):
        np.testing.assert_array_equal(got.astype("float32").numpy(), want.astype("float32").numpy())
    # Two casts, which are one launch, the packing of rows, the product with the first calls, and the sums.
    assert handle.backend == "cpu" or len(captured) <= 5


@pytest.mark.parametrize(("value", "launches"), [(3.0, 1), (0.1, 1), (float("nan"), 2)])
def test_a_tensor_filled_with_a_finite_number_is_a_constant(handle: DeviceHandle, value: float, launches: int) -> None:
    x = Tensor.from_host(_inputs(1)[0])

    def step(x: Tensor) -> Tensor:
        filled = Tensor.full((1, 5), value)
        return ops.sub(ops.mul(x, filled), filled)  # type: ignore[no-any-return]

    captured = capture(step, x)
    assert handle.backend == "cpu" or len(captured) == launches
    np.testing.assert_array_equal(captured.replay(x).numpy(), step(x).numpy())
    np.testing.assert_allclose(step(x).numpy(), x.numpy() * value - value, rtol=1e-5)


def test_a_filled_tensor_that_is_written_later_is_none(handle: DeviceHandle) -> None:
    x = Tensor.from_host(_inputs(1)[0])

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        filled = Tensor.full((6, 5), 2.0)
        before = ops.mul(x, filled)
        filled.write(before)
        return ops.add(x, filled), ops.mul(filled, filled)

    captured = capture(step, x)
    for got, want in zip(captured.replay(x), (x.numpy() * 3, np.square(x.numpy() * 2))):
        np.testing.assert_array_equal(got.numpy(), want)


def test_an_intermediate_value_that_is_kept_is_the_newest(handle: DeviceHandle) -> None:
    kept: list[Tensor] = []

    def step(x: Tensor) -> Tensor:
        kept.append(ops.mul(x, 2.0))
        return ops.add(kept[-1], 1.0)  # type: ignore[no-any-return]

    captured = capture(step, Tensor.from_host(_inputs(1)[0]))
    for x in _inputs(3):
        captured.replay(x)
        np.testing.assert_array_equal(kept[0].numpy(), x * 2)


def test_replays_by_command_buffer_and_by_list(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits are equal, also on a driver that fails the trial of command buffers."""
    monkeypatch.setattr(command_buffer, "passes_trial", lambda device: True)
    x = Tensor.from_host(_inputs(1)[0])
    found = []
    for flag in (True, False):
        with config.override(COMMAND_BUFFER=flag):
            captured = capture(lambda x: ops.softmax(ops.matmul(x, ops.transpose(ops.flip(x, 0)))), x)
            found.append([captured.replay(x).numpy() for _ in range(3)])
            runs = getattr(captured._recording, "_runs", None)
            if runs is not None:
                extensions = handle.queue.device.extensions
                assert (len(runs[0]) < len(captured)) == (flag and "cl_khr_command_buffer" in extensions)
    np.testing.assert_array_equal(*found)


@pytest.fixture
def event_free_device(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> DeviceHandle:
    """Returns the device under test, launched on as a GPU is: kernels without events, by ctypes."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy's engine has no events")
    if event_free._function() is None:
        pytest.skip("needs an OpenCL loader that ctypes can open: Linux")
    monkeypatch.setattr(event_free, "_CPU", 0)
    return handle


def test_launches_without_events_give_the_same_bits(event_free_device: DeviceHandle) -> None:
    """Eager calls (the first plans, the others are warm) and replays have the same bits."""
    x, y = (Tensor.from_host(array) for array in _inputs(2))

    def step(x: Tensor, y: Tensor) -> Tensor:
        return ops.softmax(ops.add(ops.matmul(x, ops.transpose(y)), 0.125))  # type: ignore[no-any-return]

    def small(x: Tensor, y: Tensor) -> Tensor:  # of a size that no other test has planned
        return ops.mul(x[:3, :3], y[:3, :3])  # type: ignore[no-any-return]

    found = [(step(x, y).numpy(), small(x, y).numpy()) for _ in range(3)]
    with config.override(COMMAND_BUFFER=False):
        captured = capture(step, x, y)
        replayed = [captured.replay(x, y).numpy() for _ in range(2)]
    assert not any(map(command_buffer.is_kernel, captured._recording._runs[0]))
    np.testing.assert_allclose(found[0][1], x.numpy()[:3, :3] * y.numpy()[:3, :3], rtol=1e-6)
    for values, products in found:
        np.testing.assert_array_equal(values, found[0][0])
        np.testing.assert_array_equal(products, found[0][1])
    for values in replayed:
        np.testing.assert_array_equal(values, found[0][0])


def test_a_launch_without_an_event_that_is_refused_raises_pyopencls_error(event_free_device: DeviceHandle) -> None:
    """A work-group that does not divide the global size: refused by ctypes, then by pyopencl: its error is raised."""
    cl = pytest.importorskip("pyopencl")
    queue = event_free_device.queue
    source = "__kernel void one(__global int* x) { x[get_global_id(0)] += 1; }"
    kernel = new_kernel(ProgramCache().get_program(queue.context, source, queue.device, ""), "one")
    values = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(16, "i4"))
    kernel.set_arg(0, values)
    right = event_free.without_event(queue, kernel, (16,), (4,))
    wrong = event_free.without_event(queue, kernel, (16,), (5,))
    assert right is not None
    assert wrong is not None
    right()
    with pytest.raises(cl.Error, match="(?i)work_group_size"):
        wrong()
    found = np.empty(16, "i4")
    cl.enqueue_copy(queue, found, values)
    np.testing.assert_array_equal(found, 1)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux, which tells the resident memory")
def test_replays_keep_no_memory(handle: DeviceHandle) -> None:
    """Intel's runtime keeps 2 KB for each command of a command buffer's run: 44 KB for each of these replays."""

    def resident() -> int:
        if handle.backend != "cpu":
            handle.queue.finish()
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    x = Tensor.from_host(np.eye(16, dtype=np.float32))

    def step(a: Tensor) -> Tensor:
        for _ in range(20):
            a = ops.matmul(a, x)
        return a

    captured = capture(step, x)
    looks = []
    for _ in range(3):
        for _ in range(200):
            captured.replay(x).to_host()
        looks.append(resident())
    assert min(after - before for before, after in zip(looks, looks[1:])) < 2 << 20


def test_a_step_uses_the_memory_of_its_dead_tensors_again(handle: DeviceHandle) -> None:
    """It also uses tensors of launches that may be merged, and so are built after the others."""
    x = Tensor.from_host(np.eye(64, dtype=np.float32))

    def step(a: Tensor) -> Tensor:
        for _ in range(20):
            a = ops.softmax(ops.matmul(a, x))
        return a

    captured = capture(step, x)
    assert handle.backend == "cpu" or len(captured._recording._uses) <= 8
    np.testing.assert_array_equal(captured.replay(x).numpy(), step(x).numpy())


_SHAPES = [(4, 6), (6,), (4, 1), (1,), (1, 6), (2, 3, 6)]


def _random_step(picks: list[tuple[int, int, int, bool]]) -> Any:
    """Returns a function made of ops that ``picks`` name: some write into the states, some results are returned."""

    def step(x: Tensor, weight: Tensor, states: list[Tensor]) -> list[Tensor]:
        values, results = [x, *states], []
        for kind, i, j, keep in picks:
            a, b, state = values[i % len(values)], values[j % len(values)], states[j % len(states)]
            fits = a.shape[-1:] == (6,)
            if kind < 3 and _broadcast(a.shape, b.shape):
                made = (ops.add, ops.mul, ops.sub)[kind](a, b)
            elif kind == 3:
                made = ops.mean(a, axis=0 if a.shape else None)
            elif kind == 4:
                made = ops.sub(ops.amax(a, axis=-1 if a.shape else None, keepdims=True), a)
            elif kind == 5:
                made = ops.softmax(a) if a.shape else ops.exp(ops.neg(ops.square(a)))
            elif kind == 6:
                made = ops.relu(ops.add(ops.matmul(a, weight), 0.5)) if fits and a.ndim == 2 else ops.relu(a)
            elif kind == 7:
                state.write(ops.mul(a, 0.5) if a.shape == state.shape else ops.add(ops.mul(state, 0.25), 1.0))
                continue
            elif kind == 8:
                made = ops.reshape(a, (*a.shape, 1)) if a.ndim < 3 else ops.reshape(a, (-1,))
            else:
                made = ops.tanh(a)
            values.append(made)
            if keep:
                results.append(made)
        return [*results, values[-1]]

    return step


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) < 4 and bool(np.prod(np.broadcast_shapes(a, b)) < 1000)
    except ValueError:
        return False


_PICKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 15), st.integers(0, 15), st.booleans()), max_size=16)


def _check_random_step(picks: list[tuple[int, int, int, bool]]) -> None:
    rng = np.random.default_rng(len(picks))
    step = _random_step(picks)
    start = [rng.standard_normal(shape).astype(np.float32) for shape in _SHAPES]
    plain, replayed = ([Tensor.from_host(a, persistent=True) for a in start] for _ in range(2))
    weight = Tensor.from_host(rng.standard_normal((6, 6)).astype(np.float32))
    x = rng.standard_normal((4, 6)).astype(np.float32)
    captured = capture(lambda x: step(x, weight, replayed), Tensor.from_host(x))
    for factor in (1.0, -0.5):
        given = Tensor.from_host(x * np.float32(factor))
        wanted, found = step(given, weight, plain), captured.replay(given)
        for a, b in zip([*wanted, *plain], [*found, *replayed]):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_step_of_many_ops(handle: DeviceHandle) -> None:
    drawn = np.random.default_rng(4).integers(0, [10, 16, 16, 2], (10, 4))
    _check_random_step([(int(k), int(i), int(j), bool(keep)) for k, i, j, keep in drawn])


@pytest.mark.deep
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(picks=_PICKS)
def test_random_steps(handle: DeviceHandle, picks: list[tuple[int, int, int, bool]]) -> None:
    _check_random_step(picks)


@pytest.mark.parametrize("through_view", [False, True])
def test_a_result_that_is_a_view_has_what_was_written_later(handle: DeviceHandle, through_view: bool) -> None:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        base = x * 2.0
        view = base[1:3]
        (view if through_view else base).add_(10.0)
        return view, base

    samples = [Tensor.from_host(handle, np.arange(5, dtype=np.float32) + start) for start in (0, 7)]
    captured = capture(step, samples[0])
    for x in (*samples, samples[0]):
        for found, wanted in zip(captured.replay(x), step(x)):
            assert np.array_equal(found.numpy(), wanted.numpy())


def test_calls_on_another_device_are_refused(handle: DeviceHandle) -> None:
    x = Tensor.from_host(handle, np.ones(3, np.float32))
    elsewhere = Tensor.from_host(CPUQueue("elsewhere"), np.ones(3, np.float32))

    def step(x: Tensor) -> Tensor:
        elsewhere.add_(1.0)
        return x + 1.0

    with pytest.raises(CaptureError, match="expected calls on .*, got .* which a replay would leave out"):
        capture(step, x)
    assert elsewhere.tolist() == [1.0, 1.0, 1.0]
    assert capture(lambda x: x + 1.0, x).replay(x).tolist() == [2.0, 2.0, 2.0]
