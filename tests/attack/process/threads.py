"""A thread storm: many threads launch, copy, capture and drop tensors, while the process ends with its own code."""

from __future__ import annotations

import subprocess
import sys

from registry import Run, attack

STORM = """
import random, sys, threading, time
import numpy as np
from netcl import ops
from netcl.core import Tensor
from netcl.core.device import manager
seed, count, code, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
queue = manager.default(sys.argv[5]).queue
a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7
shared = Tensor.from_host(queue, a)
wrong = []
def work(number):
    rng = random.Random(seed * 100 + number)
    while True:
        kind = rng.randrange(6)
        if kind == 0:
            right = np.array_equal(ops.add(shared, shared).to_host(), a + a)
        elif kind == 1:
            right = np.array_equal(ops.matmul(shared, shared).to_host(), a @ a)
        elif kind == 2:
            mine = np.full((rng.randrange(1, 99), 3), number, np.float32)
            right = np.array_equal(Tensor.from_host(queue, mine).to_host(), mine)
        elif kind == 3:
            right = float(ops.sum(shared).to_host()) == a.sum()
        elif kind == 4:
            right = np.array_equal(shared.to_host_async().wait(), a)
        else:
            for _ in range(rng.randrange(9)):
                ops.mul(shared, float(number))
            right = True
        if not right:
            wrong.append(kind)
threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
for thread in threads:
    thread.start()
time.sleep(seconds)
print("wrong", sorted(set(wrong)), sum(thread.is_alive() for thread in threads), flush=True)
sys.exit(code)
"""


@attack("process.threads", weight=2.0, least=5.0)
def threads(run: Run) -> None:
    """Threads that launch until the process ends with a code of its own."""
    from process.environment import installed

    drivers = sorted(installed())
    for rng in run.cases():
        count, code, seconds = rng.randrange(1, 9), rng.randrange(0, 120), rng.uniform(0.0, 0.6)
        arguments = [str(rng.getrandbits(20)), str(count), str(code), f"{seconds:.2f}", rng.choice(drivers)]
        command = [sys.executable, "-c", STORM, *arguments]
        run.count(arguments[-1])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            run.fail("a process with threads does not end", reproducer=" ".join(arguments))
            continue
        if done.returncode != code:
            tail = done.stderr.strip()[-300:]
            run.fail("the exit code is another", reproducer=f"{' '.join(arguments)}: {done.returncode}\n{tail}")
        elif done.stdout.strip() != f"wrong [] {count}":
            run.fail("wrong numbers or dead threads", reproducer=f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
