"""Records of a profile: kernels, copies and Python spans, and their sums by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from netcl.core.engine.profiler_sink import FlopCount, Size
from netcl.core.errors import format_bytes


class Thread(NamedTuple):
    """A Python thread: its own number (the system reuses its numbers), and its name."""

    number: int
    name: str


@dataclass(eq=False)
class LaunchRecord:
    """A kernel, or a copy between host and device.

    ``asked``: time of the call; ``start``, ``end``: time of the execution (seconds of ``time.perf_counter``; equal if
    the driver does not report them). ``flops`` None: unknown.
    """

    kind: str  # kernel or copy
    name: str
    op: str
    thread: Thread
    asked: float
    start: float
    end: float
    sizes: tuple[Size, ...] = ()
    flop_count: FlopCount | None = None
    flops: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the operands read and written, each operand counted once."""
        return sum(size.nbytes for size in self.sizes)


@dataclass(frozen=True)
class Span:
    """A time span on a Python thread: an op, a replay, or a region of ``timing.region``."""

    kind: str
    name: str
    thread: Thread
    began: float
    ended: float


@dataclass
class KernelStats:
    """All launches of a kernel by an op. ``flops`` and ``nbytes`` are sums; ``flops`` is None if one is unknown."""

    name: str
    op: str
    kind: str
    calls: int = 0
    seconds: float = 0.0
    fastest: float = float("inf")
    slowest: float = 0.0
    nbytes: int = 0
    flops: int | None = 0

    def add(self, launched: LaunchRecord) -> None:
        """Adds a launch to the sums."""
        taken = launched.end - launched.start
        self.calls += 1
        self.seconds += taken
        self.fastest, self.slowest = min(self.fastest, taken), max(self.slowest, taken)
        self.nbytes += launched.nbytes
        self.flops = None if self.flops is None or launched.flops is None else self.flops + launched.flops

    @property
    def mean(self) -> float:
        """Seconds per launch."""
        return self.seconds / self.calls

    @property
    def bytes_per_second(self) -> float:
        """Bytes moved per second, if each operand is moved once; 0 if no time was measured."""
        return self.nbytes / self.seconds if self.seconds else 0.0

    @property
    def flops_per_second(self) -> float | None:
        """Operations per second, or None if the operations are unknown."""
        return None if self.flops is None or not self.seconds else self.flops / self.seconds


@dataclass
class OpStats:
    """All calls of one op, replay or region on the host: ``seconds`` with nested calls, ``own`` without."""

    name: str
    kind: str
    calls: int = 0
    seconds: float = 0.0
    own: float = 0.0


def kernel_stats(launches: Iterable[LaunchRecord]) -> list[KernelStats]:
    """Returns the sums by kernel and op, the longest first."""
    by_name: dict[tuple[str, str, str], KernelStats] = {}
    for launch in launches:
        key = (launch.kind, launch.name, launch.op)
        if key not in by_name:
            by_name[key] = KernelStats(launch.name, launch.op, launch.kind)
        by_name[key].add(launch)
    return sorted(by_name.values(), key=lambda stats: -stats.seconds)


def op_stats(spans: Sequence[Span]) -> list[OpStats]:
    """Returns the sums by op, the longest own time first. Spans of a thread are nested or disjoint."""
    by_name: dict[tuple[str, str], OpStats] = {}
    open_spans: dict[Thread, list[tuple[Span, OpStats]]] = {}
    for span in sorted(spans, key=lambda span: (span.began, -span.ended)):
        stats = by_name.setdefault((span.kind, span.name), OpStats(span.name, span.kind))
        outer = open_spans.setdefault(span.thread, [])
        while outer and outer[-1][0].ended < span.ended:
            outer.pop()
        taken = span.ended - span.began
        if outer:
            outer[-1][1].own -= taken
        stats.calls += 1
        stats.own += taken
        if all(above is not stats for _, above in outer):  # an op nested in itself is counted once
            stats.seconds += taken
        outer.append((span, stats))
    return sorted(by_name.values(), key=lambda stats: -stats.own)


@dataclass(frozen=True)
class _Column:
    title: str
    text: Callable[[Any], str]
    left: bool = False


def render(title: str, rows: Sequence[Any], columns: Sequence[_Column]) -> str:
    """Returns a table of fixed-width text."""
    cells = [[column.title for column in columns], *([column.text(row) for column in columns] for row in rows)]
    widths = [max(len(line[column_number]) for line in cells) for column_number in range(len(columns))]
    lines = [
        "  ".join(
            text.ljust(width) if column.left else text.rjust(width)
            for text, width, column in zip(line, widths, columns)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([title, lines[0], "-" * max(map(len, lines)), *lines[1:]])


def kernel_columns(total: float) -> list[_Column]:
    """Returns the columns of a table of KernelStats; shares are relative to ``total`` seconds."""

    def rate(value: float | None) -> str:
        return "?" if value is None else f"{value / 1e9:.3g}" if value else "-"

    return [
        _Column("kernel", lambda row: row.name, left=True),
        _Column("op", lambda row: row.op or "-", left=True),
        _Column("calls", lambda row: str(row.calls)),
        _Column("total ms", lambda row: f"{row.seconds * 1e3:.3f}"),
        _Column("share", lambda row: f"{row.seconds / total:.1%}" if total else "-"),
        _Column("mean us", lambda row: f"{row.mean * 1e6:.1f}"),
        _Column("min us", lambda row: f"{row.fastest * 1e6:.1f}"),
        _Column("max us", lambda row: f"{row.slowest * 1e6:.1f}"),
        _Column("moved", lambda row: format_bytes(row.nbytes)),
        _Column("GB/s", lambda row: rate(row.bytes_per_second)),
        _Column("GFLOP/s", lambda row: rate(row.flops_per_second if row.kind == "kernel" else 0)),
    ]


def op_columns() -> list[_Column]:
    """Returns the columns of a table of OpStats."""
    return [
        _Column("python", lambda row: row.name, left=True),
        _Column("kind", lambda row: row.kind, left=True),
        _Column("calls", lambda row: str(row.calls)),
        _Column("total ms", lambda row: f"{row.seconds * 1e3:.3f}"),
        _Column("own ms", lambda row: f"{row.own * 1e3:.3f}"),
        _Column("own us per call", lambda row: f"{row.own / row.calls * 1e6:.1f}"),
    ]
