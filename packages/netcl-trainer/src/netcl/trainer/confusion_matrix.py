"""The confusion matrix of a report as an HTML table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

_SHOWN_CLASSES = 25
_SHOWN_PAIRS = 24


def class_name(names: Sequence[str] | None, number: int) -> str:
    """Returns the name of a class for a page; its number if it has none."""
    return escape(str(names[number])) if names and 0 <= number < len(names) else str(number)


def confusion_table(counts: npt.NDArray[Any], names: Sequence[str] | None) -> str:
    """Returns the table of counts int64 (C, C), rows by the true and columns by the predicted class; for more than 25
    classes the pairs that are confused most.
    """
    titles = [class_name(names, number) for number in range(len(counts))]
    if len(counts) > _SHOWN_CLASSES:
        return _pairs(counts, titles)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    head = "".join(f"<th>{title}</th>" for title in titles)
    rows = "".join(
        f"<tr><th>{title}</th>{''.join(map(_cell, row.tolist(), part.tolist()))}</tr>"
        for title, row, part in zip(titles, counts, shares)
    )
    lead = "<p class='lead'>validation samples: rows by the true class, columns by the predicted one</p>"
    return f"{lead}<div class='table'><table class='confusion'><tr><th></th>{head}</tr>{rows}</table></div>"


def _cell(count: int, share: float) -> str:
    shade = f"color-mix(in srgb, var(--training) {70 * share:.0f}%, transparent)"
    return f'<td title="{100 * share:.1f} %" style="background: {shade}">{count}</td>'


def _pairs(counts: npt.NDArray[Any], titles: Sequence[str]) -> str:
    wrong = counts * (1 - np.eye(len(counts), dtype=np.int64))
    order = [divmod(int(at), len(counts)) for at in np.argsort(-wrong, axis=None, kind="stable")[:_SHOWN_PAIRS]]
    rows = "".join(
        f"<tr><td>{titles[true]}</td><td>{titles[said]}</td><td>{wrong[true, said]}</td></tr>"
        for true, said in order
        if wrong[true, said]
    )
    head = "<tr><th>is</th><th>said</th><th>samples</th></tr>"
    return f"<p class='lead'>the pairs that are confused most</p><div class='table'><table>{head}{rows}</table></div>"
