"""Byte-level BPE: the bytes of each word as printable characters, merged by the order of a list of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from netcl.llm.tokenizer.merging import merged
from netcl.llm.tokenizer.patterns import Splitter

__all__ = ["BytePairs", "printable_bytes"]

_WORDS_KEPT = 50_000  # ids of words kept for the next text
_LONGEST_KEPT = 64  # characters of a word that is kept


def printable_bytes() -> list[str]:
    """Returns a character for each byte: itself for printable Latin-1, else one from U+0100 on, as GPT-2 has it."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


_CHARACTERS = printable_bytes()
_BYTES = {character: byte for byte, character in enumerate(_CHARACTERS)}


class BytePairs:
    """Byte-level BPE over ``tokens``, texts in printable characters; ``merges`` are pairs "left right" in their order.

    ``whole_words`` takes a word that is a token without merging, as Llama 3 does; ``add_prefix_space`` puts a space
    before the first word.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        merges: Sequence[str],
        splitter: Splitter,
        *,
        whole_words: bool = False,
        add_prefix_space: bool = False,
    ) -> None:
        self._ids = {token: at for at, token in enumerate(tokens)}
        self._tokens = tokens
        self.order: dict[str, int] = {pair: at for at, pair in enumerate(merges)}
        self.split: Splitter = splitter
        self.whole_words: bool = whole_words
        self._add_prefix_space = add_prefix_space
        self._kept: dict[str, list[int]] = {}
        # Bytes without a token are left out, as `tokenizers` does.
        self._bytes = [character if character in self._ids else "" for character in _CHARACTERS]

    def encode(self, text: str, first: bool) -> list[int]:
        """Returns the ids of a text without added tokens; ``first`` is True at the beginning of the whole text."""
        if self._add_prefix_space and not text.startswith(" "):
            text = " " + text
        ids: list[int] = []
        for word in self.split(text):
            known = self._kept.get(word)
            if known is None:
                known = self._word(word)
                if len(word) <= _LONGEST_KEPT and len(self._kept) < _WORDS_KEPT:
                    self._kept[word] = known
            ids += known
        return ids

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes that an id stands for; a token that is not of printable characters is its own text."""
        text = self._tokens[token]
        try:
            return bytes([_BYTES[character] for character in text])
        except KeyError:
            return text.encode("utf-8", "replace")

    def _word(self, word: str) -> list[int]:
        data = word.encode("utf-8", "replace")  # a lone surrogate becomes "?"
        if self.whole_words:
            whole = self._ids.get("".join([_CHARACTERS[byte] for byte in data]))
            if whole is not None:
                return [whole]
        symbols = [character for byte in data if (character := self._bytes[byte])]
        ids = self._ids
        return [ids[symbol] for symbol in merged(symbols, self._rank)]

    def _rank(self, left: str, right: str) -> int | None:
        order = self.order.get(f"{left} {right}")
        return order if order is not None and left + right in self._ids else None
