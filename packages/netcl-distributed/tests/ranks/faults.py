"""A rank that fails in the way its argument says, while the others wait for it; each prints what it sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import netcl.distributed as dist


def kill_soon() -> None:
    def kill() -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def start_a_child() -> None:
    """Something that outlives its parent if nobody ends it."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *sys.argv[2:]])


def main() -> None:
    fault = sys.argv[1]
    group = dist.init_process_group()
    last = group.rank == group.size - 1
    x = np.ones(8, np.float32)
    group.all_reduce(x)
    if fault == "kill":
        if len(sys.argv) > 2:
            start_a_child()
        if last:
            kill_soon()
        big = np.ones(1 << 20, np.float32)
        for _ in range(100_000):
            group.all_reduce(big)
    if last and fault == "raise":
        raise ValueError("too bad")
    if last and fault == "end":
        return
    if last and fault == "sleep":
        time.sleep(600)
    if last and fault == "other":
        group.broadcast(x)
    if last and fault == "shape":
        x = np.ones(9, np.float32)
    if last and fault == "dtype":
        x = np.ones(8, np.int32)
    if fault == "twice":
        folder = Path(sys.argv[2])
        starts = len(list(folder.iterdir())) if group.rank == 0 else 0
        if group.rank == 0:
            (folder / str(starts)).touch()
        group.barrier()
        if last and len(list(folder.iterdir())) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
    group.all_reduce(x)
    print(f"rank {group.rank} is well\n", end="")


def report() -> None:
    try:
        main()
    except RuntimeError as error:
        print(f"{type(error).__name__} {getattr(error, 'rank', '')}: {error}\n", end="", flush=True)
        raise
    except TimeoutError as error:
        print(f"{type(error).__name__}: {error}\n", end="", flush=True)
        raise


if __name__ == "__main__":
    report()
