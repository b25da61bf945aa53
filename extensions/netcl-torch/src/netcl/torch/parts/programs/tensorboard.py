"""torch.utils.tensorboard: SummaryWriter of the package tensorboardX."""

from __future__ import annotations

from typing import Any

TORCH_NAMES = ("SummaryWriter",)


def __getattr__(name: str) -> Any:
    """``SummaryWriter``; raises ImportError if tensorboardX is not installed."""
    if name != "SummaryWriter":
        raise AttributeError(f"module 'torch.utils.tensorboard' has no attribute {name!r}")
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ImportError(
            'torch.utils.tensorboard needs tensorboardX: pip install "netcl-torch[tensorboard]"'
        ) from None
    return SummaryWriter
