"""Samples of classes of netcl-nn and the packages that belong to it."""

from __future__ import annotations

import numpy as np

import netcl as nc
from netcl import nn

nc.manual_seed(0)

# %% netcl.io.Budget
from netcl.io import Budget, load_safetensors, save_safetensors
save_safetensors({"x": nc.ones(3)}, "sample.safetensors")
list(load_safetensors("sample.safetensors", budget=Budget()))

# %% netcl.nn.AdaptiveAvgPool1d
layer = nn.AdaptiveAvgPool1d(2)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.AdaptiveAvgPool2d
layer = nn.AdaptiveAvgPool2d(2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.AdaptiveAvgPool3d
layer = nn.AdaptiveAvgPool3d(2)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.AdaptiveLogSoftmaxWithLoss
layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10])
layer(nc.randn(3, 8), nc.tensor([1, 7, 15])).output.shape

# %% netcl.nn.AdaptiveMaxPool1d
layer = nn.AdaptiveMaxPool1d(2)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.AdaptiveMaxPool2d
layer = nn.AdaptiveMaxPool2d(2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.AdaptiveMaxPool3d
layer = nn.AdaptiveMaxPool3d(2)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.AlphaDropout
layer = nn.AlphaDropout(0.5)
layer(nc.randn(2, 3)).shape

# %% netcl.nn.AvgPool1d
layer = nn.AvgPool1d(2)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.AvgPool2d
layer = nn.AvgPool2d(2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.AvgPool3d
layer = nn.AvgPool3d(2)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.BCELoss
nn.BCELoss()(nc.tensor([0.9, 0.2]), nc.tensor([1.0, 0.0]))

# %% netcl.nn.BCEWithLogitsLoss
nn.BCEWithLogitsLoss()(nc.tensor([2.0, -1.0]), nc.tensor([1.0, 0.0]))

# %% netcl.nn.BatchNorm1d
layer = nn.BatchNorm1d(3)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.BatchNorm2d
layer = nn.BatchNorm2d(3)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.BatchNorm3d
layer = nn.BatchNorm3d(3)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.Bilinear
nn.Bilinear(3, 4, 2)(nc.randn(5, 3), nc.randn(5, 4)).shape

# %% netcl.nn.Buffer
class Centered(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Buffer(nc.zeros(3))

list(Centered().state_dict())

# %% netcl.nn.BufferDict
buffers = nn.BufferDict({"mean": nc.zeros(2)})
list(buffers.keys())

# %% netcl.nn.CELU
nn.CELU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.CTCLoss
log_probs = nc.log_softmax(nc.randn(6, 1, 4), dim=2)
nn.CTCLoss()(log_probs, nc.tensor([[1, 2]]), nc.tensor([6]), nc.tensor([2]))

# %% netcl.nn.ChannelShuffle
layer = nn.ChannelShuffle(3)
layer(nc.randn(1, 6, 2, 2)).shape

# %% netcl.nn.CircularPad1d
layer = nn.CircularPad1d(1)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.CircularPad2d
layer = nn.CircularPad2d(1)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.CircularPad3d
layer = nn.CircularPad3d(1)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.Concat
model = nn.Concat(nn.Linear(4, 2), nn.Linear(4, 3))
model(nc.randn(5, 4)).shape

# %% netcl.nn.ConstantPad1d
layer = nn.ConstantPad1d(1, 0.5)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.ConstantPad2d
layer = nn.ConstantPad2d(1, 0.5)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.ConstantPad3d
layer = nn.ConstantPad3d(1, 0.5)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.ContrastiveLoss
nn.ContrastiveLoss()(nc.randn(2, 4), nc.randn(2, 4), nc.tensor([1.0, 0.0]))

# %% netcl.nn.Conv1d
layer = nn.Conv1d(3, 4, 3, padding=1)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.Conv2d
layer = nn.Conv2d(3, 4, 3, padding=1)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.Conv3d
layer = nn.Conv3d(3, 4, 3, padding=1)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.ConvTranspose1d
layer = nn.ConvTranspose1d(3, 4, 2, stride=2)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.ConvTranspose2d
layer = nn.ConvTranspose2d(3, 4, 2, stride=2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.ConvTranspose3d
layer = nn.ConvTranspose3d(3, 4, 2, stride=2)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.CosineEmbeddingLoss
nn.CosineEmbeddingLoss()(nc.randn(2, 4), nc.randn(2, 4), nc.tensor([1, -1]))

# %% netcl.nn.CosineSimilarity
nn.CosineSimilarity()(nc.tensor([[1.0, 0.0]]), nc.tensor([[1.0, 1.0]]))

# %% netcl.nn.CrossEntropyLoss
logits, classes = nc.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]]), nc.tensor([0, 1])
nn.CrossEntropyLoss()(logits, classes)

# %% netcl.nn.DepthwiseConv2d
layer = nn.DepthwiseConv2d(3, 3, padding=1)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.Dropout
layer = nn.Dropout(0.5)
layer(nc.randn(2, 6)).shape

# %% netcl.nn.Dropout1d
layer = nn.Dropout1d(0.5)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.Dropout2d
layer = nn.Dropout2d(0.5)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.Dropout3d
layer = nn.Dropout3d(0.5)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.ELU
nn.ELU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Embedding
nn.Embedding(10, 4)(nc.tensor([[1, 2, 3]])).shape

# %% netcl.nn.EmbeddingBag
nn.EmbeddingBag(10, 4)(nc.tensor([[1, 2], [3, 4]])).shape

# %% netcl.nn.FeatureAlphaDropout
layer = nn.FeatureAlphaDropout(0.5)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.Flatten
layer = nn.Flatten()
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.FocalLoss
nn.FocalLoss()(nc.tensor([2.0, -1.0]), nc.tensor([1.0, 0.0]))

# %% netcl.nn.Fold
layer = nn.Fold((4, 4), 2)
layer(nc.randn(1, 12, 9)).shape

# %% netcl.nn.FractionalMaxPool2d
layer = nn.FractionalMaxPool2d(2, output_size=2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.FractionalMaxPool3d
layer = nn.FractionalMaxPool3d(2, output_size=2)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.GELU
nn.GELU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.GLU
nn.GLU(dim=1)(nc.tensor([[1.0, 2.0, 0.0, 0.0]]))

# %% netcl.nn.GPT
model = nn.GPT(20, 16, n_layer=1, n_head=2, n_embd=8)
model(nc.tensor([[1, 2, 3]])).shape

# %% netcl.nn.GRU
layer = nn.GRU(4, 8, batch_first=True)
output, state = layer(nc.randn(2, 5, 4))
output.shape

# %% netcl.nn.GRUCell
nn.GRUCell(4, 8)(nc.randn(2, 4)).shape

# %% netcl.nn.GaussianNLLLoss
prediction, target = nc.tensor([[0.5], [2.0]]), nc.tensor([[1.0], [2.0]])
nn.GaussianNLLLoss()(prediction, target, nc.ones(2, 1))

# %% netcl.nn.GlobalAvgPool2d
layer = nn.GlobalAvgPool2d()
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.GroupNorm
layer = nn.GroupNorm(3, 6)
layer(nc.randn(2, 6, 4, 4)).shape

# %% netcl.nn.Hardshrink
nn.Hardshrink()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Hardsigmoid
nn.Hardsigmoid()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Hardswish
nn.Hardswish()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Hardtanh
nn.Hardtanh()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.HingeEmbeddingLoss
nn.HingeEmbeddingLoss()(nc.tensor([0.5, -1.0]), nc.tensor([1.0, -1.0]))

# %% netcl.nn.HingeLoss
nn.HingeLoss()(nc.tensor([0.5, -1.0]), nc.tensor([1.0, -1.0]))

# %% netcl.nn.HuberLoss
prediction, target = nc.tensor([[0.5], [2.0]]), nc.tensor([[1.0], [2.0]])
nn.HuberLoss()(prediction, target)

# %% netcl.nn.Identity
nn.Identity()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.IncompatibleKeys
report = nn.Linear(2, 2).load_state_dict({"weight": nc.ones(2, 2)}, strict=False)
report.missing_keys, report.unexpected_keys

# %% netcl.nn.InfoNCELoss
nn.InfoNCELoss()(nc.randn(4, 8), nc.randn(4, 8))

# %% netcl.nn.InstanceNorm1d
layer = nn.InstanceNorm1d(3)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.InstanceNorm2d
layer = nn.InstanceNorm2d(3)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.InstanceNorm3d
layer = nn.InstanceNorm3d(3)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.KLDivLoss
logits, classes = nc.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]]), nc.tensor([0, 1])
nn.KLDivLoss(reduction="batchmean")(nc.log_softmax(logits, dim=1), nc.full((2, 3), 1 / 3))

