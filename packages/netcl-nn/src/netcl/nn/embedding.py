"""Embedding and EmbeddingBag: rows of a table by index."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError, ShapeError
from netcl.nn import init
from netcl.nn.module import Module
from netcl.nn.placement import new_parameter


class Embedding(Module):
    """Row ``i`` of weight (num_embeddings, embedding_dim) for each index i: (...) gives (..., embedding_dim).

    The row ``padding_idx`` is initialized with zeros and gets no gradient. With ``max_norm`` the rows to read are first
    scaled in place to at most this ``norm_type``-norm; with ``scale_grad_by_freq`` the gradient of a row is divided by
    the number of its occurrences. Gradients are dense, regardless of ``sparse``. An index out of range raises
    IndexError at the next host read.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx={padding_idx} is no row of {num_embeddings}")
        self.num_embeddings: int = num_embeddings
        self.embedding_dim: int = embedding_dim
        self.padding_idx: int | None = None if padding_idx is None else padding_idx % num_embeddings
        check_norm(max_norm)
        self.max_norm: float | None = max_norm
        self.norm_type: float = norm_type
        self.scale_grad_by_freq: bool = scale_grad_by_freq
        self.sparse: bool = sparse
        if _weight is None:
            self.weight: ag.Parameter = new_parameter((num_embeddings, embedding_dim), device, dtype)
            self.reset_parameters()
        else:
            if not isinstance(_weight, Tensor):
                raise TypeError(f"_weight: expected a tensor, got {type(_weight).__name__}")
            if _weight.shape != (num_embeddings, embedding_dim):
                raise ShapeError(
                    f"_weight: expected shape {(num_embeddings, embedding_dim)}, got {_weight.shape}", op="Embedding"
                )
            self.weight = ag.Parameter(_weight)
        if _freeze:
            self.weight.requires_grad = False

    def reset_parameters(self) -> None:
        """Initializes the rows again, normal with mean 0 and standard deviation 1."""
        init.normal_(self.weight, 0.0, 1.0)
        if self.padding_idx is not None:
            keep = Tensor.arange(self.num_embeddings, queue=self.weight.queue).reshape(-1, 1) != self.padding_idx
            with ag.no_grad():
                self.weight.write(ag.where(keep, self.weight, 0.0))

    def forward(self, indices: Any) -> Tensor:
        if isinstance(indices, Tensor) and (is_floating(indices.dtype) or indices.dtype == "bool"):
            raise DTypeError(f"{self!r}: expected whole numbers, got {indices.dtype}", op="Embedding")
        if self.max_norm is not None:
            renormalize(self.weight, indices, self.max_norm, self.norm_type)
        return rows_of(indices, self.weight, self.padding_idx, self.scale_grad_by_freq)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        """Returns a layer with ``embeddings`` (num_embeddings, embedding_dim) as its weight, without gradient if
        ``freeze``.
        """
        rows, size = _table_sizes(embeddings)
        place = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(rows, size, *place, _weight=embeddings, _freeze=freeze)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{self._options()}"

    def _options(self) -> str:
        """Returns the options of the table that are not at their defaults."""
        shown = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        shown += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        shown += f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        return shown + (", sparse=True" if self.sparse else "")


