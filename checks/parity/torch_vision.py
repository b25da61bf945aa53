"""Transforms, FakeData, grids and ResNets against torchvision 0.28: the same numbers from the same seed; run by
`nox -s parity`.
"""

from __future__ import annotations

import importlib
import io
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as PILImage

import netcl.data
from netcl import torch_vision
from netcl.core import Tensor
from netcl.data import transforms
from netcl.data.transforms import v2
from netcl.data.transforms.draws import current, use_draws

Array = np.ndarray[Any, Any]


def reference() -> Any:
    """torchvision, also if its C++ operators were built for another PyTorch: no transform needs them."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")
        torch.library.define("torchvision::nms", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        return importlib.import_module("torchvision")


THEIRS = reference()
THEIRS_1 = importlib.import_module("torchvision.transforms")
THEIRS_2 = importlib.import_module("torchvision.transforms.v2")
FUNCTIONS = importlib.import_module("torchvision.transforms.functional")

ROWS = np.random.default_rng(0).integers(0, 256, (37, 52, 3), dtype=np.uint8)
PLANES = (ROWS.transpose(2, 0, 1) / 255).astype(np.float32)
# The same image for both: as a picture, as gray, as uint8 and as floating planes.
KINDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "picture": lambda: (PILImage.fromarray(ROWS),) * 2,
    "gray": lambda: (PILImage.fromarray(ROWS[:, :, 0]),) * 2,
    "uint8": lambda: (
        np.ascontiguousarray(ROWS.transpose(2, 0, 1)).view(transforms.Image),
        torch.from_numpy(np.ascontiguousarray(ROWS.transpose(2, 0, 1))),
    ),
    "float": lambda: (PLANES.copy(), torch.from_numpy(PLANES.copy())),
}
PICTURES, NUMBERS, ALL = ("picture", "gray"), ("uint8", "float"), ("picture", "gray", "uint8", "float")


@pytest.fixture(autouse=True)
def drawn_by_torch() -> Iterator[None]:
    before = use_draws(torch_vision.TorchDraws(torch))
    yield
    use_draws(before)


def values(result: Any) -> list[Array]:
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in values(part)]
    return [result.numpy() if isinstance(result, torch.Tensor) else np.asarray(result)]


def compare(
    ours: Callable[[Any], Any], theirs: Callable[[Any], Any], kinds: tuple[str, ...], levels: int, seeds: int = 4
) -> None:
    """Results of several seeds: equal for pictures, within ``levels`` of 255 for uint8, within 1e-4 for floats."""
    for kind in kinds:
        for seed in range(seeds):
            mine, other = KINDS[kind]()
            made = []
            for function, image in ((ours, mine), (theirs, other)):
                torch.manual_seed(seed)
                random.seed(seed)
                made.append(values(function(image)))
            assert len(made[0]) == len(made[1])
            for one, another in zip(*made):
                assert one.shape == another.shape
                assert one.dtype == another.dtype
                tolerance = 0.0 if kind in PICTURES else float(levels) if kind == "uint8" else 1e-4
                np.testing.assert_allclose(one.astype(float), another.astype(float), rtol=0, atol=tolerance)


def mode(name: str) -> tuple[Any, Any]:
    return transforms.InterpolationMode[name], THEIRS_1.InterpolationMode[name]


# name, arguments, keywords, kinds, levels of 255 by which uint8 may differ.
# Bicubic results of uint8 are Pillow's, which clips after each pass (tests of netcl-data); torchvision's clip once.
NO_UINT8 = ("picture", "gray", "float")
TABLE: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[str, ...], int]] = [
    *(("Resize", (size,), {"interpolation": "BILINEAR"}, ALL, 1) for size in (16, (64, 100), (30, 70), [24])),
    *(("Resize", (size,), {"interpolation": "BICUBIC"}, NO_UINT8, 0) for size in (16, (64, 100), (30, 70), [24])),
    *(("Resize", (size,), {"interpolation": "NEAREST"}, ALL, 0) for size in (16, (64, 100))),
    *(("Resize", (size,), {"interpolation": "NEAREST_EXACT"}, ALL, 0) for size in (16, (64, 100))),
    *(("Resize", (16,), {"interpolation": name}, PICTURES, 0) for name in ("BOX", "HAMMING", "LANCZOS")),
    ("Resize", (16,), {"max_size": 20}, ALL, 1),
    ("Resize", ((30, 70),), {"interpolation": "BILINEAR", "antialias": False}, NUMBERS, 1),
    ("Resize", ((30, 70),), {"interpolation": "BICUBIC", "antialias": False}, ("float",), 0),
    *(("CenterCrop", (size,), {}, ALL, 0) for size in (20, (41, 33), (60, 71))),
    *(
        ("Pad", (size,), {"padding_mode": name}, ALL, 0)
        for size in ((3, 5), 4, (1, 2, 3, 4))
        for name in ("constant", "edge", "reflect", "symmetric")
    ),
    ("Pad", (3,), {"fill": (1, 2, 3)}, ("picture",), 0),
    ("RandomCrop", (20,), {}, ALL, 0),
    ("RandomCrop", ((37, 30),), {}, ALL, 0),
    ("RandomCrop", (37,), {"padding": 4}, ALL, 0),
    ("RandomCrop", (37,), {"padding": (1, 2, 3, 4), "fill": 7}, ("picture", "gray", "uint8"), 0),
    ("RandomCrop", (60,), {"pad_if_needed": True}, ALL, 0),
    ("RandomCrop", (30,), {"padding": 5, "padding_mode": "reflect"}, ALL, 0),
    ("RandomResizedCrop", (16,), {}, ALL, 1),
    ("RandomResizedCrop", ((16, 24),), {"interpolation": "BICUBIC"}, NO_UINT8, 0),
    ("RandomResizedCrop", (16,), {"scale": (2.0, 3.0), "ratio": (1.8, 3.0)}, ALL, 1),
    ("RandomHorizontalFlip", (), {}, ALL, 0),
    ("RandomVerticalFlip", (0.7,), {}, ALL, 0),
    ("ColorJitter", (0.4, 0.4, 0.4, 0.1), {}, ALL, 2),
    ("ColorJitter", ((0.5, 1.5),), {}, ALL, 0),
    ("ColorJitter", (), {"hue": 0.5}, ALL, 1),
    ("Grayscale", (3,), {}, ALL, 0),
    ("RandomGrayscale", (0.5,), {}, ALL, 0),
    ("RandomRotation", (30,), {}, ALL, 0),
    ("RandomRotation", (30,), {"interpolation": "BILINEAR"}, ALL, 1),
    ("RandomRotation", ((10, 80),), {"expand": True}, ALL, 0),
    ("RandomRotation", (45,), {"fill": 9, "center": (3, 5)}, ("picture", "gray", "uint8"), 0),
    ("RandomRotation", (45,), {"fill": 0.5, "interpolation": "BILINEAR"}, ("float",), 0),
    ("RandomAffine", (20, (0.1, 0.2), (0.7, 1.3), 10), {}, ALL, 0),
    ("RandomAffine", (20, (0.1, 0.2), (0.7, 1.3), (-10, 10, -5, 5)), {"interpolation": "BILINEAR"}, ALL, 1),
    ("RandomAffine", (0,), {"shear": 20, "fill": 8}, ALL, 0),
    ("RandomPerspective", (), {"p": 1.0}, PICTURES, 0),
    ("GaussianBlur", (5,), {}, ALL, 1),
    ("GaussianBlur", ((3, 9), (0.5, 3.0)), {}, ALL, 1),
    ("RandomErasing", (0.9,), {}, ("float",), 0),
    ("RandomErasing", (1.0,), {"value": "random"}, ("float",), 0),
    ("RandomErasing", (0.9,), {"value": (1.0, 2.0, 3.0)}, ("float",), 0),
    ("Normalize", ((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)), {}, ("float",), 0),
    ("FiveCrop", (20,), {}, ALL, 0),
    ("TenCrop", ((10, 20),), {}, ALL, 0),
    ("RandomInvert", (), {}, ALL, 0),
    ("RandomPosterize", (3,), {}, ("picture", "gray", "uint8"), 0),
    ("RandomSolarize", (128,), {}, ("picture", "gray", "uint8"), 0),
    ("RandomAutocontrast", (1.0,), {}, ALL, 1),
    ("RandomEqualize", (1.0,), {}, ("picture", "gray", "uint8"), 0),
    ("RandomAdjustSharpness", (2.0, 1.0), {}, ALL, 1),
    # Shears by 0.2 read between two pixels, which rounding decides: compared by Pillow's arithmetic only.
    ("RandAugment", (), {}, PICTURES, 0),
    ("RandAugment", (3, 20), {"fill": 7}, ("gray",), 0),
    ("TrivialAugmentWide", (), {"interpolation": "BILINEAR"}, PICTURES, 0),
    ("ToTensor", (), {}, PICTURES, 0),
    ("PILToTensor", (), {}, PICTURES, 0),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_transform_has_torchvisions_numbers(row: Any) -> None:
    name, arguments, keywords, kinds, levels = row
    for ours, theirs in ((transforms, THEIRS_1), (v2, THEIRS_2)):
        made = []
        for at, module in enumerate((ours, theirs)):
            given = dict(keywords)
            if "interpolation" in given:
                given["interpolation"] = mode(given["interpolation"])[at]
            made.append(getattr(module, name)(*arguments, **given))
        compare(made[0], made[1], kinds, levels, 24 if "Augment" in name else 4)


@pytest.mark.parametrize("name", ["RandomApply", "RandomChoice", "RandomOrder", "Compose"])
def test_lists_of_transforms(name: str) -> None:
    for ours, theirs in ((transforms, THEIRS_1), (v2, THEIRS_2)):
        made = []
        for module in (ours, theirs):
            inner = [module.RandomHorizontalFlip(0.5), module.RandomVerticalFlip(0.5), module.ColorJitter(0.5)]
            made.append(getattr(module, name)(inner))
        compare(made[0], made[1], ALL, 1)


@pytest.mark.parametrize("wanted", ["float32", "float64", "uint8", "int16"])
def test_dtypes(wanted: str) -> None:
    compare(
        lambda image: transforms.functional.convert_image_dtype(image, wanted),
        lambda image: FUNCTIONS.convert_image_dtype(image, getattr(torch, wanted)),
        NUMBERS,
        0,
    )


def test_gamma() -> None:
    compare(
        lambda image: transforms.functional.adjust_gamma(image, 0.7, 1.1),
        lambda image: FUNCTIONS.adjust_gamma(image, 0.7, 1.1),
        ALL,
        1,
    )


@pytest.mark.parametrize("size", [(3, 8, 8), (1, 5, 7), (3, 64, 64)])
def test_fake_data(size: tuple[int, int, int]) -> None:
    ours, theirs = netcl.data.datasets.FakeData(5, size, 7), THEIRS.datasets.FakeData(5, size, 7)
    for at in range(5):
        (mine, label), (other, expected) = ours[at], theirs[at]
        assert label == expected
        assert mine.mode == other.mode
        difference = np.abs(np.asarray(mine).astype(int) - np.asarray(other).astype(int))
        # Rounding of the logarithm moves a pixel by one at most, modulo 256.
        assert np.minimum(difference, 256 - difference).max() <= 1


@pytest.mark.parametrize("shape", [(10, 3, 8, 8), (5, 1, 4, 6), (1, 3, 4, 4), (3, 4, 4), (4, 5)])
@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"nrow": 3},
        {"normalize": True},
        {"normalize": True, "scale_each": True, "nrow": 3, "padding": 1, "pad_value": 0.5},
        {"normalize": True, "value_range": (-1, 1)},
    ],
)
def test_grids_and_files(shape: tuple[int, ...], keywords: dict[str, Any]) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    theirs = THEIRS.utils.make_grid(torch.from_numpy(x.copy()), **keywords).numpy()
    np.testing.assert_allclose(netcl.data.make_grid(x, **keywords), theirs, atol=1e-6)
    files = [io.BytesIO(), io.BytesIO()]
    netcl.data.save_image(x, files[0], format="png", **keywords)
    THEIRS.utils.save_image(torch.from_numpy(x.copy()), files[1], format="png", **keywords)
    pixels = [np.asarray(PILImage.open(file)) for file in files]
    np.testing.assert_array_equal(pixels[0], pixels[1])


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnext50_32x4d"])
def test_resnets_take_torchvisions_state(name: str) -> None:
    torch.manual_seed(0)
    theirs = getattr(THEIRS.models, name)(num_classes=10).eval()
    ours = getattr(torch_vision.models, name)(num_classes=10).eval()
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    x = np.random.default_rng(2).normal(size=(2, 3, 64, 64)).astype(np.float32)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(x)).numpy()
    made = ours(Tensor.from_host(x)).to_host()
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))


def test_frozen_batch_norm() -> None:
    theirs = THEIRS.ops.FrozenBatchNorm2d(3, eps=1e-3)
    ours = torch_vision.ops.FrozenBatchNorm2d(3, eps=1e-3)
    torch.manual_seed(1)
    state = {name: torch.rand(3) + 0.5 for name in theirs.state_dict()}
    theirs.load_state_dict(state)
    ours.load_state_dict({name: value.numpy() for name, value in state.items()})
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    x = np.random.default_rng(3).normal(size=(2, 3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(
        ours(Tensor.from_host(x)).to_host(), theirs(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-6
    )


def test_the_names_are_torchvisions() -> None:
    """Each public name of torchvision's modules is here, or raises when it is called; none is unknown."""
    assert current() is not None
    for place, module in torch_vision.modules().items():
        try:
            other = importlib.import_module(place)
        except ImportError:
            continue
        public = getattr(other, "__all__", None)
        if public is None or place.endswith((".detection", ".segmentation", ".utils")):
            continue
        missing = [name for name in public if not hasattr(module, name)]
        assert missing == [], place
