"""The ops of netcl, forward only: tensors in, plain tensors out; `netcl` and `netcl.autograd` record for gradients.

On a tensor that requires grad, while grad is enabled, they warn: ForwardOnlyWarning, once for each line that calls.
"""

from __future__ import annotations

# ruff: noqa: F401
# As lists: a line for each of 250 names would be a screen and a half.
# isort: off
# fmt: off
from typing import Any

from netcl.core.__about__ import __version__ as _version
from netcl.core.tensor.methods import describe
from netcl.ops.activation import (
    celu, elu, gelu, glu, hard_sigmoid, hard_swish, hard_tanh, hardshrink, leaky_relu, logit, logsigmoid, mish,
    prelu, relu, relu6, selu, sigmoid, silu, softplus, softshrink, softsign, swish, tanh, tanhshrink, threshold,
)
from netcl.ops.adaptive import (
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from netcl.ops.arrange import chunk, diag, flip, narrow, repeat, roll, split, tile, tril, triu, unbind
from netcl.ops.attention import causal_mask, rope, scaled_dot_product_attention
from netcl.ops.bits import bitwise_and, bitwise_not, bitwise_or, bitwise_xor, left_shift, right_shift
from netcl.ops.calculus import cumulative_trapezoid, gradient, trapezoid
from netcl.ops.channels import channel_shuffle, local_response_norm
from netcl.ops.conv import (
    conv1d, conv1d_grad_input, conv1d_grad_weight, conv2d, conv2d_grad_input, conv2d_grad_weight, conv3d,
    conv3d_grad_input, conv3d_grad_weight, conv_tbc, depthwise_conv2d, fold_bn_params,
)
from netcl.ops.conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from netcl.ops.ctc import ctc_loss
from netcl.ops.distance import cdist, cosine_similarity, pairwise_distance, pdist
from netcl.ops.einsum import einsum
from netcl.ops.elementwise import (
    abs, acos, acosh, add, addcdiv, addcmul, allclose, asin, asinh, atan, atan2, atanh, bias_add, cast, ceil, clamp,
    clip, clone, copysign, cos, cosh, div, elementwise_binary, elementwise_unary, eq, equal, exp, exp2, expm1, floor,
    floor_divide, ge, gt, heaviside, hypot, isclose, isfinite, isinf, isnan, le, lerp, log, log10, log1p, log2,
    logaddexp, logical_and, logical_not, logical_or, logical_xor, lt, maximum, minimum, mod, mul, nan_to_num, ne, neg,
    nextafter, pow, reciprocal, round, rsqrt, sign, signbit, sin, sinh, sqrt, square, sub, tan, trunc, where,
)
from netcl.ops.factorizations import det, slogdet
from netcl.ops.factorizations import inv as inverse
from netcl.ops.factorizations import pinv as pinverse
from netcl.ops.fractional import fractional_max_pool2d, fractional_max_pool3d
from netcl.ops.getitem import getitem, index_put, setitem
from netcl.ops.grid import affine_grid, grid_sample
from netcl.ops.index import embedding, gather, index_select, one_hot, take, take_along_axis, unravel_index
from netcl.ops.join import (
    atleast_1d, atleast_2d, atleast_3d, bartlett_window, blackman_window, block_diag, broadcast_tensors, cartesian_prod,
    column_stack, combinations, diff, dstack, hamming_window, hann_window, hstack, kaiser_window, rot90, tril_indices,
    triu_indices, vstack,
)
from netcl.ops.linalg import (
    addmm, baddbmm, bilinear, bmm, build_matmul_kernel, dot, kron, linear, matmul, mm, mv, outer, tensordot, trace,
)
# Rows of netcl.linalg, netcl.special and netcl.sparse:
import netcl.ops.incomplete_gamma
import netcl.ops.ldl
import netcl.ops.lu
import netcl.ops.normal_distribution
import netcl.ops.polynomials
import netcl.ops.reflections
import netcl.ops.sparse
from netcl.ops.masking import fill, masked_fill, masked_select, nonzero
from netcl.ops.matrix import diagonal, logdet, matrix_exp, matrix_power, matrix_transpose, vander
from netcl.ops.noise import alpha_dropout, feature_alpha_dropout, feature_dropout, rrelu
from netcl.ops.norm import batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, rms_norm
from netcl.ops.pad import pad
from netcl.ops.pool import (
    avg_pool1d, avg_pool2d, avg_pool3d, lp_pool1d, lp_pool2d, lp_pool3d, max_pool1d, max_pool2d, max_pool3d,
)
from netcl.ops.random import (
    bernoulli, dropout, get_rng_state, manual_seed, normal, permutation, rand, randint, randn, randperm,
    set_rng_state, uniform,
)
from netcl.ops.recurrence import recurrence
from netcl.ops.reduce import (
    all, amax, amin, any, argmax, argmin, count_nonzero, log_softmax, logsumexp, max, mean, min, norm, prod,
    reduce_mean, reduce_sum, softmax, std, std_mean, sum, var, var_mean,
)
from netcl.ops.resample import interpolate, pixel_shuffle, pixel_unshuffle, upsample
from netcl.ops.scan import cummax, cummin, cumprod, cumsum, linear_recurrence, logcumsumexp
from netcl.ops.scatter import bincount, index_add, index_copy, index_reduce, scatter, scatter_add, scatter_reduce
from netcl.ops.search import bucketize, histogram, isin, searchsorted, unique, unique_consecutive
from netcl.ops.shape import broadcast_to, cat, expand, flatten, permute, reshape, squeeze, stack, transpose, unsqueeze
from netcl.ops.sort import argsort, kthvalue, median, mode, quantile, sort, topk
from netcl.ops.bessel import i0
from netcl.ops.special import digamma, erf, erfc, erfinv, lgamma, multigammaln, mvlgamma, polygamma, sinc, xlogy
from netcl.ops.statistics import corrcoef, cov, histc, renorm
from netcl.ops.unfold import col2im, im2col
from netcl.ops.unpool import max_unpool1d, max_unpool2d, max_unpool3d

# The functions above; the stub that tools/write_stubs.py writes has them by name.
__all__ = sorted(_name for _name, _value in globals().items() if callable(_value) and _name not in ("Any", "describe"))

describe()


def __getattr__(name: str) -> Any:
    """Raises AttributeError with the version: a layer above may be newer than this netcl-core."""
    raise AttributeError(f"module 'netcl.ops' of netcl-core {_version} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