def config_of(layer: Embedding) -> dict[str, Any]:
    """Returns the arguments that build an equal layer, those after the sizes only if they are not the defaults."""
    names = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse", "mode", "include_last_offset")
    options = {name: getattr(layer, name) for name in names if hasattr(layer, name)}
    defaults = {"norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False, "max_norm": None}
    kept = {name: value for name, value in options.items() if name not in defaults or value != defaults[name]}
    return {"num_embeddings": layer.num_embeddings, "embedding_dim": layer.embedding_dim, **kept}


def check_norm(max_norm: Any) -> None:
    """Raises TypeError unless ``max_norm`` is None or a number, ValueError for a negative number."""
    if max_norm is None:
        return
    if not isinstance(max_norm, (int, float, np.number)):
        raise TypeError(f"max_norm: expected a number or None, got {max_norm!r}")
    if not max_norm >= 0:
        raise ValueError(f"embedding: expected a max_norm of at least 0, got {max_norm}")


def _table_sizes(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.ndim != 2:
        raise ShapeError(f"from_pretrained: expected rows (num, dim), got {embeddings.shape}", op="Embedding")
    return embeddings.shape[0], embeddings.shape[1]


def rows_of(indices: Any, weight: Tensor, padding_idx: int | None, scale_grad_by_freq: bool) -> Tensor:
    """Returns the rows of weight at ``indices``; with ``scale_grad_by_freq`` the gradient of a row is divided by the
    number of its occurrences.
    """
    rows = ag.embedding(indices, weight, padding_idx)
    if scale_grad_by_freq and rows.requires_grad:
        flat = ag.reshape(_whole("embedding", indices, weight), (-1,))
        place: dict[str, Any] = {"queue": weight.queue}
        ones = Tensor.ones((flat.shape[0],), weight.dtype, **place)
        counts = ag.index_add(Tensor.zeros((weight.shape[0],), weight.dtype, **place), 0, flat, ones)
        number = ag.reshape(ag.index_select(counts, 0, flat), (*rows.shape[:-1], 1))
        rows.register_hook(lambda grad: ag.div(grad, number))
    return rows


def renormalize(weight: Tensor, indices: Any, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scales the rows of weight at ``indices`` in place down to the p-norm ``max_norm``; not recorded. Returns weight.

    Raises ValueError for a negative max_norm.
    """
    check_norm(max_norm)
    flat = ag.reshape(_whole("embedding", indices, weight), (-1,))
    if not flat.shape[0]:
        return weight
    with ag.no_grad():
        rows = ag.index_select(weight, 0, flat)
        norms = ag.norm(rows, p=norm_type, axis=1, keepdims=True)
        scale = ag.where(ag.gt(norms, max_norm), ag.div(max_norm, ag.add(norms, 1e-7)), 1.0)
        weight.write(ag.index_copy(weight, 0, flat, ag.mul(rows, scale)))
    return weight


def embedding_bag(
    indices: Any,
    weight: Tensor,
    offsets: Any = None,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
) -> Tensor:
    """Returns the sum, mean or maximum of the rows of weight (num, dim) in each bag: (bags, dim).

    ``indices`` (bags, length), or (n,) with the start of each bag in ``offsets`` (bags,); with ``include_last_offset``
    they end with n. An empty bag gives zeros, and rows ``padding_idx`` are ignored. ``per_sample_weights``, of the
    shape of the indices, multiply the rows of a sum. Raises ValueError if host offsets do not increase from 0; offsets
    on the device are read only for the maximum.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: expected mode 'sum', 'mean' or 'max', got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f"embedding_bag: expected mode='sum' with per_sample_weights, got {mode!r}")
    indices = _whole("embedding_bag", indices, weight)
    if indices.ndim == 2 and offsets is None:
        bags, length = indices.shape
        counted = ag.reshape(ag.expand(ag.unsqueeze(_count(bags, weight), 1), indices.shape), (-1,))
    elif indices.ndim == 1 and offsets is not None:
        starts = _starts(offsets, indices.shape[0], include_last_offset, weight)
        bags, length = starts.shape[0], None
        counted = ag.sub(ag.searchsorted(starts, _count(indices.shape[0], weight), right=True), 1)
    else:
        raise ShapeError(
            f"embedding_bag takes indices (bags, length) without offsets, or (n,) with offsets; not {indices.shape} "
            f"{'without' if offsets is None else 'with'} offsets",
            op="embedding_bag",
        )
    flat = ag.reshape(indices, (-1,))
    rows = rows_of(flat, weight, padding_idx, scale_grad_by_freq)
    kept = None if padding_idx is None else ag.unsqueeze(ag.ne(flat, padding_idx % weight.shape[0]), 1)
    if mode == "max":
        return _largest(rows, kept, counted, bags, length)
    if kept is not None:
        rows = ag.where(kept, rows, 0.0)
    if per_sample_weights is not None:
        if per_sample_weights.shape != indices.shape:
            raise ShapeError(
                f"embedding_bag: per_sample_weights {per_sample_weights.shape} for indices {indices.shape}",
                op="embedding_bag",
            )
        rows = ag.mul(rows, ag.reshape(per_sample_weights, (-1, 1)))
    place: dict[str, Any] = {"queue": weight.queue}
    total = ag.index_add(Tensor.zeros((bags, weight.shape[1]), weight.dtype, **place), 0, counted, rows)
    if mode == "sum":
        return total
    ones = Tensor.ones((flat.shape[0], 1), weight.dtype, **place)
    ones = ones if kept is None else ag.where(kept, ones, 0.0)
    number = ag.index_add(Tensor.zeros((bags, 1), weight.dtype, **place), 0, counted, ones)
    return ag.div(total, ag.maximum(number, 1.0))


def _whole(op: str, values: Any, weight: Tensor) -> Tensor:
    """Returns integers on the device of ``weight``."""
    tensor = values if isinstance(values, Tensor) else Tensor.from_host(weight.queue, np.asarray(values))
    if is_floating(tensor.dtype) or tensor.dtype == "bool":
        raise DTypeError(f"{op}: expected whole numbers, got {tensor.dtype}", op=op)
    return tensor


def _count(length: int, weight: Tensor) -> Tensor:
    return Tensor.arange(length, dtype="int64", queue=weight.queue)


def _starts(offsets: Any, length: int, include_last: bool, weight: Tensor) -> Tensor:
    if not isinstance(offsets, Tensor):
        values = np.asarray(offsets, np.int64)
        whole = values.ndim == 1 and values.size > include_last and values[0] == 0 and (np.diff(values) >= 0).all()
        if not whole or values[-1] > length or (include_last and values[-1] != length):
            raise ValueError(f"embedding_bag: offsets {values.tolist()} do not part {length} indices from 0 on")
    starts = ag.cast(_whole("embedding_bag", offsets, weight), dtype="int64")
    return ag.narrow(starts, 0, 0, starts.shape[0] - 1) if include_last else starts


def _largest(rows: Tensor, kept: Tensor | None, counted: Tensor, bags: int, length: int | None) -> Tensor:
    """Returns the maximum of each bag, over rows in one table (bags, longest, dim) padded with -inf."""
    never = float("-inf")
    if kept is not None:
        rows = ag.where(kept, rows, never)
    if length is not None:
        table = ag.reshape(rows, (bags, length, -1))
    else:
        of = counted.to_host()
        sizes = np.bincount(of, minlength=bags)
        length = int(sizes.max(initial=0))
        # The row of each table entry; padding entries point to the last row, which is -inf.
        place = np.full((bags, length), len(of), np.int64)
        place[np.arange(length) < sizes[:, None]] = np.arange(len(of))
        padded = ag.pad(rows, (0, 0, 0, 1), value=never)
        table = ag.embedding(Tensor.from_host(rows.queue, place), padded)
    if not length:
        return Tensor.zeros((bags, rows.shape[1]), rows.dtype, queue=rows.queue)
    result = ag.max(table, axis=1).values
    return ag.where(ag.eq(result, never), 0.0, result)


class EmbeddingBag(Embedding):
    """``embedding_bag`` with a weight (num_embeddings, embedding_dim) initialized as in Embedding:
    ``bag(indices, offsets=None, per_sample_weights=None)``. ``max_norm``, ``norm_type``, ``sparse`` and
    ``scale_grad_by_freq`` (not for the maximum) are as in Embedding.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"mode: expected 'sum', 'mean' or 'max', got {mode!r}")
        if scale_grad_by_freq and mode == "max":
            raise ValueError("EmbeddingBag: scale_grad_by_freq goes with the modes sum and mean, not max")
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight)
        super().__init__(num_embeddings, embedding_dim, *options, device=device, dtype=dtype)
        self.mode = mode
        self.include_last_offset: bool = include_last_offset

    def forward(self, indices: Any, offsets: Any = None, per_sample_weights: Tensor | None = None) -> Tensor:
        if self.max_norm is not None:
            renormalize(self.weight, indices, self.max_norm, self.norm_type)
        return embedding_bag(
            indices,
            self.weight,
            offsets,
            self.mode,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
            self.scale_grad_by_freq,
        )

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Any:
        """Returns a layer with ``embeddings`` (num_embeddings, embedding_dim) as its weight, without gradient if
        ``freeze``.
        """
        rows, size = _table_sizes(embeddings)
        options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset, padding_idx)
        made = cls(rows, size, *options)
        made.weight.requires_grad = not freeze
        return made

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{self._options()}, mode={self.mode!r}{padding}"
