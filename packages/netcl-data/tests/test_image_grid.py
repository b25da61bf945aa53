"""Grids of images and the files written of them."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image as PILImage

from netcl.data import make_grid, save_image
from netcl.data.image_grid import png

IMAGES = np.random.default_rng(0).random((5, 3, 4, 6)).astype(np.float32)


def test_images_are_set_in_rows():
    grid = make_grid(IMAGES, nrow=3, padding=1, pad_value=0.5)
    assert grid.shape == (3, 2 * 5 + 1, 3 * 7 + 1)
    np.testing.assert_array_equal(grid[:, 1:5, 1:7], IMAGES[0])
    np.testing.assert_array_equal(grid[:, 6:10, 8:14], IMAGES[4])
    np.testing.assert_array_equal(grid[:, 6:10, 15:21], np.full((3, 4, 6), 0.5, np.float32))
    assert (grid[:, 0] == 0.5).all()


def test_one_channel_becomes_three_and_one_image_has_no_border():
    gray = IMAGES[:, :1]
    assert make_grid(gray).shape == (3, 8, 42)
    assert make_grid(gray[0]).shape == (3, 4, 6)
    assert make_grid(gray[0, 0]).shape == (3, 4, 6)
    np.testing.assert_array_equal(make_grid(list(IMAGES)), make_grid(IMAGES))
    np.testing.assert_array_equal(make_grid(IMAGES[:1]), IMAGES[0])


def test_values_are_stretched():
    wide = IMAGES * 10 - 3
    low, high = wide.min(), wide.max()
    np.testing.assert_allclose(
        make_grid(wide, normalize=True, padding=0, nrow=5)[:, :, :6], (wide[0] - low) / (high - low), atol=1e-6
    )
    one = wide[1]
    made = make_grid(wide, normalize=True, scale_each=True, padding=0, nrow=5)[:, :, 6:12]
    np.testing.assert_allclose(made, (one - one.min()) / (one.max() - one.min()), atol=1e-6)
    made = make_grid(wide, normalize=True, value_range=(0.0, 2.0), padding=0, nrow=5)[:, :, :6]
    np.testing.assert_allclose(made, np.clip(wide[0], 0, 2) / 2, atol=1e-6)
    assert make_grid(np.zeros((2, 3, 2, 2), np.float32), normalize=True).max() == 0
    np.testing.assert_array_equal(wide, IMAGES * 10 - 3)
    with pytest.raises(TypeError, match="value_range"):
        make_grid(wide, normalize=True, value_range=1.0)
    with pytest.raises(ValueError, match="make_grid takes"):
        make_grid(IMAGES[None])


def test_a_file_holds_rounded_values(tmp_path):
    save_image(IMAGES, tmp_path / "grid.png", nrow=3)
    with PILImage.open(tmp_path / "grid.png") as stored:
        rows = np.asarray(stored)
    expected = (make_grid(IMAGES, nrow=3) * np.float32(255) + np.float32(0.5)).astype(np.uint8)
    np.testing.assert_array_equal(rows, expected.transpose(1, 2, 0))
    stream = io.BytesIO()
    save_image(IMAGES[0], stream, format="bmp")
    with PILImage.open(io.BytesIO(stream.getvalue())) as stored:
        assert stored.format == "BMP"
    with pytest.raises(ValueError, match="give format="):
        save_image(IMAGES, io.BytesIO())


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_own_png_files_are_read_by_pillow(channels):
    rows = np.random.default_rng(1).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    with PILImage.open(io.BytesIO(png(rows))) as stored:
        assert stored.mode == {1: "L", 3: "RGB", 4: "RGBA"}[channels]
        np.testing.assert_array_equal(np.asarray(stored).reshape(rows.shape), rows)


def test_png_needs_no_pillow(tmp_path, monkeypatch):
    save_image(IMAGES, tmp_path / "pillow.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    save_image(IMAGES, tmp_path / "own.png")
    with pytest.raises(ImportError, match="pip install netcl-data"):
        save_image(IMAGES, tmp_path / "own.jpg")
    monkeypatch.undo()
    with PILImage.open(tmp_path / "pillow.png") as one, PILImage.open(tmp_path / "own.png") as other:
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
