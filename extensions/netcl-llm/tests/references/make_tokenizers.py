"""Writes tokenizers.json: ids by the libraries tokenizers and sentencepiece for tiny vocabularies.

python make_tokenizers.py        (with tokenizers, sentencepiece; netcl-llm's source on the path for the patterns)
"""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from netcl.llm.tokenizer.patterns import PATTERNS

SCRIPTS = [
    "the quick brown fox jumps over the lazy dog don't I'll IT'S we're 12 345 6789 0.5",
    "def main(x): return x == 1 != y  # comment\n\tif x:\r\n    pass\n\n\n",
    "naïve Straße déjà vu Übung façade smørrebrød",
    "Привет мир, как дела? Ελληνικά κείμενο",
    "שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก",
    "こんにちは世界、元気ですか。你好世界 안녕하세요 세계",
    "🙂👍🏽👨‍👩‍👧 ½ ² Ⅷ ٣٤ €100 $5+3^2 <=> | ~ `a` ... !!! ?? --",
    "   leading and trailing   \u00a0\u3000 wide   \t\t tabs \n \n",
    "URL https://example.org/a/b?c=d&e=f#g CamelCaseWord HTTPServer snake_case",
]


def texts() -> list[str]:
    rng = random.Random(54)
    words = [word for line in SCRIPTS for word in line.split(" ")]
    made = ["", " ", "a", "  a", "\n", "é", "🙂", *SCRIPTS]
    for _ in range(60):
        made.append(" ".join(rng.choice(words) for _ in range(rng.randint(1, 9))) + rng.choice(["", " ", "\n", "  "]))
    return made


def byte_level() -> dict:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=520, initial_alphabet=alphabet, special_tokens=["<|end|>"])
    trained.train_from_iterator(SCRIPTS * 3, trainer)
    model = json.loads(trained.to_str())["model"]
    cases = {}
    for pre in ("smollm", "llama-bpe", "qwen2", "gpt-2", "tekken", "gpt-4o", "default"):
        trained.pre_tokenizer = pre_tokenizers.Sequence(
            [
                *(pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PATTERNS[pre]),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        whole = pre in ("llama-bpe", "tekken")
        reference = json.loads(trained.to_str())
        reference["model"]["ignore_merges"] = whole
        other = Tokenizer.from_str(json.dumps(reference))
        cases[pre] = [other.encode(text).ids for text in texts()]
    tokens = [token for token, _ in sorted(model["vocab"].items(), key=lambda row: row[1])]
    merges = [" ".join(pair) for pair in model["merges"]]
    return {"tokens": tokens, "merges": merges, "ids": cases}


def sentence() -> dict:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SCRIPTS * 20),
        model_writer=out,
        model_type="bpe",
        vocab_size=560,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.98,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    count = model.get_piece_size()
    types = [
        2 if model.is_unknown(at) else 3 if model.is_control(at) else 6 if model.is_byte(at) else 1
        for at in range(count)
    ]
    return {
        "tokens": [model.id_to_piece(at) for at in range(count)],
        "scores": [model.get_score(at) for at in range(count)],
        "token_type": types,
        "ids": [model.encode(text) for text in texts()],
        "texts": [model.decode(model.encode(text)) for text in texts()],
    }


def files() -> dict:
    """tokenizer.json files as Llama 2, Llama 3, Qwen and Gemma have them, with ids for texts that have added tokens."""
    made = {}
    trained = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trained.train_from_iterator(
        SCRIPTS * 3, trainers.BpeTrainer(vocab_size=560, special_tokens=names, limit_alphabet=80)
    )
    plain = json.loads(trained.to_str())
    plain["added_tokens"] = [row for row in plain["added_tokens"] if not row["content"].startswith("<0x")]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    back = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    bos = json.loads(processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)]).__getstate__())
    made["llama2"] = {
        **plain,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace]},
        "post_processor": bos,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                back,
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    }
    made["metaspace"] = {
        **plain,
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
        "decoder": made["llama2"]["decoder"],
    }
    made["gemma"] = {
        **plain,
        "normalizer": replace,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": bos,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]},
    }
    levels = Tokenizer(models.BPE())
    levels.normalizer = normalizers.NFC()
    levels.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS["qwen2"][0]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    levels.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    levels.train_from_iterator(SCRIPTS * 3, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet))
    levels.add_special_tokens(["<s>", "</s>"])
    levels.add_tokens(["<think>"])
    made["qwen2"] = json.loads(levels.to_str())
    rows = {}
    for name, content in made.items():
        reference = Tokenizer.from_str(json.dumps(content))
        cases = [*texts(), "x<s>user hello</s> again <s>", "a </s>  b", "<think> yes <think>"]
        ids = [reference.encode(text).ids for text in cases]
        rows[name] = {"file": content, "cases": cases, "ids": ids, "texts": [reference.decode(row) for row in ids]}
    return rows


def main() -> None:
    content = {
        "texts": texts(),
        "byte_level": byte_level(),
        "bpe": sentence(),
        "files": files(),
    }
    Path(__file__).with_name("tokenizers.json").write_text(
        json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
