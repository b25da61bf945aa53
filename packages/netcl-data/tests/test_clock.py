"""A clock of the system that is set forth and back while batches are read."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from netcl.data import DataLoader


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_do_not_depend_on_it(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a worker taken for one that hangs, nor does a limit of time pass by."""
    data = np.arange(60, dtype=np.float32).reshape(30, 2), np.arange(30)
    found = []
    for jumps in (False, True):
        with monkeypatch.context() as patched:
            if jumps:
                times = itertools.cycle([1e9, 4e9, 0.0, -1.0])
                patched.setattr(time, "time", lambda times=times: next(times))
                patched.setattr(time, "time_ns", lambda times=times: int(next(times) * 1e9))
            with DataLoader(data, 4, shuffle=True, seed=3, num_workers=workers, timeout=60) as loader:
                found.append([[np.array(part) for part in batch] for batch in loader])
    assert len(found[0]) == len(found[1]) == 8
    for one, other in zip(*found):
        assert all(np.array_equal(a, b) for a, b in zip(one, other))
