"""Regular expressions that split text into words before byte-level BPE, by the names of ``tokenizer.ggml.pre``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import regex

__all__ = ["PATTERNS", "Splitter", "patterns_of"]

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_MARKS_AND_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_MARKS_AND_SPACES}"
_QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_MARKS_AND_SPACES}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SLASHED = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|{_SLASHED}"
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"{_CONTRACTIONS}?|\p{{N}}{{1,3}}|{_SLASHED}"
)
_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")

# Names in files: patterns, one applied after the other to the pieces of the one before.
PATTERNS: dict[str, tuple[str, ...]] = {
    "default": _DEFAULT,
    **dict.fromkeys(("gpt-2", "phi-2", "jina-es", "jina-de", "mpt", "olmo", "gigachat", "roberta-bpe"), (_GPT2,)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe", "falcon3", "pixtral", "lfm2"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez"), (_QWEN2,)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), (r"\p{N}", _GPT2)),
    "tekken": (_TEKKEN,),
    **dict.fromkeys(("gpt-4o", "llama4"), (_GPT4O,)),
}


def patterns_of(pre: str) -> tuple[str, ...]:
    """Returns the patterns of a name of ``tokenizer.ggml.pre``."""
    if pre not in PATTERNS:
        raise ValueError(f"expected tokenizer.ggml.pre to be one of {', '.join(sorted(PATTERNS))}; got {pre!r:.80}")
    return PATTERNS[pre]


class Splitter:
    """Cuts text into words by patterns; what no pattern takes is a word too."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Compiles the patterns; a pattern that is no regular expression is a ValueError."""
        self.sources: tuple[str, ...] = tuple(patterns)
        try:
            self._patterns: list[Any] = [regex.compile(pattern, regex.V0) for pattern in self.sources]
        except regex.error as error:
            raise ValueError(f"expected a regular expression in the tokenizer's file, got one with: {error}") from None

    def __call__(self, text: str) -> list[str]:
        """Returns the words of ``text`` in their order; joined they are ``text``."""
        words = [text] if text else []
        for pattern in self._patterns:
            words = [word for piece in words for word in _isolated(pattern, piece)]
        return words


def _isolated(pattern: Any, text: str) -> Iterable[str]:
    end = 0
    for match in pattern.finditer(text):
        start, stop = match.span()
        if start == stop:
            continue
        if end < start:
            yield text[end:start]
        yield text[start:stop]
        end = stop
    if end < len(text):
        yield text[end:]
