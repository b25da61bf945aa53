"""A rank that fails in the way its argument says, while the others wait for it; each prints when and what it sees.

faults.py FAULT [ARGUMENT]        a line: seconds of time.time(), "rank R", then "fails", "is well", or an error
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import netcl.distributed as dist
from netcl.core import Tensor, config


def say(text: str) -> None:
    print(f"{time.time():.3f} rank {dist.get_rank()} {text}\n", end="", flush=True)


def kill_self() -> None:
    say("fails")
    os.kill(os.getpid(), signal.SIGKILL)


def start_a_child() -> None:
    """Starts a process that outlives its parent unless it is ended."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *sys.argv[2:]])


def values(shape: tuple[int, ...], dtype: Any) -> Any:
    """Ones: an array, or, if the devices sum, a tensor that is large enough for them."""
    return Tensor.from_host(np.ones((1 << 18, *shape), dtype)) if on_devices() else np.ones(shape, dtype)


def on_devices() -> bool:
    """True if tensors of a megabyte or more are summed on the devices."""
    return bool(config.get("DIST_STAGING") == "on")


def die_in_a_collective(group: dist.ProcessGroup, last: bool) -> None:
    if len(sys.argv) > 2:
        start_a_child()
    if last:
        threading.Timer(0.3, kill_self).start()
    big = values((4,), np.float32) if on_devices() else np.ones(1 << 20, np.float32)
    for _ in range(100_000):
        group.all_reduce(big)


def die_twice(group: dist.ProcessGroup, last: bool) -> None:
    """Ends the last rank in the first two starts, which are counted by the files of a folder."""
    folder = Path(sys.argv[2])
    if group.rank == 0:
        (folder / str(len(list(folder.iterdir())))).touch()
    group.barrier()
    if last and len(list(folder.iterdir())) < 3:
        kill_self()


def main() -> None:
    fault = sys.argv[1]
    # A slow start of the others is not a fault.
    group = dist.init_process_group(timeout=90)
    last = group.rank == group.size - 1
    x = values((8,), np.float32)
    group.all_reduce(x)
    group.timeout = float(config.get("DIST_TIMEOUT_S"))
    if fault in ("kill", "stay"):
        die_in_a_collective(group, last and fault == "kill")
    if fault == "twice":
        die_twice(group, last)
    elif last:
        say("fails")
    if last and fault == "raise":
        raise ValueError("too bad")
    if last and fault == "end":
        return
    if last and fault == "sleep":
        time.sleep(600)
    if last and fault == "other":
        group.broadcast(x)
    if last and fault == "shape":
        x = values((9,), np.float32)
    if last and fault == "dtype":
        x = np.ones(8, np.int32)
    group.all_reduce(x)
    say("is well")


def report() -> None:
    try:
        main()
    except (RuntimeError, TimeoutError) as error:
        about = f" {error.rank}" if isinstance(error, dist.RankFailedError) else ""
        say(f"{type(error).__name__}{about}: {error}")
        raise


if __name__ == "__main__":
    report()
