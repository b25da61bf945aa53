"""Ops on NaN, infinities, zeros of both signs, subnormals and the ends of the integers among the numbers of their own
cases: contractions, windows, norms and whatever else is not elementwise, which ``extremes`` covers.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from netcl.core.dtypes import integer_range, is_floating, is_unsigned
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.registry import cpu_engine
from netcl.core.errors import NetclError
from netcl.core.ops_table.dispatch import TABLE, OpRow, row_of
from netcl.core.testing.conformance import Case, expected, op_cases, run_case
from netcl.core.testing.extremes import agree, extreme_ops
from netcl.core.testing.op_families import AT_MOST_32_BITS

Array = np.ndarray[Any, Any]

_MOST = 3000  # elements of the operands of a case
_SUBNORMAL = {"float32": 2.0**-149, "float64": 5e-324, "float16": 2.0**-24, "bfloat16": 2.0**-133}
_LARGEST = {"float32": 3.4e38, "float64": 1.7e308, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}

# Rows with cases and a reference that says nothing about special values, and the reason.
_MATRIX = "the reference is a product with a matrix, in which a NaN meets zeros"
_ORDER = "the result depends on the order of operations"
_OWN = "the reference follows another convention"
UNDEFINED: dict[str, str] = {
    **dict.fromkeys((
        "avg_pool_grad", "adaptive_avg_pool_grad", "conv1d_grad_input", "conv1d_grad_weight", "conv2d_grad_input",
        "conv2d_grad_weight", "conv3d_grad_input", "conv3d_grad_weight", "col2im", "resample", "resample_grad",
        "interpolate", "upsample", "grid_sum", "grid_sample",
    ), _MATRIX),
    **dict.fromkeys((
        "linear_recurrence", "linalg_cofactors", "logdet", "tiled_attention", "tiled_attention_gradients", "ctc_paths",
        "ctc_loss", "ctc_occupancy", "recurrence", "quantile", "affine_grid", "gradient",
    ), _ORDER),
    **dict.fromkeys((
        "linalg_svd", "linalg_svdvals", "linalg_eigh", "linalg_eigvalsh", "linalg_pinv", "linalg_lstsq",
        "linalg_matrix_rank", "linalg_matrix_norm", "linalg_norm", "linalg_cholesky_ex", "linalg_cond",
        "linalg_lu_solve", "linalg_solve_triangular", "matrix_exp",
    ), "LAPACK refuses, computes nonsense or does not end"),
    **dict.fromkeys((
        "nextafter", "nan_to_num", "cosine_similarity", "median", "adaptive_max_pool", "permutation", "grid_weight",
        "grid_index", "erfinv", "entr", "erfcx", "i0e", "i1", "i1e", "ndtri", "zeta", "polygamma_of", "polygamma",
        "multigammaln", "digamma", "histogram", "histc", "addcdiv", "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0",
        "bessel_y1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1", "spherical_bessel_j0", "igamma", "igammac",
        *(shifted + f"chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
        "polynomial_start", "polynomial_steps", "polynomial_end",
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    ), _OWN),
}  # fmt: skip

# Random numbers: the draws of two calls differ.
_DRAWN = ("poisson", "binomial")

# Operands by position that may hold special values only in the sense of one engine: a NaN or infinity of a weight
# meets the zeros of padding in the kernels that multiply them; a sequence with NaN in its middle is not sorted; the
# states of CTC and coordinates of a grid that are not finite select no element.
_PLAIN: dict[str, tuple[int, ...]] = {
    "conv1d_grad_input": (1,), "conv2d_grad_input": (1,), "conv3d_grad_input": (1,), "searchsorted": (0,),
    "bucketize": (1,), "ctc_paths": (0,), "ctc_occupancy": (0, 4, 5), "ctc_loss": (0,),
    "linear_recurrence": (1,),
}  # fmt: skip
# Rows in which the largest number overflows or cancels by the order of operations: a matrix unit scales the scores of
# attention after their sum, which is infinite then, so that the result is NaN (as in PyTorch on CUDA).
_SMALL = {"recurrence_back", "recurrence", "linear_recurrence", "tiled_attention", "tiled_attention_gradients"}
# Rows that compute in floats and round, where integers near their ends keep no digit after the point.
# Of integers these compute in float32 and round, or add in another order: results differ in their last places.
_ROUNDED = {
    "tiled_attention", "tiled_attention_gradients", "resample_grad", "rotate_pairs", "lstm_gates", "gru_gates",
    "kl_div", "kl_terms", "absolute_error", "huber_error", "smooth_error", "avg_pool_grad", "adaptive_avg_pool_grad",
}  # fmt: skip

# Rows that drivers of CPUs compute with an operand rounded to shorts: the largest of 32 neighbours decides the error.
_AS_SHORTS = ("packed_fused", "packed_product")


def special_ops() -> tuple[str, ...]:
    """Returns the rows of netcl.ops with cases of floating operands that ``extreme_ops`` leaves out, except random
    numbers. The references of other rows, such as losses, need not hold for special values.
    """
    importlib.import_module("netcl.ops")
    others = set(extreme_ops())
    own = [
        name
        for name, row in TABLE.items()
        if name not in {*others, *_DRAWN, *AT_MOST_32_BITS} and _module(row).startswith("netcl.ops.")
    ]
    return tuple(name for name in own if next(_cases(name), None) is not None)


def _module(row: OpRow) -> str:
    """Returns the name of the module that defines a row by a function."""
    return getattr(row.call or row.composite or row.expression, "__module__", "")


def _cases(name: str) -> Iterator[Case]:
    """Yields the small cases of a row with floating operands, beginning with the first."""
    for case in op_cases(name):
        sizes = [array.size for _, array in _floats(case.operands)]
        if sizes and sum(sizes) < _MOST:
            yield case


def _floats(operands: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yields the floating arrays among operands that have elements, and their places."""
    for place, operand in enumerate(operands):
        if isinstance(operand, list):
            yield from _floats(operand, (*path, place))
        elif isinstance(operand, np.ndarray) and operand.dtype.kind == "f" and operand.size:
            yield (*path, place), operand


