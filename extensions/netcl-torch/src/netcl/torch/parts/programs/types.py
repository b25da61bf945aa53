"""torch.types and torch.torch_version."""

from __future__ import annotations

import os
from typing import IO, Any, TypeAlias

from netcl.torch.parts.programs.version import TorchVersion as TorchVersion

Number: TypeAlias = "int | float | bool"
Device: TypeAlias = Any
FileLike: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
Storage: TypeAlias = Any
