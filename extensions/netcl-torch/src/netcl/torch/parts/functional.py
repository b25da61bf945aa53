"""torch.nn.functional: functions of netcl.nn.functional with PyTorch's parameters, order and defaults."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import netcl.nn.functional as F
from netcl.core import Tensor
from netcl.nn.losses import reduction_of

# -- axes that PyTorch guesses -----------------------------------------------------------------------------------------


def _guessed(name: str, input: Tensor, stacklevel: int) -> int:
    """The axis that PyTorch takes if none is given: 0 of 0, 1 or 3 axes, else 1; warns as PyTorch does."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along ``dim``, of the elements as ``dtype``; without ``dim`` the axis is guessed."""
    return input.softmax(_guessed("softmax", input, _stacklevel) if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along ``dim``, of the elements as ``dtype``; without ``dim`` the axis is guessed."""
    return input.log_softmax(_guessed("log_softmax", input, _stacklevel) if dim is None else dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-input) along ``dim``, of the elements as ``dtype``; without ``dim`` the axis is guessed."""
    result: Tensor = F.softmin(input, _guessed("softmin", input, _stacklevel) if dim is None else dim, dtype=dtype)
    return result


# -- layers ------------------------------------------------------------------------------------------------------------


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """input / sqrt(mean(input^2) + eps) times ``weight`` over the last axes; ``eps`` is the dtype's unless given."""
    if eps is None:
        eps = 2.0**-52 if input.dtype == "float64" else 2.0**-23  # of the narrow dtypes, too, which add in float32
    result: Tensor = F.rms_norm(input, normalized_shape, weight, eps)
    return result


# -- losses ------------------------------------------------------------------------------------------------------------

# The parameters of each loss in PyTorch's order, with the deprecated flags ``size_average`` and ``reduce``.
_LOSSES = {
    "binary_cross_entropy": "input, target, weight=None, size_average=None, reduce=None, reduction='mean'",
    "binary_cross_entropy_with_logits": (
        "input, target, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None"
    ),
    "cosine_embedding_loss": "input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'",
    "cross_entropy": (
        "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', "
        "label_smoothing=0.0"
    ),
    "hinge_embedding_loss": "input, target, margin=1.0, size_average=None, reduce=None, reduction='mean'",
    "kl_div": "input, target, size_average=None, reduce=None, reduction='mean', log_target=False",
    "l1_loss": "input, target, size_average=None, reduce=None, reduction='mean', weight=None",
    "margin_ranking_loss": "input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'",
    "mse_loss": "input, target, size_average=None, reduce=None, reduction='mean', weight=None",
    "multi_margin_loss": (
        "input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'"
    ),
    "multilabel_margin_loss": "input, target, size_average=None, reduce=None, reduction='mean'",
    "multilabel_soft_margin_loss": "input, target, weight=None, size_average=None, reduce=None, reduction='mean'",
    "nll_loss": "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'",
    "poisson_nll_loss": (
        "input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction='mean'"
    ),
    "smooth_l1_loss": "input, target, size_average=None, reduce=None, reduction='mean', beta=1.0",
    "soft_margin_loss": "input, target, size_average=None, reduce=None, reduction='mean'",
    "triplet_margin_loss": (
        "anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, "
        "reduction='mean'"
    ),
}
_FLAGS = ("size_average", "reduce", "reduction")


def _loss(name: str, parameters: str) -> Callable[..., Tensor]:
    """Returns the function of netcl.nn.functional with PyTorch's parameters; operands may have another name there."""
    function = getattr(F, name)
    names = [parameter.partition("=")[::2] for parameter in parameters.split(", ")]
    passed = [key if not default else f"{key}={key}" for key, default in names if key not in _FLAGS]
    how = "reduction=reduction_of(size_average, reduce, reduction)"
    scope: dict[str, Any] = {"function": function, "reduction_of": reduction_of, "__name__": __name__}
    exec(f"def {name}({parameters}): return function({', '.join(passed)}, {how})", scope)
    scope[name].__doc__ = f"``netcl.nn.functional.{name}``: {function.__doc__}"
    return scope[name]  # type: ignore[no-any-return]


globals().update({_name: _loss(_name, _parameters) for _name, _parameters in _LOSSES.items()})

__all__ = sorted([*_LOSSES, "log_softmax", "rms_norm", "softmax", "softmin"])
