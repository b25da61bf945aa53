"""MLP and TableMLP, small models for first experiments and for tables."""

from __future__ import annotations

from collections.abc import Sequence

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn.activation import ReLU
from netcl.nn.container import ModuleList, Sequential
from netcl.nn.dropout import Dropout
from netcl.nn.embedding import Embedding
from netcl.nn.linear import Linear
from netcl.nn.module import Module
from netcl.nn.registry import register


@register
class MLP(Module):
    """``num_hidden_layers`` times Linear and activation, then Linear: (..., input_dim) gives (..., output_dim)."""

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        output_dim: int,
        num_hidden_layers: int = 1,
        activation: type[Module] = ReLU,
    ) -> None:
        super().__init__()
        self.input_dim, self.hidden_dim, self.output_dim = input_dim, hidden_dim, output_dim
        self.num_hidden_layers, self.activation = num_hidden_layers, activation
        widths = [input_dim, *[hidden_dim] * num_hidden_layers]
        hidden = [part for a, b in zip(widths, widths[1:]) for part in (Linear(a, b), activation())]
        self.layers = Sequential(*hidden, Linear(widths[-1], output_dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


@register
class TableMLP(Module):
    """The rows of a table: numbers (N, inputs) and ids (N, len(embeddings)), give (N, outputs).

    Each category has an Embedding of (rows, dimensions); its vector joins the numbers. ``hidden`` are the widths of the
    layers between, each Linear, ReLU and Dropout.

    >>> model = TableMLP(4, 3, hidden=[16], embeddings=[(7, 2)])
    >>> model.layers[0].in_features
    6
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int] = (64, 64),
        embeddings: Sequence[tuple[int, int]] = (),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs, self.outputs, self.hidden, self.dropout = inputs, outputs, list(hidden), dropout
        self.embeddings = [(int(rows), int(dimensions)) for rows, dimensions in embeddings]
        self.vectors = ModuleList([Embedding(rows, dimensions) for rows, dimensions in self.embeddings])
        widths = [inputs + sum(dimensions for _, dimensions in self.embeddings), *self.hidden]
        between = [
            part
            for a, b in zip(widths, widths[1:])
            for part in (Linear(a, b), ReLU(), *([Dropout(dropout)] if dropout else []))
        ]
        self.layers = Sequential(*between, Linear(widths[-1], outputs))

    def forward(self, numbers: Tensor, ids: Tensor | None = None) -> Tensor:
        if (ids is None) == bool(self.embeddings):
            expected = f"ids (N, {len(self.embeddings)})" if self.embeddings else "no ids"
            raise ShapeError(f"TableMLP with {len(self.embeddings)} embeddings takes {expected} after the numbers")
        if ids is not None:
            vectors = [vector(ids[:, place]) for place, vector in enumerate(self.vectors)]
            numbers = ag.cat([numbers, *vectors], 1)
        return self.layers(numbers)  # type: ignore[no-any-return]
