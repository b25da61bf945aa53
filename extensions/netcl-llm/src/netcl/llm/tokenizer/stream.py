"""The text of ids that arrive one at a time."""

from __future__ import annotations

import codecs
from collections.abc import Callable

__all__ = ["TextStream"]


class TextStream:
    """Turns ids into text as they arrive: whole characters only, the rest is kept for the next id."""

    def __init__(self, bytes_of: Callable[[int], bytes], strip_space: bool) -> None:
        """Makes a stream; ``strip_space`` leaves out one space at the beginning of the text."""
        self._bytes_of, self._strip = bytes_of, strip_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Returns the characters that are complete with the id, often ""."""
        return self._begun(self._decoder.decode(self._bytes_of(token)))

    def finish(self) -> str:
        """Returns what is left at the end: the replacement character for an incomplete one, else ""."""
        return self._begun(self._decoder.decode(b"", True))

    def _begun(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text
