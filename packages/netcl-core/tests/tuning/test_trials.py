"""Kernels that are new on a driver run in a child process first: what kills or hangs it is never run again."""

from __future__ import annotations

import importlib
import json
import os
import sys

import pytest

from netcl.core import config
from netcl.core.device.drivers import child_probe
from netcl.core.engine.registry import engine_for
from netcl.core.tuning import matrix_units, measurements, shipped
from netcl.profiling import trials
from netcl.profiling.autotuner import autotune_matmul

SHAPE = (40, 24, 56)
ABORTS = "os.abort()"
HANGS = 'engine.launch(LOOP, "loop", (1,), (1,), [a])'
PLANTED = """
import os
from netcl.core.backend.opencl.contraction import gemm

right = gemm.matmul
LOOP = "__kernel void loop(volatile __global float* x) {{ while (x[0] < 2.0f) x[0] = 1.0f; }}"


def planted(engine, a, b, *, variant=None, **options):
    with open({log!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{variant}}\\n")
    if variant == "packed":
        {fault}
    return right(engine, a, b, variant=variant, **options)


gemm.matmul = planted
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Verdicts and measurements of its own for each test; compiled kernels stay where they are."""
    monkeypatch.setattr(child_probe, "_known", {})
    monkeypatch.setattr(child_probe, "_folder", lambda: tmp_path / "probes")
    monkeypatch.setattr(measurements, "_tables", {})
    monkeypatch.setattr(measurements, "_folder", lambda: tmp_path / "tuning")
    monkeypatch.setattr(shipped, "rows_for", lambda device: ())
    with config.override(AUTOTUNE="cached", DETERMINISTIC=False):
        yield tmp_path
    measurements.forget_choices()


@pytest.fixture
def opencl(handle):
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no driver")
    return handle


def verdicts(folder):
    found = (json.loads(path.read_text().partition("\n")[2]) for path in (folder / "probes").glob("matmul-*.json"))
    return {row["probe"].split("-")[1]: (row["right"], row["reason"]) for row in found}


@pytest.mark.parametrize(
    ("fault", "limit", "reason"),
    [
        (ABORTS, 90.0, "the driver ended the process (signal 6)"),  # far more than a child needs on a loaded machine
        pytest.param(HANGS, 10.0, "it did not end within 10 s", marks=[pytest.mark.deep, pytest.mark.timing]),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_what_kills_or_hangs_a_child_is_never_run_again(opencl, own_cache, monkeypatch, fault, limit, reason):
    """Planted into the children alone, by what Python imports at its start from the path that they are given."""
    if engine_for(opencl).kernel_modules.gemm.kernels(engine_for(opencl), (40, 56), (56, 24)) != (
        "rows",
        "packed",
        "direct",
    ):
        pytest.skip("needs a CPU device, whose kernels are planted here")
    log = own_cache / "log"
    (own_cache / "sitecustomize.py").write_text(PLANTED.format(log=str(log), fault=fault))
    monkeypatch.syspath_prepend(str(own_cache))
    monkeypatch.setattr(trials, "_LIMIT_S", limit)
    monkeypatch.setattr(trials, "_BOUND_S", 6 * limit)
    for _ in range(2):
        candidates = autotune_matmul(*SHAPE, warmup=0, runs=1, save=False).extra["candidates"]
        assert set(candidates) == {"rows", "direct"}
        child_probe._known.clear()  # as a new process
    right = (True, "right")
    assert verdicts(own_cache) == {"rows": right, "packed": (False, reason), "direct": right}
    tried = [line.split() for line in log.read_text().splitlines()]
    again = 2 if fault == HANGS else 1  # what came before it may have used up the time of the first child
    assert [variant for _, variant in tried] == ["rows", *["packed"] * again, "direct"]
    for child, _ in tried:
        with pytest.raises(ProcessLookupError):
            os.kill(int(child), 0)


def test_where_no_child_can_say_anything_kernels_are_run_here(opencl, own_cache, monkeypatch):
    monkeypatch.setattr(trials, "_SCRIPT", "import no_such_module")
    assert len(autotune_matmul(*SHAPE, warmup=0, runs=1).extra["candidates"]) > 1
    assert verdicts(own_cache) == {}
    monkeypatch.setattr(trials, "_try_in_child", None)  # what was measured is not tried
    assert len(autotune_matmul(8, 8, 8, warmup=0, runs=1).extra["candidates"]) > 1


@pytest.mark.parametrize("module", [matrix_units.PRODUCTS_TRIAL, matrix_units.ATTENTION_TRIAL])
def test_trials_of_units_are_where_their_child_looks(module: str) -> None:
    """Another place would be taken for a unit that is wrong, and on devices with a unit alone."""
    pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
    assert callable(importlib.import_module(f"netcl.core.backend.opencl.{module}").run_trial)
