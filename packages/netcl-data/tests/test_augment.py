"""Augmentations of images and labels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from netcl.data import SampleRandom
from netcl.data.augment import color_jitter, cutmix, cutout, mixup, random_erase

N = 60
X = np.random.default_rng(0).random((N, 3, 12, 10), np.float32) + 1  # no zeros: a zero was erased
Y = np.arange(N) % 7


def rng():
    return SampleRandom(1, 0, np.arange(N))


FILTERS = [
    random_erase(),
    random_erase(1.0, value=3),
    cutout(),
    cutout(5, value=2),
    color_jitter(),
    color_jitter(0.5, 0.1, 0.9),
]


@pytest.mark.parametrize("function", FILTERS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
def test_images_are_new_and_keep_shape_and_dtype(function, dtype):
    images = (X * 100).astype(dtype)
    before = images.copy()
    result = function(images, rng=rng())
    assert result.dtype == images.dtype
    assert result.shape == images.shape
    assert (images == before).all()
    assert not np.shares_memory(result, images)
    assert (result != images).any()
    assert (function(images[7], rng=SampleRandom(1, 0, [7])) == result[7]).all()
    assert function(images[:0]).shape == (0, 3, 12, 10)
    assert pickle.loads(pickle.dumps(function)) == function


def boxes(result, value=0):
    """Yields of each image the erased rows and columns; they must fill a box in all channels."""
    erased = result == value
    assert (erased == erased[:, :1]).all()
    for mask in erased[:, 0]:
        rows, columns = mask.any(1), mask.any(0)
        assert (mask == rows[:, None] & columns).all()
        yield np.flatnonzero(rows), np.flatnonzero(columns)


def test_random_erase():
    found = list(boxes(random_erase(0.5, scale=(0.1, 0.3), ratio=(0.5, 2))(X, rng=rng())))
    sizes = np.array([len(rows) * len(columns) for rows, columns in found])
    assert 0.3 < (sizes > 0).mean() < 0.7
    assert (sizes[sizes > 0] >= 0.05 * 120).all()
    assert (sizes <= 0.4 * 120).all()
    for rows, columns in found:
        assert (np.diff(rows) == 1).all()
        assert (np.diff(columns) == 1).all()
    assert len({(*rows[:1], *columns[:1]) for rows, columns in found}) > 10
    assert (random_erase(0.0)(X) == X).all()
    assert all(len(rows) for rows, _ in boxes(random_erase(1.0, value=-3)(X), -3))
    untouched = random_erase(1.0)(X, rng=rng())
    assert (untouched[untouched != 0] == X[untouched != 0]).all()


def test_cutout():
    found = list(boxes(cutout(4)(X, rng=rng())))
    assert all(2 <= len(rows) <= 4 and 2 <= len(columns) <= 4 for rows, columns in found)
    assert any(len(rows) == len(columns) == 4 for rows, columns in found)
    assert any(len(rows) < 4 for rows, _ in found)
    assert (cutout(100)(X) == 0).all()


def test_a_value_that_the_images_cannot_hold():
    for value in (-3, 256, 0.5):
        for function in (random_erase(1.0, value=value), cutout(value=value)):
            with pytest.raises(ValueError, match=f"{value}.*uint8"):
                function((X * 100).astype(np.uint8))


def test_color_jitter_factors():
    brightness = color_jitter(0.3, 0, 0)(X, rng=rng()) / X
    assert np.ptp(brightness, axis=(1, 2, 3)).max() < 1e-5
    assert brightness.min() >= 0.7 - 1e-5
    assert brightness.max() <= 1.3 + 1e-5
    assert np.ptp(brightness) > 0.3
    contrast = color_jitter(0, 0.3, 0)(X, rng=rng())
    luma = np.array([0.2989, 0.587, 0.114])
    means = [np.einsum("nchw,c->n", images, luma) / 120 for images in (X, contrast)]
    # The factors add up to 0.9999, so the mean is nearly kept.
    assert np.allclose(*means, atol=1e-3)
    assert contrast.std() != X.std()
    saturation = color_jitter(0, 0, 0.5)(X, rng=rng())
    grays = [np.einsum("nchw,c->nhw", images, luma) for images in (X, saturation)]
    assert np.allclose(*grays, atol=1e-3)
    assert (saturation != X).all()
    assert (color_jitter(0, 0, 0)(X) == X).all()
    assert (color_jitter(0.2, 0, 0)(X, rng=rng()) == color_jitter(0.2, 0, 0.0)(X, rng=rng())).all()


def test_color_jitter_channels_and_limits():
    assert color_jitter(0, 0, 1)(X[:, :1]).tolist() == X[:, :1].tolist()
    assert color_jitter(0.2, 0.2, 0)(np.repeat(X, 2, 1)).shape == (N, 6, 12, 10)
    with pytest.raises(ValueError, match="1 or 3 channels, got 2"):
        color_jitter(0, 0, 1)(X[:, :2])
    bright = color_jitter(1.0, 0, 0)(np.full((N, 3, 2, 2), 250, np.uint8), rng=rng())
    assert bright.max() == 255
    assert bright.min() < 100


def test_mixup():
    function = mixup(0.4, num_classes=7)
    x, y = function(X, Y, rng=rng())
    assert x.shape == X.shape
    assert x.dtype == np.float32
    assert y.shape == (N, 7)
    assert y.dtype == np.float32
    assert np.allclose(y.sum(1), 1, atol=1e-6)
    again = function(X, Y, rng=rng())
    assert (again[0] == x).all()
    assert (again[1] == y).all()
    # A mean of pixels is mixed with the weight of the labels; the partners are a permutation.
    assert np.isclose(x.mean(), X.mean(), rtol=1e-5)
    one_hot = np.eye(7, dtype=np.float32)[Y]
    assert (function(X, one_hot, rng=rng())[1] == y).all()
    weight = y[np.arange(N), Y].min()
    other = (y - weight * one_hot) / (1 - weight)
    assert np.allclose(np.sort(other.max(1)), 1, atol=1e-4)


def test_cutmix_labels_follow_the_area():
    x, y = cutmix(1.0, num_classes=N)(X, np.arange(N), rng=rng())
    own = (x == X).all(1).mean(axis=(1, 2))
    partner = y.argsort(1)[:, -2]
    for index in range(N):
        share = y[index, index]
        if share < 1:
            taken = (x[index] != X[index]).any(0)
            assert np.isclose(own[index], share, atol=1e-6)
            candidates = [other for other in range(N) if (x[index][:, taken] == X[other][:, taken]).all()]
            assert y[index, candidates[0]] > 0
    assert len(set(partner.tolist())) > 5


@pytest.mark.parametrize("make", [mixup, cutmix])
def test_mixtures_refuse(make):
    assert [part.shape[0] for part in make(1.0, 3)(X[:0], Y[:0])] == [0, 0]
    with pytest.raises(ValueError, match="num_classes=K"):
        make(1.0)(X, Y)
    with pytest.raises(ValueError, match=r"labels 0 to 6 are outside of \[0, 6\)"):
        make(1.0, 6)(X, Y)
    with pytest.raises(ValueError, match="labels -1"):
        make(1.0, 7)(X, Y - 1)
    with pytest.raises(ValueError, match="60 images and 59 labels"):
        make(1.0, 7)(X, Y[1:])
    with pytest.raises(ValueError, match="uint8.*to_float"):
        make(1.0, 7)(X.astype(np.uint8), Y)
    with pytest.raises(ValueError, match="class ids"):
        make(1.0, 7)(X, Y[:, None])
    for alpha in (0, -1, np.inf, X):
        with pytest.raises(ValueError, match="alpha"):
            make(alpha)
    with pytest.raises(ValueError, match="num_classes"):
        make(1.0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: random_erase(-0.1),
        lambda: random_erase(scale=(0, 0.1)),
        lambda: random_erase(scale=(0.2, 0.1)),
        lambda: random_erase(ratio=(0, 1)),
        lambda: cutout(0),
        lambda: color_jitter(-0.1),
        lambda: color_jitter(0, np.nan),
    ],
)
def test_wrong_arguments(make):
    with pytest.raises(ValueError, match="random_erase|cutout|color_jitter"):
        make()