# %% netcl.nn.KeyValueCache
cache = nn.KeyValueCache(8)
keys, values = cache.extend(0, nc.ones(1, 2, 3, 4), nc.ones(1, 2, 3, 4))
cache.advance(3)
keys.shape, cache.used

# %% netcl.nn.L1Loss
prediction, target = nc.tensor([[0.5], [2.0]]), nc.tensor([[1.0], [2.0]])
nn.L1Loss()(prediction, target)

# %% netcl.nn.LPPool1d
layer = nn.LPPool1d(2, 2)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.LPPool2d
layer = nn.LPPool2d(2, 2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.LPPool3d
layer = nn.LPPool3d(2, 2)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.LSTM
layer = nn.LSTM(4, 8, batch_first=True)
output, state = layer(nc.randn(2, 5, 4))
output.shape

# %% netcl.nn.LSTMCell
h, c = nn.LSTMCell(4, 8)(nc.randn(2, 4))
h.shape

# %% netcl.nn.LayerNorm
layer = nn.LayerNorm(8)
layer(nc.randn(2, 8)).shape

# %% netcl.nn.LazyBatchNorm1d
layer = nn.LazyBatchNorm1d()
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.LazyBatchNorm2d
layer = nn.LazyBatchNorm2d()
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.LazyBatchNorm3d
layer = nn.LazyBatchNorm3d()
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.LazyConv1d
layer = nn.LazyConv1d(4, 3)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.LazyConv2d
layer = nn.LazyConv2d(4, 3)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.LazyConv3d
layer = nn.LazyConv3d(4, 3)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.LazyConvTranspose1d
layer = nn.LazyConvTranspose1d(4, 3)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.LazyConvTranspose2d
layer = nn.LazyConvTranspose2d(4, 3)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.LazyConvTranspose3d
layer = nn.LazyConvTranspose3d(4, 3)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.LazyInstanceNorm1d
layer = nn.LazyInstanceNorm1d()
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.LazyInstanceNorm2d
layer = nn.LazyInstanceNorm2d()
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.LazyInstanceNorm3d
layer = nn.LazyInstanceNorm3d()
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.LazyLinear
layer = nn.LazyLinear(5)
layer(nc.randn(2, 3)).shape

# %% netcl.nn.LeakyReLU
nn.LeakyReLU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Linear
layer = nn.Linear(4, 2)
layer(nc.randn(3, 4)).shape

# %% netcl.nn.LinearCrossEntropyLoss
nn.LinearCrossEntropyLoss(4, 10)(nc.randn(2, 4), nc.tensor([3, 7])).shape

# %% netcl.nn.LocalResponseNorm
layer = nn.LocalResponseNorm(2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.LogSigmoid
nn.LogSigmoid()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.LogSoftmax
nn.LogSoftmax(dim=1)(nc.tensor([[0.0, 1.0, 2.0]]))

# %% netcl.nn.MSELoss
prediction, target = nc.tensor([[0.5], [2.0]]), nc.tensor([[1.0], [2.0]])
nn.MSELoss()(prediction, target)

# %% netcl.nn.MarginRankingLoss
nn.MarginRankingLoss()(nc.tensor([0.5]), nc.tensor([1.0]), nc.tensor([1.0]))

# %% netcl.nn.MaxPool1d
layer = nn.MaxPool1d(2)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.MaxPool2d
layer = nn.MaxPool2d(2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.MaxPool3d
layer = nn.MaxPool3d(2)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.MaxUnpool1d
pool = nn.MaxPool1d(2, return_indices=True)
values, indices = pool(nc.randn(2, 3, 8))
nn.MaxUnpool1d(2)(values, indices).shape

# %% netcl.nn.MaxUnpool2d
pool = nn.MaxPool2d(2, return_indices=True)
values, indices = pool(nc.randn(2, 3, 8, 8))
nn.MaxUnpool2d(2)(values, indices).shape

# %% netcl.nn.MaxUnpool3d
pool = nn.MaxPool3d(2, return_indices=True)
values, indices = pool(nc.randn(2, 3, 4, 4, 4))
nn.MaxUnpool3d(2)(values, indices).shape

# %% netcl.nn.Mish
nn.Mish()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Module
class Double(nn.Module):
    def forward(self, x):
        return 2 * x

Double()(nc.tensor([1.0]))

# %% netcl.nn.ModuleDict
heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})
heads["b"](nc.randn(1, 4)).shape

# %% netcl.nn.ModuleList
layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
len(layers)

# %% netcl.nn.MultiLabelMarginLoss
nn.MultiLabelMarginLoss()(nc.tensor([[0.1, 0.2, 0.4, 0.8]]), nc.tensor([[3, 0, -1, 1]]))

# %% netcl.nn.MultiLabelSoftMarginLoss
nn.MultiLabelSoftMarginLoss()(nc.tensor([[0.5, -1.0]]), nc.tensor([[1.0, 0.0]]))

# %% netcl.nn.MultiMarginLoss
logits, classes = nc.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]]), nc.tensor([0, 1])
nn.MultiMarginLoss()(logits, classes)

