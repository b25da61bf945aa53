"""A tokenizer from the ``tokenizer.json`` of a Hugging Face folder, with the files next to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import regex

from netcl.llm.huggingface import read_json
from netcl.llm.tokenizer.added_tokens import AddedToken, AddedTokens
from netcl.llm.tokenizer.byte_pairs import BytePairs
from netcl.llm.tokenizer.patterns import PATTERNS, Splitter
from netcl.llm.tokenizer.sentence_piece import SPACE, SentencePiece
from netcl.llm.tokenizer.tokenizer import Tokenizer

__all__ = ["from_json"]


def from_json(path: str | Path) -> Tokenizer:
    """Returns the tokenizer of a tokenizer.json with a BPE model; a folder stands for the file in it.

    BOS, EOS and the chat template are read from tokenizer_config.json, generation_config.json and chat_template.jinja
    next to it.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "tokenizer.json"
    content, config, generation = (
        _mapping(read_json(place) if place == file or place.is_file() else {}, place.name)
        for place in (file, file.with_name("tokenizer_config.json"), file.with_name("generation_config.json"))
    )
    model = _mapping(content.get("model"), "model")
    if model.get("type", "BPE" if "merges" in model else None) != "BPE":
        raise ValueError(f"expected a tokenizer.json with a BPE model, got {model.get('type')!r:.80}")
    rows = [row for row in content.get("added_tokens") or [] if isinstance(row, Mapping)]
    tokens = _tokens(model, rows)
    texts = {token: at for at, token in enumerate(tokens)}
    segmenter, strip_space = _segmenter(content, model, tokens, {int(row["id"]) for row in rows})
    flags = ("special", "lstrip", "rstrip")
    added = AddedTokens(AddedToken(row["content"], row["id"], *(bool(row.get(flag)) for flag in flags)) for row in rows)
    prefix, suffix = _around(content.get("post_processor"), texts)
    ends = generation.get("eos_token_id", [])
    return Tokenizer(
        tokens,
        segmenter,
        added,
        bos=texts.get(_text(config.get("bos_token"))),
        eos=texts.get(_text(config.get("eos_token"))),
        ends=[at for at in (ends if isinstance(ends, list) else [ends]) if isinstance(at, int)],
        prefix=prefix,
        suffix=suffix,
        template=_template(file, config),
        strip_space=strip_space,
        normal_form=_normal_form(content.get("normalizer")),
    )


