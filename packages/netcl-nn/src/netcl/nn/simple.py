"""MLP, a small model for first experiments."""

from __future__ import annotations

from netcl.core import Tensor
from netcl.nn.activation import ReLU
from netcl.nn.container import Sequential
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
