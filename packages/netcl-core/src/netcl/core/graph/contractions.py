"""Defers the launch of GEMMs and convolutions in a traced function, so that following elementwise ops can be fused as
their epilogue.

``Deferral`` is an interceptor of engine calls: it returns a deferred tensor for a contraction. The contraction is
launched when that tensor is used, or with an epilogue that computes the following ops (``as_epilogue``).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.engine.epilogue import Epilogue
from netcl.core.engine.interceptors import Interceptor, Layer, intercepted
from netcl.core.errors import UnsupportedError
from netcl.core.expr import Expr, Load
from netcl.core.graph.epilogues import epilogue_expression
from netcl.core.storage.data import TensorData
from netcl.core.tensor.deferred import computation_of, lock, make_deferred

if TYPE_CHECKING:
    from netcl.core.graph.region import Fused

Shape = tuple[int, ...]

_DTYPES = ("float32", "float64")
_NUMBERS_MAX = 4  # values of launch scalars that an epilogue is built for: they are constants in its kernel


class DeferredContraction:
    """One call of an engine that has not been launched yet; its tensors are deferred until it is launched."""

    def __init__(self, name: str, engine: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shape: Shape) -> None:
        self.shape: Shape = shape
        self.dtype: Any = args[-1].dtype
        self.engine: Any = engine
        self._name, self._args, self._kwargs = name, args, kwargs
        operands = (*args, *self.epilogue.operands)
        self._read = [(value, value.version) for value in operands if isinstance(value, TensorData)]
        self._kept = False
        self.pending: bool = True

    def result(self) -> Any:
        """Returns the deferred result."""
        args: tuple[Any, ...] = self._args
        tensor = make_deferred(args[-1], self.shape, self.dtype, self, 0, False, False)
        self._tensor = weakref.ref(tensor)
        self._storage = weakref.ref(tensor._storage)
        return tensor

    def stand_in(self, tensor: Any) -> Any:
        """Returns an alias of the deferred ``tensor`` to be held in its place, so that other references to it can be
        detected.
        """
        other = tensor._on(tensor._storage, tensor.shape, tensor.dtype)
        other._requires_grad, other._grad_fn = tensor._requires_grad, tensor._grad_fn
        return other

    def keep(self, tensor: Any) -> None:
        """Has the call launched by itself: another tensor on the storage of its result is made."""
        self._kept = True

    @property
    def is_referenced(self) -> bool:
        """True if the call's result, or another tensor on its storage, is still referenced."""
        return self._tensor() is not None or (self._kept and self._storage() is not None)

    @property
    def epilogue(self) -> Epilogue:
        """The epilogue that the call has already."""
        return self._kwargs.get("epilogue") or Epilogue(Load(0, self.dtype))

    def materialize(self) -> None:
        """Launches the call as it was made."""
        with lock:
            if self.pending:
                result = self.launch(self._kwargs.get("epilogue"))
                storage = self._storage()
                if storage is not None:
                    storage.fill(result._storage)

    def launch(self, epilogue: Epilogue | None) -> Any:
        """Launches the call with ``epilogue`` instead of its own and returns the result; it is no longer
        pending then.
        """
        for tensor, version in self._read:
            if tensor.version != version:
                raise UnsupportedError(
                    f"a tensor of shape {tensor.shape} was overwritten while a traced function still had to multiply "
                    "by it; write into it through netcl, or outside of the function"
                )
        options = {**self._kwargs, "epilogue": epilogue}
        result = intercepted(self.engine, self._name, self._args, options, below=Layer.DEFERRAL)
        self.pending, self._read, self._args, self._kwargs = False, [], (), {}
        return result


class Deferral(Interceptor):
    """Defers the contractions of this thread that take an epilogue; they are put into ``deferred``."""

    layer = Layer.DEFERRAL

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()
        self.deferred: list[DeferredContraction] = []

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        shape_of = _SHAPES.get(name)
        if shape_of is None or args[-1].dtype not in _DTYPES or kwargs.get("out") is not None:
            return proceed(*args, **kwargs)
        shape = shape_of(*args, **kwargs)
        if shape is None:
            return proceed(*args, **kwargs)
        contraction = DeferredContraction(name, engine, args, kwargs, shape)
        self.deferred.append(contraction)
        return contraction.result()


def contraction_of(tensor: Any) -> DeferredContraction | None:
    """Returns the contraction that computes a deferred tensor, else None."""
    work = computation_of(tensor)
    return work[0] if work is not None and isinstance(work[0], DeferredContraction) else None


def product_shape(a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False, **options: Any) -> Shape:
    """Returns the shape of a product of matrices, or of stacks of them."""
    rank = max(a.ndim, b.ndim)
    left, right = ((1,) * (rank - x.ndim) + x.shape[:-2] for x in (a, b))
    stack = tuple(n if m == 1 else m for m, n in zip(left, right))
    return (*stack, a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1])


def image_shape(kind: str, x: Any, weight: Any, **options: Any) -> Shape | None:
    """Returns the shape of a convolution; None for one of the gradients of convolutions."""
    if kind != "forward":
        return None
    axes = zip(x.shape[2:], weight.shape[2:], options["stride"], options["padding"], options["dilation"])
    sizes = [(n + low + high - dilation * (k - 1) - 1) // step + 1 for n, k, step, (low, high), dilation in axes]
    return (x.shape[0], weight.shape[0], *sizes)


_SHAPES: dict[str, Callable[..., Shape | None]] = {"matmul": product_shape, "conv": image_shape}  # by call


def as_epilogue(
    contraction: DeferredContraction,
    slot: int,
    program: Fused,
    inputs: Sequence[Any],
    scalars: Mapping[str, Any],
) -> Epilogue | None:
    """Returns a program of one result on its input ``slot``, the result of ``contraction``, as the contraction's
    epilogue; None if it cannot be one.

    Without fast math the bits must equal the program's own kernel's, so functions with bits that depend on the
    driver are not allowed. Cached per program, contraction and values of ``scalars``.
    """
    before = contraction.epilogue
    known = program.epilogues.setdefault(slot, {})
    operands = [
        *before.operands,
        *(_along(operand, contraction.shape) for at, operand in enumerate(inputs) if at != slot),
    ]
    key = (before.expression, len(before.operands), contraction.shape, tuple(scalars.values()))
    if key not in known:
        if len(known) >= _NUMBERS_MAX:
            return None
        known[key] = _expression(contraction, slot, program, operands, scalars)
    return None if known[key] is None else Epilogue(known[key], tuple(operands))


def _expression(
    contraction: DeferredContraction,
    slot: int,
    program: Fused,
    operands: Sequence[Any],
    scalars: Mapping[str, Any],
) -> Expr | None:
    region = program.region
    value = region.values[program.results[0]]
    home = region.values[region.inputs[slot]]
    if (value.shape, value.axes, value.dtype) != (home.shape, home.axes, contraction.dtype):
        return None
    whole = home.shape == contraction.shape
    for at, number in enumerate(region.inputs):
        operand = region.values[number]
        if at == slot or whole or operand.shape == home.shape:
            continue
        if len(operand.axes) > 1 or prod(operand.shape) not in (1, contraction.shape[-1]) or len(operand.shape) > 1:
            return None  # rows that were flattened: only operands that are the same for all of them fit
    return epilogue_expression(contraction.epilogue, region, slot, value, operands, scalars, not program.relaxed)


def _along(operand: Any, shape: Shape) -> Any:
    """Returns an operand reshaped to the shape of the result if it has as many elements."""
    if operand.shape == shape or prod(operand.shape) != prod(shape):
        return operand
    return operand._alias(shape)
