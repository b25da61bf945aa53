"""Random programs give the same bits if their launches wait for builds that end at random, in poisoned memory."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import DeviceHandle, Tensor, config, manager
from netcl.core.backend.opencl.queue.builds import deferred_launches
from netcl.core.backend.opencl.queue.builds.build_processes import Build
from netcl.core.backend.opencl.queue.launch import Launcher
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.ops_table import dispatch
from netcl.core.process import late_launches
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("capture")

# Elements of a tensor: the last two have regions of a CPU's pool, and the last one is too large for a copy that waits.
_SIZES = (6, 300, 70_000, 300_000)

_FUNCTIONS: list[Callable[[Tensor], Tensor]] = [
    ops.tanh,
    ops.sin,
    lambda x: x * 0.5,
    lambda x: x - x.mean(),
    lambda x: ops.cumsum(x.tanh(), axis=0).sin(),
    lambda x: ops.sort(x, axis=0)[0],
    lambda x: x[1:5].sum() + x.tanh(),
    lambda x: x.reshape(2, -1).T.reshape(-1) + 1.0,
    lambda x: x[:6] @ x[:6] * 0.1 - x.tanh(),
    lambda x: ops.cat([x[3:], x[:3]], axis=0),
    lambda x: Tensor.zeros((x.size,)),
]


class DelayedBuilds:
    """Child processes that begin and end the builds of programs at random moments."""

    busy = True

    def __init__(self) -> None:
        self.rng = random.Random()
        self.built: set[tuple[str, str]] = set()
        self.waited = 0  # launches that found a build under way
        self._open: list[Build] = []
        self._begun: list[Build] = []

    def begin(self, seed: int) -> None:
        self.rng.seed(seed)
        self.built.clear()

    def add(self, build: Build) -> None:
        self._open.append(build)
        while self._open and self.rng.random() < 0.4:
            self._begun.append(self._open.pop())
        self.pass_time()

    def pass_time(self) -> None:
        while self._begun and self.rng.random() < 0.3:
            self._end(self._begun.pop(self.rng.randrange(len(self._begun))))

    def claim(self, build: Build | None = None) -> Build | None:
        if build is None:
            return self._open.pop(0) if self._open else None
        if build not in self._open:
            return None
        self._open.remove(build)
        return build

    def wait(self, build: Build) -> None:
        self.waited += 1
        self.pass_time()
        if not build.done:
            self._begun.remove(build)
            self._end(build)

    def prepare(self) -> None:
        pass

    def _end(self, build: Build) -> None:
        build.done = True
        self.built.add((build.source, build.options))


@pytest.fixture
def builds() -> DelayedBuilds:
    return DelayedBuilds()


@pytest.fixture
def engine(
    handle: DeviceHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: DelayedBuilds
) -> Iterator[Any]:
    """Yields an engine in poisoned memory; its programs are missing until ``builds`` or a launch has built them."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy builds no kernels")
    build = Launcher.program

    def program(self: Launcher, source: str, options: str) -> Any:
        made = build(self, source, options)
        builds.built.add((source, options))
        return made

    monkeypatch.setattr(Launcher, "program", program)
    monkeypatch.setattr(Launcher, "has_program", lambda self, *text: builds.pass_time() or text in builds.built)
    monkeypatch.setattr(deferred_launches, "processes_for", lambda device: builds)
    with config.override(BUILD_PROCESSES=1, CACHE_DIR=tmp_path):
        other = manager._new_handle(handle.platform_name, handle.device)
        with device(other):
            yield engine_for(other)
            late_launches.enqueue()


def _forget(engine: Any) -> None:
    """Makes every kernel look as if this process had not built it."""
    late_launches.enqueue()
    dispatch.records.clear()
    engine.plans.clear()
    engine.launcher._programs.clear()
    engine.launcher._kernels.clear()


