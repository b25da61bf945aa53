"""A sample of each op; tools/docs_site/op_samples.py adds samples of new ops."""

from __future__ import annotations

import numpy as np

import netcl as nc
import netcl.autograd as ag

nc.manual_seed(0)

# %% abs
x = nc.tensor([-1.84, -1.93, 1.25])
nc.abs(x)

# %% absolute_error
x = nc.tensor([[1.71, 1.87, -1.94], [1.45, 1.92, 1.83], [-1.4, 1.89, 1.56], [1.29, -0.08, -1.07]])
target = nc.tensor([[1.21], [1.69], [-0.94], [0.16]])
ag.absolute_error(x, target)

# %% acos
x = nc.tensor([-0.83, -0.87, 0.56])
nc.acos(x)

# %% acosh
x = nc.tensor([2.98, 1.96, 1.31])
nc.acosh(x)

# %% adaptive_avg_pool
x = nc.tensor([[[0.18, 1.27, 0.55], [-0.55, -1.27, -0.91]], [[1.64, -2.0, -0.18], [0.91, -1.64, 2.0]]])
ag.adaptive_avg_pool(x, output_size=5)

# %% adaptive_avg_pool1d
x = nc.tensor([[[0.18, 1.27, 0.55], [-0.55, -1.27, -0.91]], [[1.64, -2.0, -0.18], [0.91, -1.64, 2.0]]])
nc.adaptive_avg_pool1d(x, output_size=5)

# %% adaptive_avg_pool2d
nc.adaptive_avg_pool2d(nc.randn(1, 2, 7, 5), output_size=(3, 2))

# %% adaptive_avg_pool3d
x = nc.tensor([[[[[2.0, 0.59, 0.35], [-1.76, -0.35, -0.12], [1.29, -0.59, 1.76]], [[-2.0, -1.29, 0.82], [-0.82, 1.06, 0.12], [1.53, -1.53, -1.06]]]]])
nc.adaptive_avg_pool3d(x, output_size=1)

# %% adaptive_avg_pool_grad
grad_output = nc.tensor([[[[[-0.1], [0.59]], [[-0.54], [-0.9]]]]])
ag.adaptive_avg_pool_grad(grad_output, shape=(1, 1, 3, 2, 3))

# %% adaptive_max_pool
x = nc.tensor([[[0.18, 1.27, 0.55], [-0.55, -1.27, -0.91]], [[1.64, -2.0, -0.18], [0.91, -1.64, 2.0]]])
result = ag.adaptive_max_pool(x, output_size=5)
[part.shape for part in result]

# %% adaptive_max_pool1d
x = nc.tensor([[[0.18, 1.27, 0.55], [-0.55, -1.27, -0.91]], [[1.64, -2.0, -0.18], [0.91, -1.64, 2.0]]])
nc.adaptive_max_pool1d(x, output_size=5)

# %% adaptive_max_pool2d
nc.adaptive_max_pool2d(nc.randn(1, 2, 7, 5), output_size=(3, 2))

# %% adaptive_max_pool3d
x = nc.tensor([[[[[2.0, 0.59, 0.35], [-1.76, -0.35, -0.12], [1.29, -0.59, 1.76]], [[-2.0, -1.29, 0.82], [-0.82, 1.06, 0.12], [1.53, -1.53, -1.06]]]]])
nc.adaptive_max_pool3d(x, output_size=1)

# %% adaptive_max_pool_grad
grad_output = nc.tensor([[[0.75, -0.88, -0.33], [-0.7, -0.1, 0.59]]])
indices = nc.tensor([[[0, 3, 4], [1, 3, 5]]], dtype="int32")
ag.adaptive_max_pool_grad(grad_output, indices, shape=(1, 2, 7))

# %% add
a = nc.tensor([1.25, 1.65, 0.43])
b = nc.tensor([-1.99, 1.43, -1.87])
nc.add(a, b)

# %% add_at
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
source = nc.tensor([[-1.3, 1.45, 0.17], [-0.8, -0.31, -1.89], [-1.5, 0.68, 0.59], [0.46, -0.47, 1.99]])
ag.add_at(x, nc.tensor([4, 0, 0, -1]), source, axis=0)

# %% add_relu
a = nc.tensor([[0.67, 0.34, 0.14, 0.11], [0.83, 0.92, 0.65, 0.76], [0.59, 0.94, 0.83, 0.1]])
b = nc.tensor([-1.31, -1.97, -1.42, -1.86])
ag.add_relu(a, b)

# %% addcdiv
x = nc.tensor([[1.46], [0.9], [0.56]])
tensor1 = nc.tensor([0.52, 1.72, 1.87, 1.41, 1.59])
tensor2 = nc.tensor([[1.32, 1.9, 1.72, 0.5, 1.79], [0.55, 1.59, 0.76, 1.79, 1.31], [0.95, 1.13, 0.54, 0.69, 1.51]])
nc.addcdiv(x, tensor1, tensor2, value=-0.5)

# %% addcmul
x = nc.tensor([[0.55], [-0.92], [-1.84]])
tensor1 = nc.tensor([-1.93, 1.25, 1.65, 0.43, 0.92])
tensor2 = nc.tensor([[0.17, 1.74, 1.26, -1.99, 1.43], [-1.87, 0.92, -1.3, 1.45, 0.17], [-0.8, -0.31, -1.89, -1.5, 0.68]])
nc.addcmul(x, tensor1, tensor2, value=-0.5)

# %% added_product
a = nc.tensor([0.55, -0.92, -1.84])
b = nc.tensor([-1.49, -1.71, -1.72])
c = nc.tensor([1.89, 0.68, 0.12])
ag.added_product(a, b, c)

# %% added_quotient
a = nc.tensor([0.55, -0.92, -1.84])
b = nc.tensor([-1.49, -1.71, -1.72])
c = nc.tensor([1.96, 1.51, 1.3])
ag.added_quotient(a, b, c)

# %% addmm
x = nc.tensor([[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]])
a = nc.tensor([[0.71, -0.93, 0.46, -0.65, 0.73], [0.08, -0.4, -0.15, -0.94, -0.75], [0.34, 0.29, 0.23, -0.23, 0.99]])
b = nc.tensor([[0.96, 0.37, 0.3, 0.38], [-0.22, -0.73, 0.44, 0.05], [-0.38, -0.03, 0.78, 0.87], [-0.28, 0.14, -0.36, 0.19], [-0.32, -0.22, 0.78, -0.55]])
nc.addmm(x, a, b, beta=0.5, alpha=-2.0)

# %% affine_grid
theta = nc.tensor([[[0.71, -0.93, 0.46], [-0.65, 0.73, 0.08]]])
nc.affine_grid(theta, size=(1, 1, 3, 1), align_corners=True)

# %% airy_ai
nc.special.airy_ai(nc.tensor([0.5, 1.0, 2.0]))

# %% all
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.all(x, axis=None)

# %% alpha_dropout
x = nc.tensor([[[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]], [[0.71, -0.93, 0.46, -0.65], [0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29]]])
result = nc.alpha_dropout(x, p=0.5, training=False)
result.shape

# %% alpha_dropout_apply
x = nc.tensor([0.27, -0.46, -0.92])
mask = nc.tensor([False, True, True])
ag.alpha_dropout_apply(x, mask, scale=1.25, shift=0.5, low=-0.75)

# %% amax
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.amax(x, axis=None)

# %% amin
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.amin(x, axis=None)

# %% any
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.any(x, axis=None)

# %% argmax
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.argmax(x, axis=None)

# %% argmax_along
x = nc.tensor([1.27, -0.63, 0.63, 1.9, -1.27, -1.9, 0.0])
ag.argmax_along(x, axis=0)

# %% argmin
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.argmin(x, axis=None)

# %% argmin_along
x = nc.tensor([1.27, -0.63, 0.63, 1.9, -1.27, -1.9, 0.0])
ag.argmin_along(x, axis=0)

# %% argsort
x = nc.tensor([[1.0], [-1.0], [0.0], [-2.0], [2.0]])
nc.argsort(x, axis=-1)

# %% as_strided
x = nc.tensor([[-1.5, 0.68, 0.59], [0.46, -0.47, 1.99]])
nc.as_strided(x, (2, 2), (1, 3))

# %% asin
x = nc.tensor([-0.83, -0.87, 0.56])
nc.asin(x)

# %% asinh
x = nc.tensor([0.55, -0.92, -1.84])
nc.asinh(x)

# %% atan
x = nc.tensor([-1.84, -1.93, 1.25])
nc.atan(x)

# %% atan2
a = nc.tensor([2.48, 2.76, 1.9])
b = nc.tensor([0.21, 2.6, 0.29])
nc.atan2(a, b)

# %% atanh
x = nc.tensor([0.25, -0.41, -0.83])
nc.atanh(x)

# %% atleast_1d
x = nc.tensor([[-0.92, -1.84, -1.93], [1.25, 1.65, 0.43]])
nc.atleast_1d(x)

# %% atleast_2d
x = nc.tensor([-0.92, -1.84, -1.93])
nc.atleast_2d(x)

# %% atleast_3d
x = nc.tensor([-0.92, -1.84, -1.93])
nc.atleast_3d(x)

# %% attention_weights
scores = nc.tensor([[0.01, 1.01, 1.66, -0.1, 1.46], [0.81, -0.82, 1.07, 0.28, -1.62], [-0.43, -1.71, -0.1, -0.29, -0.31], [0.35, -1.51, 1.74, 0.74, 1.3]])
mask = nc.tensor([0.79, 0.17, -0.92, 0.42, 0.14])
ag.attention_weights(scores, mask, causal=True)

# %% avg_pool
x = nc.tensor([[[-0.29, 1.43, 0.29, 2.0], [-2.0, 0.86, -0.86, -1.43]]])
ag.avg_pool(x, divisor_override=3, kernel_size=2, padding=1)

# %% avg_pool1d
x = nc.tensor([[[-0.29, 1.43, 0.29, 2.0], [-2.0, 0.86, -0.86, -1.43]]])
nc.avg_pool1d(x, divisor_override=3, kernel_size=2, padding=1)

# %% avg_pool2d
x = nc.tensor([[[[0.19, 0.97, -0.58, 0.06], [-1.74, -1.48, -0.84, -0.71], [-0.06, 1.1, -2.0, -1.1], [-1.87, -0.32, 1.61, 0.58]], [[0.45, 1.74, -1.61, -1.23], [0.71, 1.48, 0.84, -0.45], [-0.19, -1.35, 1.23, 1.35], [2.0, -0.97, 0.32, 1.87]]]])
nc.avg_pool2d(x, divisor_override=3, kernel_size=2, padding=1)

# %% avg_pool3d
result = nc.avg_pool3d(nc.randn(1, 1, 4, 4, 5), kernel_size=(1, 2, 3), stride=1)
result.shape

# %% avg_pool_grad
grad_output = nc.tensor([[[0.27, -0.46, -0.92]]])
ag.avg_pool_grad(grad_output, shape=(1, 1, 5), kernel_size=3, stride=2, padding=1)

# %% baddbmm
x = nc.tensor([[[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]], [[0.71, -0.93, 0.46, -0.65], [0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29]]])
a = nc.tensor([[[0.23, -0.23, 0.99, 0.96, 0.37], [0.3, 0.38, -0.22, -0.73, 0.44], [0.05, -0.38, -0.03, 0.78, 0.87]], [[-0.28, 0.14, -0.36, 0.19, -0.32], [-0.22, 0.78, -0.55, 0.25, -0.83], [0.67, 0.57, -0.52, 0.75, -0.88]]])
result = nc.baddbmm(x, a, nc.randn(2, 5, 4), beta=0.5, alpha=-2.0)
result.shape

# %% bartlett_window
nc.bartlett_window(8)

# %% batch_all_triplet_loss
x = nc.tensor([[0.13, -0.13, 0.64], [0.1, -0.54, 0.36], [1.3, 0.95, -0.7], [-1.27, -0.62, 0.04], [-2.33, -0.22, -1.25], [-0.73, -0.54, -0.32], [0.41, 1.04, -0.13]])
labels = nc.tensor([0, 1, 0, 2, 1, 0, 3])
ag.batch_all_triplet_loss(x, labels)

# %% batch_hard_triplet_loss
x = nc.tensor([[0.13, -0.13, 0.64], [0.1, -0.54, 0.36], [1.3, 0.95, -0.7], [-1.27, -0.62, 0.04], [-2.33, -0.22, -1.25], [-0.73, -0.54, -0.32], [0.41, 1.04, -0.13]])
labels = nc.tensor([0, 1, 0, 2, 1, 0, 3])
ag.batch_hard_triplet_loss(x, labels)

# %% batch_norm
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99]])
weight = nc.tensor([1.42, 1.08, 2.0])
bias = nc.tensor([0.96, 0.37, 0.3])
nc.batch_norm(x, None, None, weight, bias, training=True)

# %% batch_norm2d
weight = nc.tensor([1.83, 1.73, 1.22])
bias = nc.tensor([-1.4, 0.5, 0.99])
result = ag.batch_norm2d(nc.randn(2, 3, 4, 4), weight, bias)
result.shape

# %% batch_norm_inference
mean = nc.tensor([[[0.27]], [[-0.46]], [[-0.92]]])
var = nc.tensor([[[0.52]], [[1.72]], [[1.87]]])
result = ag.batch_norm_inference(nc.randn(2, 3, 4, 5), mean, var, eps=0.1)
result.shape

# %% batch_norm_training
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99]])
weight = nc.tensor([1.79, 0.55, 1.59])
ag.batch_norm_training(x, weight, None)

# %% bernoulli
nc.bernoulli(nc.full((4,), 0.5))

# %% bessel_j0
nc.special.bessel_j0(nc.tensor([0.5, 1.0, 2.0]))

# %% bessel_j1
nc.special.bessel_j1(nc.tensor([0.5, 1.0, 2.0]))

# %% bessel_y0
nc.special.bessel_y0(nc.tensor([0.5, 1.0, 2.0]))

# %% bessel_y1
nc.special.bessel_y1(nc.tensor([0.5, 1.0, 2.0]))

# %% bias_add
x = nc.tensor([[0.27, -0.46, -0.92, -0.97, 0.63], [0.83, 0.21, 0.46, 0.09, 0.87], [0.63, -0.99, 0.71, -0.93, 0.46]])
bias = nc.tensor([-0.65, 0.73, 0.08, -0.4, -0.15])
nc.bias_add(x, bias)

# %% bilinear
input1 = nc.tensor([0.03, 0.86, -0.87])
weight = nc.tensor([[[-0.31, -0.14], [0.93, 0.12], [-0.48, -0.52]], [[0.78, -0.55], [-0.75, -0.42], [0.17, 0.11]], [[0.62, 0.12], [-0.42, -0.17], [0.64, 0.25]], [[0.92, -0.26], [0.11, 0.19], [0.7, -0.71]], [[-0.19, 0.82], [-0.91, 0.65], [-0.17, 0.66]]])
bias = nc.tensor([-0.98, -0.27, -0.84, 0.31, -0.45])
nc.bilinear(input1, nc.tensor([0.68, -0.87]), weight, bias)

# %% binary_cross_entropy
x = nc.tensor([[0.84, 0.87, 0.11], [0.79, 0.88, 0.87], [0.22, 0.88, 0.81], [0.76, 0.48, 0.29]])
target = nc.tensor([[0.8], [0.92], [0.27], [0.54]])
ag.binary_cross_entropy(x, target)

# %% binary_cross_entropy_with_logits
x = nc.tensor([[1.71, 1.87, -1.94], [1.45, 1.92, 1.83], [-1.4, 1.89, 1.56], [1.29, -0.08, -1.07]])
target = nc.tensor([[0.8], [0.92], [0.27], [0.54]])
ag.binary_cross_entropy_with_logits(x, target)

