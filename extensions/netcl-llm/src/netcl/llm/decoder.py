"""Decoder, the one model of all families: embedding, blocks of attention and MLP, norm and head, by its Config.

Its layers are modules of netcl.nn and train. A matrix is a parameter or a PackedTensor, which is constant. Matrices
that read the same input are joined by rows where their kinds agree, so that a step has fewer launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.core.packed import PackedTensor
from netcl.llm.cache import Cache, Extension
from netcl.llm.config import Config, Rope

__all__ = ["Decoder", "LowRank", "Projection", "Source", "parts_of"]

Weight = Tensor | PackedTensor
_GATES: dict[str, Callable[[Tensor], Tensor]] = {"silu": ag.silu, "gelu": partial(ag.gelu, approximate="tanh")}
# Gives the weight of a name and a shape; a new model's is random.
Source = Callable[[str, tuple[int, ...]], Weight]
_STD = 0.02


def _finished(y: Tensor, gate: str, residual: Tensor | None) -> Tensor:
    if gate:
        first, second = ag.chunk(y, 2, axis=-1)
        y = ag.mul(_GATES[gate](first), second)
    return y if residual is None else ag.add(y, residual)


def random_source(device: Any = None, dtype: str = "float32") -> Source:
    """Returns the source of a new model: normal matrices, norms of ones, biases of zeros."""
    queue = nn.Linear(1, 1, device=device).weight.queue

    def source(name: str, shape: tuple[int, ...]) -> Tensor:
        if name.endswith("bias"):
            return Tensor.zeros(shape, dtype, queue=queue)
        if len(shape) == 1:
            return Tensor.full(shape, 1.0, dtype, queue=queue)
        values: Tensor = ag.mul(ag.randn(shape, dtype=dtype, queue=queue), _STD)
        return values

    return source


class _Matrix(nn.Module):
    """A matrix (rows, columns): the parameter ``weight``, or ``packed``."""

    def __init__(self, value: Weight) -> None:
        super().__init__()
        self.packed: PackedTensor | None = value if isinstance(value, PackedTensor) else None
        self.register_parameter("weight", None if isinstance(value, PackedTensor) else nn.Parameter(value))
        self.shape: tuple[int, ...] = tuple(value.shape)

    def forward(
        self,
        x: Tensor,
        bias: Tensor | None = None,
        norm: _Norm | None = None,
        residual: Tensor | None = None,
        gate: str = "",
    ) -> Tensor:
        """Returns x, normalized, times the matrix, with what follows it: of packed ones one launch for few rows."""
        if self.packed is not None:
            weight, eps = (None, 1e-6) if norm is None else (norm.scale, norm.eps)
            y: Tensor = ag.packed_linear(x, self.packed, bias, weight, residual, eps=eps, gate=gate)
            return y
        return _finished(ag.linear(x if norm is None else norm(x), self.weight, bias), gate, residual)

    def embed(self, ids: Tensor) -> Tensor:
        return ag.embedding(ids, self.weight) if self.packed is None else self.packed.rows(ids)

    def rows(self, first: int, count: int) -> Weight:
        if self.packed is None:
            return ag.narrow(self.weight.detach(), 0, first, count)
        parts = [ag.contiguous(ag.narrow(part, 0, first, count)) for part in self.packed.parts]
        return PackedTensor(parts, (count, self.shape[1]), self.packed.format)

    def extra_repr(self) -> str:
        return f"{self.shape}, {'parameter' if self.packed is None else self.packed.format}"


class LowRank(nn.Module):
    """A change of a linear layer: alpha / rank times B A x, with lora_A (rank, columns) and lora_B (rows, rank)."""

    rank: int
    alpha: float
    dropout: float
    scale: float

    def __init__(
        self, columns: int, rows: int, rank: int, alpha: float, dropout: float = 0.0, device: Any = None
    ) -> None:
        super().__init__()
        self.rank, self.alpha, self.dropout, self.scale = rank, alpha, dropout, alpha / rank
        self.lora_A: nn.Linear = nn.Linear(columns, rank, bias=False, device=device)
        self.lora_B: nn.Linear = nn.Linear(rank, rows, bias=False, device=device)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x: Tensor) -> Tensor:
        y = x if x.dtype == self.lora_A.weight.dtype else ag.cast(x, dtype=self.lora_A.weight.dtype)
        if self.dropout and self.training:
            y = ag.dropout(y, self.dropout)
        y = ag.mul(self.lora_B(self.lora_A(y)), self.scale)
        return y if y.dtype == x.dtype else ag.cast(y, dtype=x.dtype)

    def extra_repr(self) -> str:
        return f"rank={self.rank}, alpha={self.alpha}, dropout={self.dropout}"


class Projection(nn.Module):
    """Linear layers of one input: x (..., columns) gives their outputs joined, (..., rows of all).

    ``sizes`` has the rows of each by its name. ``adapters`` has low-rank changes by the names.
    """

    prefix: str
    columns: int
    sizes: dict[str, int]

    def __init__(self, source: Source, prefix: str, columns: int, sizes: Mapping[str, int], bias: bool = False) -> None:
        super().__init__()
        self.prefix, self.columns, self.sizes = prefix, columns, dict(sizes)
        weights = [source(f"{prefix}.{name}.weight", (rows, columns)) for name, rows in sizes.items()]
        self.matrices: nn.ModuleList = nn.ModuleList(_Matrix(weight) for weight in _joined(weights))
        biases = [source(f"{prefix}.{name}.bias", (rows,)) for name, rows in sizes.items()] if bias else []
        joined = _stacked(biases) if bias else None
        self.register_parameter("bias", None if joined is None else nn.Parameter(joined))
        self.adapters: nn.ModuleDict = nn.ModuleDict({})

    def forward(self, x: Tensor, norm: _Norm | None = None, residual: Tensor | None = None, gate: str = "") -> Tensor:
        """Returns the joined outputs for x, normalized; then ``gate`` joins two halves, and ``residual`` is added."""
        if len(self.matrices) == 1 and not len(self.adapters):
            whole: Tensor = self.matrices[0](x, self.bias, norm, residual, gate)
            return whole
        x = x if norm is None else norm(x)
        parts = [matrix(x) for matrix in self.matrices]
        y = parts[0] if len(parts) == 1 else ag.cat(parts, axis=-1)
        y = y if self.bias is None else ag.add(y, self.bias)
        if len(self.adapters):
            parts = list(ag.split(y, list(self.sizes.values()), axis=-1)) if len(self.sizes) > 1 else [y]
            for at, name in enumerate(self.sizes):
                if name in self.adapters:
                    parts[at] = ag.add(parts[at], self.adapters[name](x))
            y = ag.cat(parts, axis=-1) if len(parts) > 1 else parts[0]
        return _finished(y, gate, residual)

    def replace(self, weights: Sequence[Weight]) -> None:
        """Puts other weights, one for each layer, in place of its own."""
        self.matrices = nn.ModuleList(_Matrix(weight) for weight in _joined(weights))

    def tensors(self) -> Iterator[tuple[str, Weight]]:
        """Returns the weights and biases of its layers by their names, without adapters."""
        first, at = 0, 0
        for name, rows in self.sizes.items():
            if first == self.matrices[at].shape[0]:
                first, at = 0, at + 1
            yield f"{self.prefix}.{name}.weight", self.matrices[at].rows(first, rows)
            first += rows
        first = 0
        for name, rows in self.sizes.items() if self.bias is not None else ():
            yield f"{self.prefix}.{name}.bias", ag.narrow(self.bias.detach(), 0, first, rows)
            first += rows

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={rows}" for name, rows in self.sizes.items())


def _joined(weights: Sequence[Weight]) -> list[Weight]:
    """Returns the matrices with neighbours of one kind joined by rows."""
    groups: list[list[Weight]] = []
    for weight in weights:
        kind = getattr(weight, "format", None)
        if groups and getattr(groups[-1][0], "format", None) == kind:
            groups[-1].append(weight)
        else:
            groups.append([weight])
    return [group[0] if len(group) == 1 else _stacked(group) for group in groups]


def _stacked(group: Sequence[Any]) -> Weight:
    first = group[0]
    if not isinstance(first, PackedTensor):
        return ag.cat([weight.detach() for weight in group], axis=0)
    parts = [ag.cat(list(parts), axis=0) for parts in zip(*(weight.parts for weight in group))]
    return PackedTensor(parts, (sum(weight.shape[0] for weight in group), first.shape[1]), first.format)


class _Norm(nn.Module):
    """x / sqrt(mean(x^2) + eps) times weight + offset, over the last axis."""

    name: str
    size: int
    eps: float
    offset: float

    def __init__(self, source: Source, name: str, size: int, config: Config) -> None:
        super().__init__()
        self.name, self.size, self.eps, self.offset = name, size, config.norm_eps, config.norm_offset
        self.weight: nn.Parameter = nn.Parameter(source(f"{name}.weight", (size,)))

    @property
    def scale(self) -> Tensor:
        """The weight that x is multiplied by."""
        return ag.add(self.weight, self.offset) if self.offset else self.weight

    def forward(self, x: Tensor) -> Tensor:
        return ag.rms_norm(x, (self.size,), self.scale, eps=self.eps)


class _Angles:
    """Cosines and sines of positions (..., T, dim / 2), and the mask, of the layers of one kind."""

    def __init__(self, decoder: Decoder, rope: Rope, places: Tensor, mask: Tensor | None) -> None:
        queue, dtype = places.queue, decoder.dtype
        steps = decoder.made((rope, id(queue)), queue, lambda: rope.frequencies().astype(np.float32))
        angles = ag.mul(ag.unsqueeze(ag.cast(places, dtype="float32"), -1), steps)
        if places.ndim == 2:
            angles = ag.unsqueeze(angles, 1)
        cosine, sine = ag.cos(angles), ag.sin(angles)
        if rope.scale != 1.0:
            cosine, sine = ag.mul(cosine, rope.scale), ag.mul(sine, rope.scale)
        self.dim, self.mask = rope.dim, mask
        self.cosine, self.sine = ag.cast(cosine, dtype=dtype), ag.cast(sine, dtype=dtype)

    def turn(self, x: Tensor) -> Tensor:
        """Returns x (N, heads, T, D) turned by its positions: pairs are (i, i + dim / 2)."""
        half, rest = self.dim // 2, x.shape[-1] - self.dim
        a, b = ag.narrow(x, -1, 0, half), ag.narrow(x, -1, half, half)
        turned = [
            ag.sub(ag.mul(a, self.cosine), ag.mul(b, self.sine)),
            ag.add(ag.mul(b, self.cosine), ag.mul(a, self.sine)),
        ]
        return ag.cat([*turned, ag.narrow(x, -1, self.dim, rest)] if rest else turned, axis=-1)


class _Turns(NamedTuple):
    """Of one new token of each row: the cosines and sines of all places, the window (0: none), and the cache."""

    table: Tensor
    window: int
    cache: Cache


class _Attention(nn.Module):
    def __init__(self, source: Source, name: str, config: Config) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.scale, self.cap = config.query_scale, config.score_cap
        size, rows, kv_rows = config.hidden_size, config.heads * config.head_dim, config.kv_heads * config.head_dim
        sizes = {"q_proj": rows, "k_proj": kv_rows, "v_proj": kv_rows}
        self.qkv = Projection(source, name, size, sizes, config.qkv_bias)
        self.out = Projection(source, name, rows, {"o_proj": size}, config.out_bias)
        self.q_norm = self.k_norm = None
        if config.qk_norm:
            self.q_norm = _Norm(source, f"{name}.q_norm", config.head_dim, config)
            self.k_norm = _Norm(source, f"{name}.k_norm", config.head_dim, config)

    def forward(
        self,
        x: Tensor,
        norm: _Norm,
        residual: Tensor | None,
        angles: _Angles | _Turns,
        layer: int = 0,
        cache: Extension | None = None,
    ) -> Tensor:
        n, t, _ = x.shape
        y = self.qkv(x, norm)
        if isinstance(angles, _Turns):
            y = self._of_one(ag.reshape(y, (n, -1)), angles, layer)
            return self.out(ag.reshape(y, (n, 1, -1)), residual=residual)
        y, (h, kv) = ag.reshape(y, (n, t, -1, self.head_dim)), (self.heads, self.kv_heads)
        parts = [ag.narrow(y, 2, first, count) for first, count in ((0, h), (h, kv), (h + kv, kv))]
        q, k, v = (ag.permute(part, (0, 2, 1, 3)) for part in parts)
        q = angles.turn(q if self.q_norm is None else self.q_norm(q))
        k = angles.turn(k if self.k_norm is None else self.k_norm(k))
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        y = self._attend(q if q.dtype == k.dtype else ag.cast(q, dtype=k.dtype), k, v, angles.mask)
        y = y if y.dtype == x.dtype else ag.cast(y, dtype=x.dtype)
        return self.out(ag.reshape(ag.permute(y, (0, 2, 1, 3)), (n, t, h * self.head_dim)), residual=residual)

    def _of_one(self, y: Tensor, turns: _Turns, layer: int) -> Tensor:
        """Returns the attention of one token of each row in one launch, which writes to the cache."""
        norms = [] if self.q_norm is None or self.k_norm is None else [self.q_norm.scale, self.k_norm.scale]
        eps = 1e-6 if self.q_norm is None else self.q_norm.eps
        keys, values, *scales = turns.cache.layers[layer]
        options = {"scale": self.scale, "window": turns.window, "cap": self.cap or 0.0, "eps": eps}
        attended: Tensor = ag.cached_attention(
            y, keys, values, turns.cache.used, turns.table, *scales, *norms, **options
        )
        return attended

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        grouped, cap = self.heads != self.kv_heads, self.cap
        if cap is None:
            return ag.scaled_dot_product_attention(
                q, k, v, mask, is_causal=mask is None, scale=self.scale, enable_gqa=grouped
            )
        if mask is None:
            mask = ag.causal_mask(q.shape[2], k.shape[2], queue=q.queue)
        n, _, t, d = q.shape
        scores = ag.matmul(ag.reshape(q, (n, self.kv_heads, -1, d)), k, transpose_b=True)
        scores = ag.mul(ag.reshape(scores, (n, self.heads, t, -1)), self.scale)
        scores = ag.mul(ag.tanh(ag.div(scores, cap)), cap)
        weights = ag.softmax(ag.where(mask, scores, float("-inf")))
        y = ag.matmul(ag.reshape(weights, (n, self.kv_heads, -1, k.shape[2])), v)
        return ag.reshape(y, (n, self.heads, t, d))


class _Mlp(nn.Module):
    def __init__(self, source: Source, name: str, config: Config) -> None:
        super().__init__()
        size, self.activation = config.intermediate_size, "silu" if config.activation == "silu" else "gelu"
        self.gate_up = Projection(
            source, name, config.hidden_size, {"gate_proj": size, "up_proj": size}, config.mlp_bias
        )
        self.down = Projection(source, name, size, {"down_proj": config.hidden_size}, config.mlp_bias)

    def forward(self, x: Tensor, norm: _Norm, residual: Tensor | None) -> Tensor:
        return self.down(self.gate_up(x, norm, gate=self.activation), residual=residual)


class _Block(nn.Module):
    def __init__(self, source: Source, name: str, config: Config) -> None:
        super().__init__()
        size = config.hidden_size

        def norm(part: str) -> _Norm:
            return _Norm(source, f"{name}.{part}", size, config)

        self.input_norm = norm("input_layernorm")
        self.attention = _Attention(source, f"{name}.self_attn", config)
        self.post_attention_norm = norm("post_attention_layernorm") if config.post_norms else None
        self.mlp_norm = norm("pre_feedforward_layernorm" if config.post_norms else "post_attention_layernorm")
        self.mlp = _Mlp(source, f"{name}.mlp", config)
        self.post_mlp_norm = norm("post_feedforward_layernorm") if config.post_norms else None

    def forward(self, x: Tensor, angles: _Angles | _Turns, layer: int = 0, cache: Extension | None = None) -> Tensor:
        norm = self.post_attention_norm
        y = self.attention(x, self.input_norm, x if norm is None else None, angles, layer, cache)
        x = y if norm is None else ag.add(x, norm(y))
        norm = self.post_mlp_norm
        y = self.mlp(x, self.mlp_norm, x if norm is None else None)
        return y if norm is None else ag.add(x, norm(y))


class Decoder(nn.Module):
    """A decoder-only transformer: ids (N, T) give logits (N, T, vocab_size).

    ``source`` gives the weights by the names of Hugging Face's files without "model."; None makes a new model. With
    ``checkpointing`` set to True, a training step keeps the inputs of the blocks only, and computes the rest again.
    ``cache_dtype`` is the dtype of new caches, such as float16 or Q8_0; None leaves it to the device.
    """

    def __init__(self, config: Config, source: Source | None = None) -> None:
        super().__init__()
        self.config = config
        self.checkpointing: bool = False
        self.cache_dtype: str | None = None
        self._constants: dict[Any, tuple[Tensor, Any]] = {}
        source = source or random_source()
        self.embedding: _Matrix = _Matrix(source("embed_tokens.weight", (config.vocab_size, config.hidden_size)))
        self.layers: nn.ModuleList = nn.ModuleList(
            _Block(source, f"layers.{at}", config) for at in range(config.layers)
        )
        self.norm: _Norm = _Norm(source, "norm", config.hidden_size, config)
        self.head: _Matrix | None = (
            None if config.tied else _Matrix(source("lm_head.weight", (config.vocab_size, config.hidden_size)))
        )

    @property
    def dtype(self) -> str:
        """The dtype of activations."""
        return str(self.norm.weight.dtype)

    @property
    def queue(self) -> Any:
        """The queue of the weights' device."""
        return self.norm.weight.queue

    def forward(self, ids: Tensor, cache: Cache | None = None, last: Tensor | None = None) -> Tensor:
        """Returns the logits; with a ``cache`` ids are behind its positions. ``last`` (N,), the place of one token in
        each row, gives the logits (N, vocab_size) of these alone.
        """
        x = self._blocks(ids, cache)
        if last is not None:
            places = ag.expand(ag.reshape(last, (-1, 1, 1)), (x.shape[0], 1, x.shape[2]))
            x = ag.squeeze(ag.gather(x, 1, places), 1)
        logits = (self.embedding if self.head is None else self.head)(x, norm=self.norm)
        cap = self.config.logit_cap
        return logits if cap is None else ag.mul(ag.tanh(ag.div(logits, cap)), cap)

    def states(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """Returns the states (N, T, hidden_size) behind the last norm: what the head reads."""
        return self.norm(self._blocks(ids, cache))

    def _blocks(self, ids: Tensor, cache: Cache | None) -> Tensor:
        if ids.ndim != 2 or not ids.size:
            raise ShapeError(f"Decoder: expected ids (N, T), got {ids.shape}", op="Decoder")
        x = self.embedding.embed(ids)
        x = x if x.dtype == self.dtype else ag.cast(x, dtype=self.dtype)
        if self.config.embedding_scale != 1.0:
            x = ag.mul(x, self.config.embedding_scale)
        if cache is not None and ids.shape[1] == 1 and self._is_fused(cache):
            turns = {local: self._turns(cache, local) for local in set(self.config.local)}
            for at, block in enumerate(self.layers):
                x = block(x, turns[self.config.local[at]], at)
            return x
        new = None if cache is None else cache.begin(ids.shape[1])
        angles = self._angles(ids, None if new is None or new.is_first else new)
        for at, block in enumerate(self.layers):
            kind = angles[self.config.local[at]]
            if self.checkpointing and self.training and new is None:
                x = ag.checkpoint(block, x, kind, at)
            else:
                x = block(x, kind, at, new)
        return x

    def _is_fused(self, cache: Cache) -> bool:
        """Returns if one token takes ``cached_attention``, which has no gradient."""
        wide = "float64" in (cache.dtype, self.dtype)
        return not ag.is_grad_enabled() and not wide and self.config.head_dim % 8 == 0

    def _turns(self, cache: Cache, local: bool) -> _Turns:
        rope, window = self._rope_of(local), (self.config.window or 0) if local else 0

        def values() -> np.ndarray[Any, Any]:
            angles = np.arange(cache.length, dtype=np.float32)[:, None] * rope.frequencies().astype(np.float32)
            return (np.concatenate([np.cos(angles), np.sin(angles)], 1) * rope.scale).astype(np.float32)

        return _Turns(self.made((rope, cache.length, id(cache.queue)), cache.queue, values), window, cache)

    def _rope_of(self, local: bool) -> Rope:
        return self.config.local_rope if local and self.config.local_rope is not None else self.config.rope

    def _angles(self, ids: Tensor, new: Extension | None) -> dict[bool, _Angles]:
        """Returns angles and masks of global (False) and local layers (True)."""
        count, config = ids.shape[1], self.config
        if new is None:
            places = self.made((count, id(ids.queue)), ids.queue, lambda: np.arange(count, dtype=np.int32))
            keys, queries = ag.unsqueeze(places, 0), ag.unsqueeze(places, 1)
        else:
            places, keys = new.positions, ag.reshape(new.keys, (1, 1, 1, -1))
            queries = ag.reshape(places, (-1, 1, count, 1))
        kinds = {}
        for local in set(config.local):
            rope = self._rope_of(local)
            window = config.window if local and (new is not None or count > (config.window or 0)) else None
            mask = None if new is None and window is None else ag.le(keys, queries)
            if window is not None and mask is not None:
                mask = ag.logical_and(mask, ag.gt(keys, ag.sub(queries, window)))
            kinds[local] = _Angles(self, rope, places, mask)
        return kinds

    def made(self, key: Any, queue: Any, values: Callable[[], Any]) -> Tensor:
        """Returns a constant that is made once: a captured step writes nothing from the host."""
        if key not in self._constants:
            self._constants[key] = (Tensor.from_host(queue, values(), persistent=True), queue)
        return self._constants[key][0]

    def tensors(self) -> Iterator[tuple[str, Weight]]:
        """Returns the weights by the names of Hugging Face's files without "model.", as they are stored."""
        yield "embed_tokens.weight", self.embedding.rows(0, self.embedding.shape[0])
        for module in self.modules():
            if isinstance(module, Projection):
                yield from module.tensors()
            elif isinstance(module, _Norm):
                yield f"{module.name}.weight", module.weight.detach()
        if self.head is not None:
            yield "lm_head.weight", self.head.rows(0, self.head.shape[0])


def parts_of(decoder: Decoder) -> dict[str, tuple[Projection, str]]:
    """Returns the linear layers by their names, each as the projection that has it and its name there."""
    return {
        f"{module.prefix}.{name}": (module, name)
        for module in decoder.modules()
        if isinstance(module, Projection)
        for name in module.sizes
    }
