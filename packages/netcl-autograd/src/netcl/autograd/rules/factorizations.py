"""Gradient rules of factorizations and linear systems, made of products and of the same factorizations (Giles 2008)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule
from netcl.autograd.rules.shape import summed_to
from netcl.core.errors import UnsupportedError


def _product(call: RecordedCall, *factors: Any) -> Any:
    """Returns the product of matrices from the left; a pair (x, "T") is a transposed factor."""
    result, turned = _plain(factors[0])
    for factor in factors[1:]:
        right, transpose = _plain(factor)
        result = call.op("matmul", result, right, transpose_a=turned, transpose_b=transpose)
        turned = False
    return result


def _plain(factor: Any) -> tuple[Any, bool]:
    return (factor[0], True) if isinstance(factor, tuple) else (factor, False)


def _t(call: RecordedCall, x: Any) -> Any:
    return call.op("permute", x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _column(call: RecordedCall, x: Any) -> Any:
    return call.op("reshape", x, (*x.shape, 1))


def _row(call: RecordedCall, x: Any) -> Any:
    return call.op("reshape", x, (*x.shape[:-1], 1, x.shape[-1]))


def _halved_lower(call: RecordedCall, x: Any) -> Any:
    """Returns the lower triangle with half of the diagonal."""
    return call.op("mul", call.op("add", call.op("tril", x), call.op("tril", x, -1)), 0.5)


def _diagonal(call: RecordedCall, values: Any) -> Any:
    """Returns the matrices with ``values`` (..., n) on the diagonal."""
    wide = call.op("expand", _row(call, values), (*values.shape, values.shape[-1]))
    return call.op("tril", call.op("triu", wide))


def _inverse_gaps(call: RecordedCall, values: Any) -> Any:
    """Returns 1 / (v[j] - v[i]), and 0 on the diagonal; infinite for equal values: their vectors have no gradient."""
    gaps = call.op("sub", _row(call, values), _column(call, values))
    ones = call.op("cast", call.op("eq", values, values), dtype=values.dtype)
    identity = _diagonal(call, ones)  # keeps the quotients on the diagonal finite, also in their gradient
    return call.op("sub", call.op("reciprocal", call.op("add", gaps, identity)), identity)


@rule("linalg_cholesky", x="out")
def cholesky(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns for x = L L^T: L^-T P L^-1 made symmetric, P the lower triangle of L^T dL with half of the diagonal."""
    lower = _t(call, call.out) if call.upper else call.out
    grad = _t(call, grad) if call.upper else grad
    inner = _halved_lower(call, _product(call, (lower, "T"), grad))
    inverse = call.op("linalg_inv", lower)
    product = _product(call, (inverse, "T"), inner, inverse)
    return {"x": call.op("mul", call.op("add", product, _t(call, product)), 0.5)}


def _square_qr(call: RecordedCall, q: Any, r: Any, by_q: Any, by_r: Any) -> Any:
    """Returns (dQ + Q S) R^-T, S the symmetric matrix with the upper triangle of dR R^T - Q^T dQ."""
    terms = []
    if by_r is not None:
        terms.append(_product(call, by_r, (r, "T")))
    if by_q is not None:
        inner = _product(call, (q, "T"), by_q)
        terms.append(call.op("neg", inner))
    inner = terms[0] if len(terms) == 1 else call.op("add", *terms)
    upper = _t(call, _halved_lower(call, _t(call, inner)))
    symmetric = call.op("add", upper, _t(call, upper))
    total = _product(call, q, symmetric)
    if by_q is not None:
        total = call.op("add", by_q, total)
    return _product(call, total, (call.op("linalg_inv", r), "T"))


