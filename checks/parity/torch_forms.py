"""Call forms, defaults, fields of results and texts: the same line under PyTorch and under netcl.torch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import netcl.torch as facade
from netcl.core.device import use_pytorch_names

X = np.random.default_rng(3).normal(0, 2, (3, 4)).astype(np.float32)
KINDS = np.array([2, 0, 3])


@pytest.fixture(autouse=True)
def pytorch_names() -> Iterator[None]:
    use_pytorch_names()
    yield
    use_pytorch_names(False)


Line = Callable[[Any, Any, Any], Any]  # (module, x, classes) -> the result

FORMS: dict[str, Line] = {
    "cross_entropy by name": lambda t, x, k: t.nn.functional.cross_entropy(input=x, target=k),
    "cross_entropy by position": lambda t, x, k: t.nn.functional.cross_entropy(x, k, None, None, 0, None, "sum", 0.1),
    "nll_loss": lambda t, x, k: t.nn.functional.nll_loss(input=x.log_softmax(1), target=k),
    "size_average": lambda t, x, k: t.nn.functional.mse_loss(x, x + 1, size_average=False),
    "reduce": lambda t, x, k: t.nn.CrossEntropyLoss(reduce=False)(x, k),
    "bce with logits": lambda t, x, k: t.nn.functional.binary_cross_entropy_with_logits(
        x, x.sigmoid(), None, None, None, "mean", x.abs()
    ),
    "margin_ranking": lambda t, x, k: t.nn.functional.margin_ranking_loss(input1=x, input2=x + 1, target=x.sign()),
    "softmax of 2 axes": lambda t, x, k: t.nn.functional.softmax(x),
    "softmax of 3 axes": lambda t, x, k: t.nn.Softmax()(x[None]),
    "log_softmax of 1 axis": lambda t, x, k: t.nn.functional.log_softmax(x[0]),
    "elu": lambda t, x, k: t.nn.functional.elu(x, 1.5, False),
    "hardtanh": lambda t, x, k: t.nn.functional.hardtanh(x, -0.5, 0.5, True),
    "rms_norm": lambda t, x, k: t.nn.functional.rms_norm(x * 1e-4, (4,)),
    "norm fro": lambda t, x, k: [t.norm(x), t.norm(x, p="fro", dim=1), x.norm("fro"), t.norm(x, "nuc")],
    "norm dtype": lambda t, x, k: t.norm(x, dtype=t.float64),
    "std": lambda t, x, k: [x.std(False), x.var(False), t.std(x, False), t.var(x, 1, False, True), x.std(1, True)],
    "unique": lambda t, x, k: t.unique((x > 0).long(), dim=1, return_inverse=True, return_counts=True),
    "where": lambda t, x, k: [t.where(condition=x > 0, input=x, other=0.0), *t.where(x > 1)],
    "transpose": lambda t, x, k: [t.transpose(input=x, dim0=0, dim1=1), x.transpose(dim0=0, dim1=1)],
    "einsum": lambda t, x, k: [t.einsum("ij,kj->ik", [x, x]), t.einsum(x, [0, 1], x, [2, 1], [0, 2])],
    "scatter": lambda t, x, k: [
        x.scatter(1, k[:, None], 2.0, reduce="add"),
        t.scatter(x, 1, k[:, None], 2.0, reduce="multiply"),
        x.scatter(1, k[:, None], value=5.0),
    ],
    "repeat_interleave": lambda t, x, k: [t.repeat_interleave(k), t.repeat_interleave(k, 2, output_size=6)],
    "searchsorted": lambda t, x, k: t.searchsorted(x[0], x[1], sorter=x[0].argsort()),
    "cdist": lambda t, x, k: t.cdist(x, x, 1.0, "use_mm_for_euclid_dist"),
    "triangles": lambda t, x, k: [(x > 0).tril(), (x > 0).triu(1), k[None].tril(), t.tril_indices(2, 3, device="cpu")],
    "attention": lambda t, x, k: t.nn.functional.scaled_dot_product_attention(
        x[None], x[None], x[None], attn_mask=t.ones(3, 3, dtype=t.bool).tril()
    ),
    "linalg": lambda t, x, k: [
        t.linalg.eigh(x @ x.T).eigenvalues,
        t.linalg.svd(x).S,
        t.linalg.slogdet(x @ x.T).logabsdet,
        t.linalg.lstsq(x.T, x.T[:, :1]).solution,
        t.linalg.inv_ex(x[:, :3]).inverse,
    ],
    "aminmax": lambda t, x, k: [t.aminmax(x).min, t.aminmax(x, dim=1).max],
    "histogram": lambda t, x, k: [t.histogram(x, bins=4, range=(-2.0, 2.0)).hist],
    "finfo": lambda t, x, k: [t.finfo(t.float32).tiny, t.finfo(t.float16).resolution, t.iinfo(t.int8).min],
    "shape": lambda t, x, k: [x.shape.numel(), isinstance(x.shape, t.Size), len(x.shape), x.shape[0]],
    "collate": lambda t, x, k: t.utils.data.default_collate([("a", 1, 2.5), ("b", 2, 3.5)]),
    "constant_": lambda t, x, k: t.nn.init.constant_(x.clone(), val=3),
    "sequential": lambda t, x, k: [str(t.nn.Sequential(t.nn.ReLU()) + t.nn.Sequential(t.nn.Tanh()))],
}


def _host(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_host(one) for one in value]
    if isinstance(value, dict):
        return {key: _host(one) for key, one in value.items()}
    return value.detach().numpy() if hasattr(value, "detach") else value


def _both(line: Line) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(_host(line(module, module.tensor(X), module.tensor(KINDS))) for module in (torch, facade))  # type: ignore[return-value]


def _compare(theirs: Any, ours: Any) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(theirs, ours):
            _compare(one, other)
    elif isinstance(theirs, (np.ndarray, float)):
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", FORMS)
def test_the_form_gives_pytorchs_result(name: str) -> None:
    _compare(*_both(FORMS[name]))


TEXTS: dict[str, Callable[[Any], Any]] = {
    "whole numbers": lambda t: t.arange(12).view(3, 4),
    "fractions": lambda t: t.tensor(X),
    "small and large": lambda t: t.tensor([1e-8, 1.0]),
    "large": lambda t: t.tensor([0.0, 1e9]),
    "not finite": lambda t: t.tensor([float("nan"), float("inf"), -1.5]),
    "only not finite": lambda t: t.tensor([float("nan"), float("inf")]),
    "long": lambda t: t.arange(2000.0),
    "square": lambda t: t.arange(40000.0).view(200, 200) / 7,
    "three axes": lambda t: t.arange(24.0).view(2, 3, 4) / 7,
    "wide": lambda t: t.arange(120.0).view(3, 40) / 7,
    "empty": lambda t: [t.zeros(0), t.zeros(0, 3), t.zeros(2, 0, dtype=t.int64)],
    "one": lambda t: [t.tensor(3), t.tensor(2.5), t.tensor(True), t.tensor(1e-10)],
    "dtypes": lambda t: [
        t.ones(2, dtype=getattr(t, name)) for name in ("float16", "bfloat16", "float64", "int32", "uint8")
    ],
    "graph": lambda t: [t.ones(2, requires_grad=True), t.ones(2, requires_grad=True) * 2, t.nn.Parameter(t.ones(2))],
    "others": lambda t: [t.ones(2, 3).shape, t.ones(2).size(), t.float32, t.device("cpu"), t.device("cuda:1")],
    "in a text": lambda t: [f"{t.tensor(1.5)} {t.tensor(3)} {t.ones(2)} {t.tensor(2.5):.2f}"],
    "limits": lambda t: [t.iinfo(t.int32)],
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_pytorchs(name: str) -> None:
    theirs, ours = (TEXTS[name](module) for module in (torch, facade))
    assert list(map(repr, ours)) == list(map(repr, theirs)) if isinstance(theirs, list) else repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    "options", [{"precision": 2}, {"sci_mode": True}, {"linewidth": 40}, {"threshold": 5, "edgeitems": 1}]
)
def test_print_options_are_pytorchs(options: dict[str, Any]) -> None:
    texts = []
    for module in (torch, facade):
        module.set_printoptions(**options)
        texts.append(repr(module.tensor(X)))
        module.set_printoptions(profile="default")
    assert texts[0] == texts[1]


class _Halving:
    """The body of a schedule with ``get_lr``, for both libraries."""

    def get_lr(self: Any) -> list[float]:
        return [group["lr"] * (0.5 if self.last_epoch else 1.0) for group in self.optimizer.param_groups]


def test_a_schedule_of_the_programs_own() -> None:
    rates = []
    for module in (torch, facade):
        base = module.optim.lr_scheduler.LRScheduler
        optimizer = module.optim.SGD([module.nn.Parameter(module.ones(1))])
        schedule = type("Halving", (_Halving, base), {})(optimizer)
        rates.append([optimizer.param_groups[0]["lr"]])
        for _ in range(3):
            optimizer.step()
            schedule.step()
            rates[-1].append(schedule.get_last_lr()[0])
    np.testing.assert_allclose(rates[0], rates[1])


@pytest.mark.parametrize(
    "name", ["StepLR", "ExponentialLR", "CosineAnnealingLR", "LinearLR", "MultiStepLR", "PolynomialLR"]
)
def test_states_of_schedules_are_exchanged(name: str) -> None:
    arguments = {"StepLR": (2,), "ExponentialLR": (0.9,), "CosineAnnealingLR": (9,), "MultiStepLR": ([2, 4],)}.get(
        name, ()
    )
    made = []
    for module in (torch, facade):
        optimizer = module.optim.SGD([module.nn.Parameter(module.ones(1))], lr=0.5)
        made.append((optimizer, getattr(module.optim.lr_scheduler, name)(optimizer, *arguments)))
    for _ in range(3):
        for optimizer, schedule in made:
            optimizer.step()
            schedule.step()
    (_, theirs), (_, ours) = made
    assert set(ours.state_dict()) <= set(theirs.state_dict()) | {"milestones"}
    state = {
        key: sorted(value.elements()) if hasattr(value, "elements") else value
        for key, value in theirs.state_dict().items()
    }
    ours.load_state_dict(state)
    np.testing.assert_allclose(ours.get_last_lr(), theirs.get_last_lr())


@pytest.mark.parametrize("place", [lambda storage, where: storage, {"cuda:0": "cpu"}, "cpu", None])
def test_map_location(place: Any) -> None:
    for module in (torch, facade):
        file = io.BytesIO()
        module.save({"w": module.tensor(X)}, file)
        file.seek(0)
        np.testing.assert_array_equal(module.load(file, map_location=place)["w"].numpy(), X)


class _Double:
    """The body of a Function with ``setup_context``, for both libraries."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2, x * 3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], None)

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        x, _ = ctx.saved_tensors
        return a * 2 + b * 3 + x * 0


def test_a_function_with_setup_context() -> None:
    for module in (torch, facade):
        x = module.tensor(X, requires_grad=True)
        type("Double", (_Double, module.autograd.Function), {}).apply(x)[0].sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full_like(X, 2))
