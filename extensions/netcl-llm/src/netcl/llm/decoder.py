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
# Up to so many keys, scores are sums of products in one launch; a matrix product takes two.
_FEW_KEYS = 512


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

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        if self.packed is not None:
            y: Tensor = ag.packed_linear(x, self.packed, bias)
            return y
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

    def forward(self, x: Tensor) -> Tensor:
        if len(self.matrices) == 1:
            y: Tensor = self.matrices[0](x, self.bias)
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

    name: str
    size: int
    eps: float
    offset: float

    def __init__(self, source: Source, name: str, size: int, config: Config) -> None:
        super().__init__()
        self.name, self.size, self.eps, self.offset = name, size, config.norm_eps, config.norm_offset
        self.weight: nn.Parameter = nn.Parameter(source(f"{name}.weight", (size,)))

    def forward(self, x: Tensor) -> Tensor:
        weight = ag.add(self.weight, self.offset) if self.offset else self.weight
        return ag.rms_norm(x, (self.size,), weight, eps=self.eps)


class _Angles:
    """Cosines and sines of positions (..., T, dim / 2), and the mask, of the layers of one kind.

    ``turns`` (N, 1, T, 2, 2, dim / 2) has the rotation of each pair, if a whole head turns: a sum over an axis of two
    is one launch, where halves would be copied.
    """

    def __init__(self, decoder: Decoder, rope: Rope, places: Tensor, mask: Tensor | None, whole: bool) -> None:
        queue, dtype = places.queue, decoder.dtype
        steps = decoder.made((rope, id(queue)), queue, lambda: rope.frequencies().astype(np.float32))
        angles = ag.mul(ag.unsqueeze(ag.cast(places, dtype="float32"), -1), steps)
        if places.ndim == 2:
            angles = ag.unsqueeze(angles, 1)
        cosine, sine = ag.cos(angles), ag.sin(angles)
        if rope.scale != 1.0:
            cosine, sine = ag.mul(cosine, rope.scale), ag.mul(sine, rope.scale)
        self.dim, self.mask = rope.dim, mask
        self.turns: Tensor | None = None
        if whole:
            same = decoder.made(("same", id(queue)), queue, lambda: np.eye(2, dtype=np.float32)[..., None])
            other = decoder.made(("other", id(queue)), queue, lambda: np.array([[[0], [-1]], [[1], [0]]], np.float32))
            cosine, sine = (ag.reshape(x, (*x.shape[:-1], 1, 1, x.shape[-1])) for x in (cosine, sine))
            self.turns = ag.cast(ag.add(ag.mul(cosine, same), ag.mul(sine, other)), dtype=dtype)
        else:
            self.cosine, self.sine = ag.cast(cosine, dtype=dtype), ag.cast(sine, dtype=dtype)

    def turn(self, x: Tensor) -> Tensor:
        """Returns x (N, heads, T, D) turned by its positions: pairs are (i, i + dim / 2)."""
        half, rest = self.dim // 2, x.shape[-1] - self.dim
        if self.turns is not None:
            pairs = ag.reshape(x, (*x.shape[:-1], 1, 2, half))
            return ag.reshape(ag.sum(ag.mul(pairs, self.turns), axis=-2), x.shape)
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
        size, rows, kv_rows = config.hidden_size, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q = Projection(source, name, size, {"q_proj": rows}, config.qkv_bias)
        self.k = Projection(source, name, size, {"k_proj": kv_rows}, config.qkv_bias)
        self.v = Projection(source, name, size, {"v_proj": kv_rows}, config.qkv_bias)
        self.out = Projection(source, name, rows, {"o_proj": size}, config.out_bias)
        self.q_norm = self.k_norm = None
        if config.qk_norm:
            self.q_norm = _Norm(source, f"{name}.q_norm", config.head_dim, config)
            self.k_norm = _Norm(source, f"{name}.k_norm", config.head_dim, config)

    def forward(self, x: Tensor, angles: _Angles, layer: int = 0, cache: Extension | None = None) -> Tensor:
        n, t, _ = x.shape
        q, k, v = (self._by_heads(projection(x)) for projection in (self.q, self.k, self.v))
        q = angles.turn(q if self.q_norm is None else self.q_norm(q))
        k = angles.turn(k if self.k_norm is None else self.k_norm(k))
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        y = self._attend(q if q.dtype == k.dtype else ag.cast(q, dtype=k.dtype), k, v, angles.mask)
        y = y if y.dtype == x.dtype else ag.cast(y, dtype=x.dtype)
        if t > 1:
            y = ag.permute(y, (0, 2, 1, 3))
        return self.out(ag.reshape(y, (n, t, self.heads * self.head_dim)))

    def _by_heads(self, y: Tensor) -> Tensor:
        """Returns (N, heads, T, head_dim); with one token the axes change places by the shape alone."""
        n, t, rows = y.shape
        if t == 1:
            return ag.reshape(y, (n, rows // self.head_dim, 1, self.head_dim))
        return ag.permute(ag.reshape(y, (n, t, -1, self.head_dim)), (0, 2, 1, 3))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        grouped, cap = self.heads != self.kv_heads, self.cap
        if cap is None and (q.shape[2] > 1 or mask is None or q.dtype != "float32"):
            return ag.scaled_dot_product_attention(
                q, k, v, mask, is_causal=mask is None, scale=self.scale, enable_gqa=grouped
            )
        # One query for each head: tiles of queries would compute rows that are not wanted.
        if mask is None:
            mask = ag.causal_mask(q.shape[2], k.shape[2], queue=q.queue)
        n, _, t, d = q.shape
        q = ag.reshape(q, (n, self.kv_heads, -1, d))
        if t == 1 and k.shape[2] <= _FEW_KEYS:
            scores = ag.sum(ag.mul(ag.unsqueeze(q, 3), ag.unsqueeze(k, 2)), axis=-1)
        else:
            scores = ag.matmul(q, k, transpose_b=True)
        if t > 1:
            scores = ag.reshape(scores, (n, self.heads, t, -1))
        scores = ag.mul(scores, self.scale)
        if cap is not None:
            scores = ag.mul(ag.tanh(ag.div(scores, cap)), cap)
        weights = ag.softmax(ag.where(mask, scores, float("-inf")))
        y = ag.matmul(ag.reshape(weights, (n, self.kv_heads, -1, k.shape[2])), v)
        return ag.reshape(y, (n, self.heads, t, d))


class _Mlp(nn.Module):
    def __init__(self, source: Source, name: str, config: Config) -> None:
        super().__init__()
        size, self.activation = config.intermediate_size, config.activation
        self._gate: Tensor | None = None
        self.gate_up = Projection(
            source, name, config.hidden_size, {"gate_proj": size, "up_proj": size}, config.mlp_bias
        )
        self.down = Projection(source, name, size, {"down_proj": config.hidden_size}, config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        y = self.gate_up(x)
        if not ag.is_grad_enabled():
            # A product over an axis of two is one launch, where halves would be copied.
            y = ag.reshape(y, (*y.shape[:-1], 2, -1))
            first = self._is_gate(y.queue)
            return self.down(ag.prod(ag.where(first, self._act(y), y), axis=-2))
        gate, up = ag.chunk(y, 2, axis=-1)
        return self.down(ag.mul(self._act(gate), up))

    def _act(self, x: Tensor) -> Tensor:
        return ag.silu(x) if self.activation == "silu" else ag.gelu(x, approximate="tanh")

    def _is_gate(self, queue: Any) -> Tensor:
        if self._gate is None or self._gate.queue is not queue:
            self._gate = Tensor.from_host(queue, np.array([[True], [False]]), persistent=True)
        return self._gate


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
            places = self.made((count, id(ids.queue)), ids.queue, lambda: np.arange(count, dtype=np.int32))
            keys, queries = ag.unsqueeze(places, 0), ag.unsqueeze(places, 1)
        else:
            places, keys = new.positions, ag.reshape(new.keys, (1, 1, 1, -1))
            queries = ag.reshape(places, (-1, 1, count, 1))
        kinds = {}
        for local in set(config.local):
            rope = config.local_rope if local and config.local_rope is not None else config.rope
            window = config.window if local and (new is not None or count > (config.window or 0)) else None
            mask = None if new is None and window is None else ag.le(keys, queries)
            if window is not None and mask is not None:
                mask = ag.logical_and(mask, ag.gt(keys, ag.sub(queries, window)))
            whole = new is not None and rope.dim == config.head_dim
            kinds[local] = _Angles(self, rope, places, mask, whole)
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
