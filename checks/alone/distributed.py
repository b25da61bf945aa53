"""netcl-distributed with its three lower layers: a sum over two tensors."""

from __future__ import annotations

import numpy as np

from netcl.core import Tensor
from netcl.distributed import all_reduce

parts = [Tensor.from_host(np.full(3, k, dtype=np.float32)) for k in (1, 2)]
all_reduce(parts)
assert [part.to_host().tolist() for part in parts] == [[3.0, 3.0, 3.0]] * 2
