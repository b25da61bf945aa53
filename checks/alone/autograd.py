"""netcl-autograd with netcl-core alone: the gradient of a square."""

from __future__ import annotations

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor

w = ag.Parameter(Tensor.from_host(np.array([1.0, 2.0, 3.0], dtype=np.float32)))
ag.sum(ag.mul(w, w)).backward()
assert w.grad.to_host().tolist() == [2.0, 4.0, 6.0]
