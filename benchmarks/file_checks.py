"""The cost of the checks of files: times of saving and loading with them and without them, by turns.

The checks are the counts of the Budget, and the CRC-32 sums of a safetensors file. The hash of a ``.netcl`` file and
the sums of a ``.pt`` archive, which other programs compare, belong to their formats. Prints the ratio of the medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from netcl import nn
from netcl.io import load_model, load_safetensors, load_torch, save_model, save_safetensors, save_torch
from netcl.io import safetensors as safetensors_module
from netcl.io.budget import Meter

FORMATS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    ".netcl": (save_model, load_model),
    ".safetensors": (save_safetensors, load_safetensors),
    ".pt": (save_torch, load_torch),
}


@contextmanager
def unchecked() -> Iterator[None]:
    """Within the block a reader counts nothing, and safetensors files have and need no sums."""
    with ExitStack() as stack:
        for name in ("spend", "count", "take", "check_depth"):
            stack.enter_context(mock.patch.object(Meter, name, lambda *given: None))
        stack.enter_context(mock.patch.object(safetensors_module, "crc32", lambda data, start=0: 0))
        yield


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured(suffix: str, model: Any, rounds: int, folder: Path) -> dict[str, tuple[list[float], list[float]]]:
    """Times of saving and loading, each with the checks and without them."""
    save, load = FORMATS[suffix]
    found: dict[str, tuple[list[float], list[float]]] = {"save": ([], []), "load": ([], [])}
    paths = folder / f"with{suffix}", folder / f"without{suffix}"
    for number in range(rounds + 1):
        for which in (0, 1) if number % 2 else (1, 0):
            path = paths[which]
            with unchecked() if which else ExitStack():
                saved, loaded = seconds(lambda path=path: save(model, path)), seconds(lambda path=path: load(path))
            if number:  # the first round warms up
                found["save"][which].append(saved)
                found["load"][which].append(loaded)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--width", type=int, default=1024, help="of the four layers of the model (1024: 16 MiB)")
    options = parser.parse_args()
    os.environ.setdefault("NETCL_DEVICE", "cpu")
    model = nn.Sequential(*(nn.Linear(options.width, options.width) for _ in range(4)))
    size = sum(parameter.size for parameter in model.parameters()) * 4 >> 20
    print(
        f"{size} MiB of weights, {options.rounds} rounds by turns; milliseconds with checks, without, and their ratio"
    )
    with tempfile.TemporaryDirectory() as folder:
        for suffix in FORMATS:
            for what, (with_, without) in measured(suffix, model, options.rounds, Path(folder)).items():
                a, b = statistics.median(with_), statistics.median(without)
                pairs = statistics.median(x / y for x, y in zip(with_, without))
                least = min(with_) / min(without)
                print(f"{suffix:13} {what}  {a * 1e3:8.2f} {b * 1e3:8.2f}  {pairs:.3f} (of the fastest: {least:.3f})")


if __name__ == "__main__":
    main()
