"""torch.backends: flags that are kept, and act if they mean something here, and questions about what is built in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import netcl as nc
from netcl.torch.parts.attention import sdpa_kernel
from netcl.torch.parts.devices import gpus
from netcl.torch.tree import TorchModule


class Absent(TorchModule):
    """A backend that is not in this process: ``is_available()`` and ``is_built()`` are False."""

    def is_available(self) -> bool:
        """False."""
        return False

    def is_built(self) -> bool:
        """False."""
        return False


class Gpus(TorchModule):
    """A backend that answers for OpenCL GPUs: torch.backends.cuda and torch.backends.mps."""

    def is_available(self) -> bool:
        """True if there is a GPU."""
        return gpus.is_available()

    def is_built(self) -> bool:
        """True: kernels are built at run time."""
        return True


class Cuda(Gpus):
    """torch.backends.cuda: switches of attention kernels are accepted, as one kernel serves all."""

    def _enable(self, enabled: bool) -> None:
        """Does nothing: the kernels that compute the same value are chosen by measurement."""

    enable_flash_sdp = _enable
    enable_mem_efficient_sdp = _enable
    enable_math_sdp = _enable
    enable_cudnn_sdp = _enable
    sdp_kernel: Any = staticmethod(sdpa_kernel)

    def flash_sdp_enabled(self) -> bool:
        """True."""
        return True

    mem_efficient_sdp_enabled = flash_sdp_enabled
    math_sdp_enabled = flash_sdp_enabled


class Matmul(TorchModule):
    """torch.backends.cuda.matmul: ``allow_tf32`` is ``set_float32_matmul_precision``; the other flags are kept."""

    def __init__(self, name: str, doc: str | None = None) -> None:
        super().__init__(name, doc)
        self.__dict__["allow_fp16_reduced_precision_reduction"] = True
        self.__dict__["allow_bf16_reduced_precision_reduction"] = True

    def __getattr__(self, name: str) -> Any:
        if name in ("allow_tf32", "fp32_precision"):
            allowed = nc.get_float32_matmul_precision() != "highest"
            return allowed if name == "allow_tf32" else "tf32" if allowed else "ieee"
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("allow_tf32", "fp32_precision"):
            nc.set_float32_matmul_precision("high" if value in (True, "tf32") else "highest")
        else:
            super().__setattr__(name, value)


class Cudnn(TorchModule):
    """torch.backends.cudnn: flags are kept; ``deterministic`` asks for what kernels do anyway."""

    def __init__(self, name: str, doc: str | None = None) -> None:
        super().__init__(name, doc)
        self.__dict__.update(enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True)
        self.__dict__.update(CUDNN_TENSOR_DTYPES={nc.float16, nc.float32, nc.float64, nc.bfloat16})

    def is_available(self) -> bool:
        """False: there is no cuDNN."""
        return False

    def version(self) -> None:
        """None: there is no cuDNN."""

    @contextmanager
    def flags(self, **values: Any) -> Iterator[None]:
        """Sets flags within a block."""
        before = {name: getattr(self, name) for name in values}
        self.__dict__.update(values)
        try:
            yield
        finally:
            self.__dict__.update(before)


class Mkldnn(Absent):
    """torch.backends.mkldnn: not here; ``enabled`` is kept."""

    enabled = False


class Attention(TorchModule):
    """torch.backends.mha: the fast path of attention is always on."""

    def get_fastpath_enabled(self) -> bool:
        """True."""
        return True

    def set_fastpath_enabled(self, value: bool) -> None:
        """Does nothing."""


class OptEinsum(Absent):
    """torch.backends.opt_einsum: einsum orders its products itself."""

    enabled = True
    strategy = "auto"


class Cpu(TorchModule):
    """torch.backends.cpu."""

    def get_cpu_capability(self) -> str:
        """``"DEFAULT"``: the OpenCL driver chooses the instructions."""
        return "DEFAULT"
