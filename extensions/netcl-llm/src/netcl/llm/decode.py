"""Lanes, the rows of a batch that are decoded together: prefill by chunks, and one captured step per token, which also
draws the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor, manager
from netcl.llm.cache import Cache, size_of
from netcl.llm.decoder import Decoder
from netcl.llm.sampling import Piece, Sampler
from netcl.runtime.capture import CapturedStep, capture

__all__ = ["CHUNKS", "Lanes"]

Array = np.ndarray[Any, Any]
# Tokens of a prefill at a time: the smallest that holds the rest if that is half of it, else the largest within it.
CHUNKS = (16, 64, 256, 1024, 2048)


class Lanes:
    """``rows`` sequences of tokens with one cache; a row is at its own position."""

    decoder: Decoder
    rows: int

    def __init__(self, decoder: Decoder, rows: int = 1) -> None:
        self.decoder, self.rows = decoder, rows
        self.most: int = decoder.config.context_length
        dtype = decoder.cache_dtype or _cache_dtype(decoder)
        self.cache: Cache = Cache(decoder.config, rows, size_of(1, self.most), decoder.queue, dtype)
        self.ids: list[list[int]] = [[] for _ in range(rows)]
        self._steps: dict[Any, CapturedStep] = {}

    def keep(self, row: int, count: int) -> None:
        """Keeps the first ``count`` tokens of a row."""
        counts = self.cache.counts.copy()
        counts[row] = count
        del self.ids[row][count:]
        self.cache.keep(counts)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Appends tokens to each row, none for rows that wait; returns the logits (rows, vocabulary) behind the last.

        Raises ValueError for a row that would be longer than the context.
        """
        logits = None
        done = [0] * self.rows
        while logits is None or any(len(prompt) > count for prompt, count in zip(prompts, done)):
            left = max(len(prompt) - count for prompt, count in zip(prompts, done))
            width = _width(left)
            parts = [list(prompt[count : count + width]) for prompt, count in zip(prompts, done)]
            logits = self._merged(logits, self.append(parts, width), parts)
            done = [count + len(part) for count, part in zip(done, parts)]
        return logits

    @staticmethod
    def _merged(old: Tensor | None, new: Tensor, parts: Sequence[Sequence[int]]) -> Tensor:
        """Returns the new logits of rows with tokens, and the old ones of the others."""
        if old is None or all(parts):
            return new
        has = Tensor.from_host(new.queue, np.array([[bool(part)] for part in parts]))
        return ag.where(has, new, old)

    def append(self, parts: Sequence[Sequence[int]], width: int = 1) -> Tensor:
        """Appends up to ``width`` tokens to each row in one pass; returns the logits (rows, vocabulary) behind them."""
        inputs, counts = self._placed(parts, width)
        with ag.no_grad():
            logits = self._replayed(None, self._pass, inputs[0]) if width == 1 else self._pass(*inputs)
        self.cache.advance(counts)
        return logits

    def draw(self, parts: Sequence[Sequence[int]], sampler: Sampler, rows: Sequence[int] = (0,)) -> list[Piece]:
        """Appends at most one token to each row, and draws the next ones of ``rows`` in the same step."""
        (ids, _), counts = self._placed(parts, 1)
        asked = sampler.asked(rows)

        def step(ids: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
            return asked.drawn(sampler.places, self._pass(ids), *inputs)

        with ag.no_grad():
            drawn = self._replayed((sampler, asked.kind), step, ids, *asked.inputs)
        self.cache.advance(counts)
        return sampler.pieces(drawn, rows)

    def _placed(self, parts: Sequence[Sequence[int]], width: int) -> tuple[list[Tensor], Array]:
        """Makes room for tokens; returns them with the place of each row's last one, and their counts."""
        counts = np.array([len(part) for part in parts], np.int32)
        longest = int((self.cache.counts + counts).max())
        if longest > self.most:
            raise ValueError(f"expected at most {self.most} tokens, the model's context, got {longest}")
        places = int(self.cache.counts.max()) + width
        if places > self.cache.length:
            self.cache.grow(size_of(places, self.most))
            self._steps.clear()
        ids, last = np.zeros((self.rows, width), np.int32), np.maximum(counts - 1, 0).astype(np.int32)
        for row, part in enumerate(parts):
            ids[row, : len(part)] = part
            self.ids[row].extend(part)
        return [Tensor.from_host(self.decoder.queue, array) for array in (ids, last)], counts

    def _pass(self, ids: Tensor, last: Tensor | None = None) -> Tensor:
        logits = self.decoder(ids, self.cache, last)
        return ag.cast(logits if last is not None else ag.squeeze(logits, 1), dtype="float32")

    def _replayed(self, kind: Any, step: Callable[..., Any], *inputs: Tensor) -> Any:
        """Returns what a step of one token gives by its capture, always: a step op by op may round otherwise.

        Before a capture one runs, which makes what a step must find; the same places are written again.
        """
        if kind not in self._steps:
            step(*inputs)
            self._steps[kind] = capture(step, *inputs)
        return self._steps[kind].replay(*inputs)


def _width(left: int) -> int:
    """Returns how many tokens are computed at a time while ``left`` are."""
    if left == 1:
        return 1
    holding = next((chunk for chunk in CHUNKS if left <= chunk <= max(2 * left, CHUNKS[0])), None)
    return max(chunk for chunk in CHUNKS if chunk <= left) if holding is None else holding


def _cache_dtype(decoder: Decoder) -> str:
    """Returns float16 on devices that compute with it, GPUs, else the dtype of activations."""
    handle = decoder.norm.weight.engine.handle
    if handle.device_type == "gpu" and manager.profile(handle).has_fp16:
        return "float16"
    return decoder.dtype