# %% bincount
nc.bincount(nc.tensor([3, 0, 3, 1]), minlength=6)

# %% binomial
count = nc.tensor([[7.0, 5.0, 4.0, 2.0], [2.0, 0.0, 0.0, 0.0], [1.0, 7.0, 5.0, 8.0]])
prob = nc.tensor([[0.0], [1.0], [1.0]])
ag.binomial(count, prob)

# %% bitwise_and
a = nc.tensor([70, 27, 2], dtype="int32")
b = nc.tensor([61, 50, 2], dtype="int32")
nc.bitwise_and(a, b)

# %% bitwise_not
x = nc.tensor([70, 27, 2], dtype="int32")
nc.bitwise_not(x)

# %% bitwise_or
a = nc.tensor([70, 27, 2], dtype="int32")
b = nc.tensor([61, 50, 2], dtype="int32")
nc.bitwise_or(a, b)

# %% bitwise_xor
a = nc.tensor([70, 27, 2], dtype="int32")
b = nc.tensor([61, 50, 2], dtype="int32")
nc.bitwise_xor(a, b)

# %% blackman_window
nc.blackman_window(8)

# %% block_diag
tensors = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65]])
result = nc.block_diag(tensors, nc.tensor([0.43, 0.92]), nc.tensor([[0.17], [1.74], [1.26]]))
result.shape

# %% bmm
a = nc.tensor([[[0.27, -0.46, -0.92, -0.97, 0.63], [0.83, 0.21, 0.46, 0.09, 0.87], [0.63, -0.99, 0.71, -0.93, 0.46]], [[-0.65, 0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29, 0.23], [-0.23, 0.99, 0.96, 0.37, 0.3]]])
result = nc.bmm(a, nc.randn(2, 5, 4))
result.shape

# %% border
x = nc.tensor([[[-1.54], [0.92], [1.71], [1.87]], [[-1.94], [1.45], [1.92], [1.83]], [[-1.4], [1.89], [1.56], [1.29]]])
result = ag.border(x, pads=((2, 1), (0, 3), (1, 2)), mode='replicate')
result.shape

# %% border_grad
result = ag.border_grad(nc.randn(2, 5, 10), pads=((0, 0), (1, 0), (2, 3)), mode='reflect')
result.shape

# %% broadcast_tensors
tensors = nc.tensor([[0.55], [-0.92], [-1.84]])
result = nc.broadcast_tensors(tensors, nc.tensor([-1.93, 1.25, 1.65, 0.43]))
[part.shape for part in result]

# %% bucketize
x = nc.tensor([[1.5, 0.5, 2.0, 0.0], [0.5, 2.5, 1.0, 0.5], [0.0, 0.0, 2.5, -1.5]])
boundaries = nc.tensor([-2.5, -2.5, -2.5, -2.0, -1.5, -1.0, 0.0, 0.5, 1.5])
nc.bucketize(x, boundaries, right=False)

# %% cached_attention
# One new token: query, key and value of one head of 8 numbers; a cache of 4 places, of which one is used.
keys, values, turns = nc.zeros(1, 1, 4, 8), nc.zeros(1, 1, 4, 8), nc.ones(4, 8)
used = nc.tensor([1], dtype="int32")
ag.cached_attention(nc.randn(1, 24), keys, values, used, turns, scale=0.35)

# %% cartesian_prod
tensors = nc.tensor([0.92, 0.17, 1.74, 1.26])
nc.cartesian_prod(tensors)

# %% cast
x = nc.tensor([[2.0, 1.0, 0.0, -2.0, -1.0], [-3.0, -3.0, -3.0, -2.0, 2.0], [1.0, 3.0, 0.0, 1.0, 3.0]])
nc.cast(x, dtype='float32')

# %% cat
tensors = [nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65]]), nc.tensor([[0.43, 0.92, 0.17], [1.74, 1.26, -1.99]])]
nc.cat(tensors, axis=1)

# %% causal_mask
result = nc.causal_mask(5)
result.shape

# %% cdist
a = nc.tensor([[[0.55, -0.92, -1.84, -1.93], [1.25, 1.65, 0.43, 0.92], [0.17, 1.74, 1.26, -1.99]], [[1.43, -1.87, 0.92, -1.3], [1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59]]])
b = nc.tensor([[0.46, -0.47, 1.99, 1.92], [0.74, 0.6, 0.75, -0.44], [-1.46, 0.89, 0.1, -0.76], [-0.06, 1.56, 1.74, -0.57], [0.29, -0.71, 0.38, -0.65]])
result = nc.cdist(a, b, p=2.0)
result.shape

# %% ceil
x = nc.tensor([[0.84], [-0.16], [0.05], [1.16], [-1.63]])
nc.ceil(x)

# %% celu
x = nc.tensor([-1.84, -1.93, 1.25])
nc.celu(x)

# %% channel_shuffle
x = nc.tensor([[[-0.12, 0.91, -0.0, -0.15, 0.24], [0.99, 0.9, -0.08, 0.52, -0.01], [0.06, 0.57, -0.17, 0.47, 0.42], [0.86, -0.77, 0.46, 0.85, 0.94]]])
nc.channel_shuffle(x, groups=2)

# %% chebyshev_polynomial_t
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.chebyshev_polynomial_t(x, n)

# %% chebyshev_polynomial_u
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.chebyshev_polynomial_u(x, n)

# %% chebyshev_polynomial_v
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.chebyshev_polynomial_v(x, n)

# %% chebyshev_polynomial_w
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.chebyshev_polynomial_w(x, n)

# %% chunk
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65, 0.43], [0.92, 0.17, 1.74, 1.26, -1.99, 1.43, -1.87]])
nc.chunk(x, chunks=3, axis=1)

# %% clamp
x = nc.tensor([[-1.05, -1.35, -1.95, -0.45, -0.75, 0.15, 1.95], [1.05, 1.35, -0.15, 0.75, 1.65, 0.45, -1.65]])
nc.clamp(x, min=-0.6, max=0.7)

# %% clamp_between
x = nc.tensor([[-1.05, -0.45, 0.15], [1.35, 0.75, -1.65]])
nc.clamp(x, min=nc.tensor([-0.6, -0.4, 0.2]), max=nc.tensor([[0.7], [1.0]]))

# %% clone
x = nc.tensor([[0.84], [-0.16], [0.03], [1.16], [-1.63]])
nc.clone(x)

# %% col2im
columns = nc.tensor([[0.45, 0.13, -0.86, 0.68, -0.16, -0.22], [-0.73, -0.77, 0.04, 0.14, 0.04, 0.23], [0.76, 0.01, -0.24, -0.49, -0.39, 0.12], [0.59, -0.12, -0.92, -0.62, -0.82, -0.33], [0.37, 0.18, 0.32, -0.09, -0.78, -0.41], [0.02, -0.01, -0.51, 0.65, -0.13, 0.69]])
result = nc.col2im(columns, shape=(2, 2, 7), kernel_size=3, stride=2)
result.shape

# %% column_stack
tensors = [nc.tensor([0.55, -0.92, -1.84]), nc.tensor([-1.93, 1.25, 1.65])]
nc.column_stack(tensors)

# %% combinations
x = nc.tensor([0.17, 1.74, 1.26])
nc.combinations(x, r=2, with_replacement=True)

# %% concatenate
tensors = nc.tensor([0.1, -0.76, -0.06, 1.56, 1.74])
ag.concatenate(tensors, axis=-1)

# %% contiguous
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65]])
ag.contiguous(x)

# %% contrastive_loss
a = nc.tensor([[0.05, -0.05, 0.26, 0.04], [-0.21, 0.14, 0.52, 0.38], [-0.28, -0.51, -0.25, 0.02], [-0.93, -0.09, -0.5, -0.29], [-0.22, -0.13, 0.16, 0.42], [-0.05, 0.55, -0.27, 0.14]])
b = nc.tensor([[0.36, 0.04, -0.3, -0.37], [-0.18, 0.09, -0.4, -0.08], [-0.06, 0.22, 0.09, 0.14], [-0.26, -0.05, 0.31, 0.6], [-0.5, 0.61, 0.54, 0.31], [0.11, -0.13, 0.58, 0.78]])
target = nc.tensor([0, 0, 0, 1, 0, 1], dtype="int32")
ag.contrastive_loss(a, b, target, reduction='mean')

# %% contrastive_pairs
a = nc.tensor([[0.05, -0.05, 0.26, 0.04], [-0.21, 0.14, 0.52, 0.38], [-0.28, -0.51, -0.25, 0.02], [-0.93, -0.09, -0.5, -0.29], [-0.22, -0.13, 0.16, 0.42], [-0.05, 0.55, -0.27, 0.14]])
b = nc.tensor([[0.36, 0.04, -0.3, -0.37], [-0.18, 0.09, -0.4, -0.08], [-0.06, 0.22, 0.09, 0.14], [-0.26, -0.05, 0.31, 0.6], [-0.5, 0.61, 0.54, 0.31], [0.11, -0.13, 0.58, 0.78]])
target = nc.tensor([[0.0], [0.0], [0.0], [1.0], [0.0], [1.0]])
ag.contrastive_pairs(a, b, target, reduction='mean')

# %% conv1d
weight = nc.tensor([[[0.06, -0.55, 0.56], [-0.66, 0.15, 0.07]], [[0.34, 0.52, -0.78], [0.25, -0.17, 0.23]]])
result = nc.conv1d(nc.randn(2, 2, 10), weight, padding='same', dilation=2)
result.shape

# %% conv1d_grad_input
grad_output = nc.tensor([[[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99], [0.71, -0.93, 0.46, -0.65]], [[0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29], [0.23, -0.23, 0.99, 0.96], [0.37, 0.3, 0.38, -0.22]]])
weight = nc.tensor([[[-0.73, 0.44, 0.05]], [[-0.38, -0.03, 0.78]], [[0.87, -0.28, 0.14]], [[-0.36, 0.19, -0.32]]])
result = nc.conv1d_grad_input(grad_output, weight, shape=(2, 2, 7), stride=2, padding=1, groups=2)
result.shape

# %% conv1d_grad_weight
x = nc.tensor([[[-0.73, 0.44, 0.05, -0.38, -0.03, 0.78, 0.87], [-0.28, 0.14, -0.36, 0.19, -0.32, -0.22, 0.78]], [[-0.55, 0.25, -0.83, 0.67, 0.57, -0.52, 0.75], [-0.88, -0.33, -0.7, -0.1, 0.59, -0.54, -0.9]]])
grad_output = nc.tensor([[[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99], [0.71, -0.93, 0.46, -0.65]], [[0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29], [0.23, -0.23, 0.99, 0.96], [0.37, 0.3, 0.38, -0.22]]])
nc.conv1d_grad_weight(x, grad_output, shape=(4, 1, 3), stride=2, padding=1, groups=2)

# %% conv2d
result = nc.conv2d(nc.randn(1, 4, 7, 5), nc.randn(6, 2, 3, 2), stride=(2, 1), padding=(1, 0), groups=2)
result.shape

# %% conv2d_grad_input
grad_output = nc.tensor([[[[0.78, -0.55, -0.75], [-0.42, 0.17, 0.11]], [[0.62, 0.12, -0.42], [-0.17, 0.64, 0.25]]]])
weight = nc.tensor([[[[0.92, -0.26, 0.11], [0.19, 0.7, -0.71]]], [[[-0.19, 0.82, -0.91], [0.65, -0.17, 0.66]]]])
result = nc.conv2d_grad_input(grad_output, weight, shape=(1, 2, 6, 5), stride=(2, 1), dilation=(2, 1), groups=2)
result.shape

# %% conv2d_grad_weight
grad_output = nc.tensor([[[[-0.31, 0.99, -0.37], [-0.63, 0.76, 0.62]], [[0.34, 0.92, 0.85], [0.5, 0.72, -0.51]]]])
nc.conv2d_grad_weight(nc.randn(1, 2, 6, 5), grad_output, shape=(2, 1, 2, 3), stride=(2, 1), dilation=(2, 1), groups=2)

# %% conv2d_relu
weight = nc.tensor([[[[0.23]], [[0.98]], [[0.9]]], [[[0.84]], [[0.53]], [[0.31]]]])
result = ag.conv2d_relu(nc.randn(2, 3, 4, 4), weight)
result.shape

# %% conv3d
result = nc.conv3d(nc.randn(1, 2, 4, 5, 4), nc.randn(3, 2, 2, 3, 2), padding=(0, 1, 1), stride=(1, 2, 1))
result.shape

# %% conv3d_grad_input
grad_output = nc.tensor([[[[[0.27, -0.46], [-0.92, -0.97], [0.63, 0.83]], [[0.21, 0.46], [0.09, 0.87], [0.63, -0.99]]], [[[0.71, -0.93], [0.46, -0.65], [0.73, 0.08]], [[-0.4, -0.15], [-0.94, -0.75], [0.34, 0.29]]]]])
weight = nc.tensor([[[[[0.23, -0.23], [0.99, 0.96]], [[0.37, 0.3], [0.38, -0.22]]]], [[[[-0.73, 0.44], [0.05, -0.38]], [[-0.03, 0.78], [0.87, -0.28]]]]])
result = nc.conv3d_grad_input(grad_output, weight, shape=(1, 1, 3, 4, 3), stride=(1, 2, 1), padding=(0, 1, 0))
result.shape

# %% conv3d_grad_weight
x = nc.tensor([[[[[0.23, -0.23, 0.99], [0.96, 0.37, 0.3], [0.38, -0.22, -0.73], [0.44, 0.05, -0.38]], [[-0.03, 0.78, 0.87], [-0.28, 0.14, -0.36], [0.19, -0.32, -0.22], [0.78, -0.55, 0.25]], [[-0.83, 0.67, 0.57], [-0.52, 0.75, -0.88], [-0.33, -0.7, -0.1], [0.59, -0.54, -0.9]]]]])
grad_output = nc.tensor([[[[[0.27, -0.46], [-0.92, -0.97], [0.63, 0.83]], [[0.21, 0.46], [0.09, 0.87], [0.63, -0.99]]], [[[0.71, -0.93], [0.46, -0.65], [0.73, 0.08]], [[-0.4, -0.15], [-0.94, -0.75], [0.34, 0.29]]]]])
nc.conv3d_grad_weight(x, grad_output, shape=(2, 1, 2, 2, 2), stride=(1, 2, 1), padding=(0, 1, 0))

# %% conv_tbc
x = nc.tensor([[[0.27, -0.46, -0.92], [-0.97, 0.63, 0.83]], [[0.21, 0.46, 0.09], [0.87, 0.63, -0.99]], [[0.71, -0.93, 0.46], [-0.65, 0.73, 0.08]], [[-0.4, -0.15, -0.94], [-0.75, 0.34, 0.29]], [[0.23, -0.23, 0.99], [0.96, 0.37, 0.3]], [[0.38, -0.22, -0.73], [0.44, 0.05, -0.38]]])
weight = nc.tensor([[[-0.03, 0.78, 0.87, -0.28], [0.14, -0.36, 0.19, -0.32], [-0.22, 0.78, -0.55, 0.25]], [[-0.83, 0.67, 0.57, -0.52], [0.75, -0.88, -0.33, -0.7], [-0.1, 0.59, -0.54, -0.9]], [[-0.19, -0.6, -0.82, 0.16], [-0.4, 0.34, -0.6, 0.88], [-0.27, -0.79, 0.26, 0.85]]])
bias = nc.tensor([-0.12, 0.91, -0.0, -0.15])
result = nc.conv_tbc(x, weight, bias)
result.shape

# %% conv_transpose1d
weight = nc.tensor([[[0.14, -0.36, 0.19], [-0.32, -0.22, 0.78]], [[-0.55, 0.25, -0.83], [0.67, 0.57, -0.52]], [[0.75, -0.88, -0.33], [-0.7, -0.1, 0.59]], [[-0.54, -0.9, -0.19], [-0.6, -0.82, 0.16]]])
result = nc.conv_transpose1d(nc.randn(2, 4, 5), weight, nc.tensor([-0.4, 0.34]), stride=2, padding=1, output_padding=1)
result.shape

