"""Matrices of few bits per number, as language models are stored: formats, PackedTensor and quantization."""

from __future__ import annotations

from netcl.core.engine.packed_formats import FORMATS
from netcl.core.packed.quantize import quantize
from netcl.core.packed.tensor import PackedTensor

__all__ = ["FORMATS", "PackedTensor", "quantize"]
