"""Level tracing: a jitted function gives what it gives eagerly."""

from __future__ import annotations

import numpy as np

from netcl_conformance.checks.gradient import autograd
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor


@check("tracing")
def jit_gives_the_values_and_gradients_of_eager_calls() -> None:
    autograd()
    from netcl.autograd.compiler import jit_compile

    def function(x, y):  # type: ignore[no-untyped-def]
        z = (x * 2 + y).tanh()
        return (z * z - x).sum(1)

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((4, 5)), rng.standard_normal(5)
    found = []
    for call in (function, jit_compile(function)):
        for _ in range(2):
            a, b = tensor(x, "float32", requires_grad=True), tensor(y, "float32", requires_grad=True)
            result = call(a, b)
            result.sum().backward()
        found.append((result.numpy(), a.grad.numpy(), b.grad.numpy()))
    for eager, jitted in zip(*found):
        np.testing.assert_allclose(jitted, eager, rtol=1e-5, atol=1e-6)
    z = np.tanh(x * 2 + y)
    assert_close(result, (z * z - x).sum(1).astype(np.float32))
