"""Activations as layers."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.core.tensor import in_place
from netcl.nn import functional
from netcl.nn.init import constant_
from netcl.nn.layer import Layer
from netcl.nn.module import check_precision
from netcl.nn.placement import new_parameter


class _Activation(Layer):
    """An elementwise function of ``netcl.autograd``; ``options`` names the attributes that are passed to it by
    keyword.
    """

    function: ClassVar[str]
    options: ClassVar[dict[str, str]] = {}

    def forward(self, x: Tensor) -> Tensor:
        arguments = {name: getattr(self, attribute) for attribute, name in self.options.items()}
        return getattr(ag, self.function)(x, **arguments)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return ", ".join(f"{attribute}={getattr(self, attribute)!r}" for attribute in self.options)


class _Inplace(_Activation):
    """An activation that with ``inplace`` writes its result into x, and returns x; RuntimeError while grad is enabled
    if x is a leaf that requires grad.
    """

    inplace: bool = False

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x)
        return in_place.write(x, result) if self.inplace else result

    def extra_repr(self) -> str:
        parts = [super().extra_repr(), "inplace=True" if self.inplace else ""]
        return ", ".join(part for part in parts if part)


class ReLU(_Inplace, function="relu"):
    """max(x, 0)."""


class ReLU6(_Inplace, function="relu6"):
    """x limited to [0, 6]."""


class LeakyReLU(_Inplace, function="leaky_relu", options={"negative_slope": "slope"}):
    """x if positive, else negative_slope * x."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope


class PReLU(Layer, shown=("num_parameters",)):
    """x if positive, else weight * x, with one learned weight, or one per channel of x (N, C, ...) (He et al. 2015)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters: int = num_parameters
        self.init: float = init
        self.weight: ag.Parameter = new_parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to its initial value."""
        constant_(self.weight, self.init)

    def forward(self, x: Tensor) -> Tensor:
        check_precision(self, x, self.weight)
        return functional.prelu(x, self.weight)


class ELU(_Inplace, function="elu", options={"alpha": "alpha"}):
    """x if positive, else alpha (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha


class CELU(ELU, function="celu"):
    """x if positive, else alpha (exp(x / alpha) - 1)."""


class SELU(_Inplace, function="selu"):
    """ELU scaled so that mean 0 and variance 1 are a fixed point (Klambauer et al. 2017)."""


class GELU(_Activation, function="gelu", options={"approximate": "approximate"}):
    """x times the cumulative distribution function of the normal distribution, by erf, or by tanh for
    ``approximate="tanh"`` (Hendrycks and Gimpel 2016).
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"approximate: expected 'none' or 'tanh', got {approximate!r}")
        self.approximate = approximate


class SiLU(_Inplace, function="silu"):
    """x * sigmoid(x)."""


Swish = SiLU


class Mish(_Inplace, function="mish"):
    """x * tanh(softplus(x)) (Misra 2019)."""


class Sigmoid(_Activation, function="sigmoid"):
    """1 / (1 + exp(-x))."""


class Tanh(_Activation, function="tanh"):
    """Hyperbolic tangent."""


class Softplus(_Activation, function="softplus", options={"beta": "beta", "threshold": "threshold"}):
    """log(1 + exp(beta x)) / beta, or x if beta x is above ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta: float = beta
        self.threshold: float = threshold


class Softsign(_Activation, function="softsign"):
    """x / (1 + |x|)."""


class LogSigmoid(_Activation, function="logsigmoid"):
    """log(sigmoid(x))."""


class Hardsigmoid(_Inplace, function="hard_sigmoid"):
    """x / 6 + 1/2 limited to [0, 1]."""


class Hardswish(_Inplace, function="hard_swish"):
    """x * hard_sigmoid(x)."""


class Hardtanh(_Inplace, function="hard_tanh", options={"min_val": "min_val", "max_val": "max_val"}):
    """x limited to [min_val, max_val]."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        if min_val > max_val:
            raise ValueError(f"min_val={min_val} is above max_val={max_val}")
        self.min_val: float = min_val
        self.max_val: float = max_val


class Hardshrink(_Activation, function="hardshrink", options={"lambd": "lambd"}):
    """x if |x| > ``lambd``, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(Hardshrink, function="softshrink"):
    """x moved towards 0 by ``lambd``; 0 if |x| <= ``lambd``."""


class Tanhshrink(_Activation, function="tanhshrink"):
    """x - tanh(x)."""


class Threshold(_Inplace, function="threshold", options={"threshold": "threshold", "value": "value"}):
    """x if x > ``threshold``, else ``value``."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold: float = threshold
        self.value: float = value


class _AlongAxis(_Activation, options={"axis": "axis"}):
    """An activation along one axis, which PyTorch calls ``dim``: both names are accepted."""

    def __init__(self, axis: int = -1, *, dim: int | None = None) -> None:
        super().__init__()
        self.dim: int
        self.axis: int
        self.axis = self.dim = axis if dim is None else dim

    def extra_repr(self) -> str:
        return f"dim={self.axis}"


class Softmin(_AlongAxis):
    """softmax(-x) along ``axis``."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmin(x, self.axis)


class Softmax(_AlongAxis, function="softmax"):
    """exp(x) / sum(exp(x)) along ``axis``."""


class LogSoftmax(_AlongAxis, function="log_softmax"):
    """log(softmax(x)) along ``axis``."""


class GLU(_AlongAxis):
    """a * sigmoid(b), where a and b are the halves of x along ``axis`` (Dauphin et al. 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] % 2:
            raise ShapeError(f"{self!r} halves an axis of even length; x has shape {x.shape}", op="GLU")
        a, b = ag.split(x, x.shape[self.axis] // 2, axis=self.axis)
        return ag.mul(a, ag.sigmoid(b))
