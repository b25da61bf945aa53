"""Losses as modules, which call the losses of netcl.autograd."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import functional
from netcl.nn.layer import Layer
from netcl.nn.linear import Linear
from netcl.nn.module import Module, check_precision


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str = "mean") -> str:
    """Returns the reduction of PyTorch's deprecated flags, with a UserWarning; ``reduction`` if both are None."""
    if size_average is None and reduce is None:
        return reduction
    meant = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce are deprecated, please write reduction={meant!r} instead", UserWarning, stacklevel=3
    )
    return meant


def _with_deprecated_flags(begin: Callable[..., None]) -> Callable[..., None]:
    """Returns ``__init__`` of a loss that takes ``size_average`` and ``reduce`` by name, too."""

    @functools.wraps(begin)
    def init(self: _Loss, *args: Any, **kwargs: Any) -> None:
        if "size_average" in kwargs or "reduce" in kwargs:
            flags = kwargs.pop("size_average", None), kwargs.pop("reduce", None)
            kwargs["reduction"] = reduction_of(*flags, kwargs.get("reduction", "mean"))
        begin(self, *args, **kwargs)

    return init


class _Loss(Layer):
    """A loss of ``netcl.autograd``; ``options`` names the attributes that are passed to it: the parameters of the
    constructor.
    """

    function: ClassVar[str]
    options: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, **constants: Any) -> None:
        super().__init_subclass__(**constants)
        names = tuple(inspect.signature(cls.__init__).parameters)[1:]
        if "reduction" in names:
            cls.__init__ = _with_deprecated_flags(cls.__init__)  # type: ignore[method-assign]
        if "function" in constants:
            cls.options = names

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none", "batchmean"):
            raise ValueError(f"reduction: expected mean, sum or none, got {reduction!r}")
        self.reduction = reduction

    def forward(self, *operands: Any) -> Tensor:
        options = {name: getattr(self, name) for name in self.options}
        return getattr(ag, self.function)(*operands, **{k: v for k, v in options.items() if v is not None})  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Returns the options that differ from their defaults."""
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name)
            if not isinstance(value, Tensor) and value != parameter.default:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


class MSELoss(_Loss, function="mse_loss"):
    """Mean of (x - target)^2."""


class L1Loss(_Loss, function="l1_loss"):
    """Mean of |x - target|."""


class SmoothL1Loss(_Loss, function="smooth_l1_loss"):
    """Quadratic below ``beta``, |d| - beta/2 above."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta


class HuberLoss(_Loss, function="huber_loss"):
    """Quadratic below ``delta``, delta (|d| - delta/2) above."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta


class _Weighted(_Loss):
    """A loss with ``weight`` as a buffer, so that it moves with the module."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class BCELoss(_Weighted, function="binary_cross_entropy"):
    """Cross entropy of probabilities with targets in [0, 1]."""


class BCEWithLogitsLoss(_Weighted, function="binary_cross_entropy_with_logits"):
    """Cross entropy of sigmoid(logits) with targets in [0, 1]; ``pos_weight`` scales the positive part."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)


class NLLLoss(_Weighted, function="nll_loss"):
    """Negative log probability of the target class: x (N, C, ...), target (N, ...) of class ids."""

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index


class CrossEntropyLoss(NLLLoss, function="cross_entropy"):
    """Cross entropy of logits (N, C, ...) with class ids (N, ...) or probabilities (N, C, ...)."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = label_smoothing


