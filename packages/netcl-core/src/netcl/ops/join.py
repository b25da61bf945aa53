"""Joining tensors by rows, columns and depth, differences along an axis, quarter turns, products and combinations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.dtypes import canonical, is_floating
from netcl.core.engine.registry import engine_for
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.layout import broadcast_shapes, normalize_axes
from netcl.core.ops_table.dispatch import Domain
from netcl.core.tensor import Tensor
from netcl.core.tensor.host_bounds import check_elements
from netcl.core.tensor.tensor import queue_of
from netcl.ops.arrange import flip, part
from netcl.ops.domains import compared
from netcl.ops.elementwise import clone, ne, sub
from netcl.ops.index import index_select
from netcl.ops.pad import pad
from netcl.ops.shape import cat, expand, permute, reshape, sampled, stack
from netcl.ops.table import METHOD, composite, computed, engine_of

# -- axes in front and behind ------------------------------------------------------------------------------------------


def _each(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Returns ``function`` of one tensor, which of several, or of a list, gives the tuple of results."""

    @wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def op(x: Tensor, *more: Tensor) -> Any:
        operands: Any = (x, *more) if more else x
        return tuple(map(function, operands)) if isinstance(operands, (list, tuple)) else function(x)

    op.__signature__ = signature(op, follow_wrapped=False)  # type: ignore[attr-defined]
    return op


@composite(domain=sampled(np.atleast_1d, ((), {}), ((2, 3), {})))
@_each
def atleast_1d(x: Tensor) -> Tensor:
    """Returns x, of shape (1,) if it is 0-d; of several tensors, or a list, a tuple of them."""
    return x if x.ndim else reshape(x, (1,))


@composite(domain=sampled(np.atleast_2d, ((), {}), ((3,), {}), ((2, 3), {})))
@_each
def atleast_2d(x: Tensor) -> Tensor:
    """Returns x with two axes or more: (n,) gives (1, n); several as in ``atleast_1d``."""
    return x if x.ndim > 1 else reshape(x, (1,) * (2 - x.ndim) + x.shape)


@composite(domain=sampled(np.atleast_3d, ((), {}), ((3,), {}), ((2, 3), {}), ((2, 3, 4), {})))
@_each
def atleast_3d(x: Tensor) -> Tensor:
    """Returns x with three axes or more: (n,) gives (1, n, 1), (m, n) gives (m, n, 1); several as in ``atleast_1d``."""
    if x.ndim > 2:
        return x
    return reshape(x, (*x.shape, 1) if x.ndim == 2 else (1, x.size, 1))  # type: ignore[no-any-return]


# -- joining -----------------------------------------------------------------------------------------------------------


def _lists(function: Any, *shapes: tuple[int, ...]) -> Domain:
    # Lists of operands; the gradient is concatenate's.
    return compared(
        lambda rng: iter([(([rng.uniform(-2, 2, shape), rng.uniform(-2, 2, shape)],), {}) for shape in shapes]),
        function,
        gradient=False,
    )


def _given(op: str, tensors: Any) -> list[Tensor]:
    listed = list(tensors)
    if not listed:
        raise ShapeError(f"{op}: there is no tensor to join")
    return listed


@composite(domain=_lists(np.hstack, (3,), (2, 3), (2, 3, 2)))
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the tensors of a list joined along axis 1, or along axis 0 if they have one axis or none."""
    rows = [atleast_1d(x) for x in _given("hstack", tensors)]
    return cat(rows, 0 if rows[0].ndim == 1 else 1)  # type: ignore[no-any-return]


@composite(domain=_lists(np.vstack, (3,), (2, 3), (2, 3, 2)))
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the tensors of a list joined along axis 0; vectors are rows."""
    return cat([atleast_2d(x) for x in _given("vstack", tensors)], 0)  # type: ignore[no-any-return]


@composite(domain=_lists(np.dstack, (3,), (2, 3), (2, 3, 2)))
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the tensors of a list joined along axis 2, as ``atleast_3d`` gives them."""
    return cat([atleast_3d(x) for x in _given("dstack", tensors)], 2)  # type: ignore[no-any-return]


@composite(domain=_lists(np.column_stack, (3,), (2, 3)))
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the tensors of a list joined along axis 1; vectors are columns."""
    columns = [x if x.ndim > 1 else reshape(x, (x.size, 1)) for x in _given("column_stack", tensors)]
    return cat(columns, 1)  # type: ignore[no-any-return]


