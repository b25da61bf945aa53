"""torch.types and torch.torch_version."""

from __future__ import annotations

import os
from typing import IO, Any, TypeAlias

from netcl.torch.parts.programs.version import TorchVersion as TorchVersion

TORCH_NAMES = ("_Number", "_bool", "_bytes", "_complex", "_dtype", "_float", "_int", "_size", "_str")
_bool, _bytes, _complex, _float, _int, _str = bool, bytes, complex, float, int, str
_Number = (int, float, bool)
_size: TypeAlias = "list[int] | tuple[int, ...]"
Number: TypeAlias = "int | float | bool"
Device: TypeAlias = Any
FileLike: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
Storage: TypeAlias = Any
