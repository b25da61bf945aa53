"""The differentiable ops and the losses; written by tools/write_stubs.py."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from netcl.core import Tensor
from netcl.ops.ranked import Ranked
from netcl.ops.signatures import Axis, Ints, Operand


__all__ = [
    "abs",
    "acos",
    "acosh",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "add",
    "add_relu",
    "addcdiv",
    "addcmul",
    "addmm",
    "affine_grid",
    "all",
    "alpha_dropout",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "baddbmm",
    "bartlett_window",
    "batch_all_triplet_loss",
    "batch_hard_triplet_loss",
    "batch_norm",
    "batch_norm2d",
    "bernoulli",
    "bias_add",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "bincount",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "blackman_window",
    "block_diag",
    "bmm",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "cartesian_prod",
    "cast",
    "cat",
    "causal_mask",
    "cdist",
    "ceil",
    "celu",
    "channel_shuffle",
    "chunk",
    "clamp",
    "clip",
    "clone",
    "col2im",
    "column_stack",
    "combinations",
    "contrastive_loss",
    "conv1d",
    "conv1d_grad_input",
    "conv1d_grad_weight",
    "conv2d",
    "conv2d_grad_input",
    "conv2d_grad_weight",
    "conv2d_relu",
    "conv3d",
    "conv3d_grad_input",
    "conv3d_grad_weight",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "cosine_embedding_loss",
    "cosine_similarity",
    "count_nonzero",
    "cov",
    "cross_entropy",
    "ctc_loss",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "depthwise_conv2d",
    "det",
    "diag",
    "diagonal",
    "diff",
    "digamma",
    "div",
    "dot",
    "dropout",
    "dstack",
    "einsum",
    "elementwise_binary",
    "elementwise_unary",
    "elu",
    "embedding",
    "eq",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expand",
    "expm1",
    "feature_alpha_dropout",
    "feature_dropout",
    "fill",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "focal_loss",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gather",
    "gaussian_nll_loss",
    "ge",
    "gelu",
    "getitem",
    "glu",
    "gradient",
    "grid_sample",
    "group_norm",
    "gru_gates",
    "gt",
    "hamming_window",
    "hann_window",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "hardshrink",
    "heaviside",
    "hinge_embedding_loss",
    "hinge_loss",
    "histc",
    "histogram",
    "hstack",
    "huber_loss",
    "hypot",
    "i0",
    "im2col",
    "index_add",
    "index_copy",
    "index_put",
    "index_reduce",
    "index_select",
    "info_nce_loss",
    "instance_norm",
    "interpolate",
    "inverse",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "kaiser_window",
    "kl_div",
    "kron",
    "kthvalue",
    "l1_loss",
    "l2_normalize",
    "layer_norm",
    "le",
    "leaky_relu",
    "left_shift",
    "lerp",
    "lgamma",
    "linear",
    "linear_recurrence",
    "linear_relu",
    "local_response_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsigmoid",
    "logsumexp",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "lstm_gates",
    "lt",
    "margin_ranking_loss",
    "masked_fill",
    "masked_select",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "matrix_transpose",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "mish",
    "mm",
    "mod",
    "mode",
    "mse_loss",
    "mul",
    "multi_margin_loss",
    "multigammaln",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "mv",
    "mvlgamma",
    "nan_to_num",
    "narrow",
    "ne",
    "neg",
    "nextafter",
    "nll_loss",
    "nonzero",
    "norm",
    "normal",
    "one_hot",
    "outer",
    "pad",
    "pairwise_distance",
    "pdist",
    "permutation",
    "permute",
    "pinverse",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "polygamma",
    "pow",
    "prelu",
    "prod",
    "quantile",
    "rand",
    "randint",
    "randn",
    "randperm",
    "reciprocal",
    "recurrence",
    "reduce_mean",
    "reduce_sum",
    "relu",
    "relu6",
    "renorm",
    "repeat",
    "reshape",
    "right_shift",
    "rms_norm",
    "roll",
    "rope",
    "rot90",
    "round",
    "rrelu",
    "rsqrt",
    "scaled_dot_product_attention",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "selu",
    "setitem",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "slogdet",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softplus",
    "softshrink",
    "softsign",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "sub",
    "sum",
    "swish",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tanhshrink",
    "tensordot",
    "threshold",
    "tile",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "tril",
    "tril_indices",
    "triplet_loss",
    "triplet_margin_loss",
    "triu",
    "triu_indices",
    "trunc",
    "unbind",
    "uniform",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsqueeze",
    "upsample",
    "vander",
    "var",
    "var_mean",
    "vstack",
    "where",
    "xlogy",
]

def abs(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns |x|."""
def acos(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse cosine, in radians."""
def acosh(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse hyperbolic cosine; NaN below 1."""
def adaptive_avg_pool1d(x: Tensor, output_size: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the averages of x (N, C, L) or (C, L) over output_size (an int or 1, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out)."""
def adaptive_avg_pool2d(x: Tensor, output_size: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the averages of x (N, C, H, W) or (C, H, W) over output_size (an int or 2, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out)."""
def adaptive_avg_pool3d(x: Tensor, output_size: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the averages of x (N, C, D, H, W) or (C, D, H, W) over output_size (an int or 3, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out)."""
@overload
def adaptive_max_pool1d(x: Tensor, output_size: Any, return_indices: Literal[False] = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the maxima of x (N, C, L) or (C, L) over output_size (an int or 1, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool1d(x: Tensor, output_size: Any, *, return_indices: Literal[True], out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the maxima of x (N, C, L) or (C, L) over output_size (an int or 1, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool1d(x: Tensor, output_size: Any, return_indices: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the maxima of x (N, C, L) or (C, L) over output_size (an int or 1, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool2d(x: Tensor, output_size: Any, return_indices: Literal[False] = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the maxima of x (N, C, H, W) or (C, H, W) over output_size (an int or 2, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool2d(x: Tensor, output_size: Any, *, return_indices: Literal[True], out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the maxima of x (N, C, H, W) or (C, H, W) over output_size (an int or 2, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool2d(x: Tensor, output_size: Any, return_indices: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the maxima of x (N, C, H, W) or (C, H, W) over output_size (an int or 2, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool3d(x: Tensor, output_size: Any, return_indices: Literal[False] = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the maxima of x (N, C, D, H, W) or (C, D, H, W) over output_size (an int or 3, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool3d(x: Tensor, output_size: Any, *, return_indices: Literal[True], out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the maxima of x (N, C, D, H, W) or (C, D, H, W) over output_size (an int or 3, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
@overload
def adaptive_max_pool3d(x: Tensor, output_size: Any, return_indices: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the maxima of x (N, C, D, H, W) or (C, D, H, W) over output_size (an int or 3, None keeps an axis) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out); return_indices adds their flat positions within a plane, int32."""
def add(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a + b, broadcast."""
def add_relu(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns relu(a + b)."""
def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x + value tensor1 / tensor2, broadcast. Raises DTypeError for integers to be divided, as PyTorch does."""
def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x + value tensor1 tensor2, broadcast. Integers stay integers, if ``value`` is one; else raises DTypeError."""
def addmm(x: Tensor, a: Tensor, b: Tensor, beta: builtins.float = 1.0, alpha: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns beta x + alpha a @ b for matrices a (M, K) and b (K, N); x broadcasts to (M, N), and is ignored at beta 0. beta and alpha of whole numbers are whole, without the digits after the point."""
def affine_grid(theta: Tensor, size: Any, align_corners: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the grid (N, H, W, 2) for ``grid_sample`` of the affine maps theta (N, 2, 3), for images of ``size`` (N, C, H, W); of theta (N, 3, 4) and (N, C, D, H, W) the grid (N, D, H, W, 3)."""
def all(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if every element over ``axis`` is nonzero; True for no elements."""
def alpha_dropout(x: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with elements set to the limit of SELU at -infinity with probability p, scaled and shifted so that mean 0 and variance 1 are kept (Klambauer et al. 2017). If not ``training``: x itself."""
def amax(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the largest element over ``axis``; NaN wins; ties share the gradient evenly. Raises ShapeError for no elements."""
def amin(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the smallest element over ``axis``; NaN wins; ties share the gradient evenly. Raises ShapeError for no elements."""
def any(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if any element over ``axis`` is nonzero; False for no elements."""
def argmax(x: Tensor, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the position of the first largest element along ``axis``, or of the flattened tensor for None; int64."""
def argmin(x: Tensor, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the position of the first smallest element along ``axis``, or of the flattened tensor for None; int64."""
def argsort(x: Tensor, axis: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = True, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions, int64, that put the elements along ``axis`` in order, as in ``sort``."""
def asin(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse sine, in radians."""
def asinh(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse hyperbolic sine."""
def atan(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse tangent, in radians."""
def atan2(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the angle of the point (b, a)."""
def atanh(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse hyperbolic tangent; NaN beyond 1."""
def atleast_1d(x: Tensor, *more: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Any:
    """Returns x, of shape (1,) if it is 0-d; of several tensors, or a list, a tuple of them."""
def atleast_2d(x: Tensor, *more: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Any:
    """Returns x with two axes or more: (n,) gives (1, n); several as in ``atleast_1d``."""
def atleast_3d(x: Tensor, *more: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Any:
    """Returns x with three axes or more: (n,) gives (1, n, 1), and (m, n) gives (m, n, 1); several as in ``atleast_1d``."""
def avg_pool1d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the average of each window of x (N, C, L) or (C, L). Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds up."""
def avg_pool2d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the average of each window of x (N, C, H, W) or (C, H, W). Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds up."""
def avg_pool3d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the average of each window of x (N, C, D, H, W) or (C, D, H, W). Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds up."""
def baddbmm(x: Tensor, a: Tensor, b: Tensor, beta: builtins.float = 1.0, alpha: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns beta x + alpha a @ b for stacks a (B, M, K), b (B, K, N); x broadcasts to (B, M, N), as in ``addmm``."""
def bartlett_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = 'float32', device: Any = None, requires_grad: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 - |2 k / N - 1|, N as in ``hann_window``: (window_length,)."""
def batch_all_triplet_loss(x: Tensor, labels: Tensor, margin: builtins.float = 1.0, distance: str = 'squared', reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the mean of d(anchor, positive) - d(anchor, negative) + margin over the triplets with a positive value."""
def batch_hard_triplet_loss(x: Tensor, labels: Tensor, margin: builtins.float = 1.0, distance: str = 'squared', reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the mean over anchors of max(0, farthest of its class - nearest of another + margin) (Hermans et al. 2017)."""
def batch_norm(x: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, training: builtins.bool = False, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Normalizes x (N, C, ...) per channel, then scales and shifts by weight and bias (C,) (Ioffe and Szegedy 2015)."""
def batch_norm2d(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, running_mean: Tensor | None = None, running_var: Tensor | None = None, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05, training: builtins.bool = True, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns ``batch_norm`` of images (N, C, H, W); training updates the running statistics in place, if given."""
def bernoulli(p: Any, shape: Any = None, dtype: str = 'float32', queue: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 with probability p, else 0: per element of a tensor p (its shape and dtype), or of ``shape`` for a number."""
def bias_add(x: Tensor, bias: Tensor, axis: builtins.int | None = None, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x plus a vector along ``axis`` (default: 1 for images of rank 4 and 5, else the last)."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y_k = input1^T W_k input2 + b_k: (..., in1) and (..., in2) with weight (out, in1, in2) give (..., out). Raises ShapeError if the shapes do not match."""
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns -(t log x + (1 - t) log(1 - x)) of probabilities x, times ``weight``; logarithms are clamped at -100."""
def binary_cross_entropy_with_logits(x: Operand, target: Operand, weight: Operand | None = None, pos_weight: Operand | None = None, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns ``binary_cross_entropy`` of sigmoid(x), without overflow; ``pos_weight`` weighs the term of target 1."""
def bincount(x: Tensor, weights: Tensor | None = None, minlength: builtins.int = 0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the number of occurrences of 0, 1, ... in x (n,), or the sum of its ``weights``: (max(largest + 1, minlength),)."""
def bitwise_and(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the bitwise and of two integers; logical and for bool."""
def bitwise_not(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the complement of an integer; logical not for bool."""
def bitwise_or(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the bitwise or of two integers; logical or for bool."""
def bitwise_xor(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the bitwise exclusive or of two integers; logical exclusive or for bool."""
def blackman_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = 'float32', device: Any = None, requires_grad: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N), N as in ``hann_window``: (window_length,)."""
def block_diag(*tensors: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the matrix with the tensors as blocks along its diagonal and zeros elsewhere; vectors are rows. Raises ShapeError for no tensors, and for more than two axes."""
def bmm(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the products of two stacks of matrices, (B, M, K) and (B, K, N)."""
def broadcast_tensors(*tensors: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns each tensor expanded to the shape that all broadcast to; raises ShapeError if they do not."""
def broadcast_to(x: Tensor, shape: Sequence[builtins.int], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy broadcast to ``shape`` by NumPy's rules; -1 keeps a length."""
def bucketize(x: Tensor | builtins.float, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the number of rising ``boundaries`` (n,) below each element of x, a tensor or one number, or with ``right`` not above it: int64, or int32 with ``out_int32``; x's shape."""
def cartesian_prod(*tensors: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns all tuples of one element of each vector, the last vector fastest: (n, number of tensors), or the vector itself if there is one. Raises ShapeError for no tensors, or one that is no vector."""
def cast(x: Tensor, *, dtype: str = 'float32', out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x converted to ``dtype``: floats to integers by truncation, to bool True for any nonzero element."""
def cat(tensors: Sequence[Tensor], axis: builtins.int = 0, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the tensors of a list concatenated along ``axis``; all other lengths must be equal. An empty tensor of one axis is left out next to tensors of more axes."""
def causal_mask(queries: builtins.int, keys: builtins.int | None = None, offset: builtins.int = 0, queue: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a mask (queries, keys), bool, True if query i may attend to the key: keys 0 .. i + offset. ``keys`` defaults to ``queries``."""
def cdist(a: Tensor, b: Tensor, p: builtins.float = 2.0, compute_mode: str = 'use_mm_for_euclid_dist_if_necessary', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the p-norms of the differences of all pairs of rows: a (..., P, M) and b (..., R, M) give (..., P, R)."""
def ceil(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the smallest integer not below x; integers unchanged."""
def celu(x: Tensor, alpha: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x if positive, else alpha (exp(x / alpha) - 1)."""
def channel_shuffle(x: Tensor, groups: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the channels of x (N, C, spatial...) in another order: channel g C / groups + i becomes i groups + g (Zhang et al. 2018). Raises ShapeError if ``groups`` does not divide C."""
def chunk(x: Tensor, chunks: builtins.int, axis: builtins.int = 0, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns at most ``chunks`` equal parts along ``axis``, the last may be smaller; of nothing so many empty ones."""
def clamp(x: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x limited to [min, max], NaN if a limit is; None is no limit. The gradient passes within the limits and at them."""
def clip(x: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x limited to [min, max], NaN if a limit is; None is no limit. The gradient passes within the limits and at them."""
def clone(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy of x."""
def col2im(columns: Tensor, shape: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the adjoint of ``im2col``: ``columns``, rows of windows, summed into an image of ``shape`` (N, C, *S)."""
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the tensors of a list joined along axis 1; vectors are columns."""
def combinations(x: Tensor, r: builtins.int = 2, with_replacement: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns all combinations of ``r`` elements of the vector x, in the order of `itertools`: (n, r)."""
def contrastive_loss(a: Tensor, b: Tensor, target: Tensor, margin: builtins.float = 1.0, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns d^2 if target is 1 (similar), max(0, margin - d)^2 if it is 0; d the distance of a and b (..., D) (Hadsell et al. 2006)."""
def conv1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, algo: str | None = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the convolution of x (N, C, L) or (C, L), weight (F, C / groups, kernel...), bias (F,)."""
def conv1d_grad_input(grad_output: Tensor, weight: Tensor, shape: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the gradient of conv1d by x, of shape ``shape``, from grad_output (N, F, ...) and weight; linear in both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."""
def conv1d_grad_weight(x: Tensor, grad_output: Tensor, shape: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the gradient of conv1d by weight, of shape ``shape``, from x and grad_output (N, F, ...); linear in both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."""
def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, algo: str | None = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the convolution of x (N, C, H, W) or (C, H, W), weight (F, C / groups, kernel...), bias (F,)."""
def conv2d_grad_input(grad_output: Tensor, weight: Tensor, shape: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the gradient of conv2d by x, of shape ``shape``, from grad_output (N, F, ...) and weight; linear in both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."""
def conv2d_grad_weight(x: Tensor, grad_output: Tensor, shape: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the gradient of conv2d by weight, of shape ``shape``, from x and grad_output (N, F, ...); linear in both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."""
def conv2d_relu(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0, dilation: Ints = 1, groups: builtins.int = 1, *, pad: Ints | str | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns relu(conv2d(x, weight, bias, ...))."""
def conv3d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, algo: str | None = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the convolution of x (N, C, D, H, W) or (C, D, H, W), weight (F, C / groups, kernel...), bias (F,)."""
def conv3d_grad_input(grad_output: Tensor, weight: Tensor, shape: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the gradient of conv3d by x, of shape ``shape``, from grad_output (N, F, ...) and weight; linear in both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."""
def conv3d_grad_weight(x: Tensor, grad_output: Tensor, shape: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: builtins.int = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the gradient of conv3d by weight, of shape ``shape``, from x and grad_output (N, F, ...); linear in both. ``stride``, ``padding``, ``dilation`` and ``groups`` are the convolution's."""
def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: builtins.int = 0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the convolution of sequences with the time first: x (T, N, C), weight (K, C, F) and bias (F,) give (T', N, F)."""
def conv_transpose1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: builtins.int = 1, dilation: Any = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the transposed convolution: the gradient of conv1d by its input, as a separate op."""
def conv_transpose2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: builtins.int = 1, dilation: Any = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the transposed convolution: the gradient of conv2d by its input, as a separate op."""
def conv_transpose3d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: builtins.int = 1, dilation: Any = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the transposed convolution: the gradient of conv3d by its input, as a separate op."""
def copysign(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns |a| with the sign of b, also of a zero."""
def corrcoef(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the correlations of the rows of x (variables, observations), in [-1, 1]; 1, 0-d, for a vector."""
def cos(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the cosine of x in radians."""
def cosh(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the hyperbolic cosine."""
def cosine_embedding_loss(a: Tensor, b: Tensor, target: Tensor, margin: builtins.float = 0.0, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 - cos(a, b) if target is 1, max(0, cos(a, b) - margin) if it is -1; a and b (..., D), target (...)."""
def cosine_similarity(a: Operand, b: Operand, axis: builtins.int = 1, eps: builtins.float = 1e-08, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a b / (max(|a|, eps) max(|b|, eps)) along ``axis``, broadcast, from the quotients a / max(|a|, eps), so that no product overflows or underflows. A length below eps keeps its gradient, as in PyTorch."""
def count_nonzero(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the number of nonzero elements over ``axis``, int64."""
def cov(x: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None, unbiased: builtins.int | None = None, ddof: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the covariances of the rows of x (variables, observations): (variables, variables); 0-d for a vector or one row."""
def cross_entropy(logits: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: builtins.int = -100, reduction: str = 'mean', label_smoothing: builtins.float = 0.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns -log softmax(logits)[target] over axis 1: logits (N, C, ...), target class ids (N, ...) or probabilities (N, C, ...)."""
def ctc_loss(log_probs: Tensor, targets: Tensor | Any, input_lengths: Any, target_lengths: Any, blank: builtins.int = 0, reduction: str = 'mean', zero_infinity: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns -log of the probability that a path of labels and blanks yields the target (Graves et al. 2006)."""
@overload
def cummax(x: Tensor, axis: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the largest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
@overload
def cummax(x: Tensor, *, dim: builtins.int, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the largest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
@overload
def cummin(x: Tensor, axis: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the smallest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
@overload
def cummin(x: Tensor, *, dim: builtins.int, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the smallest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
@overload
def cumprod(x: Tensor, axis: builtins.int, dtype: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y[i] = x[0] * .. * x[i] along ``axis``; x's shape. x is converted to ``dtype`` first (None: its own, int64 for integers and bool), the dtype of the result."""
@overload
def cumprod(x: Tensor, *, dim: builtins.int, dtype: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y[i] = x[0] * .. * x[i] along ``axis``; x's shape. x is converted to ``dtype`` first (None: its own, int64 for integers and bool), the dtype of the result."""
@overload
def cumsum(x: Tensor, axis: builtins.int, dtype: Any = None, reverse: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y[i] = x[0] + .. + x[i] along ``axis``, or x[i] + .. + x[n - 1] with ``reverse``; x's shape."""
@overload
def cumsum(x: Tensor, *, dim: builtins.int, dtype: Any = None, reverse: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y[i] = x[0] + .. + x[i] along ``axis``, or x[i] + .. + x[n - 1] with ``reverse``; x's shape."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, axis: builtins.int = -1, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the integrals of y along ``axis`` from its first sample to each other one, as in ``trapezoid``: one element less on that axis."""
def depthwise_conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns conv2d with one group per channel: x (N, C, H, W), weight (C * multiplier, 1, kH, kW), bias (C * multiplier,)."""
def det(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the determinant of x (..., n, n): (...); also the gradient of a singular matrix is exact."""
def diag(x: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the diagonal of a matrix as a vector, or the square matrix with a vector on its diagonal."""
def diagonal(x: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the elements [i, i + offset] of the axes ``dim1`` and ``dim2``, as the last axis of a view."""
def diff(x: Tensor, n: builtins.int = 1, axis: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x[i + 1] - x[i] along ``axis``, ``n`` times; for bool, True where they differ."""
def digamma(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the derivative of ``lgamma``; NaN at -1, -2, ..., -inf at 0."""
def div(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a / b, broadcast; integers give float32."""
def dot(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inner product of two vectors (0-d), or the product of matrices."""
@overload
def dropout(x: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, seed: builtins.int | None = None, return_mask: Literal[False] = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with each element zeroed with probability p and the others divided by 1 - p (Srivastava et al. 2014)."""
@overload
def dropout(x: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, seed: builtins.int | None = None, *, return_mask: Literal[True], out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns x with each element zeroed with probability p and the others divided by 1 - p (Srivastava et al. 2014)."""
@overload
def dropout(x: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, seed: builtins.int | None = None, return_mask: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns x with each element zeroed with probability p and the others divided by 1 - p (Srivastava et al. 2014)."""
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the tensors of a list joined along axis 2, as ``atleast_3d`` gives them."""
def einsum(equation: str, *operands: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns Einstein's sum, ``einsum("bij,bjk->bik", a, b)``: pairs in opt_einsum's order, each a matmul of permuted operands."""
def elementwise_binary(a: Operand, b: Operand, expression: str = '', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the expression in C over v0 and v1, for example ``"MUL(ADD(v0, v1), 2.0f)"``; raises ExpressionError with the position of a syntax error."""
def elementwise_unary(x: Tensor, expression: str = '', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the expression in C over v0; raises ExpressionError with the position of a syntax error."""
def elu(x: Tensor, alpha: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x if positive, else alpha (exp(x) - 1)."""
def embedding(indices: Any, weight: Tensor, padding_idx: builtins.int | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the rows of weight (num, dim) at ``indices`` (...): (..., dim). The row ``padding_idx`` gets no gradient."""
def eq(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a == b."""
def erf(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the error function."""
def erfc(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 - erf(x), exact where erf(x) is near 1."""
def erfinv(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse of erf: infinite at -1 and 1, NaN beyond; Giles' polynomials (GPU Computing Gems, 2012, chapter 10), in float64 followed by steps of Newton's method."""
def exp(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns e to the power of x."""
def exp2(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 2 to the power of x."""
def expand(x: Tensor, shape: Sequence[builtins.int], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy broadcast to ``shape`` by NumPy's rules; -1 keeps a length."""
def expm1(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns exp(x) - 1, exact near zero."""
def feature_alpha_dropout(x: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Applies ``alpha_dropout`` to whole channels of x (N, C, ...)."""
def feature_dropout(x: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Applies ``dropout`` to whole channels of x (N, C, ...): zeros with probability p, the others divided by 1 - p."""
def fill(x: Tensor, value: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a tensor like x with every element ``value``, a number or a 0-d tensor, in x's dtype; the gradient of x is 0."""
def flatten(x: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the same storage with the axes start_dim..end_dim merged; a 0-d tensor becomes (1,)."""
def flip(x: Tensor, axis: Any = None, *, dim: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy in reverse order along ``axis`` (int, tuple or None for all)."""
def floor(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the largest integer not above x; integers unchanged."""
def floor_divide(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns floor(a / b); integers divided by zero give zero. Its gradient raises UnsupportedError."""
def focal_loss(x: Operand, target: Operand, reduction: str = 'mean', alpha: builtins.float = 0.25, gamma: builtins.float = 2.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns alpha_t (1 - p_t)^gamma times the binary cross entropy of logits x, targets 0 or 1 (Lin et al. 2017)."""
def fractional_max_pool2d(x: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: builtins.bool = False, _random_samples: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the largest element of each of ``output_size`` windows of kernel_size per axis, at random places, of x (N, C, H, W) or (C, H, W) (Graham 2014)."""
def fractional_max_pool3d(x: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: builtins.bool = False, _random_samples: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the largest element of each of ``output_size`` windows of kernel_size per axis, at random places, of x (N, C, D, H, W) or (C, D, H, W) (Graham 2014)."""
@overload
def gather(x: Tensor, axis: builtins.int, index: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns out[.., i, ..] = x[.., index[.., i, ..], ..] along ``axis``; off the axis ``index`` is x's shape or shorter, and ``out`` has its shape."""
@overload
def gather(x: Tensor, *, dim: builtins.int, index: Any, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns out[.., i, ..] = x[.., index[.., i, ..], ..] along ``axis``; off the axis ``index`` is x's shape or shorter, and ``out`` has its shape."""
def gaussian_nll_loss(x: Tensor, target: Tensor, var: Any, full: builtins.bool = False, eps: builtins.float = 1e-06, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns (log(var) + (x - target)^2 / var) / 2 with var at least ``eps``; ``full`` adds log(2 pi) / 2."""
def ge(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a >= b."""
def gelu(x: Tensor, *, approximate: str = 'none', out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x * Phi(x), with the normal distribution function by erf, or by tanh for ``approximate="tanh"`` (Hendrycks and Gimpel 2016)."""
def getitem(x: Tensor, key: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns ``x[key]``: a view for a key of ints, slices, Ellipsis and None, else a copy."""
def glu(x: Tensor, axis: builtins.int = -1, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a * sigmoid(b), with a and b the halves of x along ``axis`` (Dauphin et al. 2017)."""
def gradient(x: Tensor, *, spacing: Any = 1, axis: Any = None, edge_order: builtins.int = 1, dim: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns the derivatives of samples x along each of the axes (None: all), from neighbors: one tensor for each axis."""
def grid_sample(x: Tensor, grid: Tensor, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x (N, C, H, W) at the positions grid (N, H', W', 2): (N, C, H', W'); with a third axis also in 3-D."""
def group_norm(x: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Normalizes x (N, C, ...) over ``num_groups`` groups of channels; weight and bias (C,) (Wu and He 2018)."""
def gru_gates(x: Operand, h: Operand, state: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the next state (N, 1, H) of a GRU (Cho et al. 2014; the reset gate is applied after the product, as in PyTorch)."""
def gt(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a > b."""
def hamming_window(window_length: builtins.int, periodic: builtins.bool = True, alpha: builtins.float = 0.54, beta: builtins.float = 0.46, *, dtype: Any = 'float32', device: Any = None, requires_grad: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns alpha - beta cos(2 pi k / N), N the length, or one less if not ``periodic``: (window_length,)."""
def hann_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = 'float32', device: Any = None, requires_grad: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns (1 - cos(2 pi k / N)) / 2, N the length, or one less if not ``periodic``: (window_length,)."""
def hard_sigmoid(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x / 6 + 1/2 limited to [0, 1]."""
def hard_swish(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x * hard_sigmoid(x)."""
def hard_tanh(x: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x limited to [min_val, max_val]; limits of integers are truncated."""
def hardshrink(x: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x, but 0 within [-lambd, lambd]."""
def heaviside(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 0 if a is negative or NaN, 1 if it is positive, b if it is zero. Its gradient raises UnsupportedError."""
def hinge_embedding_loss(x: Operand, target: Operand, margin: builtins.float = 1.0, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x if target is 1, max(0, margin - x) if it is -1."""
def hinge_loss(x: Operand, target: Operand, reduction: str = 'mean', margin: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns max(0, margin - x target) for targets -1 and 1."""
def histc(x: Tensor, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the number of elements in each of ``bins`` equal bins from ``min`` to ``max``, in x's dtype: (bins,)."""
def histogram(x: Tensor, bins: Any = 10, range: Sequence[builtins.float] | None = None, density: builtins.bool = False, weight: Tensor | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the number of elements of x in each bin, int64 (bins,), or the sum of their ``weight``, in the dtype of x; and the edges of the bins, (bins + 1,), floating."""
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the tensors of a list joined along axis 1, or along axis 0 if they have one axis or none."""
def huber_loss(x: Tensor, target: Tensor, reduction: str = 'mean', delta: builtins.float = 1.0, weight: Tensor | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns d^2 / 2 for d = |x - target| up to delta, then delta (d - delta / 2) (Huber 1964). Warns if the shapes differ. ``weight``, of the shape of x, multiplies the errors; their mean is divided by their number, as in PyTorch."""
def hypot(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns sqrt(a^2 + b^2), without intermediate overflow."""
def i0(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the modified Bessel function of order zero."""
def im2col(x: Tensor, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the windows of x (N, C, *S) as rows: (N * prod(O), C * prod(kernel)), O the output sizes of a convolution."""
@overload
def index_add(x: Tensor, axis: builtins.int, index: Any, source: Tensor, alpha: builtins.float = 1, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with alpha * source[.., i, ..] added at [.., index[i], ..] along ``axis``, in the order of i."""
@overload
def index_add(x: Tensor, *, dim: builtins.int, index: Any, source: Tensor, alpha: builtins.float = 1, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with alpha * source[.., i, ..] added at [.., index[i], ..] along ``axis``, in the order of i."""
@overload
def index_copy(x: Tensor, axis: builtins.int, index: Any, source: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with source[.., i, ..] in place of [.., index[i], ..] along ``axis``; the last equal index wins."""
@overload
def index_copy(x: Tensor, *, dim: builtins.int, index: Any, source: Tensor, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with source[.., i, ..] in place of [.., index[i], ..] along ``axis``; the last equal index wins."""
def index_put(x: Tensor, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy of x with ``values``, which broadcast, written at (or with ``accumulate`` added to) x[indices]."""
@overload
def index_reduce(x: Tensor, axis: builtins.int, index: Any, source: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Applies ``scatter_reduce`` to whole slices: source[.., i, ..] at [.., index[i], ..] by prod, mean, amax or amin; index (n,), source x's shape with n for the axis."""
@overload
def index_reduce(x: Tensor, *, dim: builtins.int, index: Any, source: Tensor, reduce: str, include_self: builtins.bool = True, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Applies ``scatter_reduce`` to whole slices: source[.., i, ..] at [.., index[i], ..] by prod, mean, amax or amin; index (n,), source x's shape with n for the axis."""
@overload
def index_select(x: Tensor, axis: builtins.int, index: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions ``index`` (a tensor or host values of any shape) on ``axis``, which the index's axes replace; a 0-d tensor names one position, and keeps the axis."""
@overload
def index_select(x: Tensor, *, dim: builtins.int, index: Any, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions ``index`` (a tensor or host values of any shape) on ``axis``, which the index's axes replace; a 0-d tensor names one position, and keeps the axis."""
def info_nce_loss(query: Tensor, keys: Tensor, temperature: builtins.float = 0.07, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Cross entropy over cosine(query i, key j) / ``temperature`` with the class j = i (van den Oord et al. 2018)."""
def instance_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Normalizes each channel of each sample of x (N, C, ...) over its spatial axes (Ulyanov et al. 2016)."""
def interpolate(x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None, antialias: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x (N, C, spatial...) resized to ``size``, or by ``scale_factor`` (sizes are rounded down): numbers for all axes or one per axis."""
def inverse(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse of x (..., n, n). Raises SingularMatrixError if there is none."""
def isclose(a: Operand, b: Operand, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if |a - b| <= atol + rtol |b|, or a equals b; NaN equals NaN with ``equal_nan`` only."""
def isfinite(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if x is neither infinite nor NaN."""
def isin(elements: Tensor | builtins.float, test_elements: Tensor | builtins.float, *, assume_unique: builtins.bool = False, invert: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns True for each element that equals one of ``test_elements``, of any shape, or with ``invert`` for each other one. One of both may be a number. NaN equals nothing. ``assume_unique`` changes nothing."""
def isinf(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if x is infinite."""
def isnan(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if x is NaN."""
def kaiser_window(window_length: builtins.int, periodic: builtins.bool = True, beta: builtins.float = 12.0, *, dtype: Any = 'float32', device: Any = None, requires_grad: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns i0(beta sqrt(1 - (2 k / N - 1)^2)) / i0(beta), N as in ``hann_window``: (window_length,)."""
def kl_div(x: Tensor, target: Tensor, reduction: str = 'mean', log_target: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns target (log target - x) for log-probabilities x; ``reduction="batchmean"`` divides the sum by the length of axis 0 of x, as PyTorch does also if the target is larger."""
def kron(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the Kronecker product: every element of a times all of b, (a0, a1) and (b0, b1) give (a0 b0, a1 b1)."""
def kthvalue(x: Tensor, k: builtins.int, axis: builtins.int = -1, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the ``k``-th smallest along ``axis``, from 1, and its position, int64. Raises ShapeError if k is not in 1..n."""
def l1_loss(x: Tensor, target: Tensor, reduction: str = 'mean', weight: Tensor | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns |x - target|. Warns if the shapes differ. ``weight`` is as in ``mse_loss``."""
def l2_normalize(x: Tensor, axis: Any = -1, eps: builtins.float = 1e-12, *, dim: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x / max(||x||_2, eps) over ``axis``; the gradient of the length at 0 is 0."""
def layer_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Normalizes over the last axes, of lengths ``normalized_shape``; weight and bias have that shape (Ba et al. 2016)."""
def le(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a <= b."""
def leaky_relu(x: Tensor, slope: builtins.float = 0.01, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x if positive, else slope * x."""
def left_shift(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a shifted left by b bits; 0 if b is negative or at least the width of the dtype."""
def lerp(a: Operand, b: Operand, weight: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a + weight (b - a), exact at weight 0 and 1."""
def lgamma(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log |gamma(x)|; infinite at 0, -1, -2, ...; its gradient is ``digamma``."""
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x @ weight.T + bias: x (..., in), weight (out, in), bias (out,); gives (..., out)."""
def linear_recurrence(x: Tensor, decay: Tensor, axis: builtins.int = -1, reverse: builtins.bool = False, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y[i] = x[i] + decay[i] * y[i - 1] along ``axis``, y[0] = x[0]; with ``reverse`` from the end: y[i] = x[i] + decay[i] * y[i + 1], y[n - 1] = x[n - 1]."""
def linear_relu(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns relu(x @ weight.T + bias)."""
def local_response_norm(x: Tensor, size: builtins.int, alpha: builtins.float = 0.0001, beta: builtins.float = 0.75, k: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x / (k + alpha m)^beta of x (N, C, spatial...), with m the mean of x squared over ``size`` neighboring channels, zeros outside (Krizhevsky et al. 2012)."""
def log(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the natural logarithm."""
def log10(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the logarithm to base 10."""
def log1p(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log(1 + x), exact near zero."""
def log2(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the logarithm to base 2."""
def log_softmax(x: Tensor, axis: Axis = -1, *, dtype: Any = None, dim: Axis = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x - log(sum(exp(x))) over ``axis``, without overflow, of x converted to ``dtype`` as in ``softmax``."""
def logaddexp(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log(exp(a) + exp(b)), without overflow."""
@overload
def logcumsumexp(x: Tensor, axis: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y[i] = log(exp(x[0]) + .. + exp(x[i])) along ``axis``, without overflow; floating dtypes."""
@overload
def logcumsumexp(x: Tensor, *, dim: builtins.int, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns y[i] = log(exp(x[0]) + .. + exp(x[i])) along ``axis``, without overflow; floating dtypes."""
def logdet(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the logarithm of the determinant of x (..., n, n): NaN if that is negative, -inf if it is zero."""
def logical_and(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if both are nonzero."""
def logical_not(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if x is zero."""
def logical_or(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if one or both are nonzero."""
def logical_xor(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if exactly one is nonzero."""
def logit(x: Tensor, eps: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log(x / (1 - x)), the inverse of ``sigmoid``; with ``eps``, x is first clamped to [eps, 1 - eps]; without it the result beyond [0, 1] is NaN."""
def logsigmoid(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log(sigmoid(x)), without overflow."""
def logsumexp(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log(sum(exp(x))) over ``axis``, without overflow."""
def lp_pool1d(x: Tensor, norm_type: builtins.float, kernel_size: Any, stride: Any = None, ceil_mode: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns (sum of |x|^p over each window)^(1 / p), p = norm_type, of x (N, C, L) or without N."""
def lp_pool2d(x: Tensor, norm_type: builtins.float, kernel_size: Any, stride: Any = None, ceil_mode: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns (sum of |x|^p over each window)^(1 / p), p = norm_type, of x (N, C, H, W) or without N."""
def lp_pool3d(x: Tensor, norm_type: builtins.float, kernel_size: Any, stride: Any = None, ceil_mode: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns (sum of |x|^p over each window)^(1 / p), p = norm_type, of x (N, C, D, H, W) or without N."""
def lstm_gates(x: Operand, h: Operand, cell: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the next (h, c) of an LSTM (Hochreiter and Schmidhuber 1997; Gers et al. 2000), each (N, 1, H)."""
def lt(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a < b."""
def margin_ranking_loss(x1: Operand, x2: Operand, target: Operand, margin: builtins.float = 0.0, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns max(0, -target (x1 - x2) + margin): target 1 if x1 is to be the larger, -1 if x2."""
def masked_fill(x: Tensor, mask: Tensor, value: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with ``value`` (a number or a 0-d tensor) where the mask is true; x and the mask broadcast."""
def masked_select(x: Tensor, mask: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the elements of x where the mask is true, (n,), in order; the two broadcast to each other."""
def matmul(a: Tensor, b: Tensor, tile: builtins.int = 16, *, transpose_a: builtins.bool = False, transpose_b: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a @ b by NumPy's rules: vectors, matrices, stacks of matrices with leading axes that broadcast; dtypes are promoted."""
def matrix_exp(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the exponential of a matrix or a stack of them, by scaling, the first 18 terms of its series, and squaring; in float32 for the half types."""
def matrix_power(x: Tensor, n: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x (..., k, k) multiplied by itself: x^n by repeated squaring, the identity for 0, of the inverse if n < 0."""
def matrix_transpose(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the last two axes swapped. Raises ShapeError for fewer than two."""
@overload
def max(x: Tensor, axis: None = None, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
@overload
def max(x: Tensor, axis: builtins.int, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
@overload
def max(x: Tensor, axis: Tensor, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
@overload
def max(x: Tensor, *, dim: builtins.int, keepdims: builtins.bool = False, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
@overload
def max_pool1d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the largest element of each window of x (N, C, L) or (C, L); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool1d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True], pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the largest element of each window of x (N, C, L) or (C, L); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool1d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the largest element of each window of x (N, C, L) or (C, L); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool2d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the largest element of each window of x (N, C, H, W) or (C, H, W); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool2d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True], pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the largest element of each window of x (N, C, H, W) or (C, H, W); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool2d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the largest element of each window of x (N, C, H, W) or (C, H, W); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool3d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the largest element of each window of x (N, C, D, H, W) or (C, D, H, W); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool3d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True], pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns the largest element of each window of x (N, C, D, H, W) or (C, D, H, W); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
@overload
def max_pool3d(x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Returns the largest element of each window of x (N, C, D, H, W) or (C, D, H, W); NaN wins. Windows of kernel_size every stride (default: kernel_size) over the padded input; ceil_mode rounds sizes up."""
def max_unpool1d(x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse of max_pool1d, with zeros for dropped elements: x (N, C, L) at ``indices``, or both without N."""
def max_unpool2d(x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse of max_pool2d, with zeros for dropped elements: x (N, C, H, W) at ``indices``, or both without N."""
def max_unpool3d(x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, *, pad: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the inverse of max_pool3d, with zeros for dropped elements: x (N, C, D, H, W) at ``indices``, or both without N."""
def maximum(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the larger of a and b; NaN wins."""
def mean(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the mean over ``axis`` of x converted to the floating ``dtype`` (None: x's, float32 for integers and bool). Raises DTypeError for another ``dtype``."""
@overload
def median(x: Tensor, axis: None = None, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the median along ``axis`` and its position, int64; for None only the median of all elements."""
@overload
def median(x: Tensor, axis: builtins.int, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the median along ``axis`` and its position, int64; for None only the median of all elements."""
@overload
def median(x: Tensor, *, dim: builtins.int, keepdims: builtins.bool = False, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the median along ``axis`` and its position, int64; for None only the median of all elements."""
@overload
def min(x: Tensor, axis: None = None, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
@overload
def min(x: Tensor, axis: builtins.int, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
@overload
def min(x: Tensor, axis: Tensor, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
@overload
def min(x: Tensor, *, dim: builtins.int, keepdims: builtins.bool = False, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
def minimum(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the smaller of a and b; NaN wins."""
def mish(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x * tanh(softplus(x)) (Misra 2019)."""
def mm(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the product of two matrices, (M, K) and (K, N)."""
def mod(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a - floor(a / b) * b: the sign of b, as in Python."""
def mode(x: Tensor, axis: builtins.int = -1, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the most frequent element along ``axis``, the smallest of several such, and the last of its positions, int64."""
def mse_loss(x: Tensor, target: Tensor, reduction: str = 'mean', weight: Tensor | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns (x - target)^2. Warns if the shapes differ. ``weight``, of the shape of x, multiplies the errors; their mean is divided by the sum of the weights."""
def mul(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a * b, broadcast."""
def multi_margin_loss(x: Tensor, target: Tensor, p: builtins.int = 1, margin: builtins.float = 1.0, weight: Tensor | None = None, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns sum over j != y of max(0, margin - x[y] + x[j])^p / C: x (N, C), class ids y (N,); of one sample also x (C,) or (), y () or (1,)."""
def multigammaln(x: Tensor, p: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the logarithm of the multivariate gamma function of dimension ``p``, for x > (p - 1) / 2. Raises ShapeError for a p below 1."""
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the sum over labels y and other classes i of max(0, 1 - x[y] + x[i]), divided by C: scores x (N, C) or (C,), and class ids of the same shape; ids before the first -1 count."""
def multilabel_soft_margin_loss(x: Operand, target: Operand, weight: Operand | None = None, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the mean over the last axis of the binary cross entropy of logits x (..., C) and targets 0 or 1, times ``weight`` (C,)."""
def mv(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the product of a matrix (M, K) and a vector (K,)."""
def mvlgamma(x: Tensor, p: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the logarithm of the multivariate gamma function of dimension ``p``, for x > (p - 1) / 2. Raises ShapeError for a p below 1."""
def nan_to_num(x: Tensor, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with ``nan`` for NaN, ``posinf`` for infinity and ``neginf`` for -infinity; None is the largest (smallest) finite number of x's dtype. Their gradient is zero; integers are unchanged."""
@overload
def narrow(x: Tensor, axis: builtins.int, start: builtins.int, length: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions start..start+length of one axis; a negative start counts from the end. Raises IndexError outside of the axis."""
@overload
def narrow(x: Tensor, *, dim: builtins.int, start: builtins.int, length: builtins.int, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions start..start+length of one axis; a negative start counts from the end. Raises IndexError outside of the axis."""
def ne(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a != b."""
def neg(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns -x."""
def nextafter(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the next number after a towards b in the dtype that the two promote to; integers are compared as float32."""
def nll_loss(log_probabilities: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: builtins.int = -100, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns -log_probabilities[target] over axis 1: (N, C, ...) and class ids (N, ...), as in ``cross_entropy``."""
@overload
def nonzero(x: Tensor, as_tuple: Literal[False] = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions of nonzero elements, in order: int64 (n, rank), or ``as_tuple`` one (n,) per axis."""
@overload
def nonzero(x: Tensor, *, as_tuple: Literal[True], out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns the positions of nonzero elements, in order: int64 (n, rank), or ``as_tuple`` one (n,) per axis."""
@overload
def nonzero(x: Tensor, as_tuple: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, ...]:
    """Returns the positions of nonzero elements, in order: int64 (n, rank), or ``as_tuple`` one (n,) per axis."""
def norm(x: Tensor, p: Any = 2, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the p-norm over ``axis``, (sum |x|^p)^(1/p); p 0 counts the nonzero elements, inf and -inf are the extremes of |x|."""
def normal(mean: builtins.float = 0.0, std: builtins.float = 1.0, shape: Any = (), dtype: str = 'float32', queue: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns normal numbers: mean + std z with the z of ``randn``."""
def one_hot(indices: Any, num_classes: builtins.int | None = None, dtype: str = 'int64', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 at the index and 0 elsewhere: (...) gives (..., num_classes). None reads the largest index on the host."""
def outer(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
def pad(x: Tensor, pads: Any, mode: str = 'constant', value: builtins.float = 0.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns ``x`` with a border: ``constant`` (``value``), ``reflect`` (without the edge), ``replicate`` (the edge), ``circular``."""
def pairwise_distance(a: Tensor, b: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the p-norm of a - b + eps over the last axis, broadcast."""
def pdist(x: Tensor, p: builtins.float = 2.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the p-norms of the differences of all pairs of rows i < j of x (N, M), row by row: (N (N - 1) / 2,)."""
def permutation(x: Tensor | builtins.int, axis: builtins.int = 0, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with its slices along ``axis`` in a random order; of an int n a random order of 0 .. n - 1, as ``randperm``."""
@overload
def permute(x: Tensor, axes: Sequence[builtins.int], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy with the axes in the order ``axes``, each given once."""
@overload
def permute(x: Tensor, *, dims: Sequence[builtins.int], out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy with the axes in the order ``axes``, each given once."""
def pinverse(x: Tensor, *, atol: builtins.float | None = None, rtol: builtins.float | None = None, hermitian: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the Moore-Penrose pseudoinverse of x (..., m, n): (..., n, m)."""
def pixel_shuffle(x: Tensor, upscale_factor: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Channels to pixels: (..., C r^2, H, W) gives (..., C, H r, W r) (Shi et al. 2016)."""
def pixel_unshuffle(x: Tensor, downscale_factor: builtins.int, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Pixels to channels, the inverse of ``pixel_shuffle``: (..., C, H r, W r) gives (..., C r^2, H, W)."""
def poisson_nll_loss(x: Operand, target: Operand, log_input: builtins.bool = True, full: builtins.bool = False, eps: builtins.float = 1e-08, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns exp(x) - target x, or without ``log_input`` x - target log(x + eps); ``full`` adds Stirling's approximation of log(target!) for targets above 1."""
def polygamma(n: builtins.int, x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the n-th derivative of ``digamma``, n from 0 to 150. Raises ValueError for another n."""
def pow(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a to the power of b; integers to an integer power stay integers, their negative powers are truncated to 0 (except for 1 and -1)."""
def prelu(x: Operand, alpha: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x if positive, else alpha * x, with alpha a tensor that broadcasts."""
def prod(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the product over ``axis`` of x converted to ``dtype``, as in ``sum``; its gradient is right for zeros, too."""
def quantile(x: Tensor, q: Any, axis: builtins.int | None = None, keepdims: builtins.bool = False, interpolation: str = 'linear', *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the ``q``-th quantile (a number in [0, 1], or several: then stacked in front) along ``axis`` or of all elements."""
def rand(*shape: Any, dtype: str = 'float32', queue: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns uniform numbers in [0, 1) of the given lengths, in steps of 2**-24 (float16 2**-11, bfloat16 2**-8)."""
def randint(low: builtins.int, high: builtins.int | None = None, shape: Any = (), dtype: str = 'int64', queue: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Integers in [low, high), or [0, low) if only one is given: low + (word * (high - low)) >> 32."""
def randn(*shape: Any, dtype: str = 'float32', queue: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns standard normal numbers of the given lengths, by Box and Muller."""
def randperm(n: builtins.int, dtype: str = 'int64', queue: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a random order of 0 .. n - 1; drawn on the host from (seed, offset), so equal on every device."""
def reciprocal(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 / x."""
def recurrence(x: Tensor, weight: Tensor, state: Tensor, bias: Tensor | None = None, cell: Tensor | None = None, kind: str = 'tanh', reverse: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns all steps of a recurrent network: the states (T, N, H), for an LSTM its cells (T, N, H), and values for the gradient."""
def reduce_mean(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the mean over ``axis`` of x converted to the floating ``dtype`` (None: x's, float32 for integers and bool). Raises DTypeError for another ``dtype``."""
def reduce_sum(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the sum over ``axis`` (int, tuple, or None for all) of x converted to ``dtype``, the dtype of the result; None is x's, int64 for integers and bool."""
def relu(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns max(x, 0), NaN stays NaN; the gradient at 0 is 0."""
def relu6(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x limited to [0, 6]."""
@overload
def renorm(x: Tensor, p: builtins.float, axis: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with each slice at one position of ``axis`` scaled to the p-norm ``maxnorm``, if its norm is larger."""
@overload
def renorm(x: Tensor, p: builtins.float, *, dim: builtins.int, maxnorm: builtins.float, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with each slice at one position of ``axis`` scaled to the p-norm ``maxnorm``, if its norm is larger."""
def repeat(x: Tensor, repeats: builtins.int, axis: builtins.int | None = None, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns every element ``repeats`` times in a row along ``axis``; None repeats the flattened tensor's."""
def reshape(x: Tensor, shape: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the same storage with another shape of the same size; one length may be -1. Raises ShapeError, which names both shapes."""
def right_shift(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a shifted right by b bits with sign extension: floor(a / 2^b)."""
def rms_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: builtins.float = 1e-06, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x / sqrt(mean(x^2) + eps) over the last axes, times weight (Zhang and Sennrich 2019)."""
def roll(x: Tensor, shift: builtins.int | Sequence[builtins.int], axis: Any = None, *, dim: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy with the elements moved ``shift`` positions along ``axis``, cyclically; None rolls the flattened tensor."""
def rope(x: Tensor, positions: Tensor | builtins.int | None = None, base: builtins.float = 10000.0, interleaved: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the rotary position embedding of x (..., T, D), D even: pair i of position p rotated by the angle p / base^(2i / D) (Su et al. 2021)."""
def rot90(x: Tensor, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1), *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x turned ``k`` times by 90 degrees in the plane of the two axes ``dims``, from the first towards the second."""
def round(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the nearest integer, halves to even; integers unchanged."""
def rrelu(x: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x if positive, else x times a slope, uniform in [lower, upper) for each element; their middle if not ``training`` (Xu et al. 2015)."""
def rsqrt(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 / sqrt(x)."""
def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False, scale: builtins.float | None = None, enable_gqa: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns softmax(scale q k^T + mask) v (Vaswani et al. 2017): q (..., queries, E), k (..., keys, E), v (..., keys, V)."""
@overload
def scatter(x: Tensor, axis: builtins.int, index: Any, src: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with src[.., i, ..] in place of [.., index[.., i, ..], ..] along ``axis``; of equal indices the last wins."""
@overload
def scatter(x: Tensor, *, dim: builtins.int, index: Any, src: Any, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with src[.., i, ..] in place of [.., index[.., i, ..], ..] along ``axis``; of equal indices the last wins."""
@overload
def scatter_add(x: Tensor, axis: builtins.int, index: Any, src: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with src[.., i, ..] added at [.., index[.., i, ..], ..] along ``axis``, in the order of i; shapes as in ``scatter``."""
@overload
def scatter_add(x: Tensor, *, dim: builtins.int, index: Any, src: Any, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with src[.., i, ..] added at [.., index[.., i, ..], ..] along ``axis``, in the order of i; shapes as in ``scatter``."""
@overload
def scatter_reduce(x: Tensor, axis: builtins.int, index: Any, src: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with src[.., i, ..] combined at [.., index[.., i, ..], ..] along ``axis`` by ``reduce``: sum, prod, mean, amax or amin; without ``include_self`` the elements of x that are named do not take part. Shapes as in ``scatter``."""
@overload
def scatter_reduce(x: Tensor, *, dim: builtins.int, index: Any, src: Tensor, reduce: str, include_self: builtins.bool = True, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x with src[.., i, ..] combined at [.., index[.., i, ..], ..] along ``axis`` by ``reduce``: sum, prod, mean, amax or amin; without ``include_self`` the elements of x that are named do not take part. Shapes as in ``scatter``."""
def searchsorted(sorted_sequence: Tensor, values: Tensor | builtins.float, right: builtins.bool = False, side: str | None = None, out_int32: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the number of elements of the sorted sequence before each of ``values``, a tensor or a number: int64 (or int32)."""
def selu(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the scaled ELU with a fixed point of mean 0 and variance 1 (Klambauer et al. 2017)."""
def setitem(x: Tensor, key: Any, value: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> None:
    """Writes ``value`` (a number, host values or a tensor that broadcasts) into ``x[key]``, in place."""
def sigmoid(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns 1 / (1 + exp(-x))."""
def sign(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns -1, 0 or 1; NaN stays NaN, and a bool itself."""
def signbit(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """True if the sign bit of x is set, also of -0 and NaN."""
def silu(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x * sigmoid(x), also called swish."""
def sin(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the sine of x in radians."""
def sinc(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns sin(pi x) / (pi x), 1 at 0."""
def sinh(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the hyperbolic sine."""
def slogdet(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns (sign, log |det|) of x (..., n, n), each (...); (0, -inf) if it is singular."""
def smooth_l1_loss(x: Tensor, target: Tensor, reduction: str = 'mean', beta: builtins.float = 1.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns d^2 / (2 beta) for d = |x - target| below beta, then d - beta / 2; beta 0 is ``l1_loss``. Warns if the shapes differ."""
def soft_margin_loss(x: Operand, target: Operand, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log(1 + exp(-target x)) for targets -1 and 1, without overflow."""
def softmax(x: Tensor, axis: Axis = -1, *, dtype: Any = None, dim: Axis = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns exp(x) / sum(exp(x)) over ``axis``, shifted by the maximum so that it cannot overflow, of x converted to the floating ``dtype`` (None: its own)."""
def softplus(x: Tensor, beta: builtins.float = 1.0, threshold: builtins.float = 20.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns log(1 + exp(beta x)) / beta; x if beta x is above the threshold, where the two are equal to rounding."""
def softshrink(x: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x moved towards 0 by lambd, 0 within [-lambd, lambd]."""
def softsign(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x / (1 + |x|)."""
def sort(x: Tensor, axis: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = True, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the elements along ``axis`` in order, and the positions they come from, int64; both of x's shape."""
def split(x: Tensor, size: builtins.int | Sequence[builtins.int], axis: builtins.int = 0, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Parts of ``size`` positions along ``axis`` (the last may be smaller), or parts of the given sizes."""
def sqrt(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the square root."""
def square(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x squared; a bool gives int64."""
def squeeze(x: Tensor, axis: Any = None, *, dim: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the same storage without axes of length one, all of them or the ones in ``axis``; longer axes stay."""
def stack(tensors: Sequence[Tensor], axis: builtins.int = 0, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the tensors of a list, all of one shape, along a new axis."""
def std(x: Tensor, axis: Axis = None, correction: Any = 1, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, unbiased: Any = None, ddof: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the standard deviation over ``axis`` with divisor n - correction, as in ``var``."""
def std_mean(x: Tensor, axis: Any = None, correction: Any = 1, keepdims: builtins.bool = False, *, dim: Any = None, keepdim: builtins.bool | None = None, unbiased: Any = None, ddof: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns ``std`` and ``mean`` over ``axis``."""
def sub(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a - b, broadcast."""
def sum(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the sum over ``axis`` (int, tuple, or None for all) of x converted to ``dtype``, the dtype of the result; None is x's, int64 for integers and bool."""
def swish(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x * sigmoid(x), also called swish."""
def take(x: Tensor, indices: Any, axis: builtins.int | None = None, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the elements at ``indices`` along ``axis``, or of the flattened tensor for None; as NumPy's take."""
def take_along_axis(x: Tensor, indices: Any, axis: builtins.int | None = -1, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """As NumPy's: ``gather`` with x and ``indices`` broadcast to each other off the axis; None flattens x."""
def tan(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the tangent of x in radians."""
def tanh(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the hyperbolic tangent."""
def tanhshrink(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x - tanh(x), without cancellation at small x."""
def tensordot(a: Tensor, b: Tensor, axes: Any = 2, *, dims: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the sum of products over axes of both: the last ``axes`` of a with the first of b, or the axes of a and of b that ``axes`` names in two lists. An axis of length 1 fits one of any length."""
def threshold(x: Tensor, threshold: builtins.float = 0.1, value: builtins.float = 0.0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x above the threshold, else value; both are truncated for integers."""
def tile(x: Tensor, reps: builtins.int | Sequence[builtins.int], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns ``x`` repeated reps[a] times along each axis a, as a whole; missing axes are added in front."""
def topk(x: Tensor, k: builtins.int, axis: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Ranked:
    """Returns the ``k`` largest (or smallest) along ``axis`` and their positions, int64: x's shape with k for the axis."""
def trace(x: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the sum of a matrix's diagonal."""
def transpose(x: Tensor, axes: Any = (), *more: builtins.int, dims: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a copy with two axes swapped, with the axes in the order of a whole permutation, or reversed if none is given."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, axis: builtins.int = -1, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the integral of y along ``axis`` by the trapezoidal rule, for samples at x or at the distance ``dx``; integers give float32, but for no samples. x is a vector for the axis, or broadcasts to y."""
def tril(x: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the lower triangle of the last two axes up to the given diagonal, zero above it; in the dtype of x."""
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: Any = 'int64', device: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions of the lower triangle of a (row, col) matrix up to the diagonal ``offset``, by rows: (2, n)."""
def triplet_loss(anchor: Operand, positive: Operand, negative: Operand, margin: builtins.float = 1.0, distance: str = 'squared', reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns max(0, d(anchor, positive) - d(anchor, negative) + margin), d the squared or euclidean distance over the last axis."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2.0, eps: builtins.float = 1e-06, swap: builtins.bool = False, reduction: str = 'mean', *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns max(0, d(anchor, positive) - d(anchor, negative) + margin), d(x, y) the p-norm of x - y + eps over the last axis."""
def triu(x: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the upper triangle of the last two axes from the given diagonal on, zero below it; in the dtype of x."""
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: Any = 'int64', device: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the positions of the upper triangle of a (row, col) matrix from the diagonal ``offset`` on, by rows: (2, n)."""
def trunc(x: Tensor, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x truncated towards zero; integers unchanged."""
def unbind(x: Tensor, axis: builtins.int = 0, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns the slices along ``axis``, without it."""
def uniform(low: builtins.float = 0.0, high: builtins.float = 1.0, shape: Any = (), dtype: str = 'float32', queue: Any = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns uniform numbers in [low, high): low + (high - low) u with the u of ``rand``."""
@overload
def unique(x: Tensor, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the distinct elements of x in order, regardless of ``sorted``: (n,)."""
@overload
def unique(x: Tensor, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: builtins.bool = False, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns the distinct elements of x in order, regardless of ``sorted``: (n,)."""
@overload
def unique(x: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, *, return_counts: Literal[True], out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns the distinct elements of x in order, regardless of ``sorted``: (n,)."""
@overload
def unique(x: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, ...]:
    """Returns the distinct elements of x in order, regardless of ``sorted``: (n,)."""
@overload
def unique_consecutive(x: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, axis: builtins.int | None = None, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
@overload
def unique_consecutive(x: Tensor, *, return_inverse: Literal[True], return_counts: builtins.bool = False, axis: builtins.int | None = None, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
@overload
def unique_consecutive(x: Tensor, return_inverse: builtins.bool = False, *, return_counts: Literal[True], axis: builtins.int | None = None, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
@overload
def unique_consecutive(x: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, axis: builtins.int | None = None, *, dim: builtins.int | None = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor | tuple[Tensor, ...]:
    """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
def unravel_index(indices: Tensor, shape: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, ...]:
    """Returns the positions along each axis of a tensor of ``shape`` at the flat positions ``indices``: one tensor for each axis, int64, of the shape of the indices. Raises DTypeError unless they are whole numbers."""
@overload
def unsqueeze(x: Tensor, axis: Any, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the same storage with an axis of length one at ``axis`` (several: positions in the result)."""
@overload
def unsqueeze(x: Tensor, *, dim: Any, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the same storage with an axis of length one at ``axis`` (several: positions in the result)."""
def upsample(x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: builtins.bool | None = None, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns x (N, C, spatial...) resized to ``size`` or by ``scale_factor``; the same as ``interpolate``."""
def vander(x: Tensor, N: builtins.int | None = None, increasing: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the powers N - 1 to 0 of each element of a vector as the columns of a matrix (n, N), or 0 to N - 1 if ``increasing``; N is n by default."""
def var(x: Tensor, axis: Axis = None, correction: Any = 1, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, unbiased: Any = None, ddof: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the variance over ``axis`` with divisor n - correction, from deviations from the mean."""
def var_mean(x: Tensor, axis: Any = None, correction: Any = 1, keepdims: builtins.bool = False, *, dim: Any = None, keepdim: builtins.bool | None = None, unbiased: Any = None, ddof: Any = None, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> tuple[Tensor, Tensor]:
    """Returns ``var`` and ``mean`` over ``axis``."""
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns the tensors of a list joined along axis 0; vectors are rows."""
def where(condition: Operand, a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a if the condition is true, else b."""
def xlogy(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, tape: Any = None) -> Tensor:
    """Returns a log(b), 0 if a is 0 and b is not NaN."""
