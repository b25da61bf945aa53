"""Functions of PyTorch's top level that are neither rows of the op table nor methods: other names and old forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl.core import dtypes, layout
from netcl.core.errors import ShapeError, from_here
from netcl.core.ops_table import dispatch
from netcl.core.storage.size import Size
from netcl.core.storage.views import UntypedStorage
from netcl.core.tensor.tensor import Tensor
from netcl.core.tensor.typed_storage import TypedStorage


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return dispatch.call(name, *args, record=True, **kwargs)


# -- shapes and kinds --------------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> Size:
    """Returns the shape to which shapes (or single lengths) broadcast; raises ShapeError if they do not.

    >>> broadcast_shapes((3, 1), (2, 1, 4), 4)
    netcl.Size([2, 3, 4])
    """
    sizes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    return Size(layout.broadcast_shapes(sizes, "broadcast_shapes") if sizes else ())


def typename(obj: Any) -> str:
    """Returns the type of an object as text: of a tensor such as ``netcl.FloatTensor``, else with its module."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    module = getattr(obj, "__module__", None) or ""
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__name__
    return name if module in ("", "builtins") else f"{module}.{name}"


def is_storage(obj: Any) -> bool:
    """Returns True for the storage of a tensor, as ``x.untyped_storage()`` and ``x.storage()`` give it."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


# -- other names -------------------------------------------------------------------------------------------------------


def concat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """Returns the tensors joined along ``dim``: ``cat``."""
    return _call("cat", tensors, dim if axis is None else axis, **({} if out is None else {"out": out}))  # type: ignore[no-any-return]


concatenate = concat


def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Returns the tensors joined along axis 0; vectors are rows: ``vstack``."""
    return _call("vstack", tensors, **({} if out is None else {"out": out}))  # type: ignore[no-any-return]


