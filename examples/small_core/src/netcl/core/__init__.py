"""A netcl-core of two levels, on NumPy: tensors and the rows that others can be made of."""

import netcl.ops  # noqa: F401
from netcl.core.__about__ import __version__ as __version__
from netcl.core.device import DeviceHandle as DeviceHandle
from netcl.core.device import DeviceManager as DeviceManager
from netcl.core.device import manager as manager
from netcl.core.tensor import Tensor as Tensor
