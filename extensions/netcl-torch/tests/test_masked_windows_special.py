"""torch.masked, torch.signal.windows and functions of torch.special without a derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import netcl.torch as torch

X = np.random.default_rng(0).normal(size=(3, 4))
MASK = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]], bool)
REFERENCES: dict[str, Any] = {
    "sum": lambda x: x.sum(),
    "prod": lambda x: x.prod(),
    "mean": lambda x: x.mean() if x.size else math.nan,
    "amax": lambda x: x.max(initial=-math.inf),
    "amin": lambda x: x.min(initial=math.inf),
    "var": lambda x: x.var(ddof=1) if x.size else math.nan,
    "std": lambda x: x.std(ddof=1) if x.size else math.nan,
    "logsumexp": lambda x: np.log(np.exp(x).sum()) if x.size else -math.inf,
    "median": lambda x: np.sort(x)[(x.size - 1) // 2] if x.size else math.nan,
    "norm": lambda x: np.sqrt((x * x).sum()),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_reductions_read_only_what_the_mask_selects(name: str) -> None:
    order = (2.0,) if name == "norm" else ()
    found = getattr(torch.masked, name)(torch.tensor(X), *order, 1, mask=torch.tensor(MASK))
    wanted = [REFERENCES[name](row[mask]) for row, mask in zip(X, MASK)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_softmax_and_scans_leave_the_others_out() -> None:
    x, mask = torch.tensor(X[::2], requires_grad=True), torch.tensor(MASK[::2])
    weights = np.where(MASK[::2], np.exp(X[::2]), 0)
    weights /= weights.sum(1, keepdims=True)
    np.testing.assert_allclose(torch.masked.softmax(x, 1, mask=mask).detach().numpy(), weights, rtol=1e-6)
    sums = torch.masked.cumsum(x, 1, mask=mask)
    np.testing.assert_allclose(sums.detach().numpy(), np.where(MASK[::2], X[::2], 0).cumsum(1), rtol=1e-6)
    sums.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), MASK[::2] * np.array([4.0, 3, 2, 1]))
    assert torch.masked.argmax(x.detach(), 1, mask=mask).dtype == x.dtype


def test_integers_have_ends_and_no_mean() -> None:
    x, mask = torch.tensor([[3, 1]]), torch.tensor([[False, False]])
    assert torch.masked.amin(x, 1, mask=mask).item() == 2**63 - 1
    with pytest.raises(ValueError, match="expected a floating dtype, got .*int64"):
        torch.masked.mean(x, 1)
    with pytest.raises(ValueError, match="masked median expects no fully masked out rows"):
        torch.masked.median(x, 1, mask=mask)


def test_windows() -> None:
    windows, n = torch.signal.windows, 8
    k = np.arange(n)
    for name, reference in (("bartlett", np.bartlett), ("blackman", np.blackman), ("hamming", np.hamming)):
        np.testing.assert_allclose(getattr(windows, name)(n, dtype=torch.float64).numpy(), reference(n), atol=1e-12)
        periodic = getattr(windows, name)(n, sym=False, dtype=torch.float64).numpy()
        np.testing.assert_allclose(periodic, reference(n + 1)[:-1], atol=1e-12)
    np.testing.assert_allclose(windows.kaiser(n, beta=5.0).numpy(), np.kaiser(n, 5.0), rtol=1e-6)
    np.testing.assert_allclose(windows.cosine(n).numpy(), np.sin(np.pi * (k + 0.5) / n), rtol=1e-6)
    np.testing.assert_allclose(windows.gaussian(n, std=2.0).numpy(), np.exp(-(((k - 3.5) / 2) ** 2) / 2), rtol=1e-6)
    np.testing.assert_allclose(
        windows.exponential(n, center=2.0, tau=3.0, sym=False).numpy(), np.exp(-abs(k - 2) / 3), rtol=1e-6
    )
    assert [windows.nuttall(length).tolist() for length in (0, 1)] == [[], [1]]
    with pytest.raises(ValueError, match="non-negative window length, got M=-1"):
        windows.hann(-1)
    with pytest.raises(ValueError, match="Center must be None"):
        windows.exponential(3, center=1.0)
    with pytest.raises(ValueError, match="expected the dtype float32 or float64, got int32"):
        windows.bartlett(3, dtype=torch.int32)


def test_special_functions_without_a_derivative_let_other_gradients_pass() -> None:
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    for name in ("bessel_j0", "airy_ai", "modified_bessel_k1"):
        y = getattr(torch.special, name)(x)
        assert not y.requires_grad
        (grad,) = torch.autograd.grad((x * y).sum(), x)
        assert grad.tolist() == y.tolist()
    assert not torch.special.legendre_polynomial_p(x, 3).requires_grad


def test_only_the_second_operand_of_igamma_has_a_gradient() -> None:
    a, b = torch.tensor([1.0, 3.0], requires_grad=True), torch.tensor([[0.5], [2.0]], requires_grad=True)
    torch.special.gammaincc(a.detach(), b).sum().backward()
    wanted = [[-math.exp(-t) * (1 + t**2 / 2)] for t in (0.5, 2.0)]
    np.testing.assert_allclose(b.grad.numpy(), wanted, rtol=1e-5)
    with pytest.raises(TypeError, match="igamma: the derivative .* is not implemented"):
        torch.igamma(a, b).sum().backward()