# %% netcl.nn.MultiheadAttention
layer = nn.MultiheadAttention(8, 2, batch_first=True)
x = nc.randn(2, 5, 8)
output, weights = layer(x, x, x)
output.shape, weights.shape

# %% netcl.nn.NLLLoss
logits, classes = nc.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]]), nc.tensor([0, 1])
nn.NLLLoss()(nc.log_softmax(logits, dim=1), classes)

# %% netcl.nn.PReLU
nn.PReLU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.PairwiseDistance
nn.PairwiseDistance()(nc.tensor([[1.0, 0.0]]), nc.tensor([[1.0, 1.0]]))

# %% netcl.nn.ParameterDict
weights = nn.ParameterDict({"scale": nn.Parameter(nc.ones(2))})
list(weights.keys())

# %% netcl.nn.ParameterList
weights = nn.ParameterList([nn.Parameter(nc.ones(2)), nn.Parameter(nc.zeros(3))])
len(weights)

# %% netcl.nn.PixelShuffle
layer = nn.PixelShuffle(2)
layer(nc.randn(1, 4, 3, 3)).shape

# %% netcl.nn.PixelUnshuffle
layer = nn.PixelUnshuffle(2)
layer(nc.randn(1, 1, 4, 4)).shape

# %% netcl.nn.PoissonNLLLoss
prediction, target = nc.tensor([[0.5], [2.0]]), nc.tensor([[1.0], [2.0]])
nn.PoissonNLLLoss()(prediction, target)

