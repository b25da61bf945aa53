"""torch.distributed.algorithms.ddp_comm_hooks.default_hooks: the dtypes in which gradients travel.

A hook is a name for ``DistributedDataParallel.register_comm_hook``, which reads its ``compression``.
"""

from __future__ import annotations

from typing import Any, NoReturn

from netcl.core.errors import UnsupportedError

TORCH_NAMES = ("allreduce_hook", "bf16_compress_hook", "fp16_compress_hook")


class _Hook:
    """A hook that is a name."""

    def __init__(self, name: str, compression: str | None) -> None:
        self.__name__ = name
        self.compression: str | None = compression

    def __call__(self, state: Any, bucket: Any) -> NoReturn:
        """Raises UnsupportedError: buckets are not objects of the program."""
        raise UnsupportedError(f"{self.__name__} is an argument of register_comm_hook, and is not called")

    def __repr__(self) -> str:
        return self.__name__


allreduce_hook: _Hook = _Hook("allreduce_hook", None)
fp16_compress_hook: _Hook = _Hook("fp16_compress_hook", "float16")
bf16_compress_hook: _Hook = _Hook("bf16_compress_hook", "bfloat16")
