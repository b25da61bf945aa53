"""The list of interceptors of engine calls: its order, each entry alone, and the cost of an empty list."""

from __future__ import annotations

import inspect
import sys
import threading
from typing import Any

import numpy as np
import pytest

from netcl.core import DeviceHandle
from netcl.core.backend.forwarding import ForwardedCalls
from netcl.core.backend.opencl.queue.fallback import KernelFallback
from netcl.core.capture.call_log import CallLog
from netcl.core.device import device, manager
from netcl.core.engine.interceptors import (
    Interceptor,
    Layer,
    interception,
    pop_interceptor,
)
from netcl.core.engine.profiler_sink import FlopCount, FlopCounter, ProfilerSink
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.registry import engine_for
from netcl.core.errors import KernelBuildError
from netcl.core.expr import Load
from netcl.core.graph.call import Ref
from netcl.core.graph.contractions import described
from netcl.core.ops_table.table import row_of

COMPUTING = [
    name
    for name, value in vars(ForwardedCalls).items()
    if inspect.isfunction(value) and value.__code__.co_filename.startswith("<netcl")
]


class Entry(Interceptor):
    """Writes the calls down and proceeds."""

    def __init__(self, layer: Layer, seen: list[Any], thread: int | None = None) -> None:
        self.layer, self.thread, self.seen = layer, thread, seen  # type: ignore[misc]

    def __call__(self, proceed: Any, engine: Any, name: str, args: Any, kwargs: Any) -> Any:
        self.seen.append((self.layer, name))
        return proceed(*args, **kwargs)


@pytest.fixture
def engine(handle: DeviceHandle) -> Any:
    """Yields the engine of each device."""
    with device(handle):
        found = engine_for(handle)
        before = found.interceptors
        yield found
        assert found.interceptors == before