# %% conv_transpose2d
bias = nc.tensor([0.76, 0.02, -0.31, 0.99, -0.37, -0.63])
result = nc.conv_transpose2d(nc.randn(2, 4, 3, 4), nc.randn(4, 3, 3, 2), bias, stride=(2, 1), groups=2)
result.shape

# %% conv_transpose3d
x = nc.tensor([[[[[0.27, -0.46], [-0.92, -0.97], [0.63, 0.83]], [[0.21, 0.46], [0.09, 0.87], [0.63, -0.99]]], [[[0.71, -0.93], [0.46, -0.65], [0.73, 0.08]], [[-0.4, -0.15], [-0.94, -0.75], [0.34, 0.29]]]]])
weight = nc.tensor([[[[[0.23, -0.23], [0.99, 0.96]], [[0.37, 0.3], [0.38, -0.22]]]], [[[[-0.73, 0.44], [0.05, -0.38]], [[-0.03, 0.78], [0.87, -0.28]]]]])
result = nc.conv_transpose3d(x, weight, nc.tensor([0.14]), dilation=2)
result.shape

# %% copysign
a = nc.tensor([1.98, 0.96, 0.31])
b = nc.tensor([-2.64, -2.79, -2.8])
nc.copysign(a, b)

# %% corrcoef
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65, 0.43], [0.92, 0.17, 1.74, 1.26, -1.99, 1.43, -1.87], [0.92, -1.3, 1.45, 0.17, -0.8, -0.31, -1.89]])
nc.corrcoef(x)

# %% cos
x = nc.tensor([-1.84, -1.93, 1.25])
nc.cos(x)

# %% cosh
x = nc.tensor([-1.84, -1.93, 1.25])
nc.cosh(x)

# %% cosine_embedding_loss
a = nc.tensor([[0.13, -0.13, 0.64, 0.1], [-0.54, 0.36, 1.3, 0.95], [-0.7, -1.27, -0.62, 0.04], [-2.33, -0.22, -1.25, -0.73], [-0.54, -0.32, 0.41, 1.04], [-0.13, 1.37, -0.67, 0.35]])
b = nc.tensor([[0.9, 0.09, -0.74, -0.92], [-0.46, 0.22, -1.01, -0.21], [-0.16, 0.54, 0.21, 0.36], [-0.65, -0.13, 0.78, 1.49], [-1.26, 1.51, 1.35, 0.78], [0.26, -0.31, 1.46, 1.96]])
target = nc.tensor([-1, -1, -1, 1, -1, 1], dtype="int32")
ag.cosine_embedding_loss(a, b, target, reduction='mean')

# %% cosine_embedding_pairs
a = nc.tensor([[0.13, -0.13, 0.64, 0.1], [-0.54, 0.36, 1.3, 0.95], [-0.7, -1.27, -0.62, 0.04], [-2.33, -0.22, -1.25, -0.73], [-0.54, -0.32, 0.41, 1.04], [-0.13, 1.37, -0.67, 0.35]])
b = nc.tensor([[0.9, 0.09, -0.74, -0.92], [-0.46, 0.22, -1.01, -0.21], [-0.16, 0.54, 0.21, 0.36], [-0.65, -0.13, 0.78, 1.49], [-1.26, 1.51, 1.35, 0.78], [0.26, -0.31, 1.46, 1.96]])
target = nc.tensor([[-1.0], [-1.0], [-1.0], [1.0], [-1.0], [1.0]])
ag.cosine_embedding_pairs(a, b, target, reduction='mean')

# %% cosine_similarity
a = nc.tensor([[0.55, -0.92, -1.84, -1.93], [1.25, 1.65, 0.43, 0.92], [0.17, 1.74, 1.26, -1.99]])
b = nc.tensor([[1.43, -1.87, 0.92, -1.3], [1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59]])
nc.cosine_similarity(a, b)

# %% count_nonzero
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.count_nonzero(x, axis=None)

# %% cov
x = nc.tensor([[0.74], [0.6]])
nc.cov(x, correction=0)

# %% cross_entropy
logits = nc.tensor([[1.84], [-0.52], [0.21]])
ag.cross_entropy(logits, nc.tensor([0, 0, 0]))

# %% cross_entropy_ids
logits = nc.tensor([[1.84], [-0.52], [0.21]])
labels = nc.tensor([[0], [0], [0]])
ag.cross_entropy_ids(logits, labels)

# %% cross_entropy_of_two
x = nc.tensor([[0.84, 0.87, 0.11], [0.79, 0.88, 0.87], [0.22, 0.88, 0.81], [0.76, 0.48, 0.29]])
target = nc.tensor([[0.8], [0.92], [0.27], [0.54]])
ag.cross_entropy_of_two(x, target)

# %% cross_entropy_probabilities
logits = nc.tensor([[[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99]], [[1.43, -1.87, 0.92], [-1.3, 1.45, 0.17], [-0.8, -0.31, -1.89], [-1.5, 0.68, 0.59]]])
target = nc.tensor([[[0.39, 0.5, 0.15], [0.09, 0.09, 0.23], [0.1, 0.06, 0.29], [0.42, 0.35, 0.34]], [[0.52, 0.5, 0.1], [0.03, 0.16, 0.27], [0.26, 0.12, 0.04], [0.2, 0.22, 0.6]]])
ag.cross_entropy_probabilities(logits, target)

# %% csr_matmul
values = nc.tensor([-1.89, -1.5, 0.68, 0.59, 0.46, -0.47, 1.99])
dense = nc.tensor([[1.92, 0.74, 0.6], [0.75, -0.44, -1.46], [0.89, 0.1, -0.76], [-0.06, 1.56, 1.74]])
here = [nc.tensor([0, 3, 3, 4, 6, 7], dtype="int32"), nc.tensor([1, 2, 3, 3, 1, 3, 2], dtype="int32"), nc.tensor([0, 0, 0, 2, 3, 3, 4], dtype="int32")]
there = [nc.tensor([0, 0, 2, 4, 7], dtype="int32"), nc.tensor([0, 3, 0, 4, 0, 2, 3], dtype="int32"), nc.tensor([1, 1, 2, 2, 3, 3, 3], dtype="int32"), nc.tensor([0, 4, 1, 6, 2, 3, 5], dtype="int32"), nc.tensor([0, 2, 4, 5, 1, 6, 3], dtype="int32")]
ag.csr_matmul(values, dense, here, there)

# %% ctc_loss
targets = nc.tensor([[1, 2, 2], [3, 1, 4], [2, 0, 0]])
nc.ctc_loss(nc.randn(7, 3, 5), targets, nc.tensor([7, 6, 4]), nc.tensor([3, 2, 1]))

# %% ctc_occupancy
jumps = nc.tensor([[False, True, False, True, False, False, False], [False, True, False, True, False, False, False]])
result = ag.ctc_occupancy(nc.randn(7, 2, 7), jumps, nc.tensor([[7], [5]]), nc.tensor([[3], [2]]), nc.tensor([4.08, 1.83]), nc.randn(7, 2, 7))
result.shape

# %% ctc_paths
jumps = nc.tensor([[False, True, False, True, False, False, False], [False, True, False, True, False, False, False]])
result = ag.ctc_paths(nc.randn(7, 2, 7), jumps, nc.tensor([[7], [5]]), nc.tensor([[3], [2]]))
[part.shape for part in result]

# %% ctc_states
targets = nc.tensor([[1, 2, 2], [3, 1, 9]])
result = ag.ctc_states(targets, nc.tensor([[3], [2]]))
[part.shape for part in result]

# %% cummax
x = nc.tensor([[-2.0], [1.0], [-1.0], [0.0], [2.0]])
nc.cummax(x, axis=-1)

# %% cummin
x = nc.tensor([[-2.0], [1.0], [-1.0], [0.0], [2.0]])
nc.cummin(x, axis=-1)

# %% cumprod
x = nc.tensor([[0.96], [0.99], [0.94], [0.9], [1.05]])
nc.cumprod(x, axis=-1)

# %% cumsum
x = nc.tensor([[-0.61], [0.87], [-0.39], [-0.05], [-1.46]])
nc.cumsum(x, axis=-1)

# %% cumulative_trapezoid
y = nc.tensor([[-0.62], [-0.28], [1.86]])
nc.cumulative_trapezoid(y)

# %% depthwise_conv2d
bias = nc.tensor([0.16, 0.2, 0.92, -0.86, -0.0, 0.49])
result = nc.depthwise_conv2d(nc.randn(2, 3, 5, 5), nc.randn(6, 1, 3, 3), bias, padding=1)
result.shape

# %% diag
x = nc.tensor([0.55, -0.92, -1.84])
nc.diag(x)

# %% diagonal
x = nc.tensor([[-0.24, 1.82], [-0.0, -0.3]])
nc.diagonal(x, offset=5)

# %% diff
x = nc.tensor([[1.74, -0.57], [0.29, -0.71]])
nc.diff(x, n=3)

# %% digamma
result = nc.digamma(nc.randn(49))
result.shape

# %% div
a = nc.tensor([2.48, 2.76, 1.9])
b = nc.tensor([0.21, 2.6, 0.29])
nc.div(a, b)

# %% dot
a = nc.tensor([0.27, -0.46, -0.92, -0.97, 0.63])
b = nc.tensor([0.83, 0.21, 0.46, 0.09, 0.87])
nc.dot(a, b)

# %% dropout
nc.nn.functional.dropout(nc.ones(6), p=0.5)

# %% dropout_apply
x = nc.tensor([0.27, -0.46, -0.92])
mask = nc.tensor([False, True, True])
ag.dropout_apply(x, mask, scale=1.25)

# %% dropout_mask
ag.dropout_mask(nc.ones(2, 3), p=0.5)

# %% dstack
tensors = [nc.tensor([0.55, -0.92, -1.84]), nc.tensor([-1.93, 1.25, 1.65])]
nc.dstack(tensors)

# %% einsum
operands = nc.tensor([[0.21, -0.62, -0.76], [0.01, 0.63, -0.57]])
nc.einsum('ba', operands)

# %% elementwise_binary
a = nc.tensor([0.64, 0.27, 0.04, 0.02])
b = nc.tensor([0.81, 0.91, 0.61, 0.73])
nc.elementwise_binary(a, b, expression='MUL(ADD(v0, v1), 2.0f)')

# %% elementwise_unary
x = nc.tensor([0.64, 0.27, 0.04, 0.02])
nc.elementwise_unary(x, expression='RELU(v0) * 2.0f')

# %% elu
x = nc.tensor([-1.84, -1.93, 1.25])
nc.elu(x)

# %% embedding
indices = nc.tensor([[1, 3], [0, 1]])
weight = nc.tensor([[0.27, -0.46, -0.92, -0.97, 0.63], [0.83, 0.21, 0.46, 0.09, 0.87], [0.63, -0.99, 0.71, -0.93, 0.46], [-0.65, 0.73, 0.08, -0.4, -0.15]])
nc.embedding(indices, weight)

# %% embedding_rows
index = nc.tensor([[1, 3], [0, 1]])
weight = nc.tensor([[0.27, -0.46, -0.92, -0.97, 0.63], [0.83, 0.21, 0.46, 0.09, 0.87], [0.63, -0.99, 0.71, -0.93, 0.46], [-0.65, 0.73, 0.08, -0.4, -0.15]])
ag.embedding_rows(index, weight, padding=-1)

# %% entr
result = nc.special.entr(nc.randn(13, 17))
result.shape

# %% eq
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.eq(a, b)

# %% erf
x = nc.tensor([-1.84, -1.93, 1.25])
nc.erf(x)

# %% erfc
x = nc.tensor([0.55, -0.92, -1.84])
nc.erfc(x)

# %% erfcx
result = nc.special.erfcx(nc.randn(13, 17))
result.shape

# %% erfinv
result = nc.erfinv(nc.randn(13, 17))
result.shape

# %% every_triplet
near = nc.tensor([[[2.38], [0.5], [1.25], [1.38], [3.0]], [[0.25], [2.88], [0.75], [2.0], [2.75]], [[0.38], [2.62], [1.0], [0.0], [2.5]], [[1.5], [2.25], [1.62], [0.88], [0.62]], [[2.12], [1.75], [1.12], [0.12], [1.88]]])
far = nc.tensor([[[2.38, 0.5, 1.25, 1.38, 3.0]], [[0.25, 2.88, 0.75, 2.0, 2.75]], [[0.38, 2.62, 1.0, 0.0, 2.5]], [[1.5, 2.25, 1.62, 0.88, 0.62]], [[2.12, 1.75, 1.12, 0.12, 1.88]]])
anchor = nc.tensor([[[0]], [[1]], [[0]], [[2]], [[1]]])
positive = nc.tensor([[[0], [1], [0], [2], [1]]])
negative = nc.tensor([[[0, 1, 0, 2, 1]]])
ag.every_triplet(near, far, anchor, positive, negative, margin=0.31)

# %% exp
x = nc.tensor([-1.84, -1.93, 1.25])
nc.exp(x)

# %% exp2
x = nc.tensor([0.55, -0.92, -1.84])
nc.exp2(x)

# %% expand
x = nc.tensor([[0.55], [-0.92], [-1.84]])
result = nc.expand(x, shape=(2, 3, 4))
result.shape

# %% expm1
x = nc.tensor([-1.84, -1.93, 1.25])
nc.expm1(x)

# %% feature_alpha_dropout
x = nc.tensor([[[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]], [[0.71, -0.93, 0.46, -0.65], [0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29]]])
result = nc.feature_alpha_dropout(x, p=0.5, training=False)
result.shape

# %% feature_dropout
x = nc.tensor([[[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]], [[0.71, -0.93, 0.46, -0.65], [0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29]]])
result = nc.feature_dropout(x, p=0.5, training=False)
result.shape

# %% fill
x = nc.tensor([[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]])
nc.fill(x, value=2.5)

# %% flatten
x = nc.tensor([[[[0.55], [-0.92], [-1.84], [-1.93]], [[1.25], [1.65], [0.43], [0.92]], [[0.17], [1.74], [1.26], [-1.99]]], [[[1.43], [-1.87], [0.92], [-1.3]], [[1.45], [0.17], [-0.8], [-0.31]], [[-1.89], [-1.5], [0.68], [0.59]]]])
result = nc.flatten(x, start_dim=1, end_dim=2)
result.shape

# %% flip
x = nc.tensor([[[0.55, -0.92, -1.84, -1.93], [1.25, 1.65, 0.43, 0.92], [0.17, 1.74, 1.26, -1.99]], [[1.43, -1.87, 0.92, -1.3], [1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59]]])
result = nc.flip(x)
result.shape

# %% floor
x = nc.tensor([[0.84], [-0.16], [0.05], [1.16], [-1.63]])
nc.floor(x)

# %% floor_divide
a = nc.tensor([2.5, 3.0, 2.0])
b = nc.tensor([0.5, 2.5, 0.5])
nc.floor_divide(a, b)

# %% focal_loss
x = nc.tensor([[1.71, 1.87, -1.94], [1.45, 1.92, 1.83], [-1.4, 1.89, 1.56], [1.29, -0.08, -1.07]])
target = nc.tensor([[0.8], [0.92], [0.27], [0.54]])
ag.focal_loss(x, target)

# %% fold_scale
weight = nc.tensor([[[1.46, 0.9, 0.56], [0.52, 1.72, 1.87]], [[1.41, 1.59, 1.32], [1.9, 1.72, 0.5]], [[1.79, 0.55, 1.59], [0.76, 1.79, 1.31]], [[0.95, 1.13, 0.54], [0.69, 1.51, 1.47]]])
gamma = nc.tensor([[[1.42]], [[1.08]], [[2.0]], [[1.97]]])
var = nc.tensor([[[1.53]], [[1.48]], [[1.53]], [[1.08]]])
result = ag.fold_scale(weight, gamma, var, eps=0.1)
result.shape

