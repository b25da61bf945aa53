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
    from netcl.autograd import Parameter
    from netcl.nn import embedding as _embedding
    from netcl.nn import functional, init, resnet, simple, utils
    from netcl.nn.__about__ import __version__
    from netcl.nn.activation import (
        CELU,
        ELU,
        GELU,
        GLU,
        SELU,
        Hardshrink,
        Hardsigmoid,
        Hardswish,
        Hardtanh,
        LeakyReLU,
        LogSigmoid,
        LogSoftmax,
        Mish,
        PReLU,
        ReLU,
        ReLU6,
        Sigmoid,
        SiLU,
        Softmax,
        Softmin,
        Softplus,
        Softshrink,
        Softsign,
        Swish,
        Tanh,
        Tanhshrink,
        Threshold,
    )
    from netcl.nn.adaptive_softmax import (
        AdaptiveLogSoftmaxWithLoss,
    )
    from netcl.nn.attention import (
        MultiheadAttention,
        RotaryEmbedding,
    )
    from netcl.nn.channels import (
        ChannelShuffle,
        FractionalMaxPool2d,
        FractionalMaxPool3d,
        LocalResponseNorm,
        LPPool1d,
        LPPool2d,
        LPPool3d,
        RReLU,
        Softmax2d,
        UpsamplingBilinear2d,
        UpsamplingNearest2d,
    )
    from netcl.nn.container import (
        Concat,
        ModuleDict,
        ModuleList,
        Sequential,
    )
    from netcl.nn.conv import (
        Conv1d,
        Conv2d,
        Conv3d,
        ConvTranspose1d,
        ConvTranspose2d,
        ConvTranspose3d,
        DepthwiseConv2d,
    )
    from netcl.nn.dropout import (
        AlphaDropout,
        Dropout,
        Dropout1d,
        Dropout2d,
        Dropout3d,
        FeatureAlphaDropout,
    )
    from netcl.nn.embedding import (
        Embedding,
        EmbeddingBag,
    )
    from netcl.nn.gpt import (
        GPT,
        KeyValueCache,
    )
    from netcl.nn.hooks import (
        RemovableHandle,
    )
    from netcl.nn.lazy import (
        LazyBatchNorm1d,
        LazyBatchNorm2d,
        LazyBatchNorm3d,
        LazyConv1d,
        LazyConv2d,
        LazyConv3d,
        LazyConvTranspose1d,
        LazyConvTranspose2d,
        LazyConvTranspose3d,
        LazyInstanceNorm1d,
        LazyInstanceNorm2d,
        LazyInstanceNorm3d,
        LazyLinear,
        UninitializedBuffer,
        UninitializedParameter,
    )
    from netcl.nn.linear import (
        Bilinear,
        CosineSimilarity,
        Flatten,
        Identity,
        Linear,
        PairwiseDistance,
        Unflatten,
    )
    from netcl.nn.lists import (
        BufferDict,
        ParameterDict,
        ParameterList,
    )
    from netcl.nn.losses import (
        BCELoss,
        BCEWithLogitsLoss,
        ContrastiveLoss,
        CosineEmbeddingLoss,
        CrossEntropyLoss,
        CTCLoss,
        FocalLoss,
        GaussianNLLLoss,
        HingeEmbeddingLoss,
        HingeLoss,
        HuberLoss,
        InfoNCELoss,
        KLDivLoss,
        L1Loss,
        LinearCrossEntropyLoss,
        MarginRankingLoss,
        MSELoss,
        MultiLabelMarginLoss,
        MultiLabelSoftMarginLoss,
        MultiMarginLoss,
        NLLLoss,
        PoissonNLLLoss,
        SmoothL1Loss,
        SoftMarginLoss,
        TripletMarginLoss,
        TripletMarginWithDistanceLoss,
    )
    from netcl.nn.module import (
        Module,
    )
    from netcl.nn.norm import (
        BatchNorm1d,
        BatchNorm2d,
        BatchNorm3d,
        GroupNorm,
        InstanceNorm1d,
        InstanceNorm2d,
        InstanceNorm3d,
        LayerNorm,
        RMSNorm,
        SyncBatchNorm,
    )
    from netcl.nn.placement import (
        Buffer,
    )
    from netcl.nn.pool import (
        AdaptiveAvgPool1d,
        AdaptiveAvgPool2d,
        AdaptiveAvgPool3d,
        AdaptiveMaxPool1d,
        AdaptiveMaxPool2d,
        AdaptiveMaxPool3d,
        AvgPool1d,
        AvgPool2d,
        AvgPool3d,
        CircularPad1d,
        CircularPad2d,
        CircularPad3d,
        ConstantPad1d,
        ConstantPad2d,
        ConstantPad3d,
        Fold,
        GlobalAvgPool2d,
        MaxPool1d,
        MaxPool2d,
        MaxPool3d,
        MaxUnpool1d,
        MaxUnpool2d,
        MaxUnpool3d,
        PixelShuffle,
        PixelUnshuffle,
        ReflectionPad1d,
        ReflectionPad2d,
        ReflectionPad3d,
        ReplicationPad1d,
        ReplicationPad2d,
        ReplicationPad3d,
        Unfold,
        Upsample,
        ZeroPad1d,
        ZeroPad2d,
        ZeroPad3d,
    )
    from netcl.nn.recurrent import (
        GRU,
        LSTM,
        RNN,
        GRUCell,
        LSTMCell,
        RNNBase,
        RNNCell,
    )
    from netcl.nn.registry import (
        UnknownModuleError,
        build_sequential,
        register,
    )
    from netcl.nn.reparameterize import (
        remove_spectral_norm,
        remove_weight_norm,
        spectral_norm,
        weight_norm,
    )
    from netcl.nn.state import (
        IncompatibleKeys,
        StateError,
    )
    from netcl.nn.transformer import (
        Transformer,
        TransformerDecoder,
        TransformerDecoderLayer,
        TransformerEncoder,
        TransformerEncoderLayer,
    )
    from netcl.nn.vision import (
        SmallVGG,
        VisionTransformer,
    )

