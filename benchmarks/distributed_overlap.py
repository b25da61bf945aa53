"""Measures the share of communication that the backward pass hides, on a transport that only waits; prints JSON.

python benchmarks/distributed_overlap.py ROUNDS
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import netcl.autograd as ag
import netcl.distributed as dist
from netcl import nn
from netcl.core import Tensor
from netcl.core.device import device
from netcl.distributed.group import ProcessGroup, Signature
from netcl.distributed.reductions import Array

WAIT_S = 0.02
LAYERS, WIDTH, SAMPLES = 24, 512, 2048

Spans = Sequence[Sequence[Any]]  # name, begun and ended in seconds


class Waiting(ProcessGroup):
    """Two ranks, of which the other is never there: a bucket takes some seconds and comes back as it was."""

    def __init__(self, seconds: float) -> None:
        super().__init__(0, 2, 30.0)
        self._seconds = seconds

    def _announce(self, signature: Signature) -> None:
        self._signature = signature

    def _barrier(self) -> None:
        self._signature = Signature(0, "barrier")

    def _reduce_range(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        if source.dtype == np.float32:
            time.sleep(self._seconds)

    def _concatenate(self, own: Array, counts: Sequence[int]) -> Array:
        return np.concatenate([own, own])

    def _broadcast_range(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        self._signature = Signature(0, "broadcast")

    def _send(self, values: Array, to: int, text: str) -> None:
        raise ConnectionError("nobody is there")

    def _recv(self, out: Array, source: int, text: str) -> None:
        raise ConnectionError("nobody is there")


def measure(rounds: int) -> dict[str, Any]:
    """Seconds of steps with buckets that take no time and with buckets that wait, in turn; the spans of the last."""
    with device("cpu"):
        module = nn.Sequential(*(part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
        x = Tensor.from_host(np.random.default_rng(0).standard_normal((SAMPLES, WIDTH)).astype(np.float32))
        models = [
            dist.DataParallel(module, bucket_mb=4 * WIDTH * (WIDTH + 1) / 2**20, group=Waiting(wait), weights=[1, 1])
            for wait in (0.0, WAIT_S)
        ]
        times: list[list[float]] = [[], []]
        for turn in range(rounds + 2):
            for at in (0, 1) if turn % 2 else (1, 0):
                begun = time.perf_counter()
                ag.mean(ag.square(models[at](x))).backward()
                times[at].append(time.perf_counter() - begun)
        return {"at_once": times[0][2:], "waiting": times[1][2:], "spans": models[1].spans}


def parted(spans: Spans) -> tuple[Sequence[Any], Spans]:
    """The backward pass, and the buckets in the order in which they left."""
    backward = next(span for span in spans if span[0] == "backward")
    return backward, [span for span in spans if span is not backward]


def hidden(found: dict[str, Any]) -> float:
    """Which part of what the buckets waited did not lengthen the step."""
    added = statistics.median(b - a for a, b in zip(found["at_once"], found["waiting"]))
    return 1 - added / ((len(found["spans"]) - 1) * WAIT_S)


def write_trace(spans: Spans, path: Path) -> None:
    """The spans as a file for Perfetto."""
    start = min(span[1] for span in spans)
    events = [
        {
            "name": name,
            "ph": "X",
            "pid": 0,
            "tid": int(name != "backward"),
            "ts": 1e6 * (a - start),
            "dur": 1e6 * (b - a),
        }
        for name, a, b in spans
    ]
    path.write_text(json.dumps({"traceEvents": events}))


def draw(parts: dict[str, Spans], path: Path) -> None:
    """A picture of steps, one above the other: the backward pass and, below it, its buckets."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.7 * len(parts)), layout="constrained")
    for axes, (title, spans) in zip(figure.subplots(len(parts), squeeze=False)[:, 0], parts.items()):
        backward, buckets = parted(spans)
        start = backward[1]
        axes.barh(1, 1e3 * (backward[2] - start), left=0, height=0.7, color="#4477aa")
        for at, (_, begun, ended) in enumerate(buckets):
            shade = "#ee8866" if at % 2 else "#cc5544"
            axes.barh(0, 1e3 * (ended - begun), left=1e3 * (begun - start), height=0.7, color=shade)
        axes.set_yticks([0, 1], ["buckets", "backward"])
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("milliseconds since the backward pass began")
    figure.savefig(path)


def main() -> None:
    """Measures and prints."""
    print(json.dumps(measure(int(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
