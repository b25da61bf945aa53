"""A tokenizer from the keys of a GGUF file, and its keys for another file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netcl.llm.tokenizer.added_tokens import AddedToken, AddedTokens
from netcl.llm.tokenizer.byte_pairs import BytePairs
from netcl.llm.tokenizer.patterns import PATTERNS, Splitter, patterns_of
from netcl.llm.tokenizer.sentence_piece import SPACE, SentencePiece
from netcl.llm.tokenizer.tokenizer import Tokenizer

__all__ = ["from_gguf", "keys_of"]

_KEYS = "tokenizer.ggml."
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6  # token_type
# Names of `pre` whose vocabularies hold words that no merge makes, and that begin each text with BOS.
_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "tekken")


def from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """Returns the tokenizer of a GGUF file's keys: byte-level BPE (``gpt2``) or SentencePiece (``llama``)."""
    kind = metadata.get(_KEYS + "model")
    if kind not in ("gpt2", "llama"):
        raise ValueError(f"expected {_KEYS}model to be gpt2 or llama, got {kind!r:.80}")
    tokens = _list(metadata, "tokens", str)
    count = len(tokens)
    types = _list(metadata, "token_type", int, count) or [_NORMAL] * count
    sentence = kind == "llama"
    added = AddedTokens(
        AddedToken(token.replace(SPACE, " ") if sentence and kind_of == _USER else token, at, kind_of != _USER)
        for at, (token, kind_of) in enumerate(zip(tokens, types, strict=True))
        if kind_of in (_UNKNOWN, _CONTROL, _USER)
    )
    ids = {name: _id(metadata, name, count) for name in ("bos", "eos", "eot", "eom", "unknown")}
    pre = metadata.get(_KEYS + "pre", "default")
    bos = _flag(metadata, "add_bos_token", sentence or pre in _WHOLE_WORDS)
    eos = _flag(metadata, "add_eos_token", False)
    segmenter: BytePairs | SentencePiece
    space = sentence and _flag(metadata, "add_space_prefix", True)
    if sentence:
        scores = [float(score) for score in _list(metadata, "scores", (int, float), count)]
        if not scores:
            raise ValueError(f"expected {_KEYS}scores, a number for each token; got none")
        pieces = {token: at for at, token in enumerate(tokens) if types[at] in (_NORMAL, _USER, _UNUSED)}
        prefix, unknown = "prepend" if space else "never", ids["unknown"]
        segmenter = SentencePiece(tokens, pieces, scores=scores, prefix=prefix, unknown=unknown)
    else:
        merges = _list(metadata, "merges", str)
        segmenter = BytePairs(tokens, merges, Splitter(patterns_of(pre)), whole_words=pre in _WHOLE_WORDS)
    template = metadata.get("tokenizer.chat_template", "")
    return Tokenizer(
        tokens,
        segmenter,
        added,
        bos=ids["bos"],
        eos=ids["eos"],
        ends=[at for name in ("eot", "eom") if (at := ids[name]) is not None],
        prefix=[ids["bos"]] if bos and ids["bos"] is not None else [],
        suffix=[ids["eos"]] if eos and ids["eos"] is not None else [],
        template=template if isinstance(template, str) else "",
        strip_space=space,
    )


def keys_of(tokenizer: Tokenizer, count: int) -> dict[str, Any]:
    """Returns the keys of a tokenizer, whose model has ``count`` tokens; ValueError for what GGUF cannot say."""
    segmenter, added = tokenizer.segmenter, tokenizer.added
    tokens = [*tokenizer.tokens, *(f"[PAD{at}]" for at in range(len(tokenizer.tokens), count))]
    types = [_NORMAL] * len(tokenizer.tokens) + [_UNUSED] * (count - len(tokenizer.tokens))
    for token in added.by_text.values():
        types[token.id] = _CONTROL if token.control else _USER
    if isinstance(segmenter, BytePairs):
        names = [name for name, patterns in PATTERNS.items() if patterns == segmenter.split.sources]
        names.sort(key=lambda name: (name in _WHOLE_WORDS) is not segmenter.whole_words)
        if not names:
            raise ValueError("expected a tokenizer whose patterns have a name in GGUF, got other patterns")
        keys: dict[str, Any] = {"model": "gpt2", "pre": names[0], "merges": list(segmenter.order)}
    else:
        for at in segmenter.bytes:
            types[at] = _BYTE
        scores = segmenter.scores or [-float(at) for at in range(len(tokenizer.tokens))]
        keys = {"model": "llama", "scores": np.array([*scores, *[0.0] * (count - len(scores))], np.float32)}
        keys["add_space_prefix"] = segmenter.prefix != "never"
        if segmenter.unknown is not None:
            keys["unknown_token_id"] = segmenter.unknown
            types[segmenter.unknown] = _UNKNOWN
    keys |= {"tokens": tokens, "token_type": np.array(types, np.int32), "add_bos_token": bool(tokenizer.prefix)}
    keys["add_eos_token"] = bool(tokenizer.suffix)
    ids = {"bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id}
    keys |= {name: at for name, at in ids.items() if at is not None}
    template = {"tokenizer.chat_template": tokenizer.chat_template} if tokenizer.chat_template else {}
    return {**{_KEYS + name: value for name, value in keys.items()}, **template}


def _list(metadata: Mapping[str, Any], name: str, of: Any, count: int | None = None) -> list[Any]:
    """Returns a list of the file, checked; empty if it is absent and may be."""
    value = metadata.get(_KEYS + name)
    if value is None and name in ("token_type", "scores"):
        return []
    listed = value if value is None or not hasattr(value, "tolist") else value.tolist()
    if not isinstance(listed, (list, tuple)) or not all(isinstance(item, of) for item in listed):
        kinds = of.__name__ if isinstance(of, type) else "number"
        raise ValueError(f"expected {_KEYS}{name} to be an array of {kinds}, got {type(value).__name__}")
    if count is not None and len(listed) != count:
        raise ValueError(f"expected {count} entries in {_KEYS}{name}, one a token; got {len(listed)}")
    return list(listed)


def _id(metadata: Mapping[str, Any], name: str, count: int) -> int | None:
    value = metadata.get(f"{_KEYS}{name}_token_id")
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= int(value) < count:
        raise ValueError(f"expected {_KEYS}{name}_token_id from 0 to {count - 1}, got {value!r:.80}")
    return int(value)


def _flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    return bool(metadata.get(_KEYS + name, default))
