"""Model, a decoder with its tokenizer, and ``load``, which reads one from a GGUF file or a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netcl import nn
from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.core.errors import from_here
from netcl.core.packed import PackedTensor
from netcl.io.budget import Budget
from netcl.io.errors import CheckpointError
from netcl.llm import tokenizer as tokenizers
from netcl.llm.config import Config, from_gguf
from netcl.llm.decoder import Decoder, Weight
from netcl.llm.generation import Session
from netcl.llm.gguf import Entry, Gguf
from netcl.llm.huggingface import read_folder, read_json
from netcl.llm.sampling import Piece, Sampling

__all__ = ["Model", "load"]

class Model:
    """A language model: ``config``, ``decoder`` (a module), ``tokenizer``, and ``ends``, the tokens that end a text.

    ``metadata`` has the keys of a GGUF file, or the values of config.json.
    """

    def __init__(
        self, config: Config, decoder: Decoder, tokenizer: Any, ends: frozenset[int], metadata: Mapping[str, Any]
    ) -> None:
        self.config, self.decoder, self.tokenizer = config, decoder, tokenizer
        self.ends: frozenset[int] = ends
        self.metadata: dict[str, Any] = dict(metadata)
        self._idle: list[Session] = []

    def ids_of(self, prompt: str | Sequence[int]) -> list[int]:
        """Returns the tokens of a prompt; raises ValueError for none, for unknown ones, and for more than the context."""
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
        if not ids:
            raise ValueError("expected a prompt of at least one token, got none")
        if len(ids) > self.config.context_length:
            raise ValueError(
                f"expected a prompt of at most {self.config.context_length} tokens, the model's context, got {len(ids)}"
            )
        if not 0 <= min(ids) <= max(ids) < self.config.vocab_size:
            raise ValueError(f"expected tokens from 0 to {self.config.vocab_size - 1}, got {min(ids)} to {max(ids)}")
        return ids

    def session(self) -> Session:
        """Returns a session of its own, which keeps its cache between calls."""
        return Session(self)

    def generate(self, prompt: str | Sequence[int], sampling: Sampling | None = None, **changes: Any) -> Iterator[Piece]:
        """Yields a piece for each token behind ``prompt``; ``changes`` are fields of Sampling.

        Raises ValueError for an empty prompt, or one that is longer than the context.
        """
        session = self._idle.pop() if self._idle else Session(self)
        session.lanes.keep(0, 0)
        pieces = session.generate(prompt, sampling, **changes)
        return self._returned(session, pieces)

    def _returned(self, session: Session, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yields the pieces; the session with its captured steps then serves another generation."""
        try:
            yield from pieces
        finally:
            self._idle.append(session)

    def __repr__(self) -> str:
        """Returns the family and the sizes."""
        c = self.config
        return f"Model({c.family}, {c.layers} layers of {c.hidden_size}, vocabulary of {c.vocab_size})"


@from_here
def load(path: str | os.PathLike[str], device: Any = None, dtype: Any = None, budget: Budget | None = None) -> Model:
    """Returns the model of a GGUF file, or of a folder with config.json, safetensors and tokenizer.json.

    Packed weights stay packed; plain ones become ``dtype``, float32 unless given. Raises CheckpointError for a file
    that is damaged, unsupported or beyond ``budget``.
    """
    place = nn.Linear(1, 1, device=device).weight.queue
    kind = "float32" if dtype is None else str(dtype)
    if kind not in ("float32", "float16", "bfloat16", "float64"):
        raise ValueError(f"load: expected dtype float32, float16, bfloat16 or float64, got {dtype!r}")
    return _from_folder(Path(path), place, kind, budget) if Path(path).is_dir() else _from_file(path, place, kind, budget)


# ------------------------------------------------------------------------------------------------------------- GGUF

_TOP = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GEMMA_PARTS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
# Architectures whose files have the rows of q and k in the order of neighbouring pairs.
_NEIGHBOURS = ("llama", "mistral")


def gguf_name(config: Config, name: str) -> str:
    """Returns the name in GGUF files of a decoder's tensor."""
    stem, kind = name.rsplit(".", 1)
    if stem in _TOP:
        return f"{_TOP[stem]}.{kind}"
    _, layer, part = stem.split(".", 2)
    names = {**_PARTS, **_GEMMA_PARTS} if config.post_norms else _PARTS
    return f"blk.{layer}.{names[part]}.{kind}"


def order_of_pairs(heads: int, head_dim: int) -> np.ndarray[Any, Any]:
    """Returns for each row of a matrix with pairs (i, i + dim / 2) its place among neighbouring pairs."""
    rows = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2)
    return rows.transpose(0, 2, 1).reshape(-1)


