"""Sampling, the rule by which the next token is chosen, and Piece, the result of a generation for one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Choice", "Piece", "Sampling", "choose"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sampling:
    """The rule by which tokens are chosen, and where a generation ends.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token.
        top_k: draws from so many of the most likely tokens; 0 from all.
        top_p: draws from the fewest most likely tokens that have this probability together.
        min_p: leaves out tokens less likely than this part of the most likely one's probability.
        repetition_penalty: divides positive logits of tokens that are there already, and multiplies negative ones.
        seed: makes a generation repeatable; None draws from the default generator.
        max_tokens: the number of tokens at most.
        stop: texts that end the generation; they are not part of it.
        logprobs: gives the log probabilities of so many of the most likely tokens with each.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    logprobs: int = 0

    def __post_init__(self) -> None:
        """Refuses values outside of their ranges."""
        for name, least, most in (
            ("temperature", 0, 100),
            ("top_k", 0, 1 << 20),
            ("top_p", 0, 1),
            ("min_p", 0, 1),
            ("repetition_penalty", 0.01, 100),
            ("max_tokens", 0, 1 << 31),
            ("logprobs", 0, 100),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"Sampling: expected {name} from {least} to {most}, got {value!r}")
        if not isinstance(self.stop, tuple) or not all(isinstance(text, str) and text for text in self.stop):
            raise ValueError(f"Sampling: expected stop as a tuple of texts that are not empty, got {self.stop!r}")


@dataclass(frozen=True)
class Piece:
    """The result of a generation for one token.

    Attributes:
        text: the characters that are complete with this token; empty if its bytes are a part of one.
        id: the token.
        logprob: its log probability, or None if they were not asked for.
        top_logprobs: the most likely tokens with their log probabilities.
        finish_reason: "stop" or "length" for the last piece, else None.
    """

    text: str
    id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    finish_reason: str | None = None


@dataclass(frozen=True)
class Choice:
    """A chosen token, with log probabilities if they were asked for."""

    id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()


def choose(logits: Array, rule: Sampling, generator: np.random.Generator, past: Sequence[int] = ()) -> Choice:
    """Returns a token by the rule: the penalty of ``past`` tokens, then top_k, top_p, min_p, and temperature last, the
    order of llama.cpp.

    Log probabilities are those of all tokens, before the rule.
    """
    logits = np.asarray(logits, np.float32)
    scores = logits
    if rule.repetition_penalty != 1.0 and len(past):
        scores, seen = logits.copy(), np.unique(np.asarray(past, np.int64))
        at = scores[seen]
        scores[seen] = np.where(at > 0, at / rule.repetition_penalty, at * rule.repetition_penalty)
    if rule.temperature == 0:
        token = int(scores.argmax())
    else:
        ids, kept = _candidates(scores, rule)
        weights = np.exp((kept - kept[0]) / rule.temperature)
        sums = weights.cumsum()
        place = int(np.searchsorted(sums, generator.random() * sums[-1], side="right"))
        token = int(ids[min(place, len(ids) - 1)])
    if not rule.logprobs:
        return Choice(token)
    top = float(logits.max())
    total = top + float(np.log(np.exp(logits.astype(np.float64) - top).sum()))
    count = min(rule.logprobs, logits.size)
    best = np.argpartition(-logits, count - 1)[:count]
    best = best[np.argsort(-logits[best], kind="stable")]
    tops = tuple((int(token), float(logits[token]) - total) for token in best)
    return Choice(token, float(logits[token]) - total, tops)


def _candidates(scores: Array, rule: Sampling) -> tuple[Array, Array]:
    """Returns the tokens that may be drawn and their scores, the most likely first."""
    if 0 < rule.top_k < scores.size:
        ids = np.argpartition(-scores, rule.top_k - 1)[: rule.top_k]
        ids = ids[np.argsort(-scores[ids], kind="stable")]
    else:
        ids = np.argsort(-scores, kind="stable")
    kept = scores[ids].astype(np.float64)
    shares = np.exp(kept - kept[0])
    if rule.top_p < 1:
        before = shares.cumsum() / shares.sum() - shares / shares.sum()
        count = max(1, int((before < rule.top_p).sum()))
        ids, kept, shares = ids[:count], kept[:count], shares[:count]
    if rule.min_p > 0:
        count = max(1, int((shares >= rule.min_p).sum()))
        ids, kept = ids[:count], kept[:count]
    return ids, kept