class RandomProgram:
    """A program over a few tensors; ``run`` returns all that it reads, in order."""

    def __init__(self, engine: Any, seed: int) -> None:
        self.engine = engine
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.tensors: list[Tensor] = []
        self.seen: list[np.ndarray[Any, Any]] = []
        self.reads: list[Any] = []

    def run(self) -> list[np.ndarray[Any, Any]]:
        self.upload()
        self.upload()
        actions = [self.upload, self.compute, self.compute, self.compute, self.combine, self.combine, self.write]
        actions += [self.in_place, self.drop, self.drop, self.read, self.look, self.replay, self.elsewhere]
        # A read ends the waiting, so it is seldom.
        weights = [3, 4, 4, 4, 3, 3, 2, 4, 3, 3, 0.5, 0.5, 0.5, 1]
        for action in self.rng.choices(actions, weights, k=self.rng.choice((10, 40, 400))):
            action()
        self.seen += [result.wait() for result in self.reads]
        return [*self.seen, *(tensor.numpy() for tensor in self.tensors)]

    def keep(self, tensor: Tensor) -> None:
        if len(self.tensors) > 8:
            self.tensors.pop(self.rng.randrange(len(self.tensors)))
        self.tensors.append(tensor)

    def values(self, size: int) -> np.ndarray[Any, Any]:
        return self.numbers.standard_normal(size).astype(np.float32)

    def some(self) -> Tensor:
        return self.rng.choice(self.tensors)

    def upload(self) -> None:
        self.keep(Tensor.from_host(self.values(self.rng.choice(_SIZES))))

    def compute(self) -> None:
        y = self.rng.choice(_FUNCTIONS)(self.some())
        self.keep(y.tanh() if self.rng.random() < 0.3 else y)

    def combine(self) -> None:
        x, y = self.some(), self.some()
        size = min(x.size, y.size)
        self.keep((x[:size] - y[:size] * 0.25).tanh())

    def write(self) -> None:
        x = self.some()
        self.engine.write(x, self.values(x.size))

    def in_place(self) -> None:
        x, y = self.some(), self.some()
        number = self.rng.randrange(5)
        if number == 0:
            x *= 0.5
        elif number == 1 and x.size == y.size:
            x += y.sin()
        elif number == 2:
            x[1:4] = y[:3]
        elif number == 3:
            self.engine.fill(x, 0.25)
        else:
            x.write(x.cos())

    def drop(self) -> None:
        if len(self.tensors) > 2:
            del self.tensors[self.rng.randrange(len(self.tensors))]
        if self.rng.random() < 0.1:
            gc.collect()
            self.engine.pool.clear()

    def read(self) -> None:
        self.seen.append(self.some().numpy().copy())

    def look(self) -> None:
        import pyopencl as cl

        x = self.some()
        out = np.empty(x.size, np.float32)
        if self.rng.random() < 0.5:
            cl.enqueue_copy(self.engine.queue, out, x.buffer)
            self.seen.append(out)
        else:
            self.reads.append(x.to_host_async())

    def replay(self) -> None:
        x, total = self.some(), Tensor.zeros((6,), persistent=True)
        step = capture(lambda x: total.write(total * 0.5 + x[:6].tanh()), x)
        for _ in range(2):
            step.replay(x)
        self.keep(total + 0.0)

    def elsewhere(self) -> None:
        x, made = self.some(), []

        def work() -> None:
            with device(self.engine.handle):
                made.append(x.sin() * 0.5)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.keep(made[0])


def _differences(engine: Any, builds: DelayedBuilds, seeds: range) -> list[int]:
    different = []
    for seed in seeds:
        with config.override(BUILD_PROCESSES=0):
            expected = RandomProgram(engine, seed).run()
        _forget(engine)
        builds.begin(seed)
        results = RandomProgram(engine, seed).run()
        same = len(results) == len(expected) and all(a.tobytes() == b.tobytes() for a, b in zip(results, expected))
        if not same or any(np.isnan(result).any() for result in results):
            different.append(seed)
    return different


def test_launches_that_wait_have_the_bits_of_launches_at_once(engine: Any, builds: DelayedBuilds) -> None:
    assert _differences(engine, builds, range(12)) == []
    assert builds.waited > 10


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_a_thousand_random_programs(engine: Any, builds: DelayedBuilds) -> None:
    assert _differences(engine, builds, range(1000, 2000)) == []
    assert builds.waited > 1000
