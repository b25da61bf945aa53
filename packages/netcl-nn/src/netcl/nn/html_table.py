"""The table of a model in a notebook: its layers, their arguments, and the shapes of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

_MOST_ROWS = 120  # of a table; a model with more layers shows the first and says how many follow
_STYLE = "text-align:left;font-family:monospace;white-space:nowrap"


def html_table(model: Any) -> str:
    """Returns a table with a row for each leaf module and each module with parameters of its own: name, layer,
    parameters with their shapes, and their number; the last row is the sum; shared parameters count once.
    """
    counted: set[int] = set()
    rows: list[str] = []
    for name, module in model.named_modules():
        own = list(module.named_parameters(recurse=False))
        if not own and any(True for _ in module.children()):
            continue
        layer = f"{type(module).__name__}({module.extra_repr()})"
        shapes = ", ".join(f"{key} {tuple(p.shape)}" for key, p in own)
        size = sum(p.size for _, p in own if id(p) not in counted)
        counted.update(id(p) for _, p in own)
        rows.append(_row("td", name, layer, shapes, f"{size:,}" if own else ""))
    left = len(rows) - _MOST_ROWS
    if left > 0:
        rows[_MOST_ROWS:] = [_row("td", "...", f"{left} more", "", "")]
    parameters = list(model.parameters())
    trained = sum(p.size for p in parameters if p.requires_grad)
    total = sum(p.size for p in parameters)
    summed = f"{total:,}" if trained == total else f"{total:,} ({trained:,} trained)"
    head = _row("th", "name", "layer", "parameters", "number")
    foot = _row("th", type(model).__name__, "", "", summed)
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody><tfoot>{foot}</tfoot></table>"


def rows_table(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of texts: the first row is its head, the last one its sum."""
    head, *body, total = rows
    lines = "".join(_row("td", *row) for row in body)
    return f"<table><thead>{_row('th', *head)}</thead><tbody>{lines}</tbody><tfoot>{_row('th', *total)}</tfoot></table>"


def _row(tag: str, *cells: str) -> str:
    def cell(text: str, style: str) -> str:
        return f'<{tag} style="{style}">{escape(text)}</{tag}>'

    *texts, number = cells
    return f"<tr>{''.join(cell(text, _STYLE) for text in texts)}{cell(number, _STYLE.replace('left', 'right'))}</tr>"
