"""Several GPUs of one host: steps on one card, on all by processes, on all by one process, and PyTorch's, in turn.

``python benchmarks/multi_gpu.py [--devices gpu:0,gpu:1] [--rows all_reduce:500,resnet18,gpt2] [--dtype float32]
[--compression bfloat16] [--steps 20] [--json FILE]``. Each rank has the batch of ``gpu.py``. A row has the time of a
step, its ratio to the step on one card, the time that the gradients take alone (their all_reduce, with nothing else
under way) and the part of it that the backward pass hides. The prediction is that of ``distributed_simulator.py`` for
the measured step on one card and buckets at the measured rate. Without CUDA in PyTorch the rows have netcl alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from distributed_simulator import Link, Step, predict

RANKS = Path(__file__).with_name("multi_gpu_ranks.py")
GRADIENTS = {"resnet18": 44.7e6, "gpt2": 498e6}  # bytes in float32
# Of them, what is known only at the end of the backward pass: the smallest bucket, and embeddings shared with the head.
LAST = {"resnet18": 1e6, "gpt2": 154e6}
_BACKWARD = 2 / 3  # of a training step
_MEMORY_RATE = 3.5e12  # bytes per second of an H100 or H200, about
# Tensors of the size of the gradients that are read and written: by SGD with momentum and AdamW; to fill and sum.
_UPDATE_PASSES = {"resnet18": 5, "gpt2": 7}
_SUM_PASSES = 5


def run(command: list[str], device: str | None = None) -> list[dict[str, Any]]:
    """The lines of JSON that a command printed; none if it failed, which is reported."""
    env = {**os.environ, **({"NETCL_DEVICE": device} if device else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        print(f"failed: {' '.join(command)}\n{done.stderr[-1500:]}", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows: one card, processes, one process, and PyTorch."""
    devices = options.devices.split(",")
    count = str(len(devices))
    script = [str(RANKS), "--rows", options.rows, "--dtype", options.dtype, "--steps", str(options.steps)]
    more = ["--compression", options.compression] if options.compression else []
    python = sys.executable
    found = run([python, *script], devices[0])
    launcher = [python, "-m", "netcl.distributed.run", "-n", count, "--devices", options.devices, "--timeout", "120"]
    found += run([*launcher, *script, *more])
    found += run([python, *script, "--devices", options.devices])
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        found += run([python, *script, "--pytorch"])
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count]
        found += run([*torchrun, *script, "--pytorch"])
    return found


def predicted(name: str, alone: float, ranks: int, rate: float) -> float:
    """The seconds of a step of ``ranks`` ranks, with buckets of 16 MiB that pass at ``rate`` bytes per second."""
    last = LAST[name]
    buckets = max(1, round((GRADIENTS[name] - last) / (16 << 20)))
    sizes = (int((GRADIENTS[name] - last) / buckets),) * buckets + (int(last),)
    host = tuple(size / rate for size in sizes)
    update, passes = (GRADIENTS[name] * count / _MEMORY_RATE for count in (_UPDATE_PASSES[name], _SUM_PASSES))
    work = (0.0,) * len(sizes)
    step = Step(alone * (1 - _BACKWARD), alone * _BACKWARD, sizes, host, work, update=update, passes=passes)
    return predict(step, ranks, Link(0.0, 1e15), per_host=ranks).seconds


def report(found: list[dict[str, Any]]) -> None:
    """Prints a table."""
    alone = {(one["who"], one["row"]): one["seconds"] for one in found if one["ranks"] == 1}
    sums = [one for one in found if one["row"].startswith("all_reduce") and one["who"] == "netcl"]
    rate = 1e6 * float(sums[0]["row"].split(":")[1]) / sums[0]["seconds"] if sums else None
    if rate:
        print(f"all_reduce by netcl: {1e-9 * rate:.1f} GB/s of each rank's tensor, {2e-9 * rate:.1f} GB/s over its bus")
    for one in found:
        who = one["who"].split(",")[0]
        single = alone.get((who, one["row"]))
        text = f"{one['row']:20} {one['who']:20} {one['ranks']} {1e3 * one['seconds']:9.2f} ms"
        name = one["row"].split()[0]
        if single is not None and one["ranks"] > 1:
            text += f"  {one['seconds'] / single:5.2f} of one card"
            if who == "netcl" and rate and name in GRADIENTS:
                own = GRADIENTS[name] / rate
                hidden = 1 - max(one["seconds"] - single, 0) / own
                expected = predicted(name, single, one["ranks"], rate)
                text += f", gradients alone {1e3 * own:.1f} ms, hidden {max(hidden, 0):.0%}"
                text += f", predicted {1e3 * expected:.1f}"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="gpu:0,gpu:1")
    parser.add_argument("--rows", default="all_reduce:500,resnet18,gpt2")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--compression", choices=("float16", "bfloat16"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options)
    report(found)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
