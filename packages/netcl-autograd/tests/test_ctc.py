"""CTC against all alignments written out, its gradient, and lengths and ids that do not fit."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError


def by_all_paths(log_probs: Any, target: list[int], blank: int = 0) -> float:
    """Returns -log of the sum over every sequence of classes that reads as the target."""
    steps, classes = log_probs.shape
    total = 0.0
    for path in product(range(classes), repeat=steps):
        if [label for label, _ in groupby(path) if label != blank] == target:
            total += np.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
    return float(-np.log(total)) if total else float("inf")


def log_softmax(x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


TARGETS = [[1, 2], [1, 1], [2], [], [2, 1, 2], [1, 1, 1]]


def sample(steps: int = 4) -> Any:
    return log_softmax(np.random.default_rng(0).normal(size=(steps, len(TARGETS), 3)))


def padded(targets: list[list[int]], by: int = 0) -> Any:
    longest = max(map(len, targets))
    return np.array([[*target, *[by] * (longest - len(target))] for target in targets])


def test_every_alignment_counts(handle: Any) -> None:
    log_probs = sample()
    # Entries after a target's length are ignored, valid classes or not.
    targets = Tensor.from_host(padded(TARGETS, by=99))
    counts = [len(target) for target in TARGETS]
    found = ag.ctc_loss(Tensor.from_host(log_probs.astype(np.float32)), targets, [4] * 6, counts, reduction="none")
    wanted = [by_all_paths(log_probs[:, n], target) for n, target in enumerate(TARGETS)]
    assert np.isinf(wanted[-1])  # three equal labels need five steps
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_shorter_inputs_and_targets_in_a_row(numpy_device: Any) -> None:
    log_probs, steps = sample(), [4, 3, 2, 1, 4, 4]
    counts = [len(target) for target in TARGETS]
    row = Tensor.from_host(np.array([label for target in TARGETS for label in target]))
    found = ag.ctc_loss(Tensor.from_host(log_probs, "float64"), row, steps, counts, reduction="none").numpy()
    wanted = [by_all_paths(log_probs[: steps[n], n], target) for n, target in enumerate(TARGETS)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    one = ag.ctc_loss(Tensor.from_host(log_probs[:, 0], "float64"), Tensor.from_host(np.array([1, 2])), [4], [2])
    assert one.shape == ()
    assert float(one) == pytest.approx(wanted[0] / 2, rel=1e-12)


def test_targets_may_come_from_the_host(numpy_device: Any) -> None:
    log_probs = ag.log_softmax(Tensor.from_host(np.random.default_rng(3).standard_normal((9, 2, 5))), -1)
    targets = np.array([[1, 2, 4], [3, 3, 0]])
    wanted = ag.ctc_loss(log_probs, Tensor.from_host(targets), [9, 9], [3, 2]).item()
    assert ag.ctc_loss(log_probs, targets, [9, 9], [3, 2]).item() == wanted
    assert ag.ctc_loss(log_probs, [1, 2, 4, 3, 3], [9, 9], [3, 2]).item() == wanted


def test_gradient_of_impossible_samples_is_nothing(handle: Any) -> None:
    x = ag.Parameter(Tensor.from_host(sample().astype(np.float32)))
    counts = [len(target) for target in TARGETS]
    loss = ag.ctc_loss(x, Tensor.from_host(padded(TARGETS)), [4] * 6, counts, zero_infinity=True)
    loss.backward()
    grad = x.grad.numpy()
    assert np.isfinite(grad).all()
    assert not grad[:, -1].any()
    # Each step of a sample is in some state: the gradient by log-probabilities sums to -1 per step.
    share = -1 / 6 / np.maximum(counts, 1)
    np.testing.assert_allclose(grad.sum(-1)[:, :-1], np.tile(share[:-1], (4, 1)), rtol=1e-4)


def test_the_same_bits_twice(handle: Any) -> None:
    x = Tensor.from_host(sample(9).astype(np.float32), requires_grad=True)
    targets, counts = Tensor.from_host(padded(TARGETS)), [len(target) for target in TARGETS]
    grads = [ag.grad(ag.ctc_loss(x, targets, [9] * 6, counts), [x])[0].numpy() for _ in range(2)]
    np.testing.assert_array_equal(*grads)


def test_half_precision_and_empty_batches(numpy_device: Any) -> None:
    x, targets = Tensor.from_host(sample(), "float16"), Tensor.from_host(padded(TARGETS))
    counts = [len(target) for target in TARGETS]
    assert ag.ctc_loss(x, targets, [4] * 6, counts, reduction="sum", zero_infinity=True).dtype == "float32"
    empty = ag.ctc_loss(Tensor.zeros((4, 0, 3)), Tensor.zeros((0, 2), "int64"), [], [], reduction="none")
    assert empty.shape == (0,)
    blank = ag.ctc_loss(Tensor.from_host(sample()[:, :1]), Tensor.zeros((1, 0), "int64"), [4], [0])
    assert float(blank) == pytest.approx(-sample()[:, 0, 0].sum(), rel=1e-5)


def test_what_does_not_fit(numpy_device: Any) -> None:
    x, targets = Tensor.from_host(sample()), Tensor.from_host(padded(TARGETS))
    with pytest.raises(ValueError, match=r"expected input_lengths in 1 \.\. 4, got \[5, 4, 4, 4, 4, 4\]"):
        ag.ctc_loss(x, targets, [5, 4, 4, 4, 4, 4], [1] * 6)
    with pytest.raises(ValueError, match=r"target_lengths .* 0 \.\. 3"):
        ag.ctc_loss(x, targets, [4] * 6, [4] * 6)
    with pytest.raises(ShapeError, match="5 input_lengths for 6 samples"):
        ag.ctc_loss(x, targets, [4] * 5, [1] * 6)
    with pytest.raises(ShapeError, match=r"targets \(5, 3\) for log_probs \(4, 6, 3\)"):
        ag.ctc_loss(x, Tensor.zeros((5, 3), "int64"), [4] * 6, [1] * 6)
    with pytest.raises(ValueError, match="blank 3 is none of 3 classes"):
        ag.ctc_loss(x, targets, [4] * 6, [1] * 6, blank=3)
    with pytest.raises(DTypeError, match="targets of float32"):
        ag.ctc_loss(x, Tensor.zeros((6, 3)), [4] * 6, [1] * 6)
    with pytest.raises(ShapeError, match="4 targets in a row"):
        ag.ctc_loss(x, Tensor.zeros(4, "int64"), [4] * 6, [1] * 6)


def test_what_does_not_fit_on_the_device(handle: Any) -> None:
    x, targets = Tensor.from_host(sample().astype(np.float32)), Tensor.from_host(padded(TARGETS))
    long = ag.ctc_loss(x, targets, Tensor.from_host(np.array([5, 4, 4, 4, 4, 4])), [1] * 6)
    with pytest.raises(IndexError, match="ctc_loss: sample .* steps, where 1 to"):
        long.item()
    bad = ag.ctc_loss(x, Tensor.from_host(padded(TARGETS) + 7), [4] * 6, [1] * 6)
    with pytest.raises(IndexError, match="gather|ctc_loss: a target"):
        bad.item()
