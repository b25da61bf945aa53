"""Exported models of each family with random weights: llama.cpp reads the files and computes the same logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import llm
from netcl.core import Tensor
from netcl.llm.config import Rope
from netcl.llm.gguf_model import export_gguf
from netcl.llm.tokenizer.byte_pairs import printable_bytes

KEYS = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": [*printable_bytes(), "th"],
    "tokenizer.ggml.merges": ["t h"],
    "tokenizer.ggml.token_type": np.ones(257, np.int32),
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.ggml.bos_token_id": 0,
}
SIZES: dict[str, Any] = {
    "vocab_size": 257,
    "hidden_size": 128,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "intermediate_size": 128,
    "context_length": 512,
}
LONG = Rope(32, 1e4, "longrope", 4.0, 512, attention_factor=1.1, factors=tuple(np.linspace(1, 3, 16)))
GEMMA = {
    "layers": 6,
    "qk_norm": True,
    "post_norms": True,
    "activation": "gelu_tanh",
    "norm_offset": 1.0,
    "window": 8,
    "local": (True,) * 5 + (False,),
    "local_rope": Rope(32, 1e4),
    "embedding_scale": 128**0.5,
    "tied": True,
}
CASES: dict[str, tuple[str, Rope, dict[str, Any]]] = {
    "llama": ("llama", Rope(32), {}),
    "llama_scaled": ("llama", Rope(32, 5e5, "llama3", 8.0, 128, 1.0, 4.0), {}),
    "llama_linear": ("llama", Rope(32, 1e4, "linear", 2.0), {}),
    "mistral": ("mistral", Rope(32), {}),
    "qwen2": ("qwen2", Rope(32, 1e6), {"qkv_bias": True, "tied": True}),
    "qwen2_yarn": ("qwen2", Rope(32, 1e6, "yarn", 4.0, 128), {"qkv_bias": True}),
    "qwen3": ("qwen3", Rope(32, 1e6), {"qk_norm": True, "tied": True}),
    "gemma3": ("gemma3", Rope(32, 1e6), GEMMA),
    "phi3": ("phi3", Rope(32), {}),
    "phi3_long": ("phi3", LONG, {}),
}


def source(name: str, shape: tuple[int, ...]) -> Tensor:
    rng = np.random.default_rng(len(name) * 31 + sum(map(ord, name)))
    values = rng.standard_normal(shape) * (0.3 if len(shape) == 1 else shape[-1] ** -0.5)
    return Tensor.from_host(nc.zeros(1).queue, (values + name.endswith("norm.weight")).astype(np.float32))


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_llama_cpp_computes_the_same_logits(name: str, tmp_path: Path) -> None:
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    family, rope, changes = CASES[name]
    decoder = llm.Decoder(llm.Config(family, rope=rope, **{**SIZES, **changes}), source).eval()
    export_gguf(decoder, tmp_path / "model.gguf", KEYS)
    ids = np.random.default_rng(0).integers(1, 257, 24).tolist()
    with nc.no_grad():
        mine = decoder(Tensor.from_host(decoder.queue, np.array([ids]))).numpy()[0]
    peer = llama_cpp.Llama(str(tmp_path / "model.gguf"), n_ctx=512, verbose=False, logits_all=True, n_threads=2)
    peer.eval(ids)
    # Its cache is in float16.
    np.testing.assert_allclose(mine, np.array(peer.scores[: len(ids)]), rtol=0, atol=4e-3 * np.abs(mine).max())