# %% fold_shift
bias = nc.tensor([1.46, 0.9, 0.56, 0.52])
mean = nc.tensor([1.72, 1.87, 1.41, 1.59])
var = nc.tensor([1.32, 1.9, 1.72, 0.5])
gamma = nc.tensor([1.79, 0.55, 1.59, 0.76])
beta = nc.tensor([1.79, 1.31, 0.95, 1.13])
ag.fold_shift(bias, mean, var, gamma, beta, eps=0.1)

# %% fractional_max_pool2d
result = nc.fractional_max_pool2d(nc.randn(2, 3, 7, 6), output_size=(3, 4), kernel_size=2, _random_samples=nc.tensor([[[0.13, 0.37], [0.59, 0.71], [0.83, 0.29]], [[0.13, 0.37], [0.59, 0.71], [0.83, 0.29]]]))
result.shape

# %% fractional_max_pool3d
result = nc.fractional_max_pool3d(nc.randn(1, 2, 5, 6, 4), output_size=(2, 3, 2), kernel_size=2, _random_samples=nc.tensor([[[0.13, 0.37, 0.59], [0.71, 0.83, 0.29]]]))
result.shape

# %% gather
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99]])
nc.gather(x, axis=0, index=nc.tensor([[-1, 2, 0], [-4, 2, 1], [2, -3, -4], [2, -4, 0], [-4, -2, -1], [-1, -1, -4]]))

# %% gather_grad
grad_output = nc.tensor([[[1.92, 0.74], [0.6, 0.75], [-0.44, -1.46]], [[0.89, 0.1], [-0.76, -0.06], [1.56, 1.74]]])
index = nc.tensor([[[2, 1], [3, 2], [1, 1]], [[3, 2], [2, 1], [3, 1]]])
result = ag.gather_grad(grad_output, index, axis=2, shape=(2, 3, 5))
result.shape

# %% gaussian_errors
x = nc.tensor([[1.44, -1.01, -1.44, 0.68, 0.86], [-1.33, -0.42, 1.64, 0.25, 0.31], [-1.22, 0.1, 0.09, -1.64, 1.93]])
target = nc.tensor([[0.29, -1.97, 1.09, 1.91, 0.36], [-0.72, -1.25, 0.69, -1.22, 0.31], [0.41, 1.85, -1.71, -0.0, 0.98]])
var = nc.tensor([[0.6], [0.96], [0.41]])
ag.gaussian_errors(x, target, var)

# %% gaussian_nll_loss
x = nc.tensor([[1.44, -1.01, -1.44, 0.68, 0.86], [-1.33, -0.42, 1.64, 0.25, 0.31], [-1.22, 0.1, 0.09, -1.64, 1.93]])
target = nc.tensor([[0.29, -1.97, 1.09, 1.91, 0.36], [-0.72, -1.25, 0.69, -1.22, 0.31], [0.41, 1.85, -1.71, -0.0, 0.98]])
var = nc.tensor([[0.6], [0.96], [0.41]])
ag.gaussian_nll_loss(x, target, var)

# %% ge
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.ge(a, b)

# %% gelu
x = nc.tensor([[0.84], [-0.16], [0.03], [1.16], [-1.63]])
nc.gelu(x)

# %% geqrf
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
nc.geqrf(x)

# %% getitem
x = nc.tensor([0.58, 0.45, -1.71])
nc.getitem(x, key=True)

# %% glu
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65], [0.43, 0.92, 0.17, 1.74, 1.26, -1.99], [1.43, -1.87, 0.92, -1.3, 1.45, 0.17]])
nc.glu(x)

# %% gradient
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92], [-1.3, 1.45, 0.17, -0.8, -0.31]])
result = nc.gradient(x)
[part.shape for part in result]

# %% grid_index
c0 = nc.tensor([[[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]], [[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]], [[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]], [[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]]])
c1 = nc.tensor([[[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]], [[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]], [[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]], [[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]]])
result = ag.grid_index(c0, c1, mode='bilinear', padding='zeros', edge=1.0, span0=4.0, span1=5.0)
result.shape

# %% grid_sample
grid = nc.tensor([[[[1.08, -0.65], [0.68, 1.4]], [[0.32, -0.1], [-0.52, -1.6]], [[-0.52, 0.9], [-1.32, 0.85]]], [[[-1.32, 0.85], [-1.28, -1.15]], [[-1.08, -1.65], [1.12, 1.6]], [[0.68, -1.4], [1.28, 0.1]]]])
result = nc.grid_sample(nc.randn(2, 3, 4, 5), grid, mode='bilinear', padding_mode='zeros', align_corners=False)
result.shape

# %% grid_sum
index = nc.tensor([[[[1], [0], [0]], [[-1], [-1], [-1]]], [[[-1], [-1], [-1]], [[1], [0], [1]]], [[[0], [0], [1]], [[1], [0], [0]]], [[[0], [1], [-1]], [[1], [1], [-1]]]], dtype="int32")
weight = nc.tensor([[[[0.62], [0.12], [-0.42]], [[-0.17], [0.64], [0.25]]], [[[0.92], [-0.26], [0.11]], [[0.19], [0.7], [-0.71]]], [[[-0.19], [0.82], [-0.91]], [[0.65], [-0.17], [0.66]]], [[[-0.98], [-0.27], [-0.84]], [[0.31], [-0.45], [0.41]]]])
result = ag.grid_sum(nc.randn(4, 2, 3, 5), index, weight)
result.shape

# %% grid_weight
c0 = nc.tensor([[[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]], [[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]], [[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]], [[0.85, 0.35, -0.15], [-0.85, -0.4, -1.35]]])
c1 = nc.tensor([[[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]], [[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]], [[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]], [[0.28, 0.32, 1.32], [0.72, 0.68, 0.08]]])
result = ag.grid_weight(c0, c1, mode='bilinear', padding='zeros', edge=1.0, span0=4.0, span1=5.0)
result.shape

# %% group_norm
x = nc.tensor([[1.78, -1.49, 1.46, -1.76], [-0.48, -0.28, -0.04, 1.91], [1.1, -0.76, -0.92, 1.45]])
nc.group_norm(x, 2)

# %% gru_gates
state = nc.tensor([[[0.85, 0.94, -0.97, 0.73, 0.96]], [[0.91, -0.7, 0.95, 0.78, 0.64]], [[-0.04, -0.54, 0.6, 0.85, -0.47]]])
ag.gru_gates(nc.randn(3, 3, 5), nc.randn(3, 3, 5), state)

# %% gt
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.gt(a, b)

# %% hamming_window
nc.hamming_window(8)

# %% hann_window
nc.hann_window(8)

# %% hard_sigmoid
x = nc.tensor([-1.84, -1.93, 1.25])
nc.hard_sigmoid(x)

# %% hard_swish
x = nc.tensor([-1.84, -1.93, 1.25])
nc.hard_swish(x)

# %% hard_tanh
x = nc.tensor([-1.84, -1.93, 1.25])
nc.hard_tanh(x)

# %% hardest_triplets
d = nc.tensor([[2.38, 0.5, 1.25, 1.38, 3.0], [0.25, 2.88, 0.75, 2.0, 2.75], [0.38, 2.62, 1.0, 0.0, 2.5], [1.5, 2.25, 1.62, 0.88, 0.62], [2.12, 1.75, 1.12, 0.12, 1.88]])
rows = nc.tensor([[0], [1], [0], [2], [1]])
columns = nc.tensor([[0, 1, 0, 2, 1]])
ag.hardest_triplets(d, rows, columns)

# %% hardshrink
x = nc.tensor([0.6, -0.92, -1.84])
nc.hardshrink(x)

# %% heaviside
a = nc.tensor([0.82, -1.38, -2.75])
b = nc.tensor([-2.24, -2.56, -2.58])
nc.heaviside(a, b)

# %% hermite_polynomial_h
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.hermite_polynomial_h(x, n)

# %% hermite_polynomial_he
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.hermite_polynomial_he(x, n)

# %% hinge_embedding_loss
x = nc.tensor([[-1.38, 1.08, -1.11, 0.81, -1.93], [-0.84, -0.01, -0.56, 1.9, 1.35], [-0.29, 0.53, 1.63, 0.26, -1.66]])
target = nc.tensor([[1.0, -1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, -1.0, -1.0, -1.0]])
ag.hinge_embedding_loss(x, target, reduction='mean')

# %% hinge_loss
x = nc.tensor([[-1.38, 1.08, -1.11, 0.81, -1.93], [-0.84, -0.01, -0.56, 1.9, 1.35], [-0.29, 0.53, 1.63, 0.26, -1.66]])
target = nc.tensor([[1.0, -1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, -1.0, -1.0, -1.0]])
ag.hinge_loss(x, target, reduction='mean')

# %% histc
nc.histc(nc.randn(7, 31), bins=4, min=0, max=4)

# %% histogram
x = nc.tensor([0.0, 0.0, 0.0])
nc.histogram(x, bins=2)

# %% histogram_grid
result = ag.histogram_grid(nc.randn(60, 2), bins=(4, 5), range=(0.0, 4.0, 1.0, 3.0))
[part.shape for part in result]

# %% hstack
tensors = [nc.tensor([0.55, -0.92, -1.84]), nc.tensor([-1.93, 1.25, 1.65])]
nc.hstack(tensors)

# %% huber_error
x = nc.tensor([[1.71, 1.87, -1.94], [1.45, 1.92, 1.83], [-1.4, 1.89, 1.56], [1.29, -0.08, -1.07]])
target = nc.tensor([[1.21], [1.69], [-0.94], [0.16]])
ag.huber_error(x, target)

# %% huber_loss
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
target = nc.tensor([[-1.3, 1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59, 0.46], [-0.47, 1.99, 1.92, 0.74, 0.6]])
ag.huber_loss(x, target, reduction='mean')

# %% hypot
a = nc.tensor([1.98, 0.96, 0.31])
b = nc.tensor([-2.64, -2.79, -2.8])
nc.hypot(a, b)

# %% i0
result = nc.i0(nc.randn(13, 17))
result.shape

# %% i0e
result = nc.special.i0e(nc.randn(13, 17))
result.shape

# %% i1
result = nc.special.i1(nc.randn(13, 17))
result.shape

# %% i1e
result = nc.special.i1e(nc.randn(13, 17))
result.shape

# %% igamma
nc.igamma(nc.tensor([0.5, 1.0, 2.0]), nc.tensor(1.5))

# %% igammac
nc.igammac(nc.tensor([0.5, 1.0, 2.0]), nc.tensor(1.5))

# %% im2col
x = nc.tensor([[[0.16, 0.2, 0.92, -0.86, -0.0, 0.49, -0.65], [-0.22, -0.87, 0.45, -0.82, -0.21, 0.75, -0.06]], [[0.83, 0.53, 0.83, -0.75, -0.85, -0.86, 0.74], [0.27, -0.01, -0.67, 0.35, -0.36, 0.42, -0.08]]])
result = nc.im2col(x, kernel_size=3, stride=2)
result.shape

# %% index_add
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
source = nc.tensor([[-1.3, 1.45, 0.17], [-0.8, -0.31, -1.89], [-1.5, 0.68, 0.59], [0.46, -0.47, 1.99]])
nc.index_add(x, 0, nc.tensor([4, 0, 0, -1]), source, alpha=-0.5)

# %% index_copy
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
source = nc.tensor([[-1.3, 1.45, 0.17], [-0.8, -0.31, -1.89], [-1.5, 0.68, 0.59], [0.46, -0.47, 1.99]])
nc.index_copy(x, 0, nc.tensor([4, 0, 0, -1]), source)

# %% index_put
x = nc.tensor([[-0.81, 0.69, -1.2, 1.77], [-0.54, -1.58, 0.52, 1.71], [-0.24, 1.82, -0.0, -0.3]])
indices = [None, nc.tensor([[2, 0], [2, 3]])]
values = nc.tensor([[[0.48, 1.98]], [[1.8, -0.16]], [[1.03, -0.01]]])
nc.index_put(x, indices, values)

# %% index_reduce
x = nc.tensor([[-1.72, -0.48, 1.59], [0.9, -0.62, -1.45], [1.86, 0.21, 1.17], [-1.17, 0.48, 1.45]])
source = nc.tensor([[-1.59, 2.0, -0.9], [-2.0, 0.62, -0.34]])
nc.index_reduce(x, 0, nc.tensor([1, 3]), source, 'prod', include_self=False)

# %% index_select
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
nc.index_select(x, axis=0, index=nc.tensor([4, 0, 0, -1]))

# %% index_select_grad
grad_output = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99]])
ag.index_select_grad(grad_output, nc.tensor([4, 0, 0, 2]), axis=0, shape=(5, 3))

# %% info_nce_loss
query = nc.tensor([[0.13, -0.13, 0.64, 0.1], [-0.54, 0.36, 1.3, 0.95], [-0.7, -1.27, -0.62, 0.04], [-2.33, -0.22, -1.25, -0.73], [-0.54, -0.32, 0.41, 1.04]])
keys = nc.tensor([[-0.13, 1.37, -0.67, 0.35], [0.9, 0.09, -0.74, -0.92], [-0.46, 0.22, -1.01, -0.21], [-0.16, 0.54, 0.21, 0.36], [-0.65, -0.13, 0.78, 1.49]])
ag.info_nce_loss(query, keys, temperature=0.5, reduction='mean')

# %% instance_norm
weight = nc.tensor([1.02, 1.15, 1.95])
bias = nc.tensor([0.12, -0.48, -0.52])
result = nc.instance_norm(nc.randn(2, 3, 4, 5), weight, bias)
result.shape

# %% interpolate
x = nc.tensor([[[[0.23, -0.23], [0.99, 0.96], [0.37, 0.3]], [[0.38, -0.22], [-0.73, 0.44], [0.05, -0.38]]]])
result = nc.interpolate(x, scale_factor=(2, 3))
result.shape

# %% isclose
a = nc.tensor([[2, 1, 1, 0, 0], [0, 0, 0, 0, 2], [1, 2, 1, 1, 2], [2, 1, 1, 1, 2]])
b = nc.tensor([0, 2, 2, 0, 1])
nc.isclose(a, b)

# %% isfinite
x = nc.tensor([-1.84, -1.93, 1.25])
nc.isfinite(x)

# %% isin
elements = nc.tensor([[6.0, 2.0, 0.0, -5.0, -4.0], [-9.0, -8.0, -9.0, -6.0, 5.0], [2.0, 7.0, 0.0, 1.0, 8.0], [4.0, 2.0, 0.0, 1.0, 7.0]])
test_elements = nc.tensor([-5.0, 5.0, 3.0, -9.0, -2.0, 6.0])
nc.isin(elements, test_elements)

# %% isinf
x = nc.tensor([-1.84, -1.93, 1.25])
nc.isinf(x)

# %% isnan
x = nc.tensor([-1.84, -1.93, 1.25])
nc.isnan(x)

# %% kaiser_window
nc.kaiser_window(8)

# %% kl_div
x = nc.tensor([[-1.15, -2.22, -2.88, -2.95, -0.64], [-0.35, -1.24, -0.88, -1.42, -0.29], [-0.63, -2.99, -0.51, -2.9, -0.88]])
target = nc.tensor([[0.24, 0.79, 0.53, 0.34, 0.44], [0.12, 0.2, 0.64, 0.62, 0.59], [0.41, 0.9, 0.88, 0.65, 0.62]])
ag.kl_div(x, target)

