"""A signal handler that computes in the middle of any call: it ends, and neither its numbers nor the program's change.

A finalizer and a callback of a weak reference run in the same way between two instructions of a thread. All numbers are
whole, so that each result is known exactly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from netcl.core.testing.pytest_plugin import open_device, selectors

SCRIPT = """\
import faulthandler, signal, sys, time
faulthandler.dump_traceback_later(float(sys.argv[1]) * 8 + 100, exit=True)
import numpy as np
from netcl import ops
from netcl.core import Tensor
from netcl.core.tensor.generator import Generator, drawing_from
from netcl.runtime.capture import capture

handled, wrong, pause = [0], [], [0.001]
total = Tensor.zeros(6)
replayed = capture(lambda x: ops.cumsum(x * 2.0 + 1.0, 0), Tensor.ones(6))
ops.manual_seed(3)
seeded = [ops.rand(9).numpy().tobytes() for _ in range(4)]
with drawing_from(Generator().manual_seed(5)):
    other = ops.rand(5).numpy().tobytes()


def check(name, found, wanted):
    if not np.array_equal(found, wanted):
        wrong.append(f"{name}: {np.asarray(found).ravel()[:4]} for {np.asarray(wanted).ravel()[:4]}")


def handler(*_):
    try:
        n = handled[0]
        k, m = n % 5 + 2, n % 64 + 1
        x = Tensor.from_host(np.arange(k * m, dtype=np.float32).reshape(m, k))
        check("sum", (x * 2.0 + k).sum().item(), (np.arange(k * m) * 2.0 + k).sum())
        check("sort", ops.sort(x.reshape((-1,)) * -1.0)[0].numpy(), -np.arange(k * m)[::-1])
        check("replay", replayed.replay(Tensor.full((6,), float(k))).numpy(), np.cumsum(np.full(6, 2.0 * k + 1)))
        with drawing_from(Generator().manual_seed(5)):
            check("own draw", ops.rand(5).numpy().tobytes() == other, True)
        total.add_(1.0)
    except BaseException as error:
        wrong.append(f"{type(error).__name__}: {error}")
    handled[0] += 1
    signal.setitimer(signal.ITIMER_REAL, pause[0])


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, pause[0])
end, step = time.monotonic() + float(sys.argv[1]), 0
own = Tensor.zeros(7)
while time.monotonic() < end or step < 20:
    step += 1
    k, m = step % 5 + 2, step % 50 + 1
    pause[0] = (step % 7 + 1) * 0.0007
    host = np.arange(m * k, dtype=np.float32).reshape(m, k)
    x = Tensor.from_host(host)
    check("product", (x @ ops.transpose(x)).numpy(), host @ host.T)
    wanted = np.where(host > 3, host * 3, host - 1).sum(0)
    check("fused", ops.where(x > 3.0, x * 3.0, x - 1.0).sum(axis=0).numpy(), wanted)
    x[:1].fill_(float(step))
    check("view", x.numpy()[0], np.full(k, step))
    check("cumsum", ops.cumsum(x[-1], 0).numpy(), np.cumsum(np.full(k, step) if m == 1 else host[-1]))
    own.add_(1.0)
    check("state", own.numpy(), np.full(7, step))
    check("step", replayed.replay(Tensor.full((6,), float(step))).numpy(), np.cumsum(np.full(6, 2.0 * step + 1)))
    ops.manual_seed(3)
    check("draws", [ops.rand(9).numpy().tobytes() == one for one in seeded], [True] * 4)
signal.setitimer(signal.ITIMER_REAL, 0)
check("total", total.numpy(), np.full(6, handled[0]))
print(handled[0], step, wrong[:5], flush=True)
sys.exit(bool(wrong) or handled[0] < 20)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers, which Windows does not have")
@pytest.mark.parametrize("selector", selectors())
@pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.deep)])
def test_a_handler_computes_in_the_middle_of_calls(selector, seconds, tmp_path):
    open_device(selector)  # skips if it is missing
    (tmp_path / "cache").mkdir(mode=0o700)  # empty, so that handlers interrupt builds too
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(seconds)],
        capture_output=True,
        text=True,
        timeout=seconds * 8 + 150,
        env=dict(os.environ, NETCL_DEVICE=selector, NETCL_CACHE_DIR=str(tmp_path / "cache")),
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


FINALIZERS = """
import gc, sys, time, weakref
import netcl as nc
total = nc.ones(64)
computed, called = [], []
class Node:
    def __init__(self):
        self.me, self.x = self, nc.ones(64) * 2  # a cycle, so that the collector calls __del__ in the middle of a call
        weakref.finalize(self, lambda x=self.x: called.append((x + 1).sum().item()))
    def __del__(self):
        computed.append((self.x * 3).sum().item())
gc.set_threshold(20)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    Node()
    total = nc.exp(total * 0) + nc.matmul(nc.ones(8, 8), nc.ones(8, 8)).sum() * 0
gc.collect()
assert len(computed) > 20 and len(called) > 20, (len(computed), len(called))
assert set(computed) == {384.0} and set(called) == {192.0}, (set(computed), set(called))
assert total.tolist() == [1.0] * 64, total
"""


@pytest.mark.parametrize("selector", selectors())
def test_a_finalizer_computes_in_the_middle_of_calls(selector):
    open_device(selector)  # skips if it is missing
    done = subprocess.run(
        [sys.executable, "-c", FINALIZERS, "2"],
        capture_output=True,
        text=True,
        timeout=170,
        env=dict(os.environ, NETCL_DEVICE=selector),
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
