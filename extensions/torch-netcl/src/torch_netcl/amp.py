"""``torch.autocast("ocl")``: the ops of the lower dtype, and the ops of float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_netcl import overload, words

_library: Any = None
_others: Any = None
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]

LOWER = words(
    "_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input "
    "convolution addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul "
    "linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
    "_scaled_dot_product_flash_attention scaled_dot_product_attention prelu"
)
FLOAT32 = words(
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm frobenius_norm.dim nuclear_norm "
    "nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d "
    "hinge_embedding_loss "
    "kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss "
    "triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp "
    "upsample_nearest1d upsample_nearest2d upsample_bilinear2d"
)
WITH_DTYPE = words("prod softmax.int log_softmax.int cumprod cumsum linalg_vector_norm sum sum.dim_IntList")
WIDEST = words("addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add cat stack")


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        eligible = value.is_floating_point() and value.device.type == "ocl" and value.dtype is not torch.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(item, dtype) for item in value])
    return value


def _casting(op: Any, dtype_of: Callable[[Any], torch.dtype | None]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = dtype_of((*args, *kwargs.values()))
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            if dtype is None:
                return op(*args, **kwargs)
            return op(*_cast(args, dtype), **{name: _cast(value, dtype) for name, value in kwargs.items()})

    return kernel


def _lower(values: Any) -> torch.dtype:
    return torch.get_autocast_dtype("ocl")


def _float32(values: Any) -> torch.dtype:
    return torch.float32


def _widest(values: Any) -> torch.dtype | None:
    dtypes = set()
    for value in values:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and item.is_floating_point():
                dtypes.add(item.dtype)
    return None if len(dtypes) < 2 else torch.float32


def _summed(op: Any) -> Callable[..., Any]:
    """Returns the kernel of an op with ``dtype=``, which is float32 for halves unless it is said."""
    at = [argument.name for argument in op._schema.arguments].index("dtype")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        said = kwargs.get("dtype") if "dtype" in kwargs else args[at] if at < len(args) else None
        halves = isinstance(args[0], torch.Tensor) and args[0].dtype in (torch.float16, torch.bfloat16)
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            if said is None and halves:
                return op(*_cast(args, torch.float32), **kwargs)
            return op(*args, **kwargs)

    return kernel


def register() -> None:
    """Registers the casts with PyTorch; they cost nothing outside of autocast."""
    global _library, _others
    _others = torch.library.Library("_", "IMPL")
    _others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _library = torch.library.Library("aten", "IMPL")
    for names, dtype_of in ((LOWER, _lower), (FLOAT32, _float32), (WIDEST, _widest)):
        for name in names:
            _library.impl(name, _casting(overload(name), dtype_of), "AutocastPrivateUse1")
    for name in WITH_DTYPE:
        _library.impl(name, _summed(overload(name)), "AutocastPrivateUse1")