def _blocks(*blocks: Any) -> Any:
    wide = [np.atleast_2d(block) for block in blocks] or [np.zeros((1, 0))]
    result = np.zeros([sum(sizes) for sizes in zip(*(block.shape for block in wide))])
    row = column = 0
    for block in wide:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return result


@composite(
    domain=compared(
        lambda rng: iter(
            [
                ((rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, 2), rng.uniform(-2, 2, (3, 1))), {}),
                ((rng.uniform(-2, 2, ()), rng.uniform(-2, 2, (2, 2))), {}),
            ]
        ),
        _blocks,
    )
)
def block_diag(*tensors: Tensor) -> Tensor:
    """Returns the matrix with the tensors as blocks along its diagonal and zeros elsewhere; vectors are rows. Raises
    ShapeError for no tensors, and for more than two axes.
    """
    op = "block_diag"
    engine_of(op, *_given(op, tensors))
    if any(x.ndim > 2 for x in tensors):
        raise ShapeError(f"{op}: expected matrices, got shapes {' and '.join(str(x.shape) for x in tensors)}")
    blocks = [atleast_2d(x) for x in tensors]
    width, start, rows = sum(x.shape[1] for x in blocks), 0, []
    for block in blocks:
        rows.append(pad(block, (start, width - start - block.shape[1])))
        start += block.shape[1]
    return cat(rows, 0)  # type: ignore[no-any-return]


@composite(
    domain=compared(
        lambda rng: iter([((rng.uniform(-2, 2, (3, 1)), rng.uniform(-2, 2, 4)), {})]),
        lambda *arrays: tuple(np.broadcast_arrays(*arrays)),
        gradient=False,
    )
)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Returns each tensor expanded to the shape that all broadcast to; raises ShapeError if they do not."""
    operands: tuple[Any, ...] = tensors
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    shape = broadcast_shapes([x.shape for x in operands], "broadcast_tensors") if operands else ()
    return tuple(x if x.shape == shape else expand(x, shape) for x in operands)


# -- differences and turns ---------------------------------------------------------------------------------------------


@composite(
    domain=sampled(
        np.diff, ((7,), {}), ((3, 5), {"axis": 0}), ((2, 5), {"n": 2}), ((2, 3), {"n": 0}), ((2, 2), {"n": 3})
    ),
    forms=METHOD,
)
def diff(x: Tensor, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Returns x[i + 1] - x[i] along ``axis``, ``n`` times; for bool, True where they differ.

    ``prepend`` and ``append`` are joined to x along the axis first. Raises ShapeError for a 0-d tensor, ValueError for
    a negative n.
    """
    engine_of("diff", x, prepend, append)
    (at,) = normalize_axes(axis, x.ndim, "diff")
    if as_index(n) < 0:
        raise ArgumentError(f"diff: expected n of at least 0, got {n}")
    if prepend is not None or append is not None:
        x = cat([tensor for tensor in (prepend, x, append) if tensor is not None], at)
    for _ in range(min(as_index(n), x.shape[at])):
        length = max(x.shape[at] - 1, 0)
        later, earlier = part(x, at, min(1, x.shape[at]), length), part(x, at, 0, length)
        x = ne(later, earlier) if x.dtype == "bool" else sub(later, earlier)
    return x


