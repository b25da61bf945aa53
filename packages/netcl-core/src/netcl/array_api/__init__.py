"""The Python array API standard, version 2024.12, over the ops of netcl: ``x.__array_namespace__()``.

Functions have the standard's names, signatures and promotion, also where they differ from netcl's own, which are
PyTorch's: ``std`` divides by n, ``max`` over an axis gives values, 0-d tensors promote like others. They return
``Array``, a tensor with the standard's operators. Complex dtypes and the extension ``fft`` are not part of it;
docs/reference/array-api.md lists what differs.
"""

from __future__ import annotations

import math
from typing import Any

from netcl.array_api import creation, elementwise, linalg, manipulation, searching, statistics
from netcl.array_api.array import Array
from netcl.array_api.creation import *  # noqa: F403
from netcl.array_api.data_types import astype, can_cast, finfo, iinfo, isdtype, result_type, type_of
from netcl.array_api.elementwise import *  # noqa: F403
from netcl.array_api.info import __array_namespace_info__
from netcl.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot
from netcl.array_api.manipulation import *  # noqa: F403
from netcl.array_api.searching import *  # noqa: F403
from netcl.array_api.statistics import *  # noqa: F403

__array_api_version__ = "2024.12"

e: float = math.e
inf: float = math.inf
nan: float = math.nan
newaxis: None = None
pi: float = math.pi

bool: Any = type_of("bool")
int8: Any = type_of("int8")
int16: Any = type_of("int16")
int32: Any = type_of("int32")
int64: Any = type_of("int64")
uint8: Any = type_of("uint8")
uint16: Any = type_of("uint16")
uint32: Any = type_of("uint32")
uint64: Any = type_of("uint64")
float32: Any = type_of("float32")
float64: Any = type_of("float64")

__all__ = [
    "Array",
    "__array_api_version__",
    "__array_namespace_info__",
    "astype",
    "bool",
    "can_cast",
    "e",
    "finfo",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "isdtype",
    "linalg",
    "matmul",
    "matrix_transpose",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "tensordot",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "vecdot",
]
__all__ += creation.__all__
__all__ += elementwise.__all__
__all__ += manipulation.__all__
__all__ += searching.__all__
__all__ += statistics.__all__
