"""Generation of text: Session keeps the cache between calls, and Ending finds where a text stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.llm.decode import Lanes
from netcl.llm.sampling import Choice, Piece, Sampling, choose

__all__ = ["Ending", "Session", "choice_of", "generator_of"]


def generator_of(rule: Sampling) -> np.random.Generator:
    """Returns the random numbers of a generation; without a seed, a new one each time."""
    return np.random.Generator(np.random.Philox(rule.seed))


def choice_of(
    logits: Tensor, row: int, rule: Sampling, generator: np.random.Generator, past: Sequence[int] = ()
) -> Choice:
    """Returns the token of a row of logits on the device; the most likely one is found there."""
    if rule.temperature == 0 and rule.repetition_penalty == 1.0 and not rule.logprobs:
        return Choice(int(ag.argmax(logits, axis=-1).numpy()[row]))
    return choose(logits.numpy()[row], rule, generator, past)


class Ending:
    """The text of a generation up to the first of its stops: text that may become a stop is kept back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops: tuple[str, ...] = tuple(stops)
        self.is_stopped: bool = False
        self._kept = ""

    def push(self, text: str, is_last: bool = False) -> str:
        """Returns the text that is settled by ``text`` more."""
        self._kept += text
        places = [place for place in map(self._kept.find, self.stops) if place >= 0]
        if places:
            self.is_stopped = True
            settled, self._kept = self._kept[: min(places)], ""
            return settled
        held = 0 if is_last else max(map(self._held, self.stops), default=0)
        settled, self._kept = self._kept[: len(self._kept) - held], self._kept[len(self._kept) - held :]
        return settled

    def _held(self, stop: str) -> int:
        """Returns how many last characters begin this stop."""
        lengths = range(min(len(stop) - 1, len(self._kept)), 0, -1)
        return next((length for length in lengths if self._kept.endswith(stop[:length])), 0)


class Session:
    """A conversation with a model: tokens that a new prompt has in common with the last one are not computed again."""

    def __init__(self, model: Any) -> None:
        self.model: Any = model
        self.lanes: Lanes = Lanes(model.decoder, 1)
        self.reused: int = 0

    def generate(
        self, prompt: str | Sequence[int], sampling: Sampling | None = None, **changes: Any
    ) -> Iterator[Piece]:
        """Yields a piece for each token behind ``prompt``; ``changes`` are fields of Sampling.

        Raises ValueError, before the first piece, for an empty prompt or one that is longer than the context.
        """
        rule = Sampling(**changes) if sampling is None else sampling
        ids = self.model.ids_of(prompt)
        return self._generated(ids, rule)

    def _generated(self, ids: list[int], rule: Sampling) -> Iterator[Piece]:
        lanes, stream, ending = self.lanes, self.model.tokenizer.stream(), Ending(rule.stop)
        generator = generator_of(rule)
        old = lanes.ids[0]
        common = next((at for at, (a, b) in enumerate(zip(old, ids)) if a != b), min(len(old), len(ids)))
        # The last token is computed in any case: its logits are not kept.
        self.reused = min(common, len(ids) - 1)
        lanes.keep(0, self.reused)
        if rule.max_tokens == 0:
            return
        logits = lanes.prefill([ids[self.reused :]])
        most = min(rule.max_tokens, lanes.most - len(ids) + 1)
        for count in range(1, most + 1):
            choice = choice_of(logits, 0, rule, generator, lanes.ids[0])
            is_end = choice.id in self.model.ends
            text = stream.finish() if is_end else stream.push(choice.id)
            if count == most and not is_end:
                text += stream.finish()
            text = ending.push(text, is_end or count == most)
            reason = "stop" if is_end or ending.is_stopped else "length" if count == most else None
            yield Piece(text, choice.id, choice.logprob, choice.top_logprobs, reason)
            if reason is not None:
                return
            logits = lanes.append([[choice.id]])
