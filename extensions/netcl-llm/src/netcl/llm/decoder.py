"""Decoder, the one model of all families: embedding, blocks of attention and MLP, norm and head, by its Config.

Its layers are modules of netcl.nn and train. A matrix is a parameter or a PackedTensor, which is constant. Matrices
that read the same input are joined by rows where their kinds agree, so that a step has fewer launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
# Gives the weight of a name and a shape; a new model's is random.
Source = Callable[[str, tuple[int, ...]], Weight]
_STD = 0.02


def random_source(device: Any = None, dtype: str = "float32") -> Source:
    """Returns the source of a new model: normal matrices, norms of ones, biases of zeros."""
    queue = nn.Linear(1, 1, device=device).weight.queue

    def source(name: str, shape: tuple[int, ...]) -> Tensor:
        if name.endswith("bias"):
            return Tensor.zeros(shape, dtype, queue=queue)
        if len(shape) == 1:
            return Tensor.full(shape, 1.0, dtype, queue=queue)
        return ag.mul(ag.randn(shape, dtype=dtype, queue=queue), _STD)

    return source


class _Matrix(nn.Module):
    """A matrix (rows, columns): the parameter ``weight``, or ``packed``."""

    def __init__(self, value: Weight) -> None:
        super().__init__()
        self.packed: PackedTensor | None = value if isinstance(value, PackedTensor) else None
        self.register_parameter("weight", None if isinstance(value, PackedTensor) else nn.Parameter(value))
        self.shape: tuple[int, ...] = tuple(value.shape)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        if self.packed is not None:
            return ag.packed_linear(x, self.packed, bias)
        return ag.linear(x, self.weight, bias)

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
    """A change of ``rank`` of a linear layer: alpha / rank times B A x, with lora_A (rank, columns), lora_B (rows, rank)."""

    def __init__(self, columns: int, rows: int, rank: int, alpha: float, dropout: float = 0.0, device: Any = None) -> None:
        super().__init__()
        self.rank, self.alpha, self.dropout, self.scale = rank, alpha, dropout, alpha / rank
        self.lora_A = nn.Linear(columns, rank, bias=False, device=device)
        self.lora_B = nn.Linear(rank, rows, bias=False, device=device)
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

    def __init__(self, source: Source, prefix: str, columns: int, sizes: Mapping[str, int], bias: bool = False) -> None:
        super().__init__()
        self.prefix, self.columns, self.sizes = prefix, columns, dict(sizes)
        weights = [source(f"{prefix}.{name}.weight", (rows, columns)) for name, rows in sizes.items()]
        self.matrices = nn.ModuleList(_Matrix(weight) for weight in _joined(weights))
        biases = [source(f"{prefix}.{name}.bias", (rows,)) for name, rows in sizes.items()] if bias else []
        joined = (biases[0] if len(biases) == 1 else ag.cat(biases, axis=0)) if bias else None
        self.register_parameter("bias", None if joined is None else nn.Parameter(joined))
        self.adapters = nn.ModuleDict({})

    def forward(self, x: Tensor) -> Tensor:
        if len(self.matrices) == 1:
            y = self.matrices[0](x, self.bias)
        else:
            y = ag.cat([matrix(x) for matrix in self.matrices], axis=-1)
            y = y if self.bias is None else ag.add(y, self.bias)
        if not len(self.adapters):
            return y
        parts = list(ag.split(y, list(self.sizes.values()), axis=-1)) if len(self.sizes) > 1 else [y]
        for at, name in enumerate(self.sizes):
            if name in self.adapters:
                parts[at] = ag.add(parts[at], self.adapters[name](x))
        return ag.cat(parts, axis=-1) if len(parts) > 1 else parts[0]

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

    def __init__(self, source: Source, name: str, size: int, config: Config) -> None:
        super().__init__()
        self.name, self.size, self.eps, self.offset = name, size, config.norm_eps, config.norm_offset
        self.weight = nn.Parameter(source(f"{name}.weight", (size,)))

    def forward(self, x: Tensor) -> Tensor:
        weight = ag.add(self.weight, self.offset) if self.offset else self.weight
        return ag.rms_norm(x, (self.size,), weight, eps=self.eps)


class _Angles:
    """Cosines and sines of positions (..., T, dim / 2), and the mask, of the layers of one kind."""

    def __init__(self, rope: Rope, steps: Tensor, places: Tensor, mask: Tensor | None, dtype: str) -> None:
        angles = ag.mul(ag.unsqueeze(ag.cast(places, dtype="float32"), -1), steps)
        if places.ndim == 2:
            angles = ag.unsqueeze(angles, 1)
        cosine, sine = ag.cos(angles), ag.sin(angles)
        if rope.scale != 1.0:
            cosine, sine = ag.mul(cosine, rope.scale), ag.mul(sine, rope.scale)
        self.cosine, self.sine = ag.cast(cosine, dtype=dtype), ag.cast(sine, dtype=dtype)
        self.dim, self.mask = rope.dim, mask

    def turn(self, x: Tensor) -> Tensor:
        """Returns x (N, heads, T, D) turned by its positions: pairs are (i, i + dim / 2)."""
        half, rest = self.dim // 2, x.shape[-1] - self.dim
        a, b = ag.narrow(x, -1, 0, half), ag.narrow(x, -1, half, half)
        turned = [
            ag.sub(ag.mul(a, self.cosine), ag.mul(b, self.sine)),
            ag.add(ag.mul(b, self.cosine), ag.mul(a, self.sine)),
        ]
        return ag.cat([*turned, ag.narrow(x, -1, self.dim, rest)] if rest else turned, axis=-1)


class _Attention(nn.Module):
    def __init__(self, source: Source, name: str, config: Config) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.scale, self.cap = config.query_scale, config.score_cap
        q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
        sizes = {"q_proj": q, "k_proj": kv, "v_proj": kv}
        self.qkv = Projection(source, name, config.hidden_size, sizes, config.qkv_bias)
        self.out = Projection(source, name, q, {"o_proj": config.hidden_size}, config.out_bias)
        self.q_norm = self.k_norm = None
        if config.qk_norm:
            self.q_norm = _Norm(source, f"{name}.q_norm", config.head_dim, config)
            self.k_norm = _Norm(source, f"{name}.k_norm", config.head_dim, config)

    def forward(self, x: Tensor, angles: _Angles, layer: int = 0, cache: Extension | None = None) -> Tensor:
        n, t, _ = x.shape
        h, kv, d = self.heads, self.kv_heads, self.head_dim
        y = self.qkv(x)
        # With one token the axes of heads and tokens change places by the shape alone.
        if t == 1:
            y = ag.reshape(y, (n, h + 2 * kv, 1, d))
        else:
            y = ag.permute(ag.reshape(y, (n, t, h + 2 * kv, d)), (0, 2, 1, 3))
        v = ag.narrow(y, 1, h + kv, kv)
        if self.q_norm is None or self.k_norm is None:
            turned = angles.turn(ag.narrow(y, 1, 0, h + kv))
            q, k = ag.narrow(turned, 1, 0, h), ag.narrow(turned, 1, h, kv)
        else:
            q = angles.turn(self.q_norm(ag.narrow(y, 1, 0, h)))
            k = angles.turn(self.k_norm(ag.narrow(y, 1, h, kv)))
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        y = self._attend(q if q.dtype == k.dtype else ag.cast(q, dtype=k.dtype), k, v, angles.mask)
        y = y if y.dtype == x.dtype else ag.cast(y, dtype=x.dtype)
        if t > 1:
            y = ag.permute(y, (0, 2, 1, 3))
        return self.out(ag.reshape(y, (n, t, h * d)))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if self.cap is None:
            grouped = self.heads != self.kv_heads
            return ag.scaled_dot_product_attention(
                q, k, v, mask, is_causal=mask is None, scale=self.scale, enable_gqa=grouped
            )
        times = self.heads // self.kv_heads
        k, v = (ag.repeat(x, times, 1) if times > 1 else x for x in (k, v))
        scores = ag.mul(ag.matmul(q, k, transpose_b=True), self.scale / self.cap)
        scores = ag.mul(ag.tanh(scores), self.cap)
        if mask is None:
            mask = ag.causal_mask(q.shape[2], k.shape[2], queue=q.queue)
        return ag.matmul(ag.softmax(ag.where(mask, scores, float("-inf"))), v)


class _Mlp(nn.Module):
    def __init__(self, source: Source, name: str, config: Config) -> None:
        super().__init__()
        size, self.activation = config.intermediate_size, config.activation
        self.gate_up = Projection(
            source, name, config.hidden_size, {"gate_proj": size, "up_proj": size}, config.mlp_bias
        )
        self.down = Projection(source, name, size, {"down_proj": config.hidden_size}, config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = ag.chunk(self.gate_up(x), 2, axis=-1)
        gate = ag.silu(gate) if self.activation == "silu" else ag.gelu(gate, approximate="tanh")
        return self.down(ag.mul(gate, up))


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

    def forward(self, x: Tensor, angles: _Angles, layer: int = 0, cache: Extension | None = None) -> Tensor:
        y = self.attention(self.input_norm(x), angles, layer, cache)
        x = ag.add(x, y if self.post_attention_norm is None else self.post_attention_norm(y))
        y = self.mlp(self.mlp_norm(x))
        return ag.add(x, y if self.post_mlp_norm is None else self.post_mlp_norm(y))


class Decoder(nn.Module):
    """A decoder-only transformer: ids (N, T) give logits (N, T, vocab_size).

    ``source`` gives the weights by the names of Hugging Face's files without "model."; None makes a new model. With
    ``checkpointing`` set to True, a training step keeps the inputs of the blocks only, and computes the rest again.
    """

    def __init__(self, config: Config, source: Source | None = None) -> None:
        super().__init__()
        self.config = config
        self.checkpointing: bool = False
        self._constants: dict[Any, tuple[Tensor, Any]] = {}
        source = source or random_source()
        self.embedding = _Matrix(source("embed_tokens.weight", (config.vocab_size, config.hidden_size)))
        self.layers = nn.ModuleList(_Block(source, f"layers.{at}", config) for at in range(config.layers))
        self.norm = _Norm(source, "norm", config.hidden_size, config)
        self.head = (
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
        x = self.states(ids, cache)
        if last is not None:
            places = ag.expand(ag.reshape(last, (-1, 1, 1)), (x.shape[0], 1, x.shape[2]))
            x = ag.squeeze(ag.gather(x, 1, places), 1)
        logits = (self.embedding if self.head is None else self.head)(x)
        cap = self.config.logit_cap
        return logits if cap is None else ag.mul(ag.tanh(ag.div(logits, cap)), cap)

    def states(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """Returns the states (N, T, hidden_size) behind the last norm: what the head reads."""
        if ids.ndim != 2 or not ids.size:
            raise ShapeError(f"Decoder: expected ids (N, T), got {ids.shape}", op="Decoder")
        x = self.embedding.embed(ids)
        x = x if x.dtype == self.dtype else ag.cast(x, dtype=self.dtype)
        if self.config.embedding_scale != 1.0:
            x = ag.mul(x, self.config.embedding_scale)
        new = None if cache is None else cache.begin(ids.shape[1])
        angles = self._angles(ids, new)
        for at, block in enumerate(self.layers):
            kind = angles[self.config.local[at]]
            if self.checkpointing and self.training and new is None:
                x = ag.checkpoint(block, x, kind, at)
            else:
                x = block(x, kind, at, new)
        return self.norm(x)

    def _angles(self, ids: Tensor, new: Extension | None) -> dict[bool, _Angles]:
        """Returns angles and masks of global (False) and local layers (True)."""
        count, config = ids.shape[1], self.config
        if new is None:
            places = self._range(count, ids.queue)
            keys, queries = ag.unsqueeze(places, 0), ag.unsqueeze(places, 1)
        else:
            places, keys = new.positions, ag.reshape(new.keys, (1, 1, 1, -1))
            queries = ag.reshape(places, (-1, 1, count, 1))
        kinds = {}
        for local in set(config.local):
            rope = config.local_rope if local and config.local_rope is not None else config.rope
            windowed = local and config.window is not None and (new is not None or count > config.window)
            mask = None if new is None and not windowed else ag.le(keys, queries)
            if windowed and mask is not None:
                mask = ag.logical_and(mask, ag.gt(keys, ag.sub(queries, config.window)))
            kinds[local] = _Angles(rope, self._steps(rope, ids.queue), places, mask, self.dtype)
        return kinds

    def _range(self, count: int, queue: Any) -> Tensor:
        return self._made((count, id(queue)), queue, lambda: np.arange(count, dtype=np.int32))

    def _steps(self, rope: Rope, queue: Any) -> Tensor:
        """Returns the angle per position of each pair."""
        return self._made((rope, id(queue)), queue, lambda: rope.frequencies().astype(np.float32))

    def _made(self, key: Any, queue: Any, values: Callable[[], Any]) -> Tensor:
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
