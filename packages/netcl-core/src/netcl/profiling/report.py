"""Writes a profile as a picture, or as one HTML page: a roofline with a point for each kernel, and a table of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from netcl.core.errors import format_bytes
from netcl.profiling.peaks import Peaks, measure_peaks
from netcl.profiling.records import KernelStats
from netcl.profiling.roofline_picture import draw_roofline, need_matplotlib, short_label
from netcl.profiling.timing import format_seconds

if TYPE_CHECKING:
    from netcl.profiling.trace import profile

_PAGES, _PICTURES = (".html", ".htm"), (".png", ".svg", ".pdf")

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 920, 460, 64, 48, 16, 24
_UNKNOWN = "unknown"
_LETTER = 7  # width of a character
_LABELS = 6  # kernels with their name next to the point; the others show it as a tooltip

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --paper: #fff; --faint: #8a919c; --line: #d8dce2; --roof: #b3261e;
  --point: #1f5fbf; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ec; --paper: #16181c; --faint: #969da8; --line: #353a42;
  --roof: #ff8a80; --point: #7fb0ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1280px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
figure, .wrap { margin: 1rem 0; overflow-x: auto; background: linear-gradient(to left, var(--paper) 50%, transparent)
  100% 0 / 3rem 100% no-repeat local, linear-gradient(to left, var(--line), transparent) 100% 0 / 1.5rem 100%
  no-repeat scroll; } svg { width: 100%; min-width: 640px; height: auto; display: block; }
.grid { stroke: var(--line); stroke-width: 1; } .roof { stroke: var(--roof); stroke-width: 2.5; fill: none; }
.point { fill: var(--point); fill-opacity: .55; stroke: var(--point); } text { fill: var(--ink); font-size: 13px; }
.tick { fill: var(--faint); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; } th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; } .unknown { color: var(--faint); }
td:nth-child(2) { white-space: normal; min-width: 14rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); }
"""


def roofline(profile: profile, path: str | os.PathLike[str], *, peaks: Peaks | None = None) -> Path:
    """Writes an HTML page to ``path`` and returns it; it needs nothing from the network. If ``path`` ends in .png, .svg
    or .pdf it is a picture, which needs matplotlib: ``pip install "netcl-core[plot]"``.

    The roof is the peak rate of the device: its measured copy bandwidth times the operations per byte, up to its
    measured multiply-adds (``peaks``; None: measured now). A kernel is a point at its operations per byte moved,
    counting each operand once; if its operations are unknown it appears in the table only, and the page says so. Raises
    ValueError for another suffix than these and .html or .htm.
    """
    file = Path(path)
    _check_format(file)
    peaks = peaks or measure_peaks(profile.queue)
    rows = profile.kernels
    if file.suffix.lower() in _PICTURES:
        draw_roofline(f"Roofline of {profile.device}", rows, peaks, file)
    else:
        file.write_text(_page(profile, rows, peaks), encoding="utf-8")
    return file


def _check_format(path: str | os.PathLike[str]) -> None:
    """Raises ValueError if ``path`` has no suffix that ``roofline`` writes, ImportError without matplotlib."""
    suffix = Path(path).suffix.lower()
    if suffix not in (*_PAGES, *_PICTURES):
        raise ValueError(
            f"expected a file name with a suffix of {', '.join((*_PAGES, *_PICTURES))}, got {Path(path).name}"
        )
    if suffix in _PICTURES:
        need_matplotlib()


def _page(profile: profile, rows: Sequence[KernelStats], peaks: Peaks) -> str:
    title = f"Roofline of {profile.device}"
    clock = "the device's clock" if profile.event_times else "the wall clock"
    total = sum(row.seconds for row in rows)
    unknown = [row for row in rows if row.flops is None]
    plain = [row for row in rows if row.flops == 0]
    summary = (
        f"{sum(row.calls for row in rows)} launches of {len(rows)} kernels took {format_seconds(total)}, by {clock}. "
        f"The device copies {peaks.bytes_per_second / 1e9:.3g} GB/s and does {peaks.flops_per_second / 1e9:.4g} "
        f"GFLOP/s at most (measured by {peaks.how})."
    )
    notes = []
    if unknown:
        share = sum(row.seconds for row in unknown) / total if total else 0.0
        notes.append(f"Of {len(unknown)} kernels ({share:.0%} of the time) the operations are not known; no points.")
    if plain:
        notes.append(f"{len(plain)} kernels only move data; no points.")
    notes.append("Bytes count each operand once, also where a kernel reads it more often or it stays in a cache.")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1><p>{escape(summary)}</p>"
        f"<figure>{_figure([row for row in rows if row.flops], peaks)}</figure>"
        f"<p>{escape(' '.join(notes))}</p><h2>Kernels</h2>{_table(rows, peaks, total)}</body></html>\n"
    )


class _Scale:
    """A logarithmic axis over whole decades."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = (
            math.floor(math.log10(low)),
            max(math.ceil(math.log10(high)), math.floor(math.log10(low)) + 1),
        )
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self._start + part * (self._end - self._start)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten."""
        return [10.0**power for power in range(self.low, self.high + 1)]