def _replaced(operands: Any, changed: dict[tuple[int, ...], Array], path: tuple[int, ...] = ()) -> list[Any]:
    result: list[Any] = []
    for place, operand in enumerate(operands):
        at = (*path, place)
        result.append(_replaced(operand, changed, at) if isinstance(operand, list) else changed.get(at, operand))
    return result


def special_cases(name: str, dtype: str, count: int = 1) -> Iterator[tuple[str, Case]]:
    """Returns ``count`` cases of a row with special values of ``dtype`` at few places of one operand each, named."""
    rng = np.random.default_rng(0)
    for number, case in enumerate(_cases(name)):
        if number == count or (name in _ROUNDED and not is_floating(dtype)):
            return
        if is_floating(dtype):
            kinds = {
                "NaN": (math.nan,),
                "infinity": (math.inf,),
                "-infinity": (-math.inf,),
                "both infinities": (math.inf, -math.inf),
                "zeros and the least": (0.0, -0.0, _SUBNORMAL[dtype]),
                "the largest": (_LARGEST[dtype],),
            }
            if name in _SMALL:
                del kinds["the largest"]
            if name == "tiled_attention_gradients":  # the order of additions decides between an infinity and NaN
                del kinds["both infinities"]
            plain = {}
        else:
            low, high = integer_range(dtype)
            kinds = {"the least": (low,), "the greatest": (high,), "both ends": (low, high, 0)}
            plain = {path: _whole(array, dtype) for path, array in _floats(case.operands)}
        for path, array in _floats(case.operands):
            if path[0] in _PLAIN.get(name, ()):
                continue
            for kind, values in kinds.items():
                special = np.array(plain.get(path, array))
                places = rng.permutation(special.size)[: len(values)]
                special.reshape(-1)[places] = values[: special.size]
                operands = _replaced(case.operands, {**plain, path: special})
                yield f"{kind} in operand {path[0]}, {case.attributes}", Case(tuple(operands), case.attributes)


def _whole(array: Array, dtype: str) -> Array:
    finite = np.where(np.isfinite(array), np.rint(array), 0)
    return (abs(finite) if is_unsigned(dtype) else finite).astype(dtype)


def _results(name: str, case: Case, engine: DeviceBackend, dtype: str) -> tuple[list[tuple[Array, str]], str]:
    """Returns the results with their dtypes, and the name of the error that was raised instead."""
    try:
        return [(result.numpy(), result.dtype) for result in run_case(name, case, engine, dtype)], ""
    except (NetclError, ValueError, ArithmeticError, TypeError, LookupError) as error:
        return [], type(error).__name__


def special_disagreement(name: str, engine: DeviceBackend, dtype: str, count: int = 1) -> str:
    """Returns how an op differs on special values of a dtype; empty if it does not.

    An OpenCL engine is compared with NumPy's, also in what it refuses; NumPy's engine in float32 and float64 with the
    float64 reference of the row, except for UNDEFINED ones.
    """
    host = engine is cpu_engine()
    if host and (dtype not in ("float32", "float64") or name in UNDEFINED or row_of(name).domain.reference is None):
        return ""
    for label, case in special_cases(name, dtype, count):
        if "largest" in label and (host or name in _AS_SHORTS):
            continue
        results, refusal = _results(name, case, engine, dtype)
        if host:
            with np.errstate(all="ignore"):
                try:
                    references, refused = expected(name, case, dtype), ""
                except (ValueError, ArithmeticError, LookupError, np.linalg.LinAlgError) as error:
                    references, refused = (), type(error).__name__
            if bool(refused) != bool(refusal):
                return f"{name} of {dtype}, {label}: {refusal or 'no error'}, not {refused or 'none'}"
            wanted = [np.asarray(reference) for reference in references]
        else:
            others, refused = _results(name, case, cpu_engine(), dtype)
            if refused != refusal:
                return f"{name} of {dtype}, {label}: {refusal or 'no error'}, not {refused or 'none'}"
            wanted = [other for other, _ in others]
        for (got, of), want in zip(results, wanted):
            fault = agree(got, want, of, cancels=True, share=1e-4 if name in _AS_SHORTS else 0.0)
            if fault:
                return f"{name} of {dtype}, {label}: {fault[1]} at {fault[0]}, not {fault[2]}"
    return ""
