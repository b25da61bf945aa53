"""Old contents of pooled memory, capture while other threads launch, and gradients of NaN.

The pools hand out buffers again as they are. A new tensor that promises contents (zeros, views with padding, partial
writes) must not show what another tensor left there.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
from registry import Run, attack

import netcl as nc
import netcl.autograd
from arithmetic.engines import engines
from netcl.core import Tensor
from netcl.runtime.capture import capture

POISON = -123456.0


def poison(queue: Any, shape: tuple[int, ...]) -> None:
    """Leaves buffers of this size, full of a known number, in the pool."""
    tensors = [Tensor.from_host(queue, np.full(shape, POISON, np.float32)) for _ in range(4)]
    del tensors


def fresh_results(rng: random.Random, queue: Any, shape: tuple[int, ...]) -> list[tuple[str, Any, Any]]:
    """Returns names, results and expected arrays of operations that make new memory."""
    x = np.random.default_rng(rng.getrandbits(32)).standard_normal(shape).astype(np.float32)
    t = Tensor.from_host(queue, x)
    pad = rng.randrange(1, 4)
    wide = ((0, 0),) * (len(shape) - 1) + ((pad, pad),)
    index = rng.randrange(shape[0])
    scattered = np.zeros(shape, np.float32)
    scattered[index] = x[index]
    one = nc.zeros_like(t)
    one[index] = t[index]
    return [
        ("zeros", Tensor.zeros(shape, queue=queue), np.zeros(shape, np.float32)),
        ("zeros_like", nc.zeros_like(t), np.zeros_like(x)),
        ("ones_like", nc.ones_like(t), np.ones_like(x)),
        ("pad", nc.pad(t, wide), np.pad(x, wide)),
        ("a row written in place", one, scattered),
        ("tril", nc.tril(t), np.tril(x)),
        ("one_hot", nc.one_hot(Tensor.from_host(queue, np.arange(3)), 5), np.eye(5)[:3]),
        ("cumsum", nc.cumsum(t * 0, -1), np.zeros_like(x)),
        ("a matrix product of zeros", nc.matmul(t * 0, nc.transpose(t, -1, -2)), np.zeros((*shape[:-1], shape[-2]))),
    ]


@attack("arithmetic.old_memory", weight=1.0, least=2.0)
def old_memory(run: Run) -> None:
    """Results in buffers that held other numbers a moment ago."""
    for rng in run.cases():
        shape = (rng.randrange(3, 40), rng.randrange(3, 70))
        selector, engine = rng.choice(sorted(engines().items(), key=lambda item: item[0]))
        run.count(selector)
        for grown in (shape, (shape[0], shape[1] + 6), (shape[0], shape[0])):
            poison(engine.queue, grown)
        for name, found, wanted in fresh_results(rng, engine.queue, shape):
            if not np.allclose(found.to_host(), wanted, atol=1e-4):
                run.fail(f"{name} shows old memory on {selector}", reproducer=f"shape {shape}")


@attack("arithmetic.capture_among_threads", weight=1.0, least=3.0)
def capture_among_threads(run: Run) -> None:
    """A step is captured and replayed while other threads launch on the same queue: none sees the other's numbers."""
    for rng in run.cases():
        selector, engine = rng.choice(sorted(engines().items(), key=lambda item: item[0]))
        queue, stop, wrong = engine.queue, threading.Event(), []
        run.count(selector)
        w = Tensor.from_host(queue, np.eye(16, dtype=np.float32) * 2)

        def launch(number: int, queue: Any = queue, stop: Any = stop, wrong: list[str] = wrong) -> None:
            x = np.full((16, 16), number, np.float32)
            t = Tensor.from_host(queue, x)
            while not stop.is_set():
                if not np.array_equal((t + t * 2).to_host(), x * 3):
                    wrong.append(f"the sums of thread {number}")
                    return

        threads = [threading.Thread(target=launch, args=(number,)) for number in range(1, 3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                x = Tensor.from_host(queue, np.full((16, 16), rng.randrange(1, 9), np.float32))
                step = capture(lambda a, w=w: nc.relu(a @ w) + 1, x)
                for _ in range(5):
                    values = np.full((16, 16), rng.randrange(1, 99), np.float32)
                    found = step.replay(Tensor.from_host(queue, values)).to_host()
                    if not np.array_equal(found, values * 2 + 1):
                        wrong.append(f"a replay gives {found[0, 0]} for {values[0, 0]}")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        for text in wrong[:1]:
            run.fail(f"capture among threads on {selector}", reproducer=text)


FUNCTIONS = ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "sin", "square", "softplus", "gelu")


@attack("arithmetic.gradients_of_nan", weight=1.0, least=2.0)
def gradients_of_nan(run: Run) -> None:
    """A NaN in the input or the loss reaches the gradients that depend on it, and no others, on every engine alike."""
    for rng in run.cases():
        name = rng.choice(FUNCTIONS)
        values = np.random.default_rng(rng.getrandbits(32)).uniform(0.1, 2, 12).astype(np.float32)
        at = rng.randrange(12)
        values[at] = rng.choice((np.nan, np.inf, -np.inf))
        found = {}
        for selector, engine in engines().items():
            run.count(selector)
            x = Tensor.from_host(engine.queue, values)
            x.requires_grad = True
            (getattr(nc, name)(x) * 2).sum().backward()
            found[selector] = x.grad.to_host()
            others = np.delete(found[selector], at)
            if not np.isfinite(others).all():
                run.fail(f"{name}: a NaN reaches other gradients on {selector}", reproducer=str(values.tolist()))
        first = next(iter(found.values()))
        for selector, gradient in found.items():
            if not np.allclose(gradient, first, rtol=1e-4, atol=1e-5, equal_nan=True):
                text = f"{values[at]} at {at}: {gradient[at]} on {selector}, {first[at]} on cpu"
                run.fail(f"{name}: gradients of NaN differ on {selector}", reproducer=text)
