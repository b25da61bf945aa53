"""Functions of torch, torch.nn.functional, torch.linalg and torch.special: values, dtypes, gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl as nc
import netcl.nn.functional as nf

RNG = np.random.default_rng(18)


def uniform(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    return RNG.uniform(low, high, shape).astype(np.float32)


def distinct(*shape: int) -> Any:
    return RNG.permutation(np.linspace(-2, 2, int(np.prod(shape)))).reshape(shape).astype(np.float32)


# name: (function of (module, *tensors), arrays, True if floating arrays are differentiated)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {}
_MODULES = {"nc": (torch, nc), "F": (F, nf), "linalg": (torch.linalg, None), "special": (torch.special, None)}


def case(space: str, name: str, *arrays: Any, grad: bool = True, call: Any = None, **attributes: Any) -> None:
    """A call of ``name`` in a module with the arrays as tensors; ``call(function, *tensors)`` for another form."""
    shown = f"{space}.{name} {len(CASES)}"

    def function(module: Any, *tensors: Any) -> Any:
        found = getattr(module, name)
        return call(found, *tensors) if call is not None else found(*tensors, **attributes)

    function.space = space  # type: ignore[attr-defined]
    CASES[shown] = (function, arrays, grad)


def outputs(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, (tuple, list)):
        return [one for each in result for one in outputs(each)]
    return [result]


def is_floating(x: Any) -> bool:
    return str(x.dtype).removeprefix("torch.") in ("float16", "bfloat16", "float32", "float64")


# -- torch.nn.functional -----------------------------------------------------------------------------------------------

_SAMPLES = RNG.random((2, 3, 2)).astype(np.float32)
case("F", "fractional_max_pool2d", distinct(2, 3, 7, 5), _SAMPLES, call=lambda f, x, s: f(
    x, (2, 3), (3, 2), return_indices=True, _random_samples=s.detach()))  # fmt: skip
case("F", "fractional_max_pool2d", distinct(2, 3, 9, 8), _SAMPLES, call=lambda f, x, s: f(
    x, 2, output_ratio=(0.6, 0.7), _random_samples=s.detach()))  # fmt: skip
_SAMPLES = RNG.random((2, 3, 3)).astype(np.float32)
case("F", "fractional_max_pool3d", distinct(2, 3, 5, 6, 7), _SAMPLES, call=lambda f, x, s: f(
    x, 2, (2, 3, 4), return_indices=True, _random_samples=s.detach()))  # fmt: skip
for _n in (1, 2, 3):
    case("F", f"max_pool{_n}d_with_indices", distinct(2, 3, *(6,) * _n), kernel_size=2)
    case("F", f"adaptive_max_pool{_n}d_with_indices", distinct(2, 3, *(6,) * _n), output_size=4)
    case("F", f"lp_pool{_n}d", uniform(2, 3, *(6,) * _n, low=0.1), norm_type=2.0, kernel_size=2)
    case("F", "local_response_norm", uniform(2, 5, *(3,) * _n), size=3, alpha=0.5, beta=0.6, k=2.0)
    case("F", "local_response_norm", uniform(2, 5, *(3,) * _n), size=4)
    case("F", "channel_shuffle", uniform(2, 6, *(3,) * _n), groups=3)
case("F", "native_channel_shuffle", uniform(2, 6, 3, 3), grad=False, groups=2)
case("F", "upsample_nearest", uniform(2, 3, 4, 5), scale_factor=2)
case("F", "upsample_bilinear", uniform(2, 3, 4, 5), size=(7, 3))
case("F", "rrelu", uniform(4, 5))
case("F", "bilinear", uniform(4, 3), uniform(4, 2), uniform(5, 3, 2), uniform(5))
case("F", "conv_tbc", uniform(6, 2, 3), uniform(3, 3, 4), uniform(4), pad=1)
for _name, _more in (
    ("celu_", (0.7,)), ("elu_", (0.7,)), ("hardtanh_", (-0.5, 0.7)), ("leaky_relu_", (0.3,)), ("relu_", ()),
    ("selu_", ()), ("threshold_", (0.3, 1.0)), ("rrelu_", ()),
):  # fmt: skip
    case("F", _name, uniform(4, 5), call=lambda f, x, more=_more: f(x * 1, *more))
for _name in ("alpha_dropout", "feature_alpha_dropout", "rrelu"):
    case("F", _name, uniform(4, 5, 3), training=False)


# -- the comparison ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_functions_compute_what_pytorch_does(name: str) -> None:
    function, arrays, differentiated = CASES[name]
    modules = _MODULES[function.space]  # type: ignore[attr-defined]
    results, grads = [], []
    for module, make in zip(modules, (torch.tensor, nc.tensor)):
        tensors = [make(array) for array in arrays]
        leaves = [x for x in tensors if differentiated and is_floating(x)]
        for leaf in leaves:
            leaf.requires_grad_(True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = outputs(function(module, *tensors))
        results.append(result)
        total = None
        for i, one in enumerate(result):
            if leaves and hasattr(one, "dtype") and is_floating(one) and one.requires_grad:
                weights = np.random.default_rng(i).uniform(-1, 1, tuple(one.shape))
                term = (one * make(weights.astype(str(one.dtype).removeprefix("torch.")))).sum()
                total = term if total is None else total + term
        if total is not None:
            total.backward()
        grads.append([None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves])
    theirs, ours = results
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours):
        if not isinstance(a, torch.Tensor):
            assert str(a).removeprefix("torch.") == str(b)
            continue
        if "pool" not in name or is_floating(a):  # positions within windows are int32
            assert str(a.dtype).removeprefix("torch.") == b.dtype
        assert tuple(a.shape) == b.shape
        np.testing.assert_allclose(b.numpy(), a.detach().numpy(), rtol=2e-5, atol=2e-6)
    for wanted, got in zip(*grads):
        assert (wanted is None) == (got is None)
        if wanted is not None:
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_means_and_deviations_of_alpha_dropout(name: str) -> None:
    x = RNG.standard_normal((4000, 20, 3)).astype(np.float32)
    kept = []
    for module, make in ((F, torch.tensor), (nf, nc.tensor)):
        y = getattr(module, name)(make(x), 0.3, training=True).numpy()
        low = y.min()
        kept.append((y.mean(), y.std(), (y == low).mean()))
    np.testing.assert_allclose(kept[1], kept[0], atol=0.02)


def test_slopes_of_rrelu() -> None:
    y = nf.rrelu(nc.full((100000,), -1.0), training=True).numpy()
    assert -1 / 3 <= y.min() < -0.333
    assert -0.126 < y.max() <= -0.125
    np.testing.assert_allclose(y.mean(), -(1 / 8 + 1 / 3) / 2, atol=1e-3)
