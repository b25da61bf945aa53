"""The report of a run: one self-contained HTML page with curves, misclassified samples and settings."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.trainer.charts import Curve, line_chart, png_uri
from netcl.trainer.class_names import class_names
from netcl.trainer.confusion_matrix import class_name, confusion_table
from netcl.trainer.epoch_metrics import confusion_of
from netcl.trainer.epoch_table import EpochTable, larger_is_better
from netcl.trainer.versions import versions

_SHOWN_ERRORS = 24
_TIMING = ("epoch", "step", "seconds", "samples_per_second")

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --soft: #667080; --line: #dde1e7; --page: #ffffff; --card: #f6f7f9;
  --training: #2563eb; --validation: #d97706; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b3; --line: #333a45; --page: #14171c;
  --card: #1c2027; --training: #6ea8fe; --validation: #f5a94b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 1120px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p.lead { color: var(--soft); margin: 0; }
.numbers, .charts, .samples { display: grid; gap: 1rem; }
.numbers { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin-top: 1.2rem; }
.numbers div { background: var(--card); border-radius: 8px; padding: .7rem .9rem; }
.numbers b { display: block; font-size: 1.35rem; } .numbers span { color: var(--soft); font-size: .85rem; }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(380px, 100%), 1fr)); }
.charts svg { background: var(--card); border-radius: 8px; width: 100%; height: auto; }
.samples { grid-template-columns: repeat(auto-fill, minmax(104px, 1fr)); margin-top: .6rem; }
.samples figure { margin: 0; background: var(--card); border-radius: 8px; padding: .5rem; text-align: center; }
.samples img { width: 80px; height: 80px; image-rendering: pixelated; }
.samples figcaption { font-size: .8rem; line-height: 1.35; }
table.confusion td { min-width: 2.2rem; } table.confusion th:first-child { text-align: left; }
/* A shade at the right edge of a wide table, which the end of the table covers. */
.table { overflow-x: auto; background: linear-gradient(to left, var(--page) 50%, transparent) 100% 0 / 3rem 100%
  no-repeat local, linear-gradient(to left, var(--line), transparent) 100% 0 / 1.5rem 100% no-repeat scroll; }
table { border-collapse: separate; border-spacing: 0; font-size: .9rem; }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid var(--line); }
.table th:first-child, .table td:first-child { position: sticky; left: 0; background: var(--page); }
table.facts th, table.facts td { text-align: left; vertical-align: top; } table.facts th { color: var(--soft);
  font-weight: normal; } pre { margin: 0; white-space: pre-wrap; font-size: .85rem; } tr.best td { font-weight: bold; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; } svg text.title { fill: var(--ink); font-weight: 600; }
svg .grid { stroke: var(--line); } svg .curve { fill: none; stroke-width: 2; }
svg text.training { fill: var(--training); } svg text.validation { fill: var(--validation); }
svg .curve.training { stroke: var(--training); } svg .curve.validation { stroke: var(--validation);
  stroke-dasharray: 6 4; } svg .dot.training { fill: var(--training); } svg .dot.validation { fill: var(--validation); }
@media (max-width: 30em) { svg text { font-size: 15px; } }  /* a chart is scaled to two thirds there */
"""

_IN_NOTEBOOK = """
:scope { color: var(--ink); background: var(--page); padding: .6rem; border-radius: 8px; }
th, td { color: var(--ink); } tr { background: none !important; }
"""


# A Trainer and its validation loader.
Source = tuple[Any, Any]


def notebook_view(history: EpochTable) -> str:
    """Returns the curves and the table of epochs as HTML for a notebook; a text if the history is empty."""
    if not history:
        return "<p>no epochs yet</p>"
    # The page's style, for this element alone, in its own colours: a notebook may be light in a dark system.
    style = f"@scope (.netcl-history) {{ {_STYLE.replace(':root', ':scope')} {_IN_NOTEBOOK} }}"
    return (
        f"<style>{style}</style><div class='netcl-history'><div class='charts'>{''.join(_charts(history))}</div>"
        f"{_epochs(history)}</div>"
    )


def write_report(
    history: EpochTable, source: Source | None, path: str | PathLike[str], config: str | None = None
) -> Path:
    """Runs ``History.report``."""
    if not history:
        raise ValueError("the history is empty: there is nothing to report")
    sections = [
        _numbers(history),
        _section("Curves", f'<div class="charts">{"".join(_charts(history))}</div>'),
        *_classes(source),
        _section("Epochs", _epochs(history)),
        _section("What was run", _facts(source, config)),
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>netcl: training report</title><style>{_STYLE}</style></head><body>"
        f"<h1>Training report</h1><p class='lead'>{escape(_lead(history, source))}</p>"
        f"{''.join(sections)}</body></html>\n"
    )
    target = Path(path)
    target.write_text(page, encoding="utf-8")
    return target


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _lead(history: EpochTable, source: Source | None) -> str:
    seconds = sum(row.get("seconds", 0.0) for row in history)
    what = type(source[0].model).__name__ if source else "a model"
    return f"{what}, {len(history)} epochs, {history[-1].get('step', '?')} steps, {seconds:.1f} s of training"


