"""Sampling, the rule by which the next token is chosen, Sampler, which draws on the device, and Piece, its result.

The order of the rule is llama.cpp's: the penalty, top_k, top_p, min_p, temperature last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor

__all__ = ["Draw", "Piece", "Sampler", "Sampling"]

# Numbers of the most likely tokens among which a step draws: the smallest that holds every row's top_k, else all.
_COUNTS = (64, 1024)
_MOST_LOGPROBS = 100
# Of a step: the number of tokens, with a repetition penalty, with log probabilities.
_Kind = tuple[int, bool, bool]


@dataclass(frozen=True)
class Sampling:
    """The rule by which tokens are chosen, and where a generation ends.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token.
        top_k: draws from so many of the most likely tokens; 0 from all.
        top_p: draws from the fewest most likely tokens that have this probability together.
        min_p: leaves out tokens less likely than this part of the most likely one's probability.
        repetition_penalty: divides positive logits of tokens that are there already, and multiplies negative ones.
        seed: makes a generation repeatable; None draws other numbers each time.
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
            ("logprobs", 0, _MOST_LOGPROBS),
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
class Draw:
    """The draw that is asked of a step: its kind, and the inputs of ``drawn`` behind the logits."""

    kind: _Kind
    inputs: tuple[Tensor, ...]

    def drawn(self, places: Tensor, logits: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Returns the tokens (rows, 1); with log probabilities also the token's, and the largest with their tokens.

        ``places`` are the integers from 0 on, at least as many as tokens are drawn from.
        """
        count, _, with_logprobs = self.kind
        temperature, top_k, top_p, min_p, penalty, chance = ag.unbind(inputs[0])
        scores = logits
        if len(inputs) > 1:
            punished = ag.where(ag.gt(logits, 0.0), ag.div(logits, penalty), ag.mul(logits, penalty))
            scores = ag.where(inputs[1], punished, logits)
        if count == 1:
            ids = ag.argmax(scores, axis=-1, keepdims=True)
        else:
            values, ids = ag.topk(scores, count)
            below, places = ag.sub(values, ag.narrow(values, 1, 0, 1)), ag.narrow(places, 0, 0, count)
            kept = ag.lt(places, top_k)
            shares = ag.where(kept, ag.exp(below), 0.0)
            before = ag.sub(ag.cumsum(shares, axis=1), shares)
            kept = ag.logical_and(kept, ag.lt(before, ag.mul(top_p, ag.sum(shares, axis=1, keepdims=True))))
            kept = ag.logical_and(kept, ag.ge(shares, min_p))
            kept = ag.logical_or(kept, ag.eq(places, 0))
            sums = ag.cumsum(ag.where(kept, ag.exp(ag.div(below, temperature)), 0.0), axis=1)
            passed = ag.le(sums, ag.mul(chance, ag.narrow(sums, 1, count - 1, 1)))
            place, last = (ag.sum(ag.cast(part, dtype="int32"), axis=1, keepdims=True) for part in (passed, kept))
            ids = ag.gather(ids, 1, ag.minimum(place, ag.sub(last, 1)))
        if not with_logprobs:
            return (ids,)
        likely = ag.log_softmax(logits, axis=-1)
        best, tokens = ag.topk(likely, min(_MOST_LOGPROBS, likely.shape[1]))
        return ids, ag.gather(likely, 1, ids), best, tokens


class Sampler:
    """Draws the next token of each row of logits on the device.

    The host gives a random number for each row, and reads the tokens; log probabilities only where they are asked for.
    """

    def __init__(self, rows: int, vocab: int, queue: Any) -> None:
        self._queue = queue
        self._rules: list[Sampling] = [Sampling(temperature=0)] * rows
        self._generators = [np.random.Generator(np.random.Philox(0))] * rows
        self._seen = np.zeros((rows, vocab), bool)
        self.places: Tensor = Tensor.arange(vocab, dtype="int32", queue=queue)

    def begin(self, row: int, rule: Sampling, past: Sequence[int]) -> None:
        """Sets the rule of a row, whose repetition penalty counts the tokens of ``past``."""
        self._rules[row] = rule
        self._generators[row] = np.random.Generator(np.random.Philox(rule.seed))
        self._seen[row] = False
        self._seen[row, list(past)] = rule.repetition_penalty != 1.0

    def draw(self, logits: Tensor, rows: Sequence[int] = (0,)) -> list[Piece]:
        """Returns the tokens of ``rows``, pieces without text; the other rows draw no random number."""
        asked = self.asked(rows)
        with ag.no_grad():
            return self.pieces(asked.drawn(self.places, logits, *asked.inputs), rows)

    def asked(self, rows: Sequence[int]) -> Draw:
        """Returns what a step draws for ``rows``, by their rules."""
        rules, vocab = self._rules, self._seen.shape[1]
        most = max(rules[row].top_k or vocab if rules[row].temperature else 1 for row in rows)
        count = most if most == 1 else min(next((size for size in _COUNTS if size >= most), vocab), vocab)
        kind = (count, bool(self._seen[list(rows)].any()), any(rules[row].logprobs for row in rows))
        numbers = np.zeros((6, len(rules), 1), np.float32)
        for row, rule in enumerate(rules):
            # The first of all is the most likely one.
            draws = (rule.temperature, rule.top_k or vocab) if rule.temperature else (1.0, 1)
            chance = self._generators[row].random() if rule.temperature and row in rows else 0.0
            numbers[:, row, 0] = (*draws, rule.top_p, rule.min_p, rule.repetition_penalty, chance)
        arrays = (numbers, self._seen) if kind[1] else (numbers,)
        return Draw(kind, tuple(Tensor.from_host(self._queue, array) for array in arrays))

    def pieces(self, drawn: Sequence[Tensor], rows: Sequence[int]) -> list[Piece]:
        """Reads the tokens that a step has drawn."""
        ids, *likely = (part.numpy() for part in drawn)
        rules, pieces = self._rules, []
        for row in rows:
            token, wanted = int(ids[row, 0]), rules[row].logprobs
            self._seen[row, token] |= rules[row].repetition_penalty != 1.0
            own, values, tokens = (part[row].tolist() for part in likely) if wanted else ([None], [], [])
            pieces.append(Piece("", token, own[0], tuple(zip(tokens[:wanted], values[:wanted]))))
        return pieces
