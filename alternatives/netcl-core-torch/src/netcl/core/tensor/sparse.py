"""Sparse tensors: those of netcl-core-kit."""

from __future__ import annotations

from netcl_core_kit.sparse import *  # noqa: F403
from netcl_core_kit.sparse import __all__ as __all__
