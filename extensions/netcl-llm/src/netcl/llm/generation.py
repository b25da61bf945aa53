"""Generation of text: Session keeps the cache between calls, Writing makes the pieces, and Ending finds the stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from netcl.llm.decode import Lanes
from netcl.llm.sampling import Piece, Sampler, Sampling

__all__ = ["Ending", "Session", "Writing", "in_common"]


def in_common(read: Sequence[int], ids: Sequence[int]) -> int:
    """Returns how many first tokens of a prompt have been read; its last one is computed in any case."""
    most = min(len(read), len(ids) - 1)
    return next((at for at in range(most) if read[at] != ids[at]), most)


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


class Writing:
    """The text of one generation of at most ``most`` tokens."""

    def __init__(self, model: Any, rule: Sampling, most: int) -> None:
        self._ends, self._most, self._count = model.ends, most, 0
        self._stream, self._ending = model.tokenizer.stream(), Ending(rule.stop)

    def piece(self, chosen: Piece) -> Piece:
        """Returns the piece of the next token with its text, and with a reason if it is the last one."""
        self._count += 1
        is_end, is_last = chosen.id in self._ends, self._count == self._most
        text = "" if is_end else self._stream.push(chosen.id)
        text = self._ending.push(text + (self._stream.finish() if is_end or is_last else ""), is_end or is_last)
        reason = "stop" if is_end or self._ending.is_stopped else "length" if is_last else None
        return replace(chosen, text=text, finish_reason=reason)


class Session:
    """A conversation with a model: tokens that a new prompt has in common with the last one are not computed again."""

    def __init__(self, model: Any) -> None:
        self.model: Any = model
        self.lanes: Lanes = Lanes(model.decoder, 1)
        self.sampler: Sampler = Sampler(1, model.config.vocab_size, model.decoder.queue)
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
        lanes = self.lanes
        writing = Writing(self.model, rule, min(rule.max_tokens, lanes.most - len(ids) + 1))
        self.reused = in_common(lanes.ids[0], ids)
        lanes.keep(0, self.reused)
        if rule.max_tokens == 0:
            return
        left, sampler = ids[self.reused :], self.sampler
        sampler.begin(0, rule, ids)
        while True:
            drawn = lanes.draw([left], sampler) if len(left) == 1 else sampler.draw(lanes.prefill([left]))
            piece = writing.piece(drawn[0])
            yield piece
            if piece.finish_reason is not None:
                return
            left = [piece.id]
