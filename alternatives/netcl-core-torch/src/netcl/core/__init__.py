"""netcl.core over PyTorch: Tensor, devices."""

from __future__ import annotations

from netcl_core_kit.interpreters import refuse_subinterpreters

refuse_subinterpreters()  # before NumPy and PyTorch are imported, which do not come to an end in one

from netcl.core.__about__ import __version__  # noqa: E402
from netcl.core.device import DeviceHandle, DeviceManager, manager  # noqa: E402
from netcl.core.tensor import Tensor  # noqa: E402

import netcl.ops  # noqa: E402, F401  # isort: skip - registers the rows

__all__ = ["DeviceHandle", "DeviceManager", "Tensor", "__version__", "manager"]
