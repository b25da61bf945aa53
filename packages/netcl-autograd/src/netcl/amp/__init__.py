"""netcl.amp: automatic mixed precision: autocast, the dtype policy of each op, and dynamic loss scaling."""

from __future__ import annotations

from netcl.amp.autocast import autocast, get_autocast_dtype, is_autocast_enabled, supports_fp16
from netcl.amp.policy import POLICY, policy
from netcl.amp.scaler import GradScaler

__all__ = ["POLICY", "GradScaler", "autocast", "get_autocast_dtype", "is_autocast_enabled", "policy", "supports_fp16"]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
