"""SentencePiece's models: BPE by scores or by a list of pairs, and unigram; spaces are the character U+2581."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from netcl.llm.tokenizer.merging import merged

__all__ = ["SPACE", "PieceMerger", "SentencePiece", "UnigramPath", "byte_tokens"]

SPACE = "\u2581"
_UNKNOWN_PENALTY = 10.0  # below the lowest score, for a character that is no piece, as SentencePiece has it


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


class PieceMerger:
    """Cuts text by merging characters to pieces: by the score of the merged piece, or by the order of pairs."""

    def __init__(self, pieces: Mapping[str, int], scores: Sequence[float], merges: Sequence[str] | None = None) -> None:
        self._pieces, self._scores = pieces, scores
        self._order = None if merges is None else {pair: at for at, pair in enumerate(merges)}

    def __call__(self, text: str) -> list[str]:
        """Returns the pieces of a text; a character that is no piece is one by itself."""
        return merged(list(text), self._by_score if self._order is None else self._by_order)

    def _by_score(self, left: str, right: str) -> float | None:
        at = self._pieces.get(left + right)
        return None if at is None else -self._scores[at]

    def _by_order(self, left: str, right: str) -> float | None:
        assert self._order is not None
        return self._order.get(f"{left} {right}") if left + right in self._pieces else None


class UnigramPath:
    """Cuts text into the pieces with the largest sum of scores."""

    def __init__(self, pieces: Mapping[str, int], scores: Sequence[float]) -> None:
        self._pieces, self._scores = pieces, scores
        self._longest = max(map(len, pieces), default=1)
        self._unknown = min(scores, default=0.0) - _UNKNOWN_PENALTY

    def __call__(self, text: str) -> list[str]:
        """Returns the pieces of a text; neighbouring characters that are no pieces are one unknown piece."""
        count = len(text)
        best, start = [0.0] + [-math.inf] * count, [0] * (count + 1)
        for at in range(count):
            for end in range(at + 1, min(count, at + self._longest) + 1):
                token = self._pieces.get(text[at:end])
                if token is not None:
                    score = self._scores[token]
                elif end == at + 1:
                    score = self._unknown
                else:
                    continue
                if best[at] + score > best[end]:
                    best[end], start[end] = best[at] + score, at
        pieces: list[str] = []
        end, unknown_before = count, False
        while end > 0:
            piece = text[start[end] : end]
            unknown = piece not in self._pieces
            if unknown and unknown_before:
                pieces[-1] = piece + pieces[-1]
            else:
                pieces.append(piece)
            end, unknown_before = start[end], unknown
        return pieces[::-1]


class SentencePiece:
    """A vocabulary of pieces with their cutter.

    Args:
        tokens: texts of the ids.
        cutter: cuts text into pieces.
        pieces: ids of the pieces that text may become.
        prefix: where a space is put before text: "prepend" (after each added token too), "always" (unless the text
            has one), "first" (so at the beginning alone) or "never".
        unknown: id of a character without piece and bytes; None leaves it out.
        byte_fallback: True to write a character that is no piece as the tokens of its bytes.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        cutter: Callable[[str], list[str]],
        pieces: Mapping[str, int],
        *,
        prefix: str = "prepend",
        unknown: int | None = None,
        byte_fallback: bool = True,
    ) -> None:
        self._tokens, self._cut, self._pieces = tokens, cutter, pieces
        self._bytes = byte_tokens(tokens)
        self._of_byte = {byte: at for at, byte in self._bytes.items()}
        self._fallback = byte_fallback and len(self._of_byte) == 256
        self._prefix, self._unknown = prefix, unknown
        self.strips_prefix = prefix != "never"

    def encode(self, text: str, first: bool) -> list[int]:
        """Returns the ids of a text without added tokens; ``first`` is True at the beginning of the whole text."""
        due = self._prefix == "always" or (self._prefix == "first" and first)
        if self._prefix == "prepend" or (due and not text.startswith(" ")):
            text = " " + text
        ids: list[int] = []
        for piece in self._cut(text.replace(" ", SPACE)):
            at = self._pieces.get(piece)
            if at is not None:
                ids.append(at)
            elif self._fallback:
                ids += [self._of_byte[byte] for byte in piece.encode("utf-8", "replace")]
            elif self._unknown is not None and not (ids and ids[-1] == self._unknown):
                ids.append(self._unknown)
        return ids

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes that an id stands for."""
        byte = self._bytes.get(token)
        return self._tokens[token].replace(SPACE, " ").encode("utf-8", "replace") if byte is None else bytes([byte])
