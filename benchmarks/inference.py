"""Times inference: netcl captured and eager on each device, PyTorch, torch.compile and ONNX Runtime, in turn.

``python benchmarks/inference.py [--devices intel,pocl] [--peers pytorch,compiled,onnxruntime] [--only mlp,cnn]
[--seconds 4] [--profile] [--json FILE]``. Rows are the networks of ``models.py`` on their batches, "NAME 1" on one
sample; netcl writes the ONNX files. Outputs of ONNX Runtime are compared with netcl's. The columns are those of
training.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from contest import Captured, arguments, captured, contest, heading, keep
from models import JOBS, batch, model
from peer_processes import peers

import netcl
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.io import export_onnx

ROWS = ("mlp 1", *JOBS)


def network_of(row: str) -> tuple[str, int | None]:
    """The network and the count of samples of a row."""
    name, _, size = row.partition(" ")
    return name, int(size) if size else None


def netcl_works(row: str, handle: DeviceHandle) -> dict[str, Captured | Callable[[], object]]:
    """The captured work on a device, and for one sample the eager one."""
    name, size = network_of(row)
    network = model(name, netcl).eval()
    given = tuple(Tensor.from_host(handle, array) for array in batch(name, size)[0])

    def infer(*given: Tensor) -> Tensor:
        with netcl.no_grad():
            found: Tensor = network(*given)
        return found

    def eager() -> None:
        infer(*given)
        given[0].queue.finish()

    works: dict[str, Captured | Callable[[], object]] = {"": captured(infer, given)}
    return works | ({" eager": eager} if size is not None else {})


def write_onnx(row: str, folder: Path) -> Path | None:
    """Writes the network of a row and its inputs and outputs; None if it has an op that netcl does not write."""
    name, size = network_of(row)
    inputs, _ = batch(name, size)
    file = folder / f"{row.replace(' ', '-')}.onnx"
    with device("cpu"), netcl.no_grad():
        network = model(name, netcl).eval()
        given = tuple(Tensor.from_host(array) for array in inputs)
        try:
            export_onnx(network, given, file, dynamic_batch=False)
        except netcl.core.errors.NetclError as error:
            print(f"{row}: no ONNX file: {error}")
            return None
        np.savez(file.with_suffix(".npz"), *inputs, wanted=network(*given).numpy())
    return file


def main() -> None:
    options, devices = arguments(__doc__, ROWS)
    found = []
    peaks = heading(devices)
    with peers(options.peers, devices) as others, tempfile.TemporaryDirectory() as folder:
        for row in options.only.split(","):
            name, size = network_of(row)
            file = write_onnx(row, Path(folder)) if "ONNX Runtime" in others else None
            found += contest(
                row,
                others,
                {"infer": name, "size": size, "file": file and str(file)},
                devices,
                lambda handle, row=row: netcl_works(row, handle),  # type: ignore[misc]
                peaks,
                options.seconds,
                options.profile,
            )
            keep(options.json, peaks, found)


if __name__ == "__main__":
    main()
