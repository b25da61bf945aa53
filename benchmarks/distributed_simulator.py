"""Predicts the time of a data-parallel step for many ranks from what was measured on a few.

    python benchmarks/distributed_simulator.py --forward .037 --backward .1 --buckets 4 --bucket-mb 4 --host-ms 0.6
        [--latency-us 20] [--bandwidth-gb 1.25] [--per-host 1] [--cores-busy] [--jitter 1] [--ranks 2,4,...]

A bucket leaves when its gradients are there and the bucket before has arrived. Its way takes what the host needs for
it (measured: copies, reduction, handles) and what the network does: 2 (h - 1) / h of its bytes and 2 log2(h) latencies
for h hosts, whose ranks share one link. Where the processor computes the gradients too (--cores-busy), the host's part
adds to the step instead of running concurrently. All wait for the slowest rank: with a standard deviation of one rank's
computation (--jitter, in percent) that is the largest of as many draws of a normal distribution (Blom 1958).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

__all__ = ["Link", "Prediction", "Step", "predict"]


@dataclass(frozen=True)
class Step:
    """Measurements of one rank's step: seconds of its parts, and per bucket its bytes, the time of its path on
    the host, and how long the processor works for it. ``cores_busy``: the processor computes the gradients too;
    ``jitter``: the standard deviation of a rank's computation, as a part of it. ``update``: the part of ``backward``
    that waits for the last sums; ``passes``: seconds in which the device fills buckets and sums.
    """

    forward: float
    backward: float
    bucket_bytes: tuple[int, ...]
    bucket_host: tuple[float, ...]
    bucket_work: tuple[float, ...]
    cores_busy: bool = False
    jitter: float = 0.0
    update: float = 0.0
    passes: float = 0.0


@dataclass(frozen=True)
class Link:
    """The link between two hosts: latency of a message in seconds, and bytes per second in each direction."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Prediction:
    """Seconds of a step, and which part of them the gradients' way adds to the computation."""

    seconds: float
    exposed: float
    efficiency: float


def network(nbytes: int, hosts: int, per_host: int, link: Link) -> float:
    """Seconds of a bucket on the wire: each host sends, and gets, the pieces of all its ranks."""
    if hosts <= 1:
        return 0.0
    return 2 * (hosts - 1) / hosts * nbytes * per_host / link.bandwidth + 2 * math.ceil(math.log2(hosts)) * link.latency


def predict(step: Step, ranks: int, link: Link, per_host: int = 1) -> Prediction:
    """One step of ``ranks`` ranks, ``per_host`` on each host, each with the measured work (weak scaling)."""
    compute = step.forward + step.backward
    if ranks == 1:
        return Prediction(compute, 0.0, 1.0)
    late = step.jitter * compute * NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
    hosts = -(-ranks // per_host)
    total = sum(step.bucket_bytes)
    produced = 0
    free = 0.0  # when the way is free for the next bucket
    borrowed = 0.0  # what the host took from the computation so far
    for nbytes, host, work in zip(step.bucket_bytes, step.bucket_host, step.bucket_work):
        produced += nbytes
        # Gradients come as the backward pass goes on, in proportion to their bytes.
        ready = step.forward + (step.backward - step.update) * produced / total + borrowed
        begun = max(ready, free)
        if step.cores_busy:
            borrowed += work
        free = begun + host + network(nbytes, hosts, min(per_host, ranks), link)
    seconds = max(compute - step.update + borrowed, free) + step.update + step.passes + late
    return Prediction(seconds, seconds - compute, compute / seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table of predictions, and up to how many ranks most of the time is computation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--forward", type=float, required=True, metavar="S", help="seconds of the forward pass")
    parser.add_argument("--backward", type=float, required=True, metavar="S", help="seconds of backward and update")
    parser.add_argument("--buckets", type=int, required=True, help="number of buckets")
    parser.add_argument("--bucket-mb", type=float, required=True, help="MiB of each")
    parser.add_argument("--host-ms", type=float, required=True, help="milliseconds the host needs for each")
    parser.add_argument("--latency-us", type=float, default=20.0, help="microseconds of a message between two hosts")
    parser.add_argument("--bandwidth-gb", type=float, default=1.25, help="GB/s of a host's link; 1.25 is 10 Gbit/s")
    parser.add_argument("--per-host", type=int, default=1, help="ranks on each host")
    parser.add_argument("--cores-busy", action="store_true", help="the processor computes the gradients too")
    parser.add_argument("--jitter", type=float, default=0.0, help="standard deviation of a rank's computation, percent")
    parser.add_argument("--ranks", default="2,4,8,16,32,64,128,256,512,1024")
    options = parser.parse_args(arguments)
    link = Link(options.latency_us * 1e-6, options.bandwidth_gb * 1e9)
    count = options.buckets
    sizes, host = (int(options.bucket_mb * 2**20),) * count, (options.host_ms * 1e-3,) * count
    step = Step(options.forward, options.backward, sizes, host, host, options.cores_busy, options.jitter / 100)
    print("ranks   step ms   added ms   efficiency")
    pays = 1
    for ranks in (int(word) for word in options.ranks.split(",")):
        found = predict(step, ranks, link, options.per_host)
        print(f"{ranks:5d} {1e3 * found.seconds:9.1f} {1e3 * found.exposed:10.1f} {100 * found.efficiency:10.1f} %")
        pays = ranks if found.efficiency >= 0.5 else pays
    print(f"more than half of the step is computation up to {pays} ranks")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
