"""The losses of torch itself, which give their reduction as a number: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from typing import Any

from netcl.core import Tensor
from netcl.core.errors import from_here
from netcl.core.ops_table.dispatch import call

_REDUCTIONS = ("none", "mean", "sum")


def _loss(name: str, *args: Any, reduction: int | str, **kwargs: Any) -> Tensor:
    if not isinstance(reduction, str):
        if reduction not in (0, 1, 2):
            raise ValueError(
                f"{name}: expected reduction 0 (none), 1 (mean), 2 (sum) or one of these words, got {reduction!r}"
            )
        reduction = _REDUCTIONS[reduction]
    return call(name, *args, record=True, reduction=reduction, **kwargs)  # type: ignore[no-any-return]


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int | str = 1,
) -> Tensor:
    """Returns ``nn.functional.binary_cross_entropy_with_logits``."""
    return _loss("binary_cross_entropy_with_logits", input, target, weight, pos_weight, reduction=reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """Returns ``nn.functional.cosine_embedding_loss``."""
    return _loss("cosine_embedding_loss", input1, input2, target, margin=margin, reduction=reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int | str = 1) -> Tensor:
    """Returns ``nn.functional.hinge_embedding_loss``."""
    return _loss("hinge_embedding_loss", input, target, margin=margin, reduction=reduction)


def kl_div(input: Tensor, target: Tensor, reduction: int | str = 1, *, log_target: bool = False) -> Tensor:
    """Returns ``nn.functional.kl_div``."""
    return _loss("kl_div", input, target, reduction=reduction, log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """Returns ``nn.functional.margin_ranking_loss``."""
    return _loss("margin_ranking_loss", input1, input2, target, margin=margin, reduction=reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int | str
) -> Tensor:
    """Returns ``nn.functional.poisson_nll_loss``."""
    return _loss("poisson_nll_loss", input, target, log_input=log_input, full=full, eps=eps, reduction=reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int | str = 1,
) -> Tensor:
    """Returns ``nn.functional.triplet_margin_loss``."""
    options: dict[str, Any] = {"margin": margin, "p": p, "eps": eps, "swap": swap}
    return _loss("triplet_margin_loss", anchor, positive, negative, reduction=reduction, **options)


from_here(globals())
