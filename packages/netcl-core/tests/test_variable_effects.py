"""Each NETCL_ variable of netcl-core changes what runs; variables tested in another module are listed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.core import Tensor, config
from netcl.core.backend.opencl.queue import transfer
from netcl.core.engine.registry import engine_for

# The file with tests of a variable's effect; below tests/ of netcl-core if it names no package.
SEEN_IN = {
    "KERNEL_STRATEGY": "tuning/test_launched_kernels.py",
    "FLOAT32_MATMUL": "backend/contraction/test_matrix_units.py",
    "AUTOCAST_ON_CPUS": "netcl-autograd/tests/test_amp.py",
    "CONV_WINOGRAD": "backend/contraction/test_conv_kernels.py",
    "CONV_TILED_LOCAL": "tuning/test_launched_kernels.py",
    "MAX_CACHED_GB": "memory/test_memory.py",
    "ASYNC_H2D": "test_variable_effects.py",
    "PINNED_H2D": "test_variable_effects.py",
    "PROFILE_EVENTS": "profiling/test_profiling.py",
    "DEVICE": "device/test_device.py",
    "PLATFORM_FILTER": "device/test_device.py",
    "BUILD_PROCESSES": "backend/builds/test_deferred_launches.py",
    "CACHE_DIR": "backend/queue/programs/test_programs.py",
    "CACHE": "backend/queue/programs/test_programs.py",
    "CACHE_MAX_MB": "backend/queue/programs/test_programs.py",
    "POOL_BUDGET_FRAC": "memory/test_memory.py",
    "PINNED_MAX_MB": "backend/queue/test_transfer.py",
    "AUTOTUNE": "profiling/test_autotuner.py",
    "FAST_MATH": "netcl-autograd/tests/test_compiler.py",
    "DETERMINISTIC": "tuning/test_shipped.py",
    "COMMAND_BUFFER": "capture/test_capture.py",
    "REPLAY": "netcl-optim/tests/test_prediction.py",
    "CHECK_CAPTURE": "netcl-trainer/tests/test_step.py",
    "WATCHDOG_S": "device/test_lost_devices.py",
    "DIST_TIMEOUT_S": "netcl-distributed/tests/test_groups.py",
    "DIST_STAGING": "netcl-distributed/tests/test_staging.py",
    "SIGINT": "backend/queue/test_teardown.py",
    "PROGRESS": "backend/queue/programs/test_build_progress.py",
    "SYNC": "device/test_lost_devices.py",
    "POISON": "memory/test_poison.py",
    "SEED": "ops/test_random_ops.py",
    "LOG": "backend/queue/programs/test_programs.py",
    "RANK": "netcl-distributed/tests/test_groups.py",
    "WORLD_SIZE": "netcl-distributed/tests/test_groups.py",
    "LOCAL_RANK": "netcl-distributed/tests/test_groups.py",
    "RENDEZVOUS": "netcl-distributed/tests/test_groups.py",
}


def test_every_variable_has_a_test_that_sets_it() -> None:
    assert set(SEEN_IN) == set(config.VARIABLES)
    here = Path(__file__).parent
    for name, place in SEEN_IN.items():
        path = here.parents[1] / place if place.startswith("netcl-") else here / place
        text = path.read_text(encoding="utf-8")
        assert f"{name}=" in text or f"NETCL_{name}" in text or f'"{name}"' in text, (name, place)


@pytest.fixture
def uploads(handle: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns (engine, the arguments of staged uploads, the uploads with a wait)."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy copies nothing to a device")
    engine: Any = engine_for(handle)
    staged: list[int] = []
    waited: list[Any] = []
    upload, wait = transfer.Transfer._upload_staged, engine.launcher.wait

    def note_staged(self: Any, buffer: Any, source: Any) -> Any:
        staged.append(source.nbytes)
        return upload(self, buffer, source)

    def note_wait(event: Any, *args: Any) -> Any:
        if event is not None:
            waited.append(event)
        return wait(event, *args)

    monkeypatch.setattr(transfer.Transfer, "_upload_staged", note_staged)
    monkeypatch.setattr(engine.launcher, "wait", note_wait)
    return engine, staged, waited


def test_async_h2d_decides_if_an_upload_is_waited_for(uploads: Any) -> None:
    engine, _, waited = uploads
    values = np.arange(5000, dtype=np.float32)
    for asynchronous in (True, False):
        waited.clear()
        with config.override(ASYNC_H2D=asynchronous):
            tensor = Tensor.from_host(engine.queue, values)
        assert bool(waited) != asynchronous
        assert np.array_equal(tensor.numpy(), values)


def test_pinned_h2d_decides_if_an_upload_is_staged(uploads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, staged, _ = uploads
    monkeypatch.setattr(engine.transfer, "_shares_memory", False)  # as a device with memory of its own
    values = np.arange(5000, dtype=np.float32)
    for pinned in (True, False):
        staged.clear()
        with config.override(PINNED_H2D=pinned):
            tensor = Tensor.from_host(engine.queue, values)
        assert staged == ([values.nbytes] if pinned else [])
        assert np.array_equal(tensor.numpy(), values)
