"""Collectives of torch.distributed: tensors of the device go over the CPU, and are back when the call returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from torch_netcl import memory, words
from torch_netcl.fallback import is_ocl

_library = torch.library.Library("c10d", "IMPL")
OPS = words(
    "allgather_ _allgather_base_ allgather_coalesced_ allreduce_ allreduce_coalesced_ alltoall_ alltoall_base_ "
    "broadcast_ gather_ recv_ recv_any_source_ reduce_ reduce_scatter_ _reduce_scatter_base_ scatter_ send"
)


def _over_cpu(op: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []

        def lowered(value: Any) -> Any:
            if not is_ocl(value):
                return value
            copies.append((value, memory.to_cpu(value).clone()))
            return copies[-1][1]

        result = op(*tree_map(lowered, args), **tree_map(lowered, kwargs))
        (result[-1] if isinstance(result, (tuple, list)) else result).wait()
        back = {}
        for value, copy in copies:
            memory.put_cpu(value, copy)
            back[id(copy)] = value
        return tree_map(lambda value: back.get(id(value), value), result)

    return kernel


def register() -> None:
    """Registers the collectives of c10d, if this PyTorch has them."""
    if torch.distributed.is_available():
        for name in OPS:
            _library.impl(name, _over_cpu(getattr(torch.ops.c10d, name).default), "PrivateUse1")
