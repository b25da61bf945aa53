"""The transforms as functions of an image: a PIL image gives a PIL image by Pillow, an array an array in NumPy.

An array is read as ``netcl.data.transforms`` says: integers (H, W) or (H, W, C), floating values and Image (..., C, H,
W). A result has the kind and, if nothing else is said, the dtype of the image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.transforms import color, geometry
from netcl.data.transforms.images import (
    Image,
    array_of,
    as_planes,
    interpolation_mode,
    is_image,
    is_pil,
    pil_filter,
    pillow,
    planes_of,
)
from netcl.data.transforms.images import InterpolationMode as InterpolationMode
from netcl.data.transforms.resampling import resize_planes

Array = npt.NDArray[Any]
Size = int | Sequence[int]


def _pair(size: Size, name: str = "size") -> tuple[int, int]:
    """Returns (height, width) of an int, of one number in a list, or of two."""
    if isinstance(size, (int, np.integer)):
        return int(size), int(size)
    if len(size) not in (1, 2):
        raise ValueError(f"{name} must be an int or a sequence of one or two, got {size!r}")
    return int(size[0]), int(size[-1])


def _changed(img: Any, by_pillow: Callable[[], Any], of_planes: Callable[[Array], Array]) -> Any:
    """Returns a PIL image as Pillow changes it, another image by a function of its planes."""
    if is_pil(img):
        return by_pillow()
    planes = planes_of(img)
    return planes.write(of_planes(planes.array))


# Conversions


def to_tensor(pic: Any) -> Array:
    """Returns a PIL image or an array (H, W) or (H, W, C) as planes (C, H, W): float32 in [0, 1] if it is uint8, else
    the values in their dtype.

    Example:
        >>> to_tensor(np.full((2, 3), 255, np.uint8)).tolist()
        [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]
    """
    if is_pil(pic):
        rows = array_of(pic)
        if pic.mode.startswith("I"):
            rows = rows.astype(np.int32 if pic.mode == "I" else np.int16, copy=False)
    elif isinstance(pic, np.ndarray) and not isinstance(pic, Image):
        rows = pic
    else:
        raise TypeError(f"to_tensor takes a PIL image or an array (H, W, C), got {type(pic).__name__}")
    if rows.ndim not in (2, 3):
        raise ValueError(f"to_tensor takes an image of 2 or 3 dimensions, got {rows.ndim}")
    planes = np.ascontiguousarray(rows[None] if rows.ndim == 2 else rows.transpose(2, 0, 1))
    if planes.dtype == np.uint8:
        # A division, not a multiplication by the reciprocal: 255 becomes exactly 1.
        floats: Array = np.divide(planes, np.float32(255), dtype=np.float32)
        return floats
    return as_planes(planes.copy() if planes.base is not None else planes)


def pil_to_tensor(pic: Any) -> Image:
    """Returns a PIL image as planes (C, H, W) in its own dtype. Raises TypeError for anything else."""
    if not is_pil(pic):
        raise TypeError(f"pil_to_tensor takes a PIL image, got {type(pic).__name__}")
    rows = np.asarray(pic)
    planes = np.array(rows[None] if rows.ndim == 2 else rows.transpose(2, 0, 1), order="C")
    return planes.view(Image)


_MODES: dict[int, tuple[str, ...]] = {
    1: ("L", "I;16", "I", "F"),
    2: ("LA",),
    3: ("RGB", "YCbCr", "HSV"),
    4: ("RGBA", "CMYK", "RGBX"),
}
_MODE_OF = {"uint8": "L", "int16": "I;16", "uint16": "I;16", "int32": "I", "float32": "F"}


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Returns planes (C, H, W) or (H, W), or an array of integers (H, W, C), as a PIL image.

    Floating values in [0, 1] become 0 to 255, cut to an integer, unless ``mode`` is "F". ``mode`` is guessed from the
    number of channels and the dtype: L, I;16, I, LA, RGB or RGBA.

    Raises:
        ValueError: ``pic`` is no single image of 1 to 4 channels, or ``mode`` does not fit.
    """
    if is_pil(pic):
        raise TypeError("to_pil_image takes an array, got a PIL image")
    planes = planes_of(pic).array
    if planes.ndim != 3 or planes.shape[0] not in _MODES:
        raise ValueError(
            f"to_pil_image takes an image of 2 or 3 dimensions with 1 to 4 channels, got planes {planes.shape}"
        )
    if planes.dtype.kind == "f" and mode != "F":
        # As PyTorch's conversion to uint8: the fraction is cut, and values outside of [0, 255] wrap around.
        with np.errstate(invalid="ignore"):
            planes = (planes * planes.dtype.type(255)).astype(np.int64).astype(np.uint8)
    rows = np.ascontiguousarray(planes.transpose(1, 2, 0))
    channels = rows.shape[2]
    if channels == 1:
        rows = rows[:, :, 0]
        fitting = _MODE_OF.get(str(rows.dtype))
        if mode is not None and mode != fitting:
            raise ValueError(f"mode {mode!r} does not fit an image of 1 channel and dtype {rows.dtype}")
        if fitting is None:
            raise TypeError(f"a PIL image of 1 channel has no dtype {rows.dtype}")
        if rows.dtype == np.int16:
            rows = rows.view(np.uint16)
        return pillow("to_pil_image").fromarray(rows)
    if mode is not None and mode not in _MODES[channels]:
        raise ValueError(
            f"mode {mode!r} does not fit an image of {channels} channels: {', '.join(_MODES[channels])} do"
        )
    if rows.dtype != np.uint8:
        raise TypeError(f"a PIL image of {channels} channels is uint8, got {rows.dtype}")
    return pillow("to_pil_image").frombytes(mode or _MODES[channels][0], rows.shape[1::-1], rows.tobytes())


