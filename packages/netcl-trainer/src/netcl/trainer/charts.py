"""Charts as SVG and images as PNG data URIs for the HTML report, without a library and without further files."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.image_grid import png

_WIDTH, _HEIGHT = 520, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 34, 34  # the left margin is wider for long numbers
_DIGIT = 8.8  # width of a digit in the larger font of narrow pages


@dataclass(frozen=True)
class Curve:
    """Values over the epochs; values that are not finite leave a gap. ``kind`` selects colour and dashes in the
    page.
    """

    name: str
    values: Sequence[float]
    kind: str = "training"


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Returns round numbers within the limits."""
    span = (high - low) / max(1, count - 1)
    power = 10.0 ** math.floor(math.log10(span))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.8 * span)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{100 * value:.4g} %"


def _limits(curves: Sequence[Curve]) -> tuple[float, float]:
    values = [value for curve in curves for value in curve.values if math.isfinite(value)]
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or abs(low) * 0.05 or 0.5
    return low - margin, high + margin


def line_chart(title: str, epochs: Sequence[float], curves: Sequence[Curve], percent: bool = False) -> str:
    """Returns an SVG of the curves over the epochs, each point with its value as a tooltip; empty if no value is
    finite.

    ``percent``: the values are fractions of one.
    """
    if not any(math.isfinite(value) for curve in curves for value in curve.values):
        return ""
    low, high = _limits(curves)
    number = _percent if percent else _number
    first, last = epochs[0], epochs[-1] if epochs[-1] > epochs[0] else epochs[0] + 1

    left = max(_LEFT, 10 + _DIGIT * max(len(number(tick)) for tick in _ticks(low, high)))

    def x(epoch: float) -> float:
        return left + (epoch - first) / (last - first) * (_WIDTH - left - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text class="title" x="{left:g}" y="18">{escape(title)}</text>',
    ]
    for tick in _ticks(low, high):
        parts.append(f'<line class="grid" x1="{left:g}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(
            f'<text class="tick" x="{left - 8:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>'
        )
    for tick in (tick for tick in _ticks(first, last, 7) if tick == int(tick) and tick <= epochs[-1]):
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{_HEIGHT - 12}" text-anchor="middle">{int(tick)}</text>')
    parts.append(f'<text class="tick" x="{left - 8:g}" y="{_HEIGHT - 12}" text-anchor="end">epoch</text>')
    legend_x = _WIDTH - _RIGHT
    for curve in reversed(curves) if len(curves) > 1 else ():
        parts.append(
            f'<text class="legend {curve.kind}" x="{legend_x}" y="18" text-anchor="end">{escape(curve.name)}</text>'
        )
        legend_x -= 9 * len(curve.name) + 16
    for curve in curves:
        points = [(x(e), y(v), e, v) for e, v in zip(epochs, curve.values) if math.isfinite(v)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _, _ in points)
        parts.append(f'<polyline class="curve {curve.kind}" points="{path}"/>')
        for px, py, epoch, value in points:
            tip = escape(f"{curve.name}, epoch {epoch:g}: {number(value)}")
            parts.append(
                f'<circle class="dot {curve.kind}" cx="{px:.1f}" cy="{py:.1f}" r="3"><title>{tip}</title></circle>'
            )
    return "".join([*parts, "</svg>"])


def png_uri(image: npt.NDArray[Any]) -> str:
    """Returns an image (H, W), (1, H, W) or (3, H, W), its values scaled from black to white, as a ``data:`` URI."""
    values = np.asarray(image, np.float64)
    values = values[None] if values.ndim == 2 else values
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(finite.min()), float(finite.max())
    pixels = np.round(255 * (finite - low) / (high - low or 1.0)).astype(np.uint8).transpose(1, 2, 0)
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")
