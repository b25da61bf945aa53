"""Gradients of gradients against PyTorch: every differentiable function of PyTorch's own table of ops that netcl has,
with its own samples (axes, keepdim, axes of length one, broadcasting), op by op and jitted, in float64.
"""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import netcl.autograd as ag
import netcl.torch as nt
from netcl.core import Tensor
from netcl.core.errors import NetclError, UnsupportedError

if "expecttest" not in sys.modules:  # PyTorch's tests import it; the table of ops does not use it
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 3
LARGEST = 200
RANDOM = ("dropout", "rrelu", "normal", "rand", "bernoulli", "multinomial", "fractional", "lowrank", "empty")
# Functions that are called in another way (properties, further arguments first), draw, or are themselves not equal:
# gradients of elements that are not read, of positions that occur twice, of quantiles by q, and of dtypes.
OTHERWISE = {
    "H", "T", "angle", "cholesky_inverse", "cholesky_solve", "cov", "diff", "div", "double", "einsum", "float",
    "gather", "linalg.eigh", "linalg.eigvalsh", "linalg.householder_product", "linalg.lstsq", "linalg.matrix_power",
    "linalg.norm", "linalg.pinv", "mH", "mT", "matrix_exp", "nanquantile", "nn.functional.embedding",
    "nn.functional.embedding_bag",
    "nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d",
    "nn.functional.multi_head_attention_forward", "polygamma", "quantile", "special.polygamma", "where",
}  # fmt: skip
COUNTS = {"compared": 0, "refused by one of both": 0}


def named(name: str) -> Callable[..., Any] | None:
    found: Any = nt
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            return getattr(nt.Tensor, name, None)
    return found if callable(found) else None


def places(value: Any, kind: type) -> Iterator[Any]:
    """The tensors that require grad in arguments."""
    if isinstance(value, kind):
        if value.requires_grad:
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from places(each, kind)
    elif isinstance(value, dict):
        yield from places(list(value.values()), kind)


def converted(value: Any) -> Any:
    """PyTorch's arguments as netcl's."""
    if isinstance(value, torch.Tensor):
        made = Tensor.from_host(value.detach().numpy().copy(), str(value.dtype).removeprefix("torch."))
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, torch.dtype):
        return getattr(nt, str(value).removeprefix("torch."))
    if isinstance(value, (list, tuple)):
        return [converted(each) for each in value] if isinstance(value, list) else tuple(map(converted, value))
    return {key: converted(each) for key, each in value.items()} if isinstance(value, dict) else value


def floating(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [one for each in result for one in floating(each)]
    return [result] if str(getattr(result, "dtype", "")).endswith(("float64", "float32")) else []


def weights(x: Any) -> Any:
    return 0.3 + np.cos(1.7 * np.arange(int(np.prod(tuple(x.shape))))).reshape(tuple(x.shape))


def derivatives(function: Callable[[], Any], leaves: list[Any], grad: Callable[..., Any], weight: Any) -> Any:
    """The loss, its gradients, and those of the loss with the squares of its gradients; None without a gradient."""
    outputs = [one for one in floating(function()) if one.requires_grad and one.numel()]
    if not outputs:
        return None
    loss = sum((one * one * weight(one)).mean() for one in outputs)
    first = grad(loss, leaves, create_graph=True, allow_unused=True)
    total = loss + sum(0.1 * (one * one * weight(one)).sum() for one in first if one is not None and one.numel())
    second = grad(total, leaves, allow_unused=True)
    return [np.asarray(0.0 if one is None else (one + 0.0).detach().numpy()) for one in (loss, *first, *second)]


OPS = {
    f"{op.name} {op.variant_test_name}".strip(): op
    for op in op_db
    if op.supports_autograd and op.supports_gradgrad and torch.float64 in op.dtypes
    if op.name not in OTHERWISE and not any(word in op.name for word in RANDOM) and named(op.name) is not None
}


def samples(op: Any) -> list[Any]:
    found = [
        sample
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True)
        if 0 < sum(leaf.numel() for leaf in places((sample.input, sample.args, sample.kwargs), torch.Tensor)) <= LARGEST
    ]
    return [found[int(at)] for at in np.unique(np.linspace(0, len(found) - 1, SAMPLES).round())] if found else []


def test_the_table_is_long() -> None:
    assert len(OPS) > 300


@pytest.mark.parametrize("name", OPS)
def test_gradients_of_gradients(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(OPS[name]):
            compare(OPS[name], sample)


def compare(op: Any, sample: Any) -> None:
    function: Any = named(op.name)
    after, args = sample.output_process_fn_grad, (sample.input, *sample.args)
    leaves = list(places((args, sample.kwargs), torch.Tensor))
    try:
        wanted = derivatives(
            lambda: after(op.op(*args, **sample.kwargs)),
            leaves,
            torch.autograd.grad,
            lambda x: torch.tensor(weights(x)),
        )
    except (RuntimeError, NotImplementedError):
        COUNTS["refused by one of both"] += 1
        return
    if wanted is None or not all(np.isfinite(one).all() for one in wanted):
        return
    given, options = converted(args), converted(sample.kwargs)
    mine = list(places((given, options), Tensor))

    def call() -> Any:
        return after(function(*given, **options))

    try:
        call()
    except (NetclError, TypeError, ValueError, IndexError, RuntimeError):  # forms that netcl.torch refuses
        COUNTS["refused by one of both"] += 1
        return
    for way in (call, ag.jit_compile(call)):
        try:
            found = derivatives(way, mine, ag.grad, lambda x: Tensor.from_host(weights(x), "float64"))
        except UnsupportedError:  # the factors of matrices that are not square
            COUNTS["refused by one of both"] += 1
            continue
        COUNTS["compared"] += 1
        for got, want in zip(found, wanted, strict=True):  # a gradient that is None is 0
            scale = max(1.0, float(np.abs(want).max(initial=0.0)))
            np.testing.assert_allclose(*np.broadcast_arrays(got, want), rtol=1e-6, atol=1e-7 * scale)


def test_print_the_counts() -> None:
    print(COUNTS)
    assert COUNTS["compared"] > 0