# %% netcl.nn.RMSNorm
layer = nn.RMSNorm(8)
layer(nc.randn(2, 8)).shape

# %% netcl.nn.RNN
layer = nn.RNN(4, 8, batch_first=True)
output, state = layer(nc.randn(2, 5, 4))
output.shape

# %% netcl.nn.RNNBase
layer = nn.RNNBase("GRU", 4, 8, batch_first=True)
output, state = layer(nc.randn(2, 5, 4))
output.shape

# %% netcl.nn.RNNCell
nn.RNNCell(4, 8)(nc.randn(2, 4)).shape

# %% netcl.nn.RReLU
nn.RReLU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.ReLU
nn.ReLU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.ReLU6
nn.ReLU6()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.ReflectionPad1d
layer = nn.ReflectionPad1d(1)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.ReflectionPad2d
layer = nn.ReflectionPad2d(1)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.ReflectionPad3d
layer = nn.ReflectionPad3d(1)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.RemovableHandle
layer = nn.Linear(2, 2)
handle = layer.register_forward_hook(lambda module, args, output: print(output.shape))
layer(nc.ones(1, 2)).shape
handle.remove()

# %% netcl.nn.ReplicationPad1d
layer = nn.ReplicationPad1d(1)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.ReplicationPad2d
layer = nn.ReplicationPad2d(1)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.ReplicationPad3d
layer = nn.ReplicationPad3d(1)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.RotaryEmbedding
nn.RotaryEmbedding(8)(nc.randn(1, 2, 5, 8)).shape

# %% netcl.nn.SELU
nn.SELU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Sequential
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model(nc.randn(3, 4)).shape

# %% netcl.nn.SiLU
nn.SiLU()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Sigmoid
nn.Sigmoid()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.SmallVGG
layer = nn.SmallVGG()
layer(nc.randn(2, 3, 32, 32)).shape

# %% netcl.nn.SmoothL1Loss
prediction, target = nc.tensor([[0.5], [2.0]]), nc.tensor([[1.0], [2.0]])
nn.SmoothL1Loss()(prediction, target)

