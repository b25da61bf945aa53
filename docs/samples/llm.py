"""Samples of classes of netcl-llm."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import netcl as nc
from netcl import llm
from netcl.llm.config import Rope
from netcl.llm.gguf_model import export_gguf
from netcl.llm.tokenizer.byte_pairs import printable_bytes

nc.manual_seed(0)
folder = Path(tempfile.mkdtemp())
# A tiny model whose tokens are the bytes.
config = llm.Config("llama", vocab_size=256, hidden_size=32, layers=1, heads=4, kv_heads=2, head_dim=8,
                    intermediate_size=64, rope=Rope(8), context_length=128, tied=True)
keys = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": printable_bytes(),
    "tokenizer.ggml.token_type": np.ones(256, np.int32),
    "tokenizer.ggml.merges": [],
}
export_gguf(llm.Decoder(config), folder / "tiny.gguf", keys)
model = llm.load(folder / "tiny.gguf")

# %% netcl.llm.Sampling
llm.Sampling(temperature=0.7, top_p=0.9, seed=1, stop=("\n\n",))

# %% netcl.llm.Piece
"".join(piece.text for piece in [llm.Piece("On", 3), llm.Piece("ce", 5, finish_reason="length")])

# %% netcl.llm.Config
config.rope.frequencies().round(4).tolist()

# %% netcl.llm.Decoder
llm.Decoder(config)(nc.tensor([[1, 2, 3]])).shape

# %% netcl.llm.Gguf
file = llm.Gguf(folder / "tiny.gguf")
file.metadata["llama.block_count"], file.tensors["token_embd.weight"].shape

# %% netcl.llm.Model
[piece.id for piece in model.generate("Once", temperature=0, max_tokens=3)]

# %% netcl.llm.Session
session = model.session()
for prompt in ("Once", "Once upon"):
    list(session.generate(prompt, max_tokens=1))
session.reused  # tokens of the first prompt that the second one did not compute again
