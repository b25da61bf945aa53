"""Losses: cross entropy as training calls it, and every loss against its reference on every device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.autograd.ops import LOSSES
from netcl.core import Tensor, manager
from netcl.core.engine.registry import cpu_engine
from netcl.core.errors import BackendMismatchError, DTypeError, ShapeError
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.testing import Case, assert_close, expected, op_cases, run_case

PARTS = (
    "contrastive_pairs",
    "cosine_embedding_pairs",
    "cross_entropy_ids",
    "cross_entropy_probabilities",
    "every_triplet",
    "hardest_triplets",
    "multi_margin_ids",
    "nll_ids",
    "pair_distances",
)


def check(name: str, cases: Iterable[Case]) -> None:
    for case in cases:
        for got, want in zip(run_case(name, case, Tensor.zeros(1).engine), expected(name, case), strict=True):
            assert_close(got, want)


# Each case of a device is a few kernels to build: the first shows the loss, the last of a part its options.
@pytest.mark.parametrize("name", [*LOSSES, *PARTS])
def test_values(name: str, handle: Any) -> None:
    cases = list(op_cases(name))
    few = cases[:1] if name in LOSSES else [cases[0], cases[-1]]
    check(name, cases if handle.backend == "cpu" else few)


@pytest.mark.deep
@pytest.mark.parametrize("name", [*LOSSES, *PARTS])
def test_every_value(name: str, handle: Any) -> None:
    check(name, op_cases(name))


def reference(x: Any, y: Any) -> tuple[float, Any]:
    shifted = x - x.max(1, keepdims=True)
    p = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    grad = p.copy()
    grad[np.arange(len(y)), y] -= 1
    return float(-np.log(p[np.arange(len(y)), y]).mean()), grad / len(y)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32", "float16"])
def test_class_ids_of_any_dtype(dtype: str, handle: Any, leaf: Any) -> None:
    x, y = leaf(6, 4), np.array([3, 0, 1, 2, 2, 0])
    loss = ag.cross_entropy(x, Tensor.from_host(y, dtype))
    assert loss.shape == ()
    loss.backward()
    value, grad = reference(x.numpy().astype(np.float64), y)
    assert float(loss) == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", [ag.cross_entropy, ag.nll_loss, ag.multi_margin_loss])
@pytest.mark.parametrize("labels", [[0, 4], [-1, 0], [0.5, 1.0], [float("nan"), 1.0], [2**40, 0]])
def test_bad_id_raises_when_the_loss_is_read(loss: Any, labels: list[Any], handle: Any, leaf: Any) -> None:
    x = leaf(2, 4)
    bad = loss(x, Tensor.from_host(np.array(labels)))
    bad.backward()
    with pytest.raises(IndexError, match=rf"{loss.__name__}: target \S+ at position \d+ is no class id 0\.\.\d"):
        bad.item()
    assert np.isfinite(loss(x, Tensor.from_host(np.array([0, 3]))).item())


def test_ignored_labels_count_nothing(handle: Any, leaf: Any) -> None:
    x, y = leaf(5, 3), np.array([0, -100, 2, -100, 1])
    loss = ag.cross_entropy(x, Tensor.from_host(y))
    loss.backward()
    kept = y != -100
    value, grad = reference(x.numpy()[kept].astype(np.float64), y[kept])
    assert float(loss) == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(x.grad.numpy()[kept], grad, rtol=1e-4, atol=1e-6)
    assert not x.grad.numpy()[~kept].any()
    other = ag.cross_entropy(x, Tensor.from_host(np.array([0, 1, 2, 1, 1])), ignore_index=1)
    kept = np.array([True, False, True, False, False])
    assert float(other) == pytest.approx(reference(x.numpy()[kept], np.array([0, 2]))[0], rel=1e-5)


def test_large_logits_do_not_overflow(handle: Any) -> None:
    x = ag.Parameter(Tensor.from_host(np.array([[1e4, -1e4, 0], [-3e38, 3e38, 0]], np.float32)))
    loss = ag.cross_entropy(x, Tensor.from_host(np.array([0, 1])))
    loss.backward()
    assert float(loss) == 0
    assert not x.grad.numpy().any()


def test_images_and_single_samples(handle: Any, leaf: Any) -> None:
    x, y = leaf(2, 3, 4, 5), np.random.default_rng(0).integers(0, 3, (2, 4, 5))
    loss = ag.cross_entropy(x, Tensor.from_host(y))
    flat = x.numpy().transpose(0, 2, 3, 1).reshape(-1, 3)
    assert float(loss) == pytest.approx(reference(flat, y.reshape(-1))[0], rel=1e-5)
    assert ag.cross_entropy(x, Tensor.from_host(y), reduction="none").shape == (2, 4, 5)
    one = ag.cross_entropy(leaf(3), Tensor.from_host(np.array(2)))
    assert one.shape == ()


def test_probabilities(handle: Any, leaf: Any) -> None:
    x, y = leaf(4, 3), np.array([0, 2, 1, 1])
    soft = Tensor.from_host(np.eye(3, dtype=np.float32)[y])
    loss = ag.cross_entropy(x, soft)
    loss.backward()
    assert float(loss) == pytest.approx(float(ag.cross_entropy(x, Tensor.from_host(y))), rel=1e-5)
    assert soft.grad is None
    assert x.grad is not None
    learnt = Tensor.from_host(soft.numpy(), requires_grad=True)
    ag.cross_entropy(x, learnt).backward()
    np.testing.assert_allclose(learnt.grad.numpy(), -ag.log_softmax(x).numpy() / 4, rtol=1e-5)


def test_label_smoothing_is_a_mixture(handle: Any, leaf: Any) -> None:
    x, y = leaf(4, 3), np.array([0, 2, 1, 1])
    smooth = np.eye(3, dtype=np.float32)[y] * 0.9 + 0.1 / 3
    by_ids = ag.cross_entropy(x, Tensor.from_host(y), label_smoothing=0.1)
    assert float(by_ids) == pytest.approx(float(ag.cross_entropy(x, Tensor.from_host(smooth))), rel=1e-5)


def test_shapes_and_places_that_do_not_fit(leaf: Any) -> None:
    x = leaf(4, 3)
    with pytest.raises(ShapeError, match=r"logits \(4, 3\) and target \(5,\)"):
        ag.cross_entropy(x, Tensor.zeros(5, "int64"))
    with pytest.raises(ShapeError, match=r"weight has shape \(4,\), expected \(3,\)"):
        ag.cross_entropy(x, Tensor.zeros(4, "int64"), Tensor.zeros(4))
    with pytest.raises(DTypeError, match="bool"):
        ag.cross_entropy(x, Tensor.zeros(4, "bool"))
    with pytest.raises(ValueError, match="'mean', 'sum' or 'none'"):
        ag.mse_loss(x, x, reduction="average")
    with pytest.raises(ShapeError, match=r"mse_loss: shapes \(4, 3\) and \(4,\)"):
        ag.mse_loss(x, Tensor.zeros(4))


def test_target_on_another_device_is_named(handle: Any, leaf: Any) -> None:
    if handle.backend == "cpu":
        other = manager.split(handle, 2)[1]
    else:
        other = manager.default("cpu")
    assert other is not None
    with pytest.raises(BackendMismatchError, match="cross_entropy"):
        ag.cross_entropy(leaf(4, 3), Tensor.from_host(other.queue, np.zeros(4, np.int64)))


def test_smooth_l1_of_no_width_is_l1(leaf: Any) -> None:
    x, y = leaf(3, 4), Tensor.zeros((3, 4))
    loss = ag.smooth_l1_loss(x, y, beta=0.0)
    loss.backward()
    assert float(loss) == pytest.approx(float(ag.l1_loss(x, y)), rel=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), np.sign(x.numpy()) / 12, rtol=1e-6)


REDUCED = [name for name in LOSSES if "reduction" in TABLE[name].signature.parameters]


def test_cosine_embedding_loss_of_other_labels_is_zero(handle: Any) -> None:
    x, labels = Tensor.from_host(np.eye(4, dtype=np.float32)), Tensor.from_host([1, -1, 0, 3])
    loss = ag.cosine_embedding_loss(x, x, labels, margin=0.25, reduction="none")
    assert loss.tolist() == pytest.approx([0, 0.75, 0, 0], abs=1e-6)


def test_every_loss_can_be_reduced() -> None:
    assert sorted(REDUCED) == sorted(LOSSES)


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_agree(name: str, numpy_device: Any) -> None:
    """The sum is the sum of the single values; the mean is between them; another word is refused."""
    case = next(iter(op_cases(name)))
    given = {key: value for key, value in case.attributes.items() if key != "reduction"}
    engine = cpu_engine()
    found = {
        how: run_case(name, case._replace(attributes={**given, "reduction": how}), engine, "float64")[0].numpy()
        for how in ("none", "sum", "mean")
    }
    assert found["none"].ndim > 0
    assert found["sum"].shape == found["mean"].shape == ()
    assert found["sum"] == pytest.approx(found["none"].sum(), rel=1e-9)
    if name != "ctc_loss":  # its mean is of losses by label
        assert found["none"].min() - 1e-12 <= found["mean"] <= found["none"].max()
    with pytest.raises(ValueError, match="'mean', 'sum' or 'none'"):
        run_case(name, case._replace(attributes={**given, "reduction": "average"}), engine)


def test_losses_are_names_of_the_table() -> None:
    assert [name for name in LOSSES if name not in TABLE or not hasattr(ag, name)] == []


@pytest.mark.level("programs")
def test_the_gradient_of_cross_entropy_is_one_program(leaf: Any) -> None:
    from netcl.core.ops_table.dispatch import pop_hook, push_hook

    x = leaf(8, 5)
    loss = ag.cross_entropy(x, Tensor.zeros(8, "int64"))
    calls: list[str] = []

    def count(next: Any, row: Any, args: Any, kwargs: Any) -> Any:
        calls.append(row.name)
        return next(row, args, kwargs)

    push_hook(count)
    try:
        loss.backward()
    finally:
        pop_hook(count)
    assert [name for name in calls if name != "reshape"] == ["cross_entropy_ids gradient"]