def _intensity(row: KernelStats) -> float:
    return (row.flops or 0) / max(row.nbytes, 1)


def _figure(rows: Sequence[KernelStats], peaks: Peaks) -> str:
    """Returns the roofline as SVG; the area of a point grows with the kernel's time."""
    ridge = peaks.flops_per_second / peaks.bytes_per_second
    places = [(_intensity(row), row.flops_per_second or 1.0) for row in rows if row.seconds]
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x = _Scale(
        min([ridge / 30, *(intensity for intensity, _ in places)]),
        max([ridge * 30, *(intensity for intensity, _ in places)]),
        _LEFT,
        right,
    )
    slowest = min([peaks.flops_per_second / 1e3, *(rate for _, rate in places)])
    y = _Scale(slowest, max([peaks.flops_per_second * 1.5, *(rate for _, rate in places)]), bottom, _TOP)
    roof = [10.0**x.low, ridge, 10.0**x.high]
    line = " ".join(
        f"{x(intensity):.1f},{y(max(10.0**y.low, min(peaks.flops_per_second, intensity * peaks.bytes_per_second))):.1f}"
        for intensity in roof
    )
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="GFLOP/s over operations per byte">',
        *_axes(x, y, right, bottom),
        f'<polyline class="roof" points="{line}"/>',
        *_points(rows, x, y),
    ]
    if not places:
        middle = (_LEFT + right) / 2
        parts.append(
            f'<text x="{middle}" y="{_HEIGHT / 2}" text-anchor="middle">no kernel with known operations</text>'
        )
    return "".join([*parts, "</svg>"])


def _axes(x: _Scale, y: _Scale, right: float, bottom: float) -> Iterator[str]:
    for tick in x.ticks:
        yield f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>'
    for tick in y.ticks:
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        yield f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick / 1e9:g}</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">operations per byte</text>'
    middle = (_TOP + bottom) / 2
    yield f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">GFLOP/s</text>'


def _points(rows: Sequence[KernelStats], x: _Scale, y: _Scale) -> Iterator[str]:
    total = sum(row.seconds for row in rows) or 1.0
    used: list[float] = []
    shown = [row for row in rows if row.seconds]
    middle = _WIDTH * 0.7  # names of points to the right are to the left of all of them
    edge = min([across for row in shown if (across := x(_intensity(row))) >= middle], default=_WIDTH)
    for number, row in enumerate(shown):
        across, up = x(_intensity(row)), y(row.flops_per_second or 1.0)
        rate = (row.flops_per_second or 0.0) / 1e9
        name = _name(row)
        said = f"{name}: {rate:.4g} GFLOP/s at {_intensity(row):.3g} operations per byte, {row.seconds / total:.0%}"
        radius = 4 + 14 * math.sqrt(row.seconds / total)
        place = f'cx="{across:.1f}" cy="{up:.1f}" r="{radius:.1f}"'
        yield f'<circle class="point" {place}><title>{escape(said)}</title></circle>'
        if number < _LABELS:
            height = up + 4
            while any(abs(height - other) < 14 for other in used):
                height += 14
            used.append(height)
            label = short_label(row)
            right = across < middle and across + radius + 4 + _LETTER * len(label) < _WIDTH
            side, anchor = (across + radius + 4, "start") if right else (min(across - radius, edge - 14) - 4, "end")
            yield f'<text x="{side:.1f}" y="{height:.1f}" text-anchor="{anchor}">{escape(label)}</text>'


def _name(row: KernelStats) -> str:
    return f"{row.name} ({row.op})" if row.op and row.op != row.name else row.name


def _table(rows: Sequence[KernelStats], peaks: Peaks, total: float) -> str:
    columns: dict[str, Callable[[KernelStats], str]] = {
        "Kernel": lambda row: row.name,
        "Op": lambda row: row.op or "-",
        "Calls": lambda row: str(row.calls),
        "Total ms": lambda row: f"{row.seconds * 1e3:.3f}",
        "Share": lambda row: f"{row.seconds / total:.1%}" if total else "-",
        "Mean us": lambda row: f"{row.mean * 1e6:.1f}",
        "Moved": lambda row: format_bytes(row.nbytes),
        "GB/s": lambda row: f"{row.bytes_per_second / 1e9:.3g}",
        "of copy": lambda row: f"{row.bytes_per_second / peaks.bytes_per_second:.0%}",
        "Operations": lambda row: _UNKNOWN if row.flops is None else f"{row.flops:,}",
        "GFLOP/s": lambda row: _UNKNOWN if row.flops is None else f"{(row.flops_per_second or 0) / 1e9:.3g}",
        "of peak": lambda row: f"{row.flops_per_second / peaks.flops_per_second:.0%}" if row.flops_per_second else "-",
        "per byte": lambda row: f"{_intensity(row):.3g}" if row.flops else "-",
    }
    head = "".join(f"<th>{title}</th>" for title in columns)
    lines = []
    for row in rows:
        texts = [cell(row) for cell in columns.values()]
        lines.append("".join(f"<td{_shade(text)}>{escape(text)}</td>" for text in texts))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wrap"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _shade(text: str) -> str:
    return ' class="unknown"' if text == _UNKNOWN else ""