# %% kl_terms
x = nc.tensor([[-1.15, -2.22, -2.88, -2.95, -0.64], [-0.35, -1.24, -0.88, -1.42, -0.29], [-0.63, -2.99, -0.51, -2.9, -0.88]])
target = nc.tensor([[0.24, 0.79, 0.53, 0.34, 0.44], [0.12, 0.2, 0.64, 0.62, 0.59], [0.41, 0.9, 0.88, 0.65, 0.62]])
ag.kl_terms(x, target)

# %% kron
a = nc.tensor([[0.46, -0.65, 0.73], [0.08, -0.4, -0.15]])
b = nc.tensor([-0.94, -0.75, 0.34, 0.29])
result = nc.kron(a, b)
result.shape

# %% kth_index
x = nc.tensor([[-1.16, 2.0, -0.74, -1.58, 0.74], [1.37, -1.37, 0.32, 0.11, -0.32], [-2.0, 0.53, -0.53, -0.95, 1.79], [1.58, 0.95, -0.11, -1.79, 1.16]])
position = nc.tensor([[2, 0, 1, 1, 1]])
ag.kth_index(x, position, axis=0)

# %% kthvalue
x = nc.tensor([-0.67, 0.67, 0.0, 2.0, 1.33, -2.0, -1.33])
nc.kthvalue(x, k=3)

# %% l1_loss
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
target = nc.tensor([[-1.3, 1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59, 0.46], [-0.47, 1.99, 1.92, 0.74, 0.6]])
ag.l1_loss(x, target, reduction='mean')

# %% l2_normalize
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
nc.l2_normalize(x, axis=1)

# %% laguerre_polynomial_l
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.laguerre_polynomial_l(x, n)

# %% last_at
index = nc.tensor([[4, 0], [0, -1]])
ag.last_at(index, axis=0, shape=(5, 3))

# %% layer_norm
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65, 0.43], [0.92, 0.17, 1.74, 1.26, -1.99, 1.43, -1.87], [0.92, -1.3, 1.45, 0.17, -0.8, -0.31, -1.89], [-1.5, 0.68, 0.59, 0.46, -0.47, 1.99, 1.92]])
result = nc.layer_norm(x, normalized_shape=7)
result.shape

# %% le
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.le(a, b)

# %% leaky_relu
x = nc.tensor([-1.84, -1.93, 1.25])
nc.leaky_relu(x)

# %% left_shift
a = nc.tensor([70, 27, 2], dtype="int32")
b = nc.tensor([5, 4, 0], dtype="int32")
nc.left_shift(a, b)

# %% legendre_polynomial_p
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.legendre_polynomial_p(x, n)

# %% lerp
a = nc.tensor([0.55, -0.92, -1.84])
b = nc.tensor([-1.49, -1.71, -1.72])
weight = nc.tensor([0.39, 0.3, 0.26])
nc.lerp(a, b, weight)

# %% lgamma
x = nc.tensor([3.89, 1.76, 0.44])
nc.lgamma(x)

# %% linalg_cholesky
x = nc.tensor([[2.76, -1.2, -0.97], [-1.2, 6.26, 1.39], [-0.97, 1.39, 8.65]])
ag.linalg_cholesky(x)

# %% linalg_cholesky_ex
x = nc.tensor([[1.94, -0.59, -1.11], [-0.59, 5.56, 0.14], [-1.11, 0.14, 10.89]])
ag.linalg_cholesky_ex(x, upper=True)

# %% linalg_cofactors
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
ag.linalg_cofactors(x)

# %% linalg_cond
x = nc.tensor([[1.49, 0.38, 0.22], [-0.15, 2.02, 0.29], [0.31, 0.01, 2.78], [0.4, -0.15, -0.25]])
ag.linalg_cond(x)

# %% linalg_cross
a = nc.tensor([0.27, -0.46, -0.92])
b = nc.tensor([-0.97, 0.63, 0.83])
ag.linalg_cross(a, b)

# %% linalg_det
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
ag.linalg_det(x)

# %% linalg_diagonal
x = nc.tensor([[[0.55, -0.92, -1.84, -1.93], [1.25, 1.65, 0.43, 0.92], [0.17, 1.74, 1.26, -1.99]], [[1.43, -1.87, 0.92, -1.3], [1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59]]])
ag.linalg_diagonal(x, offset=1)

# %% linalg_eigh
x = nc.tensor([[3.22, -0.57, -0.28], [-0.57, 4.9, 0.51], [-0.28, 0.51, 5.87]])
ag.linalg_eigh(x)

# %% linalg_eigvalsh
x = nc.tensor([[3.22, -0.57, -0.28], [-0.57, 4.9, 0.51], [-0.28, 0.51, 5.87]])
ag.linalg_eigvalsh(x)

# %% linalg_householder_product
x = nc.tensor([[0.27, -0.46, -0.92], [-0.97, 0.63, 0.83], [0.21, 0.46, 0.09], [0.87, 0.63, -0.99]])
tau = nc.tensor([0.89, 0.23, 0.78])
ag.linalg_householder_product(x, tau)

# %% linalg_inv
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
ag.linalg_inv(x)

# %% linalg_inv_ex
x = nc.tensor([[1.94, -0.59, -1.11], [-0.59, 5.56, 0.14], [-1.11, 0.14, 10.89]])
ag.linalg_inv_ex(x)

# %% linalg_ldl_factor
x = nc.tensor([[0.55, 0.17, -0.83, -0.25], [0.17, 1.65, 1.08, -0.47], [-0.83, 1.08, 1.26, -0.54], [-0.25, -0.47, -0.54, -1.3]])
ag.linalg_ldl_factor(x)

# %% linalg_ldl_factor_ex
x = nc.tensor([[0.55, -1.43, -0.7], [-1.43, 1.25, 1.28], [-0.7, 1.28, 0.17]])
ag.linalg_ldl_factor_ex(x)

# %% linalg_ldl_solve
LD = nc.tensor([[[-1.46, 0.0, 0.0], [-0.05, 0.75, 0.0], [-0.94, 1.08, 0.89]], [[0.89, 0.0, 0.0], [0.03, 1.56, 0.0], [-0.75, 0.66, -1.89]]])
pivots = nc.tensor([[3, 2, 3], [1, 2, 3]], dtype="int32")
B = nc.tensor([[0.19], [-0.32], [-0.22]])
ag.linalg_ldl_solve(LD, pivots, B)

# %% linalg_lstsq
a = nc.tensor([[1.34, 0.14, -0.24, 0.35], [-0.11, 1.88, 0.1, 0.34]])
b = nc.tensor([[-0.12, 0.91, -0.0], [-0.15, 0.24, 0.99]])
ag.linalg_lstsq(a, b)

# %% linalg_lu
x = nc.tensor([[0.09, 0.18, 2.93], [-0.39, 2.45, 0.33], [1.61, -0.18, -0.37]])
result = ag.linalg_lu(x)
[part.shape for part in result]

# %% linalg_lu_factor
x = nc.tensor([[0.09, 0.18, 2.93], [-0.39, 2.45, 0.33], [1.61, -0.18, -0.37]])
ag.linalg_lu_factor(x)

# %% linalg_lu_factor_ex
x = nc.tensor([[[2.76, -1.2, -0.97], [-1.2, 6.26, 1.39], [-0.97, 1.39, 8.65]], [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]])
result = ag.linalg_lu_factor_ex(x)
[part.shape for part in result]

# %% linalg_lu_parts
lu = nc.tensor([[0.27, -0.46, -0.92], [-0.97, 0.63, 0.83], [0.21, 0.46, 0.09]])
ag.linalg_lu_parts(lu)

# %% linalg_lu_solve
LU = nc.tensor([[[1.61, -0.18, -0.37], [-0.24, 2.41, 0.24], [0.05, 0.08, 2.93]], [[1.85, 0.25, -0.4], [0.15, 1.79, 0.25], [-0.14, 0.18, 2.83]]])
pivots = nc.tensor([[3, 2, 3], [3, 2, 3]], dtype="int32")
B = nc.tensor([[[0.38], [-0.22], [-0.73]], [[0.44], [0.05], [-0.38]]])
ag.linalg_lu_solve(LU, pivots, B, adjoint=True)

# %% linalg_matrix_norm
x = nc.tensor([[[1.61, -0.18, -0.37, -0.39], [0.25, 2.53, 0.09, 0.18], [0.03, 0.35, 3.15, -0.4]], [[1.79, -0.37, 0.18, -0.26], [0.29, 2.23, -0.16, -0.06], [-0.38, -0.3, 3.04, 0.12]]])
ag.linalg_matrix_norm(x, ord='fro')

# %% linalg_matrix_power
x = nc.tensor([[[0.67, -0.03, -0.19], [-0.15, 1.17, 0.06], [0.05, -0.05, 1.65]], [[0.94, 0.07, 0.06], [0.08, 1.06, -0.15], [0.09, 0.01, 1.37]]])
ag.linalg_matrix_power(x, n=1)

# %% linalg_matrix_rank
x = nc.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
ag.linalg_matrix_rank(x)

# %% linalg_multi_dot
tensors = [nc.tensor([[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]]), nc.tensor([[0.71, -0.93], [0.46, -0.65], [0.73, 0.08], [-0.4, -0.15]]), nc.tensor([[-0.94, -0.75, 0.34, 0.29, 0.23], [-0.23, 0.99, 0.96, 0.37, 0.3]]), nc.tensor([[0.38, -0.22, -0.73], [0.44, 0.05, -0.38], [-0.03, 0.78, 0.87], [-0.28, 0.14, -0.36], [0.19, -0.32, -0.22]])]
ag.linalg_multi_dot(tensors)

# %% linalg_norm
x = nc.tensor([[1.61, -0.18, -0.37, -0.39], [0.25, 2.53, 0.09, 0.18], [0.03, 0.35, 3.15, -0.4]])
ag.linalg_norm(x)

# %% linalg_permutation
pivots = nc.tensor([3, 2, 3], dtype="int32")
ag.linalg_permutation(pivots)

# %% linalg_pinv
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
ag.linalg_pinv(x)

# %% linalg_qr
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
ag.linalg_qr(x)

# %% linalg_slogdet
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
ag.linalg_slogdet(x)

# %% linalg_solve
a = nc.tensor([[1.39, 0.06, -0.14], [0.08, 2.07, -0.09], [0.31, -0.22, 3.0]])
b = nc.tensor([-0.83, 0.67, 0.57])
ag.linalg_solve(a, b)

# %% linalg_solve_ex
a = nc.tensor([[[2.76, -1.2, -0.97], [-1.2, 6.26, 1.39], [-0.97, 1.39, 8.65]], [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]])
b = nc.tensor([[[-0.4, -0.15], [-0.94, -0.75], [0.34, 0.29]], [[0.23, -0.23], [0.99, 0.96], [0.37, 0.3]]])
ag.linalg_solve_ex(a, b)

# %% linalg_solve_triangular
a = nc.tensor([[[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]], [[1.85, 0.25, -0.4], [0.29, 1.83, 0.18], [-0.26, 0.29, 2.93]]])
b = nc.tensor([[0.38], [-0.22], [-0.73]])
ag.linalg_solve_triangular(a, b, upper=False)

# %% linalg_svd
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
result = ag.linalg_svd(x, full_matrices=False)
[part.shape for part in result]

# %% linalg_svdvals
x = nc.tensor([[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]])
ag.linalg_svdvals(x)

# %% linalg_tensorinv
x = nc.tensor([[[1.61, -0.18, -0.37, -0.39, 0.25, 0.33], [0.09, 2.38, 0.03, 0.35, 0.25, -0.4], [0.29, -0.37, 3.08, -0.26, 0.29, 0.03]], [[-0.16, -0.06, -0.38, 3.3, 0.14, 0.12], [0.09, -0.09, 0.4, 0.38, 4.45, 0.12], [0.15, -0.09, -0.29, 0.18, 0.02, 4.85]]])
result = ag.linalg_tensorinv(x)
result.shape

# %% linalg_tensorsolve
a = nc.tensor([[[1.61, -0.18, -0.37, -0.39, 0.25, 0.33], [0.09, 2.38, 0.03, 0.35, 0.25, -0.4], [0.29, -0.37, 3.08, -0.26, 0.29, 0.03]], [[-0.16, -0.06, -0.38, 3.3, 0.14, 0.12], [0.09, -0.09, 0.4, 0.38, 4.45, 0.12], [0.15, -0.09, -0.29, 0.18, 0.02, 4.85]]])
b = nc.tensor([[-0.03, 0.78, 0.87], [-0.28, 0.14, -0.36]])
ag.linalg_tensorsolve(a, b)

# %% linalg_vander
x = nc.tensor([1.26, -1.99, 1.43])
ag.linalg_vander(x, N=1)

# %% linalg_vecdot
a = nc.tensor([[0.63, -0.99, 0.71], [-0.93, 0.46, -0.65]])
b = nc.tensor([0.73, 0.08, -0.4])
ag.linalg_vecdot(a, b)

# %% linalg_vector_norm
x = nc.tensor([[[1.15, -1.22, 1.66, -0.2], [-0.03, -1.56, 1.83, -0.88], [2.0, -1.39, 1.49, -0.54]], [[-1.9, 0.81, 0.13, 1.32], [0.3, -0.71, -1.05, 0.98], [0.47, -0.37, -1.73, 0.64]]])
ag.linalg_vector_norm(x)

# %% linear
x = nc.tensor([-0.0, -0.15, 0.24, 0.99, 0.9])
weight = nc.tensor([[-0.08, 0.52, -0.01, 0.06, 0.57], [-0.17, 0.47, 0.42, 0.86, -0.77], [0.46, 0.85, 0.94, -0.97, 0.73]])
nc.linear(x, weight)

# %% linear_recurrence
x = nc.tensor([[-1.28], [1.1], [-1.6], [-1.5], [1.11]])
decay = nc.tensor([[-0.86], [-0.6], [0.26], [0.03], [0.39]])
nc.linear_recurrence(x, decay, axis=-1, reverse=False)

# %% linear_relu
x = nc.tensor([[0.67, 0.34, 0.14, 0.11], [0.83, 0.92, 0.65, 0.76], [0.59, 0.94, 0.83, 0.1]])
weight = nc.tensor([[0.87, 0.13, 0.76, 0.26], [0.88, 0.59, 0.37, 0.48]])
ag.linear_relu(x, weight, nc.tensor([-0.1, -0.09]))

# %% listed_margins
x = nc.tensor([[[-1.12, 1.9, -0.72, -1.53, 0.69]], [[1.3, -1.33, 0.29, 0.09, -0.32]], [[-1.93, 0.49, -0.52, -0.92, 1.7]], [[1.5, 0.89, -0.12, -1.73, 1.09]]])
own = nc.tensor([[[0.26], [1.27], [-1.15], [-0.55], [-0.75]], [[-1.56], [-1.36], [-0.95], [1.67], [-1.76]], [[0.06], [-0.15], [0.86], [1.87], [-0.35]], [[0.66], [0.46], [1.06], [1.47], [-1.96]]])
listed = nc.tensor([[[True], [True], [False], [True], [False]], [[True], [True], [True], [True], [False]], [[False], [False], [False], [True], [True]], [[False], [True], [True], [False], [True]]])
label = nc.tensor([[[True, False, False, True, True]], [[True, False, True, False, False]], [[True, False, False, True, True]], [[False, False, False, True, False]]])
ag.listed_margins(x, own, listed, label)

# %% local_response_norm
x = nc.tensor([[[-0.19, -0.6, -0.82, 0.16, -0.4], [0.34, -0.6, 0.88, -0.27, -0.79], [0.26, 0.85, -0.12, 0.91, -0.0], [-0.15, 0.24, 0.99, 0.9, -0.08]]])
nc.local_response_norm(x, size=2, alpha=0.5, beta=0.6, k=2.0)

# %% log
x = nc.tensor([0.31, 0.25, 2.48])
nc.log(x)

# %% log10
x = nc.tensor([1.98, 0.96, 0.31])
nc.log10(x)

