"""Threads that train, capture, replay, jit, fill and draw at once on a device: each has the bits of its work alone."""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import nn
from netcl.autograd import jit_compile
from netcl.autograd.training_compiler import compile_training_step
from netcl.core.device import device, get_active_device
from netcl.data import DataLoader
from netcl.optim import SGD, AdamW
from netcl.runtime.capture import capture
from netcl.trainer import Trainer

pytestmark = pytest.mark.level("capture")


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def perceptron(seed):
    model = nn.Sequential(nn.Linear(6, 5 + seed), nn.ReLU(), nn.BatchNorm1d(5 + seed), nn.Linear(5 + seed, 3))
    with ag.no_grad():
        for at, parameter in enumerate(model.parameters()):
            parameter.copy_(nc.tensor(numbers(100 * seed + at, *parameter.shape) * 0.3))
    return model


def bits(*values):
    return [value.numpy().tobytes() if hasattr(value, "numpy") else value for value in values]


def trained(seed, compiled):
    model = perceptron(seed)
    optimizer = AdamW(model.parameters(), lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compile_training_step(step) if compiled else step
    found = []
    for at in range(5):
        x, y = nc.tensor(numbers(seed + at, 8, 6)), nc.tensor(np.arange(8) % 3)
        found += bits(run(x, y))
    assert not compiled or run.replays == 3
    return found + bits(*model.parameters())


def train_eagerly(seed):
    return trained(seed, False)


def train_compiled(seed):
    return trained(seed, True)


def fit(seed):
    model = perceptron(seed)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.05, momentum=0.9))
    data = numbers(seed, 32, 6), np.arange(32) % 3
    history = trainer.fit(DataLoader(data, 8, shuffle=True, seed=seed), epochs=2, log_every=0)
    return [row["loss"] for row in history] + bits(*model.parameters())


def capture_and_replay(seed):
    state = nc.zeros(40 + seed)

    def step(x):
        state.add_(1.0)
        return nc.tanh(nc.sort(nc.cumsum(x * 0.5, 0) + state)[0])

    x = nc.tensor(numbers(seed, 40 + seed))
    captured = capture(step, x)
    results = [captured.replay(x * float(at + 1)) for at in range(3)]
    return bits(*results, state)


def infer(seed):
    model = perceptron(seed).eval()
    x = nc.tensor(numbers(seed, 4, 6))
    replay = model.compile(x)
    return bits(replay(x), replay(x * 2.0), model(x).detach())


def jit(seed):
    function = jit_compile(lambda x, w: (nc.exp(-(x @ w)) * x.sum() + w.sum(0)).mean())
    x, w = (ag.Parameter(numbers(seed + at, 3 + seed, 3 + seed)) for at in range(2))
    loss = function(x, w)
    loss.backward()
    return bits(loss.detach(), x.grad, w.grad)


def write_in_place(seed):
    x = nc.zeros(17, 9 + seed)
    for at in range(4):
        x[at:].fill_(float(at))
        x[:, 1:4].add_(0.5)
        x[at] = nc.tensor(numbers(seed, 9 + seed))
    y = nc.full((1 << 14,), float(seed))
    y.fill_(0.25)
    return bits(x, x.T @ x, y.sum(), nc.cat([x, x * 2.0])[::3])


def draw(seed):
    generator = nc.Generator().manual_seed(seed)
    drawn = [nc.randn(7, 5, generator=generator), nc.randperm(11, generator=generator)]
    return bits(*drawn, nc.rand(300, generator=generator), nc.ops.dropout(drawn[0], 0.4, seed=seed))


WORK = [train_eagerly, train_compiled, fit, capture_and_replay, infer, jit, write_in_place, draw]


def storm(workers, seconds, seed):
    """Differences and errors of ``workers`` threads, and the number of works that they did."""
    wanted = {(work, at): work(at) for work in WORK for at in range(3)}
    wrong, done, place = [], [], get_active_device()
    end = time.monotonic() + seconds

    def run(number):
        order = random.Random(1000 * seed + number)
        ran = 0
        while not wrong and (ran < len(WORK) or time.monotonic() < end):
            # The first round has each work once, in another order in each thread.
            work = WORK[(ran * (2 * number + 1) + number) % len(WORK)] if ran < len(WORK) else order.choice(WORK)
            at, ran = order.randrange(3), ran + 1
            try:
                with device(place):
                    found = work(at)
                if found != wanted[work, at]:
                    wrong.append(f"{work.__name__}({at}) has other bits")
            except Exception:  # noqa: BLE001
                wrong.append(f"{work.__name__}({at}): {traceback.format_exc()}")
        done.append(ran)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return wrong, sum(done)


def test_threads_have_the_bits_of_serial_runs(handle):
    wrong, _ = storm(4, 0, seed=0)
    assert not wrong, wrong[0]


@pytest.mark.usefixtures("handle")
def test_a_compiled_step_that_runs_in_a_capture_is_compiled_afterwards():
    total = nc.zeros(3)

    @compile_training_step
    def step(x):
        total.add_(x)
        return x * 2.0

    x = nc.ones(3)
    step(x)
    step(x)
    whole = capture(lambda y: step(y) + 1.0, x)  # where the step would be captured, which cannot nest
    assert whole.replay(x).tolist() == [3.0] * 3
    assert step(x).tolist() == [2.0] * 3
    assert step.replays == 1
    assert total.tolist() == [4.0] * 3


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_many_rounds_of_threads_have_the_bits_of_serial_runs(handle, seed):
    wrong, done = storm(6, 60, seed=seed)
    assert not wrong, wrong[0]
    assert done >= 100
