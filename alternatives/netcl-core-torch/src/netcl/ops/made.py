"""Rows that make tensors, that move them, and functions that are no rows."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from netcl.core.backend.registry import engine_for
from netcl.core.dispatch import Gradient, OpRow, call, register_op
from netcl.core.dtypes import TORCH, canonical
from netcl.core.errors import UnsupportedError
from netcl.ops.kernels import rows
from netcl.ops.shape import _one_hot, _setitem
from netcl.ops.table import computed

__all__ = ["allclose", "build_matmul_kernel", "equal", "fold_bn_params"]

computed(name="setitem", doc="Writes ``value`` into ``x[key]``, in place.")(_setitem)
computed(name="one_hot", doc="1 at the index and 0 elsewhere: (...) gives (..., num_classes).")(_one_hot)


def _window(name: str, parameters: str) -> Any:
    function = getattr(torch, name)
    names = [one.split("=")[0] for one in parameters.split(", ") if one]

    def compute(window_length: int, periodic: bool = True, *more: Any, **place: Any) -> Any:
        named = dict(zip(names, more)) | {key: place.pop(key) for key in names if key in place}
        engine = engine_for(place.get("device"))
        value = function(window_length, periodic, **named, dtype=torch.float64)
        made = engine.wrap(value.to(engine.place, TORCH[canonical(place.get("dtype", "float32"))]))
        if place.get("requires_grad"):
            made.requires_grad = True
        return made

    text = f"window_length, periodic=True, {parameters}{', ' if parameters else ''}*, dtype='float32', device=None, "
    scope: dict[str, Any] = {}
    exec(f"def signed({text}requires_grad=False): ...", scope)
    compute.__signature__ = inspect.signature(scope["signed"])  # type: ignore[attr-defined]
    return computed(name=name, doc=f"A window of the kind {name}: (window_length,).")(compute)


for _name, _parameters in (
    ("bartlett_window", ""), ("blackman_window", ""), ("hann_window", ""), ("hamming_window", "alpha=0.54, beta=0.46"),
    ("kaiser_window", "beta=12.0"),
):  # fmt: skip
    _window(_name, _parameters)


def _triangle(function: Any) -> Any:
    def compute(row: int, col: int, offset: int = 0, *, dtype: Any = "int64", device: Any = None) -> Any:
        engine = engine_for(device)
        return engine.wrap(function(row, col, offset, device=engine.place).to(TORCH[canonical(dtype)]))

    return compute


computed(name="tril_indices", doc="The positions of the lower triangle: (2, n).")(_triangle(torch.tril_indices))
computed(name="triu_indices", doc="The positions of the upper triangle: (2, n).")(_triangle(torch.triu_indices))


@computed()
def causal_mask(queries: int, keys: int | None = None, offset: int = 0, queue: Any = None) -> Any:
    """A mask (queries, keys), bool, True if query i may attend to the key: keys 0 .. i + offset."""
    engine = engine_for(queue)
    ones = torch.ones(queries, queries if keys is None else keys, dtype=torch.bool, device=engine.place)
    return engine.wrap(ones.tril(offset))


def _transfer(x: Any, queue: Any) -> Any:
    engine = engine_for(queue)
    return engine.wrap(x._t.to(engine.place, copy=True))


register_op(OpRow(
    "transfer", inspect.signature(_transfer), call=_transfer, operands=("x",), doc="x on another device.", saves={"x": ()},
    vjp=lambda recorded, grad: {"x": recorded.op("transfer", grad, recorded.x.queue)},
))  # fmt: skip

rows("widest", {"torch_gradient(tensors: Tensor, plan)": None}, kernel=Gradient)


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """True if ``isclose`` holds for all elements; the result is read on the host."""
    return bool(call("all", call("isclose", a, b, rtol, atol, equal_nan)).item())


def equal(a: Any, b: Any) -> bool:
    """True if a and b have one shape and equal elements; the result is read on the host."""
    return a.shape == b.shape and bool(call("all", call("eq", a, b)).item())


def fold_bn_params(
    weight: Any, bias: Any, running_mean: Any, running_var: Any, bn_weight: Any = None, bn_bias: Any = None,
    eps: float = 1e-05,
) -> tuple[Any, Any]:  # fmt: skip
    """(weight, bias) of a convolution that includes the batch normalization after it (for inference)."""
    scale = torch.rsqrt(running_var._t + eps) * (1 if bn_weight is None else bn_weight._t)
    shift = (0 if bias is None else bias._t) - running_mean._t
    engine = weight.engine
    folded = weight._t * scale.reshape(-1, *(1,) * (weight.ndim - 1))
    return engine.wrap(folded), engine.wrap(shift * scale + (0 if bn_bias is None else bn_bias._t))


def build_matmul_kernel(context: Any = None, tile: int = 16, dtype: str = "float") -> tuple[Any, Any]:
    """UnsupportedError: PyTorch's devices take no kernels in OpenCL C."""
    raise UnsupportedError("build_matmul_kernel needs the level opencl-kernels, which this netcl-core does not keep")
