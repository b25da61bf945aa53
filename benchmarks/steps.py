"""Launches of a training step, eager, jitted and captured, and the bytes that it moves against the least possible.

``python benchmarks/steps.py [--devices intel,pocl] [--only digits,cnn,resnet18] [--trace a.json] [--picture a.png]``.
Bytes are those of the operands of all kernels of a replay, each operand of a kernel once; kernels of one contraction
that share a name are its parts and count as one. The least possible is a step
whose contractions, pools and what else is no expression read and write each value once, and that reads and writes what
stays (parameters, moments, statistics, the batch) once; everything between is free. ``--trace`` writes an eager step
and a replay of the last work as JSON for https://ui.perfetto.dev, ``--picture`` draws that file.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import models
from autograd import digits_step
from measure import handles
from replays import bytes_moved

import netcl
import netcl.autograd as ag
from netcl import optim
from netcl.core import DeviceHandle, Tensor
from netcl.core.capture.call_log import CallLog, tensors_in
from netcl.core.device import device
from netcl.core.dtypes import itemsize
from netcl.core.engine.interceptors import interception
from netcl.profiling import profile, region
from netcl.runtime.capture import capture

Step = Callable[..., Tensor]
# Prefixes of the names of kernels, by kind.
KINDS = {
    "contractions": ("contract",),
    "tiles, packing and padding": (*("data_", "output_", "gradient_", "weight_"), "pad", "pack", "add_parts", "copy"),
    "expressions": ("map", "rows", "reduce", "columns", "joined", "each"),
}
COLOURS = {
    "contractions": "#4c72b0",
    "tiles, packing and padding": "#dd8452",
    "expressions": "#55a868",
    "other": "#8c8c8c",
}


def _images(name: str) -> tuple[Step, tuple[Tensor, ...]]:
    model = models.model(name, netcl)
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = ag.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    inputs, labels = models.batch(name)
    return step, tuple(Tensor.from_host(array) for array in (*inputs, labels))


WORKS: dict[str, Callable[[], tuple[Step, tuple[Tensor, ...]]]] = {
    "digits": digits_step,
    "cnn": lambda: _images("cnn"),
    "resnet18": lambda: _images("resnet18"),
}


def least(step: Step, batch: tuple[Tensor, ...]) -> int:
    """Bytes that the step has to move, from the engine calls that it makes."""
    engine: Any = batch[0].engine
    recording = engine.new_recording()
    calls = CallLog(recording)
    engine.recording = recording
    try:
        with interception(engine, calls):
            step(*batch)
    finally:
        engine.recording = None
    read: dict[Any, int] = {}
    made: dict[Any, int] = {}
    for call in calls.list:
        inside = call.method not in ("run", "run_each", "reduce_each", "fill")
        for given, found in (((call.args, call.kwargs), read), (call.results, made)):
            for ref in tensors_in(given):
                if inside or ref.number in calls.outside:
                    found[ref.number, ref.version] = prod(ref.shape) * itemsize(ref.dtype)
    begun = {number for number, _ in read if number in calls.outside}
    # Of what stays, the first value is read and the last one written; those between need not be seen.
    stays = {number: size for (number, _), size in {**read, **made}.items() if number in calls.outside}
    written = {number for number, _ in made if number in calls.outside}
    between = sum(size for found in (read, made) for (number, _), size in found.items() if number not in stays)
    return between + sum(size * ((number in begun) + (number in written)) for number, size in stays.items())


def _seen(work: Step, handle: DeviceHandle, batch: tuple[Tensor, ...]) -> profile:
    with profile(handle.queue) as seen:
        work(*batch)
    return seen


def row(handle: DeviceHandle, name: str) -> str:
    """Launches and bytes of a step."""
    step, batch = WORKS[name]()
    jitted = ag.jit_compile(step)
    for work in (step, step, jitted, jitted):
        work(*batch)
    counts = [sum(one.kind == "kernel" for one in _seen(work, handle, batch).launches) for work in (step, jitted)]
    captured = capture(step, *batch)
    moved = bytes_moved(_seen(captured.replay, handle, batch))
    needed = least(step, batch)
    return (
        f"{counts[0]} launches eager, {counts[1]} jitted, {len(captured)} captured; {moved / 1e6:.2f} MB moved, "
        f"{needed / 1e6:.2f} MB at least: {moved / needed:.2f}"
    )


def trace(handle: DeviceHandle, name: str, path: Path) -> None:
    """Writes an eager step and a replay as one trace."""
    step, batch = WORKS[name]()
    for _ in range(2):
        step(*batch)
    captured = capture(step, *batch)
    captured.replay(*batch)
    handle.queue.finish()
    with profile(handle.queue, memory=True) as seen:
        for title, work in (("eager step", step), ("captured step", captured.replay)):
            with region(title):
                work(*batch)
                handle.queue.finish()
    seen.export_chrome(path)


def kind_of(name: str) -> str:
    """The kind of a kernel, by its name."""
    return next((kind for kind, starts in KINDS.items() if name.startswith(starts)), "other")


def draw(source: Path, path: Path) -> None:
    """Draws the complete events of a trace: Python's ops above, kernels below, in milliseconds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    content = json.loads(source.read_text(encoding="utf-8"))
    events = [event for event in content["traceEvents"] if event["ph"] == "X"]
    parts = [event for event in events if event["cat"] == "region" and event["name"].endswith("step")]
    figure, axes = plt.subplots(len(parts), 1, figsize=(12, 2.6 * len(parts)), sharex=True, layout="constrained")
    longest = max(part["dur"] for part in parts) / 1e3
    for axis, part in zip(axes, parts):
        begin, end = part["ts"], part["ts"] + part["dur"]
        inside = [e for e in events if begin <= e["ts"] and e["ts"] + e["dur"] <= end + 1e3]
        ops = [e for e in inside if e["cat"] == "op"]
        axis.broken_barh([((e["ts"] - begin) / 1e3, e["dur"] / 1e3) for e in ops], (2.1, 0.8), color="#937860")
        for kind, colour in COLOURS.items():
            chosen = [e for e in inside if e["cat"] == "kernel" and kind_of(e["name"]) == kind]
            spans = [((e["ts"] - begin) / 1e3, e["dur"] / 1e3) for e in chosen]
            label = f"{kind}: {len(chosen)}, {sum(d for _, d in spans):.0f} ms"
            axis.broken_barh(spans, (1.0, 0.9), color=colour, label=label)
        axis.set_yticks([1.45, 2.5], ["kernels", "Python ops"])
        axis.set_xlim(0, longest)
        axis.set_ylim(0.9, 3.0)
        axis.set_title(f"{part['name']}: {part['dur'] / 1e3:.0f} ms", loc="left", fontsize=10)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, fontsize=8, frameon=False)
    axes[-1].set_xlabel("ms", loc="right")
    figure.suptitle(f"ResNet-18, 32 images of 32 x 32, on {content['otherData']['device']}", fontsize=11)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Prints a line for each work and device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--only", help="works, separated by commas")
    parser.add_argument("--trace", type=Path, help="where to write the trace; nothing else is done then")
    parser.add_argument("--picture", type=Path, help="where to draw the trace")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(WORKS)
    if options.trace:
        os.environ["NETCL_PROFILE_EVENTS"] = "1"  # before the first queue
    for name in names:
        for handle in handles(options.devices):
            if handle.backend != "cl":
                continue
            with device(handle):
                if options.trace:
                    trace(handle, names[-1], options.trace)
                    if options.picture:
                        draw(options.trace, options.picture)
                    return
                print(f"{name:9} {handle.platform_name[:27]:28} {row(handle, name)}", flush=True)


if __name__ == "__main__":
    main()
