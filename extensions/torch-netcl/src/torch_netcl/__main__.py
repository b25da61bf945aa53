"""``python -m torch_netcl``: the device, the versions, and the share of PyTorch's overloads that have kernels here."""

from __future__ import annotations

import sys
from importlib.metadata import version

import torch

import torch_netcl
from torch_netcl import device


def lines() -> list[str]:
    """Returns the lines of the report."""
    if torch_netcl.refused is not None:
        return [f"device 'ocl' is not registered: {torch_netcl.refused}"]
    if not hasattr(torch, "ocl"):  # PyTorch was told not to load backends
        device.setup()
    kernels = device.loaded()
    own = set(kernels.registered)
    native = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    composite = sum(1 for name in native if _is_composite(name))
    return [
        f"device      {device.device_name()}, NETCL_DEVICE chooses another",
        f"versions    torch-netcl {torch_netcl.__version__}, netcl-core {version('netcl-core')}, "
        f"torch {torch.__version__}",
        f"overloads   {len(own)} of aten with kernels here, {composite} made of these by PyTorch, "
        f"{len(native) - len(own) - composite} others of {len(native)} run on the CPU",
    ]


def _is_composite(name: str) -> bool:
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1"):
        return False
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


if __name__ == "__main__":
    print("\n".join(lines()))
    sys.exit(torch_netcl.refused is not None)
