"""A table of works that netcl and peers do in turn: the times of a row, PyTorch's over them, shares of the ceilings."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bursts import PROCESSOR, Burst, by_turns, here, is_processor_time
from measure import Timing, handles, timing
from peer_processes import PEERS, Peer, driver_of
from replays import bytes_moved, operations, print_replay, seen_replay

from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.profiling.peaks import Peaks, measure_peaks
from netcl.runtime.capture import capture

# The contestants of which the fastest is what netcl is compared with.
RIVALS = ("PyTorch", "torch.compile")
Step = Callable[..., Tensor]


class Captured(NamedTuple):
    """A captured step and its inputs."""

    step: Any
    given: tuple[Tensor, ...]

    def run(self) -> None:
        """Replays it and waits for the device."""
        self.step.replay(*self.given)
        self.given[0].queue.finish()


def captured(step: Step, given: tuple[Tensor, ...]) -> Captured:
    """The step after two runs, captured."""
    for _ in range(2):
        step(*given)
    return Captured(capture(step, *given), given)


def arguments(doc: str | None, rows: Iterable[str]) -> tuple[argparse.Namespace, list[DeviceHandle]]:
    """The options of a script whose rows are ``rows``, and the devices that they select."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--peers", default=",".join(name.strip("_") for name in PEERS), help="of those installed")
    parser.add_argument("--only", default=",".join(rows), help="rows, separated by commas")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each row and contestant")
    parser.add_argument("--profile", action="store_true", help="list the kernels of each captured row")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    parser.add_argument("--processor", action="store_true", help="processor time, PyTorch on one thread")
    options = parser.parse_args()
    if options.processor:
        os.environ[PROCESSOR] = "1"
    return options, [each for each in handles(options.devices) if each.backend != "cpu" or options.devices]


def heading(devices: Sequence[DeviceHandle]) -> dict[str, Peaks]:
    """Prints the ceilings of each driver and the heads of the columns; returns the ceilings by driver."""
    peaks = {driver_of(handle): measure_peaks(handle) for handle in devices}
    for name, peak in peaks.items():
        print(f"{name}: {peak.flops_per_second / 1e9:.0f} GFLOP/s, {peak.bytes_per_second / 1e9:.1f} GB/s at most")
    heads = ("row", "contestant", "ms", "middle half", "PyTorch / it", "of FLOP/s", "of bytes/s")
    print(f"{heads[0]:<14}{heads[1]:<20}{heads[2]:>9}{heads[3]:>20}{heads[4]:>14}{heads[5]:>11}{heads[6]:>12}")
    return peaks


def contest(
    name: str,
    others: dict[str, Peer],
    request: dict[str, Any],
    devices: Sequence[DeviceHandle],
    works: Callable[[DeviceHandle], dict[str, Captured | Callable[[], object]]],
    peaks: dict[str, Peaks],
    seconds: float,
    with_profile: bool,
) -> list[Timing]:
    """Prints and returns the row ``name``: the peers' work of ``request``, and ``works`` of netcl on each device by the
    end of their labels.
    """
    bursts: dict[str, Burst] = {label: peer.burst for label, peer in others.items() if peer.takes(request)}
    replays: dict[str, tuple[str, int, int]] = {}
    for handle in devices:
        with device(handle):
            for kind, work in works(handle).items():
                label = f"netcl, {driver_of(handle)}{kind}"
                if isinstance(work, Captured):
                    seen = seen_replay(*work)
                    replays[label] = driver_of(handle), operations(seen), bytes_moved(seen)
                    if with_profile:
                        print_replay(f"{name}, {label}", *work)
                bursts[label] = here(work.run if isinstance(work, Captured) else work)
    times = by_turns(bursts, seconds * len(bursts))
    best = min((statistics.median(times[rival]) for rival in RIVALS if rival in times), default=None)
    rows = []
    for contestant, values in times.items():
        one = timing(name, contestant, values)
        shares = ""
        if contestant in replays and not is_processor_time():  # ceilings are those of all cores
            driver, flops, moved = replays[contestant]
            second = one.median / 1e3
            of_flops = flops / second / peaks[driver].flops_per_second
            shares = f"{of_flops:>11.2f}{moved / second / peaks[driver].bytes_per_second:>12.2f}"
        ratio = f"{best / one.median:.2f}" if best is not None else ""
        spread = f"{one.low:.2f} to {one.high:.2f}"
        print(f"{name:<14}{contestant:<20}{one.median:>9.2f}{spread:>20}{ratio:>14}{shares}", flush=True)
        rows.append(one)
    return rows
