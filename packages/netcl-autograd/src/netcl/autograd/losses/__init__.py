"""The losses, registered as rows of the op table; ``netcl.autograd.ops`` has the differentiable functions."""

from __future__ import annotations

from netcl.autograd.losses.classes import cross_entropy, multi_margin_loss, multilabel_margin_loss, nll_loss
from netcl.autograd.losses.elementwise import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    focal_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    hinge_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
)
from netcl.autograd.losses.metric import (
    batch_all_triplet_loss,
    batch_hard_triplet_loss,
    contrastive_loss,
    cosine_embedding_loss,
    info_nce_loss,
    triplet_loss,
    triplet_margin_loss,
)

__all__ = [
    "batch_all_triplet_loss",
    "batch_hard_triplet_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "contrastive_loss",
    "cosine_embedding_loss",
    "cross_entropy",
    "focal_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "hinge_loss",
    "huber_loss",
    "info_nce_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_loss",
    "triplet_margin_loss",
]
