"""Config, the sizes and kinds of a decoder, from the keys of a GGUF file or the config.json of a folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Config", "Rope", "from_gguf", "from_huggingface"]

_SCALINGS = ("none", "linear", "llama3", "yarn", "longrope")
# Limits of what a file may ask for; beyond them it is damaged.
_MOST = {
    "vocab_size": 1 << 21,
    "hidden_size": 1 << 17,
    "layers": 1024,
    "heads": 1024,
    "kv_heads": 1024,
    "head_dim": 4096,
    "intermediate_size": 1 << 19,
    "context_length": 1 << 28,
}


@dataclass(frozen=True)
class Rope:
    """Rotary positions: ``dim`` first elements of a head turn with frequencies of ``base``, changed by a scaling.

    ``kind`` is "none", "linear", "llama3", "yarn" or "longrope"; ``factors`` divide the frequencies, one for each pair.
    """

    dim: int
    base: float = 10000.0
    kind: str = "none"
    factor: float = 1.0
    original_length: int = 8192
    low_factor: float = 1.0
    high_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    factors: tuple[float, ...] = ()

    def frequencies(self) -> np.ndarray[Any, Any]:
        """Returns the angle per position of each pair (dim / 2,), float64."""
        powers = self.base ** (np.arange(0, self.dim, 2) / self.dim)
        plain: np.ndarray[Any, Any] = 1.0 / powers
        if self.factors:
            return plain / np.asarray(self.factors)  # type: ignore[no-any-return]
        if self.kind == "linear":
            return plain / self.factor
        if self.kind == "llama3":
            turns = self.original_length * plain / (2 * math.pi)
            smooth = np.clip((turns - self.low_factor) / (self.high_factor - self.low_factor), 0, 1)
            return (1 - smooth) * plain / self.factor + smooth * plain  # type: ignore[no-any-return]
        if self.kind == "yarn":
            low, high = (
                self.dim * math.log(self.original_length / (beta * 2 * math.pi)) / (2 * math.log(self.base))
                for beta in (self.beta_fast, self.beta_slow)
            )
            low, high = max(math.floor(low), 0), min(math.ceil(high), self.dim - 1)
            ramp = np.clip((np.arange(self.dim // 2) - low) / max(high - low, 0.001), 0, 1)
            return plain / self.factor * ramp + plain * (1 - ramp)
        return plain

    @property
    def scale(self) -> float:
        """The factor of cosines and sines."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.factor <= 1 or self.kind not in ("yarn", "longrope"):
            return 1.0
        grows = self.kind == "longrope"
        return (
            math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))
            if grows
            else (0.1 * math.log(self.factor) + 1.0)
        )


@dataclass(frozen=True)
class Config:
    """The sizes and kinds of a decoder.

    Attributes:
        family: "llama", "mistral", "qwen2", "qwen3", "gemma3" or "phi3".
        norm_offset: is added to the weights of norms: 1 for Gemma's in its own files.
        activation: "silu" or "gelu_tanh".
        local: for each layer, True if it sees the last ``window`` positions only and turns by ``local_rope``.
        post_norms: has norms behind attention and MLP too, as Gemma 3.
        embedding_scale: multiplies the embeddings.
        query_scale: multiplies the scores of attention.
        score_cap: caps scores smoothly by tanh; None does not. ``logit_cap``: the logits.
    """

    family: str
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    rope: Rope
    context_length: int = 2048
    norm_eps: float = 1e-6
    norm_offset: float = 0.0
    activation: str = "silu"
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    tied: bool = False
    window: int | None = None
    local: tuple[bool, ...] = ()
    local_rope: Rope | None = None
    embedding_scale: float = 1.0
    query_scale: float = field(default=0.0)
    score_cap: float | None = None
    logit_cap: float | None = None

    def __post_init__(self) -> None:
        """Refuses sizes that are no model's."""
        for name, most in _MOST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"expected {name} as an int from 1 to {most:,}, got {value!r}")
        if self.heads % self.kv_heads:
            raise ValueError(f"expected heads as a multiple of kv_heads, got {self.heads} and {self.kv_heads}")
        for rope in filter(None, (self.rope, self.local_rope)):
            if rope.dim % 2 or not 2 <= rope.dim <= self.head_dim or not 1 < rope.base < 1e12:
                raise ValueError(f"expected an even part of head_dim={self.head_dim} for positions, got {rope}")
            if rope.factors and len(rope.factors) != rope.dim // 2:
                raise ValueError(f"expected {rope.dim // 2} factors of frequencies, got {len(rope.factors)}")
            if not 0 < rope.factor < 1e6 or rope.kind not in _SCALINGS:
                raise ValueError(f"expected a scaling of positions {', '.join(_SCALINGS)}, got {rope}")
        if self.window is not None and self.window < 1:
            raise ValueError(f"expected a window of 1 or more positions, got {self.window}")
        if not self.local:
            object.__setattr__(self, "local", (self.window is not None,) * self.layers)
        if not self.query_scale:
            object.__setattr__(self, "query_scale", 1 / math.sqrt(self.head_dim))