def matrices(engine: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(engine.tensor(rng.normal(size=(4, 4)).astype(np.float32), "float32") for _ in range(2))  # type: ignore[return-value]


def frames_of(call: Any, name: str) -> list[str]:
    """Returns the functions on the stack, outermost first, from the engine's method to the kernel function ``name``."""
    found: list[str] = []

    def see(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == name and "/backend/" in frame.f_code.co_filename:
            if found or frame.f_code.co_filename.startswith("<"):
                return
            while frame is not None:
                found.append(frame.f_code.co_name)
                if frame.f_code.co_filename.startswith("<netcl"):
                    return
                frame = frame.f_back

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found[::-1]


@pytest.mark.parametrize("name", COMPUTING)
def test_generated_methods_have_the_protocols_signature_and_docstring(name: str) -> None:
    wanted, found = getattr(DeviceBackend, name), getattr(ForwardedCalls, name)
    assert inspect.signature(found) == inspect.signature(wanted)
    assert found.__doc__ == wanted.__doc__
    assert f"def {name}(self" in inspect.getsource(found)


def test_every_computing_call_is_generated() -> None:
    assert {"run", "fill", "matmul", "conv", "attention", "copy", "random"} <= set(COMPUTING)
    assert len(COMPUTING) == 28


def test_an_idle_list_adds_no_call(engine: Any) -> None:
    a, b = matrices(engine)
    assert not engine.intercepting
    engine.matmul(a, b)
    assert frames_of(lambda: engine.matmul(a, b), "matmul") == ["matmul", "matmul"]
    with interception(engine, Entry(Layer.CALL_LOG, [])):
        assert engine.intercepting
        assert len(frames_of(lambda: engine.matmul(a, b), "matmul")) > 2


def test_entries_are_passed_in_the_order_of_their_layers(engine: Any) -> None:
    seen: list[Any] = []
    entries = [Entry(layer, seen) for layer in (Layer.FLOP_COUNT, Layer.CALL_LOG)]
    a, b = matrices(engine)
    alone = engine.read(engine.matmul(a, b))
    with interception(engine, *entries):
        layers = [entry.layer for entry in engine.interceptors]
        assert layers == sorted(layers)
        assert np.array_equal(engine.read(engine.matmul(a, b)), alone)
        assert seen == [(layer, "matmul") for layer in (Layer.CALL_LOG, Layer.FLOP_COUNT)]
    assert not engine.intercepting


def test_the_newest_of_a_layer_is_outermost(engine: Any) -> None:
    seen: list[Any] = []
    first, second = Entry(Layer.CALL_LOG, seen), Entry(Layer.CALL_LOG, seen)
    with interception(engine, first, second):
        assert [entry for entry in engine.interceptors if entry in (first, second)] == [second, first]
    with pytest.raises(ValueError, match="not in the list"):
        pop_interceptor(engine, first)


def test_an_entry_sees_only_its_thread(engine: Any) -> None:
    seen: list[Any] = []
    a, b = matrices(engine)
    with interception(engine, Entry(Layer.CALL_LOG, seen, threading.get_ident())):
        other = threading.Thread(target=engine.matmul, args=(a, b))
        other.start()
        other.join()
        assert seen == []
        engine.matmul(a, b)
    assert len(seen) == 1


def test_an_entry_is_given_all_arguments(engine: Any) -> None:
    given: list[Any] = []

    class Arguments(Entry):
        def __call__(self, proceed: Any, engine: Any, name: str, args: Any, kwargs: Any) -> Any:
            given.append((args, kwargs))
            return proceed(*args, **kwargs)

    a, b = matrices(engine)
    with interception(engine, Arguments(Layer.CALL_LOG, [])):
        engine.matmul(b=b, a=a, transpose_b=True)
    assert given == [((a, b), {"transpose_a": False, "transpose_b": True, "out": None, "epilogue": None})]


def test_the_flop_counter_alone(engine: Any) -> None:
    counts = []

    class Told:
        @property
        def flop_count(self) -> FlopCount | None:
            return counts[-1]

        @flop_count.setter
        def flop_count(self, count: FlopCount | None) -> None:
            counts.append(count)

    a, b = matrices(engine)
    with interception(engine, FlopCounter(Told())):
        engine.matmul(a, b)
        engine.run((Load(0, "float32"),), (a,))
    assert [count and count.flops for count in counts] == [2 * 4 * 4 * 4, None]


def test_a_profiler_sink_alone(engine: Any) -> None:
    kernels: list[Any] = []

    class Sink(ProfilerSink):
        flop_count = None

        def kernel(self, began: float, event: Any, name: str, args: Any, flop_count: Any = None) -> None:
            kernels.append((name, self.flop_count is not None))

        def copy(self, began: float, event: Any, name: str, nbytes: int) -> None: ...

        def replay(self, began: float, launches: int) -> None: ...

    a, b = matrices(engine)
    sink = Sink()
    with interception(engine, sink):
        assert engine.sink is sink
        engine.matmul(a, b)
        assert kernels
        assert all(counted for _, counted in kernels)
    assert engine.sink is None
    count = len(kernels)
    engine.matmul(a, b)
    assert len(kernels) == count


def test_the_call_log_alone(engine: Any) -> None:
    a, b = matrices(engine)
    recording = engine.new_recording()
    log = CallLog(recording)
    engine.recording = recording
    try:
        with interception(engine, log):
            c = engine.matmul(a, b)
            (d,) = engine.run((Load(0, "float32") + Load(1, "float32"),), (c, a))
    finally:
        engine.recording = None
    assert [call.method for call in log.list] == ["matmul", "run"]
    assert log.complete
    (read,) = [number for number, _ in log.list[1].reads if number not in log.outside]
    assert (read, 0) in log.list[0].makes or (read, 1) in log.list[0].makes
    recording.replay()
    assert np.allclose(engine.read(d), engine.read(a) @ engine.read(b) + engine.read(a), rtol=1e-5, atol=1e-6)


def test_a_call_is_described_and_not_run(engine: Any) -> None:
    seen: list[Any] = []
    a, b = matrices(engine)
    with interception(engine, Entry(Layer.CALL_LOG, seen)):
        call = described(row_of("linear"), (a, b), {})
        assert described(row_of("linear"), (a, b), {"bias": a}) is None  # as linear refuses the shape
        images = [each._alias((1, 1, 4, 4)) for each in (a, b)]
        assert described(row_of("conv2d"), (*images, None, 1, 0, 1, 1, "im2col"), {}) is None  # two calls
    assert not seen
    assert (call.method, call.kwargs["transpose_b"], call.results) == ("matmul", True, Ref(-1, 0, (4, 4), "float32"))
    assert [ref.number for ref in call.args] == [0, 1]


def test_the_fallback_alone(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    from netcl.core.backend.opencl.contraction import gemm

    engine = engine_for(manager.split(engine.handle, 2)[0])  # of its own: a fallback does not forget
    (fallback,) = [one for one in engine.interceptors if isinstance(one, KernelFallback)]
    whole, variants = gemm.matmul, []

    def matmul(engine: Any, a: Any, b: Any, *, variant: str | None = None, **options: Any) -> Any:
        variants.append(variant)
        if variant is None:
            raise KernelBuildError("text", "", "log", "device", "driver")
        return whole(engine, a, b, variant=variant, **options)

    monkeypatch.setattr(gemm, "matmul", matmul)
    a, b = matrices(engine)
    assert fallback.idle
    seen: list[Any] = []
    with pytest.warns(RuntimeWarning, match="does not build the float32 kernel"):
        engine.matmul(a, b)
    assert variants == [None, "plain"]
    assert not fallback.idle
    with interception(engine, Entry(Layer.CALL_LOG, seen)):
        assert engine.intercepting
        engine.matmul(a, b)
    assert variants == [None, "plain", "plain"]
    assert seen == [(Layer.CALL_LOG, "matmul")]
    assert engine.intercepting


def test_a_failure_without_a_fallback_is_raised(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def random(*args: Any, **options: Any) -> Any:
        raise KernelBuildError("text", "", "log", "device", "driver")

    monkeypatch.setattr(engine.kernel_modules.random, "random", random)
    with pytest.raises(KernelBuildError):
        engine.random("uniform", (3,), "float32", offset=0)
    assert not engine.intercepting
