"""Special functions with the names of torch.special: recorded for gradients when netcl.autograd is loaded.

Each is a row of the op table; tools/write_stubs.py writes their types.
"""

from __future__ import annotations

from typing import Any

import netcl.ops  # noqa: F401  (fills the op table)
from netcl.core.ops_table.dispatch import row_of
from netcl.core.tensor.methods import extended
from netcl.ops.table import as_function

# Functions with the name of their row.
_SAME = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 expm1 hermite_polynomial_h hermite_polynomial_he i0 i0e
i1 i1e laguerre_polynomial_l legendre_polynomial_p log1p log_ndtr log_softmax logit logsumexp modified_bessel_k0
modified_bessel_k1 multigammaln ndtr ndtri polygamma round scaled_modified_bessel_k0 scaled_modified_bessel_k1
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w sinc softmax spherical_bessel_j0 xlog1py xlogy zeta
"""
# Other functions -> the name of the row.
_ALIASES = {
    "expit": "sigmoid", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma",
    "modified_bessel_i0": "i0", "modified_bessel_i1": "i1", "psi": "digamma",
}  # fmt: skip
_ROWS = {**{name: name for name in _SAME.split()}, **_ALIASES}

for _name, _row in _ROWS.items():
    _function: Any = as_function(row_of(_row), True)
    _function.__name__ = _function.__qualname__ = _name
    _function.__module__ = __name__
    globals()[_name] = _function
round = extended("round", globals()["round"])

__all__ = sorted(_ROWS)
