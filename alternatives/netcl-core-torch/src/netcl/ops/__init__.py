"""netcl.ops: the functions of the op table, not recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.core.dispatch import TABLE, Domain
from netcl.core.tensor import Tensor, as_method
from netcl.ops import elementwise, linalg, made, nn, random, reductions, shape  # noqa: F401
from netcl.ops.made import allclose, build_matmul_kernel, equal, fold_bn_params  # noqa: F401
from netcl.ops.random import get_rng_state, manual_seed, set_rng_state  # noqa: F401
from netcl.ops.table import as_function

# The gradient of these reads no element of what they move.
for _name in (
    "broadcast_to", "cat", "clone", "fill", "flip", "gather", "index", "index_select", "pad", "repeat", "roll", "stack", "tile",
    "tril", "triu",
):  # fmt: skip
    _row = TABLE[_name]
    _rest = tuple(key for key in _row.signature.parameters if key not in _row.operands[:1])
    _row.saves = {**(_row.saves or {}), _row.operands[0]: _rest}
# A cast to float32, multiples of a divisor, equal elements and a random order have no differences.
for _name in ("cast", "mod", "mode", "unique", "unique_consecutive", "permutation"):
    TABLE[_name].domain = Domain(gradient=False)

# Gradients by the result: with op, which calls a row, the recorded call, the gradient of its result, and the result.
_BY_RESULT: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "exp": lambda op, call, grad, out: op("mul", grad, out),
    "sqrt": lambda op, call, grad, out: op("div", op("mul", grad, 0.5), out),
    "sigmoid": lambda op, call, grad, out: op("mul", grad, op("mul", out, op("sub", 1.0, out))),
    "tanh": lambda op, call, grad, out: op("mul", grad, op("sub", 1.0, op("mul", out, out))),
    "relu": lambda op, call, grad, out: op("where", op("le", out, 0.0), 0.0, grad),
    "softmax": lambda op, call, grad, out: op(
        "mul", out, op("sub", grad, op("sum", op("mul", grad, out), call.axis, True))
    ),
    "log_softmax": lambda op, call, grad, out: op(
        "sub", grad, op("mul", op("exp", out), op("sum", grad, call.axis, True))
    ),
}


def _by_result(gradient: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any, Any], dict[str, Any]]:
    """The ``vjp`` of a row whose gradient is computed from its result, which is all that it saves."""
    return lambda call, grad: {"x": gradient(call.op, call, grad, call.out)}


for _name, _gradient in _BY_RESULT.items():
    TABLE[_name].saves, TABLE[_name].vjp = {"x": ("out",)}, _by_result(_gradient)

_HIDDEN = {
    "attention", "attention_weights", "batch_normalized", "batch_scaled", "binomial", "dropout_mask", "index", "poisson",
    "strided_slice", "torch_gradient", "transfer",
}  # fmt: skip


def __dir__() -> list[str]:
    """The functions, without what this module imports."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


__all__ = sorted({
    *(name for name in TABLE if name not in _HIDDEN), "allclose", "build_matmul_kernel", "equal", "fold_bn_params",
    "get_rng_state", "manual_seed", "set_rng_state",
})  # fmt: skip
globals().update({name: as_function(row, None) for name, row in TABLE.items() if name not in _HIDDEN})
for _name in __all__:
    if _name in TABLE and not hasattr(Tensor, _name):
        setattr(Tensor, _name, as_method(_name))
