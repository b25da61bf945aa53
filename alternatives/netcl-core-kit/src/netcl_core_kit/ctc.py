"""Arguments of ``ctc_loss``: labels and lengths, checked on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl_core_kit.errors import DTypeError
from netcl_core_kit.layout import Shape
from netcl_core_kit.shapes import exactly

__all__ = ["ctc_arguments"]


def _check(engine: Any, holds: Any, on_device: bool, error: Exception, message: str, values: Any, size: int) -> None:
    """``error`` for values of the host at once, for values of the device ``message`` at the next host read."""
    if bool(holds.all()):
        return
    if not on_device:
        raise error
    engine.report_host(holds, engine.flag_code(message), values, size)


def _lengths(engine: Any, name: str, given: Any, on_device: bool, least: int, most: int) -> Any:
    """Lengths within [least, most]: ValueError or, later, IndexError for others."""
    kind = "labels" if name == "target_lengths" else "steps"
    error = ValueError(f"ctc_loss: expected {name} in {least} .. {most}, got {given.tolist()}")
    message = f"ctc_loss: sample {{position}} has {{value}} {kind}, where {least} to {{last}} are possible"
    _check(engine, (given >= least) & (given <= most), on_device, error, message, given, most + 1)
    return given.clip(0, most)


def ctc_arguments(
    engine: Any, targets: Any, input_lengths: Any, target_lengths: Any, on_device: Any, shape: Shape, blank: int, single: bool
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Labels (N, S), filled up with ``blank``, the lengths of inputs and of targets, as arrays of int64.

    ``shape`` is (T, N, C) of the log probabilities, ``single``: they had no axis of samples; ``on_device``: which of the
    three were on a device, whose errors come at the next host read.
    """
    steps, count, classes = shape
    lengths_in, lengths = (np.asarray(one).astype(np.int64).reshape(-1) for one in (input_lengths, target_lengths))
    for name, found in (("input_lengths", lengths_in), ("target_lengths", lengths)):
        exactly("ctc_loss", len(found) == count, f"{len(found)} {name} for {count} samples")
    if targets.dtype.kind == "f":
        raise DTypeError(f"ctc_loss: targets of {targets.dtype}, expected integers")
    labels = targets.astype(np.int64)
    lengths_in = _lengths(engine, "input_lengths", lengths_in, on_device[1], 1, steps)
    if labels.ndim == 2:
        exactly("ctc_loss", labels.shape[0] == count, f"targets {labels.shape} for log_probs {shape}")
        lengths = _lengths(engine, "target_lengths", lengths, on_device[2], 0, labels.shape[1])
    most = int(lengths.max()) if count else 0
    if labels.ndim == 1 and not (single and count == 1 and labels.size >= most):
        whole = int(lengths.sum())
        exactly(
            "ctc_loss", labels.size == whole, f"{labels.size} targets in a row for target_lengths {lengths.tolist()}"
        )
        padded = np.full((count, max(most, 1)), blank)
        for row, part in enumerate(np.split(labels, np.cumsum(lengths)[:-1])):
            padded[row, : len(part)] = part
        labels = padded
    labels = labels if labels.ndim == 2 else labels.reshape(1, -1)
    exactly("ctc_loss", labels.shape[1] >= most, f"targets {labels.shape} for lengths {lengths.tolist()}")
    used = np.arange(labels.shape[1]) < lengths[:, None]
    message = f"ctc_loss: a target is no class id in [0, {classes})"
    holds = ~used | ((labels >= 0) & (labels < classes))
    _check(engine, holds, on_device[0], IndexError(message), message, labels, 1)
    return np.where(used, labels.clip(0, classes - 1), blank), lengths_in, lengths
