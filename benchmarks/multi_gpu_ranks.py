"""One rank of ``benchmarks/multi_gpu.py``: training steps and sums of gradients, by netcl or by PyTorch; rank 0 prints
JSON, one line for each row.

Alone it is the row of one card: ``python benchmarks/multi_gpu_ranks.py --rows resnet18``. Ranks are started by
``python -m netcl.distributed.run`` and by ``python -m torch.distributed.run``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import gpu
import numpy as np

import netcl as nc
import netcl.distributed as dist
from netcl import nn, optim
from netcl.core import Tensor, manager
from netcl.core.device import device, get_active_device
from netcl.runtime.capture import capture

Work = Callable[[], Any]
BATCHES = {"gpt2": 8, "resnet18": 256}


def seconds_of(step: Work, wait: Work, barrier: Work, steps: int, repeats: int = 5) -> list[float]:
    """The times of a step, each the mean of ``steps`` in a row, which all ranks begin together."""
    found = []
    for _ in range(repeats):
        wait()
        barrier()
        begun = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        found.append((time.perf_counter() - begun) / steps)
    return found


def batch_of(name: str) -> tuple[Any, Any]:
    """The batch of a rank: the images or the text of ``gpu.py``."""
    return gpu._gpt_batch() if name == "gpt2" else gpu._images(BATCHES[name])


def ours(options: argparse.Namespace) -> None:
    """The rows by netcl."""
    launched = "NETCL_RENDEZVOUS" in os.environ
    group = dist.init_process_group() if launched else None
    size, rank = (group.size, group.rank) if group is not None else (1, 0)
    handle = get_active_device()
    wait = handle.queue.finish

    def barrier() -> None:
        if group is not None:
            group.barrier()

    def report(row: str, values: list[float], **more: Any) -> None:
        if rank == 0:
            words = {"row": row, "who": "netcl", "ranks": size, "seconds": statistics.median(values), "all": values}
            print(json.dumps({**words, "device": handle.device_name, **more}), flush=True)

    for name in options.rows.split(","):
        if name.startswith("all_reduce"):
            if group is None:
                continue
            count = int(float(name.split(":")[1]) * 1e6) // 4
            x = Tensor.from_host(np.arange(count, dtype=np.float32) % 1000 + rank)
            group.all_reduce(x)
            wanted = size * (np.arange(count, dtype=np.float32) % 1000) + size * (size - 1) / 2
            right = bool(np.array_equal(x.to_host(), wanted))
            values = seconds_of(lambda: group.all_reduce(x), wait, barrier, 5)  # noqa: B023
            report(name, values, right=right, gigabytes_per_second=4e-9 * count / statistics.median(values))
            continue
        model: Any = gpu.gpt2(nc, nc.arange) if name == "gpt2" else gpu.models.model("resnet18", nc)
        whole = (
            model
            if group is None
            else dist.DataParallel(
                model, bucket_mb=options.bucket_mb, weights=[1] * size, compression=options.compression
            )
        )
        updates: Any = (
            optim.AdamW(model.parameters(), lr=1e-4)
            if name == "gpt2"
            else optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        )
        x, y = (Tensor.from_host(array) for array in batch_of(name))

        def step(x: Tensor, y: Tensor) -> Tensor:
            updates.zero_grad()  # noqa: B023
            with nc.autocast(options.dtype == "bfloat16", "bfloat16"):
                found = whole(x)  # noqa: B023
                loss: Tensor = nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))
            loss.backward()
            updates.step()  # noqa: B023
            return loss

        for _ in range(2):
            step(x, y)
        captured = capture(step, x, y)
        captured.replay(x, y)
        values = seconds_of(lambda: captured.replay(x, y), wait, barrier, options.steps)  # noqa: B023
        spans = [] if group is None else [(one.name, one.begun, one.ended) for one in whole.spans]
        begun = time.perf_counter()
        captured.replay(x, y)
        host = time.perf_counter() - begun
        wait()
        report(f"{name} {options.dtype}", values, launches=len(captured), host=host, spans=spans)
    if group is not None:
        dist.destroy_process_group()


def one_process(options: argparse.Namespace) -> None:
    """The rows of one process with a thread for each device; the batch is as many times as large."""
    handles = [manager.default(name) for name in options.devices.split(",")]
    count = len(handles)
    for name in options.rows.split(","):
        if name.startswith("all_reduce"):
            continue
        with device(handles[0]):
            model: Any = gpu.gpt2(nc, nc.arange) if name == "gpt2" else gpu.models.model("resnet18", nc)
            updates: Any = (
                optim.AdamW(model.parameters(), lr=1e-4)
                if name == "gpt2"
                else optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            )
            whole = dist.DataParallel(model, handles, bucket_mb=options.bucket_mb)
        x, y = (np.concatenate([array] * count) for array in batch_of(name))

        def loss(found: Tensor, y: Tensor) -> Tensor:
            return nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))

        step = dist.TrainStep(whole, loss, updates)
        with nc.autocast(options.dtype == "bfloat16", "bfloat16"):
            for _ in range(4):
                found = step(x, y)
            assert np.isfinite(float(found))
            wait = lambda: [handle.queue.finish() for handle in handles]  # noqa: E731
            values = seconds_of(lambda: step(x, y), wait, lambda: None, options.steps)  # noqa: B023
        words = {"row": f"{name} {options.dtype}", "who": "netcl, one process", "ranks": count}
        figures = {"seconds": statistics.median(values), "all": values, "weights": whole.weights}
        print(json.dumps({**words, **figures, "device": handles[0].device_name}), flush=True)
        step.close()


def theirs(options: argparse.Namespace) -> None:
    """The rows by PyTorch's DistributedDataParallel over NCCL."""
    import torch

    rank, size = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(rank)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if size > 1:
        torch.distributed.init_process_group("nccl")
    barrier: Work = torch.distributed.barrier if size > 1 else lambda: None
    wait = torch.cuda.synchronize

    def report(row: str, values: list[float], **more: Any) -> None:
        if rank == 0:
            words = {"row": row, "who": "PyTorch", "ranks": size, "seconds": statistics.median(values), "all": values}
            print(json.dumps({**words, **more}), flush=True)

    for name in options.rows.split(","):
        if name.startswith("all_reduce"):
            if size > 1:
                x = torch.ones(int(float(name.split(":")[1]) * 1e6) // 4, device="cuda")
                report(name, seconds_of(lambda: torch.distributed.all_reduce(x), wait, barrier, 5))  # noqa: B023
            continue
        arange = lambda count: torch.arange(count, device="cuda")  # noqa: E731
        model = gpu.gpt2(torch, arange).cuda() if name == "gpt2" else gpu.models.model("resnet18", torch).cuda()
        whole = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank]) if size > 1 else model
        updates: Any = (
            torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
            if name == "gpt2"
            else torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        )
        x, y = (torch.tensor(array, device="cuda") for array in batch_of(name))

        def step() -> None:
            updates.zero_grad()  # noqa: B023
            with torch.autocast("cuda", torch.bfloat16, enabled=options.dtype == "bfloat16"):
                found = whole(x)  # noqa: B023
                flat = found.reshape(-1, found.shape[-1])
                loss = torch.nn.functional.cross_entropy(flat, y.reshape(-1))  # noqa: B023
            loss.backward()
            updates.step()  # noqa: B023

        for _ in range(5):
            step()
        report(f"{name} {options.dtype}", seconds_of(step, wait, barrier, options.steps))
    if size > 1:
        torch.distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="all_reduce:500,resnet18,gpt2", help="all_reduce:MB, resnet18, gpt2")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--compression", choices=("float16", "bfloat16"), help="dtype of float32 gradients on the way")
    parser.add_argument("--bucket-mb", type=float, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pytorch", action="store_true")
    parser.add_argument("--devices", default="", help="one process with these devices, such as gpu:0,gpu:1")
    options = parser.parse_args()
    (theirs if options.pytorch else one_process if options.devices else ours)(options)


if __name__ == "__main__":
    main()
