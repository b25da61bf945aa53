"""torch.nn.attention: the choice among attention kernels, of which there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any


class SDPBackend(IntEnum):
    """PyTorch's attention kernels; here one kernel, chosen by shape and device, serves all."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A block that changes nothing: all choices compute the same value."""
    yield
