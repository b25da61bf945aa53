"""Measures how well a model predicts a text: exp of the mean loss of its tokens."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.llm.commands.options import add_model, loaded, parser, run

__all__ = ["main", "perplexity"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``netcl perplexity``."""
    measure = parser("perplexity", __doc__)
    add_model(measure)
    measure.add_argument("text", help="a text file in UTF-8")
    measure.add_argument("--context", type=int, default=512, help="tokens of a piece of the text (512)")
    return run("perplexity", _measure, measure.parse_args(arguments))


def _measure(parsed: argparse.Namespace) -> int:
    text = Path(parsed.text).read_text(encoding="utf-8")
    value, count = perplexity(loaded(parsed), text, parsed.context)
    print(f"perplexity {value:.4f} of {count} tokens, in pieces of {parsed.context}")
    return 0


def perplexity(model: Any, text: str, context: int = 512) -> tuple[float, int]:
    """Returns the perplexity of a text, and the number of its tokens that were predicted.

    The text is cut into pieces of ``context`` tokens. The first token of a piece is given, the others are predicted
    from those before them in the piece.
    """
    if not 2 <= context <= model.config.context_length:
        raise ValueError(f"expected a context from 2 to {model.config.context_length} tokens, got {context}")
    ids = model.tokenizer.encode(text)
    if len(ids) < 2:
        raise ValueError(f"expected a text of at least two tokens, got {len(ids)}")
    total, count = 0.0, 0
    for start in range(0, len(ids) - 1, context):
        piece = np.array([ids[start : start + context]], np.int32)
        if piece.shape[1] < 2:
            break
        with ag.no_grad():
            logits = model.decoder(Tensor.from_host(model.decoder.queue, piece))
            likely = ag.log_softmax(ag.cast(logits[0, :-1], dtype="float32"), axis=-1)
            targets = Tensor.from_host(model.decoder.queue, piece[0, 1:, None])
            found = ag.gather(likely, 1, targets).numpy()
        total -= float(found.sum(dtype=np.float64))
        count += found.size
    return math.exp(total / count), count
