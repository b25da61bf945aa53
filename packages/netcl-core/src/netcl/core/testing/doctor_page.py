"""The examination of devices, and one self-contained HTML page of it: tables by device, and the report of drivers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest

from netcl.core.testing.op_families import DTYPES

Job = tuple[str, str, str]  # mask ("": none), family, dtype

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --soft: #667080; --line: #dde1e7; --page: #fff; --card: #f6f7f9;
  --right: #15803d; --wrong: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b3; --line: #333a45; --page: #14171c;
  --card: #1c2027; --right: #4ade80; --wrong: #f87171; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 960px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .2rem 0; } .soft { color: var(--soft); } .right { color: var(--right); } .wrong { color: var(--wrong); }
section { background: var(--card); border-radius: 8px; padding: .9rem 1rem; margin: 1rem 0; }
/* A shade at the right edge of a wide table, which the end of the table covers. */
.table { overflow-x: auto; background: linear-gradient(to left, var(--card) 50%, transparent) 100% 0 / 3rem 100%
  no-repeat local, linear-gradient(to left, var(--line), transparent) 100% 0 / 1.5rem 100% no-repeat scroll; }
table { border-collapse: separate; border-spacing: 0; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; margin: .5rem 0 0; }
li { overflow-wrap: anywhere; }
"""


@dataclass(frozen=True)
class Row:
    """One kernel family in one dtype: passed cases, the largest relative error, and failures by op."""

    job: Job
    passed: int
    error: float
    failed: dict[str, str]


@dataclass
class Examination:
    """Results for one device; ``problem`` says why it could not be examined at all."""

    selector: str
    name: str
    rows: list[Row] = field(default_factory=list)
    units: list[str] = field(default_factory=list)  # a line for each matrix unit that the device may have
    problem: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, shares: Sequence[Examination]) -> Examination:
        """Merges the results of the shares of one device, in the order of the jobs."""
        rows = [row for rank in zip_longest(*(share.rows for share in shares)) for row in rank if row is not None]
        problem = next((share.problem for share in shares if share.problem), "")
        units = [line for share in shares for line in share.units]
        return cls(shares[0].selector, shares[0].name, rows, units, problem, max(share.seconds for share in shares))

    def __bool__(self) -> bool:
        return not self.problem and not any(row.failed for row in self.rows)

    def tables(self) -> Iterator[tuple[str, list[str], list[tuple[str, list[str], int, str]]]]:
        """Yields the mask, the dtypes, and (family, a text for each dtype, passed cases, verdict) of each table."""
        for mask in dict.fromkeys(row.job[0] for row in self.rows):
            rows = {row.job[1:]: row for row in self.rows if row.job[0] == mask}
            dtypes = [dtype for dtype in DTYPES if any(pair[1] == dtype for pair in rows)]
            lines = []
            for family in dict.fromkeys(pair[0] for pair in rows):
                own = [rows.get((family, dtype)) for dtype in dtypes]
                there = [row for row in own if row is not None]
                verdict = "WRONG" if any(row.failed for row in there) else "right"
                lines.append((family, list(map(_cell, own)), sum(row.passed for row in there), verdict))
            yield mask, dtypes, lines


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return "exact" if row.error == 0 else f"{row.error:.1e}"


def page(examinations: Sequence[Examination], conflicts: Sequence[str], report: str) -> str:
    wrong = sum(not examination for examination in examinations)
    well = "every kernel family is right on each device"
    verdict = f"{wrong} of {len(examinations)} devices are wrong" if wrong else well
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>netcl doctor</title><style>{_STYLE}</style></head><body><h1>netcl doctor</h1>",
        f'<p class="{"wrong" if wrong or conflicts else "right"}">{escape(verdict)}</p>',
        '<p class="soft">The largest relative error against NumPy, by dtype; exact means to the last bit.</p>',
        *(f'<p class="wrong">{escape(text)}</p>' for text in conflicts),
        *(text for examination in examinations for text in _device(examination)),
        f"<section><h2>This machine</h2><pre>{escape(report)}</pre></section></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _device(examination: Examination) -> Iterator[str]:
    yield f"<section><h2>{escape(examination.name)}</h2>"
    yield f'<p class="soft">{escape(examination.selector)}, {examination.seconds:.0f} s</p>'
    if examination.problem:
        yield f'<p class="wrong">cannot be used: {escape(examination.problem)}</p>'
    for mask, dtypes, lines in examination.tables():
        if mask:
            yield f"<p>seen as a device of: {escape(mask)}</p>"
        yield '<div class="table"><table><tr><th>family</th><th>verdict</th>'
        yield "".join(f"<th>{dtype}</th>" for dtype in dtypes) + "<th>cases</th></tr>"
        for family, texts, passed, verdict in lines:
            cells = "".join(f"<td>{text}</td>" for text in (*texts, passed))
            yield f'<tr><td>{escape(family)}</td><td class="{verdict.lower()}">{verdict}</td>{cells}</tr>'
        yield "</table></div>"
    failures = [(row, name, reason) for row in examination.rows for name, reason in row.failed.items()]
    if failures:
        yield "<ul>"
        for row, name, reason in failures:
            yield f"<li>{escape(' '.join(filter(None, row.job)))}: {escape(name)}: {escape(reason)}</li>"
        yield "</ul>"
    yield "".join(f"<p>matrix unit {escape(line)}</p>" for line in examination.units) + "</section>"
