"""A table of works that netcl and peers do in turn: the times of a row, PyTorch's over them, shares of the ceilings and
the kernels of netcl's; kept as JSON with the processor, the day and the ceilings.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bursts import PROCESSOR, Burst, by_turns, here, is_processor_time
from measure import Timing, handles, timing
from peer_processes import PEERS, Peer, driver_of
from replays import Kernels, bytes_moved, kernels_of, operations, print_replay, seen_replay

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


@dataclass(frozen=True)
class Entry:
    """The time of a contestant for a row. For captured works of netcl also the shares of the ceilings that
    multiply-adds and operands take (None by processor time), and the kernels by name.
    """

    time: Timing
    of_flops: float | None = None
    of_bytes: float | None = None
    kernels: tuple[Kernels, ...] = ()


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


def processor() -> str:
    """The processor's name, with family and model where Linux lists them: virtual machines shorten names."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" not in found:
        return platform.processor() or platform.machine()
    return f"{found['model name']} (family {found.get('cpu family')}, model {found.get('model')})"


def caches() -> list[str]:
    """The caches of the first core, as "L1 Data 32K", where Linux lists them."""
    folders = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    fields = [
        [(folder / name).read_text(encoding="utf-8").strip() for name in ("level", "type", "size")]
        for folder in folders
    ]
    return [f"L{level} {kind} {size}" for level, kind, size in fields]


def keep(path: Path | None, peaks: dict[str, Peaks], entries: Iterable[Entry]) -> None:
    """Writes a table as JSON to ``path``, None for none."""
    if path is None:
        return
    table = {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "date": datetime.date.today().isoformat(),
        "time": "processor" if is_processor_time() else "clock",
        "caches": caches(),
        "drivers": {
            driver_of(handle): handle.device.driver_version for handle in handles(None) if handle.device is not None
        },
        "ceilings": {driver: asdict(peak) for driver, peak in peaks.items()},
    }
    rows = ",\n  ".join(json.dumps(_plain(one)) for one in entries)  # a line for each
    head = json.dumps(table, indent=1).removesuffix("\n}")
    path.write_text(f'{head},\n "rows": [\n  {rows}\n ]\n}}\n', encoding="utf-8")


def _plain(entry: Entry) -> dict[str, Any]:
    """The fields of an entry for JSON, to four digits; kernels as [name, launches, ms, MB]."""
    fields = {**asdict(entry.time), "of_flops": entry.of_flops, "of_bytes": entry.of_bytes}
    found = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in fields.items()}
    kernels = [[name, launches, float(f"{ms:.4g}"), float(f"{mb:.4g}")] for name, launches, ms, mb in entry.kernels]
    return found | ({"kernels": kernels} if kernels else {})


def contest(
    name: str,
    others: dict[str, Peer],
    request: dict[str, Any],
    devices: Sequence[DeviceHandle],
    works: Callable[[DeviceHandle], dict[str, Captured | Callable[[], object]]],
    peaks: dict[str, Peaks],
    seconds: float,
    with_profile: bool,
) -> list[Entry]:
    """Prints and returns the row ``name``: the peers' work of ``request``, and ``works`` of netcl on each device by the
    end of their labels.
    """
    bursts: dict[str, Burst] = {label: peer.burst for label, peer in others.items() if peer.takes(request)}
    replays: dict[str, tuple[str, Any]] = {}
    for handle in devices:
        with device(handle):
            for kind, work in works(handle).items():
                label = f"netcl, {driver_of(handle)}{kind}"
                if isinstance(work, Captured):
                    replays[label] = driver_of(handle), seen_replay(*work)
                    if with_profile:
                        print_replay(f"{name}, {label}", *work)
                bursts[label] = here(work.run if isinstance(work, Captured) else work)
    times = by_turns(bursts, seconds * len(bursts))
    best = min((statistics.median(times[rival]) for rival in RIVALS if rival in times), default=None)
    rows = []
    for contestant, values in times.items():
        entry = Entry(timing(name, contestant, values))
        one = entry.time
        shares = ""
        if contestant in replays:
            driver, seen = replays[contestant]
            entry = Entry(one, *_shares(seen, one.median / 1e3, peaks[driver]), tuple(kernels_of(seen)))
        if entry.of_flops is not None:
            shares = f"{entry.of_flops:>11.2f}{entry.of_bytes:>12.2f}"
        ratio = f"{best / one.median:.2f}" if best is not None else ""
        spread = f"{one.low:.2f} to {one.high:.2f}"
        print(f"{name:<14}{contestant:<20}{one.median:>9.2f}{spread:>20}{ratio:>14}{shares}", flush=True)
        rows.append(entry)
    return rows


def _shares(seen: Any, seconds: float, peaks: Peaks) -> tuple[float | None, float | None]:
    if is_processor_time():  # ceilings are those of all cores
        return None, None
    flops, moved = operations(seen) / seconds, bytes_moved(seen) / seconds
    return flops / peaks.flops_per_second, moved / peaks.bytes_per_second
