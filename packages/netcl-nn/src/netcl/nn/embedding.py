"""Embeddings: rows of a table by index."""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError
from netcl.nn import init
from netcl.nn.module import Module
from netcl.nn.placement import new_parameter


class Embedding(Module):
    """Row ``i`` of weight (num_embeddings, embedding_dim) for each index i: (...) gives (..., embedding_dim).

    The row ``padding_idx`` begins as zeros and gets no gradient. An index out of range: IndexError at the next host
    read.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Any = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx={padding_idx} is no row of {num_embeddings}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = new_parameter((num_embeddings, embedding_dim), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the rows anew, normal with mean 0 and standard deviation 1."""
        init.normal_(self.weight, 0.0, 1.0)
        if self.padding_idx is not None:
            keep = Tensor.arange(self.num_embeddings, queue=self.weight.queue).reshape(-1, 1) != self.padding_idx
            with ag.no_grad():
                self.weight.write(ag.where(keep, self.weight, 0.0))

    def forward(self, indices: Any) -> Tensor:
        if isinstance(indices, Tensor) and (is_floating(indices.dtype) or indices.dtype == "bool"):
            raise DTypeError(f"{self!r} takes whole numbers, not {indices.dtype}", op="Embedding")
        return ag.embedding(indices, self.weight, self.padding_idx)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
