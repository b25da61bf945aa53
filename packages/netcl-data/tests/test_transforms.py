"""Transforms of images: Pillow is the reference of resizing, hand-written NumPy of colors and windows."""

from __future__ import annotations

import math
import pickle
import random

import numpy as np
import pytest
from PIL import Image as PILImage

from netcl.data import DataLoader, transforms
from netcl.data.transforms import InterpolationMode, v2
from netcl.data.transforms import functional as F
from netcl.data.transforms.draws import current

RNG = np.random.default_rng(0)
ROWS = RNG.integers(0, 256, (37, 52, 3), dtype=np.uint8)
PLANES = (ROWS.transpose(2, 0, 1) / 255).astype(np.float32)
PICTURE = PILImage.fromarray(ROWS)


class Scripted:
    """Draws that are given beforehand, and a list of the calls."""

    def __init__(self, *values):
        self.values = list(values)
        self.calls = []

    def _next(self, *call):
        self.calls.append(call)
        return self.values.pop(0)

    def chance(self):
        return self._next("chance")

    def uniform(self, low, high):
        return self._next("uniform", low, high)

    def integer(self, low, high):
        return self._next("integer", low, high)

    def permutation(self, n):
        return self._next("permutation", n)

    def normal(self, shape):
        return self._next("normal", tuple(shape))

    def weighted(self, weights):
        return self._next("weighted", tuple(weights))


@pytest.fixture
def scripted():
    """Sets scripted draws for a test, and the draws of before afterwards."""
    before = current()

    def use(*values):
        source = Scripted(*values)
        transforms.use_draws(source)
        return source

    yield use
    transforms.use_draws(before)


# Kinds of images


def test_to_tensor_divides_uint8_and_moves_the_channels():
    made = F.to_tensor(ROWS)
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, PLANES)
    np.testing.assert_array_equal(F.to_tensor(PICTURE), PLANES)
    assert F.to_tensor(np.full((2, 2), 255, np.uint8)).max() == 1.0
    assert F.to_tensor(ROWS[:, :, 0]).shape == (1, 37, 52)


@pytest.mark.parametrize(
    ("mode", "dtype", "shape"),
    [
        ("1", np.float32, (1, 37, 52)),
        ("L", np.float32, (1, 37, 52)),
        ("P", np.float32, (1, 37, 52)),
        ("LA", np.float32, (2, 37, 52)),
        ("RGBA", np.float32, (4, 37, 52)),
        ("CMYK", np.float32, (4, 37, 52)),
        ("I", np.int32, (1, 37, 52)),
        ("F", np.float32, (1, 37, 52)),
    ],
)
def test_to_tensor_of_every_mode(mode, dtype, shape):
    picture = PICTURE.convert(mode)
    made = F.to_tensor(picture)
    assert (made.dtype, made.shape) == (dtype, shape)
    plain = np.asarray(picture.convert("L") if mode == "1" else picture).astype(np.float32)
    scale = 1 if mode in ("I", "F") else 255
    np.testing.assert_array_equal(made, plain.reshape(37, 52, -1).transpose(2, 0, 1) / np.float32(scale))


def test_other_dtypes_keep_their_values():
    for dtype in (np.float64, np.int32, np.uint16):
        rows = ROWS.astype(dtype)
        made = F.to_tensor(rows)
        assert made.dtype == dtype
        np.testing.assert_array_equal(made, rows.transpose(2, 0, 1))


def test_to_tensor_copies():
    rows = ROWS.astype(np.float32)
    made = F.to_tensor(rows)
    made[...] = 0
    assert rows.any()


def test_an_image_goes_to_planes_and_back():
    planes = F.pil_to_tensor(PICTURE)
    assert isinstance(planes, transforms.Image)
    assert planes.shape == (3, 37, 52)
    np.testing.assert_array_equal(np.asarray(F.to_pil_image(planes)), ROWS)
    np.testing.assert_array_equal(np.asarray(F.to_pil_image(ROWS)), ROWS)
    np.testing.assert_array_equal(
        np.asarray(F.to_pil_image(PLANES)), (PLANES * 255).astype(np.uint8).transpose(1, 2, 0)
    )
    again = pickle.loads(pickle.dumps(planes))
    assert isinstance(again, transforms.Image)
    np.testing.assert_array_equal(again, planes)


@pytest.mark.parametrize(
    ("array", "mode"),
    [
        (np.zeros((4, 5), np.uint8), "L"),
        (np.zeros((4, 5), np.int16), "I;16"),
        (np.zeros((4, 5), np.int32), "I"),
        (np.zeros((1, 4, 5), np.float32), "L"),
        (np.zeros((2, 4, 5), np.float32), "LA"),
        (np.zeros((3, 4, 5), np.float32), "RGB"),
        (np.zeros((4, 4, 5), np.float32), "RGBA"),
    ],
)
def test_modes_are_guessed(array, mode):
    made = F.to_pil_image(array)
    assert made.mode == mode
    assert made.size == (5, 4)


