"""Matrix products with few rows on GPUs: the work-items of a group each sum a slice of k, long sums in parts."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import Finish, behind
from netcl.core.backend.opencl.contraction.gpu_tiles import finishing_source, wide_argument
from netcl.core.backend.opencl.templates import Traits, traits
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.tiles import SLICES_ROWS, slices_group

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_ALONG_COLUMNS = 8  # of a work-group whose work-items are neighbours along k
_GROUPS = 1056  # work-groups that keep a large GPU's memory busy
_LEAST_SPLIT = 256  # products summed by one part at least


class Slices(NamedTuple):
    """How a product is cut up: a work-group's size, rows and columns, whether B is contiguous along k, parts of k."""

    group: int
    rows: int
    columns: int
    along: bool
    splits: int


@lru_cache(maxsize=1024)
def slices_of(device: Traits, c: Contraction) -> Slices:
    """How a contraction is cut up."""
    group = slices_group(device)
    along = c.b_k[3] == 1 and c.k[3] > 1
    rows, columns = min(c.m, SLICES_ROWS), _ALONG_COLUMNS if along else group // 4
    count = -(-c.m // rows) * -(-prod(c.n) // columns) * prod(c.batch)
    splits = max(1, min(_GROUPS // count, prod(c.k) // _LEAST_SPLIT))
    return Slices(group, rows, columns, along, splits)


@lru_cache(maxsize=256)
def program(device: Traits, dtype: str, slices: Slices, epilogue: str = "", operands: int = 0) -> str:
    """The text for a dtype and a work-group."""
    defines = (
        ("GROUP", slices.group), ("ROWS", slices.rows), ("COLUMNS", slices.columns), ("ALONG", int(slices.along)),
    )  # fmt: skip
    return finishing_source(device, dtype, ("contract_product", "contract_slices"), defines, epilogue, operands)


def contract(
    engine: Any,
    c: Contraction,
    slices: Slices,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    out_part: int,
    finish: Finish | None = None,
) -> None:
    """Runs a contraction into ``out``; part s of the sums goes to ``out`` + s * ``out_part``, one part to its end."""
    epilogue, operands, more = behind(finish, b)
    text = program(traits(engine), a.dtype, slices._replace(splits=1), epilogue, operands)
    size = (
        -(-prod(c.n) // slices.columns) * slices.group,
        -(-c.m // slices.rows),
        prod(c.batch) * slices.splits,
    )
    split = -(-prod(c.k) // slices.splits)
    numbers = [np.int32(slices.splits), np.int32(split), np.int64(out_part)]
    arguments = [a, b, out, wide_argument(c), *numbers, *more]
    engine.launch(text, "slices", size, (slices.group, 1, 1), arguments)


__all__ = ["Slices", "contract", "program", "slices_of"]
