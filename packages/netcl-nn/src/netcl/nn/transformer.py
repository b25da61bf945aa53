"""Transformer layers and stacks: encoder, decoder and both (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn import init
from netcl.nn.attention import MultiheadAttention
from netcl.nn.container import ModuleList
from netcl.nn.dropout import Dropout
from netcl.nn.layer_count import check_layers
from netcl.nn.linear import Linear
from netcl.nn.module import Module
from netcl.nn.norm import LayerNorm
from netcl.nn.registry import register

Activation = str | Callable[[Tensor], Tensor]


def _activation(name: Activation) -> Callable[[Tensor], Tensor]:
    if callable(name):
        return name
    if name not in ("relu", "gelu"):
        raise ValueError(f"activation: expected 'relu', 'gelu' or a function, got {name!r}")
    return getattr(ag, name)  # type: ignore[no-any-return]


class _Layer(Module):
    """Base class of both layers: self-attention and a two-layer MLP, each with a residual connection."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _activation(activation)
        self.d_model: int = d_model
        self.nhead: int = nhead
        self.dim_feedforward: int = dim_feedforward
        self.dropout_p: float = dropout
        self.bias: bool
        self.layer_norm_eps: float
        self.norm_first: bool
        self.batch_first: bool
        self.batch_first, self.norm_first, self.layer_norm_eps, self.bias = (
            batch_first,
            norm_first,
            layer_norm_eps,
            bias,
        )
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **place
        )
        if self.attends_twice:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias, **place)
        parts = (1, 2, 3) if self.attends_twice else (1, 2)
        for at in parts:
            setattr(self, f"norm{at}", LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        for at in parts:
            setattr(self, f"dropout{at}", Dropout(dropout))
        self.activation = activation

    attends_twice = False

    def _residual(self, at: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns x plus the part's output after dropout, with the norm before the part (pre-norm) or after the sum
        (post-norm).
        """
        norm, dropout = getattr(self, f"norm{at}"), getattr(self, f"dropout{at}")
        if self.norm_first:
            return ag.add(x, dropout(part(norm(x))))
        return norm(ag.add(x, dropout(part(x))))  # type: ignore[no-any-return]

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(_activation(self.activation)(self.linear1(x))))


def _layer_config(layer: Any) -> Mapping[str, Any]:
    names = ["d_model", "nhead", "dim_feedforward", "activation", "batch_first", "norm_first", "layer_norm_eps", "bias"]
    return {"dropout": layer.dropout_p, **{name: getattr(layer, name) for name in names}}


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear layers: src (T, N, E), (N, T, E) with ``batch_first``, or (T, E).

    Each has dropout, a residual connection and a LayerNorm after it, or before it with ``norm_first``. ``activation``:
    "relu", "gelu" or a function.
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Returns the layer's output, of the shape of ``src``; masks as in MultiheadAttention."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._residual(2, self._residual(1, src, attend), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to ``memory``, then two linear layers; see TransformerEncoderLayer."""

    attends_twice = True

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Returns the layer's output, of the shape of ``tgt``; masks as in MultiheadAttention."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def remember(x: Tensor) -> Tensor:
            options = (memory_key_padding_mask, False, memory_mask)
            return self.multihead_attn(x, memory, memory, *options, is_causal=memory_is_causal)[0]

        return self._residual(3, self._residual(2, self._residual(1, tgt, attend), remember), self._feed_forward)


class _Stack(Module):
    """``num_layers`` copies of a layer with equal initial values, and an optional norm after the last."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        check_layers("num_layers", num_layers)
        self.layers: ModuleList = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.add_module("norm", norm)

    def _normalized(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)


def _stack_config(stack: Any) -> Mapping[str, Any]:
    return {"*": [stack.layers[0], stack.num_layers, stack.norm]}


class TransformerEncoder(_Stack):
    """``num_layers`` copies of a TransformerEncoderLayer, and ``norm`` after the last.

    There are no nested tensors: ``enable_nested_tensor`` and ``mask_check`` change nothing.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor: bool = enable_nested_tensor
        self.mask_check: bool = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Returns the output of the last layer, of the shape of ``src``."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return self._normalized(src)


class TransformerDecoder(_Stack):
    """``num_layers`` copies of a TransformerDecoderLayer, and ``norm`` after the last."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Tensor, memory: Tensor, *masks: Any, **options: Any) -> Tensor:
        """Returns the output of the last layer, of the shape of ``tgt``; further arguments as in
        TransformerDecoderLayer.
        """
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, **options)
        return self._normalized(tgt)


class Transformer(Module):
    """An encoder for ``src`` and a decoder with cross-attention to it, each with a final LayerNorm:
    ``transformer(src, tgt)`` returns a tensor of the shape of ``tgt``. All matrices are initialized Xavier uniform.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.d_model: int = d_model
        self.nhead: int = nhead
        self.dim_feedforward: int = dim_feedforward
        self.dropout: float = dropout
        self.num_encoder_layers: int = num_encoder_layers
        self.num_decoder_layers: int = num_decoder_layers
        self.activation: Activation = activation
        self.batch_first: bool = batch_first
        self.norm_first: bool = norm_first
        self.layer_norm_eps: float = layer_norm_eps
        self.bias: bool = bias
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.encoder: Module = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*options, **place),
            num_encoder_layers,
            LayerNorm(d_model, layer_norm_eps, bias=bias, **place),
        )
        self.decoder: Module = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*options, **place),
            num_decoder_layers,
            LayerNorm(d_model, layer_norm_eps, bias=bias, **place),
        )
        self._custom = (custom_encoder is not None, custom_decoder is not None)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    @property
    def custom_encoder(self) -> Module | None:
        """The encoder, if it was given."""
        return self.encoder if self._custom[0] else None

    @property
    def custom_decoder(self) -> Module | None:
        """The decoder, if it was given."""
        return self.decoder if self._custom[1] else None

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Returns the decoder's output; masks as in MultiheadAttention."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        paddings = (tgt_key_padding_mask, memory_key_padding_mask)
        masks = (tgt_mask, memory_mask, *paddings, tgt_is_causal, memory_is_causal)
        decoded: Tensor = self.decoder(tgt, memory, *masks)
        return decoded

    @staticmethod
    def generate_square_subsequent_mask(size: int, queue: Any = None) -> Tensor:
        """Returns a floating mask (size, size), -inf if the key is after the query's position, else 0."""
        return ag.where(ag.causal_mask(size, queue=queue), 0.0, float("-inf"))


for _layer in (TransformerEncoderLayer, TransformerDecoderLayer):
    register(_layer, _layer_config)
for _stack in (TransformerEncoder, TransformerDecoder):
    register(_stack, _stack_config)
register(Transformer)