def test_a_mode_may_be_given():
    assert F.to_pil_image(np.zeros((3, 4, 5), np.float32), "HSV").mode == "HSV"
    assert F.to_pil_image(np.full((4, 5), 0.5, np.float32), "F").getpixel((0, 0)) == 0.5
    with pytest.raises(ValueError, match="'RGBA' does not fit an image of 3 channels"):
        F.to_pil_image(np.zeros((3, 4, 5), np.float32), "RGBA")


@pytest.mark.parametrize("function", [F.hflip, F.autocontrast, lambda image: F.resize(image, 9)])
def test_the_result_has_the_kind_of_the_image(function):
    assert function(PICTURE).mode == "RGB"
    assert function(ROWS).shape[-1] == 3
    assert function(ROWS).dtype == np.uint8
    assert isinstance(function(F.pil_to_tensor(PICTURE)), transforms.Image)
    assert function(PLANES).shape[0] == 3
    assert type(function(PLANES)) is np.ndarray
    assert function(ROWS[:, :, 0]).ndim == 2
    assert function(PLANES[0]).ndim == 2
    assert function(np.stack([PLANES, PLANES])).shape[:2] == (2, 3)


def test_a_palette_is_kept():
    indexed = PICTURE.convert("P")
    padded = F.pad(indexed, 2)
    assert padded.mode == "P"
    assert padded.getpalette() == indexed.getpalette()


def test_floating_values_of_rows_are_planes():
    assert F.convert_image_dtype(ROWS, np.float32).shape == (3, 37, 52)


def test_another_type_can_be_registered():
    class Boxed:
        def __init__(self, planes, place="here"):
            self.planes, self.place, self.shape = planes, place, planes.shape

    transforms.register_image_type(Boxed, lambda one: one.planes, lambda planes, one: Boxed(planes, one.place))
    made = F.hflip(Boxed(PLANES, "there"))
    assert made.place == "there"
    np.testing.assert_array_equal(made.planes, PLANES[..., ::-1])
    assert v2.CenterCrop(4)(Boxed(PLANES), 3)[0].planes.shape == (3, 4, 4)


@pytest.mark.parametrize("image", [3, "image", [[1, 2]], None])
def test_other_values_are_refused(image):
    with pytest.raises(TypeError, match="transforms take PIL images and arrays"):
        F.hflip(image)


# Sizes


@pytest.mark.parametrize("mode", [InterpolationMode.BILINEAR, InterpolationMode.BICUBIC])
@pytest.mark.parametrize("size", [(16, 20), (64, 100), (70, 30), (37, 9), (1, 1), (100, 52)])
def test_resizing_rows_is_pillows_bit_for_bit(mode, size):
    number = {InterpolationMode.BILINEAR: 2, InterpolationMode.BICUBIC: 3}[mode]
    expected = np.asarray(PICTURE.resize(size[::-1], number))
    np.testing.assert_array_equal(F.resize(ROWS, size, mode), expected)
    np.testing.assert_array_equal(np.asarray(F.resize(PICTURE, size, mode)), expected)


def test_resizing_to_a_wider_and_lower_image_is_pillows_within_one():
    # Older versions of Pillow begin with the rows, newer ones with the columns; both round in between.
    expected = np.asarray(PICTURE.resize((70, 30), 2)).astype(int)
    assert np.abs(F.resize(ROWS, (30, 70)).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("mode", [InterpolationMode.BILINEAR, InterpolationMode.BICUBIC])
@pytest.mark.parametrize("size", [(16, 20), (64, 100)])
def test_resizing_floating_planes_is_pillows_mode_f(mode, size):
    number = {InterpolationMode.BILINEAR: 2, InterpolationMode.BICUBIC: 3}[mode]
    expected = [np.asarray(PILImage.fromarray(plane).resize(size[::-1], number)) for plane in PLANES]
    made = F.resize(PLANES, size, mode)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, atol=1e-6)


def test_nearest_exact_is_pillows_nearest():
    for size in ((16, 20), (64, 101)):
        made = F.resize(ROWS, size, "nearest-exact")
        np.testing.assert_array_equal(made, np.asarray(PICTURE.resize(size[::-1], 0)))


def test_nearest_takes_the_pixel_at_the_cut_quotient():
    made = F.resize(ROWS, (10, 20), "nearest")
    down, right = np.arange(10) * 37 // 10, np.arange(20) * 52 // 20
    np.testing.assert_array_equal(made, ROWS[down[:, None], right])


