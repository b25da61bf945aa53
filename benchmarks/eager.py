"""Training steps as people write them, op by op, under netcl and PyTorch in one process by turns, and the host time of
one differentiable op.

``python benchmarks/eager.py [--device intel] [--only ops,mlp,cnn] [--seconds 2] [--quick] [--json FILE]``. A step of a
network of ``models.py`` is ``loss.backward(); optimizer.step(); optimizer.zero_grad()``, in float32 and in bfloat16
autocast; both libraries begin with the same weights, and their losses are compared before they are timed. Rows of ops
have microseconds of the host, forward and backward, for operands so small that the device's part is nothing: the least
of many repeats, as other work on the machine only adds to it. Without PyTorch the columns have netcl alone.
``--quick`` takes small batches and few repeats, to see that everything runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
from measure import Timing, handles, save, timing, torch

import netcl.torch
from netcl.core import DeviceHandle
from netcl.core.device import device
from netcl.runtime.prediction import report

Array = np.ndarray[Any, Any]
CALLS = 20  # of an op in one measurement


class Library:
    """netcl.torch or PyTorch: its names, how it makes a tensor of an array, and how it waits for its device."""

    def __init__(self, names: Any, handle: DeviceHandle) -> None:
        self.names = names
        self.label = "PyTorch" if names is torch else "netcl"
        self.place = "cuda" if names is torch and torch.cuda.is_available() else "cpu"
        self._queue = handle.queue

    def tensor(self, array: Array, requires_grad: bool = False) -> Any:
        """A tensor of the values of ``array`` on the device."""
        if self.names is torch:
            return torch.tensor(array, device=self.place, requires_grad=requires_grad)
        return self.names.tensor(array, requires_grad=requires_grad)

    def wait(self) -> None:
        """Returns when the device is idle."""
        if self.names is not torch:
            self._queue.finish()
        elif self.place == "cuda":
            torch.cuda.synchronize()

    def autocast(self, enabled: bool) -> Any:
        """A block in bfloat16."""
        return self.names.autocast(self.place, dtype=self.names.bfloat16, enabled=enabled)


# -- ops ---------------------------------------------------------------------------------------------------------------

# By name: the op on a tensor of 4 x 8, and on a weight of 8 x 8 and a bias of 8, which require grad too.
OPS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "add": lambda library, x, w, b: x + b,
    "mul by a number": lambda library, x, w, b: x * 0.5,
    "relu": lambda library, x, w, b: library.relu(x),
    "gelu": lambda library, x, w, b: library.nn.functional.gelu(x),
    "softmax": lambda library, x, w, b: library.softmax(x, -1),
    "sum": lambda library, x, w, b: x.sum(-1),
    "layer_norm": lambda library, x, w, b: library.nn.functional.layer_norm(x, (8,), b, b),
    "matmul": lambda library, x, w, b: x @ w,
    "linear": lambda library, x, w, b: library.nn.functional.linear(x, w, b),
    "reshape": lambda library, x, w, b: x.reshape(8, 4),
    "transpose": lambda library, x, w, b: x.transpose(0, 1),
    "x[1:3]": lambda library, x, w, b: x[1:3],
    "cast": lambda library, x, w, b: x.to(library.bfloat16),
    "cat": lambda library, x, w, b: library.cat((x, x)),
    "mse_loss": lambda library, x, w, b: library.nn.functional.mse_loss(x, x),
}


class OpRow:
    """Calls of an op on leaves, and the backward pass from their results."""

    def __init__(self, library: Library, name: str) -> None:
        rng = np.random.default_rng(0)
        self._library, self._op = library, OPS[name]
        w, b = rng.standard_normal((8, 8)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
        self.leaves = [
            tuple(library.tensor(each, requires_grad=True) for each in (rng.random((4, 8), np.float32), w, b))
            for _ in range(CALLS)
        ]
        self._ones = self.results()[0].detach() * 0 + 1
        self.turn()

    def results(self) -> list[Any]:
        """Calls the op on each set of leaves."""
        names, op = self._library.names, self._op
        return [op(names, x, w, b) for x, w, b in self.leaves]

    def turn(self) -> tuple[float, float]:
        """Microseconds of one op forward and backward."""
        clock, ones = time.perf_counter, [self._ones] * CALLS
        for leaf in (leaf for leaves in self.leaves for leaf in leaves):
            leaf.grad = None
        self._library.wait()
        begin = clock()
        results = self.results()
        middle = clock()
        self._library.wait()
        again = clock()
        self._library.names.autograd.backward(results, ones)
        end = clock()
        self._library.wait()
        return 1e6 * (middle - begin) / CALLS, 1e6 * (end - again) / CALLS

    def values(self) -> list[Array]:
        """The result and the gradient of its first operand."""
        first = self.results()[0]
        return [first.detach().float().cpu().numpy(), self.leaves[0][0].grad.cpu().numpy()]


class PredictedRow:
    """Calls of an op in a training loop that netcl predicts; only the calls are timed."""

    def __init__(self, library: Library, name: str) -> None:
        self._library = library
        self._row = OpRow(library, name)
        leaves = [leaf for leaves in self._row.leaves for leaf in leaves]
        self._optimizer = library.names.optim.SGD(leaves, lr=1e-6)
        for _ in range(14):  # netcl begins to predict after some steps
            self.turn()

    def turn(self) -> tuple[float]:
        """Microseconds of one op."""
        clock = time.perf_counter
        self._library.wait()
        begin = clock()
        results = self._row.results()
        end = clock()
        loss = results[0].float().sum()
        for result in results[1:]:
            loss = loss + result.float().sum()
        loss.backward()
        del results, result  # views that outlive the step are not predicted
        self._optimizer.step()
        self._optimizer.zero_grad()
        return (1e6 * (end - begin) / CALLS,)


class UpdateRow:
    """An optimizer on ``CALLS`` parameters: its step, and zero_grad with the gradients of the next step."""

    def __init__(self, library: Library, name: str) -> None:
        self._library = library
        self._parameters = [library.tensor(np.ones((4, 8), np.float32), requires_grad=True) for _ in range(CALLS)]
        self._grad = library.tensor(np.ones((4, 8), np.float32))
        options = {"momentum": 0.9} if name == "SGD" else {}
        self._optimizer = getattr(library.names.optim, name)(self._parameters, lr=0.01, **options)
        self.turn()

    def turn(self) -> tuple[float, float]:
        """Microseconds of one parameter: the step, and zero_grad."""
        clock = time.perf_counter
        for parameter in self._parameters:
            parameter.grad = self._grad
        self._library.wait()
        begin = clock()
        self._optimizer.step()
        middle = clock()
        self._library.wait()
        again = clock()
        self._optimizer.zero_grad()
        end = clock()
        return 1e6 * (middle - begin) / CALLS, 1e6 * (end - again) / CALLS

    def values(self) -> list[Array]:
        """A parameter after the steps so far."""
        return [self._parameters[0].detach().cpu().numpy()]


def op_rows(libraries: list[Library], repeats: int, chosen: set[str]) -> list[Timing]:
    """Prints the host time of each op, alone and in a loop that netcl predicts, and returns it."""
    heads = "".join(f"{one.label:>12} forward  backward" for one in libraries)
    print(f"{'host time, microseconds':<26}{heads}   predicted")
    collected = []
    for name in (*OPS, "SGD", "Adam"):
        if chosen and name not in chosen:
            continue
        rows = [(UpdateRow if name in ("SGD", "Adam") else OpRow)(library, name) for library in libraries]
        for ours, theirs in zip(rows[0].values(), rows[-1].values()):
            np.testing.assert_allclose(ours, theirs, rtol=2e-2 if name == "cast" else 1e-4, atol=1e-6, err_msg=name)
        turns = [[row.turn() for row in rows] for _ in range(repeats)]
        cells = ""
        for number, library in enumerate(libraries):
            for part, times in zip(("forward", "backward"), zip(*[turn[number] for turn in turns])):
                collected.append(timing(f"{name}, {part}", library.label, list(times), "us"))
                cells += f"{min(times):>20.1f}" if part == "forward" else f"{min(times):>10.1f}"
        if name in OPS:
            before = report().predicted
            predicted = PredictedRow(libraries[0], name)
            times = [predicted.turn()[0] for _ in range(repeats)]
            collected.append(timing(f"{name}, predicted", libraries[0].label, times, "us"))
            cells += f"{min(times):>12.1f}" if report().predicted > before else f"{'no':>12}"
        print(f"{name:<26}{cells}", flush=True)
    return collected


# -- steps -------------------------------------------------------------------------------------------------------------


# Networks with batches of so many times the size that they have on CPUs, with ``--gpu-batches``.
GPU_BATCHES = {"cnn": 4, "resnet18": 8, "resnet50": 16, "vit": 8}


class Steps:
    """A network, its optimizer and its batch."""

    def __init__(self, library: Library, name: str, half: bool, size: int | None, times: int = 1) -> None:
        self._library, self._name, self._half = library, name, half
        library.names.manual_seed(0)
        self.network = models.model(name, library.names)
        if library.names is torch:
            self.network.to(library.place)
        self.batch = [
            library.tensor(array) for inputs, wanted in [models.batch(name, size, times)] for array in (*inputs, wanted)
        ]
        self._optimizer: Any = None

    def step(self) -> Any:
        """A step, and its loss."""
        names = self._library.names
        if self._optimizer is None:
            self._optimizer = models.optimizer(self._name, names.optim, self.network.parameters())
        *inputs, wanted = self.batch
        with self._library.autocast(self._half):
            loss = models.loss(self._name, names, self.network(*inputs), wanted)
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return loss

    def turn(self, steps: int) -> float:
        """Milliseconds of one of ``steps`` steps."""
        self._library.wait()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        self._library.wait()
        return 1e3 * (time.perf_counter() - begin) / steps


def step_rows(
    libraries: list[Library], name: str, half: bool, size: int | None, seconds: float, times: int = 1
) -> list[Timing]:
    """Prints the time of a step of a network, and returns it; raises AssertionError if the losses differ."""
    works = [Steps(library, name, half, size, times) for library in libraries]
    first = {key: value.detach().cpu().numpy() for key, value in works[-1].network.state_dict().items()}
    for work in works[:-1]:
        work.network.load_state_dict(first)
    losses = [[float(work.step().detach()) for _ in range(2)] for work in works]
    for values in losses:
        np.testing.assert_allclose(
            values, losses[-1], rtol=5e-2 if half or name == "resnet50" else 2e-3, atol=1e-3, err_msg=name
        )
    for work in works:  # netcl begins to predict after some steps
        for _ in range(2 if seconds == 0 else 14):
            work.step()
    taken: list[list[float]] = [[] for _ in works]
    counts = report()
    predicted, computed, causes = counts.predicted, counts.computed, counts.causes.copy()
    # A loop waits for its device now and then, not at every other step.
    steps = 1 if seconds == 0 else max(10, int(50 / works[0].turn(1)))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken[0]) < 3:
        for work, milliseconds in zip(works, taken):
            milliseconds.append(work.turn(steps))
    row = f"{name}, {'bfloat16' if half else 'float32'}"
    cells = "".join(f"{statistics.median(milliseconds):>12.2f}" for milliseconds in taken)
    ratio = statistics.median([theirs / ours for ours, theirs in zip(taken[0], taken[-1])])
    predicted, computed = counts.predicted - predicted, counts.computed - computed
    share = f"{predicted / max(predicted + computed, 1):>11.1%}"
    print(f"{row:<26}{cells}" + (f"{ratio:>12.2f}" if len(taken) > 1 else "") + share, flush=True)
    if counts.causes != causes:
        print(f"    predictions ended by {dict(counts.causes - causes)}")
    return [timing(row, library.label, milliseconds) for library, milliseconds in zip(libraries, taken)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="a selector; the first OpenCL device when left out")
    parser.add_argument("--only", default=",".join(("ops", *models.JOBS)), help="ops, names of ops, networks")
    parser.add_argument("--seconds", type=float, default=2.0, help="for a network")
    parser.add_argument("--gpu-batches", action="store_true", help="larger batches of pictures")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    options = parser.parse_args()
    handle = handles(options.device)[-1]
    chosen = set(options.only.split(","))
    collected: list[Timing] = []
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with device(handle):
        libraries = [Library(names, handle) for names in (netcl.torch, torch) if names is not None]
        print(f"{handle.device_name}, {handle.platform_name}")
        ops = chosen.intersection((*OPS, "SGD", "Adam"))
        if "ops" in chosen or ops:
            collected += op_rows(libraries, 5 if options.quick else 200, ops)
        networks = [name for name in models.JOBS if name in chosen]
        if networks:
            columns = "".join(f"{one.label:>12}" for one in libraries)
            print(
                f"{'a step, milliseconds':<26}{columns}"
                + ("       ratio" if len(libraries) > 1 else "")
                + "  predicted"
            )
        for name in networks:
            for half in (False, True):
                size, seconds = (2, 0) if options.quick else (None, options.seconds)
                times = GPU_BATCHES.get(name, 1) if options.gpu_batches else 1
                collected += step_rows(libraries, name, half, size, seconds, times)
    save(options.json, collected)


if __name__ == "__main__":
    main()
