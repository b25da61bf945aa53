"""The ops of netcl, forward only: tensors in, plain tensors out; `netcl` and `netcl.autograd` record for gradients.

On a tensor that requires grad, while grad is enabled, they warn: ForwardOnlyWarning, once for each line that calls.
"""

from __future__ import annotations

# ruff: noqa: F401
# As lists: a line for each module would be a screen and a half.
# isort: off
# fmt: off
from typing import Any

from netcl.core.__about__ import __version__ as _version
from netcl.core.tensor.methods import describe
from netcl.ops import (  # each adds its rows
    activation, adaptive, arrange, attention, bessel, bits, cached_attention, calculus, channels, conv,
    conv_transpose, ctc, distance,
    einsum, elementwise, factorizations, fractional, getitem, grid, incomplete_gamma, index, join, ldl, linalg, lu,
    masking, matrix, noise, norm, normal_distribution, packed, pad, polynomials, pool, random, recurrence, reduce,
    reflections, resample, scan, scatter, search, shape, sort, sparse, special, statistics, unfold, unpool,
)
from netcl.ops.conv import fold_bn_params
from netcl.ops.elementwise import allclose, equal
from netcl.ops.linalg import build_matmul_kernel
from netcl.ops.random import get_rng_state, manual_seed, set_rng_state
from netcl.ops.table import FUNCTIONS as _FUNCTIONS

# Rows that other ops are made of, and rows of netcl.special alone; rows of netcl.linalg are named linalg_.
_PARTS = """
adaptive_avg_pool adaptive_avg_pool_grad adaptive_max_pool adaptive_max_pool_grad add_at added_product added_quotient
airy_ai alpha_dropout_apply argmax_along argmin_along as_strided attention_weights avg_pool avg_pool_grad
batch_norm_inference batch_norm_training bessel_j0 bessel_j1 bessel_y0 bessel_y1 binomial border border_grad
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w clamp_between concatenate
contiguous csr_matmul ctc_occupancy ctc_paths ctc_states dropout_apply dropout_mask embedding_rows entr erfcx fold_scale
fold_shift gather_grad geqrf grid_index grid_sum grid_weight hermite_polynomial_h hermite_polynomial_he histogram_grid
i0e i1 i1e igamma igammac index_select_grad kth_index laguerre_polynomial_l last_at legendre_polynomial_p log_ndtr
max_along max_pool max_pool_grad min_along modified_bessel_k0 modified_bessel_k1 ndtr ndtri norm_of_difference ormqr
packed_fused packed_product packed_unpack poisson polygamma_of polynomial_end polynomial_start polynomial_steps
put_along_axis put_at recurrence_back reduce_at renormed resample resample_grad rms_scale rotate_pairs
sampled_matmul scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sorted_values spherical_bessel_j0 standardize
strided_scatter strided_slice take_at tiled_attention tiled_attention_gradients transfer weighted_sum windows xlog1py
zeta
"""
# Other names -> the name of the row.
_ALIASES = {
    "broadcast_to": "expand", "clip": "clamp", "det": "linalg_det", "inverse": "linalg_inv",
    "matrix_power": "linalg_matrix_power", "mvlgamma": "multigammaln", "pinverse": "linalg_pinv", "reduce_mean": "mean",
    "reduce_sum": "sum", "slogdet": "linalg_slogdet", "swish": "silu",
}

globals().update((_name, _FUNCTIONS[_row]) for _name, _row in _ALIASES.items())
_hidden = frozenset(_PARTS.split())
globals().update(
    (_name, _op) for _name, _op in _FUNCTIONS.items() if _name not in _hidden and not _name.startswith("linalg_")
)
# The functions above; the stub that tools/write_stubs.py writes has them by name. The layers above iterate these names,
# so functions of an optional level are not among them.
_OPTIONAL = ("cached_attention", "packed_linear")
__all__ = sorted(
    _name for _name, _value in globals().items() if callable(_value) and _name not in ("Any", "describe", *_OPTIONAL)
)

describe()


def __getattr__(name: str) -> Any:
    """Raises AttributeError with the version: a layer above may be newer than this netcl-core."""
    raise AttributeError(f"module 'netcl.ops' of netcl-core {_version} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