# %% netcl.nn.SoftMarginLoss
nn.SoftMarginLoss()(nc.tensor([0.5, -1.0]), nc.tensor([1.0, -1.0]))

# %% netcl.nn.Softmax
nn.Softmax(dim=1)(nc.tensor([[0.0, 1.0, 2.0]]))

# %% netcl.nn.Softmax2d
nn.Softmax2d()(nc.randn(1, 3, 2, 2)).sum(dim=1)

# %% netcl.nn.Softmin
nn.Softmin(dim=1)(nc.tensor([[0.0, 1.0, 2.0]]))

# %% netcl.nn.Softplus
nn.Softplus()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Softshrink
nn.Softshrink()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Softsign
nn.Softsign()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.SyncBatchNorm
layer = nn.SyncBatchNorm(3)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.Tanh
nn.Tanh()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Tanhshrink
nn.Tanhshrink()(nc.tensor([-2.0, -0.5, 0.0, 1.0]))

# %% netcl.nn.Threshold
nn.Threshold(0.5, -1.0)(nc.tensor([0.0, 1.0]))

# %% netcl.nn.Transformer
model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
model(nc.randn(2, 5, 8), nc.randn(2, 3, 8)).shape

# %% netcl.nn.TransformerDecoder
layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
nn.TransformerDecoder(layer, 2)(nc.randn(2, 5, 8), nc.randn(2, 3, 8)).shape

# %% netcl.nn.TransformerDecoderLayer
layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
layer(nc.randn(2, 5, 8), nc.randn(2, 3, 8)).shape

# %% netcl.nn.TransformerEncoder
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
nn.TransformerEncoder(layer, 2)(nc.randn(2, 5, 8)).shape

# %% netcl.nn.TransformerEncoderLayer
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
layer(nc.randn(2, 5, 8)).shape

# %% netcl.nn.TripletMarginLoss
nn.TripletMarginLoss()(nc.randn(2, 4), nc.randn(2, 4), nc.randn(2, 4))

# %% netcl.nn.TripletMarginWithDistanceLoss
nn.TripletMarginWithDistanceLoss()(nc.randn(2, 4), nc.randn(2, 4), nc.randn(2, 4))

# %% netcl.nn.Unflatten
layer = nn.Unflatten(1, (2, 3))
layer(nc.randn(4, 6)).shape

# %% netcl.nn.Unfold
layer = nn.Unfold(2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.UninitializedBuffer
buffer = nn.UninitializedBuffer()
buffer.materialize((2, 3))
buffer.shape

# %% netcl.nn.UninitializedParameter
nn.LazyLinear(3).weight

# %% netcl.nn.Upsample
layer = nn.Upsample(scale_factor=2, mode="nearest")
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.UpsamplingBilinear2d
layer = nn.UpsamplingBilinear2d(scale_factor=2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.UpsamplingNearest2d
layer = nn.UpsamplingNearest2d(scale_factor=2)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.VisionTransformer
model = nn.VisionTransformer(image_size=8, patch_size=4, num_classes=3, dim=8, depth=1, heads=2)
model(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.ZeroPad1d
layer = nn.ZeroPad1d(1)
layer(nc.randn(2, 3, 8)).shape

# %% netcl.nn.ZeroPad2d
layer = nn.ZeroPad2d(1)
layer(nc.randn(2, 3, 8, 8)).shape

# %% netcl.nn.ZeroPad3d
layer = nn.ZeroPad3d(1)
layer(nc.randn(2, 3, 4, 4, 4)).shape

# %% netcl.nn.resnet.BasicBlock
nn.resnet.BasicBlock(4, 4)(nc.randn(1, 4, 8, 8)).shape

# %% netcl.nn.resnet.Bottleneck
nn.resnet.Bottleneck(16, 4)(nc.randn(1, 16, 8, 8)).shape

# %% netcl.nn.resnet.ResNet
model = nn.resnet.ResNet(nn.resnet.BasicBlock, [1, 1, 1, 1], num_classes=3)
model(nc.randn(2, 3, 32, 32)).shape

# %% netcl.nn.simple.MLP
from netcl.nn.simple import MLP
MLP(4, 8, 2)(nc.randn(3, 4)).shape

# %% netcl.nn.simple.TableMLP
from netcl.nn.simple import TableMLP
TableMLP(4, 2, hidden=[16], embeddings=[(7, 2)])(nc.randn(3, 4), nc.tensor([[0], [6], [1]])).shape