@composite(
    domain=sampled(
        lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
        ((2, 3), {}),
        ((2, 3), {"k": 2}),
        ((2, 3), {"k": -1}),
        ((2, 3, 4), {"k": 5, "dims": (1, 2)}),
        ((2, 3), {"k": 0}),
    ),
    forms=METHOD,
)
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Returns x turned ``k`` times by 90 degrees in the plane of axes ``dims``, from the first towards the second."""
    axes = tuple(dims)
    if len(axes) != 2:
        raise ShapeError(f"rot90: dims {axes} are two axes", parameter="dims")
    first, second = (normalize_axes(axis, x.ndim, "rot90")[0] for axis in axes)
    if first == second:
        raise ShapeError(f"rot90: dims {axes} are one axis of shape {x.shape}", parameter="dims")
    turns = as_index(k) % 4
    if turns == 0:
        return clone(x)  # type: ignore[no-any-return]
    if turns == 2:
        return flip(x, (first, second))  # type: ignore[no-any-return]
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return flip(permute(x, order), first if turns == 1 else second)  # type: ignore[no-any-return]


# -- products and combinations of elements -----------------------------------------------------------------------------


def _product_cases(rng: np.random.Generator) -> Any:
    yield (rng.uniform(-2, 2, 2), rng.uniform(-2, 2, 3), rng.uniform(-2, 2, 2)), {}
    yield (rng.uniform(-2, 2, 4),), {}


def _product(*vectors: Any) -> Any:
    (first, *rest) = vectors
    return np.array(list(itertools.product(first, *rest))) if rest else first


@composite(domain=compared(_product_cases, _product))
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Returns all tuples of one element of each vector, the last vector fastest: (n, number of tensors), or the vector
    itself if there is one. Raises ShapeError for no tensors, or one that is no vector.
    """
    engine_of("cartesian_prod", *_given("cartesian_prod", tensors))
    if any(x.ndim != 1 for x in tensors):
        raise ShapeError(f"cartesian_prod: expected vectors, got shapes {' and '.join(str(x.shape) for x in tensors)}")
    if len(tensors) == 1:
        return clone(tensors[0])  # type: ignore[no-any-return]
    places = np.indices([x.size for x in tensors]).reshape(len(tensors), -1)
    return stack([index_select(x, 0, place) for x, place in zip(tensors, places)], 1)  # type: ignore[no-any-return]


