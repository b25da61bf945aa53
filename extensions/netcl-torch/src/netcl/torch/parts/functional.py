"""torch.nn.functional: functions of netcl.nn.functional with PyTorch's parameters, order and defaults."""

from __future__ import annotations

import warnings
from typing import Any

import netcl.nn.functional as F
from netcl.core import Tensor
from netcl.nn.losses import reduction_of

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "log_softmax",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "rms_norm",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "triplet_margin_loss",
]

Weight = Tensor | None
Flag = bool | None


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


def rms_norm(input: Tensor, normalized_shape: Any, weight: Weight = None, eps: float | None = None) -> Tensor:
    """input / sqrt(mean(input^2) + eps) times ``weight`` over the last axes; ``eps`` is the dtype's unless given."""
    if eps is None:
        eps = 2.0**-52 if input.dtype == "float64" else 2.0**-23  # of the narrow dtypes, too, which add in float32
    result: Tensor = F.rms_norm(input, normalized_shape, weight, eps)
    return result


# -- losses ------------------------------------------------------------------------------------------------------------


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Weight = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Returns the cross entropy of logits with class ids or probabilities: ``netcl.nn.functional.cross_entropy``."""
    how = reduction_of(size_average, reduce, reduction)
    result: Tensor = F.cross_entropy(input, target, weight, ignore_index, how, label_smoothing)
    return result


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Weight = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns the negative log probability of the target classes: ``netcl.nn.functional.nll_loss``."""
    result: Tensor = F.nll_loss(input, target, weight, ignore_index, reduction_of(size_average, reduce, reduction))
    return result


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Weight = None,
) -> Tensor:
    """Returns the mean of (input - target)^2: ``netcl.nn.functional.mse_loss``."""
    result: Tensor = F.mse_loss(input, target, reduction_of(size_average, reduce, reduction), weight)
    return result


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Weight = None,
) -> Tensor:
    """Returns the mean of |input - target|: ``netcl.nn.functional.l1_loss``."""
    result: Tensor = F.l1_loss(input, target, reduction_of(size_average, reduce, reduction), weight)
    return result


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Returns the loss that is quadratic below ``beta``: ``netcl.nn.functional.smooth_l1_loss``."""
    result: Tensor = F.smooth_l1_loss(input, target, reduction_of(size_average, reduce, reduction), beta)
    return result


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Weight = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns the cross entropy of probabilities: ``netcl.nn.functional.binary_cross_entropy``."""
    result: Tensor = F.binary_cross_entropy(input, target, weight, reduction_of(size_average, reduce, reduction))
    return result


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Weight = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    pos_weight: Weight = None,
) -> Tensor:
    """Returns the cross entropy of sigmoid(input): ``netcl.nn.functional.binary_cross_entropy_with_logits``."""
    how = reduction_of(size_average, reduce, reduction)
    result: Tensor = F.binary_cross_entropy_with_logits(input, target, weight, pos_weight, how)
    return result


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Returns target (log target - input) of log probabilities: ``netcl.nn.functional.kl_div``."""
    result: Tensor = F.kl_div(input, target, reduction_of(size_average, reduce, reduction), log_target)
    return result


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Flag = None,
    eps: float = 1e-8,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns the negative log likelihood of counts: ``netcl.nn.functional.poisson_nll_loss``."""
    how = reduction_of(size_average, reduce, reduction)
    result: Tensor = F.poisson_nll_loss(input, target, log_input, full, eps, how)
    return result


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns 1 - cos, or for target -1 max(0, cos - margin): ``netcl.nn.functional.cosine_embedding_loss``."""
    result: Tensor = F.cosine_embedding_loss(
        input1, input2, target, margin, reduction_of(size_average, reduce, reduction)
    )
    return result


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns input, or for target -1 max(0, margin - input): ``netcl.nn.functional.hinge_embedding_loss``."""
    result: Tensor = F.hinge_embedding_loss(input, target, margin, reduction_of(size_average, reduce, reduction))
    return result


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns max(0, -target (input1 - input2) + margin): ``netcl.nn.functional.margin_ranking_loss``."""
    result: Tensor = F.margin_ranking_loss(
        input1, input2, target, margin, reduction_of(size_average, reduce, reduction)
    )
    return result


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Weight = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns the margins to the target class: ``netcl.nn.functional.multi_margin_loss``."""
    result: Tensor = F.multi_margin_loss(
        input, target, p, margin, weight, reduction_of(size_average, reduce, reduction)
    )
    return result


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """Returns the margins to the target classes: ``netcl.nn.functional.multilabel_margin_loss``."""
    result: Tensor = F.multilabel_margin_loss(input, target, reduction_of(size_average, reduce, reduction))
    return result


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Weight = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns the cross entropy of each class: ``netcl.nn.functional.multilabel_soft_margin_loss``."""
    result: Tensor = F.multilabel_soft_margin_loss(input, target, weight, reduction_of(size_average, reduce, reduction))
    return result


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """Returns log(1 + exp(-target input)): ``netcl.nn.functional.soft_margin_loss``."""
    result: Tensor = F.soft_margin_loss(input, target, reduction_of(size_average, reduce, reduction))
    return result


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns max(0, d(anchor, positive) - d(anchor, negative) + margin): ``netcl.nn.functional``'s of this name."""
    how = reduction_of(size_average, reduce, reduction)
    result: Tensor = F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, how)
    return result
