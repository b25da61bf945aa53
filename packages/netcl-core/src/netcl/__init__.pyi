"""The names of ``import netcl as nc``; written by tools/write_stubs.py."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from netcl.ops.ranked import Ranked
from netcl.ops.signatures import Axis, Ints, Operand

from netcl import amp as amp
from netcl import array_api as array_api
from netcl import autograd as autograd
from netcl import core as core
from netcl import data as data
from netcl import distributed as distributed
from netcl import distributions as distributions
from netcl import io as io
from netcl import linalg as linalg
from netcl import nn as nn
from netcl import ops as ops
from netcl import optim as optim
from netcl import profiling as profiling
from netcl import runtime as runtime
from netcl import sparse as sparse
from netcl import special as special
from netcl import torch as torch
from netcl import torch_vision as torch_vision
from netcl import trainer as trainer
from netcl.core.dtypes import DType
from netcl.core.tensor.typed import BFloat16Tensor as BFloat16Tensor
from netcl.core.tensor.typed import BoolTensor as BoolTensor
from netcl.core.tensor.typed import ByteTensor as ByteTensor
from netcl.core.tensor.typed import CharTensor as CharTensor
from netcl.core.tensor.typed import DoubleTensor as DoubleTensor
from netcl.core.tensor.typed import FloatTensor as FloatTensor
from netcl.core.tensor.generator import Generator as Generator
from netcl.amp import GradScaler as GradScaler
from netcl.core.tensor.typed import HalfTensor as HalfTensor
from netcl.core.tensor.typed import IntTensor as IntTensor
from netcl.core.kernels.primitives import KernelSpec as KernelSpec
from netcl.core.tensor.typed import LongTensor as LongTensor
from netcl.core.tensor.typed import ShortTensor as ShortTensor
from netcl.core.tensor.size import Size as Size
from netcl.core.tensor.sparse import SparseTensor as SparseTensor
from netcl.core import Tensor as Tensor
from netcl.core.__about__ import __version__ as __version__
from netcl.core.tensor.functions import affine_grid_generator as affine_grid_generator
from netcl.core.tensor.functions import alias_copy as alias_copy
from netcl.core.tensor.factories import arange as arange
from netcl.core.process_settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from netcl.core.tensor.functions import as_strided_copy as as_strided_copy
from netcl.core.tensor.factories import as_tensor as as_tensor
from netcl.core.tensor.factories import asarray as asarray
from netcl.amp import autocast as autocast
from netcl.core.tensor.factories import bernoulli as bernoulli
from netcl.autograd.losses.front import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from netcl.core.tensor.factories import binomial as binomial
from netcl.core.tensor.functions import broadcast_shapes as broadcast_shapes
from netcl.core.tensor.promotion import can_cast as can_cast
from netcl.core.tensor.functions import chain_matmul as chain_matmul
from netcl.core.tensor.memory_format import channels_last as channels_last
from netcl.core.tensor.memory_format import channels_last_3d as channels_last_3d
from netcl.autograd.compiler import compile as compile
from netcl.core.tensor.functions import concat as concat
from netcl.core.tensor.functions import concatenate as concatenate
from netcl.core.tensor.functions import constant_pad_nd as constant_pad_nd
from netcl.core.tensor.memory_format import contiguous_format as contiguous_format
from netcl.autograd.losses.front import cosine_embedding_loss as cosine_embedding_loss
from netcl.core.tensor.generator import default_generator as default_generator
from netcl.core.tensor.functions import detach as detach
from netcl.core.tensor.functions import detach_copy as detach_copy
from netcl.core.device import device as device
from netcl.core.tensor.functions import diagonal_copy as diagonal_copy
from netcl.core.tensor.factories import empty as empty
from netcl.core.tensor.factories import empty_like as empty_like
from netcl.core.tensor.factories import empty_permuted as empty_permuted
from netcl.core.tensor.factories import empty_strided as empty_strided
from netcl.core.grad_mode import enable_grad as enable_grad
from netcl.core.tensor.functions import expand_copy as expand_copy
from netcl.core.tensor.factories import eye as eye
from netcl.array_api import finfo as finfo
from netcl.core.tensor.functions import frobenius_norm as frobenius_norm
from netcl.core.tensor.factories import from_dlpack as from_dlpack
from netcl.core.tensor.factories import from_file as from_file
from netcl.core.tensor.factories import from_numpy as from_numpy
from netcl.core.tensor.factories import frombuffer as frombuffer
from netcl.core.tensor.factories import full as full
from netcl.core.tensor.factories import full_like as full_like
from netcl.amp import get_autocast_dtype as get_autocast_dtype
from netcl.core.device import get_default_device as get_default_device
from netcl.core.tensor.factories import get_default_dtype as get_default_dtype
from netcl.core.process_settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from netcl.core.tuning.matmul_precision import get_float32_matmul_precision as get_float32_matmul_precision
from netcl.core.process_settings import get_num_interop_threads as get_num_interop_threads
from netcl.core.process_settings import get_num_threads as get_num_threads
from netcl.core.tensor.functions import grid_sampler as grid_sampler
from netcl.core.tensor.functions import grid_sampler_2d as grid_sampler_2d
from netcl.core.tensor.functions import grid_sampler_3d as grid_sampler_3d
from netcl.core.tensor.functions import gru_cell as gru_cell
from netcl.autograd.losses.front import hinge_embedding_loss as hinge_embedding_loss
from netcl.core.tensor.functions import histogramdd as histogramdd
from netcl.array_api import iinfo as iinfo
from netcl.core.grad_mode import inference_mode as inference_mode
from netcl.core.tensor.generator import initial_seed as initial_seed
from netcl.core.grad_mode import is_anomaly_enabled as is_anomaly_enabled
from netcl.amp import is_autocast_enabled as is_autocast_enabled
from netcl.core.process_settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from netcl.core.grad_mode import is_grad_enabled as is_grad_enabled
from netcl.core.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from netcl.core.tensor.functions import is_storage as is_storage
from netcl.core.tensor.factories import is_tensor as is_tensor
from netcl.autograd.losses.front import kl_div as kl_div
from netcl.core.tensor.memory_format import layout as layout
from netcl.core.tensor.memory_format import legacy_contiguous_format as legacy_contiguous_format
from netcl.core.tensor.factories import linspace as linspace
from netcl.io import load as load
from netcl.core.tensor.lowrank import lobpcg as lobpcg
from netcl.core.tensor.factories import logspace as logspace
from netcl.core.tensor.functions import lstm_cell as lstm_cell
from netcl.core.tensor.functions import lu_unpack as lu_unpack
from netcl.core import manager as manager
from netcl.autograd.losses.front import margin_ranking_loss as margin_ranking_loss
from netcl.core.tensor.functions import max_pool1d_with_indices as max_pool1d_with_indices
from netcl.core.tensor.memory_format import memory_format as memory_format
from netcl.core.tensor.factories import meshgrid as meshgrid
from netcl.core.tensor.factories import multinomial as multinomial
from netcl.core.tensor.functions import native_batch_norm as native_batch_norm
from netcl.core.tensor.functions import native_channel_shuffle as native_channel_shuffle
from netcl.core.tensor.functions import native_dropout as native_dropout
from netcl.core.tensor.functions import native_group_norm as native_group_norm
from netcl.core.tensor.functions import native_layer_norm as native_layer_norm
from netcl.core.grad_mode import no_grad as no_grad
from netcl.core.tensor.functions import norm_except_dim as norm_except_dim
from netcl.core.tensor.factories import normal as normal
from netcl.core.tensor.functions import nuclear_norm as nuclear_norm
from netcl.core.tensor.factories import ones as ones
from netcl.core.tensor.factories import ones_like as ones_like
from netcl.core.tensor.lowrank import pca_lowrank as pca_lowrank
from netcl.core.tensor.functions import permute_copy as permute_copy
from netcl.core.tensor.factories import poisson as poisson
from netcl.autograd.losses.front import poisson_nll_loss as poisson_nll_loss
from netcl.core.tensor.memory_format import preserve_format as preserve_format
from netcl.core.tensor.promotion import promote_types as promote_types
from netcl.core.tensor.factories import rand as rand
from netcl.core.tensor.factories import rand_like as rand_like
from netcl.core.tensor.factories import randint as randint
from netcl.core.tensor.factories import randint_like as randint_like
from netcl.core.tensor.factories import randn as randn
from netcl.core.tensor.factories import randn_like as randn_like
from netcl.core.tensor.factories import randperm as randperm
from netcl.core.tensor.factories import range as range
from netcl.core.tensor.functions import real as real
from netcl.core.tensor.promotion import result_type as result_type
from netcl.core.tensor.functions import rnn_relu_cell as rnn_relu_cell
from netcl.core.tensor.functions import rnn_tanh_cell as rnn_tanh_cell
from netcl.core.tensor.functions import row_stack as row_stack
from netcl.core.tensor.functions import rsub as rsub
from netcl.io import save as save
from netcl.core.tensor.factories import scalar_tensor as scalar_tensor
from netcl.core.tensor.generator import seed as seed
from netcl.core.tensor.functions import select_copy as select_copy
from netcl.core.grad_mode import set_anomaly_enabled as set_anomaly_enabled
from netcl.core.device import set_default_device as set_default_device
from netcl.core.tensor.factories import set_default_dtype as set_default_dtype
from netcl.core.tensor.typed import set_default_tensor_type as set_default_tensor_type
from netcl.core.process_settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from netcl.core.tuning.matmul_precision import set_float32_matmul_precision as set_float32_matmul_precision
from netcl.core.process_settings import set_flush_denormal as set_flush_denormal
from netcl.core.grad_mode import set_grad_enabled as set_grad_enabled
from netcl.core.process_settings import set_num_interop_threads as set_num_interop_threads
from netcl.core.process_settings import set_num_threads as set_num_threads
from netcl.core.tensor.printing import set_printoptions as set_printoptions
from netcl.core.tensor.functions import slice_copy as slice_copy
from netcl.core.tensor.memory_format import sparse_coo as sparse_coo
from netcl.core.tensor.sparse import sparse_coo_tensor as sparse_coo_tensor
from netcl.core.tensor.memory_format import sparse_csr as sparse_csr
from netcl.core.tensor.sparse import sparse_csr_tensor as sparse_csr_tensor
from netcl.core.tensor.functions import split_copy as split_copy
from netcl.core.tensor.functions import split_with_sizes_copy as split_with_sizes_copy
from netcl.core.tensor.sparse import spmm as spmm
from netcl.core.tensor.functions import squeeze_copy as squeeze_copy
from netcl.core.tensor.memory_format import strided as strided
from netcl.core.tensor.lowrank import svd_lowrank as svd_lowrank
from netcl.core.tensor.functions import t_copy as t_copy
from netcl.core.tensor.factories import tensor as tensor
from netcl.core.tensor.functions import to_dlpack as to_dlpack
from netcl.core.tensor.functions import transpose_copy as transpose_copy
from netcl.core.tensor.functions import trapz as trapz
from netcl.autograd.losses.front import triplet_margin_loss as triplet_margin_loss
from netcl.core.tensor.functions import typename as typename
from netcl.core.tensor.functions import unbind_copy as unbind_copy
from netcl.core.tensor.functions import unfold_copy as unfold_copy
from netcl.core.tensor.functions import unsqueeze_copy as unsqueeze_copy
from netcl.core.process_settings import use_deterministic_algorithms as use_deterministic_algorithms
from netcl.core.tensor.functions import view_copy as view_copy
from netcl.core.tensor.factories import zeros as zeros
from netcl.core.tensor.factories import zeros_like as zeros_like
from netcl.ops import abs as abs
from netcl.ops import acos as acos
from netcl.ops import acosh as acosh
from netcl.ops import adaptive_avg_pool1d as adaptive_avg_pool1d
from netcl.ops import adaptive_avg_pool2d as adaptive_avg_pool2d
from netcl.ops import adaptive_avg_pool3d as adaptive_avg_pool3d
from netcl.ops import adaptive_max_pool1d as adaptive_max_pool1d
from netcl.ops import adaptive_max_pool2d as adaptive_max_pool2d
from netcl.ops import adaptive_max_pool3d as adaptive_max_pool3d
from netcl.ops import addcdiv as addcdiv
from netcl.ops import addcmul as addcmul
from netcl.ops import addmm as addmm
from netcl.ops import affine_grid as affine_grid
from netcl.ops import all as all
from netcl.ops import allclose as allclose
from netcl.ops import alpha_dropout as alpha_dropout
from netcl.ops import amax as amax
from netcl.ops import amin as amin
from netcl.ops import any as any
from netcl.ops import argmax as argmax
from netcl.ops import argmin as argmin
from netcl.ops import argsort as argsort
from netcl.ops import asin as asin
from netcl.ops import asinh as asinh
from netcl.ops import atan as atan
from netcl.ops import atan2 as atan2
from netcl.ops import atanh as atanh
from netcl.ops import atleast_1d as atleast_1d
from netcl.ops import atleast_2d as atleast_2d
from netcl.ops import atleast_3d as atleast_3d
from netcl.ops import avg_pool1d as avg_pool1d
from netcl.ops import avg_pool2d as avg_pool2d
from netcl.ops import avg_pool3d as avg_pool3d
from netcl.ops import baddbmm as baddbmm
from netcl.ops import bartlett_window as bartlett_window
from netcl.ops import batch_norm as batch_norm
from netcl.ops import bias_add as bias_add
from netcl.ops import bilinear as bilinear
from netcl.ops import bincount as bincount
from netcl.ops import bitwise_and as bitwise_and
from netcl.ops import bitwise_not as bitwise_not
from netcl.ops import bitwise_or as bitwise_or
from netcl.ops import bitwise_xor as bitwise_xor
from netcl.ops import blackman_window as blackman_window
from netcl.ops import block_diag as block_diag
from netcl.ops import bmm as bmm
from netcl.ops import broadcast_tensors as broadcast_tensors
from netcl.ops import broadcast_to as broadcast_to
from netcl.ops import bucketize as bucketize
from netcl.ops import build_matmul_kernel as build_matmul_kernel
from netcl.ops import cartesian_prod as cartesian_prod
from netcl.ops import cast as cast
from netcl.ops import cat as cat
from netcl.ops import causal_mask as causal_mask
from netcl.ops import cdist as cdist
from netcl.ops import ceil as ceil
from netcl.ops import celu as celu
from netcl.ops import channel_shuffle as channel_shuffle
from netcl.ops import chunk as chunk
from netcl.ops import clamp as clamp
from netcl.ops import clip as clip
from netcl.ops import clone as clone
from netcl.ops import col2im as col2im
from netcl.ops import column_stack as column_stack
from netcl.ops import combinations as combinations
from netcl.ops import conv1d as conv1d
from netcl.ops import conv1d_grad_input as conv1d_grad_input
from netcl.ops import conv1d_grad_weight as conv1d_grad_weight
from netcl.ops import conv2d as conv2d
from netcl.ops import conv2d_grad_input as conv2d_grad_input
from netcl.ops import conv2d_grad_weight as conv2d_grad_weight
from netcl.ops import conv3d as conv3d
from netcl.ops import conv3d_grad_input as conv3d_grad_input
from netcl.ops import conv3d_grad_weight as conv3d_grad_weight
from netcl.ops import conv_tbc as conv_tbc
from netcl.ops import conv_transpose1d as conv_transpose1d
from netcl.ops import conv_transpose2d as conv_transpose2d
from netcl.ops import conv_transpose3d as conv_transpose3d
from netcl.ops import copysign as copysign
from netcl.ops import corrcoef as corrcoef
from netcl.ops import cos as cos
from netcl.ops import cosh as cosh
from netcl.ops import cosine_similarity as cosine_similarity
from netcl.ops import count_nonzero as count_nonzero
from netcl.ops import cov as cov
from netcl.ops import ctc_loss as ctc_loss
from netcl.ops import cummax as cummax
from netcl.ops import cummin as cummin
from netcl.ops import cumprod as cumprod
from netcl.ops import cumsum as cumsum
from netcl.ops import cumulative_trapezoid as cumulative_trapezoid
from netcl.ops import depthwise_conv2d as depthwise_conv2d
from netcl.ops import det as det
from netcl.ops import diag as diag
from netcl.ops import diagonal as diagonal
from netcl.ops import diff as diff
from netcl.ops import digamma as digamma
from netcl.ops import dot as dot
from netcl.ops import dropout as dropout
from netcl.ops import dstack as dstack
from netcl.ops import einsum as einsum
from netcl.ops import elementwise_binary as elementwise_binary
from netcl.ops import elementwise_unary as elementwise_unary
from netcl.ops import elu as elu
from netcl.ops import embedding as embedding
from netcl.ops import eq as eq
from netcl.ops import equal as equal
from netcl.ops import erf as erf
from netcl.ops import erfc as erfc
from netcl.ops import erfinv as erfinv
from netcl.ops import exp as exp
from netcl.ops import exp2 as exp2
from netcl.ops import expand as expand
from netcl.ops import expm1 as expm1
from netcl.ops import feature_alpha_dropout as feature_alpha_dropout
from netcl.ops import feature_dropout as feature_dropout
from netcl.ops import fill as fill
from netcl.ops import flatten as flatten
from netcl.ops import flip as flip
from netcl.ops import floor as floor
from netcl.ops import floor_divide as floor_divide
from netcl.ops import fold_bn_params as fold_bn_params
from netcl.ops import fractional_max_pool2d as fractional_max_pool2d
from netcl.ops import fractional_max_pool3d as fractional_max_pool3d
from netcl.ops import gather as gather
from netcl.ops import ge as ge
from netcl.ops import gelu as gelu
from netcl.ops import get_rng_state as get_rng_state
from netcl.ops import getitem as getitem
from netcl.ops import glu as glu
from netcl.ops import gradient as gradient
from netcl.ops import grid_sample as grid_sample
from netcl.ops import group_norm as group_norm
from netcl.ops import gt as gt
from netcl.ops import hamming_window as hamming_window
from netcl.ops import hann_window as hann_window
from netcl.ops import hard_sigmoid as hard_sigmoid
from netcl.ops import hard_swish as hard_swish
from netcl.ops import hard_tanh as hard_tanh
from netcl.ops import hardshrink as hardshrink
from netcl.ops import heaviside as heaviside
from netcl.ops import histc as histc
from netcl.ops import histogram as histogram
from netcl.ops import hstack as hstack
from netcl.ops import hypot as hypot
from netcl.ops import i0 as i0
from netcl.ops import im2col as im2col
from netcl.ops import index_add as index_add
from netcl.ops import index_copy as index_copy
from netcl.ops import index_put as index_put
from netcl.ops import index_reduce as index_reduce
from netcl.ops import index_select as index_select
from netcl.ops import instance_norm as instance_norm
from netcl.ops import interpolate as interpolate
from netcl.ops import inverse as inverse
from netcl.ops import isclose as isclose
from netcl.ops import isfinite as isfinite
from netcl.ops import isin as isin
from netcl.ops import isinf as isinf
from netcl.ops import isnan as isnan
from netcl.ops import kaiser_window as kaiser_window
from netcl.ops import kron as kron
from netcl.ops import kthvalue as kthvalue
from netcl.ops import l2_normalize as l2_normalize
from netcl.ops import layer_norm as layer_norm
from netcl.ops import le as le
from netcl.ops import leaky_relu as leaky_relu
from netcl.ops import left_shift as left_shift
from netcl.ops import lerp as lerp
from netcl.ops import lgamma as lgamma
from netcl.ops import linear as linear
from netcl.ops import linear_recurrence as linear_recurrence
from netcl.ops import local_response_norm as local_response_norm
from netcl.ops import log as log
from netcl.ops import log10 as log10
from netcl.ops import log1p as log1p
from netcl.ops import log2 as log2
from netcl.ops import logaddexp as logaddexp
from netcl.ops import logcumsumexp as logcumsumexp
from netcl.ops import logdet as logdet
from netcl.ops import logical_and as logical_and
from netcl.ops import logical_not as logical_not
from netcl.ops import logical_or as logical_or
from netcl.ops import logical_xor as logical_xor
from netcl.ops import logit as logit
from netcl.ops import logsigmoid as logsigmoid
from netcl.ops import logsumexp as logsumexp
from netcl.ops import lp_pool1d as lp_pool1d
from netcl.ops import lp_pool2d as lp_pool2d
from netcl.ops import lp_pool3d as lp_pool3d
from netcl.ops import lt as lt
from netcl.ops import manual_seed as manual_seed
from netcl.ops import masked_fill as masked_fill
from netcl.ops import masked_select as masked_select
from netcl.ops import matmul as matmul
from netcl.ops import matrix_exp as matrix_exp
from netcl.ops import matrix_power as matrix_power
from netcl.ops import matrix_transpose as matrix_transpose
from netcl.ops import max as max
from netcl.ops import max_pool1d as max_pool1d
from netcl.ops import max_pool2d as max_pool2d
from netcl.ops import max_pool3d as max_pool3d
from netcl.ops import max_unpool1d as max_unpool1d
from netcl.ops import max_unpool2d as max_unpool2d
from netcl.ops import max_unpool3d as max_unpool3d
from netcl.ops import maximum as maximum
from netcl.ops import median as median
from netcl.ops import min as min
from netcl.ops import minimum as minimum
from netcl.ops import mish as mish
from netcl.ops import mm as mm
from netcl.ops import mod as mod
from netcl.ops import mode as mode
from netcl.ops import mul as mul
from netcl.ops import multigammaln as multigammaln
from netcl.ops import mv as mv
from netcl.ops import mvlgamma as mvlgamma
from netcl.ops import nan_to_num as nan_to_num
from netcl.ops import narrow as narrow
from netcl.ops import ne as ne
from netcl.ops import neg as neg
from netcl.ops import nextafter as nextafter
from netcl.ops import nonzero as nonzero
from netcl.ops import one_hot as one_hot
from netcl.ops import outer as outer
from netcl.ops import pad as pad
from netcl.ops import pairwise_distance as pairwise_distance
from netcl.ops import pdist as pdist
from netcl.ops import permutation as permutation
from netcl.ops import permute as permute
from netcl.ops import pinverse as pinverse
from netcl.ops import pixel_shuffle as pixel_shuffle
from netcl.ops import pixel_unshuffle as pixel_unshuffle
from netcl.ops import polygamma as polygamma
from netcl.ops import pow as pow
from netcl.ops import quantile as quantile
from netcl.ops import reciprocal as reciprocal
from netcl.ops import recurrence as recurrence
from netcl.ops import reduce_mean as reduce_mean
from netcl.ops import reduce_sum as reduce_sum
from netcl.ops import relu as relu
from netcl.ops import relu6 as relu6
from netcl.ops import renorm as renorm
from netcl.ops import repeat as repeat
from netcl.ops import reshape as reshape
from netcl.ops import right_shift as right_shift
from netcl.ops import rms_norm as rms_norm
from netcl.ops import roll as roll
from netcl.ops import rope as rope
from netcl.ops import rot90 as rot90
from netcl.ops import rrelu as rrelu
from netcl.ops import rsqrt as rsqrt
from netcl.ops import scaled_dot_product_attention as scaled_dot_product_attention
from netcl.ops import scatter as scatter
from netcl.ops import scatter_add as scatter_add
from netcl.ops import scatter_reduce as scatter_reduce
from netcl.ops import searchsorted as searchsorted
from netcl.ops import selu as selu
from netcl.ops import set_rng_state as set_rng_state
from netcl.ops import setitem as setitem
from netcl.ops import sigmoid as sigmoid
from netcl.ops import sign as sign
from netcl.ops import signbit as signbit
from netcl.ops import silu as silu
from netcl.ops import sin as sin
from netcl.ops import sinc as sinc
from netcl.ops import sinh as sinh
from netcl.ops import slogdet as slogdet
from netcl.ops import softplus as softplus
from netcl.ops import softshrink as softshrink
from netcl.ops import softsign as softsign
from netcl.ops import sort as sort
from netcl.ops import split as split
from netcl.ops import sqrt as sqrt
from netcl.ops import square as square
from netcl.ops import squeeze as squeeze
from netcl.ops import stack as stack
from netcl.ops import std as std
from netcl.ops import std_mean as std_mean
from netcl.ops import swish as swish
from netcl.ops import take as take
from netcl.ops import take_along_axis as take_along_axis
from netcl.ops import tan as tan
from netcl.ops import tanh as tanh
from netcl.ops import tanhshrink as tanhshrink
from netcl.ops import tensordot as tensordot
from netcl.ops import threshold as threshold
from netcl.ops import tile as tile
from netcl.ops import topk as topk
from netcl.ops import trace as trace
from netcl.ops import transpose as transpose
from netcl.ops import trapezoid as trapezoid
from netcl.ops import tril as tril
from netcl.ops import tril_indices as tril_indices
from netcl.ops import triu as triu
from netcl.ops import triu_indices as triu_indices
from netcl.ops import trunc as trunc
from netcl.ops import unbind as unbind
from netcl.ops import uniform as uniform
from netcl.ops import unique_consecutive as unique_consecutive
from netcl.ops import unravel_index as unravel_index
from netcl.ops import unsqueeze as unsqueeze
from netcl.ops import upsample as upsample
from netcl.ops import vander as vander
from netcl.ops import var as var
from netcl.ops import var_mean as var_mean
from netcl.ops import vstack as vstack
from netcl.ops import where as where
from netcl.ops import xlogy as xlogy

float32: DType
float16: DType
bfloat16: DType
float64: DType
int32: DType
int64: DType
uint8: DType
int8: DType
int16: DType
uint16: DType
uint32: DType
uint64: DType
bool: DType
half: DType
float: DType
double: DType
short: DType
int: DType
long: DType
pi: builtins.float
e: builtins.float
inf: builtins.float
nan: builtins.float
newaxis: None
def absolute(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns |x|."""
def arccos(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse cosine, in radians."""
def arccosh(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse hyperbolic cosine; NaN below 1."""
def arcsin(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse sine, in radians."""
def arcsinh(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse hyperbolic sine."""
def arctan(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse tangent, in radians."""
def arctan2(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the angle of the point (b, a)."""
def arctanh(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the inverse hyperbolic tangent; NaN beyond 1."""
def bitwise_left_shift(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a shifted left by b bits; 0 if b is negative or at least the width of the dtype."""
def bitwise_right_shift(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a shifted right by b bits with sign extension: floor(a / 2^b)."""
def cholesky(x: Tensor, *, upper: builtins.bool = False, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the lower triangular L with x = L L^T, or with ``upper`` the upper triangular U with x = U^T U."""
def fix(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns x truncated towards zero; integers unchanged."""
def ger(a: Tensor, b: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
def greater(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a > b."""
def greater_equal(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a >= b."""
def less(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a < b."""
def less_equal(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a <= b."""
def multiply(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a * b, broadcast."""
def negative(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns -x."""
def not_equal(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a != b."""
def remainder(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns a - floor(a / b) * b: the sign of b, as in Python."""
def sgn(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns -1, 0 or 1; NaN stays NaN, and a bool itself."""
def geqrf(x: Tensor, *, out: Tensor | None = None, pool: Any = None) -> tuple[Tensor, Tensor]:
    """(a, tau) of x (..., m, n) = Q R as LAPACK packs them: R in the upper triangle of a (..., m, n), below it the vectors of the reflections I - tau_i v_i v_i^T with the product Q, tau (..., min(m, n)). It has no gradient."""
def igamma(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The lower regularized incomplete gamma function, the integral of t^(a - 1) exp(-t) / gamma(a) from 0 to b; only ``b`` has a gradient."""
def igammac(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The upper regularized incomplete gamma function, 1 - igamma(a, b); only ``b`` has a gradient."""
def ormqr(x: Tensor, tau: Tensor, other: Tensor, left: builtins.bool = True, transpose: builtins.bool = False, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Q ``other``, or ``other`` Q if not ``left``, for the product Q (..., m, m) of the reflections that ``householder_product`` describes, or for its transpose: x (..., m, k), tau (..., k), other (..., m, n), or (..., n, m) if not ``left``. Raises ShapeError if the shapes do not match."""
def orgqr(x: Tensor, tau: Tensor, *, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """The first n columns of the product of the reflections I - tau_i v_i v_i^T: v_i has a 1 in row i, the elements below of column i of x (..., m, n), and zeros above; tau (..., k), k <= n <= m."""
def add(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, alpha: Any = None) -> Tensor:
    """Returns a + b, broadcast."""
def sub(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, alpha: Any = None) -> Tensor:
    """Returns a - b, broadcast."""
def div(a: Operand, b: Operand, *, out: Tensor | None = None, pool: Any = None, rounding_mode: Any = None) -> Tensor:
    """Returns a / b, broadcast; integers give float32."""
def round(x: Tensor, *, out: Tensor | None = None, pool: Any = None, decimals: Any = None) -> Tensor:
    """Returns the nearest integer, halves to even; integers unchanged."""
def sum(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the sum over ``axis`` (int, tuple, or None for all) of x converted to ``dtype``, the dtype of the result; None is x's, int64 for integers and bool."""
def mean(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the mean over ``axis`` of x converted to the floating ``dtype`` (None: x's, float32 for integers and bool). Raises DTypeError for another ``dtype``."""
def prod(x: Tensor, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: Axis = None, keepdim: builtins.bool | None = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns the product over ``axis`` of x converted to ``dtype``, as in ``sum``; its gradient is right for zeros, too."""
def softmax(x: Tensor, axis: Axis = -1, *, dtype: Any = None, dim: Axis = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns exp(x) / sum(exp(x)) over ``axis``, shifted by the maximum so that it cannot overflow, of x converted to the floating ``dtype`` (None: its own)."""
def log_softmax(x: Tensor, axis: Axis = -1, *, dtype: Any = None, dim: Axis = None, out: Tensor | None = None, pool: Any = None) -> Tensor:
    """Returns x - log(sum(exp(x))) over ``axis``, without overflow, of x converted to ``dtype`` as in ``softmax``."""
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
    """The elements of the storage at storage_offset + i * stride, of shape ``size``: a view, of which a write into elements that share memory is refused. The offset is by default that of the tensor."""
def as_strided_scatter(input: Tensor, src: Any, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
    """A copy in which ``as_strided(size, stride, storage_offset)`` is ``src``."""
def lu(input: Tensor, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> tuple[Tensor, ...]:
    """(LU, pivots), with ``get_infos`` also 0 or the first zero of U, as ``netcl.linalg.lu_factor`` gives them."""
def lu_solve(input: Tensor, LU_data: Any, LU_pivots: Any) -> Tensor:
    """The solution of A y = x by the factors of A that ``lu`` gives."""
def addbmm(input: Tensor, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * the sum of the products of a batch of matrices."""
def addmv(input: Tensor, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * mat @ vec."""
def addr(input: Tensor, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * outer(vec1, vec2)."""
def adjoint(input: Tensor) -> Tensor:
    """The last two axes exchanged."""
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """The least and the greatest element, over ``dim`` or all."""
def angle(input: Tensor) -> Tensor:
    """The angle of a number in the complex plane: pi if it is negative, else 0; NaN for NaN."""
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, one row for each."""
def cholesky_inverse(input: Tensor, upper: builtins.bool = False) -> Tensor:
    """The inverse of the matrix with Cholesky factor x: of x x^T, with ``upper`` of x^T x. As in PyTorch, the gradient is that of a full x."""
def cholesky_solve(input: Tensor, input2: Any, upper: builtins.bool = False) -> Tensor:
    """The solution of A y = x for the matrix A with Cholesky factor ``input2``; the gradient is that of a full one."""
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Each element, at most ``max``, a number or a tensor."""
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Each element, at least ``min``, a number or a tensor."""
def conj(input: Tensor) -> Tensor:
    """The tensor itself: there are no complex dtypes."""
def conj_physical(input: Tensor) -> Tensor:
    """The tensor itself: there are no complex dtypes."""
def cross(input: Tensor, other: Any, dim: builtins.int | None = None) -> Tensor:
    """The cross product along ``dim``; None is the first axis of length 3, unlike in ``netcl.linalg.cross``."""
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
def diag_embed(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    """Matrices with the last axis on their diagonal, in the axes ``dim1`` and ``dim2`` of the result."""
def diagflat(input: Tensor, offset: builtins.int = 0) -> Tensor:
    """The matrix with all elements on its diagonal ``offset``."""
def diagonal_scatter(input: Tensor, src: Any, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """A copy in which ``diagonal(offset, dim1, dim2)`` is ``src``."""
def dist(input: Tensor, other: Any, p: builtins.float = 2) -> Tensor:
    """The p-norm of the difference of all elements."""
def divide(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x / other; ``rounding_mode``: ``floor``, ``trunc`` (their gradients are zero) or None for the exact quotient."""
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Equal parts along the third axis, or parts that begin at the given positions."""
def fliplr(input: Tensor) -> Tensor:
    """The elements in reverse order along the second axis."""
def flipud(input: Tensor) -> Tensor:
    """The elements in reverse order along the first axis."""
def float_power(input: Tensor, exponent: Any) -> Tensor:
    """x to the power of ``exponent`` in float64."""
def fmax(input: Tensor, other: Any) -> Tensor:
    """The larger element of both; of a number and NaN the number."""
def fmin(input: Tensor, other: Any) -> Tensor:
    """The smaller element of both; of a number and NaN the number."""
def fmod(input: Tensor, other: Any) -> Tensor:
    """The remainder of x / other with the sign of x, as in C."""
def frac(input: Tensor) -> Tensor:
    """x - trunc(x)."""
def frexp(input: Tensor) -> tuple[Tensor, Tensor]:
    """(mantissa, exponent) with x = mantissa * 2**exponent and the mantissa in [0.5, 1); exponents from the host."""
def gcd(input: Tensor, other: Any) -> Tensor:
    """The greatest common divisor of each pair of integers; computed on the host."""
def get_device(input: Tensor) -> builtins.int:
    """The index of the tensor's device among those of its type, -1 for a CPU."""
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Equal parts along the second axis, along the first of a vector, or parts that begin at the given positions."""
def index_fill(input: Tensor, dim: builtins.int, index: Any, value: Any) -> Tensor:
    """A copy with ``value`` at the positions ``index`` of an axis."""
def inner(input: Tensor, other: Any) -> Tensor:
    """The sums of products over the last axes of both."""
def is_complex(input: Tensor) -> builtins.bool:
    """False: there are no complex dtypes."""
def is_conj(input: Tensor) -> builtins.bool:
    """False: there is no such state of a tensor here."""
def is_distributed(input: Tensor) -> builtins.bool:
    """False: there is no such state of a tensor here."""
def is_floating_point(input: Tensor) -> builtins.bool:
    """True for floating dtypes."""
def is_inference(input: Tensor) -> builtins.bool:
    """False: there is no such state of a tensor here."""
def is_neg(input: Tensor) -> builtins.bool:
    """False: there is no such state of a tensor here."""
def is_nonzero(input: Tensor) -> builtins.bool:
    """True if the one element is not zero; ShapeError if there are more or none."""
def is_same_size(input: Tensor, other: Any) -> builtins.bool:
    """True if the shapes are equal."""
def is_signed(input: Tensor) -> builtins.bool:
    """True for dtypes with negative numbers."""
def isneginf(input: Tensor) -> Tensor:
    """True where an element is negative infinity."""
def isposinf(input: Tensor) -> Tensor:
    """True where an element is positive infinity."""
def isreal(input: Tensor) -> Tensor:
    """True for every element: there are no complex dtypes."""
def lcm(input: Tensor, other: Any) -> Tensor:
    """The least common multiple of each pair of integers; computed on the host."""
def ldexp(input: Tensor, other: Any) -> Tensor:
    """x * 2**other."""
def logaddexp2(input: Tensor, other: Any) -> Tensor:
    """log2(2**x + 2**other)."""
def masked_scatter(input: Tensor, mask: Any, source: Any) -> Tensor:
    """A copy whose elements under the mask are the elements of ``source``, in order; ``x`` and the mask broadcast. ShapeError if the elements are too few."""
def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes ``source`` (int or several) at the positions ``destination``; the others keep their order."""
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes ``source`` (int or several) at the positions ``destination``; the others keep their order."""
def msort(input: Tensor) -> Tensor:
    """The elements sorted along the first axis."""
def nanmean(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of the elements that are not NaN."""
def nanmedian(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
    """The median of the elements that are not NaN, NaN if there are none: of all, or along ``dim`` with positions."""
def nanquantile(input: Tensor, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear') -> Tensor:
    """The quantiles ``q`` of the elements that are not NaN, NaN if there are none, over ``dim`` or all."""
def nansum(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """The sum without the elements that are NaN."""
def narrow_copy(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
    """``narrow`` as a copy."""
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
    """The first ``size`` rows of ``nonzero``, with rows of ``fill_value`` if there are fewer."""
def norm(input: Tensor, p: Any = 'fro', dim: Any = None, keepdim: builtins.bool = False, dtype: Any = None, **numpy_names: Any) -> Tensor:
    """The p-norm over ``dim``, (sum |x|^p)^(1/p), of the elements as ``dtype``; None is all axes."""
def numel(input: Tensor) -> builtins.int:
    """The number of elements."""
def positive(input: Tensor) -> Tensor:
    """The tensor itself; TypeError for bool."""
def prelu(input: Tensor, weight: Any) -> Tensor:
    """x if positive, else ``weight`` x: a weight of one element, or one for each position of axis 1."""
def put(input: Tensor, index: Any, source: Any, accumulate: builtins.bool = False) -> Tensor:
    """A copy with the elements of ``source`` at positions of the flattened tensor, added there with ``accumulate``."""
def qr(input: Tensor, some: builtins.bool = True) -> Tensor:
    """(Q, R) with x = Q R: Q with as many columns as R has rows, or square without ``some``."""
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
def ravel(input: Tensor) -> Tensor:
    """The elements in one axis."""
def repeat_interleave(input: Tensor, repeats: Any, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
    """Every element ``repeats`` times in a row along ``dim``; None flattens. ``repeats``: an int or one for each element. ``output_size``, the length of the result, is not needed."""
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: there are no complex dtypes."""
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: there are no complex dtypes."""
def select(input: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
    """Position ``index`` of one axis, without it."""
def select_scatter(input: Tensor, src: Any, dim: builtins.int, index: builtins.int) -> Tensor:
    """A copy in which ``select(dim, index)`` is ``src``."""
def slice_scatter(input: Tensor, src: Any, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> Tensor:
    """A copy in which the positions ``start:end:step`` of an axis are ``src``."""
def split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> Tensor:
    """Parts of the given sizes along ``dim``."""
def subtract(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """x - alpha * other."""
def svd(input: Tensor, some: builtins.bool = True, compute_uv: builtins.bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with x = U diag(S) V^T; unlike ``netcl.linalg.svd``, which has the transpose of V."""
def swapaxes(input: Tensor, axis0: builtins.int, axis1: builtins.int) -> Tensor:
    """Two axes exchanged."""
def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Two axes exchanged."""
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; tensors of fewer axes unchanged. Raises ShapeError if there are more."""
def take_along_dim(input: Tensor, indices: Any, dim: builtins.int | None = None, *, axis: builtins.int | None = None) -> Tensor:
    """The elements at ``indices`` along ``dim``, one for each of the other positions; None takes of the flat tensor."""
def tensor_split(input: Tensor, indices_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Parts along ``dim``: so many of nearly equal length, or parts that begin at the given positions."""
def triangular_solve(input: Tensor, A: Any, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """(the solution of A y = x, a copy of A) for a triangular A, of which only the one triangle is read."""
def true_divide(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x / other; ``rounding_mode``: ``floor``, ``trunc`` (their gradients are zero) or None for the exact quotient."""
def unflatten(input: Tensor, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
    """The axis ``dim`` as several axes of lengths ``sizes``, one of which may be -1."""
def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> Tensor:
    """``chunk``."""
def unsafe_split(input: Tensor, split_size: builtins.int, dim: builtins.int = 0) -> Tensor:
    """``split``."""
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements, or with ``dim`` the distinct slices along it, in order, regardless of ``sorted``."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> Tensor:
    """``split_with_sizes``."""
def vdot(input: Tensor, other: Any) -> Tensor:
    """The inner product of two vectors."""
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Equal parts along the first axis, or parts that begin at the given positions."""
def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
    """``as_strided`` in place: the tensor has the shape of the result, on the same storage; returns it."""
def resize_as_(input: Tensor, other: Any, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the shape of ``other``."""
def abs_(input: Tensor) -> Tensor:
    """``abs`` in place: gives this tensor the values of the result, and returns it."""
def acos_(input: Tensor) -> Tensor:
    """``acos`` in place: gives this tensor the values of the result, and returns it."""
def acosh_(input: Tensor) -> Tensor:
    """``acosh`` in place: gives this tensor the values of the result, and returns it."""
def addmv_(input: Tensor, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``addmv`` in place: gives this tensor the values of the result, and returns it."""
def arccos_(input: Tensor) -> Tensor:
    """``arccos`` in place: gives this tensor the values of the result, and returns it."""
def arccosh_(input: Tensor) -> Tensor:
    """``arccosh`` in place: gives this tensor the values of the result, and returns it."""
def arcsin_(input: Tensor) -> Tensor:
    """``arcsin`` in place: gives this tensor the values of the result, and returns it."""
def arcsinh_(input: Tensor) -> Tensor:
    """``arcsinh`` in place: gives this tensor the values of the result, and returns it."""
def arctan_(input: Tensor) -> Tensor:
    """``arctan`` in place: gives this tensor the values of the result, and returns it."""
def arctanh_(input: Tensor) -> Tensor:
    """``arctanh`` in place: gives this tensor the values of the result, and returns it."""
def asin_(input: Tensor) -> Tensor:
    """``asin`` in place: gives this tensor the values of the result, and returns it."""
def asinh_(input: Tensor) -> Tensor:
    """``asinh`` in place: gives this tensor the values of the result, and returns it."""
def atan_(input: Tensor) -> Tensor:
    """``atan`` in place: gives this tensor the values of the result, and returns it."""
def atanh_(input: Tensor) -> Tensor:
    """``atanh`` in place: gives this tensor the values of the result, and returns it."""
def ceil_(input: Tensor) -> Tensor:
    """``ceil`` in place: gives this tensor the values of the result, and returns it."""
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """``clamp`` in place: gives this tensor the values of the result, and returns it."""
def clamp_max_(input: Tensor, max: Any) -> Tensor:
    """``clamp_max`` in place: gives this tensor the values of the result, and returns it."""
def clamp_min_(input: Tensor, min: Any) -> Tensor:
    """``clamp_min`` in place: gives this tensor the values of the result, and returns it."""
def clip_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """``clip`` in place: gives this tensor the values of the result, and returns it."""
def conj_physical_(input: Tensor) -> Tensor:
    """The tensor itself: there are no complex dtypes."""
def cos_(input: Tensor) -> Tensor:
    """``cos`` in place: gives this tensor the values of the result, and returns it."""
def cosh_(input: Tensor) -> Tensor:
    """``cosh`` in place: gives this tensor the values of the result, and returns it."""
def deg2rad_(input: Tensor) -> Tensor:
    """``deg2rad`` in place: gives this tensor the values of the result, and returns it."""
def detach_(input: Tensor) -> Tensor:
    """Takes the tensor out of the gradient graph: it is a leaf that requires no grad. RuntimeError for a view."""
def erf_(input: Tensor) -> Tensor:
    """``erf`` in place: gives this tensor the values of the result, and returns it."""
def erfc_(input: Tensor) -> Tensor:
    """``erfc`` in place: gives this tensor the values of the result, and returns it."""
def exp_(input: Tensor) -> Tensor:
    """``exp`` in place: gives this tensor the values of the result, and returns it."""
def exp2_(input: Tensor) -> Tensor:
    """``exp2`` in place: gives this tensor the values of the result, and returns it."""
def expm1_(input: Tensor) -> Tensor:
    """``expm1`` in place: gives this tensor the values of the result, and returns it."""
def fill_(input: Tensor, value: Any) -> Tensor:
    """Sets every element to ``value``."""
def fix_(input: Tensor) -> Tensor:
    """``fix`` in place: gives this tensor the values of the result, and returns it."""
def floor_(input: Tensor) -> Tensor:
    """``floor`` in place: gives this tensor the values of the result, and returns it."""
def frac_(input: Tensor) -> Tensor:
    """``frac`` in place: gives this tensor the values of the result, and returns it."""
def gcd_(input: Tensor, other: Any) -> Tensor:
    """``gcd`` in place: gives this tensor the values of the result, and returns it."""
def i0_(input: Tensor) -> Tensor:
    """``i0`` in place: gives this tensor the values of the result, and returns it."""
def index_put_(input: Tensor, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False) -> Tensor:
    """``index_put`` in place: gives this tensor the values of the result, and returns it."""
def lcm_(input: Tensor, other: Any) -> Tensor:
    """``lcm`` in place: gives this tensor the values of the result, and returns it."""
def ldexp_(input: Tensor, other: Any) -> Tensor:
    """``ldexp`` in place: gives this tensor the values of the result, and returns it."""
def log_(input: Tensor) -> Tensor:
    """``log`` in place: gives this tensor the values of the result, and returns it."""
def log10_(input: Tensor) -> Tensor:
    """``log10`` in place: gives this tensor the values of the result, and returns it."""
def log1p_(input: Tensor) -> Tensor:
    """``log1p`` in place: gives this tensor the values of the result, and returns it."""
def log2_(input: Tensor) -> Tensor:
    """``log2`` in place: gives this tensor the values of the result, and returns it."""
def logit_(input: Tensor, eps: Any = None) -> Tensor:
    """``logit`` in place: gives this tensor the values of the result, and returns it."""
def nan_to_num_(input: Tensor, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    """``nan_to_num`` in place: gives this tensor the values of the result, and returns it."""
def neg_(input: Tensor) -> Tensor:
    """``neg`` in place: gives this tensor the values of the result, and returns it."""
def negative_(input: Tensor) -> Tensor:
    """``negative`` in place: gives this tensor the values of the result, and returns it."""
def rad2deg_(input: Tensor) -> Tensor:
    """``rad2deg`` in place: gives this tensor the values of the result, and returns it."""
def reciprocal_(input: Tensor) -> Tensor:
    """``reciprocal`` in place: gives this tensor the values of the result, and returns it."""
def relu_(input: Tensor) -> Tensor:
    """``relu`` in place: gives this tensor the values of the result, and returns it."""
def round_(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    """``round`` in place: gives this tensor the values of the result, and returns it."""
def rsqrt_(input: Tensor) -> Tensor:
    """``rsqrt`` in place: gives this tensor the values of the result, and returns it."""
def sigmoid_(input: Tensor) -> Tensor:
    """``sigmoid`` in place: gives this tensor the values of the result, and returns it."""
def sin_(input: Tensor) -> Tensor:
    """``sin`` in place: gives this tensor the values of the result, and returns it."""
def sinc_(input: Tensor) -> Tensor:
    """``sinc`` in place: gives this tensor the values of the result, and returns it."""
def sinh_(input: Tensor) -> Tensor:
    """``sinh`` in place: gives this tensor the values of the result, and returns it."""
def sqrt_(input: Tensor) -> Tensor:
    """``sqrt`` in place: gives this tensor the values of the result, and returns it."""
def square_(input: Tensor) -> Tensor:
    """``square`` in place: gives this tensor the values of the result, and returns it."""
def tan_(input: Tensor) -> Tensor:
    """``tan`` in place: gives this tensor the values of the result, and returns it."""
def tanh_(input: Tensor) -> Tensor:
    """``tanh`` in place: gives this tensor the values of the result, and returns it."""
def trunc_(input: Tensor) -> Tensor:
    """``trunc`` in place: gives this tensor the values of the result, and returns it."""
def xlogy_(input: Tensor, b: Any) -> Tensor:
    """``xlogy`` in place: gives this tensor the values of the result, and returns it."""
def zero_(input: Tensor) -> Tensor:
    """Sets every element to zero."""
def alpha_dropout_(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False) -> Tensor:
    """``alpha_dropout`` in place: gives this tensor the values of the result, and returns it."""
def celu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """``celu`` in place: gives this tensor the values of the result, and returns it."""
def dropout_(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, seed: builtins.int | None = None, return_mask: builtins.bool = False) -> Tensor:
    """``dropout`` in place: gives this tensor the values of the result, and returns it."""
def feature_alpha_dropout_(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False) -> Tensor:
    """``feature_alpha_dropout`` in place: gives this tensor the values of the result, and returns it."""
def feature_dropout_(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """``feature_dropout`` in place: gives this tensor the values of the result, and returns it."""
def rrelu_(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False) -> Tensor:
    """``rrelu`` in place: gives this tensor the values of the result, and returns it."""
def selu_(input: Tensor) -> Tensor:
    """``selu`` in place: gives this tensor the values of the result, and returns it."""
def threshold_(input: Tensor, threshold: builtins.float = 0.1, value: builtins.float = 0.0) -> Tensor:
    """``threshold`` in place: gives this tensor the values of the result, and returns it."""
