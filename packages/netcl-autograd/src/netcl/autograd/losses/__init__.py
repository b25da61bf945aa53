"""The losses, registered as rows of the op table; ``netcl.autograd.ops`` has the differentiable functions."""

from __future__ import annotations

from netcl.autograd.losses.classes import cross_entropy as cross_entropy
from netcl.autograd.losses.classes import multi_margin_loss as multi_margin_loss
from netcl.autograd.losses.classes import multilabel_margin_loss as multilabel_margin_loss
from netcl.autograd.losses.classes import nll_loss as nll_loss
from netcl.autograd.losses.elementwise import binary_cross_entropy as binary_cross_entropy
from netcl.autograd.losses.elementwise import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from netcl.autograd.losses.elementwise import focal_loss as focal_loss
from netcl.autograd.losses.elementwise import gaussian_nll_loss as gaussian_nll_loss
from netcl.autograd.losses.elementwise import hinge_embedding_loss as hinge_embedding_loss
from netcl.autograd.losses.elementwise import hinge_loss as hinge_loss
from netcl.autograd.losses.elementwise import huber_loss as huber_loss
from netcl.autograd.losses.elementwise import kl_div as kl_div
from netcl.autograd.losses.elementwise import l1_loss as l1_loss
from netcl.autograd.losses.elementwise import margin_ranking_loss as margin_ranking_loss
from netcl.autograd.losses.elementwise import mse_loss as mse_loss
from netcl.autograd.losses.elementwise import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from netcl.autograd.losses.elementwise import poisson_nll_loss as poisson_nll_loss
from netcl.autograd.losses.elementwise import smooth_l1_loss as smooth_l1_loss
from netcl.autograd.losses.elementwise import soft_margin_loss as soft_margin_loss
from netcl.autograd.losses.metric import batch_all_triplet_loss as batch_all_triplet_loss
from netcl.autograd.losses.metric import batch_hard_triplet_loss as batch_hard_triplet_loss
from netcl.autograd.losses.metric import contrastive_loss as contrastive_loss
from netcl.autograd.losses.metric import cosine_embedding_loss as cosine_embedding_loss
from netcl.autograd.losses.metric import info_nce_loss as info_nce_loss
from netcl.autograd.losses.metric import triplet_loss as triplet_loss
from netcl.autograd.losses.metric import triplet_margin_loss as triplet_margin_loss

__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
]
