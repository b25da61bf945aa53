"""GPT: a decoder-only transformer that generates tokens with a key-value cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import init
from netcl.nn.activation import GELU
from netcl.nn.container import ModuleList, Sequential
from netcl.nn.dropout import Dropout
from netcl.nn.embedding import Embedding
from netcl.nn.layer_count import check_layers
from netcl.nn.linear import Linear
from netcl.nn.module import Module
from netcl.nn.norm import LayerNorm
from netcl.nn.registry import register
from netcl.nn.unbind import unbind


class KeyValueCache:
    """Keys and values of the previous positions for each layer, in tensors (N, heads, length, D) that are allocated
    once, so that all steps of a generation have the same shapes.
    """

    def __init__(self, length: int) -> None:
        self.length: int = length
        self.used: int = 0
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, *keys_and_values: Tensor) -> tuple[Tensor, Tensor]:
        """Appends keys and values (N, heads, T, D) to ``layer``'s own and returns all; unused positions are zero."""
        if layer not in self._layers:
            k, v = (
                Tensor.zeros((*x.shape[:2], self.length, x.shape[3]), x.dtype, queue=x.queue) for x in keys_and_values
            )
            self._layers[layer] = k, v
        every = slice(None)
        for cached, x in zip(self._layers[layer], keys_and_values):
            ag.setitem(cached, (every, every, slice(self.used, self.used + x.shape[2])), x.detach())
        return self._layers[layer]

    def advance(self, count: int) -> None:
        """Advances the position after all layers have been extended."""
        self.used += count


class _CausalSelfAttention(Module):
    """Causal self-attention: x (N, T, n_embd) gives the same shape."""

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__()
        if n_embd % n_head:
            raise ValueError(f"n_head={n_head} does not divide n_embd={n_embd}")
        self.n_embd, self.n_head, self.dropout = n_embd, n_head, dropout
        self.c_attn = Linear(n_embd, 3 * n_embd)
        self.c_proj = Linear(n_embd, n_embd)
        self.resid_dropout = Dropout(dropout)

    def forward(self, x: Tensor, cache: KeyValueCache | None = None, layer: int = 0) -> Tensor:
        n, t, _ = x.shape
        products = ag.reshape(self.c_attn(x), (n, t, 3, self.n_head, -1))
        products = ag.permute(products, (2, 0, 3, 1, 4))
        dropout = self.dropout if self.training else 0.0
        q, k, v = unbind(products)
        if cache is None:
            y = ag.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        else:
            k, v = cache.extend(layer, k, v)
            mask = ag.causal_mask(t, cache.length, offset=cache.used, queue=x.queue)
            y = ag.scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout)
        y = ag.reshape(ag.permute(y, (0, 2, 1, 3)), x.shape)
        return self.resid_dropout(self.c_proj(y))


class _Block(Module):
    """Pre-norm attention and a two-layer MLP, each with a residual connection."""

    def __init__(self, n_embd: int, n_head: int, dropout: float) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(n_embd)
        self.attn = _CausalSelfAttention(n_embd, n_head, dropout)
        self.ln_2 = LayerNorm(n_embd)
        self.mlp = Sequential(
            {
                "c_fc": Linear(n_embd, 4 * n_embd),
                "gelu": GELU(),
                "c_proj": Linear(4 * n_embd, n_embd),
                "dropout": Dropout(dropout),
            }
        )

    def forward(self, x: Tensor, cache: KeyValueCache | None = None, layer: int = 0) -> Tensor:
        x = ag.add(x, self.attn(self.ln_1(x), cache, layer))
        return ag.add(x, self.mlp(self.ln_2(x)))


