"""The methods that rows of the op table state by ``forms``; written by tools/write_stubs.py."""

from __future__ import annotations

# Methods of rows; after = the row's name if it is another.
ROWS = """
abs absolute=abs acos acosh addcdiv addcmul addmm all amax amin any arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh
arctan2=atan2 arctan=atan arctanh=atanh argmax argmin argsort asin asinh atan atan2 atanh baddbmm bincount bitwise_and
bitwise_left_shift=left_shift bitwise_not bitwise_or bitwise_right_shift=right_shift bitwise_xor bmm broadcast_to=expand
ceil cholesky=linalg_cholesky chunk clone copysign corrcoef cos cosh count_nonzero cov cummax cummin cumprod cumsum
det=linalg_det diag diagonal diff digamma eq erf erfc erfinv exp exp2 expm1 fix=trunc flatten floor floor_divide gather
ge geqrf ger=outer greater=gt greater_equal=ge gt hardshrink heaviside histc histogram hypot i0 igamma igammac index_add
index_copy index_put index_reduce index_select inverse=linalg_inv isclose isfinite isinf isnan kron kthvalue le lerp
less=lt less_equal=le lgamma log log10 log1p log2 logaddexp logcumsumexp logdet logical_and logical_not logical_or
logical_xor logit logsumexp lt masked_fill masked_select matmul matrix_exp matrix_power=linalg_matrix_power max maximum
median min minimum mm=matmul mode mul multiply=mul mv=matmul mvlgamma=multigammaln nan_to_num narrow ne neg negative=neg
nextafter nonzero not_equal=ne orgqr=linalg_householder_product ormqr outer pinverse=linalg_pinv quantile reciprocal
relu remainder=mod renorm rot90 rsqrt scatter_add scatter_reduce sgn=sign sigmoid sign signbit sin sinc sinh
slogdet=linalg_slogdet sort split sqrt square squeeze std tan tanh topk trace tril triu trunc unbind unique_consecutive
unsqueeze var xlogy
"""

# Those with the form ``name_``.
IN_PLACE = """
abs absolute acos acosh addcdiv addcmul addmm arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2
atanh baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil copysign cos
cosh cumprod cumsum digamma eq erf erfc erfinv exp exp2 expm1 fix floor floor_divide ge greater greater_equal gt
heaviside hypot i0 igamma igammac index_add index_copy index_put index_reduce le lerp less less_equal lgamma log log10
log1p log2 logical_and logical_not logical_or logical_xor logit lt masked_fill mul multiply mvlgamma nan_to_num ne neg
negative nextafter not_equal reciprocal relu remainder renorm rsqrt scatter_add scatter_reduce sgn sigmoid sign sin sinc
sinh sqrt square tan tanh tril triu trunc xlogy
"""

# Functions of the form ``name_``.
FRONT = """
abs acos acosh alpha_dropout arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil celu cos cosh
dropout erf erfc exp exp2 expm1 feature_alpha_dropout feature_dropout fix floor i0 index_put log log10 log1p log2 logit
nan_to_num neg negative reciprocal relu rrelu rsqrt selu sigmoid sin sinc sinh sqrt square tan tanh threshold trunc
xlogy
"""
