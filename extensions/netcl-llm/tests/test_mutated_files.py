"""A model's file with 500 faults: cut, absurd counts, offsets, types and sizes. One error, soon, in little memory."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from netcl import llm
from netcl.io import CheckpointError
from netcl.llm.config import Rope
from netcl.llm.gguf_model import contents_of
from netcl.llm.tokenizer.byte_pairs import printable_bytes

CONFIG = llm.Config("llama", 256, 32, 2, 4, 2, 8, 64, Rope(8), context_length=128, tied=True)
KEYS = {
    "general.architecture": "llama",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": printable_bytes(),
    "tokenizer.ggml.token_type": np.ones(256, np.int32),
    "tokenizer.ggml.merges": ["t h"],
    "tokenizer.chat_template": "{{ messages }}",
}
ABSURD = [0, 1, 2, 7, 255, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


def mutated(data: bytes, head: int, rng: random.Random) -> bytes:
    """Returns the bytes with a fault: most are in the head, where counts, types and offsets are."""
    at = rng.randrange(4, head)
    kind = rng.randrange(5)
    if kind == 0:
        return data[: rng.randrange(len(data) - 64)]
    if kind == 1:
        value = struct.pack("<Q", rng.choice(ABSURD))
    elif kind == 2:
        value = struct.pack("<I", rng.choice(ABSURD) & 0xFFFFFFFF)
    elif kind == 3:
        value = bytes([data[at] ^ 1 << rng.randrange(8)])
    else:
        value = rng.randbytes(rng.randrange(1, 40))
        return data[:at] + value + data[at:]
    return data[:at] + value + data[at + len(value) :]


def refused(path: Path) -> bool:
    """Returns True if the file was refused; either takes less than 2 s and 64 MB."""
    begin = time.process_time()
    tracemalloc.reset_peak()
    try:
        llm.load(path, "cpu")
    except CheckpointError as error:
        assert str(path) in str(error)
        return True
    finally:
        assert time.process_time() - begin < 2
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    return False


@pytest.mark.timeout(400)
def test_a_mutated_file_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    llm.write_gguf(path, *contents_of(llm.Decoder(CONFIG), KEYS))
    whole = path.read_bytes()
    head = whole.index(b"blk.1.ffn_down.weight") + 60
    # The vocabulary is the largest part of the head; the faults in it are one in three.
    vocabulary = range(whole.index(b"tokenizer.ggml.tokens") + 60, whole.index(b"tokenizer.ggml.merges"))
    rng, count = random.Random(8), 0
    tracemalloc.start()
    try:
        assert not refused(path)
        for _ in range(500):
            data = mutated(whole, head, rng)
            while len(data) == len(whole) and rng.random() < 0.7 and data[vocabulary[0] :] != whole[vocabulary[0] :]:
                data = mutated(whole, head, rng)
            path.write_bytes(data)
            count += refused(path)
    finally:
        tracemalloc.stop()
    assert count > 250


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            (f"llama.{name}", value)
            for name in ("block_count", "embedding_length", "attention.head_count")
            for value in (0, 1 << 31)
        ),
        *((f"llama.{name}", value) for name in ("attention.head_count_kv", "feed_forward_length") for value in (0, 3)),
        ("llama.attention.key_length", 7),
        ("llama.rope.dimension_count", 1 << 20),
        ("llama.rope.freq_base", float("nan")),
        ("llama.rope.scaling.type", "spiral"),
        ("llama.context_length", 0),
        ("general.architecture", "mamba"),
        ("tokenizer.ggml.model", "bert"),
        ("tokenizer.ggml.pre", "nonesuch"),
        ("tokenizer.ggml.token_type", [1, 2]),
        ("tokenizer.ggml.bos_token_id", 1 << 20),
    ],
)
def test_an_absurd_key_is_one_error(key: str, value: object, tmp_path: Path) -> None:
    keys, tensors = contents_of(llm.Decoder(CONFIG), KEYS)
    llm.write_gguf(tmp_path / "tiny.gguf", {**keys, key: value}, tensors)
    tracemalloc.start()
    try:
        assert refused(tmp_path / "tiny.gguf")
    finally:
        tracemalloc.stop()