@register
class GPT(Module):
    """A transformer that returns the logits of the next token at each position (Radford et al. 2019): ids (N, T), T at
    most block_size, gives (N, T, vocab_size).

    Learned positions, ``n_layer`` pre-norm blocks; the token embedding is tied to the output layer. Weights are
    initialized normal with std 0.02, those before a residual addition divided by sqrt(2 n_layer), biases with zeros.
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int = 256,
        n_layer: int = 6,
        n_head: int = 6,
        n_embd: int = 384,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocab_size, self.block_size, self.n_layer = vocab_size, block_size, n_layer
        self.n_head, self.n_embd, self.dropout = n_head, n_embd, dropout
        self.wte = Embedding(vocab_size, n_embd)
        self.wpe = Embedding(block_size, n_embd)
        self.drop = Dropout(dropout)
        check_layers("n_layer", n_layer)
        self.h = ModuleList(_Block(n_embd, n_head, dropout) for _ in range(n_layer))
        self.ln_f = LayerNorm(n_embd)
        self.lm_head = Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * n_layer))
            elif parameter.ndim == 2:
                init.normal_(parameter, 0.0, 0.02)
            elif name.endswith("bias"):
                init.zeros_(parameter)

    def forward(self, ids: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Returns the logits; with a ``cache``, ids are appended to the cached positions."""
        used = 0 if cache is None else cache.used
        if ids.ndim != 2 or not ids.size or used + ids.shape[1] > self.block_size:
            behind = f" behind {used} cached ones" if used else ""
            raise ShapeError(
                f"GPT: expected ids (N, T){behind} with T up to block_size={self.block_size}, got {ids.shape}", op="GPT"
            )
        x = ag.add(self.wte(ids), ag.narrow(self.wpe.weight, 0, used, ids.shape[1]))
        x = self.drop(x)
        for layer, block in enumerate(self.h):
            x = block(x, cache, layer)
        if cache is not None:
            cache.advance(ids.shape[1])
        return self.lm_head(self.ln_f(x))

    def generate(self, ids: Any, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
        """Extends ids (N, T) by ``max_new_tokens``, each drawn from softmax(logits / temperature), from the ``top_k``
        most likely tokens if given; temperature 0 takes the most likely token.

        Computes in evaluation mode and without gradients, each position once with the key-value cache. After block_size
        tokens each step sees only the last block_size tokens, which are all computed again.
        """
        if max_new_tokens < 0 or temperature < 0 or (top_k is not None and top_k < 1):
            raise ValueError(
                f"max_new_tokens={max_new_tokens} and temperature={temperature} are 0 at least, top_k={top_k} is 1"
            )
        if not isinstance(ids, Tensor):
            ids = Tensor.from_host(self.wte.weight.queue, np.asarray(ids))
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            with ag.no_grad():
                return self._generated(ids, max_new_tokens, temperature, top_k)
        finally:
            for module, mode in modes:
                module.training = mode

    def _generated(self, ids: Tensor, count: int, temperature: float, top_k: int | None) -> Tensor:
        cache: KeyValueCache | None = KeyValueCache(min(self.block_size, ids.shape[-1] + count))
        new = ids
        parts = [ids]
        for _ in range(count):
            if cache is not None and cache.used + new.shape[1] > self.block_size:
                cache = None
            if cache is None:
                window = ag.cat(parts, axis=1)
                length = min(window.shape[1], self.block_size)
                new = ag.narrow(window, 1, window.shape[1] - length, length)
            logits = self(new, cache)
            new = self._drawn(ag.narrow(logits, 1, logits.shape[1] - 1, 1), temperature, top_k)
            parts.append(ag.cast(new, dtype=ids.dtype))
        return ag.cat(parts, axis=1)

    @staticmethod
    def _drawn(logits: Tensor, temperature: float, top_k: int | None) -> Tensor:
        """Draws one token (N, 1) from logits (N, 1, vocab) by the Gumbel-max method."""
        if temperature == 0:
            return ag.argmax(logits, axis=-1)
        logits = ag.div(ag.cast(logits, dtype="float32"), temperature)
        if top_k is not None and top_k < logits.shape[-1]:
            least = ag.amin(ag.topk(logits, top_k)[0], axis=-1, keepdims=True)
            logits = ag.where(ag.lt(logits, least), float("-inf"), logits)
        noise = ag.rand(logits.shape, queue=logits.queue)
        # Uniform numbers include 0, which has no finite logarithm.
        noise = ag.neg(ag.log(ag.neg(ag.log(ag.maximum(noise, 1e-30)))))
        return ag.argmax(ag.add(logits, noise), axis=-1)
