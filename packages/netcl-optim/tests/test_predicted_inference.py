"""Loops of calls without gradients, which are predicted from one call of a module to the next: eager bits, always."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import nn, optim
from netcl.autograd import inference_mode, no_grad
from netcl.core import Tensor, config
from netcl.core.errors import ShapeError
from netcl.runtime.prediction import report
from netcl.runtime.stream import Stream

pytestmark = pytest.mark.level("capture")


@pytest.fixture(autouse=True)
def predicting() -> Iterator[None]:
    """Predicts in a run of the suite without prediction, too."""
    with config.override(REPLAY=None) if config.get("REPLAY") == "off" else nullcontext():
        yield


def network(width: int = 8, depth: int = 8) -> nn.Sequential:
    nc.manual_seed(3)
    layers: list[Any] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh(), nn.LayerNorm(width)]
    return nn.Sequential(*layers)


def inputs(count: int = 24, rows: int = 4, width: int = 8) -> list[Tensor]:
    rng = np.random.default_rng(5)
    return [Tensor.from_host(rng.standard_normal((rows, width)).astype(np.float32)) for _ in range(count)]


def compared(loop: Callable[[], list[Any]], least: int = 8) -> None:
    """Checks the values of ``loop()``, a list of tensors and numbers, with prediction and without, and that at least
    ``least`` periods were replayed.
    """
    before = report().replays
    predicted = loop()
    assert report().replays - before >= least, report()
    with config.override(REPLAY="off"):
        eager = loop()
    assert len(predicted) == len(eager)
    for got, want in zip(predicted, eager):
        if isinstance(want, Tensor):
            assert (got.dtype, got.shape, got._version) == (want.dtype, want.shape, want._version)
            got, want = got.numpy(), want.numpy()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("block", [no_grad, inference_mode])
def test_results_that_are_kept_or_read(block: Any) -> None:
    def loop() -> list[Any]:
        model, kept = network(), list[Any]()
        with block():
            for at, x in enumerate(inputs(40)):
                y = model(x)
                if at % 3 == 0:
                    kept.append(y)
                kept.append(y.argmax(1))
                kept.append((y * y).sum().item())
        return kept

    compared(loop)


def test_the_last_period_is_computed_when_it_is_read() -> None:
    def loop() -> list[Any]:
        model = network()
        with no_grad():
            for x in inputs():
                y = model(x)
        return [y, y + 1]

    compared(loop)


def test_weights_that_change_between_calls() -> None:
    def loop() -> list[Any]:
        model, kept = network(), list[Any]()
        with no_grad():
            for at, x in enumerate(inputs(48)):
                if at % 7 == 3:
                    model[0].weight.copy_(model[0].weight * 0.5)
                if at == 30:
                    model[3].weight = nn.Parameter(model[3].weight * 2)
                kept.append(model(x).mean(0))
        return kept

    compared(loop, least=4)


def test_other_shapes_and_an_exception() -> None:
    def loop() -> list[Any]:
        model, kept = network(), list[Any]()
        with no_grad():
            for at, x in enumerate(inputs(60)):
                if at % 17 == 16:
                    x = x[:2]
                if at % 19 == 18:
                    with pytest.raises(ShapeError):
                        model(x[:, :5])
                kept.append(model(x))
        return kept

    compared(loop)


def test_statistics_and_a_cache_that_the_loop_writes() -> None:
    def loop() -> list[Any]:
        nc.manual_seed(1)
        model = nn.Sequential(network(), nn.BatchNorm1d(8), nn.Dropout(0.3))
        cache, kept = nc.zeros((4, 8)), list[Any]()
        with no_grad():
            for x in inputs(30):
                y = model(x)
                cache.add_(y)
                kept.append((cache * 1).sum())
        return [*kept, cache, model[1].running_mean, model[1].num_batches_tracked]

    compared(loop)


def test_an_evaluation_between_steps_of_training() -> None:
    def loop() -> list[Any]:
        model, kept = network(), list[Any]()
        optimizer = optim.SGD(model.parameters(), lr=0.05)
        for _ in range(3):
            for x in inputs(14):
                optimizer.zero_grad()
                loss = (model(x) ** 2).mean()
                loss.backward()
                optimizer.step()
            with no_grad():
                for x in inputs(16):
                    kept.append((model(x) ** 2).mean().item())
        return [*kept, *model.parameters()]

    before = report().replays
    compared(loop)
    assert report().replays - before > 20  # of both


def test_a_model_without_gradients_in_each_step_is_a_part_of_it() -> None:
    def loop() -> list[Any]:
        model, teacher = network(), network(depth=2)
        optimizer = optim.SGD(model.parameters(), lr=0.05)
        for _ in range(24):
            for x in inputs(12):  # more calls of the teacher than a loop needs that is predicted by them
                with no_grad():
                    wanted = teacher(x)
                ((model(x) - wanted) ** 2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return list(model.parameters())

    compared(loop, least=10)


def test_a_wait_for_the_device_computes_the_period() -> None:
    model, stream = network(), Stream()
    with no_grad():
        for x in inputs(20):
            y = model(x)
            before = report().replays
            stream.synchronize()
    assert report().replays == before + 1
    assert y._storage.deferred is None


def test_a_model_that_is_gone_takes_its_period_with_it() -> None:
    model = network()
    before = report().replays
    with no_grad():
        for x in inputs():
            model(x).sum().item()
    assert report().replays > before
    freed = weakref.ref(model[0].weight)
    del model, x
    gc.collect()
    assert freed() is None


def test_short_loops_stay_eager() -> None:
    model = nn.Linear(8, 8)
    before = report().replays
    with no_grad(), config.override(REPLAY=None):
        for x in inputs():
            model(x).sum().item()
    assert report().replays == before


def test_threads_have_loops_of_their_own() -> None:
    model = network()
    with no_grad():
        wanted = [model(x).numpy() for x in inputs(6)]
    results: list[list[Any]] = []

    def work() -> None:
        with no_grad():
            results.append([model(x).numpy() for x in inputs(6) * 5])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    for each in results:
        for got, want in zip(each, wanted * 5):
            np.testing.assert_array_equal(got, want)
