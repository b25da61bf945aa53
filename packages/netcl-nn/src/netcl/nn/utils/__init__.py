"""The names of ``torch.nn.utils``: clipping, vectors of parameters, parametrizations, packed sequences, fusion."""

from __future__ import annotations

from netcl.nn.reparameterize import remove_spectral_norm as remove_spectral_norm
from netcl.nn.reparameterize import remove_weight_norm as remove_weight_norm
from netcl.nn.reparameterize import spectral_norm as spectral_norm
from netcl.nn.reparameterize import weight_norm as weight_norm
from netcl.nn.utils import parametrizations as parametrizations
from netcl.nn.utils import parametrize as parametrize
from netcl.nn.utils import prune as prune
from netcl.nn.utils import rnn as rnn
from netcl.nn.utils import stateless as stateless
from netcl.nn.utils.clip_grad import clip_grad_norm as clip_grad_norm
from netcl.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from netcl.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from netcl.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from netcl.nn.utils.clip_grad import get_total_norm as get_total_norm
from netcl.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from netcl.nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from netcl.nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from netcl.nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from netcl.nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from netcl.nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from netcl.nn.utils.init import skip_init as skip_init
