"""netcl.ops: the functions of the op table, not recorded."""

from __future__ import annotations

from netcl_core_kit.decompositions import complete
from netcl_core_kit.made import allclose, build_matmul_kernel, equal, fold_bn_params  # noqa: F401
from netcl_core_kit.tensor import as_method

from netcl.core.ops_table.dispatch import TABLE, Domain
from netcl.core.tensor import Tensor
from netcl.ops import elementwise, linalg, made, nn, random, reductions, shape  # noqa: F401
from netcl.ops.random import get_rng_state, manual_seed, set_rng_state  # noqa: F401
from netcl.ops.table import as_function

# A cast to float32, multiples of a divisor, equal elements and a random order have no differences.
for _name in ("cast", "mod", "mode", "unique", "unique_consecutive", "permutation"):
    TABLE[_name].domain = Domain(gradient=False)

_HIDDEN = {
    "attention", "attention_weights", "batch_normalized", "binomial", "dropout_mask", "igamma", "igammac", "index",
    "poisson", "strided_slice", "torch_gradient", "transfer",
}  # fmt: skip


def __dir__() -> list[str]:
    """The functions, without what this module imports."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


__all__ = sorted({
    *(name for name in TABLE if name not in _HIDDEN), "allclose", "build_matmul_kernel", "equal", "fold_bn_params",
    "get_rng_state", "manual_seed", "set_rng_state",
})  # fmt: skip
globals().update({name: as_function(row, None) for name, row in TABLE.items() if name not in _HIDDEN})
for _name in (one for one in __all__ if one in TABLE and not hasattr(Tensor, one)):
    setattr(Tensor, _name, as_method(_name))
complete()