def test_without_antialiasing_two_neighbours_are_mixed():
    made = F.resize(PLANES, (37, 20), antialias=False)
    position = np.maximum((np.arange(20) + 0.5) * 52 / 20 - 0.5, 0)
    left = np.floor(position).astype(int)
    share = position - left
    expected = PLANES[..., left] * (1 - share) + PLANES[..., np.minimum(left + 1, 51)] * share
    np.testing.assert_allclose(made, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "max_size", "expected"),
    [
        (20, None, (20, 28)),
        ([20], None, (20, 28)),
        (20, 25, (17, 25)),
        (None, 26, (18, 26)),
        ((5, 6), None, (5, 6)),
    ],
)
def test_the_shorter_side_is_given(size, max_size, expected):
    assert F.resize(ROWS, size, max_size=max_size).shape[:2] == expected
    assert F.resize(ROWS.transpose(1, 0, 2), size, max_size=max_size).shape[:2] == (
        expected if expected == (5, 6) else expected[::-1]
    )


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="max_size must be greater"):
        F.resize(ROWS, 20, max_size=20)
    with pytest.raises(ValueError, match="sizes must be positive"):
        F.resize(ROWS, 0)
    with pytest.raises(ValueError, match="'lanczos' is for PIL images"):
        F.resize(ROWS, 9, InterpolationMode.LANCZOS)
    with pytest.raises(ValueError, match="interpolation must be"):
        F.resize(ROWS, 9, "cubic")
    assert F.resize(PICTURE, 9, InterpolationMode.LANCZOS).size == (12, 9)


def test_the_same_size_is_the_same_image():
    assert F.resize(ROWS, (37, 52)) is ROWS


def test_dimensions():
    assert F.get_dimensions(PICTURE) == F.get_dimensions(ROWS) == F.get_dimensions(PLANES) == [3, 37, 52]
    assert F.get_image_size(ROWS) == [52, 37]
    assert F.get_image_num_channels(ROWS[:, :, 0]) == 1


# Windows


def same(function, expected):
    """Asserts that a function of rows (H, W, C) gives the same on all kinds of images."""
    np.testing.assert_array_equal(function(ROWS), expected)
    np.testing.assert_array_equal(np.asarray(function(PICTURE)), expected)
    np.testing.assert_array_equal(function(PLANES), (expected.transpose(2, 0, 1) / 255).astype(np.float32))


def test_flips():
    same(F.hflip, ROWS[:, ::-1])
    same(F.vflip, ROWS[::-1])


def test_a_window_outside_is_black():
    expected = np.zeros((40, 10, 3), np.uint8)
    expected[2:39, :4] = ROWS[:, 48:]
    same(lambda image: F.crop(image, -2, 48, 40, 10), expected)
    same(lambda image: F.crop(image, 100, 100, 2, 3), np.zeros((2, 3, 3), np.uint8))


def test_the_center():
    same(lambda image: F.center_crop(image, 20), ROWS[8:28, 16:36])
    # 37 - 20 is odd: 8.5 is rounded to the even 8, as Python does.
    expected = np.zeros((41, 33, 3), np.uint8)
    expected[2:39] = ROWS[:, 10:43]
    same(lambda image: F.center_crop(image, (41, 33)), expected)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_padding_is_numpys(mode):
    for given, (left, top, right, bottom) in ((3, (3,) * 4), ((3, 5), (3, 5, 3, 5)), ((1, 2, 3, 4), (1, 2, 3, 4))):
        expected = np.pad(ROWS, [(top, bottom), (left, right), (0, 0)], mode=mode)
        same(lambda image, padding=given: F.pad(image, padding, padding_mode=mode), expected)


def test_padding_has_a_color():
    made = F.pad(ROWS, (1, 0), fill=(1, 2, 3))
    assert made[5, 0].tolist() == [1, 2, 3]
    assert np.asarray(F.pad(PICTURE, (1, 0), fill=(1, 2, 3)))[5, -1].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="one for each of the 3 channels"):
        F.pad(ROWS, 1, fill=(1, 2))
    with pytest.raises(ValueError, match="padding must be"):
        F.pad(ROWS, (1, 2, 3))
    with pytest.raises(ValueError, match="padding_mode"):
        F.pad(ROWS, 1, padding_mode="wrap")


