"""The original API of kernel selection: the launched kernel, and a variant by sizes, from the table of candidates."""

from __future__ import annotations

from typing import Any

from netcl.core import config
from netcl.core.dtypes import DTypeLike
from netcl.core.tuning.choices import KernelChoices, choices_of, forget_choices, register_measurements
from netcl.core.tuning.kernel_config import KernelConfig, KernelVariant

__all__ = ["KernelConfig", "KernelSelector", "KernelVariant", "forget_choices", "get_kernel_selector",
           "register_measurements", "select_conv2d_config", "select_matmul_config"]  # fmt: skip
Pair = int | tuple[int, int]


class KernelSelector(KernelChoices):
    """Returns one KernelConfig per (operation, shape, dtype, flags). ``extra["kernel"]`` of matmul and conv2d names the
    kernel that is launched for contiguous operands (``numpy`` on NumPy), ``extra["tile"]`` its (rows, columns, depth).
    ``variant`` and the other fields follow the rule for the sizes, or describe a measured kernel.
    """

    def select_matmul_kernel(self, M: int, N: int, K: int, dtype: DTypeLike = "float32",
                             allow_vectorized: bool = True) -> KernelConfig:  # fmt: skip
        """Returns the config for (M, K) @ (K, N): naive if MN < 256 or 2MNK < 1e5, tiled below 1e7, else vectorized on
        OpenCL CPUs and GPUs that prefer vectors of four floats, or register-tiled.
        """
        return self.config("matmul", (M, N, K), dtype, allow_vectorized)

    def select_conv2d_kernel(self, batch: int, in_channels: int, out_channels: int, height: int, width: int,
                             kernel_h: int, kernel_w: int, stride: Pair = 1, padding: Pair = 0,
                             dtype: DTypeLike = "float32") -> KernelConfig:  # fmt: skip
        """Returns the config for (batch, in_channels, height, width) by (out_channels, in_channels, kernel_h,
        kernel_w): CPUs im2col; 3x3 with stride 1 Winograd unless NETCL_CONV_WINOGRAD=0; fewer than 256 positions tiled
        local memory with NETCL_CONV_TILED_LOCAL=1; else implicit GEMM.
        """
        steps = ((x, x) if isinstance(x, int) else (int(x[0]), int(x[1])) for x in (stride, padding))
        sizes = (batch, in_channels, out_channels, height, width, kernel_h, kernel_w, *steps)
        return self.config("conv2d", sizes, dtype, config.get("CONV_WINOGRAD"), config.get("CONV_TILED_LOCAL"))

    def select_elementwise_kernel(self, n: int, dtype: DTypeLike = "float32",
                                  allow_vectorized: bool = True) -> KernelConfig:  # fmt: skip
        """Returns vectorized from 1024 elements on, 8 wide for dtypes of one or two bytes, else 4. Generated kernels of
        expressions do not use it, nor the next two.
        """
        return self.config("elementwise", (n,), dtype, allow_vectorized)

    def select_reduction_kernel(self, n: int, kind: str = "sum") -> KernelConfig:
        """Returns sequential below 256 elements per result, parallel below 65536, else in stages over work-groups."""
        return self.config("reduction", (n,), "float32", kind)

    def select_batchnorm_kernel(self, batch: int, channels: int, spatial: int, training: bool = True,
                                fuse_relu: bool = False) -> KernelConfig:  # fmt: skip
        """Returns fused with the ReLU exactly when ``fuse_relu`` and not ``training``."""
        return self.config("batchnorm", (batch, channels, spatial), "float32", training, fuse_relu)


def get_kernel_selector(device: Any = None) -> KernelSelector:
    """Returns the selector of a device (a pyopencl device, handle or queue; None: the active device)."""
    selector: KernelSelector = choices_of(device, KernelSelector)
    return selector


def select_matmul_config(M: int, N: int, K: int, device: Any = None) -> KernelConfig:
    """Returns ``get_kernel_selector(device).select_matmul_kernel(M, N, K)``."""
    return get_kernel_selector(device).select_matmul_kernel(M, N, K)


def select_conv2d_config(batch: int, in_c: int, out_c: int, h: int, w: int, kh: int, kw: int, stride: Pair = 1,
                         pad: Pair = 0, device: Any = None) -> KernelConfig:  # fmt: skip
    """Returns ``get_kernel_selector(device).select_conv2d_kernel(batch, in_c, ..., stride, pad)``."""
    return get_kernel_selector(device).select_conv2d_kernel(batch, in_c, out_c, h, w, kh, kw, stride, pad)
