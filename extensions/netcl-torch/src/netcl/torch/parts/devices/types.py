"""torch.cuda's tensor types of old programs: makers of tensors of one dtype on the current GPU."""

from __future__ import annotations

from typing import Any

import netcl as nc


def _on_gpu(base: Any) -> Any:
    """Returns the type of GPUs of a tensor type."""
    text = f"As torch.{base.__name__}, on the current GPU."
    return type(base)(base.__name__, (base,), {"home": "cuda", "__doc__": text, "__module__": "torch.cuda"})


FloatTensor: Any = _on_gpu(nc.FloatTensor)
DoubleTensor: Any = _on_gpu(nc.DoubleTensor)
HalfTensor: Any = _on_gpu(nc.HalfTensor)
BFloat16Tensor: Any = _on_gpu(nc.BFloat16Tensor)
LongTensor: Any = _on_gpu(nc.LongTensor)
IntTensor: Any = _on_gpu(nc.IntTensor)
ShortTensor: Any = _on_gpu(nc.ShortTensor)
CharTensor: Any = _on_gpu(nc.CharTensor)
ByteTensor: Any = _on_gpu(nc.ByteTensor)
BoolTensor: Any = _on_gpu(nc.BoolTensor)
