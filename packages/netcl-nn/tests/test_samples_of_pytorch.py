"""Forms, shapes and gradients that PyTorch's samples of its operators need: nothing, no axes, old spellings, out=."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import netcl as nc
import netcl.nn.functional as F
from netcl.autograd import gradcheck, gradgradcheck
from netcl.core.errors import ShapeError

pytestmark = pytest.mark.level("front")


@pytest.fixture(autouse=True)
def _on_numpy() -> Any:
    with nc.device("cpu"):
        yield


def leaf(values: Any) -> Any:
    return nc.tensor(np.asarray(values, np.float32)).requires_grad_()


def gradients(result: Any, *leaves: Any) -> list[Any]:
    result.sum().backward()
    return [x.grad.tolist() for x in leaves]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda out: nc.add(nc.ones(2), nc.ones(2), alpha=2, out=out), [3, 3]),
        (lambda out: nc.fmin(nc.ones(2), nc.zeros(2), out=out), [0, 0]),
        (lambda out: nc.div(nc.full((2,), 7.0), 2, rounding_mode="floor", out=out), [3, 3]),
        (lambda out: nc.softmax(nc.zeros(2), 0, dtype="float32", out=out), [0.5, 0.5]),
        (lambda out: nc.clamp(nc.full((2,), 7.0), max=nc.ones(2), out=out), [1, 1]),
        (lambda out: nc.special.round(nc.full((2,), 1.26), decimals=1, out=out), [1.3, 1.3]),
    ],
)
def test_a_function_of_a_method_writes_into_out(call: Any, expected: list[float]) -> None:
    out = nc.empty(2)
    assert call(out) is out
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


def test_a_function_of_a_method_with_out_refuses_to_lose_a_gradient() -> None:
    with pytest.raises(RuntimeError, match="out= does not support automatic differentiation"):
        nc.fmin(leaf([1, 2]), nc.zeros(2), out=nc.empty(2))


def test_out_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match="fmin: expected out of shape"):
        nc.fmin(nc.ones(2), nc.zeros(2), out=nc.empty(3))


@pytest.mark.parametrize(
    "call",
    [
        nc.angle,
        lambda x: nc.div(x, 2.0, rounding_mode="floor"),
        nc.bernoulli,
        lambda x: nc.normal(x, nc.ones(2)),
        lambda x: nc.linalg.matrix_power(x.reshape(1, 2).expand(2, 2), 0),
    ],
    ids=["angle", "div", "bernoulli", "normal", "matrix_power"],
)
def test_the_gradient_of_a_constant_is_zero(call: Any) -> None:
    x = leaf([0.5, 0.25])
    assert gradients(call(x), x) == [[0, 0]]


def test_the_gradient_of_logit_beyond_eps_is_zero() -> None:
    x = leaf([0.03, 0.5, 0.9])
    assert gradients(nc.logit(x, 0.2), x) == [[0, 4, 0]]


def test_prelu_takes_a_weight_for_each_position_of_axis_1() -> None:
    x, weight = -nc.ones((2, 3, 3)), nc.tensor([1.0, 2.0, 3.0])
    expected = np.broadcast_to(-np.array([1.0, 2.0, 3.0])[:, None], (2, 3, 3))
    for result in (nc.prelu(x, weight), x.prelu(weight), F.prelu(x, weight)):
        np.testing.assert_array_equal(result.numpy(), expected)
    assert F.prelu(nc.tensor(-2.0), nc.tensor([0.5])).item() == -1
    with pytest.raises(ShapeError, match="prelu: .*weight"):
        F.prelu(x, nc.ones(2))


def test_a_tensor_without_axes_has_axis_0() -> None:
    x = leaf(3.0)
    assert gradients(nc.max(x, 0).values, x) == [1]
    assert nc.quantile(nc.tensor(2.0), 0.5, 0).shape == ()
    assert nc.tensor(2.0).mT.item() == 2
    assert nc.linalg.vander(nc.tensor(2.0), N=3).tolist() == [[1, 2, 4]]
    assert nc.nonzero_static(nc.tensor(1.0), size=2).shape == (2, 0)
    assert F.cosine_similarity(nc.tensor(1.0), nc.tensor(-2.0), 0).item() == -1
    assert F.multi_margin_loss(nc.tensor(1.0), nc.tensor(0)).item() == 0
    assert F.multi_margin_loss(nc.tensor([1.0, 1.0]), nc.tensor([0]), reduction="none").tolist() == [0.5]
    assert F.multilabel_margin_loss(nc.tensor(1.0), nc.tensor(0)).item() == 0


def test_tensors_of_no_elements_have_results() -> None:
    x = leaf(np.ones(0))
    assert gradients(nc.cumprod(x, 0), x) == [[]]
    assert nc.gather(leaf(np.ones(5)), 0, nc.empty((2, 0), dtype="int64")).shape == (2, 0)
    assert nc.linalg.inv_ex(nc.empty((0, 0)))[1].tolist() == 0
    assert nc.linalg.cond(nc.empty((2, 0, 0))).tolist() == [0, 0]
    assert nc.multinomial(nc.empty((0, 4)), 3).shape == (0, 3)
    assert nc.diag_embed(nc.empty((5, 0)), offset=2).tolist() == np.zeros((5, 2, 2)).tolist()
    assert F.unfold(nc.empty((0, 1, 5, 5)), 2).shape == (0, 4, 16)
    assert F.max_unpool1d(leaf(np.ones((0, 2, 1))), nc.empty((0, 2, 1), dtype="int64"), 3).requires_grad


def test_old_spellings_are_those_of_pytorch() -> None:
    assert nc.gradient(nc.tensor([1.0, 3.0, 5.0]), spacing=None)[0].tolist() == [2, 2, 2]
    counts, _ = nc.histogram(nc.tensor([1.0, 2.0, 3.0]), 2, weight=nc.tensor([1.0, 2.0, 4.0]))
    assert counts.tolist() == [1, 6]
    x = leaf([[1, 2], [3, 4]])
    assert gradients(nc.narrow(x, 1, nc.tensor(1), 1), x) == [[[0, 1], [0, 1]]]
    a, b = nc.tensor([[1.0, 2.0]]), nc.ones((3, 2))
    assert nc.tensordot(a, b, ([0, 1], [0, 1])).item() == 9


@pytest.mark.parametrize(("pads", "expected"), [((-4, 5), 3.0), ((5, -4), 0.0)])
def test_replicate_repeats_the_last_element_that_is_left(pads: tuple[int, int], expected: float) -> None:
    padded = F.pad(nc.arange(4).astype("float32").reshape(1, 1, 4), list(pads), "replicate")
    assert padded.tolist() == [[[expected] * 5]]


def test_a_transposed_convolution_reaches_beyond_the_stride() -> None:
    x, weight = nc.tensor([[[1.0, 2.0]]]), nc.tensor([[[1.0, 10.0]]])
    full = [1, 2, 0, 10, 20]  # element i at i, and ten times at i + 3
    result = F.conv_transpose1d(x, weight, stride=1, padding=1, output_padding=2, dilation=3)
    assert result.tolist() == [[[*full[1:], 0]]]


@pytest.mark.parametrize(("driver", "ranks", "values"), [("gels", 0, 0), ("gelsy", 1, 0), ("gelsd", 1, 2)])
def test_least_squares_takes_the_drivers_of_pytorch(driver: str, ranks: int, values: int) -> None:
    a, b = nc.tensor([[2.0, 0.0], [0.0, 4.0]]), nc.tensor([[2.0], [8.0]])
    solution, _, rank, singular = nc.linalg.lstsq(a, b, driver=driver)
    np.testing.assert_allclose(solution.numpy(), [[1], [2]], rtol=1e-6)
    assert (math.prod(rank.shape), math.prod(singular.shape)) == (ranks, values)


def test_the_gradient_of_a_cholesky_factor_is_that_of_a_full_matrix() -> None:
    factor = np.array([[1.0, 0.0], [0.5, 2.0]])
    x = leaf(factor)
    inverse = np.linalg.inv(factor @ factor.T)
    ones = np.ones((2, 2))
    np.testing.assert_allclose(
        gradients(nc.cholesky_inverse(x), x)[0], -2 * (inverse @ ones @ inverse) @ factor, rtol=1e-5
    )


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 4)], ids=str)
def test_the_factors_of_a_matrix_that_is_not_square_have_gradients(shape: tuple[int, ...]) -> None:
    x = nc.tensor(np.random.default_rng(3).uniform(-1, 1, shape)).requires_grad_()
    assert gradcheck(lambda x: nc.linalg.lu_factor(x)[0], (x,))
    assert gradgradcheck(lambda x: nc.linalg.lu_factor(x)[0], (x,))


def test_the_residuals_of_least_squares_have_gradients() -> None:
    rng = np.random.default_rng(4)
    a, b = (nc.tensor(rng.uniform(-1, 1, shape)).requires_grad_() for shape in ((5, 3), (5, 2)))
    assert nc.linalg.lstsq(a, b)[1].requires_grad
    assert gradcheck(lambda a, b: nc.linalg.lstsq(a, b)[1], (a, b))


def test_distances_norms_and_distinct_elements_have_pytorchs_parameters() -> None:
    assert nc.norm(nc.tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc").item() == pytest.approx(7)
    assert nc.unique(nc.tensor([[1, 2], [1, 2]]), dim=0).tolist() == [[1, 2]]
    assert nc.cdist(nc.zeros((1, 2)), nc.ones((1, 2)), 1.0, "donot_use_mm_for_euclid_dist").item() == 2
    out = nc.empty((1, 2))
    assert F.normalize(nc.tensor([[3.0, 4.0]]), out=out) is out
    np.testing.assert_allclose(out.numpy(), [[0.6, 0.8]], rtol=1e-6)
