"""The cost of the checks of files: times of saving and loading with them and without them, by turns.

The checks are the counts of the Budget, and the checksums of a safetensors file. The hash of a ``.netcl`` file and
the sums of a ``.pt`` archive, which other programs compare, belong to their formats. Prints the medians of the time
and of the processor time of all threads, with and without, and the median ratio of the pairs.
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
        nothing = dict.fromkeys(safetensors_module._SUMS, lambda data: 0)
        stack.enter_context(mock.patch.dict(safetensors_module._SUMS, nothing))
        yield


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """The time of one call, and the processor time of the process."""
    start, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - processor


Times = list[tuple[float, float]]


def measured(suffix: str, model: Any, rounds: int, folder: Path) -> dict[str, tuple[Times, Times]]:
    """Times of saving and loading, each with the checks and without them."""
    save, load = FORMATS[suffix]
    found: dict[str, tuple[Times, Times]] = {"save": ([], []), "load": ([], [])}
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


def compared(with_: Times, without: Times, which: int) -> str:
    """The medians, the ratio of the pairs and that of the fastest; of the time (0) or the processor time (1)."""
    pairs = [(a[which], b[which]) for a, b in zip(with_, without)]
    a, b = (statistics.median(column) * 1e3 for column in zip(*pairs))
    least = min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs)
    return f"{a:8.2f} {b:8.2f}  {statistics.median(x / y for x, y in pairs):.3f} (of the fastest: {least:.3f})"


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
                print(f"{suffix:13} {what}  {compared(with_, without, 0)}   processor {compared(with_, without, 1)}")


if __name__ == "__main__":
    main()
