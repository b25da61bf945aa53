"""Decoders of GGUF files: the names and orders of their tensors, reading, and export."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.packed import PackedTensor
from netcl.io.errors import CheckpointError
from netcl.llm.config import Config, from_gguf
from netcl.llm.decoder import Decoder, Weight
from netcl.llm.gguf import Entry, Gguf, entry_of, write_gguf

__all__ = ["contents_of", "decoder_of_gguf", "export_gguf", "gguf_name", "keys_of"]

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
# Matrices of Phi-3's files that are several layers.
_JOINED = {"attn_qkv": ("attn_q", "attn_k", "attn_v"), "ffn_up": ("ffn_gate", "ffn_up")}
# Architectures whose files have the rows of q and k in the order of neighbouring pairs.
_NEIGHBOURS = ("llama", "mistral")
# Tensors that divide the frequencies of positions: Llama's, then Phi-3's up to its first context, and beyond.
_FACTORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")


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
    order: np.ndarray[Any, Any] = rows.transpose(0, 2, 1).reshape(-1)
    return order


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
        block, _, part = stem.rpartition(".")
        q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
        starts = {"attn_q": 0, "attn_k": q, "attn_v": q + kv, "ffn_gate": 0, "ffn_up": shape[0]}
        whole = next((whole for whole, parts in _JOINED.items() if part in parts), None)
        if whole and f"{block}.{_JOINED[whole][0]}.{kind}" not in tensors and f"{block}.{whole}.{kind}" in tensors:
            return tensors[f"{block}.{whole}.{kind}"], starts[part]
        if name not in tensors:
            raise CheckpointError(f"the tensor {name} is missing", self.file.path)
        return tensors[name], 0


def _factors(tensors: Mapping[str, Entry]) -> Any:
    """Returns what divides the frequencies of positions, or None."""
    return next((tensors[name].array().reshape(-1) for name in _FACTORS[:2] if name in tensors), None)


def decoder_of_gguf(file: Gguf, queue: Any = None, dtype: str = "float32") -> Decoder:
    """Returns the decoder of a file: packed weights stay packed, plain ones become ``dtype``.

    Raises CheckpointError for an unsupported architecture, and for missing, surplus and wrong tensors.
    """
    shapes = {name: entry.shape for name, entry in file.tensors.items()}
    try:
        config = from_gguf(file.metadata, shapes, _factors(file.tensors))
        # Sizes of a damaged file could ask for more layers than it has tensors.
        if config.layers > len(shapes):
            raise ValueError(f"expected tensors for {config.layers} layers, got {len(shapes)}")
    except (ValueError, TypeError, KeyError, OverflowError, ZeroDivisionError) as error:
        raise CheckpointError(f"describes no model that netcl has ({error})", file.path) from error
    source = _GgufSource(file, config, queue, dtype)
    decoder = Decoder(config, source).eval()
    left = shapes.keys() - source.used - {*_FACTORS}
    if left:
        raise CheckpointError(f"has {len(left)} tensors that the model does not use: {min(left)}", file.path)
    return decoder


# ----------------------------------------------------------------------------------------------------------- export


def keys_of(config: Config) -> dict[str, Any]:
    """Returns the keys of a GGUF file that describe a configuration."""
    name = "llama" if config.family == "mistral" else config.family
    rope = config.rope
    keys: dict[str, Any] = {
        "block_count": config.layers,
        "context_length": config.context_length,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": float(config.norm_eps),
        "rope.dimension_count": rope.dim,
        "rope.freq_base": float(rope.base),
        "vocab_size": config.vocab_size,
    }
    if config.window is not None:
        keys["attention.sliding_window"] = config.window
    if rope.kind in ("linear", "yarn"):
        keys["rope.scaling.type"], keys["rope.scaling.factor"] = rope.kind, float(rope.factor)
    if rope.kind in ("linear", "yarn", "longrope"):
        keys["rope.scaling.original_context_length"] = rope.original_length
    if rope.kind == "longrope" or rope.attention_factor is not None:
        keys["rope.scaling.attn_factor"] = rope.scale
    if config.local_rope is not None:
        keys["rope.freq_base_swa"] = float(config.local_rope.base)
    return {"general.architecture": name, **{f"{name}.{key}": value for key, value in keys.items()}}


def contents_of(decoder: Decoder, metadata: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Entry]]:
    """Returns the keys and the tensors of a GGUF file with a decoder; ``metadata`` has further keys, as a tokenizer's.

    Packed weights are as they are, others float32. Raises ValueError for a configuration that GGUF cannot say.
    """
    config = decoder.config
    tensors: dict[str, Entry] = {}
    for name, value in decoder.tensors():
        wanted = gguf_name(config, name)
        order = None
        if config.family in _NEIGHBOURS and ("attn_q." in wanted or "attn_k." in wanted):
            order = np.argsort(order_of_pairs(value.shape[0] // config.head_dim, config.head_dim))
        if isinstance(value, PackedTensor):
            blocks = value.to_blocks().reshape(value.shape[0], -1)
            blocks = np.ascontiguousarray(blocks if order is None else blocks[order])
            tensors[wanted] = Entry(wanted, tuple(value.shape), value.format, blocks.reshape(-1))
        else:
            array = value.numpy().astype(np.float32)
            array = array + np.float32(config.norm_offset) if "norm.weight" in wanted else array
            tensors[wanted] = entry_of(wanted, array if order is None else array[order])
    for layer in range(config.layers if config.family == "phi3" else 0):
        for whole, parts in _JOINED.items():
            names = [f"blk.{layer}.{part}.weight" for part in parts]
            tensors[f"blk.{layer}.{whole}.weight"] = _joined([tensors.pop(name) for name in names])
    rope, factors = config.rope, config.rope.factors
    if rope.kind == "llama3":
        factors = tuple(rope.base ** -(np.arange(0, rope.dim, 2) / rope.dim) / rope.frequencies())
    for name in (_FACTORS[1:] if rope.kind == "longrope" else _FACTORS[:1]) if factors else ():
        tensors[name] = entry_of(name, np.array(factors, np.float32))
    keys = {name: value for name, value in (metadata or {}).items() if not name.startswith("split.")}
    keys.update((name, value) for name, value in keys_of(config).items() if name not in keys)
    _check_keys(config, keys, tensors)
    return keys, tensors


def _joined(entries: list[Entry]) -> Entry:
    """Returns matrices as one, by rows; of several types, packed ones become float32."""
    if len({entry.type for entry in entries}) > 1:
        plain = [entry.packed("cpu").unpack().numpy() if entry.is_packed else entry.array() for entry in entries]
        entries = [entry_of(entry.name, array) for entry, array in zip(entries, plain)]
    shape = (sum(entry.shape[0] for entry in entries), *entries[0].shape[1:])
    return Entry(entries[0].name, shape, entries[0].type, np.concatenate([entry.data for entry in entries]))


def _check_keys(config: Config, keys: Mapping[str, Any], tensors: Mapping[str, Entry]) -> None:
    """Raises ValueError if the keys describe another configuration, but for how it is stored."""
    again = from_gguf(keys, {name: entry.shape for name, entry in tensors.items()}, _factors(tensors))
    stored = {"family", "norm_offset", "rope", "window"}
    for name in [field.name for field in fields(Config) if field.name not in stored]:
        mine, theirs = getattr(config, name), getattr(again, name)
        if mine != theirs and not (isinstance(mine, float) and theirs and math.isclose(mine, theirs, rel_tol=1e-6)):
            raise ValueError(f"expected a model that GGUF can describe, and it has no key for {name}={mine}")
    theirs, mine = (np.append(rope.frequencies(), rope.scale) for rope in (again.rope, config.rope))
    if not np.allclose(theirs, mine, rtol=1e-5):
        raise ValueError(f"expected a model that GGUF can describe, and it has no key for {config.rope}")


def export_gguf(decoder: Decoder, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None) -> None:
    """Writes a decoder as a GGUF file, with the keys and tensors of ``contents_of``."""
    write_gguf(path, *contents_of(decoder, metadata))