class LinearCrossEntropyLoss(_Weighted):
    """Cross entropy of ``linear(x)`` with class ids (N, ...) or probabilities (N, C, ...): x (N, in_features), logits
    (N, num_classes, ...) with the further axes ``out_features``.

    ``options``, how PyTorch divides the work into parts, change nothing.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise ShapeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction)
        self.num_classes: int = num_classes
        self.out_features: tuple[int, ...] = out_features
        self.ignore_index: int | None = ignore_index
        self.label_smoothing: float = label_smoothing
        self.options = options  # type: ignore[misc]
        self.linear: Linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)

    def forward(self, *operands: Tensor) -> Tensor:
        """Returns the loss of x and its target."""
        x, target = operands
        check_precision(self, x, self.linear.weight)
        lead = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return functional.linear_cross_entropy(
            x,
            ag.reshape(self.linear.weight, (*lead, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else ag.reshape(bias, lead),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """Returns all options."""
        names = ("num_classes", "out_features", "bias", "reduction", "ignore_index", "label_smoothing", "options")
        values = {**vars(self), "bias": self.linear.bias is not None}
        shown = (f"{name}={values[name]}" for name in names)
        return ", ".join((f"in_features={self.linear.in_features}", *shown))


class KLDivLoss(_Loss, function="kl_div"):
    """target (log target - x) for log probabilities x; reduction also "batchmean"."""

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target


class HingeLoss(_Loss, function="hinge_loss"):
    """max(0, margin - x target) for targets -1 and 1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class MultiMarginLoss(_Weighted, function="multi_margin_loss"):
    """Mean over classes of max(0, margin - x[target] + x[other])^p: x (N, C), target (N,) of class ids."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.p: int = p
        self.margin: float = margin


class CosineEmbeddingLoss(_Loss, function="cosine_embedding_loss"):
    """1 - cos(a, b) for target 1, max(0, cos(a, b) - margin) for target -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class TripletMarginLoss(_Loss, function="triplet_margin_loss"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d(x, y) the p-norm of x - y + eps over the last axis.

    ``swap`` takes the smaller of d(anchor, negative) and d(positive, negative).
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.margin: float = margin
        self.p: float = p
        self.eps: float = eps
        self.swap: bool = swap


class MarginRankingLoss(_Loss, function="margin_ranking_loss"):
    """max(0, -target (x1 - x2) + margin) for targets 1 (x1 ranks higher) and -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class HingeEmbeddingLoss(_Loss, function="hinge_embedding_loss"):
    """x for targets 1, max(0, margin - x) for targets -1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class PoissonNLLLoss(_Loss, function="poisson_nll_loss"):
    """Negative log likelihood of counts: exp(x) - target x, or without ``log_input`` x - target log(x + eps)."""

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input: bool = log_input
        self.full: bool = full
        self.eps: float = eps


class GaussianNLLLoss(_Loss, function="gaussian_nll_loss"):
    """Negative log likelihood of Gaussians: ``loss(x, target, var)``, var at least ``eps``."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full: bool = full
        self.eps: float = eps


class SoftMarginLoss(_Loss, function="soft_margin_loss"):
    """log(1 + exp(-target x)) for targets -1 and 1."""


class MultiLabelMarginLoss(_Loss, function="multilabel_margin_loss"):
    """Margins between the listed classes and the others: x (N, C) or (C,), target class ids of that shape, up to
    the first -1.
    """


class MultiLabelSoftMarginLoss(_Weighted, function="multilabel_soft_margin_loss"):
    """Mean over the classes of the binary cross entropy of logits x (N, C) and targets 0 or 1; weight (C,)."""


class CTCLoss(_Loss, function="ctc_loss"):
    """Connectionist temporal classification (Graves et al. 2006).

    ``loss(log_probs, targets, input_lengths, target_lengths)`` with log probabilities (T, N, C) and targets (N, S), or
    the concatenated targets of all samples.

    The mean divides each loss by its target's length; ``zero_infinity`` replaces the infinite losses of targets that do
    not fit by 0.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank: int = blank
        self.zero_infinity: bool = zero_infinity


class FocalLoss(_Loss, function="focal_loss"):
    """Binary cross entropy with logits, down-weighted for easy examples (Lin et al. 2017)."""

    def __init__(self, alpha: float = 0.25, gamma: float = 2.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.alpha: float = alpha
        self.gamma: float = gamma


class InfoNCELoss(Layer, shown=("temperature",)):
    """Cross entropy of each query with its own key among all keys of the batch (van den Oord et al. 2018)."""

    def __init__(self, temperature: float = 0.07) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return ag.info_nce_loss(query, keys, temperature=self.temperature)


class ContrastiveLoss(_Loss, function="contrastive_loss"):
    """Pulls pairs with target 1 together and pushes others away up to ``margin`` (Hadsell et al. 2006)."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class TripletMarginWithDistanceLoss(Module):
    """``triplet_margin_loss`` with the distance of a function of two tensors; None is ``pairwise_distance``."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if margin <= 0:
            raise ValueError(f"expected a margin above 0, got {margin}")
        self.distance_function: Callable[[Tensor, Tensor], Tensor] | None = distance_function
        self.margin: float = margin
        self.swap: bool = swap
        self.reduction: str = reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
