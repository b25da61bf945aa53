"""The types of the methods of tensors; written by tools/write_stubs.py."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, overload

from typing_extensions import Self

from netcl.core.tensor import Tensor, memory_format
from netcl.core.tensor.operators import Operators, ResultT
from netcl.core.tensor.sparse import SparseTensor
from netcl.ops.ranked import Ranked
from netcl.ops.signatures import Axis, Ints, Operand

SAME: str
ALIASES: dict[str, str]
IN_PLACE: str
NEVER: tuple[str, ...]
RESTRUCTURING: tuple[str, ...]
FUNCTIONS: dict[str, Callable[..., Any]]

def describe() -> None:
    """Gives methods the signatures and docstrings of their rows."""

def extended(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of a row, or one that also takes the arguments of the method of the same name."""

def with_zero_gradient(value: Any, *operands: Any) -> Any:
    """Returns ``value``, a constant of the operands, with a gradient of zero for each."""

class Methods(Operators[ResultT], Generic[ResultT]):
    """The methods of tensors."""

    @property
    def T(self) -> ResultT: ...
    @property
    def mT(self) -> ResultT: ...
    @property
    def H(self) -> ResultT: ...
    @property
    def mH(self) -> ResultT: ...
    @property
    def real(self) -> Self: ...
    @property
    def is_cuda(self) -> builtins.bool: ...
    @property
    def is_meta(self) -> builtins.bool: ...
    @property
    def is_cpu(self) -> builtins.bool: ...
    @property
    def is_sparse(self) -> builtins.bool: ...
    @property
    def layout(self) -> memory_format.layout: ...
    @property
    def itemsize(self) -> builtins.int: ...
    @property
    def is_leaf(self) -> builtins.bool: ...
    @property
    def is_ipu(self) -> builtins.bool: ...
    @property
    def is_maia(self) -> builtins.bool: ...
    @property
    def is_mkldnn(self) -> builtins.bool: ...
    @property
    def is_mps(self) -> builtins.bool: ...
    @property
    def is_mtia(self) -> builtins.bool: ...
    @property
    def is_nested(self) -> builtins.bool: ...
    @property
    def is_quantized(self) -> builtins.bool: ...
    @property
    def is_sparse_csr(self) -> builtins.bool: ...
    @property
    def is_vulkan(self) -> builtins.bool: ...
    @property
    def is_xla(self) -> builtins.bool: ...
    @property
    def is_xpu(self) -> builtins.bool: ...
    def abs(self) -> ResultT:
        """Returns |x|."""
    def absolute(self) -> ResultT:
        """Returns |x|."""
    def acos(self) -> ResultT:
        """Returns the inverse cosine, in radians."""
    def acosh(self) -> ResultT:
        """Returns the inverse hyperbolic cosine; NaN below 1."""
    def add(self, other: Any, *, alpha: Any = 1) -> ResultT:
        """x + alpha * other."""
    def addbmm(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> ResultT:
        """beta * x + alpha * the sum of the products of a batch of matrices."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> ResultT:
        """Returns x + value tensor1 / tensor2, broadcast. Raises DTypeError for integers to be divided, as PyTorch does."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> ResultT:
        """Returns x + value tensor1 tensor2, broadcast. Integers stay integers, if ``value`` is one; else raises DTypeError."""
    def addmm(self, a: Tensor, b: Tensor, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> ResultT:
        """Returns beta x + alpha a @ b for matrices a (M, K) and b (K, N); x broadcasts to (M, N), and is ignored at beta 0. beta and alpha of whole numbers are whole, without the digits after the point."""
    def addmv(self, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> ResultT:
        """beta * x + alpha * mat @ vec."""
    def addr(self, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> ResultT:
        """beta * x + alpha * outer(vec1, vec2)."""
    def adjoint(self) -> ResultT:
        """The last two axes exchanged."""
    def all(self, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None) -> ResultT:
        """True if every element over ``axis`` is nonzero; True for no elements."""
    def allclose(self, other: Any, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
        """True if all elements are as close as ``isclose`` asks for."""
    def amax(self, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the largest element over ``axis``; NaN wins; ties share the gradient evenly. Raises ShapeError for no elements."""
    def amin(self, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the smallest element over ``axis``; NaN wins; ties share the gradient evenly. Raises ShapeError for no elements."""
    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> tuple[ResultT, ResultT]:
        """The least and the greatest element, over ``dim`` or all."""
    def angle(self) -> ResultT:
        """The angle of a number in the complex plane: pi if it is negative, else 0; NaN for NaN."""
    def any(self, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None) -> ResultT:
        """True if any element over ``axis`` is nonzero; False for no elements."""
    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Gives every element the value that a Python function has for it; on the host, and slow."""
    def arccos(self) -> ResultT:
        """Returns the inverse cosine, in radians."""
    def arccosh(self) -> ResultT:
        """Returns the inverse hyperbolic cosine; NaN below 1."""
    def arcsin(self) -> ResultT:
        """Returns the inverse sine, in radians."""
    def arcsinh(self) -> ResultT:
        """Returns the inverse hyperbolic sine."""
    def arctan(self) -> ResultT:
        """Returns the inverse tangent, in radians."""
    def arctan2(self, b: Operand) -> ResultT:
        """Returns the angle of the point (b, a)."""
    def arctanh(self) -> ResultT:
        """Returns the inverse hyperbolic tangent; NaN beyond 1."""
    def argmax(self, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the position of the first largest element along ``axis``, or of the flattened tensor for None; int64."""
    def argmin(self, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the position of the first smallest element along ``axis``, or of the flattened tensor for None; int64."""
    def argsort(self, axis: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = True, *, dim: builtins.int | None = None) -> ResultT:
        """Returns the positions, int64, that put the elements along ``axis`` in order, as in ``sort``."""
    def argwhere(self) -> ResultT:
        """The indices of the elements that are not zero, one row for each."""
    def as_strided(self, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> ResultT:
        """The elements of the storage at storage_offset + i * stride, of shape ``size``: a view, of which a write into elements that share memory is refused. The offset is by default that of the tensor."""
    def as_strided_(self, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Self:
        """``as_strided`` in place: the tensor has the shape of the result, on the same storage; returns it."""
    def as_strided_scatter(self, src: Any, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> ResultT:
        """A copy in which ``as_strided(size, stride, storage_offset)`` is ``src``."""
    def asin(self) -> ResultT:
        """Returns the inverse sine, in radians."""
    def asinh(self) -> ResultT:
        """Returns the inverse hyperbolic sine."""
    def atan(self) -> ResultT:
        """Returns the inverse tangent, in radians."""
    def atan2(self, b: Operand) -> ResultT:
        """Returns the angle of the point (b, a)."""
    def atanh(self) -> ResultT:
        """Returns the inverse hyperbolic tangent; NaN beyond 1."""
    def baddbmm(self, a: Tensor, b: Tensor, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> ResultT:
        """Returns beta x + alpha a @ b for stacks a (B, M, K), b (B, K, N); x broadcasts to (B, M, N), as in ``addmm``."""
    def bernoulli(self, p: Any = None, *, generator: Any = None) -> ResultT:
        """Draws 1 with the probability that each element is, or ``p``, else 0; the tensor keeps its values."""
    def bernoulli_(self, p: Any = 0.5, *, generator: Any = None) -> Self:
        """Sets the elements to 1 with probability ``p``, a number or a tensor that broadcasts, else to 0."""
    def bfloat16(self, memory_format: Any = None) -> ResultT:
        """The values as bfloat16."""
    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> ResultT:
        """Returns the number of occurrences of 0, 1, ... in x (n,), or the sum of its ``weights``: (max(largest + 1, minlength),)."""
    def bitwise_and(self, b: Operand) -> ResultT:
        """Returns the bitwise and of two integers; logical and for bool."""
    def bitwise_left_shift(self, b: Operand) -> ResultT:
        """Returns a shifted left by b bits; 0 if b is negative or at least the width of the dtype."""
    def bitwise_not(self) -> ResultT:
        """Returns the complement of an integer; logical not for bool."""
    def bitwise_or(self, b: Operand) -> ResultT:
        """Returns the bitwise or of two integers; logical or for bool."""
    def bitwise_right_shift(self, b: Operand) -> ResultT:
        """Returns a shifted right by b bits with sign extension: floor(a / 2^b)."""
    def bitwise_xor(self, b: Operand) -> ResultT:
        """Returns the bitwise exclusive or of two integers; logical exclusive or for bool."""
    def bmm(self, b: Tensor) -> ResultT:
        """Returns the products of two stacks of matrices, (B, M, K) and (B, K, N)."""
    def bool(self, memory_format: Any = None) -> ResultT:
        """The values as bool."""
    def broadcast_to(self, shape: Sequence[builtins.int]) -> ResultT:
        """Returns a copy broadcast to ``shape`` by NumPy's rules; -1 keeps a length."""
    def byte(self, memory_format: Any = None) -> ResultT:
        """The values as uint8."""
    def cauchy_(self, median: builtins.float = 0.0, sigma: builtins.float = 1.0, *, generator: Any = None) -> Self:
        """Sets the elements to numbers of the Cauchy distribution; ``sigma`` must be above 0."""
    def ceil(self) -> ResultT:
        """Returns the smallest integer not below x; integers unchanged."""
    def char(self, memory_format: Any = None) -> ResultT:
        """The values as int8."""
    def cholesky(self, *, upper: builtins.bool = False) -> ResultT:
        """Returns the lower triangular L with x = L L^T, or with ``upper`` the upper triangular U with x = U^T U."""
    def cholesky_inverse(self, upper: builtins.bool = False) -> ResultT:
        """The inverse of the matrix with Cholesky factor x: of x x^T, with ``upper`` of x^T x. As in PyTorch, the gradient is that of a full x."""
    def cholesky_solve(self, input2: Any, upper: builtins.bool = False) -> ResultT:
        """The solution of A y = x for the matrix A with Cholesky factor ``input2``; the gradient is that of a full one."""
    def chunk(self, chunks: builtins.int, axis: builtins.int = 0, *, dim: builtins.int | None = None) -> tuple[ResultT, ...]:
        """Returns at most ``chunks`` equal parts along ``axis``, the last may be smaller; of nothing so many empty ones."""
    def clamp(self, min: Any = None, max: Any = None) -> ResultT:
        """Each element, at least ``min`` and at most ``max``, numbers or tensors that broadcast; NaN if one of them is."""
    def clamp_max(self, max: Any) -> ResultT:
        """Each element, at most ``max``, a number or a tensor."""
    def clamp_min(self, min: Any) -> ResultT:
        """Each element, at least ``min``, a number or a tensor."""
    def clip(self, min: Any = None, max: Any = None) -> ResultT:
        """``clamp``."""
    def clone(self) -> ResultT:
        """Returns a copy of x."""
    def conj(self) -> ResultT:
        """The tensor itself: there are no complex dtypes."""
    def conj_physical(self) -> ResultT:
        """The tensor itself: there are no complex dtypes."""
    def conj_physical_(self) -> Self:
        """The tensor itself: there are no complex dtypes."""
    def const_data_ptr(self) -> builtins.int:
        """``data_ptr()``."""
    def copy_(self, src: Any, non_blocking: builtins.bool = False) -> Self:
        """Gives the tensor the values of ``src``, broadcast and converted to its dtype."""
    def copysign(self, b: Operand) -> ResultT:
        """Returns |a| with the sign of b, also of a zero."""
    def corrcoef(self) -> ResultT:
        """Returns the correlations of the rows of x (variables, observations), in [-1, 1]; 1, 0-d, for a vector."""
    def cos(self) -> ResultT:
        """Returns the cosine of x in radians."""
    def cosh(self) -> ResultT:
        """Returns the hyperbolic cosine."""
    def count_nonzero(self, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the number of nonzero elements over ``axis``, int64."""
    def cov(self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None, unbiased: builtins.int | None = None, ddof: builtins.int | None = None) -> ResultT:
        """Returns the covariances of the rows of x (variables, observations): (variables, variables); 0-d for a vector or one row."""
    def cross(self, other: Any, dim: builtins.int | None = None) -> ResultT:
        """The cross product along ``dim``; None is the first axis of length 3, unlike in ``netcl.linalg.cross``."""
    def cuda(self, device: Any = None, non_blocking: builtins.bool = False) -> ResultT:
        """The tensor on a GPU, the first one or the one of that number: ``x.to("gpu:1")``."""
    @overload
    def cummax(self, axis: builtins.int) -> Ranked:
        """Returns the largest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
    @overload
    def cummax(self, *, dim: builtins.int) -> Ranked:
        """Returns the largest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
    @overload
    def cummin(self, axis: builtins.int) -> Ranked:
        """Returns the smallest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
    @overload
    def cummin(self, *, dim: builtins.int) -> Ranked:
        """Returns the smallest of x[0] .. x[i] along ``axis`` and its position, int64: of the last of equal elements."""
    @overload
    def cumprod(self, axis: builtins.int, dtype: Any = None) -> ResultT:
        """Returns y[i] = x[0] * .. * x[i] along ``axis``; x's shape. x is converted to ``dtype`` first (None: its own, int64 for integers and bool), the dtype of the result."""
    @overload
    def cumprod(self, *, dim: builtins.int, dtype: Any = None) -> ResultT:
        """Returns y[i] = x[0] * .. * x[i] along ``axis``; x's shape. x is converted to ``dtype`` first (None: its own, int64 for integers and bool), the dtype of the result."""
    @overload
    def cumsum(self, axis: builtins.int, dtype: Any = None, reverse: builtins.bool = False) -> ResultT:
        """Returns y[i] = x[0] + .. + x[i] along ``axis``, or x[i] + .. + x[n - 1] with ``reverse``; x's shape."""
    @overload
    def cumsum(self, *, dim: builtins.int, dtype: Any = None, reverse: builtins.bool = False) -> ResultT:
        """Returns y[i] = x[0] + .. + x[i] along ``axis``, or x[i] + .. + x[n - 1] with ``reverse``; x's shape."""
    def deg2rad(self) -> ResultT:
        """Degrees as radians."""
    def dense_dim(self) -> builtins.int:
        """The number of axes: the tensor is dense."""
    def det(self) -> ResultT:
        """Returns the determinant of x (..., n, n): (...); also the gradient of a singular matrix is exact."""
    def detach_(self) -> Self:
        """Takes the tensor out of the gradient graph: it is a leaf that requires no grad. RuntimeError for a view."""
    def diag(self, diagonal: builtins.int = 0) -> ResultT:
        """Returns the diagonal of a matrix as a vector, or the square matrix with a vector on its diagonal."""
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> ResultT:
        """Matrices with the last axis on their diagonal, in the axes ``dim1`` and ``dim2`` of the result."""
    def diagflat(self, offset: builtins.int = 0) -> ResultT:
        """The matrix with all elements on its diagonal ``offset``."""
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> ResultT:
        """Returns the elements [i, i + offset] of the axes ``dim1`` and ``dim2``, as the last axis of a view."""
    def diagonal_scatter(self, src: Any, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> ResultT:
        """A copy in which ``diagonal(offset, dim1, dim2)`` is ``src``."""
    def diff(self, n: builtins.int = 1, axis: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, dim: builtins.int | None = None) -> ResultT:
        """Returns x[i + 1] - x[i] along ``axis``, ``n`` times; for bool, True where they differ."""
    def digamma(self) -> ResultT:
        """Returns the derivative of ``lgamma``; NaN at -1, -2, ..., -inf at 0."""
    def dim(self) -> builtins.int:
        """The number of axes."""
    def dim_order(self, *, ambiguity_check: builtins.bool = False) -> tuple[builtins.int, ...]:
        """The axes from the one with the largest step in memory to the one with the least."""
    def dist(self, other: Any, p: builtins.float = 2) -> ResultT:
        """The p-norm of the difference of all elements."""
    def div(self, other: Any, *, rounding_mode: str | None = None) -> ResultT:
        """x / other; ``rounding_mode``: ``floor``, ``trunc`` (their gradients are zero) or None for the exact quotient."""
    def divide(self, other: Any, *, rounding_mode: str | None = None) -> ResultT:
        """x / other; ``rounding_mode``: ``floor``, ``trunc`` (their gradients are zero) or None for the exact quotient."""
    def dot(self, other: Any) -> ResultT:
        """The inner product of two vectors; of matrices write ``x @ other``, or NumPy's ``netcl.ops.dot``."""
    def double(self, memory_format: Any = None) -> ResultT:
        """The values as float64."""
    def dsplit(self, indices_or_sections: Any) -> tuple[ResultT, ...]:
        """Equal parts along the third axis, or parts that begin at the given positions."""
    def element_size(self) -> builtins.int:
        """Bytes of one element."""
    def eq(self, b: Operand) -> ResultT:
        """Returns a == b."""
    def equal(self, other: Any) -> builtins.bool:
        """True if the shapes and all elements are equal."""
    def erf(self) -> ResultT:
        """Returns the error function."""
    def erfc(self) -> ResultT:
        """Returns 1 - erf(x), exact where erf(x) is near 1."""
    def erfinv(self) -> ResultT:
        """Returns the inverse of erf: infinite at -1 and 1, NaN beyond; Giles' polynomials (GPU Computing Gems, 2012, chapter 10), in float64 followed by steps of Newton's method."""
    def exp(self) -> ResultT:
        """Returns e to the power of x."""
    def exp2(self) -> ResultT:
        """Returns 2 to the power of x."""
    def expand(self, *sizes: Any, size: Any = None) -> ResultT:
        """Broadcast to ``sizes``; -1 keeps the length of an axis."""
    def expand_as(self, other: Any) -> ResultT:
        """``x.expand(other.shape)``."""
    def expm1(self) -> ResultT:
        """Returns exp(x) - 1, exact near zero."""
    def exponential_(self, lambd: builtins.float = 1.0, *, generator: Any = None) -> Self:
        """Sets the elements to numbers of the exponential distribution with rate ``lambd``, above 0."""
    def fill_(self, value: Any) -> Self:
        """Sets every element to ``value``."""
    def fill_diagonal_(self, fill_value: Any, wrap: builtins.bool = False) -> Self:
        """Sets the elements of the main diagonal of a matrix to ``fill_value``."""
    def fix(self) -> ResultT:
        """Returns x truncated towards zero; integers unchanged."""
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> ResultT:
        """Returns the same storage with the axes start_dim..end_dim merged; a 0-d tensor becomes (1,)."""
    def flip(self, *axes: Any, dims: Any = None) -> ResultT:
        """The elements in reverse order along axes, given as numbers or one sequence."""
    def fliplr(self) -> ResultT:
        """The elements in reverse order along the second axis."""
    def flipud(self) -> ResultT:
        """The elements in reverse order along the first axis."""
    def float(self, memory_format: Any = None) -> ResultT:
        """The values as float32."""
    def float_power(self, exponent: Any) -> ResultT:
        """x to the power of ``exponent`` in float64."""
    def floor(self) -> ResultT:
        """Returns the largest integer not above x; integers unchanged."""
    def floor_divide(self, b: Operand) -> ResultT:
        """Returns floor(a / b); integers divided by zero give zero. Its gradient raises UnsupportedError."""
    def fmax(self, other: Any) -> ResultT:
        """The larger element of both; of a number and NaN the number."""
    def fmin(self, other: Any) -> ResultT:
        """The smaller element of both; of a number and NaN the number."""
    def fmod(self, other: Any) -> ResultT:
        """The remainder of x / other with the sign of x, as in C."""
    def frac(self) -> ResultT:
        """x - trunc(x)."""
    def frexp(self) -> tuple[ResultT, ResultT]:
        """(mantissa, exponent) with x = mantissa * 2**exponent and the mantissa in [0.5, 1); exponents from the host."""
    @overload
    def gather(self, axis: builtins.int, index: Any) -> ResultT:
        """Returns out[.., i, ..] = x[.., index[.., i, ..], ..] along ``axis``; off the axis ``index`` is x's shape or shorter, and ``out`` has its shape."""
    @overload
    def gather(self, *, dim: builtins.int, index: Any) -> ResultT:
        """Returns out[.., i, ..] = x[.., index[.., i, ..], ..] along ``axis``; off the axis ``index`` is x's shape or shorter, and ``out`` has its shape."""
    def gcd(self, other: Any) -> ResultT:
        """The greatest common divisor of each pair of integers; computed on the host."""
    def ge(self, b: Operand) -> ResultT:
        """Returns a >= b."""
    def geometric_(self, p: builtins.float, *, generator: Any = None) -> Self:
        """Sets the elements to the number of trials up to the first success, which has probability ``p`` in each."""
    def geqrf(self) -> tuple[ResultT, ResultT]:
        """(a, tau) of x (..., m, n) = Q R as LAPACK packs them: R in the upper triangle of a (..., m, n), below it the vectors of the reflections I - tau_i v_i v_i^T with the product Q, tau (..., min(m, n)). It has no gradient."""
    def ger(self, b: Tensor) -> ResultT:
        """Returns the products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
    def get_device(self) -> builtins.int:
        """The index of the tensor's device among those of its type, -1 for a CPU."""
    def greater(self, b: Operand) -> ResultT:
        """Returns a > b."""
    def greater_equal(self, b: Operand) -> ResultT:
        """Returns a >= b."""
    def gt(self, b: Operand) -> ResultT:
        """Returns a > b."""
    def half(self, memory_format: Any = None) -> ResultT:
        """The values as float16."""
    def hardshrink(self, lambd: builtins.float = 0.5) -> ResultT:
        """Returns x, but 0 within [-lambd, lambd]."""
    def heaviside(self, b: Operand) -> ResultT:
        """Returns 0 if a is negative or NaN, 1 if it is positive, b if it is zero. Its gradient raises UnsupportedError."""
    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> ResultT:
        """Returns the number of elements in each of ``bins`` equal bins from ``min`` to ``max``, in x's dtype: (bins,)."""
    def histogram(self, bins: Any = 10, range: Sequence[builtins.float] | None = None, density: builtins.bool = False, weight: Tensor | None = None) -> tuple[ResultT, ResultT]:
        """Returns the number of elements of x in each bin, int64 (bins,), or the sum of their ``weight``, in the dtype of x; and the edges of the bins, (bins + 1,), floating."""
    def hsplit(self, indices_or_sections: Any) -> tuple[ResultT, ...]:
        """Equal parts along the second axis, along the first of a vector, or parts that begin at the given positions."""
    def hypot(self, b: Operand) -> ResultT:
        """Returns sqrt(a^2 + b^2), without intermediate overflow."""
    def i0(self) -> ResultT:
        """Returns the modified Bessel function of order zero."""
    def igamma(self, b: Operand) -> ResultT:
        """The lower regularized incomplete gamma function, the integral of t^(a - 1) exp(-t) / gamma(a) from 0 to b; only ``b`` has a gradient."""
    def igammac(self, b: Operand) -> ResultT:
        """The upper regularized incomplete gamma function, 1 - igamma(a, b); only ``b`` has a gradient."""
    @overload
    def index_add(self, axis: builtins.int, index: Any, source: Tensor, alpha: builtins.float = 1) -> ResultT:
        """Returns x with alpha * source[.., i, ..] added at [.., index[i], ..] along ``axis``, in the order of i."""
    @overload
    def index_add(self, *, dim: builtins.int, index: Any, source: Tensor, alpha: builtins.float = 1) -> ResultT:
        """Returns x with alpha * source[.., i, ..] added at [.., index[i], ..] along ``axis``, in the order of i."""
    @overload
    def index_copy(self, axis: builtins.int, index: Any, source: Tensor) -> ResultT:
        """Returns x with source[.., i, ..] in place of [.., index[i], ..] along ``axis``; the last equal index wins."""
    @overload
    def index_copy(self, *, dim: builtins.int, index: Any, source: Tensor) -> ResultT:
        """Returns x with source[.., i, ..] in place of [.., index[i], ..] along ``axis``; the last equal index wins."""
    def index_fill(self, dim: builtins.int, index: Any, value: Any) -> ResultT:
        """A copy with ``value`` at the positions ``index`` of an axis."""
    def index_put(self, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False) -> ResultT:
        """Returns a copy of x with ``values``, which broadcast, written at (or with ``accumulate`` added to) x[indices]."""
    @overload
    def index_reduce(self, axis: builtins.int, index: Any, source: Tensor, reduce: str, *, include_self: builtins.bool = True) -> ResultT:
        """Applies ``scatter_reduce`` to whole slices: source[.., i, ..] at [.., index[i], ..] by prod, mean, amax or amin; index (n,), source x's shape with n for the axis."""
    @overload
    def index_reduce(self, *, dim: builtins.int, index: Any, source: Tensor, reduce: str, include_self: builtins.bool = True) -> ResultT:
        """Applies ``scatter_reduce`` to whole slices: source[.., i, ..] at [.., index[i], ..] by prod, mean, amax or amin; index (n,), source x's shape with n for the axis."""
    @overload
    def index_select(self, axis: builtins.int, index: Any) -> ResultT:
        """Returns the positions ``index`` (a tensor or host values of any shape) on ``axis``, which the index's axes replace; a 0-d tensor names one position, and keeps the axis."""
    @overload
    def index_select(self, *, dim: builtins.int, index: Any) -> ResultT:
        """Returns the positions ``index`` (a tensor or host values of any shape) on ``axis``, which the index's axes replace; a 0-d tensor names one position, and keeps the axis."""
    def inner(self, other: Any) -> ResultT:
        """The sums of products over the last axes of both."""
    def int(self, memory_format: Any = None) -> ResultT:
        """The values as int32."""
    def inverse(self) -> ResultT:
        """Returns the inverse of x (..., n, n). Raises SingularMatrixError if there is none."""
    def is_complex(self) -> builtins.bool:
        """False: there are no complex dtypes."""
    def is_conj(self) -> builtins.bool:
        """False: there is no such state of a tensor here."""
    def is_distributed(self) -> builtins.bool:
        """False: there is no such state of a tensor here."""
    def is_floating_point(self) -> builtins.bool:
        """True for floating dtypes."""
    def is_inference(self) -> builtins.bool:
        """False: there is no such state of a tensor here."""
    def is_neg(self) -> builtins.bool:
        """False: there is no such state of a tensor here."""
    def is_nonzero(self) -> builtins.bool:
        """True if the one element is not zero; ShapeError if there are more or none."""
    def is_pinned(self) -> builtins.bool:
        """False: there is no such state of a tensor here."""
    def is_same_size(self, other: Any) -> builtins.bool:
        """True if the shapes are equal."""
    def is_set_to(self, tensor: Any) -> builtins.bool:
        """True if both show the same elements of the same storage in the same shape."""
    def is_shared(self) -> builtins.bool:
        """False: there is no such state of a tensor here."""
    def is_signed(self) -> builtins.bool:
        """True for dtypes with negative numbers."""
    def isclose(self, b: Operand, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> ResultT:
        """True if |a - b| <= atol + rtol |b|, or a equals b; NaN equals NaN with ``equal_nan`` only."""
    def isfinite(self) -> ResultT:
        """True if x is neither infinite nor NaN."""
    def isinf(self) -> ResultT:
        """True if x is infinite."""
    def isnan(self) -> ResultT:
        """True if x is NaN."""
    def isneginf(self) -> ResultT:
        """True where an element is negative infinity."""
    def isposinf(self) -> ResultT:
        """True where an element is positive infinity."""
    def isreal(self) -> ResultT:
        """True for every element: there are no complex dtypes."""
    def kron(self, b: Tensor) -> ResultT:
        """Returns the Kronecker product: every element of a times all of b, (a0, a1) and (b0, b1) give (a0 b0, a1 b1)."""
    def kthvalue(self, k: builtins.int, axis: builtins.int = -1, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the ``k``-th smallest along ``axis``, from 1, and its position, int64. Raises ShapeError if k is not in 1..n."""
    def lcm(self, other: Any) -> ResultT:
        """The least common multiple of each pair of integers; computed on the host."""
    def ldexp(self, other: Any) -> ResultT:
        """x * 2**other."""
    def le(self, b: Operand) -> ResultT:
        """Returns a <= b."""
    def lerp(self, b: Operand, weight: Operand) -> ResultT:
        """Returns a + weight (b - a), exact at weight 0 and 1."""
    def less(self, b: Operand) -> ResultT:
        """Returns a < b."""
    def less_equal(self, b: Operand) -> ResultT:
        """Returns a <= b."""
    def lgamma(self) -> ResultT:
        """Returns log |gamma(x)|; infinite at 0, -1, -2, ...; its gradient is ``digamma``."""
    def log(self) -> ResultT:
        """Returns the natural logarithm."""
    def log10(self) -> ResultT:
        """Returns the logarithm to base 10."""
    def log1p(self) -> ResultT:
        """Returns log(1 + x), exact near zero."""
    def log2(self) -> ResultT:
        """Returns the logarithm to base 2."""
    def log_normal_(self, mean: builtins.float = 1.0, std: builtins.float = 2.0, *, generator: Any = None) -> Self:
        """Sets the elements to the exponentials of normal numbers; ``std`` must be above 0."""
    def log_softmax(self, dim: Any = None, dtype: Any = None, *, axis: Any = None) -> ResultT:
        """log(softmax(x)) along ``dim`` (default: the last), of the elements as ``dtype``."""
    def logaddexp(self, b: Operand) -> ResultT:
        """Returns log(exp(a) + exp(b)), without overflow."""
    def logaddexp2(self, other: Any) -> ResultT:
        """log2(2**x + 2**other)."""
    @overload
    def logcumsumexp(self, axis: builtins.int) -> ResultT:
        """Returns y[i] = log(exp(x[0]) + .. + exp(x[i])) along ``axis``, without overflow; floating dtypes."""
    @overload
    def logcumsumexp(self, *, dim: builtins.int) -> ResultT:
        """Returns y[i] = log(exp(x[0]) + .. + exp(x[i])) along ``axis``, without overflow; floating dtypes."""
    def logdet(self) -> ResultT:
        """Returns the logarithm of the determinant of x (..., n, n): NaN if that is negative, -inf if it is zero."""
    def logical_and(self, b: Operand) -> ResultT:
        """True if both are nonzero."""
    def logical_not(self) -> ResultT:
        """True if x is zero."""
    def logical_or(self, b: Operand) -> ResultT:
        """True if one or both are nonzero."""
    def logical_xor(self, b: Operand) -> ResultT:
        """True if exactly one is nonzero."""
    def logit(self, eps: Any = None) -> ResultT:
        """Returns log(x / (1 - x)), the inverse of ``sigmoid``; with ``eps``, x is first clamped to [eps, 1 - eps]; without it the result beyond [0, 1] is NaN."""
    def logsumexp(self, axis: Axis = None, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns log(sum(exp(x))) over ``axis``, without overflow."""
    def long(self, memory_format: Any = None) -> ResultT:
        """The values as int64."""
    def lt(self, b: Operand) -> ResultT:
        """Returns a < b."""
    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> tuple[ResultT, ...]:
        """(LU, pivots), with ``get_infos`` also 0 or the first zero of U, as ``netcl.linalg.lu_factor`` gives them."""
    def lu_solve(self, LU_data: Any, LU_pivots: Any) -> ResultT:
        """The solution of A y = x by the factors of A that ``lu`` gives."""
    def map_(self, tensor: Any, callable: Callable[[Any, Any], Any]) -> Self:
        """Gives every element the value that a Python function has for it and for that of ``tensor``; on the host, slow."""
    def masked_fill(self, mask: Tensor, value: Any) -> ResultT:
        """Returns x with ``value`` (a number or a 0-d tensor) where the mask is true; x and the mask broadcast."""
    def masked_scatter(self, mask: Any, source: Any) -> ResultT:
        """A copy whose elements under the mask are the elements of ``source``, in order; ``x`` and the mask broadcast. ShapeError if the elements are too few."""
    def masked_select(self, mask: Tensor) -> ResultT:
        """Returns the elements of x where the mask is true, (n,), in order; the two broadcast to each other."""
    def matmul(self, b: Tensor, tile: builtins.int = 16, *, transpose_a: builtins.bool = False, transpose_b: builtins.bool = False) -> ResultT:
        """Returns a @ b by NumPy's rules: vectors, matrices, stacks of matrices with leading axes that broadcast; dtypes are promoted."""
    def matrix_exp(self) -> ResultT:
        """Returns the exponential of a matrix or a stack of them, by scaling, the first 18 terms of its series, and squaring; in float32 for the half types."""
    def matrix_power(self, n: builtins.int) -> ResultT:
        """Returns x (..., k, k) multiplied by itself: x^n by repeated squaring, the identity for 0, of the inverse if n < 0."""
    @overload
    def max(self, axis: None = None, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
    @overload
    def max(self, axis: builtins.int, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
    @overload
    def max(self, axis: Tensor, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
    @overload
    def max(self, *, dim: builtins.int, keepdims: builtins.bool = False, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``."""
    def maximum(self, b: Operand) -> ResultT:
        """Returns the larger of a and b; NaN wins."""
    def mean(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None, **numpy_names: Any) -> ResultT:
        """The mean over ``dim`` (int, several or None for all) in ``dtype``, of the elements as ``dtype``."""
    @overload
    def median(self, axis: None = None, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the median along ``axis`` and its position, int64; for None only the median of all elements."""
    @overload
    def median(self, axis: builtins.int, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the median along ``axis`` and its position, int64; for None only the median of all elements."""
    @overload
    def median(self, *, dim: builtins.int, keepdims: builtins.bool = False, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the median along ``axis`` and its position, int64; for None only the median of all elements."""
    @overload
    def min(self, axis: None = None, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
    @overload
    def min(self, axis: builtins.int, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
    @overload
    def min(self, axis: Tensor, keepdims: builtins.bool = False, *, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
    @overload
    def min(self, *, dim: builtins.int, keepdims: builtins.bool = False, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
    def minimum(self, b: Operand) -> ResultT:
        """Returns the smaller of a and b; NaN wins."""
    def mm(self, b: Tensor, tile: builtins.int = 16, *, transpose_a: builtins.bool = False, transpose_b: builtins.bool = False) -> ResultT:
        """Returns a @ b by NumPy's rules: vectors, matrices, stacks of matrices with leading axes that broadcast; dtypes are promoted."""
    def mode(self, axis: builtins.int = -1, keepdims: builtins.bool = False, *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None) -> Ranked:
        """Returns the most frequent element along ``axis``, the smallest of several such, and the last of its positions, int64."""
    def moveaxis(self, source: Any, destination: Any) -> ResultT:
        """The axes ``source`` (int or several) at the positions ``destination``; the others keep their order."""
    def movedim(self, source: Any, destination: Any) -> ResultT:
        """The axes ``source`` (int or several) at the positions ``destination``; the others keep their order."""
    def msort(self) -> ResultT:
        """The elements sorted along the first axis."""
    def mul(self, b: Operand) -> ResultT:
        """Returns a * b, broadcast."""
    def multinomial(self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Any = None) -> ResultT:
        """Returns positions drawn with the probabilities of the last axis, which need not add up to 1: int64."""
    def multiply(self, b: Operand) -> ResultT:
        """Returns a * b, broadcast."""
    def mv(self, b: Tensor, tile: builtins.int = 16, *, transpose_a: builtins.bool = False, transpose_b: builtins.bool = False) -> ResultT:
        """Returns a @ b by NumPy's rules: vectors, matrices, stacks of matrices with leading axes that broadcast; dtypes are promoted."""
    def mvlgamma(self, p: builtins.int) -> ResultT:
        """Returns the logarithm of the multivariate gamma function of dimension ``p``, for x > (p - 1) / 2. Raises ShapeError for a p below 1."""
    def nan_to_num(self, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> ResultT:
        """Returns x with ``nan`` for NaN, ``posinf`` for infinity and ``neginf`` for -infinity; None is the largest (smallest) finite number of x's dtype. Their gradient is zero; integers are unchanged."""
    def nanmean(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> ResultT:
        """The mean of the elements that are not NaN."""
    def nanmedian(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """The median of the elements that are not NaN, NaN if there are none: of all, or along ``dim`` with positions."""
    def nanquantile(self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear') -> ResultT:
        """The quantiles ``q`` of the elements that are not NaN, NaN if there are none, over ``dim`` or all."""
    def nansum(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> ResultT:
        """The sum without the elements that are NaN."""
    @overload
    def narrow(self, axis: builtins.int, start: builtins.int, length: builtins.int) -> ResultT:
        """Returns the positions start..start+length of one axis; a negative start counts from the end. Raises IndexError outside of the axis."""
    @overload
    def narrow(self, *, dim: builtins.int, start: builtins.int, length: builtins.int) -> ResultT:
        """Returns the positions start..start+length of one axis; a negative start counts from the end. Raises IndexError outside of the axis."""
    def narrow_copy(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> ResultT:
        """``narrow`` as a copy."""
    def ndimension(self) -> builtins.int:
        """The number of axes."""
    def ne(self, b: Operand) -> ResultT:
        """Returns a != b."""
    def neg(self) -> ResultT:
        """Returns -x."""
    def negative(self) -> ResultT:
        """Returns -x."""
    def nelement(self) -> builtins.int:
        """The number of elements."""
    def new(self, *args: Any, **options: Any) -> ResultT:
        """A tensor of this dtype and on this device: of the lengths ``x.new(2, 3)`` or of a size with undefined content, or of data as ``x.new_tensor``."""
    def new_empty(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> ResultT:
        """A tensor of ``size`` with undefined content, of this tensor's dtype and device."""
    def new_empty_strided(self, size: Any, stride: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> ResultT:
        """A tensor of ``size`` and ``stride`` with undefined content, of this tensor's dtype and device."""
    def new_full(self, size: Sequence[builtins.int], fill_value: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> ResultT:
        """A tensor of ``size`` filled with ``fill_value``, of this tensor's dtype and device."""
    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> ResultT:
        """Ones of ``size``, of this tensor's dtype and device."""
    def new_tensor(self, data: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> ResultT:
        """A tensor with the values of ``data``, of this tensor's dtype and device."""
    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> ResultT:
        """Zeros of ``size``, of this tensor's dtype and device."""
    def nextafter(self, b: Operand) -> ResultT:
        """Returns the next number after a towards b in the dtype that the two promote to; integers are compared as float32."""
    @overload
    def nonzero(self, as_tuple: Literal[False] = False) -> ResultT:
        """Returns the positions of nonzero elements, in order: int64 (n, rank), or ``as_tuple`` one (n,) per axis."""
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[ResultT, ...]:
        """Returns the positions of nonzero elements, in order: int64 (n, rank), or ``as_tuple`` one (n,) per axis."""
    @overload
    def nonzero(self, as_tuple: builtins.bool = False) -> ResultT | tuple[ResultT, ...]:
        """Returns the positions of nonzero elements, in order: int64 (n, rank), or ``as_tuple`` one (n,) per axis."""
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1) -> ResultT:
        """The first ``size`` rows of ``nonzero``, with rows of ``fill_value`` if there are fewer."""
    def norm(self, p: Any = 'fro', dim: Any = None, keepdim: builtins.bool = False, dtype: Any = None, **numpy_names: Any) -> ResultT:
        """The p-norm over ``dim``, (sum |x|^p)^(1/p), of the elements as ``dtype``; None is all axes."""
    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: Any = None) -> Self:
        """Sets the elements to normal numbers from ``generator``, or from the one that ``manual_seed`` seeds."""
    def not_equal(self, b: Operand) -> ResultT:
        """Returns a != b."""
    def numel(self) -> builtins.int:
        """The number of elements."""
    def orgqr(self, tau: Tensor) -> ResultT:
        """The first n columns of the product of the reflections I - tau_i v_i v_i^T: v_i has a 1 in row i, the elements below of column i of x (..., m, n), and zeros above; tau (..., k), k <= n <= m."""
    def ormqr(self, tau: Tensor, other: Tensor, left: builtins.bool = True, transpose: builtins.bool = False) -> ResultT:
        """Q ``other``, or ``other`` Q if not ``left``, for the product Q (..., m, m) of the reflections that ``householder_product`` describes, or for its transpose: x (..., m, k), tau (..., k), other (..., m, n), or (..., n, m) if not ``left``. Raises ShapeError if the shapes do not match."""
    def outer(self, b: Tensor) -> ResultT:
        """Returns the products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
    def permute(self, *axes: Any, dims: Any = None) -> ResultT:
        """The axes in another order, given as numbers or one sequence."""
    def pin_memory(self, device: Any = None) -> ResultT:
        """The tensor itself: copies to and from devices go through pinned memory where the driver has it."""
    def pinverse(self, *, atol: builtins.float | None = None, rtol: builtins.float | None = None, hermitian: builtins.bool = False) -> ResultT:
        """Returns the Moore-Penrose pseudoinverse of x (..., m, n): (..., n, m)."""
    def polygamma(self, n: builtins.int) -> ResultT:
        """The n-th derivative of the digamma function."""
    def positive(self) -> ResultT:
        """The tensor itself; TypeError for bool."""
    def pow(self, exponent: Any) -> ResultT:
        """x to the power of ``exponent``; integers to an integer power stay integers. Raises ValueError for integers to a negative number; to negative elements of a tensor they are truncated to 0 (except for 1 and -1)."""
    def prelu(self, weight: Any) -> ResultT:
        """x if positive, else ``weight`` x: a weight of one element, or one for each position of axis 1."""
    def prod(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None, **numpy_names: Any) -> ResultT:
        """The prod over ``dim`` (int, several or None for all) in ``dtype``, of the elements as ``dtype``."""
    def put(self, index: Any, source: Any, accumulate: builtins.bool = False) -> ResultT:
        """A copy with the elements of ``source`` at positions of the flattened tensor, added there with ``accumulate``."""
    def qr(self, some: builtins.bool = True) -> ResultT:
        """(Q, R) with x = Q R: Q with as many columns as R has rows, or square without ``some``."""
    def quantile(self, q: Any, axis: builtins.int | None = None, keepdims: builtins.bool = False, interpolation: str = 'linear', *, dim: builtins.int | None = None, keepdim: builtins.bool | None = None) -> ResultT:
        """Returns the ``q``-th quantile (a number in [0, 1], or several: then stacked in front) along ``axis`` or of all elements."""
    def rad2deg(self) -> ResultT:
        """Radians as degrees."""
    def random_(self, low: builtins.int | None = None, high: builtins.int | None = None, *, to: builtins.int | None = None, generator: Any = None, **named: Any) -> Self:
        """Sets the elements to whole numbers in [low, high): ``random_(low, high)``, ``random_(high)`` from 0, or ``random_()`` up to the largest number that the dtype holds exactly. ``from`` and ``to`` are PyTorch's names."""
    def ravel(self) -> ResultT:
        """The elements in one axis."""
    def reciprocal(self) -> ResultT:
        """Returns 1 / x."""
    def relu(self) -> ResultT:
        """Returns max(x, 0), NaN stays NaN; the gradient at 0 is 0."""
    def remainder(self, b: Operand) -> ResultT:
        """Returns a - floor(a / b) * b: the sign of b, as in Python."""
    @overload
    def renorm(self, p: builtins.float, axis: builtins.int, maxnorm: builtins.float) -> ResultT:
        """Returns x with each slice at one position of ``axis`` scaled to the p-norm ``maxnorm``, if its norm is larger."""
    @overload
    def renorm(self, p: builtins.float, *, dim: builtins.int, maxnorm: builtins.float) -> ResultT:
        """Returns x with each slice at one position of ``axis`` scaled to the p-norm ``maxnorm``, if its norm is larger."""
    def repeat(self, *sizes: Any, repeats: Any = None) -> ResultT:
        """The tensor repeated as a whole, sizes[a] times along axis a, at least one number for each axis."""
    def repeat_interleave(self, repeats: Any, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> ResultT:
        """Every element ``repeats`` times in a row along ``dim``; None flattens. ``repeats``: an int or one for each element. ``output_size``, the length of the result, is not needed."""
    def requires_grad_(self, requires_grad: builtins.bool = True) -> Self:
        """Sets ``requires_grad``; returns the tensor."""
    def reshape(self, *sizes: Any, shape: Any = None) -> ResultT:
        """The elements in another shape, given as lengths or one sequence; one length may be -1. Raises ShapeError."""
    def reshape_as(self, other: Any) -> ResultT:
        """``x.reshape(other.shape)``."""
    def resize_(self, *sizes: Any, memory_format: Any = None) -> Self:
        """Gives the tensor another shape in place: the first elements of its storage, or if that is too small new memory, of which the elements behind the present ones are undefined."""
    def resize_as_(self, other: Any, *, memory_format: Any = None) -> Self:
        """``resize_`` to the shape of ``other``."""
    def resolve_conj(self) -> ResultT:
        """The tensor itself: there are no complex dtypes."""
    def resolve_neg(self) -> ResultT:
        """The tensor itself: there are no complex dtypes."""
    def roll(self, shifts: Any, dims: Any = None) -> ResultT:
        """The elements moved ``shifts`` positions along ``dims``, cyclically; None rolls the flattened tensor."""
    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> ResultT:
        """Returns x turned ``k`` times by 90 degrees in the plane of the two axes ``dims``, from the first towards the second."""
    def round(self, *, decimals: builtins.int = 0) -> ResultT:
        """Each element rounded to ``decimals`` digits after the point, halves to even."""
    def rsqrt(self) -> ResultT:
        """Returns 1 / sqrt(x)."""
    def scatter(self, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None, reduce: Any = None, axis: Any = None) -> ResultT:
        """``x`` with src[.., i, ..] in place of [.., index[.., i, ..], ..] along ``dim``; of equal indices the last wins."""
    @overload
    def scatter_add(self, axis: builtins.int, index: Any, src: Any) -> ResultT:
        """Returns x with src[.., i, ..] added at [.., index[.., i, ..], ..] along ``axis``, in the order of i; shapes as in ``scatter``."""
    @overload
    def scatter_add(self, *, dim: builtins.int, index: Any, src: Any) -> ResultT:
        """Returns x with src[.., i, ..] added at [.., index[.., i, ..], ..] along ``axis``, in the order of i; shapes as in ``scatter``."""
    @overload
    def scatter_reduce(self, axis: builtins.int, index: Any, src: Tensor, reduce: str, *, include_self: builtins.bool = True) -> ResultT:
        """Returns x with src[.., i, ..] combined at [.., index[.., i, ..], ..] along ``axis`` by ``reduce``: sum, prod, mean, amax or amin; without ``include_self`` the elements of x that are named do not take part. Shapes as in ``scatter``."""
    @overload
    def scatter_reduce(self, *, dim: builtins.int, index: Any, src: Tensor, reduce: str, include_self: builtins.bool = True) -> ResultT:
        """Returns x with src[.., i, ..] combined at [.., index[.., i, ..], ..] along ``axis`` by ``reduce``: sum, prod, mean, amax or amin; without ``include_self`` the elements of x that are named do not take part. Shapes as in ``scatter``."""
    def select(self, dim: builtins.int, index: builtins.int) -> ResultT:
        """Position ``index`` of one axis, without it."""
    def select_scatter(self, src: Any, dim: builtins.int, index: builtins.int) -> ResultT:
        """A copy in which ``select(dim, index)`` is ``src``."""
    def sgn(self) -> ResultT:
        """Returns -1, 0 or 1; NaN stays NaN, and a bool itself."""
    def short(self, memory_format: Any = None) -> ResultT:
        """The values as int16."""
    def sigmoid(self) -> ResultT:
        """Returns 1 / (1 + exp(-x))."""
    def sign(self) -> ResultT:
        """Returns -1, 0 or 1; NaN stays NaN, and a bool itself."""
    def signbit(self) -> ResultT:
        """True if the sign bit of x is set, also of -0 and NaN."""
    def sin(self) -> ResultT:
        """Returns the sine of x in radians."""
    def sinc(self) -> ResultT:
        """Returns sin(pi x) / (pi x), 1 at 0."""
    def sinh(self) -> ResultT:
        """Returns the hyperbolic sine."""
    def slice_scatter(self, src: Any, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> ResultT:
        """A copy in which the positions ``start:end:step`` of an axis are ``src``."""
    def slogdet(self) -> tuple[ResultT, ResultT]:
        """Returns (sign, log |det|) of x (..., n, n), each (...); (0, -inf) if it is singular."""
    def softmax(self, dim: Any = None, dtype: Any = None, *, axis: Any = None) -> ResultT:
        """exp(x) / sum(exp(x)) along ``dim`` (default: the last), of the elements as ``dtype``."""
    def sort(self, axis: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = True, *, dim: builtins.int | None = None) -> Ranked:
        """Returns the elements along ``axis`` in order, and the positions they come from, int64; both of x's shape."""
    def sparse_dim(self) -> builtins.int:
        """0: the tensor is dense."""
    def sparse_mask(self, mask: Any) -> SparseTensor:
        """The elements at the positions of ``mask``, a SparseTensor of this shape, zeros among them."""
    def split(self, size: builtins.int | Sequence[builtins.int], axis: builtins.int = 0, *, dim: builtins.int | None = None) -> tuple[ResultT, ...]:
        """Parts of ``size`` positions along ``axis`` (the last may be smaller), or parts of the given sizes."""
    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> ResultT:
        """Parts of the given sizes along ``dim``."""
    def sqrt(self) -> ResultT:
        """Returns the square root."""
    def square(self) -> ResultT:
        """Returns x squared; a bool gives int64."""
    def squeeze(self, axis: Any = None, *, dim: Any = None) -> ResultT:
        """Returns the same storage without axes of length one, all of them or the ones in ``axis``; longer axes stay."""
    def squeeze_(self, *args: Any, **kwargs: Any) -> Self:
        """``squeeze`` in place: the tensor has the shape of the result, on the same storage; returns it."""
    def std(self, axis: Axis = None, correction: Any = 1, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, unbiased: Any = None, ddof: Any = None) -> ResultT:
        """Returns the standard deviation over ``axis`` with divisor n - correction, as in ``var``."""
    def sub(self, other: Any, *, alpha: Any = 1) -> ResultT:
        """x - alpha * other."""
    def subtract(self, other: Any, *, alpha: Any = 1) -> ResultT:
        """x - alpha * other."""
    def sum(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None, **numpy_names: Any) -> ResultT:
        """The sum over ``dim`` (int, several or None for all) in ``dtype``, of the elements as ``dtype``."""
    def sum_to_size(self, *size: Any) -> ResultT:
        """The sum over the axes that broadcasting ``size`` to this shape adds or repeats."""
    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True) -> tuple[ResultT, ResultT, ResultT]:
        """(U, S, V) with x = U diag(S) V^T; unlike ``netcl.linalg.svd``, which has the transpose of V."""
    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> ResultT:
        """Two axes exchanged."""
    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Self:
        """``swapaxes`` in place: the tensor has the shape of the result, on the same storage; returns it."""
    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> ResultT:
        """Two axes exchanged."""
    def swapdims_(self, dim0: builtins.int, dim1: builtins.int) -> Self:
        """``swapdims`` in place: the tensor has the shape of the result, on the same storage; returns it."""
    def t(self) -> ResultT:
        """The transpose of a matrix; tensors of fewer axes unchanged. Raises ShapeError if there are more."""
    def t_(self) -> Self:
        """``t`` in place: the tensor has the shape of the result, on the same storage; returns it."""
    def take(self, index: Any) -> ResultT:
        """The elements at positions of the flattened tensor, in the shape of ``index``."""
    def take_along_dim(self, indices: Any, dim: builtins.int | None = None, *, axis: builtins.int | None = None) -> ResultT:
        """The elements at ``indices`` along ``dim``, one for each of the other positions; None takes of the flat tensor."""
    def tan(self) -> ResultT:
        """Returns the tangent of x in radians."""
    def tanh(self) -> ResultT:
        """Returns the hyperbolic tangent."""
    def tensor_split(self, indices_or_sections: Any, dim: builtins.int = 0) -> tuple[ResultT, ...]:
        """Parts along ``dim``: so many of nearly equal length, or parts that begin at the given positions."""
    def tile(self, *sizes: Any, dims: Any = None) -> ResultT:
        """The tensor repeated as a whole, sizes[a] times along axis a; missing numbers in front are 1."""
    def to_dense(self, dtype: Any = None, *, masked_grad: builtins.bool | None = None) -> ResultT:
        """This tensor, in ``dtype`` if given: it is dense."""
    def to_sparse(self, sparse_dim: builtins.int | None = None, *, layout: Any = None) -> SparseTensor:
        """The elements that are not zero, as a SparseTensor in COO with positions in the first ``sparse_dim`` axes, by default all, or in ``layout``. Their number is read on the host; gradients flow to this tensor."""
    def to_sparse_coo(self) -> SparseTensor:
        """``to_sparse()``."""
    def to_sparse_csr(self, dense_dim: builtins.int | None = None) -> SparseTensor:
        """The elements of a matrix that are not zero, as a SparseTensor in CSR; ShapeError for other tensors."""
    def topk(self, k: builtins.int, axis: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, dim: builtins.int | None = None) -> Ranked:
        """Returns the ``k`` largest (or smallest) along ``axis`` and their positions, int64: x's shape with k for the axis."""
    def trace(self, diagonal: builtins.int = 0) -> ResultT:
        """Returns the sum of a matrix's diagonal."""
    def transpose(self, *axes: Any, dim0: builtins.int | None = None, dim1: builtins.int | None = None) -> ResultT:
        """Two axes exchanged; none given reverses all axes, and more are a permutation, as in NumPy."""
    def transpose_(self, *axes: Any, dim0: builtins.int | None = None, dim1: builtins.int | None = None) -> Self:
        """``transpose`` in place: the tensor has the shape of the result, on the same storage; returns it."""
    def triangular_solve(self, A: Any, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> tuple[ResultT, ResultT]:
        """(the solution of A y = x, a copy of A) for a triangular A, of which only the one triangle is read."""
    def tril(self, diagonal: builtins.int = 0) -> ResultT:
        """Returns the lower triangle of the last two axes up to the given diagonal, zero above it; in the dtype of x."""
    def triu(self, diagonal: builtins.int = 0) -> ResultT:
        """Returns the upper triangle of the last two axes from the given diagonal on, zero below it; in the dtype of x."""
    def true_divide(self, other: Any, *, rounding_mode: str | None = None) -> ResultT:
        """x / other; ``rounding_mode``: ``floor``, ``trunc`` (their gradients are zero) or None for the exact quotient."""
    def trunc(self) -> ResultT:
        """Returns x truncated towards zero; integers unchanged."""
    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """The values as ``dtype``, by name, as PyTorch's ``"FloatTensor"`` or as the class ``nc.FloatTensor``; without one, such a name for this tensor. A type of GPUs, ``torch.cuda.FloatTensor``, also moves them there."""
    def type_as(self, other: Any) -> ResultT:
        """The values in the dtype of ``other``, on its device."""
    def unbind(self, axis: builtins.int = 0, *, dim: builtins.int | None = None) -> tuple[ResultT, ...]:
        """Returns the slices along ``axis``, without it."""
    def unflatten(self, dim: builtins.int, sizes: Sequence[builtins.int]) -> ResultT:
        """The axis ``dim`` as several axes of lengths ``sizes``, one of which may be -1."""
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> ResultT:
        """Windows of ``size`` elements along an axis, ``step`` positions from one to the next, in a new last axis."""
    def uniform_(self, from_: builtins.float = 0.0, to: builtins.float = 1.0, *, generator: Any = None, **named: Any) -> Self:
        """Sets the elements to uniform numbers in [from_, to); PyTorch's name ``from`` is a word of Python."""
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> ResultT:
        """The distinct elements, or with ``dim`` the distinct slices along it, in order, regardless of ``sorted``."""
    @overload
    def unique(self, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: builtins.bool = False, dim: builtins.int | None = None) -> tuple[ResultT, ...]:
        """The distinct elements, or with ``dim`` the distinct slices along it, in order, regardless of ``sorted``."""
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = False, *, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[ResultT, ...]:
        """The distinct elements, or with ``dim`` the distinct slices along it, in order, regardless of ``sorted``."""
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> ResultT | tuple[ResultT, ...]:
        """The distinct elements, or with ``dim`` the distinct slices along it, in order, regardless of ``sorted``."""
    @overload
    def unique_consecutive(self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, axis: builtins.int | None = None, *, dim: builtins.int | None = None) -> ResultT:
        """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[True], return_counts: builtins.bool = False, axis: builtins.int | None = None, dim: builtins.int | None = None) -> tuple[ResultT, ...]:
        """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
    @overload
    def unique_consecutive(self, return_inverse: builtins.bool = False, *, return_counts: Literal[True], axis: builtins.int | None = None, dim: builtins.int | None = None) -> tuple[ResultT, ...]:
        """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
    @overload
    def unique_consecutive(self, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, axis: builtins.int | None = None, *, dim: builtins.int | None = None) -> ResultT | tuple[ResultT, ...]:
        """Returns x without the elements that equal the one before them: of the flattened tensor, (n,), or slices along ``axis``."""
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> ResultT:
        """``chunk``."""
    def unsafe_split(self, split_size: builtins.int, dim: builtins.int = 0) -> ResultT:
        """``split``."""
    def unsafe_split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> ResultT:
        """``split_with_sizes``."""
    @overload
    def unsqueeze(self, axis: Any) -> ResultT:
        """Returns the same storage with an axis of length one at ``axis`` (several: positions in the result)."""
    @overload
    def unsqueeze(self, *, dim: Any) -> ResultT:
        """Returns the same storage with an axis of length one at ``axis`` (several: positions in the result)."""
    def unsqueeze_(self, *args: Any, **kwargs: Any) -> Self:
        """``unsqueeze`` in place: the tensor has the shape of the result, on the same storage; returns it."""
    def var(self, axis: Axis = None, correction: Any = 1, keepdims: builtins.bool = False, *, dim: Axis = None, keepdim: builtins.bool | None = None, unbiased: Any = None, ddof: Any = None) -> ResultT:
        """Returns the variance over ``axis`` with divisor n - correction, from deviations from the mean."""
    def vdot(self, other: Any) -> ResultT:
        """The inner product of two vectors."""
    def view(self, *shape: Any, size: Any = None) -> ResultT:
        """The same storage in another shape, one length may be -1. ShapeError if no strides give it: write ``reshape``."""
    def view_as(self, other: Any) -> ResultT:
        """``x.view(other.shape)``."""
    def vsplit(self, indices_or_sections: Any) -> tuple[ResultT, ...]:
        """Equal parts along the first axis, or parts that begin at the given positions."""
    def where(self, condition: Any, other: Any) -> ResultT:
        """This tensor's elements under ``condition``, elsewhere those of ``other``."""
    def xlogy(self, b: Operand) -> ResultT:
        """Returns a log(b), 0 if a is 0 and b is not NaN."""
    def zero_(self) -> Self:
        """Sets every element to zero."""
    def abs_(self) -> Self: ...
    def absolute_(self) -> Self: ...
    def acos_(self) -> Self: ...
    def acosh_(self) -> Self: ...
    def add_(self, other: Any, *, alpha: Any = 1) -> Self: ...
    def addbmm_(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Self: ...
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Self: ...
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Self: ...
    def addmm_(self, a: Tensor, b: Tensor, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Self: ...
    def addmv_(self, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Self: ...
    def addr_(self, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Self: ...
    def arccos_(self) -> Self: ...
    def arccosh_(self) -> Self: ...
    def arcsin_(self) -> Self: ...
    def arcsinh_(self) -> Self: ...
    def arctan_(self) -> Self: ...
    def arctan2_(self, b: Operand) -> Self: ...
    def arctanh_(self) -> Self: ...
    def asin_(self) -> Self: ...
    def asinh_(self) -> Self: ...
    def atan_(self) -> Self: ...
    def atan2_(self, b: Operand) -> Self: ...
    def atanh_(self) -> Self: ...
    def baddbmm_(self, a: Tensor, b: Tensor, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Self: ...
    def bitwise_and_(self, b: Operand) -> Self: ...
    def bitwise_left_shift_(self, b: Operand) -> Self: ...
    def bitwise_not_(self) -> Self: ...
    def bitwise_or_(self, b: Operand) -> Self: ...
    def bitwise_right_shift_(self, b: Operand) -> Self: ...
    def bitwise_xor_(self, b: Operand) -> Self: ...
    def ceil_(self) -> Self: ...
    def clamp_(self, min: Any = None, max: Any = None) -> Self: ...
    def clamp_max_(self, max: Any) -> Self: ...
    def clamp_min_(self, min: Any) -> Self: ...
    def clip_(self, min: Any = None, max: Any = None) -> Self: ...
    def copysign_(self, b: Operand) -> Self: ...
    def cos_(self) -> Self: ...
    def cosh_(self) -> Self: ...
    @overload
    def cumprod_(self, axis: builtins.int, dtype: Any = None) -> Self: ...
    @overload
    def cumprod_(self, *, dim: builtins.int, dtype: Any = None) -> Self: ...
    @overload
    def cumsum_(self, axis: builtins.int, dtype: Any = None, reverse: builtins.bool = False) -> Self: ...
    @overload
    def cumsum_(self, *, dim: builtins.int, dtype: Any = None, reverse: builtins.bool = False) -> Self: ...
    def deg2rad_(self) -> Self: ...
    def digamma_(self) -> Self: ...
    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Self: ...
    def divide_(self, other: Any, *, rounding_mode: str | None = None) -> Self: ...
    def eq_(self, b: Operand) -> Self: ...
    def erf_(self) -> Self: ...
    def erfc_(self) -> Self: ...
    def erfinv_(self) -> Self: ...
    def exp_(self) -> Self: ...
    def exp2_(self) -> Self: ...
    def expm1_(self) -> Self: ...
    def fix_(self) -> Self: ...
    def float_power_(self, exponent: Any) -> Self: ...
    def floor_(self) -> Self: ...
    def floor_divide_(self, b: Operand) -> Self: ...
    def fmod_(self, other: Any) -> Self: ...
    def frac_(self) -> Self: ...
    def gcd_(self, other: Any) -> Self: ...
    def ge_(self, b: Operand) -> Self: ...
    def greater_(self, b: Operand) -> Self: ...
    def greater_equal_(self, b: Operand) -> Self: ...
    def gt_(self, b: Operand) -> Self: ...
    def heaviside_(self, b: Operand) -> Self: ...
    def hypot_(self, b: Operand) -> Self: ...
    def i0_(self) -> Self: ...
    def igamma_(self, b: Operand) -> Self: ...
    def igammac_(self, b: Operand) -> Self: ...
    @overload
    def index_add_(self, axis: builtins.int, index: Any, source: Tensor, alpha: builtins.float = 1) -> Self: ...
    @overload
    def index_add_(self, *, dim: builtins.int, index: Any, source: Tensor, alpha: builtins.float = 1) -> Self: ...
    @overload
    def index_copy_(self, axis: builtins.int, index: Any, source: Tensor) -> Self: ...
    @overload
    def index_copy_(self, *, dim: builtins.int, index: Any, source: Tensor) -> Self: ...
    def index_fill_(self, dim: builtins.int, index: Any, value: Any) -> Self: ...
    def index_put_(self, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False) -> Self: ...
    @overload
    def index_reduce_(self, axis: builtins.int, index: Any, source: Tensor, reduce: str, *, include_self: builtins.bool = True) -> Self: ...
    @overload
    def index_reduce_(self, *, dim: builtins.int, index: Any, source: Tensor, reduce: str, include_self: builtins.bool = True) -> Self: ...
    def lcm_(self, other: Any) -> Self: ...
    def ldexp_(self, other: Any) -> Self: ...
    def le_(self, b: Operand) -> Self: ...
    def lerp_(self, b: Operand, weight: Operand) -> Self: ...
    def less_(self, b: Operand) -> Self: ...
    def less_equal_(self, b: Operand) -> Self: ...
    def lgamma_(self) -> Self: ...
    def log_(self) -> Self: ...
    def log10_(self) -> Self: ...
    def log1p_(self) -> Self: ...
    def log2_(self) -> Self: ...
    def logical_and_(self, b: Operand) -> Self: ...
    def logical_not_(self) -> Self: ...
    def logical_or_(self, b: Operand) -> Self: ...
    def logical_xor_(self, b: Operand) -> Self: ...
    def logit_(self, eps: Any = None) -> Self: ...
    def lt_(self, b: Operand) -> Self: ...
    def masked_fill_(self, mask: Tensor, value: Any) -> Self: ...
    def masked_scatter_(self, mask: Any, source: Any) -> Self: ...
    def mul_(self, b: Operand) -> Self: ...
    def multiply_(self, b: Operand) -> Self: ...
    def mvlgamma_(self, p: builtins.int) -> Self: ...
    def nan_to_num_(self, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Self: ...
    def ne_(self, b: Operand) -> Self: ...
    def neg_(self) -> Self: ...
    def negative_(self) -> Self: ...
    def nextafter_(self, b: Operand) -> Self: ...
    def not_equal_(self, b: Operand) -> Self: ...
    def polygamma_(self, n: builtins.int) -> Self: ...
    def pow_(self, exponent: Any) -> Self: ...
    def put_(self, index: Any, source: Any, accumulate: builtins.bool = False) -> Self: ...
    def rad2deg_(self) -> Self: ...
    def reciprocal_(self) -> Self: ...
    def relu_(self) -> Self: ...
    def remainder_(self, b: Operand) -> Self: ...
    @overload
    def renorm_(self, p: builtins.float, axis: builtins.int, maxnorm: builtins.float) -> Self: ...
    @overload
    def renorm_(self, p: builtins.float, *, dim: builtins.int, maxnorm: builtins.float) -> Self: ...
    def round_(self, *, decimals: builtins.int = 0) -> Self: ...
    def rsqrt_(self) -> Self: ...
    def scatter_(self, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None, reduce: Any = None, axis: Any = None) -> Self: ...
    @overload
    def scatter_add_(self, axis: builtins.int, index: Any, src: Any) -> Self: ...
    @overload
    def scatter_add_(self, *, dim: builtins.int, index: Any, src: Any) -> Self: ...
    @overload
    def scatter_reduce_(self, axis: builtins.int, index: Any, src: Tensor, reduce: str, *, include_self: builtins.bool = True) -> Self: ...
    @overload
    def scatter_reduce_(self, *, dim: builtins.int, index: Any, src: Tensor, reduce: str, include_self: builtins.bool = True) -> Self: ...
    def sgn_(self) -> Self: ...
    def sigmoid_(self) -> Self: ...
    def sign_(self) -> Self: ...
    def sin_(self) -> Self: ...
    def sinc_(self) -> Self: ...
    def sinh_(self) -> Self: ...
    def sqrt_(self) -> Self: ...
    def square_(self) -> Self: ...
    def sub_(self, other: Any, *, alpha: Any = 1) -> Self: ...
    def subtract_(self, other: Any, *, alpha: Any = 1) -> Self: ...
    def tan_(self) -> Self: ...
    def tanh_(self) -> Self: ...
    def tril_(self, diagonal: builtins.int = 0) -> Self: ...
    def triu_(self, diagonal: builtins.int = 0) -> Self: ...
    def true_divide_(self, other: Any, *, rounding_mode: str | None = None) -> Self: ...
    def trunc_(self) -> Self: ...
    def xlogy_(self, b: Operand) -> Self: ...
