"""Shapes and arguments that do not fit a layer: the error names the layer and what it takes."""

from __future__ import annotations

import pytest

from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError

WRONG: list[tuple[nn.Module, tuple[int, ...], str]] = [
    (nn.Linear(5, 3), (2, 4), r"Linear\(in_features=5.*\(\.\.\., 5\).*\(2, 4\)"),
    (nn.Conv2d(3, 4, 3), (2, 4, 5, 5), r"Conv2d\(3, 4.*\(N, 3, H, W\).*\(2, 4, 5, 5\)"),
    (nn.Conv2d(3, 4, 3), (5, 5), r"\(N, 3, H, W\) or \(3, H, W\), not \(5, 5\)"),
    (nn.ConvTranspose1d(3, 4, 3), (2, 4, 5), r"\(N, 3, L\)"),
    (nn.BatchNorm1d(3), (2, 3, 4, 4), r"\(N, 3\) or \(N, 3, L\)"),
    (nn.BatchNorm2d(3), (2, 4, 5, 5), r"BatchNorm2d\(3.*\(N, 3, H, W\)"),
    (nn.LayerNorm((3, 4)), (2, 4, 3), r"\(\.\.\., 3, 4\)"),
    (nn.RMSNorm(4), (), r"\(\.\.\., 4\)"),
    (nn.GroupNorm(2, 4), (2, 3), r"\(N, 4, \.\.\.\)"),
    (nn.InstanceNorm2d(3), (2, 3, 4), r"\(N, 3, H, W\)"),
    (nn.MaxPool2d(2), (3, 4), r"\(N, C, H, W\) or \(C, H, W\)"),
    (nn.PReLU(3), (2, 4), r"\(N, 3, \.\.\.\)"),
    (nn.GLU(), (2, 3), "even"),
    (nn.Unflatten(1, (2, 2)), (2, 5), r"\(2, 5\)"),
    (nn.Dropout2d(), (2, 3), r"\(N, C, H, W\)"),
    (nn.ZeroPad2d(1), (2, 3), r"\(N, C, H, W\)"),
]


@pytest.mark.parametrize(("layer", "shape", "message"), WRONG, ids=lambda value: type(value).__name__)
def test_a_wrong_shape_names_the_layer_and_what_it_takes(
    layer: nn.Module, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        layer(Tensor.zeros(shape))


def test_wrong_arguments() -> None:
    for make, message in (
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups=2"),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "kernel_size"),
        (lambda: nn.Conv2d(3, 4, 3, padding="some"), "'some'"),
        (lambda: nn.Conv2d(3, 4, 3, padding="same", stride=2), "stride of 1"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "'mirror'"),
        (lambda: nn.GroupNorm(3, 4), "num_groups=3"),
        (lambda: nn.Dropout(1.5), "1.5"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx=3"),
        (lambda: nn.GELU("exact"), "'exact'"),
        (lambda: nn.Upsample(), "one of them"),
        (lambda: nn.ZeroPad2d((1, 2)), "4 of them"),
        (lambda: nn.MSELoss("average"), "'average'"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


DOUBLE: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Linear(3, 2), (4, 3)),
    (nn.Conv1d(3, 2, 3), (1, 3, 5)),
    (nn.ConvTranspose2d(3, 2, 3), (1, 3, 5, 5)),
    (nn.BatchNorm1d(3), (4, 3)),
    (nn.LayerNorm(3), (4, 3)),
    (nn.RMSNorm(3), (4, 3)),
    (nn.GroupNorm(1, 3), (4, 3)),
    (nn.InstanceNorm1d(3, affine=True), (4, 3, 5)),
    (nn.LSTM(3, 2), (4, 1, 3)),
    (nn.GRUCell(3, 2), (4, 3)),
]


@pytest.mark.parametrize(("layer", "shape"), DOUBLE, ids=lambda value: getattr(type(value), "__name__", ""))
def test_float64_and_float32_are_not_mixed(layer: nn.Module, shape: tuple[int, ...]) -> None:
    with pytest.raises(DTypeError, match=rf"{type(layer).__name__}.* has parameters in float32 and takes no float64"):
        layer(Tensor.ones(shape, "float64"))
    layer.to(dtype="float64")(Tensor.ones(shape, "float64"))
    with pytest.raises(DTypeError, match="takes no float32"):
        layer(Tensor.ones(shape, "float32"))