# %% log1p
x = nc.tensor([0.31, 0.25, 2.48])
nc.log1p(x)

# %% log2
x = nc.tensor([0.31, 0.25, 2.48])
nc.log2(x)

# %% log_ndtr
result = nc.special.log_ndtr(nc.randn(13, 17))
result.shape

# %% log_softmax
x = nc.tensor([[2.56], [-0.36]])
nc.log_softmax(x, axis=-1)

# %% logaddexp
a = nc.tensor([0.82, -1.38, -2.75])
b = nc.tensor([-2.24, -2.56, -2.58])
nc.logaddexp(a, b)

# %% logcumsumexp
x = nc.tensor([[2.39], [3.87], [2.61], [2.95], [1.54]])
nc.logcumsumexp(x, axis=-1)

# %% logdet
x = nc.tensor([[[1.61, -0.18, -0.37], [-0.39, 2.45, 0.33], [0.09, 0.18, 2.93]], [[1.85, 0.25, -0.4], [0.29, 1.83, 0.18], [-0.26, 0.29, 2.93]]])
nc.logdet(x)

# %% logical_and
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.logical_and(a, b)

# %% logical_not
x = nc.tensor([-1.84, -1.93, 1.25])
nc.logical_not(x)

# %% logical_or
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.logical_or(a, b)

# %% logical_xor
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.logical_xor(a, b)

# %% logit
result = nc.logit(nc.randn(13, 17))
result.shape

# %% logsigmoid
x = nc.tensor([-1.84, -1.93, 1.25])
nc.logsigmoid(x)

# %% logsumexp
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.logsumexp(x, axis=None)

# %% lp_pool1d
x = nc.tensor([[[0.78, 0.57, -0.39, -0.81, 0.67], [0.52, 0.64, -0.92, 0.95, -0.55]]])
nc.lp_pool1d(x, norm_type=3.0, stride=1, kernel_size=3)

# %% lp_pool2d
nc.lp_pool2d(nc.randn(1, 2, 5, 5), norm_type=3.0, stride=1, kernel_size=3)

# %% lp_pool3d
result = nc.lp_pool3d(nc.randn(1, 2, 5, 5, 5), norm_type=3.0, stride=1, kernel_size=3)
result.shape

# %% lstm_gates
cell = nc.tensor([[[-0.31, -0.14, 0.93, 0.12, -0.48]], [[-0.52, 0.78, -0.55, -0.75, -0.42]], [[0.17, 0.11, 0.62, 0.12, -0.42]]])
result = ag.lstm_gates(nc.randn(3, 4, 5), nc.randn(3, 4, 5), cell)
[part.shape for part in result]

# %% lt
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.lt(a, b)

# %% margin_of_distances
near = nc.tensor([1.64, 1.27, 1.04, 1.02, 1.81, 1.91, 1.61])
far = nc.tensor([0.66, 0.49, 0.84, 0.73, 0.0, 0.77, 0.03])
ag.margin_of_distances(near, far)

# %% margin_ranking_loss
x1 = nc.tensor([[-1.38, 1.08, -1.11, 0.81, -1.93], [-0.84, -0.01, -0.56, 1.9, 1.35], [-0.29, 0.53, 1.63, 0.26, -1.66]])
x2 = nc.tensor([[-0.26, 0.56, -1.9, -0.53, 0.02], [-1.08, 0.84, -0.81, 1.66, 1.11], [1.38, -1.63, -1.35, 1.93, 0.29]])
target = nc.tensor([[1.0, -1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, -1.0, -1.0, -1.0]])
ag.margin_ranking_loss(x1, x2, target, margin=0.5, reduction='mean')

# %% masked_fill
x = nc.tensor([[0.73, 0.08, -0.4, -0.15], [-0.94, -0.75, 0.34, 0.29], [0.23, -0.23, 0.99, 0.96]])
mask = nc.tensor([[True], [True], [True]])
nc.masked_fill(x, mask, value=2.0)

# %% masked_select
x = nc.tensor([0.96, 0.37, 0.3])
mask = nc.tensor([False, False, False])
nc.masked_select(x, mask)

# %% matmul
a = nc.tensor([-0.23, 0.99, 0.96, 0.37, 0.3, 0.38, -0.22])
b = nc.tensor([-0.73, 0.44, 0.05, -0.38, -0.03, 0.78, 0.87])
nc.matmul(a, b)

# %% matrix_exp
x = nc.tensor([[[0.87, 0.63], [-0.99, 0.71]], [[-0.93, 0.46], [-0.65, 0.73]]])
nc.matrix_exp(x)

# %% matrix_transpose
x = nc.tensor([[0.46, -0.47, 1.99, 1.92], [0.74, 0.6, 0.75, -0.44], [-1.46, 0.89, 0.1, -0.76]])
nc.matrix_transpose(x)

# %% max
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.max(x, axis=None)

# %% max_along
x = nc.tensor([1.27, -0.63, 0.63, 1.9, -1.27, -1.9, 0.0])
ag.max_along(x, axis=0)

# %% max_pool
result = ag.max_pool(nc.randn(2, 3, 9))
[part.shape for part in result]

# %% max_pool1d
x = nc.tensor([[[-0.52, 0.96, 2.0, 1.26, 1.41, -1.85, -1.41], [1.85, 1.7, 0.81, -0.96, -1.7, -1.26, -1.11]], [[-1.56, 1.56, 0.37, 0.22, -0.67, -0.37, -0.22], [-0.81, 1.11, -2.0, -0.07, 0.07, 0.67, 0.52]]])
nc.max_pool1d(x, kernel_size=2, stride=1, dilation=2)

# %% max_pool2d
result = nc.max_pool2d(nc.randn(1, 2, 7, 5), kernel_size=(3, 2), stride=(2, 1), padding=1)
result.shape

# %% max_pool3d
result = nc.max_pool3d(nc.randn(1, 1, 4, 4, 5), kernel_size=(1, 2, 3), stride=1)
result.shape

# %% max_pool_grad
grad_output = nc.tensor([[[[[-0.78, -0.68], [-0.29, -0.98]], [[0.86, -0.52], [-0.46, -0.25]]], [[[0.88, -0.3], [-0.14, -0.4]], [[0.95, -0.27], [-0.83, 0.32]]]]])
indices = nc.tensor([[[[[0, 27], [32, 15]], [[65, 47], [69, 70]]], [[[20, 23], [32, 10]], [[40, 66], [49, 54]]]]], dtype="int32")
result = ag.max_pool_grad(grad_output, indices, shape=(1, 2, 4, 5, 4), kernel_size=2)
result.shape

# %% max_unpool1d
x = nc.tensor([[[0.93, 0.67], [-0.93, -0.13]], [[1.73, 0.4], [1.47, 2.0]]])
indices = nc.tensor([[[1, 3], [1, 2]], [[0, 3], [0, 3]]], dtype="int32")
nc.max_unpool1d(x, indices, kernel_size=2, stride=2, output_size=(4,))

# %% max_unpool2d
x = nc.tensor([[[[0.79, 1.37], [1.68, 0.98]], [[1.87, 0.35], [0.22, 0.92]]], [[[1.24, 1.94], [1.75, 0.54]], [[2.0, 1.11], [1.56, 1.81]]]])
indices = nc.tensor([[[[4, 6], [8, 15]], [[5, 2], [13, 11]]], [[[4, 6], [12, 14]], [[4, 6], [12, 11]]]], dtype="int32")
result = nc.max_unpool2d(x, indices, kernel_size=2, stride=2, output_size=(4, 4))
result.shape

# %% max_unpool3d
x = nc.tensor([[[[[1.97, 1.84], [1.95, 1.14]], [[1.81, 1.61], [1.86, 1.28]]], [[[1.55, 1.48], [1.51, 1.73]], [[1.76, 1.44], [1.34, 1.8]]]], [[[[1.07, 1.91], [1.47, 1.42]], [[1.31, 1.94], [1.69, 1.87]]], [[[1.92, 1.64], [1.4, 1.98]], [[2.0, 1.75], [1.89, 1.62]]]]])
indices = nc.tensor([[[[[20, 2], [29, 30]], [[36, 51], [40, 63]]], [[[20, 6], [28, 11]], [[36, 38], [44, 62]]]], [[[[5, 2], [8, 14]], [[37, 54], [56, 63]]], [[[20, 23], [29, 26]], [[48, 39], [60, 46]]]]], dtype="int32")
result = nc.max_unpool3d(x, indices, kernel_size=2, stride=2, output_size=(4, 4, 4))
result.shape

# %% maximum
a = nc.tensor([1.25, 1.65, 0.43])
b = nc.tensor([-1.99, 1.43, -1.87])
nc.maximum(a, b)

# %% mean
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.mean(x, axis=None)

# %% median
x = nc.tensor([-0.67, 0.67, 0.0, 2.0, 1.33, -2.0, -1.33])
nc.median(x)

# %% min
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.min(x, axis=None)

# %% min_along
x = nc.tensor([1.27, -0.63, 0.63, 1.9, -1.27, -1.9, 0.0])
ag.min_along(x, axis=0)

# %% minimum
a = nc.tensor([1.25, 1.65, 0.43])
b = nc.tensor([-1.99, 1.43, -1.87])
nc.minimum(a, b)

# %% mish
x = nc.tensor([-1.84, -1.93, 1.25])
nc.mish(x)

# %% mm
a = nc.tensor([[0.27, -0.46, -0.92, -0.97, 0.63], [0.83, 0.21, 0.46, 0.09, 0.87], [0.63, -0.99, 0.71, -0.93, 0.46]])
b = nc.tensor([[-0.65, 0.73, 0.08, -0.4], [-0.15, -0.94, -0.75, 0.34], [0.29, 0.23, -0.23, 0.99], [0.96, 0.37, 0.3, 0.38], [-0.22, -0.73, 0.44, 0.05]])
nc.mm(a, b)

# %% mod
a = nc.tensor([2.5, 3.0, 2.0])
b = nc.tensor([0.5, 2.5, 0.5])
nc.mod(a, b)

# %% mode
x = nc.tensor([[2.0, 1.0], [2.0, 1.0], [0.0, 2.0], [1.0, 0.0], [1.0, 2.0]])
nc.mode(x, axis=0)

# %% modified_bessel_k0
nc.special.modified_bessel_k0(nc.tensor([0.5, 1.0, 2.0]))

# %% modified_bessel_k1
nc.special.modified_bessel_k1(nc.tensor([0.5, 1.0, 2.0]))

# %% mse_loss
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
target = nc.tensor([[-1.3, 1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59, 0.46], [-0.47, 1.99, 1.92, 0.74, 0.6]])
ag.mse_loss(x, target, reduction='mean')

# %% mul
a = nc.tensor([1.25, 1.65, 0.43])
b = nc.tensor([-1.99, 1.43, -1.87])
nc.mul(a, b)

# %% multi_margin_ids
x = nc.tensor([[-1.12, 1.9, -0.72, -1.53, 0.69], [1.3, -1.33, 0.29, 0.09, -0.32], [-1.93, 0.49, -0.52, -0.92, 1.7], [1.5, 0.89, -0.12, -1.73, 1.09]])
labels = nc.tensor([[2], [0], [1], [2]])
ag.multi_margin_ids(x, labels)

# %% multi_margin_loss
x = nc.tensor([[-1.12, 1.9, -0.72, -1.53, 0.69], [1.3, -1.33, 0.29, 0.09, -0.32], [-1.93, 0.49, -0.52, -0.92, 1.7], [1.5, 0.89, -0.12, -1.73, 1.09]])
ag.multi_margin_loss(x, nc.tensor([2, 0, 1, 2]))

# %% multigammaln
x = nc.tensor([[6.53, 4.03, 2.48, 2.31, 7.73], [8.41, 6.33, 7.16, 5.9, 8.56], [7.75, 2.22, 8.03, 2.43, 7.16]])
nc.multigammaln(x, p=1)

# %% multilabel_margin_loss
x = nc.tensor([[-1.12, 1.9, -0.72, -1.53, 0.69], [1.3, -1.33, 0.29, 0.09, -0.32], [-1.93, 0.49, -0.52, -0.92, 1.7], [1.5, 0.89, -0.12, -1.73, 1.09]])
target = nc.tensor([[1, 4, -1, 2, 0], [3, -1, -1, -1, -1], [0, 1, 2, 3, 4], [-1, 0, 0, 0, 0]])
ag.multilabel_margin_loss(x, target, reduction='mean')

# %% multilabel_soft_margin_loss
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
target = nc.tensor([[1.0, 0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
ag.multilabel_soft_margin_loss(x, target, reduction='mean')

# %% mv
a = nc.tensor([[0.27, -0.46, -0.92, -0.97, 0.63], [0.83, 0.21, 0.46, 0.09, 0.87], [0.63, -0.99, 0.71, -0.93, 0.46]])
b = nc.tensor([-0.65, 0.73, 0.08, -0.4, -0.15])
nc.mv(a, b)

# %% nan_to_num
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
nc.nan_to_num(x)

# %% narrow
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65, 0.43], [0.92, 0.17, 1.74, 1.26, -1.99, 1.43, -1.87], [0.92, -1.3, 1.45, 0.17, -0.8, -0.31, -1.89]])
nc.narrow(x, axis=1, start=2, length=4)

# %% ndtr
result = nc.special.ndtr(nc.randn(13, 17))
result.shape

# %% ndtri
result = nc.special.ndtri(nc.randn(13, 17))
result.shape

# %% ne
a = nc.tensor([1.5, 1.5, 0.5])
b = nc.tensor([-2.0, 1.5, -2.0])
nc.ne(a, b)

# %% neg
x = nc.tensor([-1.84, -1.93, 1.25])
nc.neg(x)

# %% nextafter
a = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
b = nc.tensor([-1.3, 1.45, 0.17, -0.8, -0.31])
nc.nextafter(a, b)

# %% nll_ids
log_probabilities = nc.tensor([[1.84], [-0.52], [0.21]])
labels = nc.tensor([[0], [0], [0]])
ag.nll_ids(log_probabilities, labels)

# %% nll_loss
log_probabilities = nc.tensor([[1.84], [-0.52], [0.21]])
ag.nll_loss(log_probabilities, nc.tensor([0, 0, 0]))

# %% nonzero
x = nc.tensor([0.0, -1.5, 0.0, 2.0])
nc.nonzero(x, as_tuple=True)

# %% norm
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.norm(x, axis=None)

# %% norm_of_difference
a = nc.tensor([[-0.81, 0.69, -1.2, 1.77], [-0.54, -1.58, 0.52, 1.71], [-0.24, 1.82, -0.0, -0.3]])
b = nc.tensor([[0.48, 1.98, 1.8, -0.16], [1.03, -0.01, 0.12, 1.14], [-0.34, 0.94, 0.84, 1.73]])
ag.norm_of_difference(a, b, axis=0, keepdims=True, eps=0.001)

# %% normal
ag.normal(shape=(3, 5), mean=2.5, std=0.0)

# %% one_hot
nc.one_hot(nc.tensor([2, 0, 1]), num_classes=4)

# %% ormqr
x = nc.tensor([[0.27, -0.46, -0.92], [-0.97, 0.63, 0.83], [0.21, 0.46, 0.09], [0.87, 0.63, -0.99]])
tau = nc.tensor([0.89, 0.23, 0.78])
other = nc.tensor([[-0.65, 0.73], [0.08, -0.4], [-0.15, -0.94], [-0.75, 0.34]])
nc.ormqr(x, tau, other)

# %% outer
a = nc.tensor([0.27, -0.46, -0.92])
b = nc.tensor([-0.97, 0.63, 0.83, 0.21])
nc.outer(a, b)

# %% packed_fused
from netcl.core import packed

w = packed.quantize(nc.randn(4, 64), "Q8_0")
ag.packed_fused(nc.randn(1, 64), *w.parts, nc.ones(64), format="Q8_0", extras=("norm",), gate="silu")