def _combined(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    of = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.fromiter(itertools.chain.from_iterable(of(x, r)), x.dtype).reshape(-1, r)


def _number_of_combinations(n: int, r: int, with_replacement: bool) -> int:
    """Returns the number of combinations, 2^62 if there are more."""
    total = n + r - 1 if with_replacement and n else n
    if r > total:
        return 0
    logarithm = math.lgamma(total + 1) - math.lgamma(r + 1) - math.lgamma(total - r + 1)
    return math.comb(total, r) if logarithm < 62 * math.log(2) else 1 << 62


@composite(domain=sampled(_combined, ((4,), {}), ((4,), {"r": 3}), ((3,), {"r": 2, "with_replacement": True})))
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Returns all combinations of ``r`` elements of the vector x, in the order of `itertools`: (n, r).

    Raises OutOfMemoryError if the device has no memory for them.
    """
    engine_of("combinations", x)
    if x.ndim != 1 or not 0 <= as_index(r) < 1 << 31:
        raise ShapeError(f"combinations: expected a vector and r from 0 to 2^31 - 1, got {x.shape} and r {r}")
    if r == 0:
        return x.engine.empty((0,), x.dtype)  # type: ignore[no-any-return]
    count = _number_of_combinations(x.size, as_index(r), with_replacement)
    check_elements("combinations", count * as_index(r), x.engine.queue)
    places = _combined(np.arange(x.size), as_index(r), with_replacement)
    return index_select(x, 0, places)  # type: ignore[no-any-return]


# -- tables of indices and windows -------------------------------------------------------------------------------------


def _engine_on(device: Any) -> Any:
    """Returns the engine of a device: a selector, ``nc.device``, handle or queue; None is the active device."""
    return engine_for(None if device is None else queue_of(device))


def _triangle(op: str, upper: bool, row: int, col: int, offset: int, dtype: Any, device: Any) -> Tensor:
    if as_index(row) < 0 or as_index(col) < 0:
        raise ShapeError(f"{op}: row {row} and col {col} must not be negative")
    engine = _engine_on(device)
    check_elements(op, 2 * as_index(row) * as_index(col), engine.queue)
    places = np.triu_indices(row, offset, col) if upper else np.tril_indices(row, offset, col)
    return engine.tensor(np.stack(places), canonical(dtype))  # type: ignore[no-any-return]


def _triangle_cases(rng: np.random.Generator) -> Any:
    yield from (((3, 4), {}), ((4, 3), {"offset": 1}), ((3, 3), {"offset": -1}), ((0, 3), {}))


@computed(
    domain=compared(
        _triangle_cases, lambda row, col, offset=0: np.stack(np.tril_indices(row, offset, col)), gradient=False
    )
)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = "int64", device: Any = None) -> Tensor:
    """Returns positions of the lower triangle of a (row, col) matrix up to the diagonal ``offset``, by rows: (2, n)."""
    return _triangle("tril_indices", False, row, col, offset, dtype, device)


@computed(
    domain=compared(
        _triangle_cases, lambda row, col, offset=0: np.stack(np.triu_indices(row, offset, col)), gradient=False
    )
)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = "int64", device: Any = None) -> Tensor:
    """Returns positions of the upper triangle of a (row, col) matrix from diagonal ``offset`` on, by rows: (2, n)."""
    return _triangle("triu_indices", True, row, col, offset, dtype, device)


def _window(
    op: str, length: int, periodic: bool, window: Callable[[int], Any], dtype: Any, device: Any, flag: bool
) -> Tensor:
    """Returns ``window(length)``; a periodic one is the window of one element more, without its last."""
    name = canonical(dtype)
    if as_index(length) < 0:
        raise ShapeError(f"{op}: window_length {length} must not be negative", parameter="window_length")
    if not is_floating(name):
        raise ArgumentError(f"{op}: expected a floating dtype, got {name}")
    engine = _engine_on(device)
    check_elements(op, as_index(length), engine.queue)
    values = window(length + 1)[:-1] if periodic and length > 1 else window(length)
    made: Tensor = engine.tensor(np.asarray(values), name)
    if flag:
        made.requires_grad = True
    return made


def _cosines(*weights: float) -> Callable[[int], Any]:
    """Returns the window w[k] = sum of (-1)^j weights[j] cos(2 pi j k / (n - 1)) of n elements."""

    def window(n: int) -> Any:
        if n < 2:
            return np.ones(n)
        angle = 2 * np.pi * np.arange(n) / (n - 1)
        return sum((-1) ** j * weight * np.cos(j * angle) for j, weight in enumerate(weights))

    return window


def _window_domain(function: Any) -> Domain:
    def cases(rng: np.random.Generator) -> Any:
        yield (8,), {}
        yield (7,), {"periodic": False}
        yield (1,), {}

    def reference(window_length: int, periodic: bool = True) -> Any:
        return function(window_length + 1)[:-1] if periodic and window_length > 1 else function(window_length)

    return compared(cases, reference, gradient=False)


@computed(domain=_window_domain(np.hanning))
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = "float32",
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns (1 - cos(2 pi k / N)) / 2, N the length, or one less if not ``periodic``: (window_length,)."""
    return _window("hann_window", window_length, periodic, _cosines(0.5, 0.5), dtype, device, requires_grad)


@computed(domain=_window_domain(np.hamming))
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = "float32",
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns alpha - beta cos(2 pi k / N), N the length, or one less if not ``periodic``: (window_length,)."""
    return _window("hamming_window", window_length, periodic, _cosines(alpha, beta), dtype, device, requires_grad)


@computed(domain=_window_domain(np.blackman))
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = "float32",
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N), N as in ``hann_window``: (window_length,)."""
    return _window("blackman_window", window_length, periodic, _cosines(0.42, 0.5, 0.08), dtype, device, requires_grad)


@computed(domain=_window_domain(np.bartlett))
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = "float32",
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 1 - |2 k / N - 1|, N as in ``hann_window``: (window_length,)."""
    return _window("bartlett_window", window_length, periodic, np.bartlett, dtype, device, requires_grad)


@computed(domain=_window_domain(lambda n: np.kaiser(n, 12.0)))
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = "float32",
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns i0(beta sqrt(1 - (2 k / N - 1)^2)) / i0(beta), N as in ``hann_window``: (window_length,)."""
    return _window("kaiser_window", window_length, periodic, lambda n: np.kaiser(n, beta), dtype, device, requires_grad)
