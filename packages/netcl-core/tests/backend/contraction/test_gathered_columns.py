"""Pointwise convolutions: strips of columns cross images, and gradients have k along the pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core.backend.opencl.contraction.cpu import cpu_tiles
from netcl.core.tuning.problems import Contraction

# Planes shorter than a vector, longer than one, of a strip and a half, whole vectors, and with one pixel left.
PLANES = [(3, 5), (5, 5), (7, 7), (4, 16), (11, 9)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("images", [1, 4])
def test_pointwise_convolutions(engine: Any, images: int, plane: tuple[int, int], dtype: str) -> None:
    """Sums of small integers are exact in both types, so that all bits count."""
    rng = np.random.default_rng(0)
    x, w, g = (
        rng.integers(-2, 3, shape).astype(np.float32)
        for shape in ((images, 21, *plane), (19, 21, 1, 1), (images, 19, *plane))
    )
    options: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    given = {name: engine.tensor(array, dtype) for name, array in (("x", x), ("w", w), ("g", g))}
    wanted = {
        "forward": np.einsum("ncij,fc->nfij", x, w[:, :, 0, 0]),
        "grad_input": np.einsum("nfij,fc->ncij", g, w[:, :, 0, 0]),
        "grad_weight": np.einsum("nfij,ncij->fc", g, x)[:, :, None, None],
    }
    operands = {"forward": ("x", "w", None), "grad_input": ("g", "w", x.shape), "grad_weight": ("x", "g", w.shape)}
    for kind, (a, b, shape) in operands.items():
        more = {} if shape is None else {"shape": shape}
        found = engine.conv(kind, given[a], given[b], **more, **options)
        result = engine.read(found).astype(np.float32).reshape(wanted[kind].shape)
        exact = (
            wanted[kind] if dtype == "float32" else engine.read(engine.tensor(wanted[kind], dtype)).astype(np.float32)
        )
        np.testing.assert_array_equal(result, exact.reshape(result.shape), err_msg=kind)


def test_chunks_of_rows_have_one_size() -> None:
    """Of 32 tiles no chunk has 25 and the other 7."""
    n, k = (4, 1, 14, 14), (1024, 1, 1, 1)
    c = Contraction(256, k, n, 1024, (1, 0, 0, 0), (196, 0, 0, 0), (1024 * 196, 0, 14, 1), 196, (256 * 196, 0, 14, 1))
    program = cpu_tiles.CpuKernel("", 8, 32, 384, 64, 32)
    a = cpu_tiles.RowStrides(1024, 1, 8 * 1024, (0, 0), 0)
    units, argument = cpu_tiles._launch_of(c, program, a, 1, 0, None)
    chunk, chunks = np.frombuffer(argument.tobytes(), np.int64)[3:5].tolist()
    assert chunk * chunks == 32
    assert units == chunks * 25
