"""The scale of the inputs of a model, in training and in prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data import DataFileError


def scaled(values: npt.NDArray[Any], about: dict[str, Any]) -> npt.NDArray[Any]:
    """Returns a batch as float32: bytes in [0, 1], then (x - mean) / std per channel if ``about`` has them; whole
    numbers of 32 and 64 bits are ids, and stay.
    """
    mean, std = about.get("mean"), about.get("std")
    if mean is None and values.dtype in (np.int32, np.int64):
        return values
    result = values.astype(np.float32) / 255 if values.dtype == np.uint8 else values.astype(np.float32)
    if mean is not None and std is not None:
        if values.ndim < 2 or len(mean) not in (1, values.shape[1]):
            raise DataFileError(f"expected samples with {len(mean)} channels (mean and std), got {values.shape[1:]}")
        shape = (1, -1) + (1,) * (values.ndim - 2)
        result = (result - np.reshape(mean, shape)) / np.reshape(std, shape)
    return np.asarray(result, np.float32)
