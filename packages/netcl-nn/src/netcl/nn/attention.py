"""Multi-head attention, and rotary position embedding as a layer."""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import functional, heads, init
from netcl.nn.linear import Linear
from netcl.nn.module import Module, check_precision
from netcl.nn.placement import new_parameter
from netcl.nn.unbind import unbind


class HeadsError(ShapeError, AssertionError):
    """The number of heads does not divide the length of the embedding, or inputs do not fit the layer."""


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(D)) v for each of ``num_heads`` heads of D = embed_dim / num_heads, concatenated and
    projected (Vaswani et al. 2017).

    ``attention(query, key, value)`` returns (output, weights). query (L, N, E), key (S, N, kdim), value (S, N, vdim),
    batch first with ``batch_first``, or without N; the output has the shape of the query, the weights have (N, L, S).
    Parameters: in_proj_weight (3 E, E), or q_proj_weight (E, E), k_proj_weight (E, kdim) and v_proj_weight (E, vdim) if
    kdim or vdim differ; in_proj_bias (3 E,); with ``add_bias_kv`` bias_k and bias_v (1, 1, E), one key and value more;
    out_proj, a Linear. Projection weights are initialized Xavier uniform, bias_k and bias_v Xavier normal, other biases
    with zeros. ``add_zero_attn`` appends a key and a value of zeros.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise HeadsError(f"num_heads={num_heads} does not divide embed_dim={embed_dim}")
        self.embed_dim: int = embed_dim
        self.num_heads: int = num_heads
        self.dropout: float = dropout
        self.bias: bool = bias
        self.batch_first: bool = batch_first
        self.add_bias_kv: bool = add_bias_kv
        self.add_zero_attn: bool = add_zero_attn
        self.kdim: int = embed_dim if kdim is None else kdim
        self.vdim: int = embed_dim if vdim is None else vdim
        shapes: dict[str, tuple[int, ...] | None] = dict.fromkeys(
            ("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_weight")
        )
        if self.kdim == self.vdim == embed_dim:
            shapes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        else:
            sizes = (embed_dim, self.kdim, self.vdim)
            shapes.update({f"{name}_proj_weight": (embed_dim, size) for name, size in zip("qkv", sizes)})
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        shapes["bias_k"] = shapes["bias_v"] = (1, 1, embed_dim) if add_bias_kv else None
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else new_parameter(shape, device, dtype))
        self.out_proj: Linear = Linear(embed_dim, embed_dim, bias, device=device, dtype=dtype)
        self._reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes the projection weights again and sets all biases to zero."""
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in self.parameters(recurse=False):
            (init.zeros_, init.xavier_uniform_, init.xavier_normal_)[parameter.ndim - 1](parameter)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns output and weights. The weights are averaged over the heads; without ``average_attn_weights`` they
        have the shape (N, heads, L, S), without ``need_weights`` they are None (faster).

        Masks are bool, True for hidden keys, or floating, added to the scores: ``attn_mask`` (L, S) or (N * heads, L,
        S), ``key_padding_mask`` (N, S). ``is_causal`` says that ``attn_mask`` is causal; without weights and padding
        the mask itself is then not read. A query with all keys hidden gives the projection of zeros. Raises
        RuntimeError for ``is_causal`` without ``attn_mask``.
        """
        heads.check_hint(is_causal, attn_mask, "MultiheadAttention")
        self._check(query, key, value)
        single = query.ndim == 2
        if self.add_bias_kv or self.add_zero_attn:
            masks = (key_padding_mask, need_weights, attn_mask)
            return self._with_more_keys((query, key, value), masks, average_attn_weights)
        same = query is key and key is value
        if single:
            query, key, value = (ag.unsqueeze(x, 0 if self.batch_first else 1) for x in (query, key, value))
        q, k, v = self._heads(query) if same and self.in_proj_weight is not None else self._each(query, key, value)
        sizes = (*q.shape[:3], k.shape[2])
        causal = is_causal and key_padding_mask is None and not need_weights
        mask = heads.hidden(None if causal else attn_mask, key_padding_mask, sizes, "MultiheadAttention")
        dropout = self.dropout if self.training else 0.0
        y, weights = heads.attend(q, k, v, mask, causal, need_weights, dropout)
        if weights is not None and average_attn_weights:
            weights = ag.mean(weights, axis=1)
        # (N, heads, L, D) to (N, L, E) or (L, N, E)
        y = ag.permute(y, (0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3))
        y = self.out_proj(ag.reshape(y, query.shape))
        if single:
            axis = 0 if self.batch_first else 1
            return ag.squeeze(y, axis), None if weights is None else ag.squeeze(weights, 0)
        return y, weights

    def _with_more_keys(
        self, inputs: tuple[Tensor, Tensor, Tensor], masks: tuple[Any, Any, Any], average: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the result with ``bias_k`` and ``bias_v``, or zeros, as keys and values after the given ones."""
        batched = self.batch_first and inputs[0].ndim == 3
        query, key, value = (ag.transpose(x, 0, 1) if batched else x for x in inputs)
        key_padding_mask, need_weights, attn_mask = masks
        y, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            self.in_proj_weight is None,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average,
        )
        return (ag.transpose(y, 0, 1) if batched else y), weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for x in (query, key, value):
            check_precision(self, x, self.out_proj.weight)
        at = 0 if self.batch_first else 1
        rank = query.ndim
        fits = (
            rank in (2, 3)
            and key.ndim == value.ndim == rank
            and (query.shape[-1], key.shape[-1], value.shape[-1]) == (self.embed_dim, self.kdim, self.vdim)
            and key.shape[:-1] == value.shape[:-1]
            and (rank == 2 or query.shape[at] == key.shape[at])
        )
        if not fits:
            axes = "(N, {}, {})" if self.batch_first else "({}, N, {})"
            query_axes, key_axes, value_axes = (
                axes.format(*each) for each in (("L", self.embed_dim), ("S", self.kdim), ("S", self.vdim))
            )
            raise HeadsError(
                f"MultiheadAttention of {self.num_heads} heads takes query {query_axes}, key {key_axes}, value "
                f"{value_axes}, or each without N; not {query.shape}, {key.shape}, {value.shape}",
                op="MultiheadAttention",
            )

    def _heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """Returns queries, keys and values, each (N, heads, length, D), by one product for a single input tensor."""
        y = ag.linear(x, self.in_proj_weight, self.in_proj_bias)
        y = ag.reshape(y, (*x.shape[:2], 3, self.num_heads, -1))
        return unbind(ag.permute(y, (2, 0, 3, 1, 4) if self.batch_first else (2, 1, 3, 0, 4)))

    def _each(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        weights: tuple[Tensor, ...]
        if self.in_proj_weight is None:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        else:
            weights = unbind(ag.reshape(self.in_proj_weight, (3, self.embed_dim, self.embed_dim)))
        bias = self.in_proj_bias
        biases = (None, None, None) if bias is None else unbind(ag.reshape(bias, (3, self.embed_dim)))
        order = (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)
        made = []
        for x, weight, bias in zip(inputs, weights, biases):
            y = ag.reshape(ag.linear(x, weight, bias), (*x.shape[:2], self.num_heads, -1))
            made.append(ag.permute(y, order))
        return tuple(made)

    def multiply_adds(self, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> int:
        """Counts multiply-adds of the input projections and both attention products (the output projection is counted
        separately).
        """
        rows = [x.size // x.shape[-1] for x in (query, key, value)]
        batch = query.shape[0 if self.batch_first else 1] if query.ndim == 3 else 1
        products = self.embed_dim * (rows[0] * self.embed_dim + rows[1] * self.kdim + rows[2] * self.vdim)
        return products + 2 * self.embed_dim * rows[0] * rows[1] // batch


class RotaryEmbedding(Module):
    """Rotates queries and keys (..., T, dim) by their positions, so that their product depends on the distance only (Su
    et al. 2021); without parameters. ``rotary(x, positions=None)`` calls ``ag.rope``.
    """

    def __init__(self, dim: int, base: float = 10000, interleaved: bool = False) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise ValueError(f"dim={dim} is not even and positive")
        self.dim: int = dim
        self.base: float = base
        self.interleaved: bool = interleaved

    def forward(self, x: Tensor, positions: Any = None) -> Tensor:
        if x.ndim < 2 or x.shape[-1] != self.dim:
            raise ShapeError(f"{self!r}: expected x (..., T, {self.dim}), got {x.shape}", op="RotaryEmbedding")
        return ag.rope(x, positions, base=float(self.base), interleaved=self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.dim}, base={self.base}" + (", interleaved=True" if self.interleaved else "")
