"""Optimizers over several ranks: state and gradients in shards (ZeRO), local steps with periodic averages (DiLoCo)."""

from __future__ import annotations

from netcl.distributed.optim.diloco import DiLoCo
from netcl.distributed.optim.periodic_averaging import PeriodicModelAverager, PostLocalSGDOptimizer
from netcl.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DiLoCo", "PeriodicModelAverager", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
