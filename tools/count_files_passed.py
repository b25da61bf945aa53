"""Counts the files of netcl, and the Python calls in them, that a call of some journeys passes.

    python tools/count_files_passed.py [--files] [--before 3] [journey ...]

A journey is what a user does: an eager op, a training step, the call that captures it, its replay. It is made
``--before`` times first: a plan is made by the second call, and ``--before 1`` counts that. Generated code counts as
the file that generates it. ``--files`` also lists the files and the calls in each. The device is NETCL_DEVICE, NumPy if
that is not set.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

os.environ.setdefault("NETCL_DEVICE", "cpu")
os.environ["NETCL_REPLAY"] = "off"  # the calls themselves, not predicted ones

import numpy as np

import netcl.autograd as ag
from netcl import nn, ops, optim
from netcl.core import Tensor
from netcl.runtime.capture import capture

_BATCH, _IN, _OUT = 8, 16, 4


class Passed(NamedTuple):
    """Python calls by file, and changes from one file to another."""

    calls: Counter[str]
    hops: int


def passed(call: Callable[[], object]) -> Passed:
    """Returns the files of netcl that ``call()`` passes."""
    calls: Counter[str] = Counter()
    hops = 0
    last = ""

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal hops, last
        if event != "call":
            return
        name = frame.f_code.co_filename.replace(os.sep, "/")
        _, package, rest = name.rpartition("netcl/")
        if package and "site-packages" not in name.rpartition("netcl/")[0]:
            rest = rest.rstrip(">").split(" ")[0]
            calls[rest] += 1
            hops += rest != last
            last = rest

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Passed(calls, hops)


def _tensor(*shape: int, requires_grad: bool = False) -> Tensor:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    tensor: Tensor = Tensor.from_host(values)
    tensor.requires_grad = requires_grad
    return tensor


def _training(*hidden: int) -> tuple[Callable[..., Tensor], tuple[Tensor, Tensor]]:
    layers: list[nn.Module] = [nn.Linear(_IN, hidden[0] if hidden else _OUT)]
    for at, width in enumerate(hidden):
        layers += [nn.ReLU(), nn.Linear(width, (*hidden, _OUT)[at + 1])]
    model = nn.Sequential(*layers) if hidden else layers[0]
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    labels = Tensor.from_host(np.arange(_BATCH, dtype=np.int64) % _OUT)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = ag.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, (_tensor(_BATCH, _IN), labels)


def journeys() -> dict[str, Callable[[], object]]:
    """Returns the journeys by name; a warm call of each is counted."""
    x, weight, bias = _tensor(_BATCH, _IN), _tensor(_IN, _OUT), _tensor(_OUT)
    rows = _tensor(_OUT, _IN)
    leaf = _tensor(_IN, _OUT, requires_grad=True)
    step, batch = _training()
    deep_step, deep_batch = _training(_OUT)
    captured_step, captured_batch = _training()
    replayed_step, replayed_batch = _training()
    replayed_step(*replayed_batch)
    recorded = capture(replayed_step, *replayed_batch)

    def forward() -> Tensor:
        result: Tensor = ag.sum(ag.relu(ag.matmul(x, leaf) + bias))
        return result

    def forward_and_backward() -> None:
        leaf.grad = None
        forward().backward()  # type: ignore[attr-defined]

    jitted = ag.jit_compile(lambda a: ag.relu(ag.matmul(a, leaf) + bias))
    return {
        "add": lambda: ops.add(x, x),
        "relu(matmul + bias)": lambda: ops.relu(ops.add(ops.matmul(x, weight), bias)),
        "linear": lambda: ops.linear(x, rows, bias),
        "forward": forward,
        "forward and backward": forward_and_backward,
        "jitted forward": lambda: jitted(x),
        "training step": lambda: step(*batch),
        "of two layers": lambda: deep_step(*deep_batch),
        "capture": lambda: capture(captured_step, *captured_batch),
        "replay": lambda: recorded.replay(*replayed_batch),
    }


def main() -> int:
    """Prints a line for each journey."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("journey", nargs="*", help="names of journeys; all of them if none is given")
    parser.add_argument("--before", type=int, default=3, help="calls before the one that is counted")
    parser.add_argument("--files", action="store_true", help="list the files and the calls in each")
    options = parser.parse_args()
    known = journeys()
    unknown = set(options.journey) - set(known)
    if unknown:
        parser.error(f"unknown journeys {sorted(unknown)}; there are {sorted(known)}")
    print(f"{'journey':24}{'files':>6}{'calls':>7}{'hops':>6}")
    for name in options.journey or known:
        for _ in range(options.before):
            known[name]()
        seen = passed(known[name])
        print(f"{name:24}{len(seen.calls):6}{sum(seen.calls.values()):7}{seen.hops:6}")
        if options.files:
            for file, count in seen.calls.most_common():
                print(f"    {count:5}  {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
