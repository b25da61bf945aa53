"""Draws a roofline with matplotlib: the measured limits of the device, and a point for each kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netcl.profiling.peaks import Peaks
from netcl.profiling.records import KernelStats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_roofline", "need_matplotlib"]

_LABELS = 6  # kernels with their name, the longest ones
# The part of the time, and of the peak rate, of a kernel that is drawn: others would stretch the axes by many decades.
_LEAST_TIME, _LEAST_RATE = 0.003, 1e-4
_POINT, _LINE = "#2563eb", "#667080"


def need_matplotlib() -> None:
    """Raises ImportError with advice to install it if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError('a picture of the roofline needs matplotlib: pip install "netcl-core[plot]"') from error


def draw_roofline(
    title: str, rows: Sequence[KernelStats], peaks: Peaks, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Returns a matplotlib Figure of kernels with known operations, saved to ``path`` if not None; its suffix is the
    format. The area of a point grows with the kernel's time; kernels below 0.3 % of the time or 0.01 % of the peak rate
    are counted, not drawn. Raises ImportError without matplotlib.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    timed = [row for row in rows if row.flops and row.seconds]
    whole = sum(row.seconds for row in timed)
    least = _LEAST_RATE * peaks.flops_per_second
    shown = [row for row in timed if row.seconds >= _LEAST_TIME * whole and (row.flops_per_second or 0) >= least]
    shown.sort(key=lambda row: -row.seconds)
    figure = Figure(figsize=(5.8, 3.4), layout="constrained")
    axes: Any = figure.subplots()
    _draw_limits(axes, [_place(row) for row in shown], peaks)
    for row in shown:
        axes.scatter(*_place(row), s=20 + 400 * row.seconds / whole, color=_POINT, alpha=0.5, linewidths=0)
    # In the order of their points from top to bottom, so that few of the lines cross.
    for number, row in enumerate(sorted(shown[:_LABELS], key=lambda row: -_place(row)[1])):
        _label(axes, f"{row.op or row.name}, {row.seconds / whole:.0%}", _place(row), number)
    if not shown:
        axes.text(0.5, 0.4, "no kernel with known operations", transform=axes.transAxes, ha="center")
    if len(shown) < len(timed):
        small = f"below {_LEAST_TIME:.1%} of the time or {_LEAST_RATE:.2%} of the peak"
        left_out = f"not drawn: {len(timed) - len(shown)} {small}"
        axes.text(0.99, 0.02, left_out, transform=axes.transAxes, color=_LINE, fontsize=8, ha="right")
    axes.set(xlabel="operations per byte", ylabel="GFLOP/s")
    axes.set_title(title, fontsize=10)
    axes.grid(color="#e5e7eb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=100)
    return figure


def _place(row: KernelStats) -> tuple[float, float]:
    """Returns operations per byte, and GFLOP/s."""
    return (row.flops or 0) / max(row.nbytes, 1), (row.flops_per_second or 0) / 1e9


def _draw_limits(axes: Any, places: Sequence[tuple[float, float]], peaks: Peaks) -> None:
    """Draws the roof over all points, with the measured numbers, and leaves room for names above it."""
    top, ridge = peaks.flops_per_second / 1e9, peaks.flops_per_second / peaks.bytes_per_second
    left, right = min([ridge / 100, *(x for x, _ in places)]) / 2, max([ridge * 10, *(x for x, _ in places)]) * 2
    low, high = min([top / 1000, *(y for _, y in places)]) / 4, max([top, *(y for _, y in places)])
    corners = [left, ridge, right]
    axes.loglog(corners, [min(top, intensity * peaks.bytes_per_second / 1e9) for intensity in corners], color=_LINE)
    axes.set(xlim=(left, right), ylim=(low, high * (high / low) ** 0.4))
    flat = f"multiply-adds: {top:.3g} GFLOP/s"
    axes.text(right / 1.1, top * 1.1, flat, color=_LINE, fontsize=8, ha="right", va="bottom")
    slope = f"copy: {peaks.bytes_per_second / 1e9:.3g} GB/s"
    start = max(low, left * peaks.bytes_per_second / 1e9)
    axes.text(left * 1.1, start / 2, slope, color=_LINE, fontsize=8, va="center")


def _label(axes: Any, text: str, place: tuple[float, float], number: int) -> None:
    axes.annotate(
        text,
        place,
        xytext=(0.02, 0.95 - 0.065 * number),
        textcoords="axes fraction",
        fontsize=8,
        arrowprops={"arrowstyle": "-", "color": _LINE, "lw": 0.5},
    )