def convert_image_dtype(image: Any, dtype: npt.DTypeLike = np.float32) -> Any:
    """Returns an image of another dtype, scaled so that white stays white: uint8 255 is float32 1.0."""
    planes = planes_of(image)
    if is_pil(image):
        raise TypeError("convert_image_dtype takes an array, got a PIL image: put PILToTensor before it")
    return planes.write(color.convert_dtype(planes.array, dtype))


def normalize(tensor: Any, mean: Sequence[float] | float, std: Sequence[float] | float, inplace: bool = False) -> Any:
    """Returns (x - mean) / std per channel of floating planes (..., C, H, W).

    Raises:
        TypeError: the values are no floating ones. ValueError: fewer than three dimensions, a std of 0, or neither one
            value nor one per channel.
    """
    if is_pil(tensor):
        raise TypeError("normalize takes floating planes, got a PIL image: put ToTensor before it")
    planes = planes_of(tensor)
    array = planes.array
    if array.dtype.kind != "f":
        raise TypeError(f"normalize takes floating values, got {array.dtype}: put ToTensor or ToDtype before it")
    if len(getattr(tensor, "shape", array.shape)) < 3:
        raise ValueError(f"normalize takes planes (..., C, H, W), got shape {tuple(tensor.shape)}")
    values = []
    for name, numbers in (("mean", mean), ("std", std)):
        value = np.atleast_1d(np.asarray(numbers, array.dtype))
        if value.ndim != 1 or len(value) not in (1, array.shape[-3]):
            raise ValueError(f"normalize: {name} has {value.size} values, the image {array.shape[-3]} channels")
        values.append(value[:, None, None])
    if not values[1].all():
        raise ValueError(f"normalize: std is 0 in {array.dtype}, got {std!r}")
    result = (array - values[0]) / values[1]
    if inplace and isinstance(tensor, np.ndarray):
        tensor[...] = result
        return tensor
    return planes.write(result)


# Sizes


def get_dimensions(img: Any) -> list[int]:
    """Returns [channels, height, width]."""
    if is_pil(img):
        return [len(img.getbands()), img.height, img.width]
    return list(planes_of(img).array.shape[-3:])


def get_image_size(img: Any) -> list[int]:
    """Returns [width, height]."""
    _, height, width = get_dimensions(img)
    return [width, height]


