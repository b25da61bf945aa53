"""The kernels of one replay of a captured step: operations and bytes of all, and a table by name."""

from __future__ import annotations

import time
from typing import Any

from netcl.core import Tensor
from netcl.profiling import profile


def seen_replay(captured: Any, given: tuple[Tensor, ...]) -> profile:
    """A profile of one replay, by the device's clock."""
    queue = given[0].queue
    captured.replay(*given)
    queue.finish()
    with profile(queue) as seen:
        captured.replay(*given)
    return seen


def bytes_moved(seen: profile) -> int:
    """Bytes of the operands of all kernels; kernels of one contraction that share a name are parts, counted as one."""
    parts: dict[Any, int] = {}
    for number, one in enumerate(seen.launches):
        if one.kind == "kernel":
            key = number if one.flop_count is None else (id(one.flop_count), one.name)
            parts[key] = max(parts.get(key, 0), one.nbytes)
    return sum(parts.values())


def operations(seen: profile) -> int:
    """Multiplications and additions of the contractions; those of other ops are not counted."""
    counts = {id(one.flop_count): one.flop_count.flops for one in seen.launches if one.flop_count is not None}
    return sum(counts.values())


def print_replay(title: str, captured: Any, given: tuple[Tensor, ...]) -> None:
    """Prints the kernels of a replay by name: launches, milliseconds by the device's clock, GB/s of their operands."""
    queue = given[0].queue
    captured.replay(*given)
    queue.finish()
    begin = time.perf_counter()
    captured.replay(*given)
    host = time.perf_counter() - begin
    queue.finish()
    whole = time.perf_counter() - begin
    seen = seen_replay(captured, given)
    found: dict[str, list[float]] = {}
    for one in seen.launches:
        row = found.setdefault(one.name if one.kind == "kernel" else one.kind, [0, 0.0, 0.0])
        row[0], row[1], row[2] = row[0] + 1, row[1] + (one.end - one.start) * 1e3, row[2] + one.nbytes * 1e-9
    total = sum(row[1] for row in found.values())
    print(f"{title}: {sum(row[0] for row in found.values()):.0f} launches, {total:.2f} ms on the device")
    print(f"  a replay takes {whole * 1e3:.2f} ms, of which the host {host * 1e3:.2f}")
    for name, (count, ms, moved) in sorted(found.items(), key=lambda item: -item[1][1])[:24]:
        rate = moved / max(ms, 1e-9) * 1e3
        print(f"  {name:32} {count:5.0f} {ms:9.3f} ms {100 * ms / total:5.1f} % {rate:8.0f} GB/s")
