"""netcl-optim with its three lower layers: one step of SGD."""

from __future__ import annotations

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.optim import SGD

w = ag.Parameter(Tensor.from_host(np.array([1.0, -2.0], dtype=np.float32)))
optimizer = SGD([w], lr=0.25)
optimizer.zero_grad()
ag.sum(ag.mul(w, w)).backward()
optimizer.step()
assert w.to_host().tolist() == [0.5, -1.0]
