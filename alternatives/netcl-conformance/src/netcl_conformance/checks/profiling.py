"""Level profiling: kernels with their times, and timers."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import netcl.ops as ops
from netcl.profiling.timing import format_seconds, timing
from netcl.profiling.trace import profile
from netcl_conformance.registry import check
from netcl_conformance.values import tensor


@check("profiling")
def a_profile_lists_what_ran() -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    with profile() as found:
        ops.matmul(x, x).numpy()
        ops.exp(x).numpy()
    assert len(list(found.kernels)) >= 2
    assert isinstance(found.table(), str)
    assert found.table().strip()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome(path)
        assert path.stat().st_size > 0


@check("profiling")
def a_timing_has_a_median() -> None:
    found = timing(lambda: ops.add(tensor([1.0]), 1).numpy(), warmup=1, runs=3)
    assert 0 < found.best <= found.median
    assert "s" in format_seconds(found.median)
