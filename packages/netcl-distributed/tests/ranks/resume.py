"""Trains in steps, each saved by rank 0, from the last checkpoint on; one rank of each early start kills itself."""

from __future__ import annotations

import os
import random
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

import netcl.autograd as ag
import netcl.distributed as dist
from netcl.core import Tensor
from netcl.io.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from netcl.optim import SGD


def kill_after(seconds: float) -> None:
    def kill() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def main() -> None:
    """Runs ``resume.py FOLDER STEPS KILLS``: starts are counted by the files in FOLDER/starts."""
    folder, steps, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    group = dist.init_process_group()
    starts = folder / "starts"
    if group.rank == 0:
        starts.mkdir(exist_ok=True)
        (starts / str(len(list(starts.iterdir())))).touch()
    group.barrier()
    start = len(list(starts.iterdir())) - 1
    training = runpy.run_path(str(Path(__file__).with_name("training.py")))
    module = training["make"]("dropout")
    model = dist.DataParallel(module, weights=[1.0] * group.size)
    optimizer = SGD(module.parameters(), lr=0.05, momentum=0.9)
    saves = folder / "saves"
    saves.mkdir(exist_ok=True)
    last = latest_checkpoint(saves)
    done = 0 if last is None else load_checkpoint(last, module, optimizer=optimizer)["step"]
    group.barrier()
    if start < kills and group.rank == start % group.size:
        kill_after(random.Random(start).uniform(0.0, 0.4))
    for step in range(done, steps):
        x, y = model.shard(*training["batch"](step))
        optimizer.zero_grad()
        ag.cross_entropy(model(Tensor.from_host(x)), Tensor.from_host(y)).backward()
        optimizer.step()
        path = saves / f"{step % 2}.ckpt"
        dist.on_root(lambda path=path, step=step: save_checkpoint(module, path, optimizer=optimizer, step=step + 1))
        time.sleep(0.01 if kills else 0.0)
    if group.rank == 0:
        print(start, b"".join(value.numpy().tobytes() for value in module.state_dict().values()).hex())


if __name__ == "__main__":
    main()