@rule("linalg_qr", x="x out out1")
def qr(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns ``_square_qr`` for m >= n. A wide x = [X Y] has X = Q U and Y = Q V with R = [U V], so that dY = Q dV,
    and Y dV^T is added to dQ.
    """
    by_q, by_r = call.grads
    q, r = call.out, call.out1
    m, n = call.x.shape[-2:]
    if call.mode == "r":
        raise UnsupportedError("linalg.qr: mode 'r' has no gradient, as it does not compute Q; use 'reduced'")
    if call.mode == "complete" and m > n:
        raise UnsupportedError("linalg.qr: mode 'complete' has no gradient for more rows than columns; use 'reduced'")
    if m >= n:
        return {"x": _square_qr(call, q, r, by_q, by_r)}
    right = _part(call, call.x, -1, m, n - m)
    left = None
    if by_r is not None:
        left = _part(call, by_r, -1, 0, m)
        by_right = _part(call, by_r, -1, m, n - m)
        extra = _product(call, right, (by_right, "T"))
        by_q = extra if by_q is None else call.op("add", by_q, extra)
        by_right = _product(call, q, by_right)
    else:
        by_right = call.op("mul", right, 0.0)
    by_left = _square_qr(call, q, _part(call, r, -1, 0, m), by_q, left)
    return {"x": call.op("concatenate", by_left, by_right, axis=-1)}


def _part(call: RecordedCall, x: Any, axis: int, start: int, size: int) -> Any:
    at = axis % x.ndim
    if x.shape[at] == size:
        return x
    starts, sizes = [0] * x.ndim, list(x.shape)
    starts[at], sizes[at] = start, size
    return call.op("strided_slice", x, starts, [1] * x.ndim, sizes)


@rule("linalg_svd", x="out out1 out2")
def svd(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns U (skew(U^T dU) F S + S skew(V^T dV) F + diag(dS)) V^T, with F[i, j] = 1 / (s[j]^2 - s[i]^2), and the
    parts of dU and dV outside of the spaces of U and V (Townsend 2016).
    """
    by_u, by_s, by_vh = call.grads
    values = call.out1
    k = values.shape[-1]
    u, vh = _part(call, call.out, -1, 0, k), _part(call, call.out2, -2, 0, k)
    core = None
    if by_s is not None:
        core = _diagonal(call, by_s)
    extra = None
    scale = None
    if by_u is not None or by_vh is not None:
        scale = _inverse_gaps(call, call.op("mul", values, values))
    if by_u is not None:
        by_u = _part(call, by_u, -1, 0, k)
        inner = _product(call, (u, "T"), by_u)
        skew = call.op("mul", call.op("sub", inner, _t(call, inner)), scale)
        core = _sum(call, core, call.op("mul", skew, _row(call, values)))
        if u.shape[-2] > k:
            outside = call.op("div", call.op("sub", by_u, _product(call, u, inner)), _row(call, values))
            extra = _sum(call, extra, _product(call, outside, vh))
    if by_vh is not None:
        by_vh = _part(call, by_vh, -2, 0, k)
        inner = _product(call, vh, (by_vh, "T"))
        skew = call.op("mul", call.op("sub", inner, _t(call, inner)), scale)
        core = _sum(call, core, call.op("mul", _column(call, values), skew))
        if vh.shape[-1] > k:
            # (I - V V^T) dV S^-1, transposed
            outside = call.op("sub", by_vh, _product(call, (inner, "T"), vh))
            extra = _sum(call, extra, _product(call, u, call.op("div", outside, _column(call, values))))
    return {"x": _sum(call, extra, _product(call, u, core, vh))}


def _sum(call: RecordedCall, a: Any, b: Any) -> Any:
    return b if a is None else call.op("add", a, b)


@rule("linalg_svdvals", x="x")
def svdvals(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns U diag(dS) V^T."""
    u, _, vh = call.op("linalg_svd", call.x, full_matrices=False)
    return {"x": _product(call, call.op("mul", u, _row(call, grad)), vh)}


@rule("linalg_eigh", x="out out1")
def eigh(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns V (diag(dw) + V^T dV / (w[j] - w[i])) V^T."""
    by_values, by_vectors = call.grads
    values, vectors = call.out, call.out1
    core = None
    if by_vectors is not None:
        core = call.op("mul", _product(call, (vectors, "T"), by_vectors), _inverse_gaps(call, values))
    if by_values is not None:
        core = _sum(call, core, _diagonal(call, by_values))
    return {"x": _product(call, vectors, core, (vectors, "T"))}


@rule("linalg_eigvalsh", x="x")
def eigvalsh(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns V diag(dw) V^T."""
    _, vectors = call.op("linalg_eigh", call.x, UPLO=call.UPLO)
    return {"x": _product(call, call.op("mul", vectors, _row(call, grad)), (vectors, "T"))}


@rule("linalg_inv", x="out")
def inv(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns -X^T dX X^T of the inverse X."""
    return {"x": call.op("neg", _product(call, (call.out, "T"), grad, (call.out, "T")))}


def _by_pseudoinverse(call: RecordedCall, x: Any, inverse: Any, grad: Any) -> Any:
    """Returns -P^T dP P^T + (I - x P) dP^T P P^T + P^T P dP^T (I - P x) (Golub and Pereyra 1973)."""
    turned = _t(call, grad)
    first = _product(call, turned, inverse, (inverse, "T"))
    first = call.op("sub", first, _product(call, x, inverse, first))
    second = _product(call, (inverse, "T"), inverse, turned)
    second = call.op("sub", second, _product(call, second, inverse, x))
    both = call.op("add", first, second)
    return call.op("sub", both, _product(call, (inverse, "T"), grad, (inverse, "T")))


@rule("linalg_pinv", x="x out")
def pinv(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns ``_by_pseudoinverse``."""
    return {"x": _by_pseudoinverse(call, call.x, call.out, grad)}


@rule("linalg_solve", a="a out", b="a")
def solve(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns for a X = b: db = a^-T dX and da = -db X^T; for X a = b: db = dX a^-T and da = -X^T db."""
    a, b = call.a, call.b
    vector = len(b.shape) == 1 or len(a.shape) - 1 == len(b.shape) and a.shape[:-1] == b.shape
    grad = _column(call, grad) if vector else grad
    by_b = call.op("linalg_solve", _t(call, a), grad, left=call.left)
    grads = {}
    if call.wants("b"):
        wide = (*b.shape, 1) if vector else b.shape
        grads["b"] = summed_to(call, by_b, wide)
        if vector:
            grads["b"] = call.op("reshape", grads["b"], b.shape)
    if call.wants("a"):
        out = _column(call, call.out) if vector else call.out
        product = _product(call, by_b, (out, "T")) if call.left else _product(call, (out, "T"), by_b)
        grads["a"] = summed_to(call, call.op("neg", product), a.shape)
    return grads


@rule("linalg_lstsq", a="a b", b="a b")
def lstsq(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns gradients through the pseudoinverse P, as the solution X is P b; of the squared residuals R = a X - b, dr
    gives 2 R dr X^T and -2 R dr. The rank and the singular values have no gradient.
    """
    by_residuals = call.grads[1]
    if grad is None and by_residuals is None:
        raise UnsupportedError("linalg.lstsq: the solution and the residuals have a gradient, singular values none")
    a, b = call.a, call.b
    vector = len(b.shape) < len(a.shape) and (len(b.shape) == 1 or a.shape[:-1] == b.shape)
    wide = _column(call, b) if vector else b
    inverse = call.op("linalg_pinv", a)
    grads: dict[str, Any] = {}
    if grad is not None:
        grad = _column(call, grad) if vector else grad
        if call.wants("b"):
            grads["b"] = summed_to(call, _product(call, (inverse, "T"), grad), wide.shape)
        if call.wants("a"):
            by_inverse = summed_to(call, _product(call, grad, (wide, "T")), inverse.shape)
            grads["a"] = _by_pseudoinverse(call, a, inverse, by_inverse)
    if by_residuals is not None and by_residuals.size:
        solution = _product(call, inverse, wide)
        by_each = _column(call, by_residuals) if vector else by_residuals
        rest = call.op("sub", _product(call, a, solution), wide)
        weighted = call.op("mul", call.op("mul", rest, _row(call, by_each)), 2.0)
        more = {"a": lambda: _product(call, weighted, (solution, "T")), "b": lambda: call.op("neg", weighted)}
        for name, shape in (("a", a.shape), ("b", wide.shape)):
            if call.wants(name):
                part = summed_to(call, more[name](), shape)
                grads[name] = call.op("add", grads[name], part) if name in grads else part
    if "b" in grads and vector:
        grads["b"] = call.op("reshape", grads["b"], b.shape)
    return grads


@rule("linalg_det", x="x")
def det(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the matrix of cofactors times the gradient; it exists for singular matrices too."""
    return {"x": call.op("mul", call.op("linalg_cofactors", call.x), _column(call, _column(call, grad)))}


@rule("linalg_cofactors", x="x out")
def cofactors(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns for C = det(x) x^-T: sum(dC * x^-T) C - x^-T dC^T C; it needs the inverse."""
    turned = _t(call, call.op("linalg_inv", call.x))
    total = call.op("sum", call.op("mul", grad, turned), axis=(-2, -1), keepdims=True)
    return {"x": call.op("sub", call.op("mul", total, call.out), _product(call, turned, (grad, "T"), call.out))}


@rule("linalg_slogdet", x="x")
def slogdet(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the transposed inverse times the gradient of the logarithm; the sign is constant."""
    by_logarithm = call.grads[1]
    if by_logarithm is None:
        return {}
    turned = _t(call, call.op("linalg_inv", call.x))
    return {"x": call.op("mul", turned, _column(call, _column(call, by_logarithm)))}


@rule("linalg_lu_factor", x="out out1")
def lu_factor(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns P L^-T (tril(L^T dL, -1) + triu(dU U^T)) U^-T for x = P L U, square.

    The columns of a wide U beyond the square, U2 = L^-1 A2, add -L^-T dU2 U2^T to dL; the rows of a tall L below it,
    L2 = A2 U^-1, add -L2^T dL2 U^-T to dU.
    """
    packed, pivots, by_factors = call.out, call.out1, call.grads[0]
    rows, columns = packed.shape[-2:]
    k = min(rows, columns)
    rest, by_rest, axis = None, None, -1 if rows < columns else -2
    if rows != columns:
        rest, by_rest = (call.op("narrow", x, axis, k, max(rows, columns) - k) for x in (packed, by_factors))
        packed, by_factors = (call.op("narrow", x, axis, 0, k) for x in (packed, by_factors))
    ones = call.op("cast", call.op("eq", packed, packed), dtype=packed.dtype)
    lower = call.op("add", call.op("tril", packed, -1), call.op("tril", call.op("triu", ones)))
    upper = call.op("triu", packed)
    by_lower, by_upper = call.op("tril", by_factors, -1), call.op("triu", by_factors)
    if rows < columns:
        by_rest = call.op("linalg_solve", _t(call, lower), by_rest)
        by_lower = call.op("sub", by_lower, call.op("tril", _product(call, by_rest, (rest, "T")), -1))
    elif rows > columns:
        by_rest = call.op("linalg_solve", _t(call, upper), by_rest, left=False)
        by_upper = call.op("sub", by_upper, call.op("triu", _product(call, (rest, "T"), by_rest)))
    inner = call.op(
        "add",
        call.op("tril", _product(call, (lower, "T"), by_lower), -1),
        call.op("triu", _product(call, by_upper, (upper, "T"))),
    )
    solved = call.op("linalg_solve", _t(call, lower), inner)
    solved = call.op("linalg_solve", _t(call, upper), solved, left=False)
    if by_rest is not None:
        solved = call.op("concatenate", solved, by_rest, axis=axis)
    order = call.op("linalg_permutation", pivots, rows)
    return {"x": _product(call, call.op("cast", order, dtype=packed.dtype), solved)}
