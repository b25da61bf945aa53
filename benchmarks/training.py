"""Times whole training steps: netcl captured on each device, and its peers, in turn, on the same cores.

``python benchmarks/training.py [--devices intel,pocl] [--peers pytorch,compiled,tinygrad] [--only mlp,cnn]
[--seconds 4] [--profile] [--processor] [--json FILE]``. A step is forward, backward and optimizer (PyTorch's are the
fused ones). A round runs each contestant for a while, until the seconds of a row are over; the table has medians, the
middle half, the median of the faster of PyTorch and torch.compile over theirs, and for netcl the shares of the device's
ceilings that its multiply-adds and the operands of its kernels take. ``--profile`` lists the kernels of each captured
step. ``--processor`` compares processor time, for machines that other processes use.
"""

from __future__ import annotations

from contest import Captured, arguments, captured, contest, heading, keep
from models import JOBS, batch, loss, model, optimizer
from peer_processes import peers

import netcl
from netcl.core import DeviceHandle, Tensor


def netcl_step(name: str, handle: DeviceHandle) -> Captured:
    """The captured step on a device."""
    network = model(name, netcl)
    inputs, wanted = batch(name)
    given = tuple(Tensor.from_host(handle, array) for array in (*inputs, wanted))
    updates = optimizer(name, netcl.optim, list(network.parameters()))

    def step(*given: Tensor) -> Tensor:
        updates.zero_grad()
        found: Tensor = loss(name, netcl, network(*given[:-1]), given[-1])
        found.backward()
        updates.step()
        return found

    return captured(step, given)


def main() -> None:
    options, devices = arguments(__doc__, JOBS)
    found = []
    peaks = heading(devices)
    with peers(options.peers, devices) as others:
        for name in options.only.split(","):
            found += contest(
                name,
                others,
                {"step": name},
                devices,
                lambda handle, name=name: {"": netcl_step(name, handle)},  # type: ignore[misc]
                peaks,
                options.seconds,
                options.profile,
            )
            keep(options.json, peaks, found)


if __name__ == "__main__":
    main()
