"""Filters of images."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from netcl.data import SampleRandom
from netcl.data.filters import apply_filters, horizontal_flip, normalize, random_crop, to_float

X = np.random.default_rng(0).random((50, 3, 6, 5), np.float32)
ALL = [horizontal_flip(0.4), random_crop(2, 5), random_crop(0, (3, 5)), normalize(0.5, 2), to_float]


def rng():
    return SampleRandom(1, 0, np.arange(len(X)))


@pytest.mark.parametrize("function", ALL, ids=lambda function: type(function).__name__)
def test_every_filter_makes_a_new_array_of_its_dtype(function):
    before = X.copy()
    result = function(X, rng=rng())
    assert (before == X).all()
    assert not np.shares_memory(result, X)
    assert result.dtype == np.float32
    assert result.shape[:2] == X.shape[:2]
    assert (function(X, rng=rng()) == result).all()
    assert function(X[:0], rng=SampleRandom(1, 0, [])).shape[0] == 0
    assert pickle.loads(pickle.dumps(function))(X, rng=rng()).tobytes() == result.tobytes()


@pytest.mark.parametrize("function", ALL, ids=lambda function: type(function).__name__)
def test_alone_as_in_a_batch(function):
    batch = function(X, rng=rng())
    for index in (0, 17):
        assert (function(X[index], rng=SampleRandom(1, 0, [index])) == batch[index]).all()


@pytest.mark.parametrize("function", ALL, ids=lambda function: type(function).__name__)
def test_a_numpy_generator_and_none_serve_too(function):
    results = [function(X, rng=np.random.default_rng(3)) for _ in range(2)]
    assert (results[0] == results[1]).all()
    assert function(X).shape == results[0].shape


def test_to_float():
    assert to_float(np.array([0, 255], np.uint8)).tolist() == [0.0, 1.0]
    assert to_float(np.array([65535], np.uint16)).tolist() == [1.0]
    assert to_float(np.array([[3, -4]])).tolist() == [[3.0, -4.0]]
    assert to_float(np.array([True])).tolist() == [1.0]
    assert all(to_float(np.zeros(1, dtype)).dtype == np.float32 for dtype in ("uint8", "uint16", "int64", "f2", "f8"))


def test_normalize():
    mean, std = [0.1, 0.2, 0.3], [1.0, 2.0, 4.0]
    expected = (X - np.array(mean, "f4")[:, None, None]) / np.array(std, "f4")[:, None, None]
    assert (normalize(mean, std)(X) == expected).all()
    assert normalize(0.5, 0.5)(X.astype("f8")).dtype == np.float64
    assert np.allclose(normalize(0.5, 0.5)(X), X * 2 - 1, atol=1e-6)
    with pytest.raises(TypeError, match="uint8.*to_float"):
        normalize(0.5, 0.5)(X.astype(np.uint8))
    with pytest.raises(ValueError, match="mean has 2 values.*3 channels"):
        normalize([0, 1], 1)(X)
    for std in (0, [1, 0, 1], -1, np.nan):
        with pytest.raises(ValueError, match="std must be positive"):
            normalize(0, std)


def test_horizontal_flip():
    assert (horizontal_flip(1.0)(X) == X[..., ::-1]).all()
    assert (horizontal_flip(0.0)(X) == X).all()
    flipped = horizontal_flip(0.5)(X, rng=rng())
    share = [(image == original[..., ::-1]).all() for image, original in zip(flipped, X)]
    assert 0.2 < np.mean(share) < 0.8
    assert all(turned or (image == original).all() for turned, image, original in zip(share, flipped, X))
    with pytest.raises(ValueError, match="1.5"):
        horizontal_flip(1.5)


def test_random_crop_is_a_window_of_the_padded_image():
    cropped = random_crop(2, (4, 3))(X, rng=rng())
    assert cropped.shape == (50, 3, 4, 3)
    assert cropped.flags.c_contiguous
    padded = np.pad(X, ((0, 0), (0, 0), (2, 2), (2, 2)))
    places = set()
    for image, whole in zip(cropped, padded):
        found = [
            (top, left)
            for top in range(7)
            for left in range(7)
            if (whole[:, top : top + 4, left : left + 3] == image).all()
        ]
        assert found
        places.update(found)
    assert {top for top, _ in places} == set(range(7)) == {left for _, left in places}
    assert (random_crop(0, (6, 5))(X) == X).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: random_crop(-1, 4), "padding"),
        (lambda: random_crop(0, 0), "crop_size"),
        (lambda: random_crop(1, 9)(X), "9 x 9 does not fit into images of 6 x 5 padded by 1"),
        (lambda: horizontal_flip()(X[0, 0]), r"\(6, 5\)"),
        (lambda: horizontal_flip()(X[None]), r"\(1, 50, 3, 6, 5\)"),
        (lambda: horizontal_flip()(X, rng=SampleRandom(0, 0, [1])), "number of samples, 1"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_apply_filters_in_turn():
    images = (X * 255).astype(np.uint8)
    steps = [to_float, horizontal_flip(0.5), lambda x: x + 1, normalize(1, 0.5)]
    expected = normalize(1, 0.5)(horizontal_flip(0.5)(to_float(images), rng=rng()) + 1)
    assert (apply_filters(images, steps, rng=rng()) == expected).all()
    assert (apply_filters(X, []) == X).all()
