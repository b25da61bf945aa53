"""Layers, containers and losses with PyTorch's names, state and initial values; every layer calls netcl.autograd."""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-nn needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

with _Checked("nn"):
    from netcl.autograd import Parameter as Parameter
    from netcl.nn import embedding as _embedding
    from netcl.nn import functional as functional
    from netcl.nn import init as init
    from netcl.nn import resnet as resnet
    from netcl.nn import simple as simple
    from netcl.nn import utils as utils
    from netcl.nn.__about__ import __version__ as __version__
    from netcl.nn.activation import CELU as CELU
    from netcl.nn.activation import ELU as ELU
    from netcl.nn.activation import GELU as GELU
    from netcl.nn.activation import GLU as GLU
    from netcl.nn.activation import SELU as SELU
    from netcl.nn.activation import Hardshrink as Hardshrink
    from netcl.nn.activation import Hardsigmoid as Hardsigmoid
    from netcl.nn.activation import Hardswish as Hardswish
    from netcl.nn.activation import Hardtanh as Hardtanh
    from netcl.nn.activation import LeakyReLU as LeakyReLU
    from netcl.nn.activation import LogSigmoid as LogSigmoid
    from netcl.nn.activation import LogSoftmax as LogSoftmax
    from netcl.nn.activation import Mish as Mish
    from netcl.nn.activation import PReLU as PReLU
    from netcl.nn.activation import ReLU as ReLU
    from netcl.nn.activation import ReLU6 as ReLU6
    from netcl.nn.activation import Sigmoid as Sigmoid
    from netcl.nn.activation import SiLU as SiLU
    from netcl.nn.activation import Softmax as Softmax
    from netcl.nn.activation import Softmin as Softmin
    from netcl.nn.activation import Softplus as Softplus
    from netcl.nn.activation import Softshrink as Softshrink
    from netcl.nn.activation import Softsign as Softsign
    from netcl.nn.activation import Swish as Swish
    from netcl.nn.activation import Tanh as Tanh
    from netcl.nn.activation import Tanhshrink as Tanhshrink
    from netcl.nn.activation import Threshold as Threshold
    from netcl.nn.adaptive_softmax import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
    from netcl.nn.attention import MultiheadAttention as MultiheadAttention
    from netcl.nn.attention import RotaryEmbedding as RotaryEmbedding
    from netcl.nn.channels import ChannelShuffle as ChannelShuffle
    from netcl.nn.channels import FractionalMaxPool2d as FractionalMaxPool2d
    from netcl.nn.channels import FractionalMaxPool3d as FractionalMaxPool3d
    from netcl.nn.channels import LocalResponseNorm as LocalResponseNorm
    from netcl.nn.channels import LPPool1d as LPPool1d
    from netcl.nn.channels import LPPool2d as LPPool2d
    from netcl.nn.channels import LPPool3d as LPPool3d
    from netcl.nn.channels import RReLU as RReLU
    from netcl.nn.channels import Softmax2d as Softmax2d
    from netcl.nn.channels import UpsamplingBilinear2d as UpsamplingBilinear2d
    from netcl.nn.channels import UpsamplingNearest2d as UpsamplingNearest2d
    from netcl.nn.container import Concat as Concat
    from netcl.nn.container import ModuleDict as ModuleDict
    from netcl.nn.container import ModuleList as ModuleList
    from netcl.nn.container import Sequential as Sequential
    from netcl.nn.conv import Conv1d as Conv1d
    from netcl.nn.conv import Conv2d as Conv2d
    from netcl.nn.conv import Conv3d as Conv3d
    from netcl.nn.conv import ConvTranspose1d as ConvTranspose1d
    from netcl.nn.conv import ConvTranspose2d as ConvTranspose2d
    from netcl.nn.conv import ConvTranspose3d as ConvTranspose3d
    from netcl.nn.conv import DepthwiseConv2d as DepthwiseConv2d
    from netcl.nn.dropout import AlphaDropout as AlphaDropout
    from netcl.nn.dropout import Dropout as Dropout
    from netcl.nn.dropout import Dropout1d as Dropout1d
    from netcl.nn.dropout import Dropout2d as Dropout2d
    from netcl.nn.dropout import Dropout3d as Dropout3d
    from netcl.nn.dropout import FeatureAlphaDropout as FeatureAlphaDropout
    from netcl.nn.embedding import Embedding as Embedding
    from netcl.nn.embedding import EmbeddingBag as EmbeddingBag
    from netcl.nn.gpt import GPT as GPT
    from netcl.nn.gpt import KeyValueCache as KeyValueCache
    from netcl.nn.hooks import RemovableHandle as RemovableHandle
    from netcl.nn.lazy import LazyBatchNorm1d as LazyBatchNorm1d
    from netcl.nn.lazy import LazyBatchNorm2d as LazyBatchNorm2d
    from netcl.nn.lazy import LazyBatchNorm3d as LazyBatchNorm3d
    from netcl.nn.lazy import LazyConv1d as LazyConv1d
    from netcl.nn.lazy import LazyConv2d as LazyConv2d
    from netcl.nn.lazy import LazyConv3d as LazyConv3d
    from netcl.nn.lazy import LazyConvTranspose1d as LazyConvTranspose1d
    from netcl.nn.lazy import LazyConvTranspose2d as LazyConvTranspose2d
    from netcl.nn.lazy import LazyConvTranspose3d as LazyConvTranspose3d
    from netcl.nn.lazy import LazyInstanceNorm1d as LazyInstanceNorm1d
    from netcl.nn.lazy import LazyInstanceNorm2d as LazyInstanceNorm2d
    from netcl.nn.lazy import LazyInstanceNorm3d as LazyInstanceNorm3d
    from netcl.nn.lazy import LazyLinear as LazyLinear
    from netcl.nn.lazy import UninitializedBuffer as UninitializedBuffer
    from netcl.nn.lazy import UninitializedParameter as UninitializedParameter
    from netcl.nn.linear import Bilinear as Bilinear
    from netcl.nn.linear import CosineSimilarity as CosineSimilarity
    from netcl.nn.linear import Flatten as Flatten
    from netcl.nn.linear import Identity as Identity
    from netcl.nn.linear import Linear as Linear
    from netcl.nn.linear import PairwiseDistance as PairwiseDistance
    from netcl.nn.linear import Unflatten as Unflatten
    from netcl.nn.lists import BufferDict as BufferDict
    from netcl.nn.lists import ParameterDict as ParameterDict
    from netcl.nn.lists import ParameterList as ParameterList
    from netcl.nn.losses import BCELoss as BCELoss
    from netcl.nn.losses import BCEWithLogitsLoss as BCEWithLogitsLoss
    from netcl.nn.losses import ContrastiveLoss as ContrastiveLoss
    from netcl.nn.losses import CosineEmbeddingLoss as CosineEmbeddingLoss
    from netcl.nn.losses import CrossEntropyLoss as CrossEntropyLoss
    from netcl.nn.losses import CTCLoss as CTCLoss
    from netcl.nn.losses import FocalLoss as FocalLoss
    from netcl.nn.losses import GaussianNLLLoss as GaussianNLLLoss
    from netcl.nn.losses import HingeEmbeddingLoss as HingeEmbeddingLoss
    from netcl.nn.losses import HingeLoss as HingeLoss
    from netcl.nn.losses import HuberLoss as HuberLoss
    from netcl.nn.losses import InfoNCELoss as InfoNCELoss
    from netcl.nn.losses import KLDivLoss as KLDivLoss
    from netcl.nn.losses import L1Loss as L1Loss
    from netcl.nn.losses import LinearCrossEntropyLoss as LinearCrossEntropyLoss
    from netcl.nn.losses import MarginRankingLoss as MarginRankingLoss
    from netcl.nn.losses import MSELoss as MSELoss
    from netcl.nn.losses import MultiLabelMarginLoss as MultiLabelMarginLoss
    from netcl.nn.losses import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
    from netcl.nn.losses import MultiMarginLoss as MultiMarginLoss
    from netcl.nn.losses import NLLLoss as NLLLoss
    from netcl.nn.losses import PoissonNLLLoss as PoissonNLLLoss
    from netcl.nn.losses import SmoothL1Loss as SmoothL1Loss
    from netcl.nn.losses import SoftMarginLoss as SoftMarginLoss
    from netcl.nn.losses import TripletMarginLoss as TripletMarginLoss
    from netcl.nn.losses import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
    from netcl.nn.module import Module as Module
    from netcl.nn.norm import BatchNorm1d as BatchNorm1d
    from netcl.nn.norm import BatchNorm2d as BatchNorm2d
    from netcl.nn.norm import BatchNorm3d as BatchNorm3d
    from netcl.nn.norm import GroupNorm as GroupNorm
    from netcl.nn.norm import InstanceNorm1d as InstanceNorm1d
    from netcl.nn.norm import InstanceNorm2d as InstanceNorm2d
    from netcl.nn.norm import InstanceNorm3d as InstanceNorm3d
    from netcl.nn.norm import LayerNorm as LayerNorm
    from netcl.nn.norm import RMSNorm as RMSNorm
    from netcl.nn.norm import SyncBatchNorm as SyncBatchNorm
    from netcl.nn.placement import Buffer as Buffer
    from netcl.nn.pool import AdaptiveAvgPool1d as AdaptiveAvgPool1d
    from netcl.nn.pool import AdaptiveAvgPool2d as AdaptiveAvgPool2d
    from netcl.nn.pool import AdaptiveAvgPool3d as AdaptiveAvgPool3d
    from netcl.nn.pool import AdaptiveMaxPool1d as AdaptiveMaxPool1d
    from netcl.nn.pool import AdaptiveMaxPool2d as AdaptiveMaxPool2d
    from netcl.nn.pool import AdaptiveMaxPool3d as AdaptiveMaxPool3d
    from netcl.nn.pool import AvgPool1d as AvgPool1d
    from netcl.nn.pool import AvgPool2d as AvgPool2d
    from netcl.nn.pool import AvgPool3d as AvgPool3d
    from netcl.nn.pool import CircularPad1d as CircularPad1d
    from netcl.nn.pool import CircularPad2d as CircularPad2d
    from netcl.nn.pool import CircularPad3d as CircularPad3d
    from netcl.nn.pool import ConstantPad1d as ConstantPad1d
    from netcl.nn.pool import ConstantPad2d as ConstantPad2d
    from netcl.nn.pool import ConstantPad3d as ConstantPad3d
    from netcl.nn.pool import Fold as Fold
    from netcl.nn.pool import GlobalAvgPool2d as GlobalAvgPool2d
    from netcl.nn.pool import MaxPool1d as MaxPool1d
    from netcl.nn.pool import MaxPool2d as MaxPool2d
    from netcl.nn.pool import MaxPool3d as MaxPool3d
    from netcl.nn.pool import MaxUnpool1d as MaxUnpool1d
    from netcl.nn.pool import MaxUnpool2d as MaxUnpool2d
    from netcl.nn.pool import MaxUnpool3d as MaxUnpool3d
    from netcl.nn.pool import PixelShuffle as PixelShuffle
    from netcl.nn.pool import PixelUnshuffle as PixelUnshuffle
    from netcl.nn.pool import ReflectionPad1d as ReflectionPad1d
    from netcl.nn.pool import ReflectionPad2d as ReflectionPad2d
    from netcl.nn.pool import ReflectionPad3d as ReflectionPad3d
    from netcl.nn.pool import ReplicationPad1d as ReplicationPad1d
    from netcl.nn.pool import ReplicationPad2d as ReplicationPad2d
    from netcl.nn.pool import ReplicationPad3d as ReplicationPad3d
    from netcl.nn.pool import Unfold as Unfold
    from netcl.nn.pool import Upsample as Upsample
    from netcl.nn.pool import ZeroPad1d as ZeroPad1d
    from netcl.nn.pool import ZeroPad2d as ZeroPad2d
    from netcl.nn.pool import ZeroPad3d as ZeroPad3d
    from netcl.nn.recurrent import GRU as GRU
    from netcl.nn.recurrent import LSTM as LSTM
    from netcl.nn.recurrent import RNN as RNN
    from netcl.nn.recurrent import GRUCell as GRUCell
    from netcl.nn.recurrent import LSTMCell as LSTMCell
    from netcl.nn.recurrent import RNNBase as RNNBase
    from netcl.nn.recurrent import RNNCell as RNNCell
    from netcl.nn.registry import UnknownModuleError as UnknownModuleError
    from netcl.nn.registry import build_sequential as build_sequential
    from netcl.nn.registry import register as register
    from netcl.nn.reparameterize import remove_spectral_norm as remove_spectral_norm
    from netcl.nn.reparameterize import remove_weight_norm as remove_weight_norm
    from netcl.nn.reparameterize import spectral_norm as spectral_norm
    from netcl.nn.reparameterize import weight_norm as weight_norm
    from netcl.nn.state import IncompatibleKeys as IncompatibleKeys
    from netcl.nn.state import StateError as StateError
    from netcl.nn.transformer import Transformer as Transformer
    from netcl.nn.transformer import TransformerDecoder as TransformerDecoder
    from netcl.nn.transformer import TransformerDecoderLayer as TransformerDecoderLayer
    from netcl.nn.transformer import TransformerEncoder as TransformerEncoder
    from netcl.nn.transformer import TransformerEncoderLayer as TransformerEncoderLayer
    from netcl.nn.vision import SmallVGG as SmallVGG
    from netcl.nn.vision import VisionTransformer as VisionTransformer

