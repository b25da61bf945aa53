"""Losses as modules: their options reach netcl.autograd, with the values of the formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import ShapeError

Array = np.ndarray[Any, Any]


def huber(x: Array, t: Array, delta: float) -> Array:
    d = np.abs(x - t)
    return np.where(d < delta, d * d / 2, delta * (d - delta / 2))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def log_softmax(x: Array) -> Array:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def picked(x: Array, ids: Array) -> Array:
    return np.take_along_axis(x, ids[:, None], 1)[:, 0]


def logistic(x: Array, t: Array, positive: float = 1.0) -> Array:
    return -(positive * t * np.log(sigmoid(x)) + (1 - t) * np.log(1 - sigmoid(x)))


def distance(a: Array, b: Array) -> Array:
    return np.sqrt(((a - b) ** 2).sum(-1))


RNG = np.random.default_rng(4)
X, T = RNG.standard_normal((2, 6, 4))
SOFT, SIGNS = RNG.uniform(0.1, 0.9, (6, 4)), RNG.choice([-1.0, 1.0], (6, 4))
IDS = np.array([3, 0, 2, 1, 3, 3])
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25])
ROWS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
COS = (X * T).sum(1) / np.sqrt((X**2).sum(1) * (T**2).sum(1))
HIT = np.eye(4)[IDS]


def weights() -> Tensor:
    return Tensor.from_host(WEIGHT.astype(np.float32))


def smooth(eps: float) -> Array:
    return -(log_softmax(X) * ((1 - eps) * HIT + eps / 4)).sum(1)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[Array, ...], Any]] = {
    "MSELoss": (nn.MSELoss, (X, T), ((X - T) ** 2).mean()),
    "MSELoss sum": (lambda: nn.MSELoss("sum"), (X, T), ((X - T) ** 2).sum()),
    "MSELoss none": (lambda: nn.MSELoss("none"), (X, T), (X - T) ** 2),
    "L1Loss": (nn.L1Loss, (X, T), np.abs(X - T).mean()),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(beta=0.5), (X, T), huber(X, T, 0.5).mean() / 0.5),
    "HuberLoss": (lambda: nn.HuberLoss(delta=0.7), (X, T), huber(X, T, 0.7).mean()),
    "BCELoss": (
        nn.BCELoss,
        (SOFT, SOFT.T.reshape(6, 4)),
        logistic(np.log(SOFT / (1 - SOFT)), SOFT.T.reshape(6, 4)).mean(),
    ),
    "BCEWithLogitsLoss": (
        lambda: nn.BCEWithLogitsLoss(pos_weight=Tensor.from_host(np.full(4, 3, np.float32))),
        (X, SOFT),
        logistic(X, SOFT, 3.0).mean(),
    ),
    "NLLLoss": (
        lambda: nn.NLLLoss(weights()),
        (log_softmax(X), IDS),
        (-picked(log_softmax(X), IDS) * WEIGHT[IDS]).sum() / WEIGHT[IDS].sum(),
    ),
    "NLLLoss ignoring": (
        lambda: nn.NLLLoss(ignore_index=3),
        (log_softmax(X), IDS),
        -picked(log_softmax(X), IDS)[IDS != 3].mean(),
    ),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, (X, IDS), -picked(log_softmax(X), IDS).mean()),
    "CrossEntropyLoss smooth": (lambda: nn.CrossEntropyLoss(label_smoothing=0.2), (X, IDS), smooth(0.2).mean()),
    "CrossEntropyLoss none": (lambda: nn.CrossEntropyLoss(reduction="none"), (X, IDS), -picked(log_softmax(X), IDS)),
    "KLDivLoss": (lambda: nn.KLDivLoss("batchmean"), (X, SOFT), (SOFT * (np.log(SOFT) - X)).sum() / 6),
    "KLDivLoss of an input that broadcasts": (
        lambda: nn.KLDivLoss("batchmean"),
        (X[:1], SOFT.reshape(2, 3, 4)),
        (SOFT * (np.log(SOFT) - X[:1])).sum(),
    ),
    "KLDivLoss of a row": (lambda: nn.KLDivLoss("batchmean"), (X[0], SOFT), (SOFT * (np.log(SOFT) - X[0])).sum() / 4),
    "KLDivLoss log": (lambda: nn.KLDivLoss(log_target=True), (X, T), (np.exp(T) * (T - X)).mean()),
    "HingeLoss": (lambda: nn.HingeLoss(margin=0.5), (X, SIGNS), np.maximum(0, 0.5 - X * SIGNS).mean()),
    "MultiMarginLoss": (
        nn.MultiMarginLoss,
        (X, IDS),
        (np.maximum(0, 1 - picked(X, IDS)[:, None] + X) * (1 - HIT)).sum(1).mean() / 4,
    ),
    "CosineEmbeddingLoss": (
        lambda: nn.CosineEmbeddingLoss(0.1),
        (X, T, ROWS),
        np.where(ROWS > 0, 1 - COS, np.maximum(0, COS - 0.1)).mean(),
    ),
    "TripletMarginLoss": (
        lambda: nn.TripletMarginLoss(margin=0.8),
        (X, T, SOFT),
        np.maximum(0, distance(X, T) - distance(X, SOFT) + 0.8).mean(),
    ),
    "MarginRankingLoss": (
        lambda: nn.MarginRankingLoss(margin=0.3),
        (X, T, SIGNS),
        np.maximum(0, -SIGNS * (X - T) + 0.3).mean(),
    ),
    "HingeEmbeddingLoss": (
        lambda: nn.HingeEmbeddingLoss(margin=0.8),
        (X, SIGNS),
        np.where(SIGNS > 0, X, np.maximum(0, 0.8 - X)).mean(),
    ),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, (X, SOFT), (np.exp(X) - SOFT * X).mean()),
    "PoissonNLLLoss linear": (
        lambda: nn.PoissonNLLLoss(log_input=False, full=True, eps=0.1),
        (SOFT, 2 + SOFT),
        (
            SOFT
            - (2 + SOFT) * np.log(SOFT + 0.1)
            + (2 + SOFT) * np.log(2 + SOFT)
            - (2 + SOFT)
            + 0.5 * np.log(2 * np.pi * (2 + SOFT))
        ).mean(),
    ),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (X, T, SOFT), 0.5 * (np.log(SOFT) + (X - T) ** 2 / SOFT).mean()),
    "SoftMarginLoss": (nn.SoftMarginLoss, (X, SIGNS), np.log1p(np.exp(-SIGNS * X)).mean()),
    "MultiLabelMarginLoss": (
        nn.MultiLabelMarginLoss,
        (X, np.where(np.arange(4) == 0, IDS[:, None], -1)),
        (np.maximum(0, 1 - picked(X, IDS)[:, None] + X) * (1 - HIT)).sum(1).mean() / 4,
    ),
    "MultiLabelSoftMarginLoss": (
        lambda: nn.MultiLabelSoftMarginLoss(weights()),
        (X, HIT),
        (logistic(X, HIT) * WEIGHT).mean(),
    ),
    "TripletMarginLoss swapped": (
        lambda: nn.TripletMarginLoss(swap=True),
        (X, T, SOFT),
        np.maximum(0, distance(X, T) - np.minimum(distance(X, SOFT), distance(T, SOFT)) + 1).mean(),
    ),
    "FocalLoss": (
        lambda: nn.FocalLoss(alpha=0.3, gamma=1.5),
        (X, (SOFT > 0.5) * 1.0),
        np.mean(np.where(SOFT > 0.5, 0.3 * (1 - sigmoid(X)) ** 1.5, 0.7 * sigmoid(X) ** 1.5) * logistic(X, SOFT > 0.5)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    make, operands, expected = CASES[name]
    first, *others = (Tensor.from_host(a if a.dtype.kind == "i" else a.astype(np.float32)) for a in operands)
    x = ag.Parameter(first)
    loss = make()(x, *others)
    np.testing.assert_allclose(loss.to_host(), expected, rtol=2e-4, atol=1e-6)
    ag.sum(loss).backward()
    assert np.abs(x.grad.to_host()).max() > 0


def test_info_nce_and_contrastive() -> None:
    q, k = (Tensor.from_host(a.astype(np.float32)) for a in (X, T))
    unit = [a / np.sqrt((a**2).sum(1, keepdims=True)) for a in (X, T)]
    logits = unit[0] @ unit[1].T / 0.5
    expected = -np.diag(log_softmax(logits)).mean()
    assert nn.InfoNCELoss(0.5)(q, k).item() == pytest.approx(expected, rel=1e-4)
    same = nn.ContrastiveLoss(margin=2.0)(q, q, Tensor.ones((6,)))
    assert same.item() == pytest.approx(0.0, abs=1e-6)
    assert nn.ContrastiveLoss(margin=2.0)(q, q, Tensor.zeros((6,))).item() > 0.5


def test_ctc() -> None:
    """Two frames, one label: the paths are (1, 1), (1, blank) and (blank, 1)."""
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    log_probs = Tensor.from_host(np.log(p)[:, None].astype(np.float32))
    expected = -np.log(0.3 * 0.6 + 0.3 * 0.1 + 0.5 * 0.6)
    loss = nn.CTCLoss()(log_probs, Tensor.from_host(np.array([[1]])), np.array([2]), np.array([1]))
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    none = nn.CTCLoss(zero_infinity=True)(log_probs, Tensor.from_host(np.array([[1, 1]])), np.array([2]), np.array([2]))
    assert none.item() == 0.0
    assert repr(nn.CTCLoss(blank=2)) == "CTCLoss(blank=2)"


def test_weights_move_with_the_module() -> None:
    loss = nn.CrossEntropyLoss(weights()).to("cpu")
    assert loss.weight.device.backend == "cpu"
    assert list(loss.state_dict()) == ["weight"]
    assert repr(nn.SmoothL1Loss(beta=0.5)) == "SmoothL1Loss(beta=0.5)"


def test_every_loss_is_tested_here() -> None:
    losses = {name for name in nn.__all__ if name.endswith("Loss")}
    assert losses == {name.split()[0] for name in CASES} | {
        "InfoNCELoss",
        "ContrastiveLoss",
        "CTCLoss",
        "AdaptiveLogSoftmaxWithLoss",
        "LinearCrossEntropyLoss",
        "TripletMarginWithDistanceLoss",
    }


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_a_broadcast_target_warns(name: str) -> None:
    function = getattr(ag, name)
    with pytest.warns(UserWarning, match=rf"{name}: the target's shape \(3,\) differs from the input's \(3, 1\)"):
        loss = function(Tensor.ones((3, 1)), Tensor.zeros((3,)))
    assert loss.shape == ()
    with pytest.raises(ShapeError, match=name):
        function(Tensor.ones((3, 2)), Tensor.zeros((3,)))


@pytest.mark.parametrize("x, target", [(1.5, 1.0), (-0.1, 1.0), (0.5, 2.0), (float("nan"), 1.0)])
def test_cross_entropy_of_no_probability_is_refused(x: float, target: float) -> None:
    loss = nn.BCELoss()(Tensor.from_host([0.5, x]), Tensor.from_host([0.0, target]))
    with pytest.raises(ValueError, match=r"binary_cross_entropy: \S+ at position 1 of x or target is not in \[0, 1\]"):
        loss.item()


def test_a_negative_variance_is_refused() -> None:
    x = Tensor.ones((2, 3))
    with pytest.raises(ValueError, match="var -1.0 is negative"):
        ag.gaussian_nll_loss(x, x, -1.0)
    with pytest.raises(ValueError, match="var has a negative element"):
        ag.gaussian_nll_loss(x, x, ag.neg(x)).item()
    with pytest.raises(ShapeError, match="gaussian_nll_loss: var"):
        ag.gaussian_nll_loss(x, x, Tensor.ones((3,)))


@pytest.mark.parametrize("ids", [[[0, 4]], [[7, -1]]])
def test_labels_beyond_the_classes_are_refused(ids: list[list[int]]) -> None:
    loss = ag.multilabel_margin_loss(Tensor.ones((1, 2)), Tensor.from_host(ids))
    with pytest.raises(IndexError, match="out of range"):
        loss.item()


@pytest.mark.parametrize("labels", [[-1, 0], [2, 0], [0.5, 0.0]])
def test_class_ids_are_whole_numbers_of_the_classes(labels: list[float]) -> None:
    loss = ag.cross_entropy(Tensor.ones((2, 2)), Tensor.from_host(labels))
    with pytest.raises(IndexError, match="cross_entropy: target .* is no class id"):
        loss.item()
    whole = ag.cross_entropy(Tensor.ones((2, 2)), Tensor.from_host([1.0, 0.0]))
    assert whole.item() == pytest.approx(np.log(2))


def test_deprecated_flags_of_losses() -> None:
    x, t = (Tensor.from_host(np.arange(4, dtype=np.float32) * k) for k in (1, 2))
    with pytest.warns(UserWarning, match="reduction='sum'"):
        loss = nn.MSELoss(size_average=False)  # type: ignore[call-arg]
    assert loss(x, t).item() == pytest.approx(14)
    with pytest.warns(UserWarning, match="reduction='none'"):
        each = nn.L1Loss(reduce=False)  # type: ignore[call-arg]
    assert each(x, t).shape == (4,)
    assert nn.L1Loss().reduction == "mean"


def test_linear_cross_entropy_is_that_of_the_products():
    x, weight, bias = RNG.standard_normal((6, 3)), RNG.standard_normal((4, 3)), RNG.standard_normal(4)
    found = nn.functional.linear_cross_entropy(
        Tensor.from_host(x), Tensor.from_host(weight), Tensor.from_host(IDS), linear_bias=Tensor.from_host(bias)
    )
    np.testing.assert_allclose(found.item(), -picked(log_softmax(x @ weight.T + bias), IDS).mean(), rtol=1e-6)
    planes = RNG.standard_normal((4, 2, 3))
    both = nn.functional.linear_cross_entropy(
        Tensor.from_host(x), Tensor.from_host(planes), Tensor.from_host(np.stack([IDS, IDS], 1)), reduction="sum"
    )
    expected = -sum(picked(log_softmax(x @ planes[:, k].T), IDS).sum() for k in range(2))
    np.testing.assert_allclose(both.item(), expected, rtol=1e-6)
    with pytest.raises(ShapeError, match="linear_cross_entropy"):
        nn.functional.linear_cross_entropy(Tensor.from_host(x[0]), Tensor.from_host(planes), Tensor.from_host(IDS))


def test_linear_takes_a_weight_of_one_axis():
    x, weight = RNG.standard_normal((2, 3, 4)), RNG.standard_normal(4)
    found = nn.functional.linear(Tensor.from_host(x), Tensor.from_host(weight), Tensor.from_host(np.array(2.0)))
    np.testing.assert_allclose(found.to_host(), x @ weight + 2, rtol=1e-4)
    with pytest.raises(ShapeError, match=r"expected a bias \(\)"):
        nn.functional.linear(Tensor.from_host(x), Tensor.from_host(weight), Tensor.from_host(np.ones(1)))


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({}, (4,)),
        ({"out_features": (2,), "bias": True}, (4, 2)),
        ({"reduction": "sum", "label_smoothing": 0.2, "weight": [1.0, 2.0, 0.5]}, (4,)),
        ({"ignore_index": 1, "reduction": "none"}, (4,)),
    ],
)
def test_a_linear_layer_with_cross_entropy_is_both(options, target):
    rng = np.random.default_rng(0)
    weight = options.get("weight")
    options = options if weight is None else {**options, "weight": Tensor.from_host(np.array(weight, np.float32))}
    loss = nn.LinearCrossEntropyLoss(5, 3, **options)
    x = Tensor.from_host(rng.normal(size=(4, 5)).astype(np.float32))
    classes = Tensor.from_host(rng.integers(0, 3, target))
    kept = {
        name: options[name] for name in ("reduction", "label_smoothing", "weight", "ignore_index") if name in options
    }
    logits = loss.linear(x).reshape(4, 3, *target[1:])
    expected = nn.CrossEntropyLoss(**kept)(logits, classes)
    np.testing.assert_allclose(loss(x, classes).numpy(force=True), expected.numpy(force=True), rtol=1e-5)
    assert "num_classes=3" in repr(loss)


def test_a_linear_layer_with_cross_entropy_checks_its_options():
    for options in ({"weight": Tensor.from_host(np.ones(2, np.float32))}, {"label_smoothing": 2.0}):
        with pytest.raises(ValueError, match="expected"):
            nn.LinearCrossEntropyLoss(5, 3, **options)