class _GgufSource:
    """Gives the weights of a GGUF file by the names of a decoder."""

    def __init__(self, file: Gguf, config: Config, queue: Any, dtype: str) -> None:
        self.file, self.config, self.queue, self.dtype = file, config, queue, dtype
        self.used: set[str] = set()

    def __call__(self, name: str, shape: tuple[int, ...]) -> Weight:
        wanted = gguf_name(self.config, name)
        entry, first = self._entry(wanted, shape)
        self.used.add(entry.name)
        if entry.shape[1:] != shape[1:] or entry.shape[0] < first + shape[0]:
            raise CheckpointError(f"{entry.name}: expected shape {shape}, got {entry.shape}", self.file.path)
        order = None
        if self.config.family in _NEIGHBOURS and ("attn_q." in wanted or "attn_k." in wanted):
            order = order_of_pairs(shape[0] // self.config.head_dim, self.config.head_dim)
        if entry.is_packed and len(shape) == 2:
            rows = entry.data.reshape(entry.shape[0], -1)[first : first + shape[0]]
            rows = rows if order is None else rows[order]
            return PackedTensor.from_blocks(np.ascontiguousarray(rows), shape, entry.type, device=self.queue)
        if entry.is_packed:
            raise CheckpointError(f"{entry.name}: expected plain numbers, got {entry.type}", self.file.path)
        values = entry.array()[first : first + shape[0]]
        values = values if order is None else values[order]
        return Tensor.from_host(self.queue, np.ascontiguousarray(values, np.float32), self.dtype, persistent=True)

    def _entry(self, name: str, shape: tuple[int, ...]) -> tuple[Entry, int]:
        """Returns the entry that has a matrix, and its first row there: Phi-3's are joined."""
        tensors, config = self.file.tensors, self.config
        stem, kind = name.rsplit(".", 1)
        part = stem.rsplit(".", 1)[-1]
        block = stem.removesuffix(part)
        if name not in tensors and f"{block}attn_qkv.{kind}" in tensors and part in ("attn_q", "attn_k", "attn_v"):
            q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
            return tensors[f"{block}attn_qkv.{kind}"], {"attn_q": 0, "attn_k": q, "attn_v": q + kv}[part]
        if config.family == "phi3" and part in ("ffn_gate", "ffn_up") and f"{block}ffn_gate.{kind}" not in tensors:
            name, first = f"{block}ffn_up.{kind}", shape[0] if part == "ffn_up" else 0
        else:
            first = 0
        if name not in tensors:
            raise CheckpointError(f"the tensor {name} is missing", self.file.path)
        return tensors[name], first


def _from_file(path: str | os.PathLike[str], queue: Any, dtype: str, budget: Budget | None) -> Model:
    file = Gguf(path, budget)
    shapes = {name: entry.shape for name, entry in file.tensors.items()}
    factors = file.tensors.get("rope_freqs.weight")
    try:
        config = from_gguf(file.metadata, shapes, None if factors is None else factors.array().reshape(-1))
        tokenizer = tokenizers.from_gguf(file.metadata)
        # Sizes of a damaged file could ask for more layers than it has tensors.
        if config.layers > len(shapes):
            raise ValueError(f"expected tensors for {config.layers} layers, got {len(shapes)}")
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise CheckpointError(f"describes no model that netcl has ({error})", file.path) from error
    source = _GgufSource(file, config, queue, dtype)
    decoder = Decoder(config, source).eval()
    left = shapes.keys() - source.used - {"rope_freqs.weight"}
    if left:
        raise CheckpointError(f"has {len(left)} tensors that the model does not use: {min(left)}", file.path)
    return Model(config, decoder, tokenizer, tokenizer.end_ids, file.metadata)


# ----------------------------------------------------------------------------------------------------------- folder


def _from_folder(path: Path, queue: Any, dtype: str, budget: Budget | None) -> Model:
    config, tensors, values = read_folder(path, queue, budget)
    used: set[str] = set()

    def source(name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = tensors.get(name)
        if tensor is None or tuple(tensor.shape) != shape or not is_floating(tensor.dtype):
            got = "no such tensor" if tensor is None else f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise CheckpointError(f"{name}: expected numbers of shape {shape}, got {got}", path)
        used.add(name)
        return tensor if tensor.dtype == dtype else tensor.astype(dtype)

    decoder = Decoder(config, source).eval()
    left = {name for name in tensors.keys() - used if name != "lm_head.weight" and not name.endswith("inv_freq")}
    if left:
        raise CheckpointError(f"has {len(left)} tensors that the model does not use: {min(left)}", path)
    tokenizer = tokenizers.from_json(path / "tokenizer.json")
    named = [values.get("eos_token_id")]
    if (path / "generation_config.json").exists():
        named.append(read_json(path / "generation_config.json", budget).get("eos_token_id"))
    ends = {token for value in named for token in (value if isinstance(value, list) else [value])}
    return Model(config, decoder, tokenizer, tokenizer.end_ids | (ends - {None}), values)