# The classes and functions above, and the modules of them.
_MODULES = ("functional", "init", "resnet", "simple", "utils")
__all__ = [
    "__version__",
    *_MODULES,
    *(
        name
        for name, value in globals().items()
        if getattr(value, "__module__", "").startswith("netcl.") and not name.startswith("_")
    ),
]


def _register_layers() -> None:
    """Registers every layer so that it can be saved; containers and models register themselves with a config
    function.
    """
    names = ("container", "resnet", "simple", "module", "transformer", "vision", "gpt")
    apart = tuple(f"netcl.nn.{name}" for name in (*names, "lazy", "lists", "adaptive_softmax"))
    for layer in list(globals().values()):
        if isinstance(layer, type) and issubclass(layer, Module) and layer.__module__ not in apart:
            register(layer)
    register(Identity, lambda module: {})  # its arguments mean nothing
    for table in (Embedding, EmbeddingBag):
        register(table, _embedding.config_of)


_register_layers()


if not TYPE_CHECKING:  # it would declare every name

    def __getattr__(name):
        quantized = name in ("intrinsic", "qat", "quantizable", "quantized")
        why = ": there are no quantized dtypes" if quantized else ""
        text = f"module 'netcl.nn' of netcl-nn {__version__} has no attribute {name!r}{why}"
        raise AttributeError(text, name=name, obj=_sys.modules[__name__])  # Python suggests a name of the module


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
