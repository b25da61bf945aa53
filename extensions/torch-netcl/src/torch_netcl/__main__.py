"""``python -m torch_netcl``: the device, the versions, the share of PyTorch's overloads that have kernels here, and the
ops of linear algebra and FFT that run on the CPU; with ``--cpu`` all ops that do.
"""

from __future__ import annotations

import sys
from importlib.metadata import version

import torch

import torch_netcl
from torch_netcl import device, words


def lines(every: bool = False) -> list[str]:
    """Returns the lines of the report, with ``every`` op that runs on the CPU."""
    if torch_netcl.refused is not None:
        return [f"device 'ocl' is not registered: {torch_netcl.refused}"]
    if not hasattr(torch, "ocl"):  # PyTorch was told not to load backends
        device.setup()
    kernels = device.loaded()
    own = set(kernels.registered)
    native = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    composite = sum(1 for name in native if _is_composite(name))
    others = [name for name in native if name.removeprefix("aten::") not in own and not _is_composite(name)]
    ops = sorted({name.removeprefix("aten::").partition(".")[0] for name in others})
    algebra = [name for name in ops if every or "linalg_" in name or "_fft_" in name or name in ALGEBRA]
    return [
        f"device      {device.device_name()}, NETCL_DEVICE chooses another",
        f"versions    torch-netcl {torch_netcl.__version__}, netcl-core {version('netcl-core')}, "
        f"torch {torch.__version__}",
        f"overloads   {len(own)} of aten with kernels here, {composite} made of these by PyTorch, "
        f"{len(others)} others of {len(native)} run on the CPU",
        f"on the CPU  {' '.join(algebra)}",
    ]


ALGEBRA = words("cholesky cholesky_inverse cholesky_solve geqrf lu_solve lu_unpack ormqr triangular_solve")


def _is_composite(name: str) -> bool:
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1"):
        return False
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


if __name__ == "__main__":
    print("\n".join(lines("--cpu" in sys.argv[1:])))
    sys.exit(torch_netcl.refused is not None)
