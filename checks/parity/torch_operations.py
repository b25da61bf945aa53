"""Linear algebra, distances, reductions by index, special functions and losses against PyTorch: values, gradients,
dtypes, shapes and second derivatives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl.autograd as ag
from netcl import linalg, nn
from netcl.core import Tensor
from netcl.nn import functional as NF

RNG = np.random.default_rng(17)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def regular(*shape: int) -> np.ndarray:
    """Matrices with distinct singular values."""
    x = RNG.uniform(-0.4, 0.4, shape)
    for i in range(min(shape[-2:])):
        x[..., i, i] += 1.5 + 0.7 * i
    return x


def symmetric(*shape: int) -> np.ndarray:
    x = regular(*shape)
    return x + np.swapaxes(x, -1, -2)


def positive(*shape: int) -> np.ndarray:
    x = regular(*shape)
    return x @ np.swapaxes(x, -1, -2)


Pair = tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]


def both(name: str, inputs: list[np.ndarray], *args: Any, ours: Any = ag, theirs: Any = torch, **kwargs: Any) -> Pair:
    """The function ``name`` of both, with the same further arguments."""
    mine, other = getattr(ours, name), getattr(theirs, name)
    return (lambda *x: mine(*x, *args, **kwargs)), (lambda *x: other(*x, *args, **kwargs)), inputs


def matrices(name: str, inputs: list[np.ndarray], *args: Any, **kwargs: Any) -> Pair:
    return both(name, inputs, *args, ours=linalg, theirs=torch.linalg, **kwargs)


INDEX = RNG.integers(0, 4, (6, 3))
PLACES = np.array([1, 3, 1, 0, 1, 3])
TIED = np.array([[1.0, 2, 2], [0, 0, 3], [2, 2, 0], [1, 1, 1]])
SOURCE = np.array([[2.0, 2, 0], [1, 2, 3], [0, 0, 2], [2, 1, 1], [2, 2, 2], [0, 3, 0]])


# PyTorch counts an equal element of x among the extremes even if it does not take part; netcl does not.
UNTIED = TIED + 0.25


def scattered(reduce: str, include_self: bool) -> Pair:
    index = torch.tensor(INDEX)
    return (
        lambda x, src: ag.scatter_reduce(x, 0, INDEX, src, reduce, include_self=include_self),
        lambda x, src: torch.scatter_reduce(x, 0, index, src, reduce, include_self=include_self),
        [TIED if include_self else UNTIED, SOURCE],
    )


def placed(reduce: str, include_self: bool) -> Pair:
    index = torch.tensor(PLACES)
    return (
        lambda x, src: ag.index_reduce(x, 0, PLACES, src, reduce, include_self=include_self),
        lambda x, src: torch.index_reduce(x, 0, index, src, reduce, include_self=include_self),
        [TIED if include_self else UNTIED, SOURCE],
    )


SIGNS = RNG.choice([-1.0, 1.0], (4, 5))
LABELS = np.array([[1, 4, -1, 2, 0], [3, -1, -1, -1, -1], [0, 1, 2, 3, 4], [-1, 0, 0, 0, 0]])
BITS = RNG.integers(0, 2, (4, 5)) * 1.0


def targeted(name: str, inputs: list[np.ndarray], target: np.ndarray, **kwargs: Any) -> Pair:
    """A loss with a target that has no gradient."""
    mine, other = getattr(ag, name), getattr(F, name)
    return (
        lambda *x: mine(*x, Tensor.from_host(target, target.dtype), **kwargs),
        lambda *x: other(*x, torch.tensor(target), **kwargs),
        inputs,
    )


CASES: dict[str, Pair] = {
    "cholesky": (
        lambda x: linalg.cholesky(ag.add(x, linalg.matrix_transpose(x))),
        lambda x: torch.linalg.cholesky(x + x.mT),
        [positive(2, 3, 3)],
    ),
    "cholesky upper": matrices("cholesky", [positive(3, 3)], upper=True),
    "qr": matrices("qr", [regular(2, 5, 3)]),
    "qr square": matrices("qr", [regular(3, 3)]),
    "qr wide": matrices("qr", [regular(3, 5)]),
    "svd": matrices("svd", [regular(2, 5, 3)], full_matrices=False),
    "svd wide": matrices("svd", [regular(3, 4)], full_matrices=False),
    "svdvals": matrices("svdvals", [regular(2, 4, 3)]),
    "eigh": (
        lambda x: linalg.eigh(ag.add(x, linalg.matrix_transpose(x))),
        lambda x: torch.linalg.eigh(x + x.mT),
        [symmetric(2, 3, 3)],
    ),
    "eigvalsh": matrices("eigvalsh", [symmetric(2, 3, 3)]),
    "inv": matrices("inv", [regular(2, 3, 3)]),
    "pinv": matrices("pinv", [regular(2, 4, 3)]),
    "pinv wide": matrices("pinv", [regular(3, 4)]),
    "solve": matrices("solve", [regular(2, 3, 3), normal(2, 3, 2)]),
    "solve vectors": matrices("solve", [regular(2, 3, 3), normal(2, 3)]),
    "solve vector": matrices("solve", [regular(3, 3), normal(3)]),
    "solve left": matrices("solve", [regular(3, 3), normal(2, 3)], left=False),
    "solve broadcast": matrices("solve", [regular(2, 1, 3, 3), normal(4, 3, 2)]),
    "lstsq": (
        lambda a, b: linalg.lstsq(a, b)[0],
        lambda a, b: torch.linalg.lstsq(a, b).solution,
        [regular(5, 3), normal(5, 2)],
    ),
    "det": matrices("det", [regular(2, 3, 3)]),
    "slogdet": matrices("slogdet", [regular(2, 3, 3)]),
    "logdet": both("logdet", [regular(2, 3, 3)]),
    **{f"matrix_power {n}": matrices("matrix_power", [regular(2, 3, 3)], n) for n in (1, 2, 5, -2)},
    **{f"matrix_norm {p}": matrices("matrix_norm", [regular(2, 3, 4)], p) for p in ("fro", "nuc", 1, -1, 2, -2)},
    **{f"vector_norm {p}": matrices("vector_norm", [normal(3, 4)], p, 1) for p in (1, 2, 3, float("inf"))},
    "norm": matrices("norm", [regular(3, 4)]),
    "norm nuc": matrices("norm", [regular(3, 4)], "nuc"),
    "cross": matrices("cross", [normal(2, 3), normal(2, 3)]),
    "vecdot": matrices("vecdot", [normal(2, 3), normal(2, 3)]),
    "linalg diagonal": matrices("diagonal", [normal(2, 3, 4)], offset=1),
    "diagonal": both("diagonal", [normal(2, 3, 4)], -1, 2, 1),
    "addcmul": both("addcmul", [normal(3, 1), normal(4), normal(3, 4)], value=0.5),
    "addcdiv": both("addcdiv", [normal(3, 1), normal(4), positive(4, 4)[:3] + 9], value=0.5),
    "mm": both("mm", [normal(3, 4), normal(4, 2)]),
    "mv": both("mv", [normal(3, 4), normal(4)]),
    **{f"cdist {p}": both("cdist", [normal(2, 3, 4), normal(2, 5, 4)], p) for p in (1.0, 2.0, 3.0, float("inf"))},
    "pdist": both("pdist", [normal(5, 3)]),
    "cosine_similarity": both("cosine_similarity", [normal(3, 4), normal(3, 4)]),
    "pairwise_distance": both("pairwise_distance", [normal(3, 4), normal(3, 4)], theirs=F),
    **{
        f"scatter_reduce {how} {whole}": scattered(how, whole)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for whole in (True, False)
    },
    **{f"index_reduce {r} {s}": placed(r, s) for r in ("prod", "mean", "amax", "amin") for s in (True, False)},
    "diff": both("diff", [normal(3, 5)], 2),
    "nan_to_num": both("nan_to_num", [normal(5)]),
    "cov": both("cov", [normal(3, 7)]),
    "corrcoef": both("corrcoef", [normal(3, 7)]),
    "rot90": both("rot90", [normal(2, 3, 4)], 3, (0, 2)),
    "combinations": both("combinations", [normal(4)], 3),
    "cartesian_prod": both("cartesian_prod", [normal(2), normal(3)]),
    "logcumsumexp": both("logcumsumexp", [normal(3, 5)], 1),
    "cummax": both("cummax", [normal(3, 5)], 1),
    "renorm": both("renorm", [normal(3, 5)], 2, 0, 1.5),
    "lerp": both("lerp", [normal(3), normal(3), RNG.random(3)]),
    "hypot": both("hypot", [normal(5), normal(5)]),
    "copysign": both("copysign", [normal(5), normal(5)]),
    "xlogy": both("xlogy", [normal(5), RNG.uniform(0.2, 3, 5)]),
    "sinc": both("sinc", [normal(5)]),
    "i0": both("i0", [np.linspace(-25, 25, 33)]),
    "erfinv": both("erfinv", [RNG.uniform(-0.9, 0.9, 5)]),
    "digamma": both("digamma", [RNG.uniform(0.2, 9, 5)]),
    "multigammaln": both("mvlgamma", [RNG.uniform(2.2, 9, 5)], 3),
    "polygamma": (lambda x: ag.polygamma(2, x), lambda x: torch.polygamma(2, x), [RNG.uniform(0.2, 9, 5)]),
    "softplus": both("softplus", [np.array([-3.0, 1, 9, 11, 30])], beta=2.0, threshold=20.0, theirs=F),
    "unfold": both("unfold", [normal(2, 3, 5, 6)], (3, 2), padding=1, stride=2, ours=NF, theirs=F),
    "fold": both("fold", [normal(2, 12, 12)], (5, 4), 2, ours=NF, theirs=F),
    **{
        f"interpolate {mode} {size}": both(
            "interpolate", [normal(2, 3, 9, 8)], size, mode=mode, align_corners=corners, antialias=True, theirs=F
        )
        for mode in ("bilinear", "bicubic")
        for size, corners in (((4, 3), False), ((12, 5), False), ((4, 11), True))
    },
    "interpolate recompute": both(
        "interpolate", [normal(2, 3, 5, 7)], scale_factor=1.37, mode="bilinear", recompute_scale_factor=True, theirs=F
    ),
    "interpolate factor": both(
        "interpolate", [normal(2, 3, 5, 7)], scale_factor=1.37, mode="bilinear", recompute_scale_factor=False, theirs=F
    ),
    "margin_ranking_loss": targeted("margin_ranking_loss", [normal(4, 5), normal(4, 5)], SIGNS, margin=0.3),
    "hinge_embedding_loss": targeted("hinge_embedding_loss", [normal(4, 5)], SIGNS, margin=0.7),
    "poisson_nll_loss": targeted("poisson_nll_loss", [normal(4, 5)], BITS * 3, full=True),
    "poisson_nll_loss linear": targeted("poisson_nll_loss", [RNG.random((4, 5))], BITS * 3, log_input=False),
    **{
        f"gaussian_nll_loss {shape}": both(
            "gaussian_nll_loss", [normal(4, 5), normal(4, 5), RNG.uniform(0.2, 2, shape)], full=True, theirs=F
        )
        for shape in ((4, 5), (4, 1), (4,))
    },
    "gaussian_nll_loss limit": both(
        "gaussian_nll_loss", [normal(4, 5), normal(4, 5), RNG.uniform(0, 1, (4, 5))], eps=0.5, theirs=F
    ),
    "soft_margin_loss": targeted("soft_margin_loss", [normal(4, 5)], SIGNS),
    "multilabel_margin_loss": targeted("multilabel_margin_loss", [normal(4, 5)], LABELS),
    "multilabel_margin_loss of one": targeted("multilabel_margin_loss", [normal(5)], LABELS[0]),
    "multilabel_soft_margin_loss": targeted("multilabel_soft_margin_loss", [normal(4, 5)], BITS),
    "multi_margin_loss": targeted("multi_margin_loss", [normal(4, 5)], np.array([1, 0, 4, 2]), p=2, margin=0.6),
    "cosine_embedding_loss": targeted("cosine_embedding_loss", [normal(4, 5), normal(4, 5)], SIGNS[:, 0], margin=0.1),
    "triplet_margin_loss": both(
        "triplet_margin_loss", [normal(6, 4), normal(6, 4), normal(6, 4)], swap=True, p=3.0, ours=NF, theirs=F
    ),
    "triplet_margin_with_distance_loss": both(
        "triplet_margin_with_distance_loss", [normal(6, 4), normal(6, 4), normal(6, 4)], swap=True, ours=NF, theirs=F
    ),
    **{
        f"{name} without a batch": both(name, [normal(4, *(7, 6, 5)[:n])], size, theirs=F)
        for n in (1, 2, 3)
        for name, size in (
            *((f"{kind}_pool{n}d", 2) for kind in ("max", "avg")),
            *((f"adaptive_{kind}_pool{n}d", 3) for kind in ("max", "avg")),
        )
    },
    **{
        f"conv{n}d without a batch": both(
            f"conv{n}d", [normal(4, *(7, 6, 5)[:n]), normal(6, 2, *(3,) * n), normal(6)], 2, 1, 1, 2, theirs=F
        )
        for n in (1, 2, 3)
    },
    **{
        f"conv_transpose{n}d without a batch": both(
            f"conv_transpose{n}d", [normal(4, *(7, 6, 5)[:n]), normal(4, 3, *(3,) * n), normal(6)], 2, 1, 1, 2, theirs=F
        )
        for n in (1, 2, 3)
    },
}  # fmt: skip
# Their second derivative is not compared: PyTorch has none, or the functions are linear or have kinks.
FIRST_ONLY = {"pdist", "fold", "unfold", *(n for n in CASES if n.startswith(("cdist inf", "vector_norm inf", "lstsq")))}
ONCE = ("scatter_reduce prod", "index_reduce", "i0", "adaptive_max", "max", "cdist", "multi", "triplet")
FIRST_ONLY |= {name for name in CASES if name.startswith(ONCE)}


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def floating(values: list[Any]) -> list[Any]:
    return [v for v in values if str(v.dtype).endswith(("float32", "float64"))]


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, theirs, inputs = CASES[name]
    mine = [Tensor.from_host(x, "float64", requires_grad=True) for x in inputs]
    other = [torch.tensor(x, requires_grad=True) for x in inputs]
    got, wanted = listed(ours(*mine)), listed(theirs(*other))
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.shape == tuple(b.shape)
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-9)
    # Weights that do not depend on the sign of a column, which LAPACK's versions choose.
    weights = [RNG.uniform(0.5, 1, a.shape) for a in floating(got)]
    seeds = [Tensor.from_host(w, "float64") for w in weights]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        differentiable = [(b, torch.tensor(w)) for b, w in zip(floating(wanted), weights) if b.requires_grad]
        grads = torch.autograd.grad(
            [b for b, _ in differentiable], other, [w for _, w in differentiable], create_graph=name not in FIRST_ONLY
        )
        grads = [b + 0.0 for b in grads]  # PyTorch's zero tensors have no values
    found = ag.grad(
        [a for a, b in zip(floating(got), floating(wanted)) if b.requires_grad],
        mine,
        [s for s, b in zip(seeds, floating(wanted)) if b.requires_grad],
        create_graph=name not in FIRST_ONLY,
        allow_unused=True,
    )
    for a, b, x in zip(found, grads, inputs):
        mine_first = np.zeros(x.shape) if a is None else a.numpy()
        np.testing.assert_allclose(mine_first, b.detach().numpy(), rtol=1e-7, atol=1e-8)
    if name in FIRST_ONLY or not any(b.requires_grad for b in grads):
        return
    again = torch.autograd.grad([(b * b).sum() for b in grads if b.requires_grad], other, allow_unused=True)
    again_from = [a for a, b in zip(found, grads) if b.requires_grad and a is not None and a.requires_grad]
    total = [ag.sum(ag.mul(a, a)) for a in again_from]
    second = ag.grad(total, mine, allow_unused=True) if total else [None] * len(mine)
    for a, b, x in zip(second, again, inputs):
        mine_second = np.zeros(x.shape) if a is None else a.numpy()
        other_second = np.zeros(x.shape) if b is None else (b + 0.0).numpy()
        np.testing.assert_allclose(mine_second, other_second, rtol=1e-6, atol=1e-6)


CONSTANT: dict[str, Pair] = {
    "matrix_rank": matrices("matrix_rank", [np.diag([2.0, 1.0, 0.0])]),
    "isclose": both("isclose", [np.array([1.0, np.nan, np.inf]), np.array([1 + 1e-7, np.nan, np.inf])]),
    "isclose nan": both("isclose", [np.array([1.0, np.nan]), np.array([1.1, np.nan])], equal_nan=True),
    "histc": both("histc", [RNG.uniform(-3, 3, 500)], bins=7, min=-2, max=2),
    "histc range": both("histc", [RNG.uniform(-3, 3, 500)], bins=7),
    "bucketize": both("bucketize", [normal(4, 5), np.array([-1.0, 0.0, 1.0])]),
    "bucketize right": both("bucketize", [np.array([-1.0, 0.5]), np.array([-1.0, 0.0, 1.0])], right=True),
    "heaviside": both("heaviside", [np.array([-1.0, 0.0, 2.0, np.nan]), np.array([5.0, 6.0, 7.0, 8.0])]),
    "nextafter": both("nextafter", [normal(5), normal(5)]),
    "unique_consecutive": both("unique_consecutive", [np.array([1.0, 1, 2, 2, 1])], True, True),
    "unique_consecutive dim": both(
        "unique_consecutive", [np.repeat(np.arange(6.0).reshape(2, 3), 2, 1)], return_counts=True, dim=1
    ),
    "hstack": ((lambda a, b: ag.hstack([a, b])), (lambda a, b: torch.hstack([a, b])), [normal(2, 3), normal(2, 1)]),
    "vstack": ((lambda a, b: ag.vstack([a, b])), (lambda a, b: torch.vstack([a, b])), [normal(3), normal(3)]),
    "dstack": ((lambda a, b: ag.dstack([a, b])), (lambda a, b: torch.dstack([a, b])), [normal(3), normal(3)]),
    "column_stack": (
        (lambda a, b: ag.column_stack([a, b])),
        (lambda a, b: torch.column_stack([a, b])),
        [normal(3), normal(3, 2)],
    ),
    "nan_to_num": both("nan_to_num", [np.array([np.nan, np.inf, -np.inf, 1.0])], posinf=3.0),
    "nan_to_num defaults": both("nan_to_num", [np.array([np.nan, np.inf, -np.inf, 1.0])]),
    "cov correction": both("cov", [normal(3, 7)], correction=0),
    "svd full": matrices("svd", [regular(4, 2)]),
}


@pytest.mark.parametrize("name", CONSTANT)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values(name: str, dtype: str) -> None:
    ours, theirs, inputs = CONSTANT[name]
    got = listed(ours(*(Tensor.from_host(x, dtype) for x in inputs)))
    wanted = listed(theirs(*(torch.tensor(x, dtype=getattr(torch, dtype)) for x in inputs)))
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.shape == tuple(b.shape)
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("name", ["hann_window", "hamming_window", "blackman_window"])
def test_windows(name: str, length: int, periodic: bool) -> None:
    wanted = getattr(torch, name)(length, periodic=periodic, dtype=torch.float64)
    got = getattr(ag, name)(length, periodic, dtype="float64")
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), atol=1e-15)


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("arguments", [(3, 4, 0), (4, 3, 1), (3, 3, -2), (0, 2, 0)])
def test_triangles(name: str, arguments: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(getattr(ag, name)(*arguments).numpy(), getattr(torch, name)(*arguments).numpy())


def test_weighted_covariances() -> None:
    x, counts, weights = normal(3, 6), np.array([1, 2, 1, 3, 1, 2]), RNG.uniform(0.5, 2, 6)
    for options in ({"fweights": counts}, {"aweights": weights}, {"fweights": counts, "aweights": weights}):
        wanted = torch.cov(torch.tensor(x), **{name: torch.tensor(value) for name, value in options.items()})
        got = ag.cov(Tensor.from_host(x, "float64"), **{k: Tensor.from_host(v, v.dtype) for k, v in options.items()})
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9)


LAYERS: dict[str, tuple[dict[str, Any], list[np.ndarray]]] = {
    "MarginRankingLoss": ({"margin": 0.3}, [normal(4), normal(4), SIGNS[:, 0]]),
    "HingeEmbeddingLoss": ({}, [normal(4, 5), SIGNS]),
    "PoissonNLLLoss": ({"full": True}, [normal(4, 5), BITS * 2]),
    "GaussianNLLLoss": ({"full": True}, [normal(4, 5), normal(4, 5), RNG.random((4, 1))]),
    "SoftMarginLoss": ({"reduction": "sum"}, [normal(4, 5), SIGNS]),
    "MultiLabelMarginLoss": ({}, [normal(4, 5), LABELS]),
    "MultiLabelSoftMarginLoss": ({"reduction": "none"}, [normal(4, 5), BITS]),
    "TripletMarginLoss": ({"swap": True, "p": 1.0}, [normal(4, 5), normal(4, 5), normal(4, 5)]),
    "PairwiseDistance": ({"keepdim": True}, [normal(4, 5), normal(4, 5)]),
    "CosineSimilarity": ({"dim": 0}, [normal(4, 5), normal(4, 5)]),
    "Unfold": ({"kernel_size": 2, "padding": 1}, [normal(2, 3, 4, 5)]),
    "Fold": ({"output_size": (4, 5), "kernel_size": 2}, [normal(2, 12, 12)]),
    "Softplus": ({"beta": 3.0, "threshold": 5.0}, [normal(9) * 5]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    options, inputs = LAYERS[name]
    wanted = getattr(torch.nn, name)(**options)(*map(torch.tensor, inputs))
    got = getattr(nn, name)(**options)(*(Tensor.from_host(x, x.dtype) for x in inputs))
    assert got.shape == tuple(wanted.shape)
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-8, atol=1e-10)
