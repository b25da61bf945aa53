"""netcl.amp: automatic mixed precision: autocast, the dtype policy of each op, and dynamic loss scaling."""

from __future__ import annotations

from netcl.amp.autocast import autocast, is_autocast_enabled, supports_fp16
from netcl.amp.policy import POLICY, policy
from netcl.amp.scaler import GradScaler

__all__ = ["POLICY", "GradScaler", "autocast", "is_autocast_enabled", "policy", "supports_fp16"]
