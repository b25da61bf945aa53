"""Shared by the benchmarks: devices, PyTorch as a peer, the middle half of times, numbers in a file, a picture."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from netcl.core import DeviceHandle, manager

try:
    import torch

    torch.set_num_threads(2)
except ImportError:  # a contestant less
    torch = None


@dataclass(frozen=True)
class Timing:
    """The time of one contestant for one row: the median and the middle half, in ``unit``."""

    row: str
    contestant: str
    median: float
    low: float
    high: float
    unit: str = "ms"


def timing(row: str, contestant: str, values: list[float], unit: str = "ms") -> Timing:
    """The median and the middle half of ``values``."""
    low, median, high = statistics.quantiles(values, n=4)
    return Timing(row, contestant, median, low, high, unit)


def handles(wanted: str | None) -> list[DeviceHandle]:
    """NumPy first, then every OpenCL device, or the devices that the comma-separated selectors name."""
    if wanted is None:
        return sorted(manager.select(), key=lambda handle: handle.backend != "cpu")
    return [handle for handle in map(manager.default, wanted.split(",")) if handle is not None]


def save(path: Path | None, timings: Iterable[Timing]) -> None:
    """Write ``timings`` to a file as JSON, where one was asked for."""
    if path is not None:
        path.write_text(json.dumps([asdict(one) for one in timings], indent=1), encoding="utf-8")


def timings_in(path: Path) -> list[Timing]:
    """The timings in a file of ``save``, or in one that keeps them as rows with more about each (contest.py)."""
    found = json.loads(path.read_text(encoding="utf-8"))
    names = [field.name for field in fields(Timing)]
    return [
        Timing(**{name: one[name] for name in names}) for one in (found if isinstance(found, list) else found["rows"])
    ]


def draw(source: Path, target: Path) -> None:
    """Draw the timings in a file (.svg, .png): a group of bars for each row, a colour for each contestant."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    timings = timings_in(source)
    names = list(dict.fromkeys(one.contestant for one in timings))
    colours: dict[str, Any] = {name: plt.cm.tab10(number % 10) for number, name in enumerate(names)}
    figure, axes = plt.subplots(figsize=(9, 1 + 0.22 * (len(timings) + len({one.row for one in timings}))))
    place, places, rows = 0.0, [], []
    for row, group in groupby(timings, lambda one: one.row):
        first = place
        for one in group:
            whisker = [[one.median - one.low], [one.high - one.median]]
            axes.barh(place, one.median, color=colours[one.contestant], xerr=whisker, ecolor="0.3")
            axes.text(one.high, place, f"  {one.median:.3g} {one.unit}", va="center", fontsize=7)
            place += 1
        places.append((first + place - 1) / 2)
        rows.append(row)
        place += 1
    axes.set_xscale("log")
    axes.set_xlim(right=4 * max(one.high for one in timings))
    axes.set_yticks(places, rows, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"{', '.join(dict.fromkeys(one.unit for one in timings))}: median and middle half")
    bars = [plt.Rectangle((0, 0), 1, 1, color=colours[name]) for name in names]
    axes.legend(bars, names, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
    figure.savefig(target, bbox_inches="tight", dpi=120)
    plt.close(figure)