def _best(history: EpochTable) -> dict[str, Any] | None:
    """Returns the best epoch by the value that the run followed, else by the validation loss, else by the loss."""
    source = getattr(history, "source", None)
    for callback in source[0].run.callbacks if source else ():
        name = getattr(callback, "monitor", "")
        if any(map(math.isfinite, _column(history, name) or ())):
            return history.best(name, "max" if callback.largest else "min")
    for name in ("val_loss", "loss"):
        if any(map(math.isfinite, _column(history, name) or ())):
            return history.best(name)
    return None


def _numbers(history: EpochTable) -> str:
    best = _best(history)
    if best is None:
        return ""
    shown = {name: value for name, value in best.items() if name not in _TIMING and isinstance(value, (int, float))}
    cells = [
        f"<div><b>{escape(_text(name, value))}</b><span>{escape(name)}</span></div>" for name, value in shown.items()
    ]
    cells.insert(0, f"<div><b>{best.get('epoch', '?')}</b><span>best epoch</span></div>")
    return f'<div class="numbers">{"".join(cells)}</div>'


def _text(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if name.endswith("accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _charts(history: EpochTable) -> Iterator[str]:
    epochs = [float(row.get("epoch", number)) for number, row in enumerate(history, 1)]
    names = [name for name in history.names if name not in ("epoch", "step", "seconds") and not name.startswith("val_")]
    # Loss first, then metrics, then values that do not measure the model.
    names.sort(
        key=lambda name: (
            name == "samples_per_second",
            name.startswith("lr"),
            name != "loss",
            not larger_is_better(name),
        )
    )
    alone = [name for name in history.names if name.startswith("val_") and name[4:] not in names]
    for name in (*names, *alone):
        curves = [
            Curve(label, values, label)
            for key, label in ((name, "training"), (f"val_{name}", "validation"))
            if (values := _column(history, key)) is not None
        ]
        if curves:
            title = {"samples_per_second": "samples per second", "lr": "learning rate"}.get(name, name)
            yield line_chart(title, epochs, curves, percent=name.endswith("accuracy"))


def _column(history: EpochTable, name: str) -> list[float] | None:
    """Returns the values of ``name`` with NaN for missing ones; None if they are not numbers."""
    values = [row.get(name) for row in history]
    if not all(value is None or isinstance(value, (int, float)) for value in values) or not any(
        value is not None for value in values
    ):
        return None
    return [math.nan if value is None else float(value) for value in values]


def _epochs(history: EpochTable) -> str:
    # A confusion matrix has a section of its own.
    listed = {name for row in history for name, value in row.items() if isinstance(value, list)}
    names, best = [name for name in history.names if name not in listed], _best(history)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = []
    for row in history:
        cells = "".join(f"<td>{escape(_text(name, row.get(name, '')))}</td>" for name in names)
        lines.append(f"<tr{' class=best' if row is best else ''}>{cells}</tr>")
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


# -- classes ---------------------------------------------------------------------------------------------------------


def _classes(source: Source | None) -> list[str]:
    """Returns the sections about the classes of the validation loader: the confusion matrix, and the misclassified
    samples with the highest confidence. Empty for a model that is not a classifier.
    """
    if source is None or source[1] is None:
        return []
    trainer, loader = source
    position = loader.state_dict() if hasattr(loader, "load_state_dict") else None
    try:
        errors, counts = _most_confident_errors(trainer, loader)
    finally:
        if position is not None:
            loader.load_state_dict(position)
    if counts is None:
        return []
    names = class_names(loader) or (getattr(trainer.model, "about", None) or {}).get("classes")
    figures = [_figure(confidence, x, label, guess, names) for confidence, _, x, label, guess in errors]
    seen = int(counts.sum())
    lead = (
        f"<p class='lead'>{seen - int(np.trace(counts))} of {seen} validation samples; the first have the highest "
        "confidence.</p>"
    )
    samples = f'{lead}<div class="samples">{"".join(figures)}</div>'
    return [_section("Confusion matrix", confusion_table(counts, names)), _section("Misclassified samples", samples)]


def _most_confident_errors(
    trainer: Any, loader: Any
) -> tuple[list[tuple[float, int, Any, int, int]], npt.NDArray[Any] | None]:
    """Returns (confidence, number, input, label, guess) of the errors, by decreasing confidence, and the confusion
    matrix; None for a model that is not a classifier.
    """
    heap: list[tuple[float, int, Any, int, int]] = []
    seen, counts = 0, None
    for batch in loader:
        if not (isinstance(batch, (tuple, list)) and len(batch) >= 2):
            return [], None
        fields = [np.asarray(value.to_host() if hasattr(value, "to_host") else value) for value in batch]
        x, y = fields[0], fields[-1]
        with trainer.averaged():
            logits = trainer.predict([x if len(fields) == 2 else tuple(fields)]).astype(np.float64)
        if logits.ndim != 2 or y.shape != (len(x),) or y.dtype.kind not in "iu":
            return [], None
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        guesses = shares.argmax(axis=1)
        for row in np.flatnonzero(guesses != y):
            entry = (float(shares[row, guesses[row]]), -(seen + int(row)), x[row], int(y[row]), int(guesses[row]))
            (heapq.heappush if len(heap) < _SHOWN_ERRORS else heapq.heappushpop)(heap, entry)
        matrix = confusion_of(logits, y, labels=False)
        seen, counts = seen + len(x), matrix if counts is None else counts + matrix
    return sorted(heap, key=lambda entry: entry[:2], reverse=True), counts


def _figure(confidence: float, x: npt.NDArray[Any], label: int, guess: int, names: Sequence[str] | None) -> str:
    said, meant = (class_name(names, class_id) for class_id in (guess, label))
    if x.ndim == 2 or (x.ndim == 3 and x.shape[0] in (1, 3)):
        shown = f'<img src="{png_uri(x)}" alt="a sample of class {meant}">'
    else:
        shown = escape(np.array2string(x.ravel()[:6], precision=3, separator=", "))
    return f"<figure>{shown}<figcaption>said {said} ({100 * confidence:.0f}\u00a0%)<br>is {meant}</figcaption></figure>"


# -- settings of the run ---------------------------------------------------------------------------------------------


def _facts(source: Source | None, config: str | None) -> str:
    facts = {**(_setting(source) if source else {}), "versions": "\n".join(versions())}
    if config is not None:
        facts["configuration"] = config
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td><pre>{escape(text)}</pre></td></tr>" for name, text in facts.items()
    )
    return f'<div class="table"><table class="facts">{rows}</table></div>'


def _setting(source: Source) -> dict[str, str]:
    trainer, val_loader = source
    loader = trainer.run.train_loader
    parameters = list(trainer.model.parameters())
    facts = {}
    if parameters:
        device = parameters[0].device
        facts["device"] = f"{device.device_name} ({device.platform_name}, {device.device_type})"
    facts["model"] = f"{trainer.model!r}\n{sum(p.size for p in parameters):,} parameters"
    facts["optimizer"] = repr(trainer.optimizer)
    if trainer.scheduler is not None:
        facts["schedule"] = type(trainer.scheduler).__name__
    options = ("mixed precision", trainer.autocast_dtype), ("gradient clipping", trainer.grad_clip)
    steps = ("batches per step", trainer.accumulation_steps if trainer.accumulation_steps > 1 else None)
    average = ("average", None if trainer.ema is None else type(trainer.ema).__name__)
    facts.update({name: str(value) for name, value in (*options, steps, average) if value is not None})
    callbacks = [type(callback).__name__ for callback in trainer.run.callbacks]
    if callbacks:
        facts["callbacks"] = ", ".join(callbacks)
    facts["captured"] = "yes" if trainer.captured else "no, op by op"
    for name, part in (("training data", loader), ("validation data", val_loader)):
        if part is not None:
            facts[name] = _describe_loader(part)
    return facts


def _kinds(dataset: Any) -> Iterator[str]:
    """Yields the class names of a dataset and of the datasets that it wraps: Subset of ArrayDataset."""
    while dataset is not None:
        yield type(dataset).__name__
        dataset = getattr(dataset, "dataset", None)


def _describe_loader(loader: Any) -> str:
    dataset: Any = getattr(loader, "dataset", None)
    parts = [
        " of ".join(_kinds(loader if dataset is None else dataset)),
        *(f"{name} {getattr(loader, name)}" for name in ("batch_size", "num_workers", "seed") if hasattr(loader, name)),
    ]
    if dataset is not None and hasattr(dataset, "__len__"):
        parts.insert(1, f"{len(dataset)} samples")
    return ", ".join(parts)
