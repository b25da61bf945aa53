"""The text of a tensor's values, and how many digits and elements it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_DEFAULT: dict[str, Any] = {"precision": 4, "threshold": 64, "edgeitems": 3, "linewidth": None, "sci_mode": None}
_PROFILES: Mapping[str, Mapping[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, Any] = dict(_DEFAULT)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how ``repr`` shows tensors in this process; None leaves an option as it is, ``sci_mode`` excepted.

    ``precision``: digits after the point; ``threshold``: the number of elements above which only ``edgeitems`` at each
    end of an axis are shown; ``linewidth``: characters in a line; ``profile``: PyTorch's ``default``, ``short`` or
    ``full``; ``sci_mode``: numbers with (True) or without (False) exponents, None for what needs fewer characters.
    Raises ValueError for another profile or a negative number.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: expected a profile of {', '.join(_PROFILES)}, got {profile!r}")
        _options.update(_PROFILES[profile])
    options = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in options.items():
        if value is not None:
            if not value >= 0:
                raise ValueError(f"set_printoptions: {name} {value} must not be negative")
            _options[name] = value
    _options["sci_mode"] = sci_mode


def options() -> dict[str, Any]:
    """Returns the options that the program has set, by the parameters of ``set_printoptions``."""
    return {name: value for name, value in _options.items() if value != _DEFAULT[name]}


def shown(values: np.ndarray[Any, Any], prefix: str) -> str:
    """Returns the text of ``values`` after ``prefix``."""
    precision, scientific = _options["precision"], _options["sci_mode"]
    formats: Any = None
    if scientific is not None:
        kind = "e" if scientific else "f"
        formats = {"float_kind": lambda value: f"{value:.{precision}{kind}}"}
    threshold = _options["threshold"]
    return np.array2string(
        values,
        max_line_width=_options["linewidth"],
        precision=precision,
        threshold=int(min(threshold, 2**62)),
        edgeitems=_options["edgeitems"],
        separator=", ",
        prefix=prefix,
        formatter=formats,
    )