def trapz(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Returns the integral of y along ``dim``: ``trapezoid``."""
    return _call("trapezoid", y, x, dx=dx, axis=dim)  # type: ignore[no-any-return]


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Returns other - alpha input."""
    scaled = input if alpha == 1 else _call("mul", input, alpha)
    return _call("sub", other, scaled) if isinstance(other, Tensor) else _call("add", _call("neg", scaled), other)  # type: ignore[no-any-return]


def detach(input: Tensor) -> Tensor:
    """Returns the same storage outside of the gradient graph: ``input.detach()``."""
    return input.detach()


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Returns input with borders of ``value``, (before, after) of the last axis first: ``nn.functional.pad``."""
    return _call("pad", input, pad, mode="constant", value=value)  # type: ignore[no-any-return]


def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """Returns the product of matrices, multiplied in the order with the fewest operations: ``linalg.multi_dot``."""
    factors = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)) else matrices
    return _call("linalg_multi_dot", list(factors), **({} if out is None else {"out": out}))  # type: ignore[no-any-return]


@dispatch.takes_out
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (P, L, U) of packed factors; what is not to be unpacked is empty."""
    empty = LU_data.new_empty(0)
    order = _call("linalg_permutation", LU_pivots, LU_data.shape[-2]) if unpack_pivots else empty
    lower, upper = _call("linalg_lu_parts", LU_data) if unpack_data else (empty, empty)
    return order.astype(LU_data.dtype), lower, upper


def real(input: Tensor) -> Tensor:
    """Returns the tensor itself: there are no complex dtypes."""
    return input


def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Returns (histogram, edges) of points (..., D): the number of points in each cell of a grid, or the sum of their
    weights, in the dtype of input, and the edges of the bins along each axis.

    ``bins``: a number of bins of equal width, one for each axis, or the edges along each axis; ``range``: the lowest
    and the highest edge of each axis, one after the other. A bin includes its lower edge, the last one both.
    ``density``: divided by the sum and the size of the cell.
    """
    counts, *edges = _call("histogram_grid", input, weight, bins, range, density)
    return counts, tuple(edges)


def to_dlpack(tensor: Tensor) -> Any:
    """Returns a capsule for ``from_dlpack`` of another library: ``tensor.__dlpack__()``."""
    return tensor.__dlpack__()


def frobenius_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Returns the root of the sum of squares over ``dim``, one axis or two."""
    return _call("norm", input, 2, None if dim in ((), []) else dim, keepdim)  # type: ignore[no-any-return]


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """Returns the sum of the singular values of the matrices on two axes."""
    return _call("linalg_matrix_norm", input, "nuc", dim, keepdim)  # type: ignore[no-any-return]


def norm_except_dim(v: Tensor, pow: float = 2, dim: int = 0) -> Tensor:
    """Returns the norms of the slices of v along ``dim``, of length 1 on all other axes; of all of v for -1."""
    if dim == -1:
        return _call("norm", v, pow)  # type: ignore[no-any-return]
    (kept,) = layout.normalize_axes(dim, v.ndim, "norm_except_dim")
    return _call("norm", v, pow, tuple(axis for axis in range(v.ndim) if axis != kept), True)  # type: ignore[no-any-return]


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Returns the channels in another order: ``channel_shuffle``."""
    return _call("channel_shuffle", input, groups)  # type: ignore[no-any-return]


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Returns ``dropout`` and its mask, True for kept elements."""
    return _call("dropout", input, p, train is None or train, return_mask=True)  # type: ignore[no-any-return]


# -- norms with their statistics ---------------------------------------------------------------------------------------


def _moments(x: Tensor, axes: Any, eps: float, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The mean and 1 / sqrt(variance + eps) over axes."""
    wide = x.astype("float32") if x.itemsize < 4 else x
    variance, mean = _call("var_mean", wide, axis=axes, keepdims=keepdim, correction=0)
    return mean.astype(x.dtype), _call("rsqrt", _call("add", variance, eps)).astype(x.dtype)


@dispatch.takes_out
def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``layer_norm`` over the last axes, the means, and 1 / sqrt(variance + eps); they have no gradient."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    result = _call("layer_norm", input, shape, weight, bias, eps)
    return result, *_moments(input.detach(), tuple(range(-len(shape), 0)), eps, True)


@dispatch.takes_out
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``group_norm`` of input (N, C, ...) of HxW positions, means (N, group) and 1 / sqrt(variance + eps)."""
    result = _call("group_norm", input, group, weight, bias, eps)
    return result, *_moments(_call("reshape", input, (N, group, C // group * HxW)), 2, eps)


@dispatch.takes_out
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``batch_norm``, with ``training`` also the means of the channels and 1 / sqrt(variance + eps), without a
    gradient, else two empty tensors; writes the running statistics with ``training``.
    """
    result = _call("batch_norm", input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        none = input.new_empty(
            0, dtype=dtypes.promote(input.dtype, *(x.dtype for x in (weight, running_mean) if x is not None))
        )
        return result, none, none
    return result, *_moments(input.detach(), (0, *range(2, input.ndim)), eps)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """Returns the largest element of each window, and their positions."""
    steps = None if stride in ((), []) else stride
    return _call("max_pool1d", input, kernel_size, steps, padding, dilation, ceil_mode, True)  # type: ignore[no-any-return]


_SAMPLED = ("bilinear", "nearest", "bicubic")
_OUTSIDE = ("zeros", "border", "reflection")


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Returns input at the positions of a grid: ``nn.functional.grid_sample`` with numbers for its modes.

    ``interpolation_mode``: 0 bilinear, 1 nearest, 2 bicubic; ``padding_mode``: 0 zeros, 1 border, 2 reflection.
    """
    if interpolation_mode not in range(3) or padding_mode not in range(3):
        raise ValueError(f"grid_sampler: expected modes 0, 1 or 2, got {interpolation_mode} and {padding_mode}")
    return _call(  # type: ignore[no-any-return]
        "grid_sample", input, grid, _SAMPLED[interpolation_mode], _OUTSIDE[padding_mode], align_corners
    )


grid_sampler_2d = grid_sampler
grid_sampler_3d = grid_sampler


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Returns the grid of affine maps: ``nn.functional.affine_grid``."""
    return _call("affine_grid", theta, size, align_corners)  # type: ignore[no-any-return]


# -- cells of recurrent nets -------------------------------------------------------------------------------------------


def _both(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> tuple[Tensor, Tensor]:
    return _call("linear", x, w_ih, b_ih), _call("linear", h, w_hh, b_hh)


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the next (h, c) of an LSTM: input (N, in), states (N, H), weights (4 H, in), (4 H, H), gates i f g o."""
    h, c = hx
    i, f, g, o = _call("chunk", _call("add", *_both(input, h, w_ih, w_hh, b_ih, b_hh)), 4, 1)
    kept = _call("mul", _call("sigmoid", f), c)
    cell = _call("add", kept, _call("mul", _call("sigmoid", i), _call("tanh", g)))
    return _call("mul", _call("sigmoid", o), _call("tanh", cell)), cell


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Returns the next state of a GRU: input (N, in), state (N, H), weights (3 H, in) and (3 H, H), gates r, z, n."""
    x, h = (_call("chunk", operand, 3, 1) for operand in _both(input, hx, w_ih, w_hh, b_ih, b_hh))
    reset, update = (_call("sigmoid", _call("add", x[k], h[k])) for k in (0, 1))
    new = _call("tanh", _call("add", x[2], _call("mul", reset, h[2])))
    return _call("add", new, _call("mul", update, _call("sub", hx, new)))  # type: ignore[no-any-return]


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Returns tanh(w_ih input + b_ih + w_hh hx + b_hh)."""
    return _call("tanh", _call("add", *_both(input, hx, w_ih, w_hh, b_ih, b_hh)))  # type: ignore[no-any-return]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Returns relu(w_ih input + b_ih + w_hh hx + b_hh)."""
    return _call("relu", _call("add", *_both(input, hx, w_ih, w_hh, b_ih, b_hh)))  # type: ignore[no-any-return]


# -- copies of views ---------------------------------------------------------------------------------------------------


def _copied(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_call("clone", element) for element in value)
    return _call("clone", value)


def alias_copy(input: Tensor) -> Tensor:
    """Returns a copy."""
    return _call("clone", input)  # type: ignore[no-any-return]


def as_strided_copy(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Returns a copy of ``as_strided``."""
    return _copied(input.as_strided(size, stride, storage_offset))  # type: ignore[no-any-return]


def detach_copy(input: Tensor) -> Tensor:
    """Returns a copy outside of the gradient graph."""
    return _call("clone", input.detach())  # type: ignore[no-any-return]


def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Returns a copy of ``diagonal``."""
    return _copied(_call("diagonal", input, offset, dim1, dim2))  # type: ignore[no-any-return]


def expand_copy(input: Tensor, size: Sequence[int], *, implicit: bool = False) -> Tensor:
    """Returns a copy of ``expand``."""
    return _copied(_call("expand", input, tuple(size)))  # type: ignore[no-any-return]


def permute_copy(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Returns a copy of ``permute``."""
    return _copied(_call("permute", input, tuple(dims)))  # type: ignore[no-any-return]


def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    """Returns a copy of ``select``."""
    return _copied(input.select(dim, index))  # type: ignore[no-any-return]


def slice_copy(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Returns a copy of the positions ``start:end:step`` of an axis."""
    (at,) = layout.normalize_axes(dim, input.ndim, "slice_copy")
    return _copied(input[(slice(None),) * at + (slice(start, end, step),)])  # type: ignore[no-any-return]


def split_copy(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Returns copies of the parts of ``split``."""
    return _copied(_call("split", input, split_size, dim))  # type: ignore[no-any-return]


def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Returns copies of the parts of ``split`` by sizes."""
    return _copied(_call("split", input, list(split_sizes), dim))  # type: ignore[no-any-return]


def squeeze_copy(input: Tensor, dim: Any = None) -> Tensor:
    """Returns a copy of ``squeeze``."""
    return _copied(input.squeeze(dim))  # type: ignore[no-any-return]


def t_copy(input: Tensor) -> Tensor:
    """Returns a copy of the transpose of a matrix."""
    return _copied(input.t())  # type: ignore[no-any-return]


def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Returns a copy of input with two axes exchanged."""
    return _copied(input.swapaxes(dim0, dim1))  # type: ignore[no-any-return]


def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Returns copies of the slices along an axis."""
    return _copied(_call("unbind", input, dim))  # type: ignore[no-any-return]


def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Returns a copy of the windows of ``unfold``."""
    return _copied(input.unfold(dimension, size, step))  # type: ignore[no-any-return]


def unsqueeze_copy(input: Tensor, dim: int) -> Tensor:
    """Returns a copy of ``unsqueeze``."""
    return _copied(_call("unsqueeze", input, dim))  # type: ignore[no-any-return]


def view_copy(input: Tensor, size: Any) -> Tensor:
    """Returns a copy in another shape; raises ShapeError for a dtype, as which bits cannot be read."""
    if isinstance(size, str):
        raise ShapeError(f"view_copy: the bits of a tensor cannot be read as {size}; write x.to(dtype)")
    return _copied(input.view(*tuple(size)))  # type: ignore[no-any-return]


from_here(globals())