def _tokens(model: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> list[str]:
    vocabulary = _mapping(model.get("vocab"), "vocab")
    by_id = {at: token for token, at in vocabulary.items() if isinstance(at, int)}
    for row in rows:
        if not isinstance(row.get("id"), int) or not isinstance(row.get("content"), str) or row.get("single_word"):
            raise ValueError(f"expected added_tokens with an id and a content, found within words too; got {row!r:.80}")
        by_id[row["id"]] = row["content"]
    last = max(by_id, default=-1)
    if min(by_id, default=-1) < 0 or last > 4 * len(by_id) + 1000:
        raise ValueError(f"expected ids of tokens from 0 on, got {len(by_id)} tokens with ids up to {last}")
    return [by_id.get(at, "") for at in range(last + 1)]


def _segmenter(
    content: Mapping[str, Any], model: Mapping[str, Any], tokens: list[str], added: set[int]
) -> tuple[BytePairs | SentencePiece, bool]:
    """Returns the cutter of the text between added tokens, and True if decoding strips a space."""
    steps = _steps(content.get("pre_tokenizer"), "pretokenizers")
    level = next((step for step in steps if step.get("type") == "ByteLevel"), None)
    if level is not None:
        splitter = Splitter(pattern for step in steps for pattern in _split_patterns(step))
        whole, space = bool(model.get("ignore_merges")), bool(level.get("add_prefix_space"))
        return BytePairs(tokens, _merges(model), splitter, whole_words=whole, add_prefix_space=space), False
    prefix = "never"
    for step in [*_steps(content.get("normalizer"), "normalizers"), *steps]:
        if step.get("type") == "Prepend" and step.get("prepend") == SPACE:
            prefix = "prepend"
        elif step.get("type") == "Metaspace":
            prefix = str(step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never"))
        elif step in steps and (step.get("type"), step.get("pattern")) != ("Split", {"String": " "}):
            raise ValueError(f"expected pre_tokenizer ByteLevel, Metaspace or none, got {step!r:.80}")
    unknown = model.get("unk_token")
    segmenter = SentencePiece(
        tokens,
        {token: at for at, token in enumerate(tokens) if token and at not in added},
        merges=_merges(model),
        prefix=prefix,
        unknown=tokens.index(unknown) if unknown in tokens else None,
        byte_fallback=bool(model.get("byte_fallback")),
    )
    strips = any(step.get("type") in ("Strip", "Metaspace") for step in _steps(content.get("decoder"), "decoders"))
    return segmenter, strips and prefix != "never"


def _split_patterns(step: Mapping[str, Any]) -> list[str]:
    kind = step.get("type")
    if kind == "ByteLevel":
        return [*PATTERNS["gpt-2"]] if step.get("use_regex", True) else []
    if kind == "Digits":
        return [r"\p{N}" if step.get("individual_digits") else r"\p{N}+"]
    if kind == "Split" and step.get("behavior") == "Isolated" and not step.get("invert"):
        pattern = _mapping(step.get("pattern"), "pattern")
        return [str(pattern["Regex"]) if "Regex" in pattern else regex.escape(str(pattern.get("String")))]
    raise ValueError(f"expected pre_tokenizer ByteLevel, Digits or Split (Isolated), got {step!r:.80}")


def _merges(model: Mapping[str, Any]) -> list[str]:
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise ValueError(f"expected a list of merges in tokenizer.json, got {type(merges).__name__}")
    return [pair if isinstance(pair, str) else " ".join(map(str, pair)) for pair in merges]


def _normal_form(normalizer: Any) -> str:
    """Returns the Unicode form of texts, "" for none; what is done to spaces is the segmenter's."""
    form = ""
    for step in _steps(normalizer, "normalizers"):
        kind = step.get("type")
        replaces_spaces = kind == "Replace" and (step.get("pattern"), step.get("content")) == ({"String": " "}, SPACE)
        if kind in ("NFC", "NFD", "NFKC", "NFKD"):
            form = str(kind)
        elif kind != "Prepend" and not replaces_spaces:
            raise ValueError(f"expected normalizer NFC, NFKC, Prepend, or Replace of spaces; got {step!r:.80}")
    return form


def _around(processor: Any, texts: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """Returns the ids that the file puts before and after a text."""
    for step in _steps(processor, "processors"):
        if step.get("type") == "TemplateProcessing":
            names = [
                _mapping(item, "single").get("SpecialToken", {}).get("id") for item in step.get("single", [])
            ]  # None is the text
            if None not in names:
                break
            at = names.index(None)
            ids = [texts.get(name, -1) for name in names if name is not None]
            if -1 in ids:
                raise ValueError(f"expected tokens of the vocabulary in post_processor, got {names!r:.80}")
            return ids[:at], ids[at:]
    return [], []


def _steps(part: Any, inner: str) -> list[Mapping[str, Any]]:
    """Returns the steps of a part of tokenizer.json: those of a Sequence, or the one."""
    if part is None:
        return []
    mapping = _mapping(part, inner)
    if mapping.get("type") != "Sequence":
        return [mapping]
    return [step for item in mapping.get(inner) or [] for step in _steps(item, inner)]


def _template(file: Path, config: Mapping[str, Any]) -> str:
    separate = file.with_name("chat_template.jinja")
    if separate.is_file():
        return separate.read_text(encoding="utf-8")
    template = config.get("chat_template") or ""
    if isinstance(template, list):
        named = {row.get("name"): row.get("template") for row in template if isinstance(row, Mapping)}
        template = named.get("default") or ""
    return template if isinstance(template, str) else ""


def _text(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, Mapping) else str(token or "")


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected {name} to be an object, got {type(value).__name__}")
    return value
