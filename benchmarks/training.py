"""Times whole training steps: netcl captured on each device, and its peers, in turn, on the same cores.

``python benchmarks/training.py [--devices intel,pocl] [--peers pytorch,tinygrad] [--only mlp,cnn] [--seconds 4]
[--json FILE]``. A step is forward, backward and optimizer. A round runs each contestant for a while, until the seconds
of a row are over; the table has medians, the middle half, and PyTorch's median over theirs.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from bursts import Burst, Work, by_turns, here
from measure import handles, save, timing
from models import STEPS, batch, model, optimizer
from peer_processes import PEERS, driver_of, peers

import netcl.autograd as ag
from netcl import nn, optim
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.runtime.capture import capture


def netcl_step(name: str, handle: DeviceHandle) -> Work:
    """The captured step on a device."""
    network = model(name, nn, ag.relu)
    values, wanted = batch(name)
    x, y = Tensor.from_host(handle, values), Tensor.from_host(handle, wanted)
    loss_of = ag.mse_loss if name == "encoder" else ag.cross_entropy
    steps = optimizer(name, optim, list(network.parameters()))

    def step(x: Tensor, y: Tensor) -> Tensor:
        steps.zero_grad()
        loss: Tensor = loss_of(network(x), y)
        loss.backward()
        steps.step()
        return loss

    for _ in range(2):
        step(x, y)
    captured = capture(step, x, y)

    def replay() -> None:
        captured.replay(x, y)
        handle.queue.finish()

    return replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--peers", default=",".join(name.strip("_") for name in PEERS), help="of those installed")
    parser.add_argument("--only", default=",".join(STEPS), help="rows, separated by commas")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each row and contestant")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    devices = [each for each in handles(options.devices) if each.backend != "cpu" or options.devices]
    collected = []
    print(f"{'step':<12}{'contestant':<20}{'ms':>9}{'middle half':>20}{'PyTorch / it':>14}")
    with peers(options.peers, devices) as others:
        for name in options.only.split(","):
            bursts: dict[str, Burst] = {label: peer.burst for label, peer in others.items() if peer.takes(name)}
            for handle in devices:
                with device(handle):
                    bursts[f"netcl, {driver_of(handle)}"] = here(netcl_step(name, handle))
            times = by_turns(bursts, options.seconds * len(bursts))
            for contestant, values in times.items():
                one = timing(name, contestant, values)
                ratio = f"{statistics.median(times['PyTorch']) / one.median:.2f}" if "PyTorch" in times else ""
                spread = f"{one.low:.2f} to {one.high:.2f}"
                print(f"{name:<12}{contestant:<20}{one.median:>9.2f}{spread:>20}{ratio:>14}", flush=True)
                collected.append(one)
    save(options.json, collected)


if __name__ == "__main__":
    main()
