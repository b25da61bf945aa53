"""netcl.ops: the functions of the op table, not recorded."""

from __future__ import annotations

from netcl.core.dispatch import TABLE, Domain
from netcl.ops import elementwise, linalg, made, nn, random, reductions, shape  # noqa: F401
from netcl.ops.made import allclose, build_matmul_kernel, equal, fold_bn_params  # noqa: F401
from netcl.ops.random import get_rng_state, manual_seed, set_rng_state  # noqa: F401
from netcl.ops.table import as_function

# The gradient of these reads no element of what they move, and of these it reads the result.
for _name in [
    "clone",
    "flip",
    "roll",
    "tile",
    "repeat",
    "diag",
    "rot90",
    "tril",
    "triu",
    "trace",
    "cat",
    "stack",
    "hstack",
    "vstack",
    "dstack",
    "column_stack",
    "pad",
    "index",
    "index_select",
    "gather",
    "take",
    "take_along_axis",
    "broadcast_to",
    "masked_select",
    "diff",
    "fill",
]:
    _row = TABLE[_name]
    _rest = tuple(key for key in _row.signature.parameters if key not in _row.operands[:1])
    _row.saves = {**(_row.saves or {}), _row.operands[0]: _rest}
for _name in ("cast", "mod"):  # a cast to float32 and multiples of a divisor have no differences
    TABLE[_name].domain = Domain(gradient=False)
for _name in ("exp", "tanh", "sigmoid", "sqrt", "softmax", "log_softmax"):
    TABLE[_name].saves = {"x": ("x", "out")}

_HIDDEN = {
    "torch_gradient",
    "index",
    "drop_mask",
    "attention",
    "attention_weights",
    "batch_normalized",
    "poisson",
    "binomial",
    "strided_slice",
    "transfer",
}
__all__ = sorted({
    *(name for name in TABLE if name not in _HIDDEN), "allclose", "build_matmul_kernel", "equal", "fold_bn_params",
    "get_rng_state", "manual_seed", "set_rng_state",
})  # fmt: skip
globals().update({name: as_function(row, None) for name, row in TABLE.items() if name not in _HIDDEN})
del _HIDDEN, _name, _row, _rest
