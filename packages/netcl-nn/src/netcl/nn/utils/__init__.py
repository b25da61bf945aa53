"""The names of ``torch.nn.utils``: clipping, vectors of parameters, parametrizations, packed sequences, fusion."""

from __future__ import annotations

from netcl.nn.reparameterize import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from netcl.nn.utils import parametrizations, parametrize, prune, rnn, stateless
from netcl.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from netcl.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from netcl.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from netcl.nn.utils.init import skip_init

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]
