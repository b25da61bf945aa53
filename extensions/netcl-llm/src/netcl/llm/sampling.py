"""Sampling, the rule by which the next token is chosen, and Piece, the result of a generation for one token."""

from __future__ import annotations

from dataclasses import dataclass


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
        if isinstance(self.stop, str) or not all(isinstance(text, str) and text for text in self.stop):
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
