"""torch.nn.parallel: a model on one device under the names for several."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.core.user_frame import level_outside
from netcl.nn import Module


class DataParallel(Module):
    """The model as ``module``, on one device: the result is that of all devices, without their speed.

    Warns if ``device_ids`` names several; ``netcl.distributed.DataParallel`` uses them.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            warnings.warn(
                "DataParallel: one device computes; write netcl.distributed.DataParallel to use several",
                stacklevel=level_outside(),
            )
        self.module: Module = module
        self.dim: int = dim

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result."""
        return self.module(*args, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """``module(*inputs)`` on one device."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """The model as ``module``, in a group of one process; raises UnsupportedError in a larger one."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        from netcl import distributed

        group = distributed.current_group()
        if group is not None and group.size > 1:
            raise UnsupportedError(
                "DistributedDataParallel over several processes is not in netcl.torch; write "
                "netcl.distributed.DataParallel(model), and python -m netcl.distributed.run to start the ranks"
            )
        self.module: Module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result."""
        return self.module(*args, **kwargs)
