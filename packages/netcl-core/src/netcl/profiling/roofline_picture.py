"""Draws a roofline with matplotlib: the measured limits of the device, and a point for each kernel."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netcl.profiling.peaks import Peaks
from netcl.profiling.records import KernelStats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = 8  # kernels with their name next to the point, the longest ones
_POINT, _LINE, _ROOF = "#1f5fbf", "#667080", "#b3261e"
_DPI = 110
_SPACING = 15  # points between the lines of two names
_LETTER = 5.0  # points of a name for each character
_LONGEST = 34  # characters of a name


def short_label(row: KernelStats) -> str:
    """Returns the op of a kernel, else its name, with at most 34 characters."""
    text = row.op or row.name
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3].rstrip(' ,')} .."


def need_matplotlib() -> None:
    """Raises ImportError with advice to install it if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError('a picture of the roofline needs matplotlib: pip install "netcl-core[plot]"') from error


def draw_roofline(
    title: str, rows: Sequence[KernelStats], peaks: Peaks, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Returns a matplotlib Figure with a point for each kernel with known operations; saves it to ``path`` if not None,
    in the format of its suffix. The area of a point grows with the kernel's time; shares are parts of the whole
    profile. Raises ImportError without matplotlib.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    whole = sum(row.seconds for row in rows) or 1.0
    shown = sorted((row for row in rows if row.flops and row.seconds), key=lambda row: -row.seconds)
    figure = Figure(figsize=(9.2, 4.8), layout="constrained", dpi=_DPI)
    axes: Any = figure.subplots()
    _draw_limits(axes, [_place(row) for row in shown], peaks)
    for row in shown:
        axes.scatter(*_place(row), s=24 + 500 * row.seconds / whole, color=_POINT, alpha=0.55, linewidths=0)
    if not shown:
        axes.text(0.5, 0.4, "no kernel with known operations", transform=axes.transAxes, ha="center")
    others = sum(row.seconds for row in rows if not row.flops) / whole
    if others >= 0.005:
        note = f"{others:.0%} of the time: copies, and kernels with unknown operations or none"
        axes.text(0.99, 0.02, note, transform=axes.transAxes, color=_LINE, fontsize=8, ha="right")
    axes.set(xlabel="operations per byte", ylabel="GFLOP/s")
    axes.set_title(title, fontsize=11)
    axes.grid(color="#e5e7eb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()  # places the axes, which the names are laid out in
    _name_points(axes, shown, whole)
    if path is not None:
        figure.savefig(path, dpi=_DPI)
    return figure


def _place(row: KernelStats) -> tuple[float, float]:
    """Returns operations per byte, and GFLOP/s."""
    return (row.flops or 0) / max(row.nbytes, 1), (row.flops_per_second or 0) / 1e9


def _draw_limits(axes: Any, places: Sequence[tuple[float, float]], peaks: Peaks) -> None:
    """Draws the roof over all points, with the measured numbers."""
    top, ridge = peaks.flops_per_second / 1e9, peaks.flops_per_second / peaks.bytes_per_second
    left, right = min([ridge / 100, *(x for x, _ in places)]) / 2, max([ridge * 10, *(x for x, _ in places)]) * 2
    low, high = min([top / 1000, *(y for _, y in places)]) / 4, max([top, *(y for _, y in places)])
    corners = [left, ridge, right]
    axes.loglog(
        corners, [min(top, intensity * peaks.bytes_per_second / 1e9) for intensity in corners], color=_ROOF, lw=2
    )
    axes.set(xlim=(left, right), ylim=(low, high * 3))
    flat = f"multiply-adds: {top:.3g} GFLOP/s"
    axes.text(right / 1.1, top * 1.1, flat, color=_LINE, fontsize=8, ha="right", va="bottom")
    slope = f"copy: {peaks.bytes_per_second / 1e9:.3g} GB/s"
    start = max(low, left * peaks.bytes_per_second / 1e9)
    axes.text(left * 1.1, start / 2, slope, color=_LINE, fontsize=8, va="center")


def _name_points(axes: Any, rows: Sequence[KernelStats], whole: float) -> None:
    """Writes the names of the first rows next to their points, below each other where they touch, then with a line."""
    pixel = 72 / _DPI  # in points, the unit of offsets
    across, middle = axes.transAxes.transform((0.72, 0))[0], axes.transAxes.transform((0, 0))[1]
    pixels = [axes.transData.transform(_place(row))[0] for row in rows]
    edge = min([x for x in pixels if x > across], default=0.0)  # of the points that have their names to the left
    taken: list[tuple[float, float, float]] = []  # left, right and height of the names, in points
    for row in sorted(rows[:_LABELS], key=lambda row: -_place(row)[1]):
        text = f"{short_label(row)}, {row.seconds / whole:.0%}"
        x, y = axes.transData.transform(_place(row))
        to_left = x > across
        away = 4 + math.sqrt(24 + 500 * row.seconds / whole) / 2
        if to_left:
            away = max(away, (x - edge) * pixel + 10)
        start = x * pixel + (-away - _LETTER * len(text) if to_left else away)
        height = y * pixel
        while any(
            start < right and left < start + _LETTER * len(text) and abs(height - other) < _SPACING
            for left, right, other in taken
        ):
            height -= 3
        if height < middle * pixel + 6:
            continue  # no room above the axis
        taken.append((start, start + _LETTER * len(text), height))
        moved = abs(height - y * pixel) > _SPACING / 2 or away > 25
        line = {"arrowstyle": "-", "color": _LINE, "lw": 0.5, "relpos": (float(to_left), 0.5)}
        axes.annotate(
            text,
            _place(row),
            xytext=(-away if to_left else away, height - y * pixel),
            textcoords="offset points",
            fontsize=9,
            ha="right" if to_left else "left",
            va="center",
            arrowprops=line if moved else None,
        )
