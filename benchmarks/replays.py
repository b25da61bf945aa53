"""The kernels of one replay of a captured step: operations and bytes of all, and a table by name."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from netcl.core import Tensor
from netcl.profiling import profile


class Kernels(NamedTuple):
    """The launches of a name in a replay: their count, milliseconds by the device's clock, MB of their operands."""

    name: str
    launches: int
    ms: float
    mb: float


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


def kernels_of(seen: profile) -> list[Kernels]:
    """The kernels of a profile by name, and its copies by kind; the longest first."""
    found: dict[str, Kernels] = {}
    for one in seen.launches:
        name = one.name if one.kind == "kernel" else one.kind
        _, launches, ms, mb = found.get(name, Kernels(name, 0, 0.0, 0.0))
        found[name] = Kernels(name, launches + 1, ms + (one.end - one.start) * 1e3, mb + one.nbytes * 1e-6)
    return sorted(found.values(), key=lambda kernels: -kernels.ms)


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
    found = kernels_of(seen_replay(captured, given))
    total = sum(row.ms for row in found)
    print(f"{title}: {sum(row.launches for row in found)} launches, {total:.2f} ms on the device")
    print(f"  a replay takes {whole * 1e3:.2f} ms, of which the host {host * 1e3:.2f}")
    for name, launches, ms, mb in found[:24]:
        print(f"  {name:32} {launches:5} {ms:9.3f} ms {100 * ms / total:5.1f} % {mb / max(ms, 1e-6):8.0f} GB/s")
