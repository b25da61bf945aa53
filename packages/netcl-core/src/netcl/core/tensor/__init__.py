"""The tensor: its data, creation, operators and methods."""

from __future__ import annotations

from netcl.core.tensor.tensor import Tensor, _dtype_nbytes, _np_dtype

__all__ = ["Tensor", "_dtype_nbytes", "_np_dtype"]
