"""Tokenizers: ids and texts equal those of the libraries tokenizers and sentencepiece, stored in references/."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from netcl.io import CheckpointError
from netcl.llm.tokenizer import Tokenizer, from_gguf, from_json
from netcl.llm.tokenizer.patterns import PATTERNS, Splitter, patterns_of

REFERENCE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "references/tokenizers.json").read_text(encoding="utf-8")
)


def byte_level(pre: str, **keys: Any) -> Tokenizer:
    """Returns the tokenizer of the byte-level vocabulary of the reference."""
    rows = REFERENCE["byte_level"]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": rows["tokens"],
        "tokenizer.ggml.merges": rows["merges"],
        "tokenizer.ggml.token_type": [3] + [1] * (len(rows["tokens"]) - 1),
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
    }
    return from_gguf({**metadata, **{f"tokenizer.ggml.{name}": value for name, value in keys.items()}})


def sentence(**keys: Any) -> Tokenizer:
    """Returns the tokenizer of the SentencePiece model of the reference."""
    rows = REFERENCE["bpe"]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": rows["tokens"],
        "tokenizer.ggml.scores": rows["scores"],
        "tokenizer.ggml.token_type": rows["token_type"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
    }
    return from_gguf({**metadata, **{f"tokenizer.ggml.{name}": value for name, value in keys.items()}})


@pytest.mark.parametrize("pre", REFERENCE["byte_level"]["ids"])
def test_byte_level_ids_equal_those_of_tokenizers(pre: str) -> None:
    tokenizer = byte_level(pre)
    assert [tokenizer.encode(text, special=False) for text in REFERENCE["texts"]] == REFERENCE["byte_level"]["ids"][pre]


def test_ids_and_texts_equal_those_of_sentencepiece() -> None:
    tokenizer, ids = sentence(), REFERENCE["bpe"]["ids"]
    assert [tokenizer.encode(text, special=False) if text else [] for text in REFERENCE["texts"]] == ids
    assert [tokenizer.decode(row) for row in ids] == REFERENCE["bpe"]["texts"]


@pytest.mark.parametrize("name", REFERENCE["files"])
def test_a_tokenizer_json_gives_the_ids_and_texts_of_tokenizers(name: str, tmp_path: Path) -> None:
    rows = REFERENCE["files"][name]
    (tmp_path / "tokenizer.json").write_text(json.dumps(rows["file"]), encoding="utf-8")
    tokenizer = from_json(tmp_path)
    assert [tokenizer.encode(text) for text in rows["cases"]] == rows["ids"]
    assert [tokenizer.decode(row) for row in rows["ids"]] == rows["texts"]


@pytest.mark.parametrize("pre", sorted(PATTERNS))
def test_words_joined_are_the_text(pre: str) -> None:
    split = Splitter(patterns_of(pre))
    assert ["".join(split(text)) for text in REFERENCE["texts"]] == REFERENCE["texts"]


@pytest.mark.parametrize("tokenizer", [byte_level("smollm"), sentence()], ids=["bpe", "spm"])
def test_a_stream_gives_whole_characters_that_joined_are_the_decoded_text(tokenizer: Tokenizer) -> None:
    for text in REFERENCE["texts"]:
        ids = tokenizer.encode(text, special=False)
        stream = tokenizer.stream()
        pieces = [stream.push(token) for token in ids]
        assert not any("\ufffd" in piece for piece in pieces)
        assert "".join(pieces) + stream.finish() == tokenizer.decode(ids) == text


def test_an_incomplete_character_comes_at_the_end_as_its_replacement() -> None:
    tokenizer = sentence()
    first_byte = tokenizer.tokens.index("<0xF0>")
    stream = tokenizer.stream()
    assert (stream.push(first_byte), stream.finish()) == ("", "\ufffd")


def test_control_tokens_are_ids_only_if_asked_for() -> None:
    tokenizer = byte_level("smollm")
    assert tokenizer.encode("a<|end|>")[-1] == 0
    plain = tokenizer.encode("a<|end|>", special=False)
    assert 0 not in plain
    assert tokenizer.decode(plain) == "a<|end|>"
    assert tokenizer.decode([*plain[:1], 0]) == "a"
    assert tokenizer.decode([*plain[:1], 0], special=True) == "a<|end|>"
    assert tokenizer.end_ids == {0}


def test_the_first_id_is_added_once() -> None:
    tokenizer = sentence(add_bos_token=True)
    ids = tokenizer.encode("the fox")
    assert ids[0] == 1
    assert tokenizer.encode("<s>the fox").count(1) == 1
    assert tokenizer.encode("the fox", special=False) == ids[1:]


def test_a_long_word_is_merged_in_time_that_grows_little_faster_than_its_length() -> None:
    """SentencePiece takes a whole text as one word: a scan of all pairs at each merge would take minutes here."""
    tokenizer, text = sentence(), "the quick brown fox " * 10_000
    start = time.process_time()
    ids = tokenizer.encode(text, special=False)
    assert time.process_time() - start < 20
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": "wordpiece"}, "expected tokenizer.ggml.model to be gpt2 or llama, got 'wordpiece'"),
        ({"pre": "nonesuch"}, "expected tokenizer.ggml.pre to be one of"),
        ({"tokens": [1, 2]}, "expected tokenizer.ggml.tokens to be an array of str"),
        ({"tokens": None}, "expected tokenizer.ggml.tokens to be an array of str, got NoneType"),
        ({"merges": "a b"}, "expected tokenizer.ggml.merges to be an array of str, got str"),
        ({"token_type": [1]}, "entries in tokenizer.ggml.token_type, one a token; got 1"),
        ({"bos_token_id": 10**9}, "expected tokenizer.ggml.bos_token_id from 0 to"),
        ({"eos_token_id": "x"}, "expected tokenizer.ggml.eos_token_id from 0 to"),
    ],
)
def test_wrong_keys_are_named(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        byte_level("smollm" if "pre" not in keys else keys.pop("pre"), **keys)


def test_a_sentencepiece_vocabulary_without_scores_is_named() -> None:
    with pytest.raises(ValueError, match=r"expected tokenizer\.ggml\.scores, a number for each token; got none"):
        sentence(scores=None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "expected tokenizer.json to be an object, got list"),
        ("{", "tokenizer.json: is damaged or no JSON file"),
        ("[" * 100_000, "tokenizer.json: is damaged or no JSON file"),
        ('{"model": 3}', "expected model to be an object, got int"),
        ('{"model": {"type": "WordPiece"}}', "expected a tokenizer.json with a BPE model, got 'WordPiece'"),
        ('{"model": {"type": "BPE", "vocab": []}}', "expected vocab to be an object, got list"),
        ('{"model": {"type": "BPE", "vocab": {"a": 999999999}, "merges": []}}', "expected ids of tokens from 0 on"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}}}', "expected a list of merges"),
    ],
)
def test_wrong_files_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises((ValueError, CheckpointError), match=message):
        from_json(tmp_path)


def test_ids_and_texts_of_wrong_kinds_are_refused() -> None:
    tokenizer = byte_level("smollm")
    with pytest.raises(TypeError, match="expected a text to encode, got bytes"):
        tokenizer.encode(b"a")  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="expected an id from 0 to"):
        tokenizer.decode([10**6])
