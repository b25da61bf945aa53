"""SentencePiece's BPE, by scores or by a list of pairs; spaces are the character U+2581."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netcl.llm.tokenizer.merging import merged

__all__ = ["SPACE", "SentencePiece"]

SPACE = "\u2581"


def byte_tokens(tokens: Sequence[str]) -> dict[int, int]:
    """Returns the byte of each id that is written as ``<0x41>``."""
    found = {}
    for at, token in enumerate(tokens):
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            try:
                found[at] = int(token[3:5], 16)
            except ValueError:
                continue
    return found


class SentencePiece:
    """A vocabulary of pieces, into which the characters of a text are merged: the highest of ``scores`` first, or in
    the order of ``merges``, pairs "left right".

    ``prefix`` says where a space is put before text: "prepend" (after each added token too), "always" (unless the text
    has one), "first" (so at the beginning alone) or "never". A character that is no piece becomes the tokens of its
    bytes with ``byte_fallback``, else the id ``unknown``.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        pieces: Mapping[str, int],
        *,
        scores: Sequence[float] = (),
        merges: Sequence[str] | None = None,
        prefix: str = "prepend",
        unknown: int | None = None,
        byte_fallback: bool = True,
    ) -> None:
        self._tokens, self._pieces = tokens, pieces
        self.scores: Sequence[float] = scores
        self._order = None if merges is None else {pair: at for at, pair in enumerate(merges)}
        self.bytes: dict[int, int] = byte_tokens(tokens)
        self._of_byte = {byte: at for at, byte in self.bytes.items()}
        self._fallback = byte_fallback and len(self._of_byte) == 256
        self.prefix: str = prefix
        self.unknown: int | None = unknown

    def encode(self, text: str, first: bool) -> list[int]:
        """Returns the ids of a text without added tokens; ``first`` is True at the beginning of the whole text."""
        due = self.prefix == "always" or (self.prefix == "first" and first)
        if self.prefix == "prepend" or (due and not text.startswith(" ")):
            text = " " + text
        ids: list[int] = []
        for piece in merged(list(text.replace(" ", SPACE)), self._rank):
            at = self._pieces.get(piece)
            if at is not None:
                ids.append(at)
            elif self._fallback:
                ids += [self._of_byte[byte] for byte in piece.encode("utf-8", "replace")]
            elif self.unknown is not None and not (ids and ids[-1] == self.unknown):
                ids.append(self.unknown)
        return ids

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes that an id stands for."""
        byte = self.bytes.get(token)
        return self._tokens[token].replace(SPACE, " ").encode("utf-8", "replace") if byte is None else bytes([byte])

    def _rank(self, left: str, right: str) -> float | None:
        at = self._pieces.get(left + right)
        if at is None or self._order is None:
            return None if at is None else -self.scores[at]
        return self._order.get(f"{left} {right}")
