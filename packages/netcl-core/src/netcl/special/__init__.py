"""Special functions with the names of torch.special: recorded for gradients when netcl.autograd is loaded."""

from __future__ import annotations

from typing import Any

from netcl.core.tensor.methods import extended
from netcl.ops import activation, bessel, elementwise, incomplete_gamma, normal_distribution, polynomials, reduce
from netcl.ops import special as _functions
from netcl.ops.table import OpFunction, as_function

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]


def _recorded(function: OpFunction, name: str = "") -> OpFunction:
    recorded: Any = as_function(function.row, True)
    recorded.__name__ = recorded.__qualname__ = name or function.row.name
    recorded.__module__ = __name__
    return recorded  # type: ignore[no-any-return]


airy_ai = _recorded(bessel.airy_ai)
bessel_j0 = _recorded(bessel.bessel_j0)
bessel_j1 = _recorded(bessel.bessel_j1)
bessel_y0 = _recorded(bessel.bessel_y0)
bessel_y1 = _recorded(bessel.bessel_y1)
chebyshev_polynomial_t = _recorded(polynomials.chebyshev_polynomial_t)
chebyshev_polynomial_u = _recorded(polynomials.chebyshev_polynomial_u)
chebyshev_polynomial_v = _recorded(polynomials.chebyshev_polynomial_v)
chebyshev_polynomial_w = _recorded(polynomials.chebyshev_polynomial_w)
digamma = _recorded(_functions.digamma)
entr = _recorded(normal_distribution.entr)
erf = _recorded(_functions.erf)
erfc = _recorded(_functions.erfc)
erfcx = _recorded(normal_distribution.erfcx)
erfinv = _recorded(_functions.erfinv)
exp2 = _recorded(elementwise.exp2)
expit = _recorded(activation.sigmoid, "expit")
expm1 = _recorded(elementwise.expm1)
gammainc = _recorded(incomplete_gamma.igamma, "gammainc")
gammaincc = _recorded(incomplete_gamma.igammac, "gammaincc")
gammaln = _recorded(_functions.lgamma, "gammaln")
hermite_polynomial_h = _recorded(polynomials.hermite_polynomial_h)
hermite_polynomial_he = _recorded(polynomials.hermite_polynomial_he)
i0 = _recorded(bessel.i0)
i0e = _recorded(bessel.i0e)
i1 = _recorded(bessel.i1)
i1e = _recorded(bessel.i1e)
laguerre_polynomial_l = _recorded(polynomials.laguerre_polynomial_l)
legendre_polynomial_p = _recorded(polynomials.legendre_polynomial_p)
log1p = _recorded(elementwise.log1p)
log_ndtr = _recorded(normal_distribution.log_ndtr)
log_softmax = _recorded(reduce.log_softmax)
logit = _recorded(activation.logit)
logsumexp = _recorded(reduce.logsumexp)
modified_bessel_i0 = _recorded(bessel.i0, "modified_bessel_i0")
modified_bessel_i1 = _recorded(bessel.i1, "modified_bessel_i1")
modified_bessel_k0 = _recorded(bessel.modified_bessel_k0)
modified_bessel_k1 = _recorded(bessel.modified_bessel_k1)
multigammaln = _recorded(_functions.multigammaln)
ndtr = _recorded(normal_distribution.ndtr)
ndtri = _recorded(normal_distribution.ndtri)
polygamma = _recorded(_functions.polygamma)
psi = _recorded(_functions.digamma, "psi")
round = extended("round", _recorded(elementwise.round))
scaled_modified_bessel_k0 = _recorded(bessel.scaled_modified_bessel_k0)
scaled_modified_bessel_k1 = _recorded(bessel.scaled_modified_bessel_k1)
shifted_chebyshev_polynomial_t = _recorded(polynomials.shifted_chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = _recorded(polynomials.shifted_chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = _recorded(polynomials.shifted_chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = _recorded(polynomials.shifted_chebyshev_polynomial_w)
sinc = _recorded(_functions.sinc)
softmax = _recorded(reduce.softmax)
spherical_bessel_j0 = _recorded(bessel.spherical_bessel_j0)
xlog1py = _recorded(normal_distribution.xlog1py)
xlogy = _recorded(_functions.xlogy)
zeta = _recorded(normal_distribution.zeta)