# %% packed_linear
from netcl.core import packed

w = packed.quantize(nc.randn(3, 64), "Q8_0")
nc.ops.packed_linear(nc.randn(2, 64), w)

# %% packed_product
from netcl.core import packed

w = packed.quantize(nc.randn(3, 64), "Q8_0")
ag.packed_product(nc.randn(2, 64), *w.parts, format="Q8_0")

# %% packed_unpack
from netcl.core import packed

w = packed.quantize(nc.randn(2, 32), "Q4_0")
ag.packed_unpack(*w.parts, format="Q4_0")

# %% pad
x = nc.tensor([[0.46, -0.47, 1.99, 1.92], [0.74, 0.6, 0.75, -0.44], [-1.46, 0.89, 0.1, -0.76]])
result = nc.pad(x, pads=((1, 0), (0, 2)), value=1.5)
result.shape

# %% pair_distances
squares = nc.tensor([[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99], [0.71, -0.93, 0.46, -0.65]])
rows = nc.tensor([[2.86], [2.54], [2.3], [2.42]])
columns = nc.tensor([[2.03, 2.12, 2.67, 2.65]])
ag.pair_distances(squares, rows, columns, distance='squared')

# %% pairwise_distance
a = nc.tensor([[0.46, -0.47, 1.99, 1.92], [0.74, 0.6, 0.75, -0.44], [-1.46, 0.89, 0.1, -0.76]])
b = nc.tensor([-0.06, 1.56, 1.74, -0.57])
nc.pairwise_distance(a, b, p=1.0, keepdims=True)

# %% pdist
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
nc.pdist(x, p=2.0)

# %% permutation
nc.permutation(nc.tensor([[1.5], [1.5]]), axis=1)

# %% permute
x = nc.tensor([[0.46, -0.47, 1.99], [1.92, 0.74, 0.6], [0.75, -0.44, -1.46], [0.89, 0.1, -0.76], [-0.06, 1.56, 1.74]])
nc.permute(x, axes=(-1, 0))

# %% pixel_shuffle
x = nc.tensor([[[-0.7, 0.95, 0.78], [0.64, -0.04, -0.54]], [[0.6, 0.85, -0.47], [0.08, -0.11, 0.86]], [[-0.92, 0.46, 0.23], [-0.94, 0.44, -0.97]], [[0.52, 0.03, 0.86], [-0.87, 0.68, -0.87]]])
result = nc.pixel_shuffle(x, upscale_factor=2)
result.shape

# %% pixel_unshuffle
x = nc.tensor([[[-0.7, 0.95, 0.78, 0.64], [-0.04, -0.54, 0.6, 0.85]], [[-0.47, 0.08, -0.11, 0.86], [-0.92, 0.46, 0.23, -0.94]], [[0.44, -0.97, 0.52, 0.03], [0.86, -0.87, 0.68, -0.87]]])
result = nc.pixel_unshuffle(x, downscale_factor=2)
result.shape

# %% poisson
rate = nc.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
ag.poisson(rate)

# %% poisson_nll_loss
x = nc.tensor([[1.35, 0.69, 0.27, 0.23, 1.66], [1.84, 1.29, 1.51, 1.18, 1.88], [1.67, 0.2, 1.74, 0.26, 1.51]])
target = nc.tensor([[0.95, 3.49, 2.3, 1.41, 1.86], [0.4, 0.76, 2.78, 2.69, 2.58], [1.72, 3.99, 3.93, 2.84, 2.71]])
ag.poisson_nll_loss(x, target)

# %% polygamma
x = nc.tensor([0.6, 0.96, 0.48, 1.15, 1.11, 0.62, 1.19, 0.45, 0.7, 4.37, 9.89, 16.25, 5.84, 2.56, 9.04, 5.25, 3.27, 12.28])
nc.polygamma(2, x)

# %% polygamma_of
x = nc.tensor([0.6, 0.96, 0.48, 1.15, 1.11, 0.62, 1.19, 0.45, 0.7, 4.37, 9.89, 16.25, 5.84, 2.56, 9.04, 5.25, 3.27, 12.28])
ag.polygamma_of(x, n=2)

# %% polynomial_end
x = nc.tensor([0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
p = nc.tensor([0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13])
ag.polynomial_end(x, n, p)

# %% polynomial_start
x = nc.tensor([0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
ag.polynomial_start(x, n, kind='chebyshev_polynomial_w')

# %% polynomial_steps
x = nc.tensor([0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
p = nc.tensor([0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13])
q = nc.tensor([0.21, 0.7, 0.68, 0.65, 0.45, 1.0, 0.98])
ag.polynomial_steps(x, n, p, q, kind='laguerre_polynomial_l')

# %% pow
a = nc.tensor([[0.37], [2.56], [0.23]])
b = nc.tensor([[2.62, 2.93, 2.24, 2.32]])
nc.pow(a, b)

# %% prelu
x = nc.tensor([1.25, 1.65, 0.43])
alpha = nc.tensor([-1.99, 1.43, -1.87])
nc.ops.prelu(x, alpha)

# %% prod
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.prod(x, axis=None)

# %% put_along_axis
x = nc.tensor([[0.75, -0.44], [-1.46, 0.89], [0.1, -0.76], [-0.06, 1.56], [1.74, -0.57]])
index = nc.tensor([[4, 0], [3, 1], [2, 3], [0, 4], [1, 2]])
ag.put_along_axis(x, index, axis=0, shape=(5, 2))

# %% put_at
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
source = nc.tensor([[-1.3, 1.45, 0.17], [-0.8, -0.31, -1.89], [-1.5, 0.68, 0.59], [0.46, -0.47, 1.99]])
ag.put_at(x, nc.tensor([4, 0, 0, -1]), source, axis=0)

# %% quantile
x = nc.tensor([-0.67, 0.67, 0.0, 2.0, 1.33, -2.0, -1.33])
nc.quantile(x, q=0.3)

# %% rand
nc.rand(2, 3)

# %% randint
nc.randint(0, 10, (5,))

# %% randn
nc.randn(2, 3)

# %% randperm
nc.randperm(5)

# %% reciprocal
x = nc.tensor([0.31, 0.25, 2.48])
nc.reciprocal(x)

# %% recurrence
x = nc.tensor([[[-0.03], [-0.45]], [[-0.49], [-0.4]], [[0.05], [0.49]]])
state = nc.tensor([[0.47], [0.43]])
nc.recurrence(x, nc.tensor([[0.33]]), state, nc.tensor([0.4]), kind='relu', reverse=True)

# %% recurrence_back
result = ag.recurrence_back(nc.randn(80, 20), nc.randn(7, 20), nc.randn(3, 7, 20), nc.randn(3, 7, 20), nc.randn(3, 7, 80), nc.randn(3, 7, 20), nc.randn(3, 7, 20), nc.randn(7, 20), kind='lstm', reverse=True)
[part.shape for part in result]

# %% reduce_at
x = nc.tensor([[1.13, -1.3, 1.65], [-0.26, -0.09, -1.65], [1.83, -0.96, 2.0], [-1.48, 1.48, -0.61]])
index = nc.tensor([[1, 1], [0, 0], [0, 0], [2, 2], [2, 1], [2, 3]])
source = nc.tensor([[-2.0, 0.78], [0.09, 1.3], [0.26, -0.78], [-1.13, 0.96], [0.43, -0.43], [-1.83, 0.61]])
ag.reduce_at(x, index, source, axis=0, how='sum', include_self=True)

# %% relu
x = nc.tensor([-1.84, -1.93, 1.25])
nc.relu(x)

# %% relu6
x = nc.tensor([-1.84, -1.93, 1.25])
nc.relu6(x)

# %% renorm
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92], [-1.3, 1.45, 0.17, -0.8, -0.31]])
nc.renorm(x, p=2, axis=0, maxnorm=1.5)

# %% renormed
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92], [-1.3, 1.45, 0.17, -0.8, -0.31]])
ag.renormed(x, p=2, axis=0, maxnorm=1.5)

# %% repeat
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65]])
nc.repeat(x, repeats=2, axis=1)

# %% resample
x = nc.tensor([[[-0.02], [0.95], [0.55]], [[-0.38], [-0.46], [0.73]]])
ag.resample(x, size=(3,), taps=2, places=((0, 0, 1),))

# %% resample_grad
grad_output = nc.tensor([[[0.75, -0.06, 0.83], [0.53, 0.83, -0.75], [-0.85, -0.86, 0.74]], [[0.27, -0.01, -0.67], [0.35, -0.36, 0.42], [-0.08, 0.01, 0.58]]])
ag.resample_grad(grad_output, shape=(2, 3, 1), taps=2, places=((0, 0, 1),))

# %% reshape
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65], [0.43, 0.92, 0.17, 1.74, 1.26, -1.99]])
nc.reshape(x, shape=(3, -1))

# %% right_shift
a = nc.tensor([70, 27, 2], dtype="int32")
b = nc.tensor([5, 4, 0], dtype="int32")
nc.right_shift(a, b)

# %% rms_norm
x = nc.tensor([[[-0.76, -0.06, 1.56, 1.74, -0.57], [0.29, -0.71, 0.38, -0.65, -0.43], [1.56, -1.09, 0.49, -1.66, 1.33]], [[1.15, -1.04, 1.51, -1.77, -0.66], [-1.4, -0.2, 1.19, -1.08, -1.79], [-0.38, -1.21, -1.64, 0.32, -0.81]]])
result = nc.rms_norm(x, (3, 5), eps=0.001)
result.shape

# %% rms_scale
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
weight = nc.tensor([0.76, 1.79, 1.31, 0.95, 1.13])
ag.rms_scale(x, weight, axes=(1,))

# %% roll
x = nc.tensor([0.55, -0.92, -1.84, -1.93, 1.25])
nc.roll(x, shift=2)

# %% rope
result = nc.rope(nc.randn(2, 3, 5, 8))
result.shape

# %% rot90
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65]])
nc.rot90(x)

# %% rotate_pairs
result = ag.rotate_pairs(nc.randn(2, 5, 4), nc.randn(2, 5, 4), offset=2.0)
[part.shape for part in result]

# %% round
x = nc.tensor([[0.84], [-0.16], [0.05], [1.16], [-1.63]])
nc.round(x)

# %% rrelu
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
nc.rrelu(x)

# %% rsqrt
x = nc.tensor([0.31, 0.25, 2.48])
nc.rsqrt(x)

# %% sampled_matmul
a = nc.tensor([[-1.76, -0.48], [-0.28, -0.04], [1.91, 1.1]])
b = nc.tensor([[-0.76, -0.92], [1.45, 1.53]])
here = [nc.tensor([0, 0, 0, 0], dtype="int32"), nc.randn(0), nc.randn(0)]
there = [nc.tensor([0, 0, 0], dtype="int32"), nc.randn(0), nc.randn(0), nc.randn(0), nc.randn(0)]
ag.sampled_matmul(a, b, here, there)

# %% scaled_dot_product_attention
q = nc.tensor([[0.42, -0.33, 0.86, -0.35], [-0.36, -0.94, 0.4, -0.78], [-0.9, 0.31, 0.94, -0.87], [0.52, -0.54, 0.72, -0.98], [-0.61, 0.95, 0.15, -0.74]])
k = nc.tensor([[-0.99, -0.18, -0.13, 0.07], [0.36, -0.69, -0.36, -0.89], [0.99, -0.15, 0.36, -0.43], [-0.72, -0.61, -0.97, 0.38], [0.98, -0.82, -0.67, 0.6], [0.27, 0.9, -0.27, -0.14], [-0.43, 0.61, -0.62, -0.24]])
v = nc.tensor([[0.32, 0.83, 0.63, -0.83], [0.73, 0.58, -0.06, 0.11], [-0.11, -0.89, -0.36, 0.83], [0.2, -0.8, 0.1, 0.24], [0.62, 0.16, -0.6, 0.94], [-0.41, 0.45, 0.38, 0.85], [0.53, -0.22, -0.9, 0.31]])
mask = nc.tensor([[-0.98, -0.9, -0.95, 0.15, 0.57, -0.86, -0.36], [-0.24, 0.8, 0.29, -0.19, 0.84, 0.37, 0.34], [0.42, 0.08, -0.07, 0.94, 0.14, -0.19, -0.81], [-0.62, 0.97, 0.92, -0.99, -0.84, 0.36, -0.56], [0.33, -0.58, -0.21, -0.35, -0.51, 0.55, -0.39]])
nc.scaled_dot_product_attention(q, k, v, mask)

# %% scaled_modified_bessel_k0
nc.special.scaled_modified_bessel_k0(nc.tensor([0.5, 1.0, 2.0]))

# %% scaled_modified_bessel_k1
nc.special.scaled_modified_bessel_k1(nc.tensor([0.5, 1.0, 2.0]))

# %% scatter
x = nc.tensor([[-0.0, -0.3, 0.48], [1.98, 1.8, -0.16], [1.03, -0.01, 0.12], [1.14, -0.34, 0.94]])
index = nc.tensor([[2, 2, 3], [3, 0, 0], [0, 2, 3], [3, 2, 3], [3, 0, 0], [3, 0, 3]])
nc.scatter(x, 0, index, 1.5)

# %% scatter_add
x = nc.tensor([[-0.0, -0.3, 0.48], [1.98, 1.8, -0.16], [1.03, -0.01, 0.12], [1.14, -0.34, 0.94]])
index = nc.tensor([[2, 2, 3], [3, 0, 0], [0, 2, 3], [3, 2, 3], [3, 0, 0], [3, 0, 3]])
nc.scatter_add(x, 0, index, 1.5)

# %% scatter_reduce
x = nc.tensor([[1.13, -1.3, 1.65], [-0.26, -0.09, -1.65], [1.83, -0.96, 2.0], [-1.48, 1.48, -0.61]])
index = nc.tensor([[1, 1], [0, 0], [0, 0], [2, 2], [2, 1], [2, 3]])
src = nc.tensor([[-2.0, 0.78], [0.09, 1.3], [0.26, -0.78], [-1.13, 0.96], [0.43, -0.43], [-1.83, 0.61]])
nc.scatter_reduce(x, 0, index, src, 'sum', include_self=True)

# %% searchsorted
nc.searchsorted(nc.tensor([1, 3, 3, 7]), nc.tensor([3, 8]), side='left')

# %% selu
x = nc.tensor([-1.84, -1.93, 1.25])
nc.selu(x)

# %% setitem
x = nc.zeros(2, 3)
x[0, 1:] = 5.0
x

# %% shifted_chebyshev_polynomial_t
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.shifted_chebyshev_polynomial_t(x, n)

# %% shifted_chebyshev_polynomial_u
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.shifted_chebyshev_polynomial_u(x, n)

# %% shifted_chebyshev_polynomial_v
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.shifted_chebyshev_polynomial_v(x, n)

# %% shifted_chebyshev_polynomial_w
x = nc.tensor([[0.67, 0.34, 0.14, 0.11, 0.83, 0.92, 0.65], [0.76, 0.59, 0.94, 0.83, 0.1, 0.87, 0.13], [0.76, 0.26, 0.88, 0.59, 0.37, 0.48, 0.13]])
n = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
nc.special.shifted_chebyshev_polynomial_w(x, n)

# %% sigmoid
x = nc.tensor([-1.84, -1.93, 1.25])
nc.sigmoid(x)

# %% sign
x = nc.tensor([-1.84, -1.93, 1.25])
nc.sign(x)

# %% signbit
x = nc.tensor([-1.84, -1.93, 1.25])
nc.signbit(x)

# %% silu
x = nc.tensor([-1.84, -1.93, 1.25])
nc.silu(x)

# %% sin
x = nc.tensor([-1.84, -1.93, 1.25])
nc.sin(x)

# %% sinc
x = nc.tensor([0.55, -0.92, -1.84])
nc.sinc(x)

