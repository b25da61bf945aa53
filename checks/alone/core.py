"""netcl-core alone, without pyopencl: a product on NumPy."""

from __future__ import annotations

import numpy as np

import netcl as nc

a = nc.Tensor.from_host(np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32))
assert nc.relu(nc.matmul(a, a)).to_host().tolist() == [[7.0, 10.0], [15.0, 22.0]]
