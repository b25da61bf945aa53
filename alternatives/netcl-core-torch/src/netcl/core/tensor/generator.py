"""Generators: those of netcl-core-kit."""

from __future__ import annotations

from typing import Any

import torch
from netcl_core_kit.generator import *  # noqa: F403
from netcl_core_kit.generator import __all__ as __all__
from netcl_core_kit.generator import use_draws

from netcl.core.tensor.mt19937 import MT19937

_MASK = 0xFFFFFFFF


def _philox(seed: int, position: int, blocks: int, place: Any) -> torch.Tensor:
    """The words of Philox 4x32-10 at ``blocks`` positions, as int64."""
    at = torch.arange(position, position + blocks, dtype=torch.int64, device=place)
    c0, c1 = at & _MASK, at >> 32
    c2 = c3 = torch.zeros_like(at)
    k0, k1 = seed & _MASK, seed >> 32
    for _ in range(10):
        low, high = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c2 = ((high >> 32) & _MASK) ^ c1 ^ k0, ((low >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = high & _MASK, low & _MASK
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return torch.stack((c0, c1, c2, c3), 1).reshape(-1)


use_draws(_philox, MT19937)
