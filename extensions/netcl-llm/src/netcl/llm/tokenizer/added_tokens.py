"""Added tokens: texts such as ``<|im_start|>`` that are one id, and are cut out before the rest is split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import regex

__all__ = ["AddedToken", "AddedTokens"]


@dataclass(frozen=True)
class AddedToken:
    """A text with its id; ``control`` tokens are no text for a reader, and only `special` encoding finds them."""

    text: str
    id: int
    control: bool = True
    lstrip: bool = False
    rstrip: bool = False


class AddedTokens:
    """Finds added tokens in text: at each place the longest."""

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self.by_text: dict[str, AddedToken] = {token.text: token for token in tokens if token.text}
        self.control_ids: frozenset[int] = frozenset(token.id for token in self.by_text.values() if token.control)
        self._all = _pattern(self.by_text)
        self._plain = _pattern(text for text, token in self.by_text.items() if not token.control)

    def parts(self, text: str, special: bool) -> Iterator[str | int]:
        """Yields the texts between added tokens, and the tokens' ids; control tokens are text if not ``special``."""
        pattern = self._all if special else self._plain
        end = 0
        for match in pattern.finditer(text) if pattern is not None else ():
            token = self.by_text[match[0]]
            start, stop = match.span()
            if start < end:
                continue
            between = text[end:start]
            if token.lstrip:
                between = between.rstrip()
            if between:
                yield between
            yield token.id
            while token.rstrip and stop < len(text) and text[stop].isspace():
                stop += 1
            end = stop
        if end < len(text):
            yield text[end:]


def _pattern(texts: Iterable[str]) -> Any:
    longest_first = sorted(texts, key=len, reverse=True)
    return regex.compile(r"\L<texts>", texts=longest_first) if longest_first else None
