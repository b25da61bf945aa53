"""Tensors in queues and pipes of multiprocessing, of processes that are started by spawn."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import multiprocessing, sys
import numpy as np
import netcl as nc

def work(given, made):
    while (x := given.get()) is not None:
        made.put((x * 2, x.requires_grad, x.device.selector))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    given, made = context.Queue(), context.Queue()
    process = context.Process(target=work, args=(given, made), daemon=True)
    process.start()
    base = nc.tensor(np.arange(12, dtype="float32").reshape(3, 4))
    tensors = [base, base[1:, ::2], base.t(), nc.zeros((0, 3)), base > 3, base.to("int64"), base.to("float64")]
    tensors += [base.to("bfloat16"), base.to("float16")]
    for x in tensors:
        given.put(x)
        back, _, where = made.get(timeout=100)
        wanted = x.numpy() * 2 if str(x.dtype) != "bool" else x.numpy().astype("int64") * 2
        assert (back.shape, where) == (x.shape, x.device.selector), (x, back)
        assert np.array_equal(back.to("float64").numpy(), np.asarray(wanted, "float64")), (x, back)
    parent, child = context.Pipe()
    try:
        parent.send((nc.ones(3, requires_grad=True) * 2).sum())
    except RuntimeError as error:
        print(error)
    leaf = nc.ones(3, requires_grad=True)
    parent, child = context.Pipe()  # without netcl-autograd the product above is a leaf, and was sent
    parent.send(leaf)
    assert child.recv().requires_grad
    given.put(None)
    process.join(100)
    print("ended", process.exitcode)
"""


@pytest.mark.timeout(300)
def test_tensors_pass_through_queues_of_spawned_processes(handle: Any, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "NETCL_DEVICE": handle.selector}
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    refused = "pickle: only leaves can be pickled, not results of recorded ops; write x.detach() first"
    records = importlib.util.find_spec("netcl.autograd") is not None
    assert done.stdout.splitlines() == [*([refused] if records else []), "ended 0"], done.stderr
