"""The libraries that netcl is compared with, each in a process and, if need be, an environment of its own.

A peer takes part where its library is installed in the running environment, or in ``.nox/peers/NAME`` of the checkout,
which ``nox -s bench`` makes. Those on OpenCL take part once for each driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from ctypes.util import find_library
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rows import Row

from netcl.core import DeviceHandle
from netcl.core.device.icd import find_drivers

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent / ".nox" / "peers"
# Name: (label, module, whether it runs on OpenCL drivers)
PEERS = {
    "numpy_": ("NumPy", "numpy", False),
    "pytorch": ("PyTorch", "torch", False),
    "compiled": ("torch.compile", "torch", False),
    "onnxruntime_": ("ONNX Runtime", "onnxruntime", False),
    "tinygrad_": ("tinygrad", "tinygrad", True),
    "clblast": ("CLBlast", "pyopencl", True),
}
_LIBRARIES = {"Intel": "intelocl", "PoCL": "pocl"}  # what the file of a driver's library is called


def driver_of(handle: DeviceHandle) -> str:
    """The short name of a device's driver."""
    first = handle.platform_name.split()[0]
    return {"Portable": "PoCL", "Intel(R)": "Intel"}.get(first, first)


class Peer:
    """A contestant in a process of its own; it says what it cannot do, and is left out of that."""

    def __init__(self, python: str, name: str, env: dict[str, str]) -> None:
        command = [python, "-m", "peers.worker", name]
        self._process = subprocess.Popen(
            command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
        )

    def _ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def takes(self, what: Row | dict[str, Any]) -> bool:
        """True if it has prepared the work of a row or a request (see peers/worker.py) and run it once; False if the
        process ended.
        """
        return bool(self._ask(**(what if isinstance(what, dict) else {"row": asdict(what)})))

    def burst(self, seconds: float) -> list[float]:
        """Milliseconds of single runs, see ``bursts.burst``."""
        times: list[float] | None = self._ask(seconds=seconds)
        if times is None:
            raise RuntimeError(f"a peer ended while it was timed: {self._process.args}")
        return times

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def python_of(name: str, module: str) -> str | None:
    """The interpreter of a peer: this one if it has the library, else that of the environment, None without either."""
    if name == "clblast" and find_library("clblast") is None:
        return None
    if find_spec(module) is not None:
        return sys.executable
    for folder, file in (("bin", "python"), ("Scripts", "python.exe")):
        python = ENVIRONMENTS / module / folder / file
        if python.exists():
            return str(python)
    return None


def _one_driver(handle: DeviceHandle, folder: Path) -> dict[str, str]:
    """The environment in which OpenCL shows a device's driver, alone where the loader is the system's."""
    name = driver_of(handle)
    for driver in find_drivers():
        library = Path(driver.library)
        if _LIBRARIES.get(name, name.lower()) in library.name.lower():
            if not library.is_absolute():  # it is next to its .icd, which the origin names
                library = Path(driver.origin.rpartition(" ")[2]).parent / library
            (folder / "driver.icd").write_text(f"{library}\n")
    return {"OCL_ICD_VENDORS": str(folder), "PEERS_PLATFORM": handle.platform_name}


@contextmanager
def peers(wanted: str, devices: list[DeviceHandle]) -> Iterator[dict[str, Peer]]:
    """The peers ``wanted`` ("pytorch,tinygrad", "": none) that are installed, by label; they end with the block."""
    with ExitStack() as stack:
        found: dict[str, Peer] = {}
        for name, (label, module, on_opencl) in PEERS.items():
            python = python_of(name, module) if name.strip("_") in wanted.split(",") else None
            if python is None:
                continue
            for handle in [each for each in devices if each.backend == "cl"] if on_opencl else [None]:
                env = {}
                if handle is not None:
                    env = _one_driver(handle, Path(stack.enter_context(tempfile.TemporaryDirectory())))
                peer = Peer(python, name, env)
                stack.callback(peer.close)
                found[label if handle is None else f"{label}, {driver_of(handle)}"] = peer
        yield found
