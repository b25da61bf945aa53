"""Sequences of several lengths: packed by time step, padded to one length, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """The rows of sequences, time step by time step, longest sequence first.

    ``data``: (sum of the lengths, ...); ``batch_sizes``: int64, the number of sequences at each step;
    ``sorted_indices`` and ``unsorted_indices``: the order of the sequences and its inverse, or None.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            raise ValueError("PackedSequence takes data and batch_sizes; pack_padded_sequence makes both")
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Returns the sequences with ``data`` on another device or in another dtype."""
        data: Tensor = self.data.to(*args, **kwargs)
        moved = [None if t is None or t.queue is data.queue else t.to(data.queue) for t in self[2:]]
        kept = [old if new is None else new for old, new in zip(self[2:], moved)]
        return type(self)(data, self.batch_sizes, *kept)

    @property
    def is_cuda(self) -> bool:
        """``data.is_cuda``."""
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Returns the permutation that undoes ``permutation``; None for None."""
    if permutation is None:
        return None
    order = permutation.to_host()
    return _index(permutation, np.argsort(order, kind="stable"))


def _index(like: Tensor, values: Any) -> Tensor:
    return Tensor.from_host(like.queue, np.ascontiguousarray(values, np.int64), dtype="int64")


def _host(lengths: Any) -> np.ndarray[Any, Any]:
    return np.asarray(lengths.to_host() if isinstance(lengths, Tensor) else lengths, np.int64)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs input (T, N, ...), or (N, T, ...) with ``batch_first``, of N sequences of ``lengths``.

    Raises ValueError for lengths below 1 or, with ``enforce_sorted``, for increasing ones.
    """
    counts = _host(lengths)
    if batch_first:
        input = ag.transpose(input, 0, 1)
    steps, batch = input.shape[:2]
    if counts.shape != (batch,):
        raise ShapeError(f"pack_padded_sequence: expected {batch} lengths for {batch} sequences, got {counts.shape}")
    if batch and (counts.min() < 1 or counts.max() > steps):
        raise ValueError(f"pack_padded_sequence: expected lengths from 1 to {steps}, got {counts.tolist()}")
    order = None
    if enforce_sorted:
        if (np.diff(counts) > 0).any():
            raise ValueError(
                f"pack_padded_sequence: lengths {counts.tolist()} are not decreasing; write enforce_sorted=False"
            )
    else:
        places = np.argsort(-counts, kind="stable")
        counts, order = counts[places], _index(input, places)
        input = ag.index_select(input, 1, order)
    at = np.arange(int(counts.max(initial=0)))
    sizes = (counts[None, :] > at[:, None]).sum(1)
    rows = np.concatenate([np.arange(size) + t * batch for t, size in enumerate(sizes)] or [np.zeros(0)])
    flat = ag.reshape(input, (steps * batch, *input.shape[2:]))
    data = ag.index_select(flat, 0, _index(input, rows))
    return PackedSequence(data, _index(input, sizes), order)


def _unpacked(sequence: PackedSequence, value: float, steps: int) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Returns the padded rows (steps, N, ...), in the order of the packing, and the lengths."""
    sizes, data = _host(sequence.batch_sizes), sequence.data
    batch = int(sizes[0]) if sizes.size else 0
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    places = np.full((steps, batch), data.shape[0], np.int64)  # the row of padding
    for t, (start, size) in enumerate(zip(starts, sizes)):
        places[t, :size] = start + np.arange(size)
    padding = Tensor.full((1, *data.shape[1:]), value, data.dtype, queue=data.queue)
    rows = ag.index_select(ag.cat([data, padding], axis=0), 0, _index(data, places.reshape(-1)))
    lengths = (sizes[:, None] > np.arange(batch)).sum(0)
    return ag.reshape(rows, (steps, batch, *data.shape[1:])), lengths


def padded(sequence: PackedSequence) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Returns the padded rows (T, N, ...), longest sequence first, and the lengths on the host."""
    return _unpacked(sequence, 0.0, int(sequence.batch_sizes.shape[0]))


def repacked(rows: Tensor, like: PackedSequence) -> PackedSequence:
    """Returns the rows (T, N, ...) of ``padded(like)`` as a PackedSequence."""
    sizes = _host(like.batch_sizes)
    batch = int(sizes[0]) if sizes.size else 0
    places = np.concatenate([np.arange(size) + t * batch for t, size in enumerate(sizes)])
    flat = ag.reshape(rows, (rows.shape[0] * batch, *rows.shape[2:]))
    return PackedSequence(ag.index_select(flat, 0, _index(rows, places)), *like[1:])


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the sequences padded to (T, N, ...), or (N, T, ...) with ``batch_first``, in their first order, and their
    lengths, int64. T is the longest length, or ``total_length``.
    """
    steps = int(sequence.batch_sizes.shape[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError(f"pad_packed_sequence: total_length {total_length} is below the longest length, {steps}")
        steps = total_length
    rows, counts = _unpacked(sequence, padding_value, steps)
    lengths = _index(sequence.data, counts)
    if sequence.unsorted_indices is not None:
        rows = ag.index_select(rows, 1, sequence.unsorted_indices)
        lengths = ag.index_select(lengths, 0, sequence.unsorted_indices)
    return (ag.transpose(rows, 0, 1) if batch_first else rows), lengths


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Pads sequences (length, ...) to the longest and stacks them: (T, N, ...), or (N, T, ...) with ``batch_first``."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side: expected 'left' or 'right', got {padding_side!r}")
    tensors = list(sequences)
    longest = max(x.shape[0] for x in tensors)
    rows = []
    for x in tensors:
        missing = longest - x.shape[0]
        if missing:
            filled = Tensor.full((missing, *x.shape[1:]), padding_value, x.dtype, queue=x.queue)
            x = ag.cat([x, filled] if padding_side == "right" else [filled, x], axis=0)
        rows.append(x)
    return ag.stack(rows, axis=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Returns the sequences of padded ones (T, N, ...), each of its length."""
    rows = padded_sequences if batch_first else ag.transpose(padded_sequences, 0, 1)
    return [rows[at, :length] for at, length in enumerate(_host(lengths).tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences (length, ...)."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Returns the sequences of a PackedSequence, each of its length."""
    rows, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(rows, lengths, batch_first=True)
