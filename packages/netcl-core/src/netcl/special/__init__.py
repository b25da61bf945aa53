"""Special functions with the names of torch.special: recorded for gradients when netcl.autograd is loaded."""

from __future__ import annotations

from typing import Any

from netcl.core.tensor.absent import ABSENT_FUNCTIONS
from netcl.core.tensor.methods import extended
from netcl.ops import activation, bessel, elementwise, normal_distribution, reduce
from netcl.ops import special as _functions
from netcl.ops.table import OpFunction, as_function

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]


def _recorded(function: OpFunction, name: str = "") -> OpFunction:
    recorded: Any = as_function(function.row, True)
    recorded.__name__ = recorded.__qualname__ = name or function.row.name
    recorded.__module__ = __name__
    return recorded  # type: ignore[no-any-return]


digamma = _recorded(_functions.digamma)
entr = _recorded(normal_distribution.entr)
erf = _recorded(_functions.erf)
erfc = _recorded(_functions.erfc)
erfcx = _recorded(normal_distribution.erfcx)
erfinv = _recorded(_functions.erfinv)
exp2 = _recorded(elementwise.exp2)
expit = _recorded(activation.sigmoid, "expit")
expm1 = _recorded(elementwise.expm1)
gammaln = _recorded(_functions.lgamma, "gammaln")
i0 = _recorded(bessel.i0)
i0e = _recorded(bessel.i0e)
i1 = _recorded(bessel.i1)
i1e = _recorded(bessel.i1e)
log1p = _recorded(elementwise.log1p)
log_ndtr = _recorded(normal_distribution.log_ndtr)
log_softmax = _recorded(reduce.log_softmax)
logit = _recorded(activation.logit)
logsumexp = _recorded(reduce.logsumexp)
modified_bessel_i0 = _recorded(bessel.i0, "modified_bessel_i0")
modified_bessel_i1 = _recorded(bessel.i1, "modified_bessel_i1")
multigammaln = _recorded(_functions.multigammaln)
ndtr = _recorded(normal_distribution.ndtr)
ndtri = _recorded(normal_distribution.ndtri)
polygamma = _recorded(_functions.polygamma)
psi = _recorded(_functions.digamma, "psi")
round = extended("round", _recorded(elementwise.round))
sinc = _recorded(_functions.sinc)
softmax = _recorded(reduce.softmax)
xlog1py = _recorded(normal_distribution.xlog1py)
xlogy = _recorded(_functions.xlogy)
zeta = _recorded(normal_distribution.zeta)


def __getattr__(name: str) -> Any:
    """Raises AttributeError with what to write in place of a function of torch.special that is absent."""
    why = ABSENT_FUNCTIONS.get(f"special.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f": {why}" if why else ""))