# %% sinh
x = nc.tensor([-1.84, -1.93, 1.25])
nc.sinh(x)

# %% smooth_error
x = nc.tensor([[1.71, 1.87, -1.94], [1.45, 1.92, 1.83], [-1.4, 1.89, 1.56], [1.29, -0.08, -1.07]])
target = nc.tensor([[1.21], [1.69], [-0.94], [0.16]])
ag.smooth_error(x, target)

# %% smooth_l1_loss
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25], [1.65, 0.43, 0.92, 0.17, 1.74], [1.26, -1.99, 1.43, -1.87, 0.92]])
target = nc.tensor([[-1.3, 1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59, 0.46], [-0.47, 1.99, 1.92, 0.74, 0.6]])
ag.smooth_l1_loss(x, target, reduction='mean')

# %% soft_margin_loss
x = nc.tensor([[1.71, 1.87, -1.94], [1.45, 1.92, 1.83], [-1.4, 1.89, 1.56], [1.29, -0.08, -1.07]])
target = nc.tensor([[1.21], [1.69], [-0.94], [0.16]])
ag.soft_margin_loss(x, target)

# %% softmax
x = nc.tensor([[2.56], [-0.36]])
nc.softmax(x, axis=-1)

# %% softplus
x = nc.tensor([-1.84, -1.93, 1.25])
nc.softplus(x)

# %% softshrink
x = nc.tensor([0.6, -0.92, -1.84])
nc.softshrink(x)

# %% softsign
x = nc.tensor([-1.84, -1.93, 1.25])
nc.softsign(x)

# %% sort
x = nc.tensor([[1.0], [-1.0], [0.0], [-2.0], [2.0]])
nc.sort(x, axis=-1)

# %% sorted_values
x = nc.tensor([[1.0], [-1.0], [0.0], [-2.0], [2.0]])
ag.sorted_values(x, axis=-1)

# %% spherical_bessel_j0
nc.special.spherical_bessel_j0(nc.tensor([0.5, 1.0, 2.0]))

# %% split
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65, 0.43], [0.92, 0.17, 1.74, 1.26, -1.99, 1.43, -1.87]])
nc.split(x, size=3, axis=1)

# %% sqrt
x = nc.tensor([0.31, 0.25, 2.48])
nc.sqrt(x)

# %% square
x = nc.tensor([-1.84, -1.93, 1.25])
nc.square(x)

# %% squared_error
x = nc.tensor([[1.71, 1.87, -1.94], [1.45, 1.92, 1.83], [-1.4, 1.89, 1.56], [1.29, -0.08, -1.07]])
target = nc.tensor([[1.21], [1.69], [-0.94], [0.16]])
ag.squared_error(x, target)

# %% squeeze
x = nc.tensor([[[0.55], [-0.92], [-1.84]]])
nc.squeeze(x)

# %% stack
tensors = [nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65]]), nc.tensor([[0.43, 0.92, 0.17], [1.74, 1.26, -1.99]])]
nc.stack(tensors, axis=1)

# %% standardize
x = nc.tensor([[[0.38, -0.65, -0.43, 1.56, -1.09], [0.49, -1.66, 1.33, 1.15, -1.04]], [[1.51, -1.77, -0.66, -1.4, -0.2], [1.19, -1.08, -1.79, -0.38, -1.21]], [[-1.64, 0.32, -0.81, 0.69, -1.2], [1.77, -0.54, -1.58, 0.52, 1.71]]])
result = ag.standardize(x, axes=(0, 2), eps=0.001)
result.shape

# %% std
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.std(x, axis=None)

# %% std_mean
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.std_mean(x, axis=None)

# %% strided_scatter
ag.strided_scatter(nc.tensor([0.43, 0.92]), shape=(4,), starts=(1,), steps=(1,), value=1.5)

# %% strided_slice
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65], [0.43, 0.92, 0.17, 1.74, 1.26, -1.99], [1.43, -1.87, 0.92, -1.3, 1.45, 0.17], [-0.8, -0.31, -1.89, -1.5, 0.68, 0.59], [0.46, -0.47, 1.99, 1.92, 0.74, 0.6]])
ag.strided_slice(x, starts=(4, 1), steps=(-2, 2), sizes=(3, 2))

# %% sub
a = nc.tensor([1.25, 1.65, 0.43])
b = nc.tensor([-1.99, 1.43, -1.87])
nc.sub(a, b)

# %% sum
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.sum(x, axis=None)

# %% take
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
nc.take(x, indices=[[7, 0], [-1, 2]])

# %% take_along_axis
x = nc.tensor([[0.74, 0.6, 0.75], [-0.44, -1.46, 0.89]])
nc.take_along_axis(x, indices=nc.tensor([5, 0, 0]), axis=None)

# %% take_at
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65], [0.43, 0.92, 0.17], [1.74, 1.26, -1.99], [1.43, -1.87, 0.92]])
index = nc.tensor([[4, 0], [0, -1]])
ag.take_at(x, index, axis=0)

# %% tan
x = nc.tensor([-0.83, -0.87, 0.56])
nc.tan(x)

# %% tanh
x = nc.tensor([-1.84, -1.93, 1.25])
nc.tanh(x)

# %% tanhshrink
x = nc.tensor([0.55, -0.92, -1.84])
nc.tanhshrink(x)

# %% tensordot
a = nc.tensor([[-0.17, 0.66, -0.98], [-0.27, -0.84, 0.31]])
b = nc.tensor([-0.45, 0.41, 0.89, -0.75])
result = nc.tensordot(a, b, axes=0)
result.shape

# %% threshold
x = nc.tensor([-1.84, -1.93, 1.25])
nc.threshold(x)

# %% tile
x = nc.tensor([0.43, 0.92, 0.17])
nc.tile(x, reps=2)

# %% tiled_attention
q = nc.tensor([[0.75, -0.05, -0.93, 0.49], [0.58, 0.93, -0.93, 0.63], [-0.33, 0.33, 0.8, -0.5], [0.99, -0.92, -0.77, -0.04], [0.44, 0.85, 0.69, 0.94]])
k = nc.tensor([[-0.12, -0.19, 0.18, 0.38], [0.81, 0.18, 0.81, -0.17], [0.54, 1.0, -0.84, 0.41], [0.81, 0.79, 0.75, -0.44], [-0.19, 0.02, 0.94, -0.47], [0.32, 0.52, -0.71, 0.74], [0.01, 0.91, 0.78, 0.89]])
v = nc.tensor([[-0.63, 0.67, 0.73, 0.89], [0.3, -0.26, 0.17, -0.68], [0.99, 0.44, -0.32, 0.84], [0.42, -0.33, 0.86, -0.35], [-0.36, -0.94, 0.4, -0.78], [-0.9, 0.31, 0.94, -0.87], [0.52, -0.54, 0.72, -0.98]])
mask = nc.tensor([[False, True, True, False, False, True, True], [True, True, False, False, False, True, True], [True, False, False, False, False, True, True], [False, False, True, True, True, False, True], [False, True, False, False, True, True, True]])
result = ag.tiled_attention(q, k, v, mask)
[part.shape for part in result]

# %% tiled_attention_gradients
grad = nc.tensor([[0.16, -0.46, -0.34, -0.48], [-0.81, -0.64, -0.49, 0.68], [-0.56, 0.66, 0.49, 0.95], [0.51, -0.77, 0.88, 0.68], [-0.11, -0.13, -0.94, -0.56]])
q = nc.tensor([[-0.5, -0.35, -0.87, 0.5], [-0.44, 0.36, -0.45, 0.68], [-0.52, -0.76, 0.56, -0.54], [-0.65, 0.14, -0.88, 0.12], [-0.96, -0.14, -0.17, -0.83]])
k = nc.tensor([[-0.84, 0.17, -0.99, 0.46], [-0.26, -0.47, 0.9, -0.96], [0.25, -0.96, -0.24, -0.37], [-0.84, 0.57, 0.14, -0.85], [0.95, -0.78, -0.02, -0.94], [-0.19, -0.02, 0.71, 0.36], [-0.3, -0.63, -0.91, -0.34]])
v = nc.tensor([[-0.87, -0.65, 0.3, -0.6], [-0.25, -0.99, 0.83, 0.68], [-0.81, 0.37, -0.02, 0.64], [-0.64, -0.64, 0.91, -0.58], [-0.13, -0.67, -0.35, -0.34], [0.22, 0.06, 0.91, 0.62], [0.49, -0.41, -0.39, -0.08]])
mask = nc.tensor([[False, False, False, False, False, True, True], [True, False, False, True, True, True, False], [True, False, True, True, False, True, True], [True, False, False, True, True, True, True], [False, False, False, True, False, False, False]])
out = nc.tensor([[0.43, -0.31, -0.12, 0.06], [-0.6, -0.52, 0.49, -0.36], [-0.32, -0.18, 0.35, 0.09], [-0.39, -0.54, 0.23, -0.37], [-0.64, -0.64, 0.91, -0.58]])
lse = nc.tensor([1.22, 1.7, 1.95, 2.24, 1.4])
result = ag.tiled_attention_gradients(grad, q, k, v, mask, out, lse)
[part.shape for part in result]

# %% topk
x = nc.tensor([[1.2, -0.4, -2.0], [0.4, -1.2, 2.0]])
nc.topk(x, k=0)

# %% trace
x = nc.tensor([[0.27, -0.46, -0.92, -0.97], [0.63, 0.83, 0.21, 0.46], [0.09, 0.87, 0.63, -0.99]])
nc.trace(x)

# %% transfer
x = nc.tensor([[0.55, -0.92, -1.84], [-1.93, 1.25, 1.65]])
ag.transfer(x)

# %% transpose
x = nc.tensor([[[0.55, -0.92, -1.84, -1.93], [1.25, 1.65, 0.43, 0.92], [0.17, 1.74, 1.26, -1.99]], [[1.43, -1.87, 0.92, -1.3], [1.45, 0.17, -0.8, -0.31], [-1.89, -1.5, 0.68, 0.59]]])
result = nc.transpose(x)
result.shape

# %% trapezoid
y = nc.tensor([[-0.62], [-0.28], [1.86]])
nc.trapezoid(y)

# %% tril
x = nc.tensor([[-0.06, 1.56, 1.74], [-0.57, 0.29, -0.71], [0.38, -0.65, -0.43]])
nc.tril(x, diagonal=-1)

# %% tril_indices
nc.tril_indices(3, 4)

# %% triplet_loss
anchor = nc.tensor([[0.13, -0.13, 0.64, 0.1], [-0.54, 0.36, 1.3, 0.95], [-0.7, -1.27, -0.62, 0.04], [-2.33, -0.22, -1.25, -0.73], [-0.54, -0.32, 0.41, 1.04], [-0.13, 1.37, -0.67, 0.35]])
positive = nc.tensor([[0.9, 0.09, -0.74, -0.92], [-0.46, 0.22, -1.01, -0.21], [-0.16, 0.54, 0.21, 0.36], [-0.65, -0.13, 0.78, 1.49], [-1.26, 1.51, 1.35, 0.78], [0.26, -0.31, 1.46, 1.96]])
negative = nc.tensor([[1.8, 1.32, 0.36, -1.21], [-0.0, 0.66, -1.29, 0.4], [0.43, 0.7, -1.18, -0.66], [-0.44, -1.17, 1.74, -0.5], [0.33, -0.26, 1.58, 1.32], [0.63, -2.2, 0.05, 0.68]])
ag.triplet_loss(anchor, positive, negative)

# %% triplet_margin_loss
anchor = nc.tensor([[0.13, -0.13, 0.64, 0.1], [-0.54, 0.36, 1.3, 0.95], [-0.7, -1.27, -0.62, 0.04], [-2.33, -0.22, -1.25, -0.73], [-0.54, -0.32, 0.41, 1.04], [-0.13, 1.37, -0.67, 0.35]])
positive = nc.tensor([[0.9, 0.09, -0.74, -0.92], [-0.46, 0.22, -1.01, -0.21], [-0.16, 0.54, 0.21, 0.36], [-0.65, -0.13, 0.78, 1.49], [-1.26, 1.51, 1.35, 0.78], [0.26, -0.31, 1.46, 1.96]])
negative = nc.tensor([[1.8, 1.32, 0.36, -1.21], [-0.0, 0.66, -1.29, 0.4], [0.43, 0.7, -1.18, -0.66], [-0.44, -1.17, 1.74, -0.5], [0.33, -0.26, 1.58, 1.32], [0.63, -2.2, 0.05, 0.68]])
ag.triplet_margin_loss(anchor, positive, negative)

# %% triu
x = nc.tensor([[-0.06, 1.56, 1.74], [-0.57, 0.29, -0.71], [0.38, -0.65, -0.43]])
nc.triu(x, diagonal=-1)

# %% triu_indices
nc.triu_indices(3, 4)

# %% trunc
x = nc.tensor([[0.84], [-0.16], [0.05], [1.16], [-1.63]])
nc.trunc(x)

# %% unbind
x = nc.tensor([[0.55, -0.92], [-1.84, -1.93], [1.25, 1.65]])
nc.unbind(x, axis=1)

# %% uniform
nc.uniform(shape=(3, 5), low=2.5, high=2.5)

# %% unique
x = nc.tensor([True, True, True, True, True, True, False, True, False, False, True, False, False, False, False, True, False, False, True, True])
result = nc.unique(x, return_inverse=True)
[part.shape for part in result]

# %% unique_consecutive
x = nc.tensor([[0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.0, 0.5, 0.5, 0.0, 0.0, 0.5, 0.5], [0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.5, 0.0, 0.5]])
nc.unique_consecutive(x)

# %% unravel_index
indices = nc.tensor([3, 4, 6, 5, 4])
nc.unravel_index(indices, shape=7)

# %% unsqueeze
x = nc.tensor([[0.55, -0.92, -1.84, -1.93], [1.25, 1.65, 0.43, 0.92], [0.17, 1.74, 1.26, -1.99]])
nc.unsqueeze(x, axis=1)

# %% upsample
x = nc.tensor([[[[0.23, -0.23], [0.99, 0.96], [0.37, 0.3]], [[0.38, -0.22], [-0.73, 0.44], [0.05, -0.38]]]])
result = nc.upsample(x, scale_factor=(2, 3))
result.shape

# %% vander
x = nc.tensor([0.55, -0.92, -1.84, -1.93])
nc.vander(x)

# %% var
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.var(x, axis=None)

# %% var_mean
x = nc.tensor([-0.63, 0.63, 0.0, 1.9, 1.27, -1.9, -1.27])
nc.var_mean(x, axis=None)

# %% vstack
tensors = [nc.tensor([0.55, -0.92, -1.84]), nc.tensor([-1.93, 1.25, 1.65])]
nc.vstack(tensors)

# %% weighted_sum
a = nc.tensor([0.55, -0.92, -1.84])
b = nc.tensor([-1.49, -1.71, -1.72])
ag.weighted_sum(a, b)

# %% where
condition = nc.tensor([False, True, True])
a = nc.tensor([-0.34, 0.94, 0.84])
nc.where(condition, a, 1.5)

# %% windows
x = nc.tensor([[0.55, -0.92, -1.84, -1.93, 1.25, 1.65, 0.43], [0.92, 0.17, 1.74, 1.26, -1.99, 1.43, -1.87]])
result = ag.windows(x, axis=1, size=3, step=1)
result.shape

# %% xlog1py
a = nc.tensor([1.98, 0.96, 0.31])
b = nc.tensor([-0.14, -0.34, -0.35])
nc.special.xlog1py(a, b)

# %% xlogy
a = nc.tensor([1.98, 0.96, 0.31])
b = nc.tensor([0.56, 0.41, 0.4])
nc.xlogy(a, b)

# %% zeta
result = nc.special.zeta(nc.randn(13, 17), nc.randn(13, 17))
result.shape