# ------------------------------------------------------------------------------------------------------------- GGUF

# Of GGUF's architectures and of model_type. Files of Mistral and SmolLM say llama.
_FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3", "phi3")


def from_gguf(keys: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], factors: Any = None) -> Config:
    """Returns the configuration of a file's keys, with the shapes of its tensors; ``factors``: of rope_freqs.weight."""
    family = architecture = str(keys.get("general.architecture"))
    if architecture not in _FAMILIES:
        raise ValueError(f"expected an architecture of {', '.join(_FAMILIES)}, got {architecture!r}")

    def get(name: str, default: Any = None, kind: type = int) -> Any:
        value = keys.get(f"{architecture}.{name}", default)
        if value is None:
            raise ValueError(f"the key {architecture}.{name} is missing")
        if isinstance(value, np.ndarray) and value.size and (value == value[0]).all():
            value = value[0].item()
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
            raise ValueError(f"{architecture}.{name}: expected {kind.__name__}, got {value!r:.80}")
        return value

    if "token_embd.weight" not in shapes:
        raise ValueError("the tensor token_embd.weight is missing")
    heads, hidden, layers = get("attention.head_count"), get("embedding_length"), get("block_count")
    head_dim = get("attention.key_length", hidden // max(heads, 1))
    length = get("context_length", 2048)
    kind = str(keys.get(f"{architecture}.rope.scaling.type", "none"))
    kind = "longrope" if "rope_factors_short.weight" in shapes else kind
    scaled, first = kind in ("linear", "yarn", "longrope"), get("rope.scaling.original_context_length", length)
    rope = Rope(
        get("rope.dimension_count", head_dim),
        float(get("rope.freq_base", 10000.0, float)),
        kind if scaled else "none",
        float(get("rope.scaling.factor", 1.0, float)) if scaled else 1.0,
        first if scaled else length,
        attention_factor=float(get("rope.scaling.attn_factor", 0.0, float)) or None,
        factors=tuple(float(value) for value in factors) if factors is not None else (),
    )
    if kind != "none" and not scaled:
        raise ValueError(f"expected a scaling of positions none, linear, yarn or longrope, got {kind!r}")
    gemma = family == "gemma3"
    window = get("attention.sliding_window", 0) or None
    return Config(
        family=family,
        vocab_size=shapes["token_embd.weight"][0],
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=get("attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate_size=get("feed_forward_length"),
        rope=rope,
        context_length=min(length, first) if kind == "longrope" else length,
        norm_eps=float(get("attention.layer_norm_rms_epsilon", 1e-6, float)),
        activation="gelu_tanh" if gemma else "silu",
        qkv_bias="blk.0.attn_q.bias" in shapes or "blk.0.attn_qkv.bias" in shapes,
        out_bias="blk.0.attn_output.bias" in shapes,
        mlp_bias="blk.0.ffn_down.bias" in shapes,
        qk_norm="blk.0.attn_q_norm.weight" in shapes,
        post_norms=gemma,
        tied="output.weight" not in shapes,
        window=window if family in ("gemma3", "mistral", "llama", "phi3") else None,
        local=_local(layers, 6) if gemma and window else (),
        local_rope=Rope(rope.dim, float(get("rope.freq_base_swa", 10000.0, float))) if gemma else None,
        embedding_scale=math.sqrt(hidden) if gemma else 1.0,
        # The model of 27B divides by another size than its heads have.
        query_scale=1 / math.sqrt(hidden / heads) if gemma and layers == 62 else 0.0,
    )


def _local(layers: int, pattern: int) -> tuple[bool, ...]:
    """Returns the kinds of layers of which each ``pattern``-th is global."""
    if not 1 <= layers <= _MOST["layers"]:
        return ()
    return tuple((layer + 1) % pattern != 0 for layer in range(layers))


# ------------------------------------------------------------------------------------------------------ config.json

_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


def from_huggingface(values: Mapping[str, Any]) -> Config:
    """Returns the configuration of a config.json."""
    family = str(values.get("model_type")).removesuffix("_text")
    if family not in _FAMILIES:
        raise ValueError(f"expected model_type of {', '.join(_FAMILIES)}, got {family!r}")
    if isinstance(values.get("text_config"), Mapping):
        values = values["text_config"]
    gemma, qwen = family == "gemma3", family in ("qwen2", "qwen3")

    def get(name: str, default: Any = None) -> Any:
        value = values.get(name)
        value = default if value is None else value
        if value is None:
            raise ValueError(f"{name} is missing")
        return value

    heads, hidden, layers = get("num_attention_heads"), get("hidden_size"), get("num_hidden_layers")
    if not all(isinstance(value, int) and 0 < value < 1 << 20 for value in (heads, hidden, layers)):
        raise ValueError(f"expected sizes as ints, got {heads!r} heads, {hidden!r}, {layers!r} layers")
    head_dim = get("head_dim", 256 if gemma else hidden // heads)
    activation = get("hidden_activation", "gelu_pytorch_tanh") if gemma else get("hidden_act", "silu")
    if activation not in _ACTIVATIONS:
        raise ValueError(f"expected an activation of {', '.join(_ACTIVATIONS)}, got {activation!r}")
    ropes = values.get("rope_parameters") or {}
    whole, local = ropes.get("full_attention", ropes), ropes.get("sliding_attention", {})
    kinds = values.get("layer_types")
    if kinds is None and gemma:
        kinds = ["sliding" if is_local else "full" for is_local in _local(layers, get("sliding_window_pattern", 6))]
    window = values.get("sliding_window")
    if qwen and not values.get("use_sliding_window"):
        window, kinds = None, None
    if kinds is not None and len(kinds) != layers:
        raise ValueError(f"expected {layers} layer_types, got {len(kinds)}")
    biased = bool(values.get("attention_bias", False))
    rope = _rope(values, whole, head_dim)
    length = get("max_position_embeddings", 2048)
    return Config(
        family=family,
        vocab_size=get("vocab_size"),
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=get("num_key_value_heads", heads),
        head_dim=head_dim,
        intermediate_size=get("intermediate_size"),
        rope=rope,
        # Beyond its first context, longrope turns earlier positions by other angles too.
        context_length=min(length, rope.original_length) if rope.kind == "longrope" else length,
        norm_eps=get("rms_norm_eps", 1e-6),
        norm_offset=1.0 if gemma else 0.0,
        activation=_ACTIVATIONS[activation],
        qkv_bias=biased or family == "qwen2",
        out_bias=biased and family != "qwen2",
        mlp_bias=bool(values.get("mlp_bias", False)),
        qk_norm=gemma or family == "qwen3",
        post_norms=gemma,
        tied=bool(values.get("tie_word_embeddings", gemma)),
        window=window,
        local=tuple(str(kind).startswith("sliding") for kind in kinds) if kinds is not None and window else (),
        local_rope=Rope(head_dim, local.get("rope_theta") or values.get("rope_local_base_freq") or 10000.0)
        if gemma
        else None,
        embedding_scale=math.sqrt(hidden) if gemma else 1.0,
        query_scale=get("query_pre_attn_scalar", 256) ** -0.5 if gemma else 0.0,
        score_cap=values.get("attn_logit_softcapping"),
        logit_cap=values.get("final_logit_softcapping"),
    )


def _rope(values: Mapping[str, Any], parameters: Mapping[str, Any], head_dim: int) -> Rope:
    """Returns the positions: ``rope_parameters`` of newer files, or ``rope_theta`` and ``rope_scaling``."""
    scaling = {**(values.get("rope_scaling") or {}), **parameters}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    part = scaling.get("partial_rotary_factor", values.get("partial_rotary_factor")) or 1.0
    kind = {"default": "none", "su": "longrope"}.get(kind, kind)
    if kind not in _SCALINGS:
        raise ValueError(f"expected a scaling of positions {', '.join(_SCALINGS)}, got {kind!r}")
    longest = values.get("max_position_embeddings", 2048)
    first = scaling.get("original_max_position_embeddings") or values.get("original_max_position_embeddings") or longest
    if kind == "longrope":
        scaling["factor"] = longest / first
    base = scaling.get("rope_theta") or values.get("rope_theta") or 10000.0
    return Rope(
        int(head_dim * part),
        float(base),
        kind,
        float(scaling.get("factor", 1.0)),
        int(first),
        float(scaling.get("low_freq_factor", 1.0)),
        float(scaling.get("high_freq_factor", 4.0)),
        float(scaling.get("beta_fast") or 32.0),
        float(scaling.get("beta_slow") or 1.0),
        scaling.get("attention_factor"),
        tuple(scaling["short_factor"]) if kind == "longrope" else (),
    )
