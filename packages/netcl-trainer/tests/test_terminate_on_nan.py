"""TerminateOnNaN: what each policy does about a NaN at step 7, and what it leaves as it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.errors import NonFiniteError
from netcl.optim import SGD, ModelEMA
from netcl.trainer import TerminateOnNaN, Trainer

Make = Callable[..., Any]


def batches(bad: int | None, count: int = 12) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Batches; number ``bad`` holds a NaN."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(1, count + 1):
        y = rng.integers(0, 3, 8)
        x = rng.normal(0, 1, (8, 1, 4, 4)).astype(np.float32)
        if number == bad:
            x[3, 0, 1, 2] = np.nan
        found.append((x, y))
    return found


def run(make: Make, loader: Any, policy: str | None, **keywords: Any) -> Trainer:
    model = make()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    callbacks = [] if policy is None else [TerminateOnNaN(policy)]
    trainer = Trainer(model, optimizer, callbacks=callbacks, metrics_stride=5, seed=1, **keywords)
    trainer.fit(loader, log_every=0)
    return trainer


def weights(trainer: Trainer) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.to_host() for name, tensor in trainer.model.state_dict().items()}


def assert_same(a: Trainer, b: Trainer) -> None:
    mine, theirs = weights(a), weights(b)
    assert [name for name in mine if mine[name].tobytes() != theirs[name].tobytes()] == []


def test_raise_names_the_step_the_op_and_the_parameter(handle: DeviceHandle, make_network: Make) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.05), callbacks=[TerminateOnNaN()], metrics_stride=5, seed=1)
    with pytest.raises(NonFiniteError, match=r"epoch 1, step 7: the batch itself holds NaN .* in field 0") as caught:
        trainer.fit(batches(7), log_every=0)
    assert caught.value.op == "conv2d"
    assert caught.value.parameter == "0.weight"
    assert trainer.step == 10
    # The weights and the running statistics are those before step 7.
    good = make_network()
    expected = Trainer(good, SGD(good.parameters(), lr=0.05), seed=1)
    expected.fit(batches(None)[:6], log_every=0)
    assert_same(trainer, expected)


def test_skip_leaves_the_batch_out(handle: DeviceHandle, make_network: Make) -> None:
    class Plain(nn.Sequential):
        """Without dropout: the random numbers of the step left out are drawn all the same."""

    def make() -> nn.Sequential:
        ops.manual_seed(0)
        return Plain(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))

    found = [batch for at, batch in enumerate(batches(7), 1) if at != 7]
    trainer, expected = run(make, batches(7), "skip"), run(make, found, None)
    assert_same(trainer, expected)
    assert trainer.history[0]["skipped_steps"] == 1
    for name in ("loss", "accuracy"):
        assert trainer.history[0][name] == pytest.approx(expected.history[0][name], rel=1e-6)


def test_rollback_goes_back_and_on(handle: DeviceHandle, make_network: Make) -> None:
    with pytest.warns(UserWarning, match=r"epoch 1, step 7; back to the state of step 0, on with the batches"):
        trainer = run(make_network, batches(7), "rollback")
    assert trainer.step == 12
    assert all(np.isfinite(value).all() for value in weights(trainer).values())
    assert math.isfinite(trainer.history[0]["loss"])
    callback = trainer.callbacks[0]
    assert isinstance(callback, TerminateOnNaN)
    assert callback.rollbacks == 1


def test_rollbacks_end(numpy_device: object, make_network: Make) -> None:
    broken = [(x * np.nan, y) for x, y in batches(None, 30)]
    with (
        pytest.warns(UserWarning, match="back to the state of step 0"),
        pytest.raises(NonFiniteError, match="after 3 rollbacks in a row"),
    ):
        run(make_network, broken, "rollback")


def test_gradients_alone_are_seen(handle: DeviceHandle) -> None:
    class Root(nn.Module):
        """sqrt at 0 has a finite value and an infinite slope."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Linear(4, 3, bias=False)

        def forward(self, x: Tensor) -> Any:
            return ag.sqrt(self.scale(x))

    x = np.ones((8, 4), np.float32)
    model = Root()
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[TerminateOnNaN()], loss_fn=ag.mse_loss)
    model.scale.weight.write(np.zeros((3, 4), np.float32))
    with pytest.raises(NonFiniteError, match=r"step 1: the first op is .*scale\.weight") as caught:
        trainer.fit([(x, np.ones((8, 3), np.float32))], log_every=0)
    assert caught.value.parameter == "scale.weight"
    assert np.array_equal(model.scale.weight.to_host(), np.zeros((3, 4), np.float32))


def test_an_epoch_of_unknown_length(numpy_device: object, make_network: Make) -> None:
    def stream() -> Iterator[Any]:
        yield from batches(2, 3)

    with pytest.raises(NonFiniteError, match="step 2"):
        run(make_network, stream(), "raise")


def test_watching_changes_no_bit(handle: DeviceHandle, make_network: Make) -> None:
    assert_same(run(make_network, batches(None), "raise"), run(make_network, batches(None), None))


def test_a_skipped_group_and_its_average(numpy_device: object, make_network: Make) -> None:
    model = make_network()
    average = ModelEMA(model, 0.5)
    trainer = Trainer(
        model, SGD(model.parameters(), lr=0.1), ema=average, callbacks=[TerminateOnNaN("skip")], accumulation_steps=3
    )
    trainer.fit(batches(7), epochs=2, log_every=0)
    assert trainer.step == 8
    assert [row["skipped_steps"] for row in trainer.history] == [1, 1]
    assert all(np.isfinite(shadow.to_host()).all() for shadow in average.shadow.values())


def test_arguments_and_optimizers_that_do_not_fit(numpy_device: object, make_network: Make) -> None:
    with pytest.raises(ValueError, match="policy must be 'raise', 'skip' or 'rollback'"):
        TerminateOnNaN("ignore")

    class Own:
        def __init__(self, params: Any) -> None:
            self.param_groups = [{"params": list(params)}]

    model = make_network()
    with pytest.raises(TypeError, match="which Own does not support"):
        Trainer(model, Own(model.parameters()), callbacks=[TerminateOnNaN()]).fit(batches(None), log_every=0)