def get_image_num_channels(img: Any) -> int:
    """Returns the number of channels."""
    return get_dimensions(img)[0]


def _resized(height: int, width: int, size: Size | None, max_size: int | None) -> tuple[int, int]:
    """Returns the (height, width) that ``resize`` makes."""
    if size is not None and not isinstance(size, (int, np.integer)) and len(size) == 2:
        if max_size is not None:
            raise ValueError(f"resize: max_size needs size to be an int, got {size!r}")
        return int(size[0]), int(size[1])
    short, long = min(height, width), max(height, width)
    if size is None:
        if max_size is None:
            raise ValueError("resize: give size or max_size")
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short = _pair(size)[0]
        new_long = int(new_short * long / short)
        if max_size is not None:
            if max_size <= new_short:
                raise ValueError(f"resize: max_size must be greater than size {size!r}, got {max_size}")
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if height <= width else (new_long, new_short)


def resize(
    img: Any,
    size: Size | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Returns an image of another size: (H, W), or an int for its shorter side; the longer side follows in proportion,
    up to ``max_size``; None makes the longer side ``max_size``.

    Bilinear and bicubic filters widen with the reduction, as Pillow's do, unless ``antialias=False`` for arrays.

    Example:
        >>> resize(np.zeros((40, 20, 3), np.uint8), 10).shape
        (20, 10, 3)
    """
    mode = interpolation_mode(interpolation)
    _, rows, columns = get_dimensions(img)
    height, width = _resized(rows, columns, size, max_size)
    if (height, width) == (rows, columns):
        return img
    return _changed(
        img,
        lambda: img.resize((width, height), pil_filter(mode)),
        lambda x: resize_planes(x, height, width, mode, antialias is not False),
    )


# Windows


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Returns the window of ``height`` x ``width`` pixels at (top, left); pixels outside of the image are 0."""
    return _changed(
        img,
        lambda: img.crop((left, top, left + width, top + height)),
        lambda x: geometry.crop(x, top, left, height, width),
    )


def center_crop(img: Any, output_size: Size) -> Any:
    """Returns the window (H, W) about the center; an image that is smaller is padded with 0."""
    height, width = _pair(output_size, "output_size")
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        more_x, more_y = max(width - columns, 0), max(height - rows, 0)
        img = pad(img, [more_x // 2, more_y // 2, (more_x + 1) // 2, (more_y + 1) // 2])
        _, rows, columns = get_dimensions(img)
    return crop(img, round((rows - height) / 2.0), round((columns - width) / 2.0), height, width)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Size,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """Returns ``resize(crop(img, top, left, height, width), size)``."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def _sides(padding: Size) -> tuple[int, int, int, int]:
    """Returns (left, top, right, bottom) of an int, one, two (left and right, top and bottom) or four numbers."""
    values = [int(padding)] if isinstance(padding, (int, np.integer)) else [int(value) for value in padding]
    if len(values) == 1:
        return values[0], values[0], values[0], values[0]
    if len(values) == 2:
        return values[0], values[1], values[0], values[1]
    if len(values) == 4:
        return values[0], values[1], values[2], values[3]
    raise ValueError(f"padding must be an int or a sequence of 1, 2 or 4 ints, got {padding!r}")


def pad(img: Any, padding: Size, fill: float | Sequence[float] | None = 0, padding_mode: str = "constant") -> Any:
    """Returns an image with rows and columns added: ``padding`` for all sides, (left and right, top and bottom) or
    (left, top, right, bottom).

    ``padding_mode``: "constant" (``fill``, one number or one per channel), "edge", "reflect" (the border is not
    repeated) or "symmetric" (it is).
    """
    left, top, right, bottom = _sides(padding)
    planes = planes_of(img)
    return planes.write(geometry.pad(planes.array, left, top, right, bottom, fill, padding_mode))


def hflip(img: Any) -> Any:
    """Returns an image mirrored left to right."""
    return _changed(img, lambda: img.transpose(0), lambda x: np.ascontiguousarray(x[..., ::-1]))


def vflip(img: Any) -> Any:
    """Returns an image mirrored top to bottom."""
    return _changed(img, lambda: img.transpose(1), lambda x: np.ascontiguousarray(x[..., ::-1, :]))


def five_crop(img: Any, size: Size) -> tuple[Any, Any, Any, Any, Any]:
    """Returns the windows (H, W) at the four corners (top left, top right, bottom left, bottom right) and the center.

    Raises:
        ValueError: the image is smaller.
    """
    height, width = _pair(size)
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        raise ValueError(f"five_crop: windows of {height} x {width} from an image of {rows} x {columns}")
    down, right = rows - height, columns - width
    corners = [crop(img, top, left, height, width) for top in (0, down) for left in (0, right)]
    return corners[0], corners[1], corners[2], corners[3], center_crop(img, [height, width])


def ten_crop(img: Any, size: Size, vertical_flip: bool = False) -> tuple[Any, ...]:
    """Returns ``five_crop`` of the image and of its mirror image, left to right or top to bottom."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """Sets the window of h x w pixels at (i, j) to ``v``, which is broadcast against planes (..., C, h, w)."""
    if is_pil(img):
        raise TypeError("erase takes an array, got a PIL image: put ToTensor before it")
    planes = planes_of(img)
    result = planes.array if inplace and isinstance(img, np.ndarray) else planes.array.copy()
    value = planes_of(v).array if is_image(v) and not isinstance(v, np.ndarray) else np.asarray(v)
    result[..., i : i + h, j : j + w] = value
    return img if inplace and isinstance(img, np.ndarray) else planes.write(result)


# Colors


def _enhanced(img: Any, name: str, factor: float) -> Any:
    from PIL import ImageEnhance

    return getattr(ImageEnhance, name)(img).enhance(factor)


def _factor(name: str, factor: float) -> float:
    if factor < 0:
        raise ValueError(f"{name} takes a factor of at least 0, got {factor}")
    return float(factor)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Multiplies an image by a factor of at least 0: 0 is black, 1 keeps."""
    factor = _factor("adjust_brightness", brightness_factor)
    return _changed(
        img, lambda: _enhanced(img, "Brightness", factor), lambda x: color.blend(x, np.zeros_like(x), factor)
    )


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Moves an image from its mean gray (factor 0) or away from it; 1 keeps."""
    factor = _factor("adjust_contrast", contrast_factor)
    if is_pil(img):
        return _enhanced(img, "Contrast", factor)
    planes = planes_of(img)
    array = planes.array
    work = np.float64 if array.dtype == np.float64 else np.float32
    mean = color.gray(array).astype(work).mean(axis=(-3, -2, -1), keepdims=True)
    return planes.write(color.blend(array, mean, factor))


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Moves an image from its gray version (factor 0) or away from it; 1 keeps. One channel stays."""
    factor = _factor("adjust_saturation", saturation_factor)
    if is_pil(img):
        return _enhanced(img, "Color", factor)
    planes = planes_of(img)
    if planes.array.shape[-3] == 1:
        return img
    return planes.write(color.blend(planes.array, color.gray(planes.array), factor))


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Moves the hue by a factor of [-0.5, 0.5] turns of the color circle; one channel stays."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"adjust_hue takes a factor of [-0.5, 0.5], got {hue_factor}")
    if is_pil(img):
        if img.mode in ("1", "I", "F", "L"):
            return img
        bands = img.convert("HSV").split()
        moved = np.asarray(bands[0]) + np.int32(hue_factor * 255).astype(np.uint8)
        merged = _merge("HSV", (pillow("adjust_hue").fromarray(moved), *bands[1:]))
        return merged.convert(img.mode)
    planes = planes_of(img)
    if planes.array.shape[-3] == 1:
        return img
    if planes.array.shape[-3] != 3:
        raise ValueError(f"adjust_hue takes 1 or 3 channels, got {planes.array.shape[-3]}")
    return planes.write(color.hue(planes.array, float(hue_factor)))


def _merge(mode: str, bands: Sequence[Any]) -> Any:
    return pillow("transforms").merge(mode, bands)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """Returns gain x ** gamma, with white as 1, clipped to [0, white]."""
    if gamma < 0:
        raise ValueError(f"adjust_gamma takes a gamma of at least 0, got {gamma}")
    if is_pil(img):
        plain = img.convert("RGB")
        table = [int((255 + 1 - 1e-3) * gain * pow(value / 255.0, gamma)) for value in range(256)]
        return plain.point(table * 3).convert(img.mode)
    planes = planes_of(img)
    return planes.write(color.gamma(planes.array, float(gamma), float(gain)))


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Blurs (factor 0) or sharpens (2) an image; 1 keeps."""
    factor = _factor("adjust_sharpness", sharpness_factor)
    return _changed(img, lambda: _enhanced(img, "Sharpness", factor), lambda x: color.sharpened(x, factor))


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Returns the luma of an image in one channel, or three equal ones."""
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, got {num_output_channels!r}")
    if is_pil(img):
        made = img.convert("L")
        return made if num_output_channels == 1 else _merge("RGB", (made, made, made))
    planes = planes_of(img)
    made = color.gray(planes.array)
    return planes.write(made.copy() if num_output_channels == 1 else np.repeat(made, 3, axis=-3))


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """See ``rgb_to_grayscale``."""
    return rgb_to_grayscale(img, num_output_channels)


def _imageops(name: str, img: Any, *arguments: Any) -> Any:
    from PIL import ImageOps

    return getattr(ImageOps, name)(img, *arguments)


def invert(img: Any) -> Any:
    """Returns white - x."""
    return _changed(img, lambda: _imageops("invert", img), lambda x: x.dtype.type(color.upper_bound(x.dtype)) - x)


def posterize(img: Any, bits: int) -> Any:
    """Keeps the ``bits`` highest bits of each uint8 value."""
    return _changed(img, lambda: _imageops("posterize", img, bits), lambda x: color.posterize(x, bits))


def solarize(img: Any, threshold: float) -> Any:
    """Inverts all values from ``threshold`` on."""
    return _changed(img, lambda: _imageops("solarize", img, threshold), lambda x: color.solarize(x, threshold))


def autocontrast(img: Any) -> Any:
    """Stretches the values of each channel to [0, white]."""
    return _changed(img, lambda: _imageops("autocontrast", img), color.autocontrast)


def equalize(img: Any) -> Any:
    """Equalizes the histogram of each channel of uint8 values."""
    return _changed(img, lambda: _imageops("equalize", img), color.equalize)


# Maps


def _pil_fill(img: Any, fill: Any) -> Any:
    """Returns a fill value as Pillow takes it for an image: a number for one band, else one per band."""
    bands = len(img.getbands())
    values = [0 if fill is None else fill] if isinstance(fill, (int, float, type(None))) else list(fill)
    if len(values) == 1:
        values = values * bands
    if len(values) != bands:
        raise ValueError(
            f"fill must be one number or one for each of the {bands} bands of mode {img.mode}, got {fill!r}"
        )
    if img.mode != "F":
        values = [int(value) for value in values]
    return values[0] if bands == 1 else tuple(values)


def rotate(
    img: Any,
    angle: float,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: float | Sequence[float] | None = None,
) -> Any:
    """Returns an image turned by ``angle`` degrees, counterclockwise, about ``center`` (x, y), the middle if None.

    ``expand`` makes the image large enough for its corners, and needs ``center=None``. ``fill`` is the value outside,
    0 if None; arrays take nearest and bilinear interpolation.
    """
    mode = interpolation_mode(interpolation)
    if is_pil(img):
        middle = None if center is None else tuple(center)
        return img.rotate(angle, pil_filter(mode), expand, middle, fillcolor=_pil_fill(img, fill))
    planes = planes_of(img)
    height, width = planes.array.shape[-2:]
    if center is None and angle % 180 == 0 or (center is None and angle % 90 == 0 and (expand or height == width)):
        # Without arithmetic, as Pillow: rounding would move the border by a pixel.
        return planes.write(np.ascontiguousarray(np.rot90(planes.array, int(angle // 90), (-2, -1))))
    moved = (0.0, 0.0) if center is None else (center[0] - width * 0.5, center[1] - height * 0.5)
    matrix = geometry.affine_matrix(moved, -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    if expand:
        width, height = geometry.expanded_size(matrix, width, height)
    return planes.write(geometry.warp(planes.array, matrix, (height, width), mode, fill))


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    fill: float | Sequence[float] | None = None,
    center: Sequence[float] | None = None,
) -> Any:
    """Returns an image turned by ``angle`` degrees, clockwise, scaled, sheared by (x, y) degrees, about ``center``, and
    moved by ``translate`` (x, y) pixels. The size stays.
    """
    if len(translate) != 2:
        raise ValueError(f"translate must have two values, got {translate!r}")
    if scale <= 0:
        raise ValueError(f"scale must be positive, got {scale!r}")
    shears = [float(shear), 0.0] if isinstance(shear, (int, float)) else [float(value) for value in shear]
    if len(shears) not in (1, 2):
        raise ValueError(f"shear must be a number or a sequence of one or two, got {shear!r}")
    shears = shears * 2 if len(shears) == 1 else shears
    mode = interpolation_mode(interpolation)
    if is_pil(img):
        middle = (img.width * 0.5, img.height * 0.5) if center is None else tuple(center)
        matrix = geometry.affine_matrix(middle, angle, translate, scale, shears)
        return img.transform(img.size, 0, matrix, pil_filter(mode), fillcolor=_pil_fill(img, fill))
    planes = planes_of(img)
    height, width = planes.array.shape[-2:]
    moved = (0.0, 0.0) if center is None else (center[0] - width * 0.5, center[1] - height * 0.5)
    matrix = geometry.affine_matrix(moved, angle, translate, scale, shears)
    return planes.write(geometry.warp(planes.array, matrix, (height, width), mode, fill))


def perspective(
    img: Any,
    startpoints: Sequence[Sequence[float]],
    endpoints: Sequence[Sequence[float]],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    fill: float | Sequence[float] | None = None,
) -> Any:
    """Returns an image under the projective map that takes four ``startpoints`` (x, y) to the ``endpoints``: top left,
    top right, bottom right, bottom left. The size stays.
    """
    coefficients = geometry.perspective_coefficients(startpoints, endpoints)
    mode = interpolation_mode(interpolation)
    if is_pil(img):
        return img.transform(img.size, 2, coefficients, pil_filter(mode), fillcolor=_pil_fill(img, fill))
    planes = planes_of(img)
    height, width = planes.array.shape[-2:]
    return planes.write(geometry.warp(planes.array, coefficients, (height, width), mode, fill))


def gaussian_blur(img: Any, kernel_size: Size, sigma: float | Sequence[float] | None = None) -> Any:
    """Returns an image convolved with a Gaussian kernel: ``kernel_size`` an odd number, or (columns, rows); ``sigma``
    likewise, by default 0.15 kernel_size + 0.35. The image is mirrored at its border.
    """
    sizes = [kernel_size] * 2 if isinstance(kernel_size, (int, np.integer)) else [int(size) for size in kernel_size]
    if len(sizes) != 2 or any(size < 1 or size % 2 == 0 for size in sizes):
        raise ValueError(f"kernel_size must be one or two odd positive ints, got {kernel_size!r}")
    if sigma is None:
        widths = [size * 0.15 + 0.35 for size in sizes]
    else:
        widths = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else [float(value) for value in sigma]
        widths = widths * 2 if len(widths) == 1 else widths
    if len(widths) != 2 or any(not value > 0 or not math.isfinite(value) for value in widths):
        raise ValueError(f"sigma must be one or two positive numbers, got {sigma!r}")
    planes = planes_of(img)
    blurred = geometry.gaussian_blur(planes.array, (sizes[0], sizes[1]), (widths[0], widths[1]))
    return planes.write(blurred)


__all__ = [
    "InterpolationMode",
    *(name for name, value in globals().items() if getattr(value, "__module__", "") == __name__ and name[0] != "_"),
]