def test_five_and_ten_windows():
    made = F.five_crop(ROWS, (10, 20))
    expected = [ROWS[:10, :20], ROWS[:10, 32:], ROWS[27:, :20], ROWS[27:, 32:], F.center_crop(ROWS, (10, 20))]
    for one, other in zip(made, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    ten = F.ten_crop(ROWS, (10, 20))
    np.testing.assert_array_equal(ten[5], ROWS[:10, ::-1][:, :20])
    with pytest.raises(ValueError, match="five_crop"):
        F.five_crop(ROWS, 40)


def test_erasing():
    made = F.erase(PLANES, 3, 4, 5, 6, np.array([1.0, 2.0, 3.0])[:, None, None])
    assert made[:, 3:8, 4:10].reshape(3, -1).T.tolist() == [[1, 2, 3]] * 30
    assert made[0, 2, 4] == PLANES[0, 2, 4]
    planes = PLANES.copy()
    assert F.erase(planes, 0, 0, 1, 1, 9.0, inplace=True) is planes
    assert planes[0, 0, 0] == 9


# Colors


def test_brightness_contrast_and_saturation_blend():
    wide = PLANES.astype(np.float64)
    gray = 0.2989 * wide[0] + 0.587 * wide[1] + 0.114 * wide[2]
    for factor in (0.0, 0.4, 1.0, 1.7):
        for function, other in (
            (F.adjust_brightness, 0.0),
            (F.adjust_contrast, gray.mean()),
            (F.adjust_saturation, gray),
        ):
            expected = np.clip(factor * wide + (1 - factor) * other, 0, 1)
            np.testing.assert_allclose(function(PLANES, factor), expected, atol=1e-6)


def test_integers_are_cut_as_by_pytorch():
    gray = (0.2989 * ROWS[..., 0] + 0.587 * ROWS[..., 1] + 0.114 * ROWS[..., 2]).astype(np.uint8)
    np.testing.assert_array_equal(F.rgb_to_grayscale(ROWS)[..., 0], gray)
    np.testing.assert_array_equal(F.adjust_brightness(ROWS, 0.5), ROWS // 2)
    expected = np.clip(1.5 * ROWS - 0.5 * gray[..., None], 0, 255).astype(np.uint8)
    assert np.abs(F.adjust_saturation(ROWS, 1.5).astype(int) - expected).max() <= 1


def test_pictures_change_by_pillow():
    from PIL import ImageEnhance

    for function, name in (
        (F.adjust_brightness, "Brightness"),
        (F.adjust_contrast, "Contrast"),
        (F.adjust_saturation, "Color"),
        (F.adjust_sharpness, "Sharpness"),
    ):
        expected = getattr(ImageEnhance, name)(PICTURE).enhance(1.3)
        np.testing.assert_array_equal(np.asarray(function(PICTURE, 1.3)), np.asarray(expected))


def test_hue_is_colorsys():
    import colorsys

    made = F.adjust_hue(PLANES, 0.2)
    for row, column in ((0, 0), (5, 7), (36, 51), (10, 10)):
        hue, saturation, value = colorsys.rgb_to_hsv(*PLANES[:, row, column].tolist())
        expected = colorsys.hsv_to_rgb((hue + 0.2) % 1, saturation, value)
        np.testing.assert_allclose(made[:, row, column], expected, atol=1e-6)
    np.testing.assert_allclose(F.adjust_hue(PLANES, 0.0), PLANES, atol=1e-6)
    gray = np.full((3, 2, 2), 0.5, np.float32)
    np.testing.assert_array_equal(F.adjust_hue(gray, 0.4), gray)


def test_gamma():
    np.testing.assert_allclose(F.adjust_gamma(PLANES, 2.0, 0.5), 0.5 * PLANES**2, atol=1e-6)


def test_other_changes_of_color():
    np.testing.assert_array_equal(F.invert(ROWS), 255 - ROWS)
    np.testing.assert_array_equal(F.posterize(ROWS, 3), ROWS & 0b11100000)
    np.testing.assert_array_equal(F.solarize(ROWS, 100), np.where(ROWS >= 100, 255 - ROWS, ROWS))
    flat = np.full((4, 4, 3), 7, np.uint8)
    np.testing.assert_array_equal(F.autocontrast(flat), flat)
    dark = ROWS // 4
    made = F.autocontrast(dark)
    assert made.min() == 0
    # 255 times a quotient in float32 may be cut to 254.
    assert made.max() >= 254


def test_equalize_is_pillows():
    from PIL import ImageOps

    dark = (ROWS // 3 + 20).astype(np.uint8)
    expected = np.asarray(ImageOps.equalize(PILImage.fromarray(dark)))
    np.testing.assert_array_equal(F.equalize(dark), expected)


@pytest.mark.parametrize(
    ("before", "after", "value", "expected"),
    [
        (np.uint8, np.float32, 255, 1.0),
        (np.uint8, np.int16, 3, 3 * 128),
        (np.int16, np.uint8, 3 * 128 + 5, 3),
        (np.float32, np.uint8, 1.0, 255),
        (np.float32, np.uint8, 0.5, 127),
        (np.float64, np.int32, 1.0, 2**31 - 1),
    ],
)
def test_white_stays_white(before, after, value, expected):
    made = F.convert_image_dtype(np.full((1, 2, 2), value, before).view(transforms.Image), after)
    assert made.dtype == after
    assert made.ravel()[0] == expected


def test_a_lossy_conversion_is_refused():
    with pytest.raises(ValueError, match="without loss"):
        F.convert_image_dtype(PLANES, np.int32)


def test_normalize():
    made = F.normalize(PLANES, [0.1, 0.2, 0.3], [0.5, 0.25, 2.0])
    mean, std = np.array([0.1, 0.2, 0.3])[:, None, None], np.array([0.5, 0.25, 2.0])[:, None, None]
    np.testing.assert_allclose(made, (PLANES - mean) / std, rtol=1e-6, atol=1e-6)
    assert made.dtype == np.float32
    np.testing.assert_allclose(F.normalize(PLANES, 0.5, 0.5), PLANES * 2 - 1, atol=1e-6)
    for image in (PICTURE, ROWS):
        with pytest.raises(TypeError, match="ToTensor"):
            F.normalize(image, 0.5, 0.5)
    with pytest.raises(ValueError, match="std is 0"):
        F.normalize(PLANES, 0.5, 0.0)
    with pytest.raises(ValueError, match="mean has 2 values, the image 3 channels"):
        F.normalize(PLANES, [0.5, 0.5], 0.5)


# Maps


def test_a_quarter_turn_is_exact():
    same(lambda image: F.rotate(image, 90, expand=True), np.rot90(ROWS))
    same(lambda image: F.rotate(image, 180), ROWS[::-1, ::-1])
    same(lambda image: F.rotate(image, -90, expand=True), np.rot90(ROWS, -1))


def test_a_turn_reads_pixels_backwards():
    angle = 30.0
    made = F.rotate(PLANES, angle, InterpolationMode.NEAREST, fill=0.5)
    turn = math.radians(angle)
    for row, column in ((18, 26), (10, 30), (25, 20), (30, 40)):
        x, y = column - 25.5, row - 18.0
        at_x, at_y = math.cos(turn) * x - math.sin(turn) * y + 25.5, math.sin(turn) * x + math.cos(turn) * y + 18.0
        np.testing.assert_array_equal(made[:, row, column], PLANES[:, round(at_y), round(at_x)])
    assert made[:, 0, 0].tolist() == [0.5] * 3


def test_turned_pictures_and_arrays_agree():
    smooth = np.add.outer(np.arange(60), np.arange(80)).astype(np.uint8)[:, :, None].repeat(3, 2)
    picture = PILImage.fromarray(smooth)
    for function in (
        lambda image: F.rotate(image, 25, "bilinear"),
        lambda image: F.affine(image, 10, (3, -2), 1.2, (5.0, 3.0), "bilinear"),
    ):
        close = np.abs(np.asarray(function(picture)).astype(int) - function(smooth).astype(int)) <= 2
        assert close[5:-5, 5:-5].mean() > 0.97


def test_an_identical_map_changes_nothing():
    for mode in ("nearest", "bilinear"):
        np.testing.assert_allclose(F.affine(PLANES, 0, (0, 0), 1.0, (0.0, 0.0), mode), PLANES, atol=1e-6)
        corners = [[0, 0], [51, 0], [51, 36], [0, 36]]
        np.testing.assert_allclose(F.perspective(PLANES, corners, corners, mode), PLANES, atol=1e-4)


def test_a_translation_moves_pixels():
    made = F.affine(ROWS, 0, (4, 3), 1.0, 0.0, fill=9)
    np.testing.assert_array_equal(made[3:, 4:], ROWS[:-3, :-4])
    assert (made[:3] == 9).all()


def test_bicubic_maps_of_arrays_are_refused():
    with pytest.raises(ValueError, match="nearest or bilinear"):
        F.rotate(ROWS, 10, "bicubic")


def test_gaussian_blur_is_a_sum_over_the_kernel():
    made = F.gaussian_blur(PLANES, [5, 3], [1.0, 0.7])
    kernels = [np.exp(-0.5 * ((np.arange(n) - n // 2) / sigma) ** 2) for n, sigma in ((3, 0.7), (5, 1.0))]
    kernel = np.outer(*(one / one.sum() for one in kernels))
    padded = np.pad(PLANES, [(0, 0), (1, 1), (2, 2)], mode="reflect")
    for row, column in ((0, 0), (18, 20), (36, 51)):
        expected = (padded[:, row : row + 3, column : column + 5] * kernel).sum(axis=(1, 2))
        np.testing.assert_allclose(made[:, row, column], expected, atol=1e-6)
    assert np.asarray(F.gaussian_blur(PICTURE, 3)).dtype == np.uint8
    with pytest.raises(ValueError, match="odd"):
        F.gaussian_blur(PLANES, 4)


# Random transforms


def test_flips_compare_a_draw_with_p(scripted):
    source = scripted(0.49, 0.5)
    flip = transforms.RandomHorizontalFlip()
    np.testing.assert_array_equal(flip(ROWS), ROWS[:, ::-1])
    np.testing.assert_array_equal(flip(ROWS), ROWS)
    assert source.calls == [("chance",)] * 2
    with pytest.raises(ValueError, match="p must be in"):
        transforms.RandomVerticalFlip(1.5)


def test_a_random_window_draws_top_and_left(scripted):
    source = scripted(3, 5)
    np.testing.assert_array_equal(transforms.RandomCrop((20, 30))(ROWS), ROWS[3:23, 5:35])
    assert source.calls == [("integer", 0, 18), ("integer", 0, 23)]
    source = scripted()
    np.testing.assert_array_equal(transforms.RandomCrop((37, 52))(ROWS), ROWS)
    source = scripted(0, 0)
    assert transforms.RandomCrop(37, padding=4)(ROWS).tolist() == F.pad(ROWS, 4)[:37, :37].tolist()
    source = scripted(0, 0)
    assert transforms.RandomCrop(60, pad_if_needed=True)(ROWS).shape == (60, 60, 3)
    assert source.calls == [("integer", 0, 24), ("integer", 0, 9)]
    with pytest.raises(ValueError, match="larger than the image"):
        transforms.RandomCrop(60)(ROWS)


def test_a_resized_window_draws_area_ratio_and_position(scripted):
    source = scripted(0.5, 0.0, 2, 3)
    made = transforms.RandomResizedCrop(16)(ROWS)
    side = round(math.sqrt(0.5 * 37 * 52))
    np.testing.assert_array_equal(made, F.resize(ROWS[2 : 2 + side, 3 : 3 + side], (16, 16)))
    bounds = (math.log(3 / 4), math.log(4 / 3))
    assert source.calls == [("uniform", 0.08, 1.0), ("uniform", *bounds), ("integer", 0, 7), ("integer", 0, 22)]


def test_a_window_that_never_fits_is_central(scripted):
    scripted(*[3.0, 0.0] * 10)
    made = transforms.RandomResizedCrop.get_params(ROWS, (2.0, 3.0), (3 / 4, 4 / 3))
    assert made == (0, 1, 37, 49)


def test_jitter_applies_factors_in_the_drawn_order(scripted):
    source = scripted([2, 0, 3, 1], 1.3, 0.8, 1.1, -0.05)
    made = transforms.ColorJitter(0.4, 0.5, 0.2, 0.1)(PLANES)
    expected = F.adjust_brightness(F.adjust_saturation(PLANES, 1.1), 1.3)
    expected = F.adjust_contrast(F.adjust_hue(expected, -0.05), 0.8)
    np.testing.assert_array_equal(made, expected)
    assert source.calls[0] == ("permutation", 4)
    bounds = [call[1:] for call in source.calls[1:]]
    np.testing.assert_allclose(bounds, [(0.6, 1.4), (0.5, 1.5), (0.8, 1.2), (-0.1, 0.1)])
    assert transforms.ColorJitter().brightness is None
    with pytest.raises(ValueError, match="hue"):
        transforms.ColorJitter(hue=0.6)
    with pytest.raises(ValueError, match="at least 0"):
        transforms.ColorJitter(-1)


def test_rotation_and_affine_draws(scripted):
    source = scripted(12.0)
    np.testing.assert_array_equal(transforms.RandomRotation(20)(ROWS), F.rotate(ROWS, 12.0, fill=[0.0] * 3))
    assert source.calls == [("uniform", -20.0, 20.0)]
    source = scripted(5.0, 2.6, -1.4, 1.1, 3.0)
    made = transforms.RandomAffine(10, (0.1, 0.2), (0.9, 1.2), 8)(ROWS)
    np.testing.assert_array_equal(made, F.affine(ROWS, 5.0, (3, -1), 1.1, (3.0, 0.0), fill=[0.0] * 3))
    assert source.calls[1:3] == [("uniform", -5.2, 5.2), ("uniform", -7.4, 7.4)]


def test_erasing_draws_area_ratio_and_position(scripted):
    source = scripted(0.1, 0.25, 0.0, 1, 2)
    made = transforms.RandomErasing(value=0.25)(PLANES)
    side = round(math.sqrt(0.25 * 37 * 52))
    expected = PLANES.copy()
    expected[:, 1 : 1 + side, 2 : 2 + side] = 0.25
    np.testing.assert_array_equal(made, expected)
    assert source.calls[1] == ("uniform", 0.02, 0.33)
    scripted(0.9)
    assert transforms.RandomErasing()(PLANES) is PLANES
    noise = np.ones((3, side, side), np.float32)
    source = scripted(0.1, 0.25, 0.0, noise, 1, 2)
    assert transforms.RandomErasing(value="random")(PLANES)[0, 1, 2] == 1
    assert source.calls[3] == ("normal", (3, side, side))


def test_rand_augment_draws_changes_and_signs(scripted):
    # The changes 5 and 10 of the list are Rotate and Posterize; bin 9 of 31 is a turn by 9 degrees, and 7 bits.
    source = scripted(5, 1, 10)
    made = transforms.RandAugment()(ROWS)
    np.testing.assert_array_equal(made, F.posterize(F.rotate(ROWS, -9.0), 7))
    assert source.calls == [("integer", 0, 14), ("integer", 0, 2), ("integer", 0, 14)]
    source = scripted(3, 0.6)
    made = v2.RandAugment(num_ops=1, magnitude=30, fill=3)(ROWS)
    np.testing.assert_array_equal(made, F.affine(ROWS, 0, (23, 0), 1.0, 0.0, fill=3))
    assert source.calls == [("integer", 0, 14), ("chance",)]
    with pytest.raises(ValueError, match="magnitude must be in"):
        transforms.RandAugment(magnitude=31)


def test_trivial_augment_draws_the_strength_too(scripted):
    # Solarize has no sign; bin 15 of 31 is half of white.
    source = scripted(11, 15)
    np.testing.assert_array_equal(transforms.TrivialAugmentWide()(ROWS), F.solarize(ROWS, 127.5))
    assert source.calls == [("integer", 0, 14), ("integer", 0, 31)]
    scripted(0)
    assert transforms.TrivialAugmentWide()(ROWS) is ROWS
    scripted(1, 30, 0)
    angle = math.degrees(math.atan(np.float32(0.99)))
    expected = F.affine(ROWS, 0, (0, 0), 1.0, (angle, 0.0), center=(0, 0))
    np.testing.assert_array_equal(transforms.TrivialAugmentWide()(ROWS), expected)


def test_lists_of_transforms(scripted):
    flip, crop = transforms.RandomHorizontalFlip(1.0), transforms.CenterCrop(10)
    scripted(0.5, 0.0)
    assert transforms.RandomApply([flip, crop], 0.5)(ROWS).shape == (10, 10, 3)
    scripted(0.51)
    assert transforms.RandomApply([flip, crop], 0.5)(ROWS) is ROWS
    random.seed(1)
    expected = random.choices([10, 20], weights=[1, 3])[0]
    random.seed(1)
    choice = transforms.RandomChoice([transforms.CenterCrop(10), transforms.CenterCrop(20)], [1, 3])
    assert choice(ROWS).shape[0] == expected
    random.seed(3)
    assert transforms.RandomOrder([transforms.CenterCrop(10), transforms.CenterCrop(20)])(ROWS).shape[0] in (10, 20)
    for kind in (transforms.Compose, transforms.RandomApply, transforms.RandomChoice):
        with pytest.raises(TypeError, match="takes a sequence of transforms"):
            kind(3)
        with pytest.raises(TypeError, match="takes a sequence of transforms"):
            kind(["flip"])


def test_numpys_seed_decides():
    jitter = transforms.Compose([transforms.RandomResizedCrop(16), transforms.ColorJitter(0.5, 0.5, 0.5, 0.2)])
    made = []
    for seed in (1, 1, 2):
        np.random.seed(seed)
        made.append(jitter(ROWS))
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()


def test_a_loader_gives_the_same_batches_with_workers():
    prepare = transforms.Compose([transforms.RandomCrop(8), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    samples = [(RNG.integers(0, 256, (12, 12, 3), dtype=np.uint8), number) for number in range(6)]
    batches = [
        [x for x, _ in DataLoader(samples, 2, transforms=prepare, seed=3, num_workers=workers)] for workers in (0, 1)
    ]
    assert batches[0][0].shape == (2, 3, 8, 8)
    for one, other in zip(*batches, strict=True):
        np.testing.assert_array_equal(one, other)


EVERY = [
    transforms.CenterCrop(9),
    transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
    transforms.GaussianBlur(3),
    transforms.Grayscale(3),
    transforms.Pad(2),
    transforms.RandAugment(),
    transforms.RandomAdjustSharpness(2.0),
    transforms.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10),
    transforms.RandomAutocontrast(),
    transforms.RandomCrop(20),
    transforms.RandomEqualize(),
    transforms.RandomGrayscale(),
    transforms.RandomHorizontalFlip(),
    transforms.RandomInvert(),
    transforms.RandomPerspective(p=1.0),
    transforms.RandomPosterize(3),
    transforms.RandomResizedCrop(16),
    transforms.RandomRotation(30),
    transforms.RandomSolarize(128),
    transforms.RandomVerticalFlip(),
    transforms.Resize(16),
    transforms.TrivialAugmentWide(),
]


@pytest.mark.parametrize("transform", EVERY, ids=lambda one: type(one).__name__)
def test_every_transform_keeps_kind_and_pickles(transform):
    again = pickle.loads(pickle.dumps(transform))
    assert repr(again) == repr(transform)
    for image in (ROWS, PICTURE, F.pil_to_tensor(PICTURE)):
        np.random.seed(0)
        made = transform(image)
        np.random.seed(0)
        repeated = again(image)
        assert type(made) in (type(image), PILImage.Image)
        np.testing.assert_array_equal(np.asarray(made), np.asarray(repeated))
    assert F.get_dimensions(transform(PICTURE)) == F.get_dimensions(transform(ROWS))


def test_linear_transformation():
    matrix = RNG.normal(size=(12, 12)).astype(np.float32)
    mean = RNG.normal(size=12).astype(np.float32)
    image = RNG.normal(size=(3, 2, 2)).astype(np.float32)
    made = transforms.LinearTransformation(matrix, mean)(image)
    np.testing.assert_allclose(made.ravel(), (image.ravel() - mean) @ matrix, rtol=1e-5)
    with pytest.raises(ValueError, match="the matrix 12 rows"):
        transforms.LinearTransformation(matrix, mean)(PLANES)


def test_texts():
    prepare = transforms.Compose([transforms.Resize(3), transforms.RandomCrop(2), transforms.ToTensor()])
    assert repr(prepare).splitlines() == [
        "Compose(",
        "    Resize(size=3, interpolation=bilinear, max_size=None, antialias=True)",
        "    RandomCrop(size=(2, 2), padding=None)",
        "    ToTensor()",
        ")",
    ]
    assert repr(transforms.RandomAffine(3)) == "RandomAffine(degrees=[-3.0, 3.0])"
    text = "size=(4, 4), scale=(0.08, 1.0), ratio=(0.75, 1.3333), interpolation=bilinear, antialias=True"
    assert repr(transforms.RandomResizedCrop(4)) == f"RandomResizedCrop({text})"


# v2


def test_a_sample_changes_with_one_draw(scripted):
    source = scripted(0.1)
    sample = {"image": PICTURE, "mask": PILImage.fromarray(ROWS[:, :, 0])}
    made, numbers, name = v2.RandomHorizontalFlip()(sample, [1, 2], "cat")
    np.testing.assert_array_equal(np.asarray(made["image"]), ROWS[:, ::-1])
    np.testing.assert_array_equal(np.asarray(made["mask"]), ROWS[:, ::-1, 0])
    assert (numbers, name) == ([1, 2], "cat")
    assert source.calls == [("chance",)]


def test_only_the_first_plain_array_changes():
    boxes = np.arange(8.0).reshape(2, 4)
    made, same_boxes, label = v2.CenterCrop(4)(PLANES, boxes, 7)
    assert made.shape == (3, 4, 4)
    assert same_boxes is boxes
    assert label == 7
    assert v2.CenterCrop(4)(3) == 3


def test_a_pipeline_of_version_2():
    prepare = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((16, 20), antialias=True),
            v2.RandomHorizontalFlip(0.0),
            v2.ToDtype(np.float32, scale=True),
            v2.Normalize([0.5], [0.5]),
        ]
    )
    made, label = prepare(PICTURE, 3)
    expected = F.normalize(F.to_tensor(F.resize(ROWS, (16, 20))), [0.5], [0.5])
    np.testing.assert_allclose(made, expected, atol=1e-6)
    assert label == 3


def test_to_dtype_scales_if_asked():
    image = v2.ToImage()(ROWS)
    assert v2.ToDtype(np.float32)(image).max() == 255
    assert v2.ToDtype(np.float32, scale=True)(image).max() == 1
    assert v2.ToDtype(np.float32)(PICTURE) is PICTURE
    assert type(v2.ToPureTensor()(image)) is np.ndarray


def test_a_window_of_version_2_draws_where_there_is_a_choice(scripted):
    source = scripted(4)
    np.testing.assert_array_equal(v2.RandomCrop((37, 30))(ROWS), ROWS[:, 4:34])
    assert source.calls == [("integer", 0, 23)]


def test_lists_of_version_2(scripted):
    source = scripted(1)
    choice = v2.RandomChoice([v2.CenterCrop(10), v2.CenterCrop(20)], p=[1.0, 3.0])
    assert choice(ROWS, 5)[0].shape == (20, 20, 3)
    assert source.calls == [("weighted", (0.25, 0.75))]
    scripted(0.5)
    assert v2.RandomApply([v2.CenterCrop(10)], 0.5)(ROWS, 5)[0] is ROWS
    scripted([1, 0])
    assert v2.RandomOrder([v2.CenterCrop(10), v2.CenterCrop(20)])(ROWS).shape == (10, 10, 3)
    assert v2.Lambda(lambda number: number + 1, int)(ROWS, 5)[1] == 6
    assert v2.Identity()(3, 4) == (3, 4)


def test_channels_of_version_2(scripted):
    scripted([2, 0, 1])
    np.testing.assert_array_equal(v2.RandomChannelPermutation()(ROWS), ROWS[:, :, [2, 0, 1]])
    gray = ROWS[:, :, 0]
    np.testing.assert_array_equal(np.asarray(v2.RGB()(PILImage.fromarray(gray))), np.stack([gray] * 3, 2))
    scripted(np.ones((3, 37, 52), np.float32))
    np.testing.assert_allclose(v2.GaussianNoise(0.1, 0.2)(PLANES), np.clip(PLANES + 0.3, 0, 1), atol=1e-6)
    scripted(11)
    assert v2.RandomResize(10, 20)(ROWS).shape[0] == 11


def test_a_class_statement_has_the_function_of_a_transform():
    class Darker(transforms.Transform, by=F.adjust_brightness, given=("factor",), shown=("factor",)):
        def __init__(self, factor):
            self.factor = factor

    assert repr(Darker(0.5)) == "Darker(factor=0.5)"
    assert Darker(0.5)(np.full((2, 2), 100, np.uint8)).tolist() == [[50, 50], [50, 50]]
    with pytest.raises(TypeError, match="no keyword arguments"):
        type("Wrong", (transforms.Transform,), {}, shows=("factor",))
