"""NETCL_POISON=1: memory that nothing has written holds NaN or large numbers, in each call and in each replay."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from netcl.core import DeviceHandle

_SCRIPT = """
import numpy as np
import netcl as nc
from netcl.core import Tensor, device
from netcl.core.engine.registry import engine_for

engine = engine_for(nc.manager.default())
dtypes = ["float32", "float16", "bfloat16", *(["float64"] if engine.handle.profile.has_fp64 else [])]
for dtype in dtypes:
    for _ in range(2):  # fresh, then recycled
        x = nc.empty((1000,), dtype=dtype)
        assert np.isnan(x.numpy().astype(np.float64)).all(), dtype
        x.fill_(1.0)
        assert (x.numpy().astype(np.float64) == 1).all(), dtype
        del x
assert (nc.empty((7,), dtype="int32").numpy() == 2**31 - 1).all()
assert (nc.empty((7,), dtype="int64").numpy() > 2**60).all()

x = Tensor.from_host(np.arange(6, dtype=np.float32))
for _ in range(3):
    np.testing.assert_array_equal(((x + 1.0) * 2.0).cumsum(0).numpy(), np.cumsum(2 * np.arange(1.0, 7)))
"""

_REPLAYS = """
from netcl.runtime.capture import capture

def step(x, write):
    scratch = nc.empty((6,), dtype="float32")
    if write:
        scratch.write(x)
    return scratch * 1.0

for write in (True, False):
    captured = capture(lambda x: step(x, write), x)
    for _ in range(3):
        assert np.isnan(captured.replay(x).numpy()).all() == (not write), write
"""


@pytest.mark.parametrize("script", [_SCRIPT, pytest.param(_SCRIPT + _REPLAYS, marks=pytest.mark.level("capture"))])
def test_what_nothing_has_written_shows(handle: DeviceHandle, script: str) -> None:
    environment = {**os.environ, "NETCL_POISON": "1", "NETCL_DEVICE": handle.selector, "NETCL_BUILD_PROCESSES": "0"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
