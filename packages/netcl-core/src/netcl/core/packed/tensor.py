"""PackedTensor: a constant matrix in a packed format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.engine.packed_formats import Format, format_of
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.ops_table.dispatch import call
from netcl.core.tensor import Tensor
from netcl.core.tensor.tensor import queue_of


class PackedTensor:
    """A matrix (rows, columns) of numbers in a packed format, constant, on a device.

    ``parts`` are its fields, a tensor (rows, elements) each, so that kernels read quants and scales separately. Blocks
    are along the columns. ``to_blocks`` gives the bytes that ``from_blocks`` took.
    """

    def __init__(self, parts: Sequence[Tensor], shape: Sequence[int], format: str) -> None:
        self.row: Format = format_of(format)
        self.parts: tuple[Tensor, ...] = tuple(parts)
        self.shape: tuple[int, int] = _shape(shape, self.row)

    @classmethod
    def from_blocks(cls, blocks: Any, shape: Sequence[int], format: str, device: Any = None) -> PackedTensor:
        """Returns the matrix of ``shape`` that has these blocks, bytes or an array of uint8 in the order of GGUF.
        Raises ShapeError if the columns are no whole blocks, or if the length does not fit.
        """
        row = format_of(format)
        rows, columns = _shape(shape, row)
        data = np.frombuffer(blocks, np.uint8) if not isinstance(blocks, np.ndarray) else blocks.reshape(-1)
        if data.dtype != np.uint8:
            raise ArgumentError(f"from_blocks: expected bytes or an array of uint8, got {data.dtype}")
        expected = rows * columns // row.block * row.nbytes
        if data.size != expected:
            raise ShapeError(
                f"from_blocks: expected {expected:,} bytes for {rows} x {columns} numbers of {format}, "
                f"got {data.size:,}"
            )
        queue = queue_of(device)
        parts = [Tensor.from_host(queue, part, persistent=True) for part in row.parts(data, rows, columns)]
        return cls(parts, (rows, columns), format)

    @property
    def format(self) -> str:
        """The name of the format."""
        return self.row.name

    @property
    def device(self) -> Any:
        """The device of the parts."""
        return self.parts[0].device

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(part.nbytes for part in self.parts)

    def to_blocks(self) -> np.ndarray[Any, Any]:
        """Returns the blocks in the order of GGUF, an array of uint8."""
        return self.row.blocks([part.numpy() for part in self.parts])

    def unpack(self, dtype: Any = "float32") -> Tensor:
        """Returns the numbers (rows, columns) as a tensor."""
        result: Tensor = call("packed_unpack", *self.parts, format=self.format, dtype=dtype)
        return result

    def rows(self, ids: Tensor, dtype: Any = "float32") -> Tensor:
        """Returns the numbers of the rows ``ids``, (*ids.shape, columns): an embedding."""
        flat = call("reshape", ids, (-1,))
        chosen = [call("index_select", part, 0, flat) for part in self.parts]
        result = call("packed_unpack", *chosen, format=self.format, dtype=dtype)
        return call("reshape", result, (*ids.shape, self.shape[1]))  # type: ignore[no-any-return]

    def to(self, device: Any) -> PackedTensor:
        """Returns the matrix on ``device``."""
        return PackedTensor([part.to(device) for part in self.parts], self.shape, self.format)

    def __repr__(self) -> str:
        """Returns its shape, format and device."""
        return f"PackedTensor(shape={self.shape}, format={self.format!r}, device={str(self.device)!r})"


def _shape(shape: Sequence[int], row: Format) -> tuple[int, int]:
    sizes = tuple(int(size) for size in shape)
    if len(sizes) != 2 or min(sizes) < 0:
        raise ShapeError(f"{row.name}: expected the shape of a matrix, (rows, columns), got {sizes}", op="packed")
    if sizes[1] % row.block:
        raise ShapeError(
            f"{row.name}: expected columns in whole blocks of {row.block}, got {sizes[1]}; pad them with zeros",
            op="packed",
        )
    return sizes[0], sizes[1]
