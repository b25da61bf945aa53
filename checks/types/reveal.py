"""The types that users see, checked by mypy and pyright: asserted types, and calls that must be errors.

A comment that ignores an error is itself an error if there is none (``warn_unused_ignores``,
``reportUnnecessaryTypeIgnoreComment``).
"""

from __future__ import annotations

from typing_extensions import assert_type

import netcl as nc
import netcl.autograd as ag
from netcl import linalg, nn, ops
from netcl.ops.ranked import Ranked


def of_ops(x: nc.Tensor, w: nc.Tensor) -> None:
    assert_type(nc.relu(x), nc.Tensor)
    assert_type(ops.relu(x), nc.Tensor)
    assert_type(ag.relu(x, tape=None), nc.Tensor)
    assert_type(nc.add(x, 2.0), nc.Tensor)
    assert_type(nc.multiply(x, w), nc.Tensor)
    assert_type(nc.sum(x, dim=1, keepdim=True), nc.Tensor)
    assert_type(nc.sum(x, dim=1, dtype=nc.float32), nc.Tensor)
    assert_type(nc.softmax(x, dim=1, dtype=nc.float32), nc.Tensor)
    assert_type(nc.add(x, w, alpha=2), nc.Tensor)
    assert_type(nc.cumsum(x, dim=0), nc.Tensor)
    assert_type(nc.max(x), nc.Tensor)
    assert_type(nc.max(x, dim=1), Ranked)
    assert_type(nc.max(x, dim=1).values, nc.Tensor)
    assert_type(nc.max(x, 1).indices, nc.Tensor)
    assert_type(nc.max(x, w), nc.Tensor)
    assert_type(nc.sort(x).values, nc.Tensor)
    assert_type(nc.split(x, 2), tuple[nc.Tensor, ...])
    assert_type(nc.max_pool2d(x, 2), nc.Tensor)
    assert_type(nc.max_pool2d(x, 2, return_indices=True), tuple[nc.Tensor, nc.Tensor])
    assert_type(nc.movedim(x, 0, 1), nc.Tensor)
    assert_type(ag.cross_entropy(x, w), nc.Tensor)
    assert_type(linalg.qr(x), tuple[nc.Tensor, nc.Tensor])
    assert_type(nc.allclose(x, w), bool)
    nc.relu()  # type: ignore[call-arg]
    nc.relu(x, bogus=3)  # type: ignore[call-arg]
    nc.relu("x")  # type: ignore[arg-type]
    nc.sum(x, axes=1)  # type: ignore[call-arg]
    nc.cumsum(x)  # type: ignore[call-overload]
    ops.exp()  # type: ignore[call-arg]
    ag.exp(x, bogus=3)  # type: ignore[call-arg]
    nc.rleu(x)  # type: ignore[attr-defined]


def of_methods(x: nc.Tensor) -> None:
    assert_type(x.relu(), nc.Tensor)
    assert_type(x.max(dim=1), Ranked)
    assert_type(x.max(dim=1).indices, nc.Tensor)
    assert_type(x.max(), nc.Tensor)
    assert_type(x + 1, nc.Tensor)
    assert_type(x.add_(1), nc.Tensor)
    assert_type(x.sum(dim=0), nc.Tensor)
    assert_type(x.dim(), int)
    x.relu(bogus=3)  # type: ignore[call-arg]
    x.rleu()  # type: ignore[attr-defined]


def of_factories() -> None:
    assert_type(nc.zeros(2, 3), nc.Tensor)
    assert_type(nc.tensor([1.0, 2.0]), nc.Tensor)
    assert_type(nc.pi, float)


class Net(nn.Module):
    """A model of a user: its calls have the parameters and the result of its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x: nc.Tensor, scale: float = 1.0) -> tuple[nc.Tensor, int]:
        h = self.norm(self.first(x))
        assert_type(h, nc.Tensor)
        return h * scale, 1


def of_modules(x: nc.Tensor, some: nn.Module) -> None:
    assert_type(nn.Linear(2, 3)(x), nc.Tensor)
    assert_type(nn.Conv2d(1, 2, 3)(x), nc.Tensor)
    assert_type(nn.ReLU()(x), nc.Tensor)
    assert_type(nn.CrossEntropyLoss()(x, x), nc.Tensor)
    assert_type(nn.Linear(2, 3).weight, nn.Parameter)
    assert_type(nn.Linear(2, 3).eval(), nn.Linear)
    assert_type(Net()(x, scale=2.0), tuple[nc.Tensor, int])
    some(x, 1, whatever=2)
    nn.Linear(2, 3)()  # type: ignore[call-arg]
    nn.Linear(2, 3)(x, bogus=3)  # type: ignore[call-arg]
    nn.Linear(2, 3)("x")  # type: ignore[arg-type]
    nn.Linear(2)  # type: ignore[call-arg]
    Net()(x, "x")  # type: ignore[arg-type]
