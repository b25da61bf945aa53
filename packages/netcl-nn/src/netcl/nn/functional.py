"""The functions of the layers, with the names and arguments of torch.nn.functional.

Functions with the same name and arguments in netcl.autograd are re-exported; ``dim`` and ``axis`` are synonyms in all
of them.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError, from_here
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.process.user_frame import level_outside
from netcl.core.tensor import in_place
from netcl.nn import embedding as _tables
from netcl.nn import heads as _heads
from netcl.nn.unbind import unbind as _unbind


def _with_inplace(name: str, function: Any) -> Any:
    """Returns an activation with PyTorch's ``inplace``, the last argument: the result is written into the first
    operand.
    """
    signature = inspect.signature(function)
    count = len(signature.parameters)

    @functools.wraps(function)
    def call(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) == count + 1:
            *args, inplace = args  # type: ignore[assignment]
        result = function(*args, **kwargs)
        return in_place.write(args[0] if args else kwargs["input"], result) if inplace else result

    flag = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation="bool")
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), flag])  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = name
    return call


def _axis(axis: int, dim: int | None) -> int:
    return axis if dim is None else dim


# -- activations -------------------------------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns max(input, 0), written into ``input`` if ``inplace``."""
    return in_place.write(input, ag.relu(input)) if inplace else ag.relu(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Returns input if positive, else negative_slope * input; written into ``input`` if ``inplace``."""
    result = ag.leaky_relu(input, slope=negative_slope)
    return in_place.write(input, result) if inplace else result


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Returns input if positive, else input times a random slope in [lower, upper), or without ``training`` their
    middle; written into ``input`` if ``inplace``.
    """
    result = ag.rrelu(input, lower, upper, training)
    return in_place.write(input, result) if inplace else result


def _writing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns the form ``name_`` of an activation, which writes the result into its input and returns it."""
    first, *more = inspect.signature(function).parameters.values()

    @functools.wraps(function)
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, inplace=True, **kwargs)

    parameters = [first.replace(name="input"), *(p for p in more if p.name != "inplace")]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = f"{function.__name__}_"
    call.__doc__ = f"Writes ``{function.__name__}`` into ``input`` and returns it."
    return call


# Rows state these forms: an activation with ``inplace``, and the one that writes.
for _row in TABLE.values():
    for _name in _row.names("F"):
        globals()[_name] = _with_inplace(_name, getattr(ag, _row.name))
    for _name in _row.names("F", written=True):
        globals()[f"{_name}_"] = _writing(globals()[_name])
leaky_relu_: Callable[..., Tensor] = _writing(leaky_relu)
relu_: Callable[..., Tensor] = _writing(relu)
rrelu_: Callable[..., Tensor] = _writing(rrelu)


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None, axis: int | None = None) -> Tensor:
    """Returns softmax(-input) along ``dim`` (default: the last), of the elements as ``dtype``."""
    return ag.neg(input).softmax(dim, dtype, axis=axis)


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None, axis: int | None = None) -> Tensor:
    """Returns exp(input) / sum(exp(input)) along ``dim`` (default: the last), of the elements as ``dtype``."""
    return input.softmax(dim, dtype, axis=axis)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None, axis: int | None = None) -> Tensor:
    """Returns log(softmax(input)) along ``dim`` (default: the last), of the elements as ``dtype``."""
    return input.log_softmax(dim, dtype, axis=axis)


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, axis: int | None = None
) -> Tensor:
    """Returns softmax((logits + Gumbel noise) / tau) along ``dim`` (Jang et al. 2016); with ``hard`` one-hot at the
    maximum, with the gradient of the soft result. ``axis`` is another name of ``dim``; ``eps`` changes nothing, as in
    PyTorch.
    """
    axis = dim if axis is None else axis
    waits: Any = Tensor.empty(logits.shape, logits.dtype, queue=logits.queue)
    noise = ag.log(waits.exponential_())
    soft = ag.softmax(ag.div(ag.sub(logits, noise), tau), axis=axis)
    if not hard:
        return soft
    choice = ag.cast(ag.eq(soft, ag.amax(soft, axis=axis, keepdims=True)), dtype=soft.dtype)
    return ag.add(ag.sub(choice, soft.detach()), soft)


# -- dropout -----------------------------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability p and divides the others by 1 - p; returns input itself unless ``training``."""
    _check_probability("dropout", p)
    result = ag.dropout(input, p) if training and p > 0 else input
    return in_place.write(input, result) if inplace and result is not input else result


def _check_probability(op: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{op}: expected a probability p from 0 to 1, got {p}")


def _channels(x: Tensor, p: float, training: bool, rank: int, inplace: bool) -> Tensor:
    """Drops whole slices x[n, c]; without a batch axis whole x[c]."""
    _check_probability(f"dropout{rank}d", p)
    if x.ndim < 2:
        raise ShapeError(f"dropout{rank}d: expected x (N, C, ...) with {rank} axes more, got {x.shape}", op="dropout")
    if x.ndim not in (rank + 2, rank + 1):
        warnings.warn(
            f"dropout{rank}d: x {x.shape} has no {rank} axes after (N, C); slices x[n, c] are dropped",
            stacklevel=level_outside(),
        )
    # As PyTorch does: two-dimensional dropout takes three axes for (N, C, L).
    batched = rank == 2 or x.ndim != rank + 1
    if not training or p == 0:
        return x
    kept = 2 if batched else 1
    ones = Tensor.ones((*x.shape[:kept], *(1,) * (x.ndim - kept)), x.dtype, queue=x.queue)
    result = ag.mul(x, ag.dropout(ones, p))
    return in_place.write(x, result) if inplace else result


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drops whole channels of input (N, C, L) or (C, L)."""
    return _channels(input, p, training, 1, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drops whole channels of input (N, C, H, W), or (N, C, L) as PyTorch's; warns for other shapes."""
    return _channels(input, p, training, 2, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drops whole channels of input (N, C, D, H, W) or (C, D, H, W)."""
    return _channels(input, p, training, 3, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drops elements for nets of SELU: keeps mean 0 and variance 1; returns input itself unless ``training``."""
    return _noisy(ag.alpha_dropout, input, p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drops whole channels of input (N, C, ...) as ``alpha_dropout``."""
    return _noisy(ag.feature_alpha_dropout, input, p, training, inplace)


def _noisy(function: Callable[..., Tensor], input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability("alpha_dropout", p)
    result = function(input, p, training)
    return in_place.write(input, result) if inplace and result is not input else result


# -- pools and pads ----------------------------------------------------------------------------------------------------


def long_positions(pooled: Any) -> Any:
    """Returns the result of a pool, with its positions, if it has them, as int64, which is PyTorch's dtype of
    positions.
    """
    return (pooled[0], ag.cast(pooled[1], dtype="int64")) if isinstance(pooled, tuple) else pooled


def _max_pool(rank: int) -> Any:
    pool = getattr(ag, f"max_pool{rank}d")

    def max_pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return long_positions(pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices))

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{rank}d"
    max_pool.__doc__ = f"Returns the largest element of each window of input (N, C, ...) with {rank} axes more."
    return max_pool


def _adaptive_max_pool(rank: int) -> Any:
    pool = getattr(ag, f"adaptive_max_pool{rank}d")

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return long_positions(pool(input, output_size, return_indices))

    adaptive_max_pool.__name__ = adaptive_max_pool.__qualname__ = f"adaptive_max_pool{rank}d"
    adaptive_max_pool.__doc__ = f"Returns the largest elements of input (N, C, ...) by sections of {rank} axes."
    return adaptive_max_pool


if TYPE_CHECKING:
    from netcl.autograd import (
        adaptive_max_pool1d,
        adaptive_max_pool2d,
        adaptive_max_pool3d,
        max_pool1d,
        max_pool2d,
        max_pool3d,
    )
else:
    max_pool1d, max_pool2d, max_pool3d = (_max_pool(rank) for rank in (1, 2, 3))
    adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_max_pool(rank) for rank in (1, 2, 3))


def _with_indices(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Returns a pool that always gives positions too; ``return_indices`` is accepted and means nothing."""
    pool = globals().get(name) or getattr(ag, name)
    signature = inspect.signature(pool)
    first, *more = signature.parameters.values()

    def call(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        bound = signature.bind(input, *args, **kwargs).arguments
        bound["return_indices"] = True
        return long_positions(pool(**bound))  # type: ignore[no-any-return]

    call.__signature__ = signature.replace(parameters=[first.replace(name="input"), *more])  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = f"{name}_with_indices"
    call.__doc__ = f"Calls ``{name}`` with ``return_indices``: the largest elements and their flat positions."
    return call


_Indexed = Callable[..., tuple[Tensor, Tensor]]
max_pool1d_with_indices: _Indexed = _with_indices("max_pool1d")
max_pool2d_with_indices: _Indexed = _with_indices("max_pool2d")
max_pool3d_with_indices: _Indexed = _with_indices("max_pool3d")
adaptive_max_pool1d_with_indices: _Indexed = _with_indices("adaptive_max_pool1d")
adaptive_max_pool2d_with_indices: _Indexed = _with_indices("adaptive_max_pool2d")
adaptive_max_pool3d_with_indices: _Indexed = _with_indices("adaptive_max_pool3d")
fractional_max_pool2d_with_indices: _Indexed = _with_indices("fractional_max_pool2d")
fractional_max_pool3d_with_indices: _Indexed = _with_indices("fractional_max_pool3d")


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Calls ``interpolate`` with the mode nearest."""
    return ag.interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Calls ``interpolate`` with the mode bilinear and ``align_corners``."""
    return ag.interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Calls ``channel_shuffle``."""
    return ag.channel_shuffle(input, groups)


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Pads by ``pad`` = (before, after) of the last axis, of the one before it, and so on; modes constant, reflect,
    replicate and circular.
    """
    return ag.pad(input, pad, mode=mode, value=value)


# -- normalisation -----------------------------------------------------------------------------------------------------


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes a batch: input (N, C, ...), with the statistics of the batch in training, else the running ones."""
    return ag.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalizes input (N, C, ...) over groups of channels; weight and bias (C,). Raises ShapeError if input is one
    sample with one value per group.
    """
    if input.size == num_groups:
        raise ShapeError(f"group_norm: input {input.shape} has one value per group; expected more than one")
    return ag.group_norm(input, num_groups, weight, bias, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes each channel of each sample (N, C, ...) over its own elements, or without ``use_input_stats`` by
    the running statistics. If both are given, the running statistics move by ``momentum`` towards the means over the
    samples.
    """
    if not use_input_stats:
        return ag.batch_norm(input, running_mean, running_var, weight, bias, training=False, eps=eps)
    if running_mean is None or running_var is None:
        return ag.instance_norm(input, weight, bias, eps=eps)
    # Folds the samples into channels of one sample.
    rows = n, channels = input.shape[:2]
    running = (running_mean, running_var)
    copies = [ag.reshape(ag.expand(t.detach(), rows), (n * channels,)) for t in running]
    affine = [None if t is None else ag.reshape(ag.expand(t, rows), (n * channels,)) for t in (weight, bias)]
    merged = ag.reshape(input, (1, n * channels, *input.shape[2:]))
    y = ag.batch_norm(merged, copies[0], copies[1], affine[0], affine[1], training=True, momentum=momentum, eps=eps)
    with ag.no_grad():
        for target, copied in zip(running, copies):
            target.write(ag.mean(ag.reshape(copied, rows), axis=0))
    return ag.reshape(y, input.shape)


def normalize(
    input: Tensor,
    p: float = 2.0,
    axis: int = 1,
    eps: float = 1e-12,
    *,
    dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Returns input / max(||input||_p, eps) along ``axis``."""
    norm = ag.norm(input, p=p, axis=_axis(axis, dim), keepdims=True)
    return ag.div(input, ag.maximum(norm, eps), out=out)


# -- distances and losses ----------------------------------------------------------------------------------------------


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Returns ``triplet_margin_loss`` by a distance function of two tensors; None is ``pairwise_distance``."""
    distance: Any = ag.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ag.minimum(far, distance(positive, negative))
    return ag.margin_of_distances(near, far, margin=float(margin), reduction=reduction)  # type: ignore[no-any-return]


# -- windows of images -------------------------------------------------------------------------------------------------


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Returns input if positive, else ``weight`` input: a weight (1,), or one for each position of axis 1, (C,).

    Raises ShapeError if the lengths differ.
    """
    if weight.shape == (1,):
        weight = weight if input.ndim else ag.reshape(weight, ())
    elif weight.ndim == 1:
        if input.ndim < 2 or weight.shape[0] != input.shape[1]:
            shapes = f"weight {weight.shape} for input {input.shape}"
            raise ShapeError(f"prelu: expected input (N, {weight.shape[0]}, ...), got {shapes}", op="prelu")
        weight = ag.reshape(weight, (-1,) + (1,) * (input.ndim - 2))
    return ag.prelu(input, weight)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Returns the windows of images (N, C, H, W) as columns (N, C * prod(kernel), windows), or without N."""
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    if input.ndim != 4:
        raise ShapeError(f"unfold: input {input.shape}; expected (N, C, H, W) or (C, H, W)", op="unfold")
    if not input.shape[0]:  # the shape of one image, of none
        return unfold(ag.pad(input, [(0, 1), (0, 0), (0, 0), (0, 0)]), kernel_size, dilation, padding, stride)[:0]
    rows = ag.im2col(input, kernel_size, stride, padding, dilation)
    windows = rows.shape[0] // input.shape[0]
    return ag.transpose(ag.reshape(rows, (input.shape[0], windows, rows.shape[1])), 1, 2)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns of windows (N, C * prod(kernel), windows), summed into images (N, C, *output_size): the adjoint of
    ``unfold``. Without N also without it.
    """
    if input.ndim == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    height, width = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size)
    taps = kernel_size**2 if isinstance(kernel_size, int) else kernel_size[0] * kernel_size[1]
    if input.ndim != 3 or input.shape[1] % taps:
        raise ShapeError(
            f"fold: input {input.shape} for kernel_size {kernel_size}; expected (N, C * {taps}, windows) or without N",
            op="fold",
        )
    n, columns, windows = input.shape
    rows = ag.reshape(ag.transpose(input, 1, 2), (n * windows, columns))
    return ag.col2im(rows, (n, columns // taps, height, width), kernel_size, stride, padding, dilation)


# -- products, indices and attention -----------------------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: input (..., in), weight (out, in) and bias (out,) give (..., out); weight (in,) and bias
    () give (...).
    """
    if weight.ndim != 1:
        return ag.linear(input, weight, bias)
    if bias is not None and bias.ndim:
        raise ShapeError(f"linear: expected a bias () for a weight {weight.shape}, got {bias.shape}", op="linear")
    column = ag.reshape(weight, (1, weight.shape[0]))
    return ag.squeeze(ag.linear(input, column, None if bias is None else ag.reshape(bias, (1,))), -1)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """``cross_entropy`` of ``linear(input, linear_weight, linear_bias)``: input (N, in) or (in,), linear_weight
    (C, in), or (C, d1, ..., in) for targets (N, d1, ...).

    ``ignore_index`` is by default -100. ``options``, how PyTorch divides the work into parts, change nothing. Raises
    ShapeError for a linear_weight of one axis, or of more than two for an input (in,).
    """
    lead = linear_weight.shape[:-1]
    if not lead or (len(lead) > 1 and input.ndim < 2) or (linear_bias is not None and linear_bias.shape != lead):
        raise ShapeError(
            f"linear_cross_entropy: input {input.shape}, linear_weight {linear_weight.shape}, linear_bias "
            f"{None if linear_bias is None else linear_bias.shape}; expected (N, in), (C, ..., in) and (C, ...)",
            op="linear_cross_entropy",
        )
    rows = ag.reshape(linear_weight, (math.prod(lead), linear_weight.shape[-1]))
    logits = ag.linear(input, rows, None if linear_bias is None else ag.reshape(linear_bias, (-1,)))
    logits = ag.reshape(logits, (*input.shape[:-1], *lead))
    ignored = -100 if ignore_index is None else ignore_index
    return ag.cross_entropy(logits, target, weight, ignored, reduction, label_smoothing)


def embedding(
    input: Any,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Returns the rows of weight (num, dim) at ``input`` (...): (..., dim). The row ``padding_idx`` gets no gradient.

    With ``max_norm`` these rows are first scaled in place to at most that p-norm; with ``scale_grad_by_freq`` the
    gradient of a row is divided by the number of its occurrences. The gradient is dense, regardless of ``sparse``.
    """
    if max_norm is not None:
        _tables.renormalize(weight, input, max_norm, norm_type)
    return _tables.rows_of(input, weight, padding_idx, scale_grad_by_freq)


def embedding_bag(
    input: Any,
    weight: Tensor,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Returns the sum, mean or maximum of the rows of weight (num, dim) in each bag of indices: (bags, dim).

    ``input`` (bags, length), or (n,) with the start of each bag in ``offsets`` (bags,); with ``include_last_offset``
    they end with n. An empty bag gives zeros, and rows ``padding_idx`` are ignored. ``per_sample_weights``, of the
    shape of the input, multiply the rows of a sum; ``max_norm``, ``scale_grad_by_freq`` (not for the maximum) and
    ``sparse`` are as in ``embedding``.
    """
    if scale_grad_by_freq and mode == "max":
        raise ValueError("embedding_bag: scale_grad_by_freq goes with the modes sum and mean, not max")
    if max_norm is not None:
        _tables.renormalize(weight, input, max_norm, norm_type)
    return _tables.embedding_bag(
        input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx, scale_grad_by_freq
    )


def one_hot(tensor: Any, num_classes: int | None = None) -> Tensor:
    """Returns one-hot encoding: (...) gives (..., num_classes), int64. With ``num_classes`` None or -1 the largest
    index is read on the host.
    """
    return ag.one_hot(tensor, None if num_classes == -1 else num_classes)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Returns softmax(scale q k^T + mask) v, as ``ag.scaled_dot_product_attention``; a bool ``attn_mask`` is True for
    visible keys.
    """
    options = (attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return ag.scaled_dot_product_attention(query, key, value, *options)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Computes ``nn.MultiheadAttention`` as a function of its weights: query (L, N, E), key and value (S, N, ...), or
    without N.

    The projection weights are ``in_proj_weight`` (3 E, E), or with ``use_separate_proj_weight`` the three others.
    ``static_k`` and ``static_v`` (N * heads, S, D) replace the projected keys and values. Masks and results are as in
    the layer. Raises ShapeError unless E is ``embed_dim_to_check`` and the weights are given, RuntimeError for
    ``is_causal``, a hint on the mask, without ``attn_mask``.
    """
    op = "multi_head_attention_forward"
    embed = query.shape[-1]
    if embed != embed_dim_to_check or embed % num_heads or query.ndim not in (2, 3):
        raise ShapeError(f"{op}: query {query.shape} of {num_heads} heads; E is {embed_dim_to_check}", op=op)
    _heads.check_hint(is_causal, attn_mask, op)
    if query.ndim == 2:
        y, seen = multi_head_attention_forward(
            ag.unsqueeze(query, 1), ag.unsqueeze(key, 1), ag.unsqueeze(value, 1), embed, num_heads, in_proj_weight,
            in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training,
            key_padding_mask, need_weights, attn_mask, use_separate_proj_weight, q_proj_weight, k_proj_weight,
            v_proj_weight, static_k, static_v, average_attn_weights, is_causal,
        )  # fmt: skip
        return ag.squeeze(y, 1), None if seen is None else ag.squeeze(seen, 0)
    length, n = query.shape[:2]
    projections: tuple[Tensor | None, ...] = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        whole = in_proj_weight
        projections = (None,) * 3 if whole is None else _unbind(ag.reshape(whole, (3, embed, embed)))
    biases = (None,) * 3 if in_proj_bias is None else _unbind(ag.reshape(in_proj_bias, (3, embed)))
    rows = []
    for x, weight, bias in zip((query, key, value), projections, biases):
        if weight is None:
            name = "q_proj_weight, k_proj_weight and v_proj_weight" if use_separate_proj_weight else "in_proj_weight"
            raise ShapeError(f"{op} takes {name}", op=op)
        rows.append(ag.linear(x, weight, bias))
    if (bias_k is None) != (bias_v is None) or (bias_k is not None and (static_k is not None or static_v is not None)):
        raise ShapeError(f"{op} takes bias_k together with bias_v, and neither with static_k or static_v", op=op)
    if bias_k is not None and bias_v is not None:
        rows[1:] = [ag.cat((x, ag.expand(b, (1, n, embed))), 0) for x, b in zip(rows[1:], (bias_k, bias_v))]
        key_padding_mask, attn_mask = map(_heads.with_visible_key, (key_padding_mask, attn_mask))
    size = embed // num_heads
    q, k, v = (ag.permute(ag.reshape(x, (x.shape[0], n, num_heads, size)), (1, 2, 0, 3)) for x in rows)
    if static_k is not None:
        k = ag.reshape(static_k, (n, num_heads, -1, size))
    if static_v is not None:
        v = ag.reshape(static_v, (n, num_heads, -1, size))
    if add_zero_attn:
        last = Tensor.zeros((n, num_heads, 1, size), k.dtype, queue=k.queue)
        k, v = ag.cat((k, last), 2), ag.cat((v, last), 2)
        key_padding_mask, attn_mask = map(_heads.with_visible_key, (key_padding_mask, attn_mask))
    mask = _heads.hidden(attn_mask, key_padding_mask, (n, num_heads, length, k.shape[2]), op)
    y, seen = _heads.attend(q, k, v, mask, False, need_weights, dropout_p if training else 0.0)
    y = ag.linear(ag.reshape(ag.permute(y, (2, 0, 1, 3)), (length, n, embed)), out_proj_weight, out_proj_bias)
    return y, ag.mean(seen, axis=1) if seen is not None and average_attn_weights else seen


from_here(globals())


def __getattr__(name: str) -> Any:
    """Returns an op of netcl.autograd."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(ag, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name) from None


def __dir__() -> list[str]:
    """Returns the functions here and in netcl.autograd, for completion."""
    own = {n for n, v in globals().items() if n[0].islower() and getattr(v, "__module__", "").startswith("netcl.")}
    return sorted(own | {name for name in ag.__all__ if name[0].islower()})