__all__ = [
    "AdaptiveLogSoftmaxWithLoss",
    "ChannelShuffle",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LocalResponseNorm",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "RReLU",
    "Softmax2d",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "UninitializedBuffer",
    "UninitializedParameter",
    "BufferDict",
    "ParameterDict",
    "ParameterList",
    "Buffer",
    "TripletMarginWithDistanceLoss",
    "SyncBatchNorm",
    "AlphaDropout",
    "FeatureAlphaDropout",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "utils",
    "EmbeddingBag",
    "weight_norm",
    "spectral_norm",
    "remove_weight_norm",
    "remove_spectral_norm",
    "PixelUnshuffle",
    "MaxUnpool3d",
    "MaxUnpool2d",
    "MaxUnpool1d",
    "CTCLoss",
    "Tanhshrink",
    "Softshrink",
    "Softmin",
    "Hardshrink",
    "VisionTransformer",
    "SmallVGG",
    "KeyValueCache",
    "GPT",
    "TransformerEncoderLayer",
    "TransformerEncoder",
    "TransformerDecoderLayer",
    "TransformerDecoder",
    "Transformer",
    "RotaryEmbedding",
    "MultiheadAttention",
    "RNNBase",
    "RNNCell",
    "LSTMCell",
    "GRUCell",
    "RNN",
    "LSTM",
    "GRU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "MarginRankingLoss",
    "HingeEmbeddingLoss",
    "PoissonNLLLoss",
    "GaussianNLLLoss",
    "SoftMarginLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "Fold",
    "Unfold",
    "PairwiseDistance",
    "CosineSimilarity",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CELU",
    "Concat",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ContrastiveLoss",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "DepthwiseConv2d",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "ELU",
    "Embedding",
    "Flatten",
    "FocalLoss",
    "GELU",
    "GLU",
    "GlobalAvgPool2d",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeLoss",
    "HuberLoss",
    "Identity",
    "IncompatibleKeys",
    "InfoNCELoss",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LinearCrossEntropyLoss",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiMarginLoss",
    "NLLLoss",
    "PReLU",
    "Parameter",
    "PixelShuffle",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "RemovableHandle",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "SELU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Softsign",
    "StateError",
    "Swish",
    "Tanh",
    "Threshold",
    "TripletMarginLoss",
    "Unflatten",
    "UnknownModuleError",
    "Upsample",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "__version__",
    "build_sequential",
    "functional",
    "init",
    "resnet",
    "simple",
    "register",
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
        text = f"module 'netcl.nn' of netcl-nn {__version__} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=_sys.modules[__name__])  # Python suggests a name of the module


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
